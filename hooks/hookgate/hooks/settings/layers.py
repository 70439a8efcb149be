"""Merges the layers of settings into one configuration.

All errors are found when the settings are loaded, and reported with file, line and remedy. Each layer is read
apart (see reading.py).
"""

import hashlib
import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from hookgate.hooks.errors import Problem, SettingsError
from hookgate.hooks.settings.configuration import Configuration, EngineLimits, Group, Hook, without_copies
from hookgate.hooks.settings.reading import LayerReading, read_layer
from hookgate.hooks.settings.sources import GEMINI_LAYERS, LAYERS, SettingsSource

log = logging.getLogger("hookgate.hooks")


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of reading settings files, with all problems."""

    configuration: Configuration
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    """Suspicious settings that do not prevent a start, such as unknown keys."""
    ignored: tuple[Problem, ...] = ()
    """Problems of layers that affect their own hooks only, and must not prevent the use of other settings."""

    @property
    def off(self) -> tuple[Hook, ...]:
        """The hooks that are switched off, or overridden by another layer."""
        return self.configuration.off


def load_settings(files: Iterable[Path]) -> Configuration:
    """Read the given settings files, highest precedence first. Raises SettingsError."""
    return load_sources([SettingsSource(path) for path in files])


def load_sources(places: Iterable[SettingsSource]) -> Configuration:
    """Read the settings of several layers. Raises SettingsError, which lists all problems.

    Of several hooks with the same name and command, or the same policy and options, the first is kept. A hook
    that any file disables is off.
    All hooks are off if any file sets `tools.enableHooks`, `hooks.enabled` or `hooksConfig.enabled` to false.
    The policy layer is exempt from all of this. Extensions and untrusted projects affect their own hooks
    only, and their problems are only logged.
    """
    loaded = read_sources(places)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    if loaded.problems:
        raise SettingsError(loaded.problems)
    for problem in loaded.ignored:
        log.warning("%s (the other settings are in use)", problem)
    return loaded.configuration


def read_sources(places: Iterable[SettingsSource]) -> Loaded:
    """Read the settings of several layers, and skip malformed hooks and groups, which become problems."""
    return merge_layers(list(filter(None, map(read_layer, places))))


def merge_layers(readings: Iterable[LayerReading]) -> Loaded:
    """Merge layers into one configuration. They take effect by precedence, whatever their order is."""
    ordered = sorted(readings, key=lambda reading: LAYERS.index(reading.source.layer))
    problems: dict[bool, list[Problem]] = {True: [], False: []}
    for reading in ordered:
        problems[reading.source.binds_all] += reading.problems
    configuration, unused = _merge(ordered)
    warnings = [warning for reading in ordered for warning in (*reading.warnings, *_emptiness(reading))]
    return Loaded(configuration, tuple(problems[True]), (*warnings, *unused), tuple(problems[False]))


def _merge(readings: Sequence[LayerReading]) -> tuple[Configuration, list[Problem]]:
    """Return the configuration, and a warning for each hook in whose place another one runs."""
    declared = [group for reading in readings for group in reading.groups]
    is_on = _switches(readings)
    on = [(group, hook) for group in declared for hook in group.hooks if is_on(hook)]
    # Copies with the same matcher and `when` are dropped here, others in Configuration.matching_groups.
    matchers = {hook: group.matcher.pattern for group, hook in on}
    running = without_copies(
        matchers,
        lambda hook: (hook.event, *hook.copy_key, matchers[hook], repr(hook.config.when)),
    )
    kept = set(running.values())
    groups: dict[str, list[Group]] = {}
    for group in declared:
        hooks = tuple(hook for hook in group.hooks if hook in kept)
        if hooks:
            groups.setdefault(hooks[0].event, []).append(Group(hooks, group.sequential, group.matcher))
    configuration = Configuration(
        {event: tuple(event_groups) for event, event_groups in groups.items()},
        _limits(readings),
        _revision(readings),
        tuple(target for reading in readings for target in reading.config.http_targets),
        tuple(hook for group in declared for hook in group.hooks),
        is_on,
        next((reading.source.revision for reading in readings if reading.source.revision is not None), None),
    )
    return configuration, list(_unused(running))


def _unused(running: Mapping[Hook, Hook]) -> Iterator[Problem]:
    """Yield a warning for each hook in whose place a copy with other settings runs. `running` has both."""
    for hook, copy in running.items():
        if hook.config != copy.config:
            other = f"{copy.source}:{copy.line}" if copy.line else str(copy.source)
            message = (
                f"hooks.{hook.event}: the hook {hook.name!r} is not used, because {other} has another one "
                "with this name and target; to use both, give each a name of its own"
            )
            yield Problem(hook.source, message, hook.line)


def _emptiness(reading: LayerReading) -> Iterator[Problem]:
    """Yield a warning if an operator names the file and it has neither hooks nor switches nor problems.

    This is never a problem, not even in policy files: the hooks of a running gateway may be removed.
    """
    if reading.source.layer not in GEMINI_LAYERS and not reading.has_effect:
        yield Problem(reading.source.path, "contains no hooks; write them below the key 'hooks'")


def _revision(readings: Sequence[LayerReading]) -> str:
    """Return a hash of the settings, 12 hexadecimal digits, which is the same in all processes."""
    digest = hashlib.sha256()
    for reading in readings:
        for text in (reading.source.layer, str(reading.source.path), reading.text):
            digest.update(f"{len(text)}:{text}".encode("utf-8", "surrogateescape"))
    return digest.hexdigest()[:12]


def _limits(readings: Sequence[LayerReading]) -> EngineLimits:
    """Return the limits. Each comes from the highest layer that sets it."""
    configs = [reading.config for reading in readings]
    deadline = next((config.deadline for config in configs if config.deadline is not None), None)
    concurrency = next((config.concurrency for config in configs if config.concurrency is not None), None)
    programs = next((config.programs for config in configs if config.programs is not None), None)
    defaults = EngineLimits()
    return EngineLimits(
        defaults.deadline if deadline is None else deadline / 1000,
        defaults.concurrency if concurrency is None else concurrency,
        defaults.programs if programs is None else programs,
    )


def _switches(readings: Sequence[LayerReading]) -> Callable[[Hook], bool]:
    """Return a predicate for hooks that are on.

    Hooks of policies are always on. Some layers can switch off their own hooks only.
    """
    shared = _hooks_left_on([reading for reading in readings if reading.source.binds_all])
    own = {
        reading.source.path: _hooks_left_on([reading]) for reading in readings if not reading.source.binds_all
    }

    def is_on(hook: Hook) -> bool:
        if hook.layer == "policy":
            return True
        return shared(hook.name) and (hook.source not in own or own[hook.source](hook.name))

    return is_on


def _hooks_left_on(readings: Sequence[LayerReading]) -> Callable[[str], bool]:
    """Return a predicate for the names of hooks that these layers leave on."""
    enabled = all(reading.enabled for reading in readings)
    disabled = frozenset().union(*(reading.disabled for reading in readings))
    return lambda name: enabled and name not in disabled
