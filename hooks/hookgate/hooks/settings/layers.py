"""Merges the `hooks` sections of all layers into one configuration.

All errors are found here, when the settings are loaded, and reported with file, line and remedy. A running
gateway never encounters a malformed hook.
"""

import hashlib
import json
import logging
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, TypeAdapter, ValidationError

from hookgate.hooks.errors import Problem, SettingsError
from hookgate.hooks.settings import claude_names, files
from hookgate.hooks.settings.commands import command_problem, search_problem, unset_variables
from hookgate.hooks.settings.configs import (
    AnyConfig,
    BuiltinConfig,
    CommandConfig,
    FileConfig,
    GroupConfig,
    OnError,
    When,
)
from hookgate.hooks.settings.configuration import (
    EVENTS,
    GEMINI_LAYERS,
    LAYERS,
    Configuration,
    EngineLimits,
    Group,
    Hook,
    Layer,
    Literally,
    Matcher,
    SettingsSource,
    display_target,
    project_of,
    without_copies,
)
from hookgate.hooks.settings.files import SettingsFile, closest_name, parse_settings, read_settings
from hookgate.hooks.settings.matcher_advice import (
    condition_mistakes,
    find_matcher_mistake,
    option_mistakes,
    wildcards_as_regex,
)

log = logging.getLogger("hookgate.hooks")

_NOT_EVENTS = ("enabled", "disabled", "notifications")  # other keys of the `hooks` object
_SECTIONS = ("hooks", "hooksConfig")
_IGNORED = frozenset({"source", "matcher"})  # Gemini CLI's own bookkeeping
_CONDITIONS = tuple(field.alias or name for name, field in When.model_fields.items())
_GROUP_EXAMPLE = '{"hooks": [{"type": "command", "command": "./guard.sh"}]}'
_GROUP_MISTAKES = {
    kind: f"{problem}; write hooks in a list: {_GROUP_EXAMPLE}".replace("{", "{{").replace("}", "}}")
    for kind, problem in (("missing", "is missing"), ("list_type", "must be a list"))
}
_SHORT_TIMEOUT_MS = 50
"""A shorter timeout probably is a number of seconds, as in Claude Code."""
_HOOK: TypeAdapter[AnyConfig] = TypeAdapter(Annotated[AnyConfig, Field(discriminator="type")])


@dataclass(frozen=True, slots=True)
class Loaded:
    """The result of reading settings files, with all problems."""

    configuration: Configuration
    problems: tuple[Problem, ...] = ()
    warnings: tuple[Problem, ...] = ()
    """Suspicious settings that do not prevent a start, such as unknown keys."""
    ignored: tuple[Problem, ...] = ()
    """Problems of untrusted projects, which must not prevent the use of other settings."""

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
    only, and problems of untrusted projects are only logged.
    """
    loaded = read_sources(places)
    for warning in loaded.warnings:
        log.warning("%s", warning)
    if loaded.problems:
        raise SettingsError(loaded.problems)
    for problem in loaded.ignored:
        log.warning("%s (ignored, since the project is not trusted; the other settings are in use)", problem)
    return loaded.configuration


def read_sources(places: Iterable[SettingsSource]) -> Loaded:
    """Read the settings of several layers, and skip malformed hooks and groups, which become problems."""
    files: list[tuple[SettingsSource, SettingsFile]] = []
    problems: dict[bool, list[Problem]] = {True: [], False: []}
    for place in sorted(places, key=lambda place: LAYERS.index(place.layer)):
        try:
            files.append((place, _read(place)))
        except FileNotFoundError:
            if place.required:
                message = "cannot be read: No such file or directory; check the path"
                problems[place.needs_trust].append(Problem(place.path, message))
        except SettingsError as error:
            problems[place.needs_trust] += error.problems
    configuration = _merge([(place, file, _file_config(place, file)) for place, file in files])
    for place, file in files:
        problems[place.needs_trust] += file.problems
    warnings = tuple(warning for _, file in files for warning in file.warnings)
    return Loaded(configuration, tuple(problems[False]), warnings, tuple(problems[True]))


def _read(place: SettingsSource) -> SettingsFile:
    """Return the settings of a source. Raises SettingsError, and FileNotFoundError for a missing file."""
    strict = place.layer == "policy"
    if place.revision is not None:
        return parse_settings(place.path, place.revision.text, strict=strict)
    return read_settings(place.path, strict=strict, any_kind=place.required)


LayerSection = tuple[SettingsSource, SettingsFile, FileConfig]


def _merge(sections: Sequence[LayerSection]) -> Configuration:
    """Merge files into one configuration, highest precedence first."""
    declared = [group for section in sections for group in _groups(*section)]
    is_on = _switches(sections)
    on = [(group, hook) for group in declared for hook in group.hooks if is_on(hook)]
    # Copies with the same matcher and `when` are dropped here, others in Configuration.matching_groups.
    matchers = {hook: group.matcher.pattern for group, hook in on}
    running = without_copies(
        matchers,
        lambda hook: (hook.event, *hook.copy_key, matchers[hook], repr(hook.config.when)),
    )
    _warn_of_unused(sections, running)
    _warn_of_empty(sections, {hook.source for group in declared for hook in group.hooks})
    kept = set(running.values())
    groups: dict[str, list[Group]] = {}
    for group in declared:
        hooks = tuple(hook for hook in group.hooks if hook in kept)
        if hooks:
            groups.setdefault(hooks[0].event, []).append(Group(hooks, group.sequential, group.matcher))
    return Configuration(
        {event: tuple(event_groups) for event, event_groups in groups.items()},
        _limits(sections),
        _revision(sections),
        tuple(target for place, _, config in sections for target in _http_targets(place, config)),
        tuple(hook for group in declared for hook in group.hooks),
        is_on,
        next((place.revision for place, _, _ in sections if place.revision is not None), None),
    )


def _warn_of_unused(sections: Sequence[LayerSection], running: Mapping[Hook, Hook]) -> None:
    """Warn of each hook in whose place a copy with other settings runs. `running` has the hooks that run."""
    files = {file.path: file for _, file, _ in sections}
    for hook, copy in running.items():
        if hook.config != copy.config:
            other = f"{copy.source}:{copy.line}" if copy.line else str(copy.source)
            message = (
                f"hooks.{hook.event}: the hook {hook.name!r} is not used, because {other} has another one "
                "with this name and target; to use both, give each a name of its own"
            )
            files[hook.source].warnings.append(Problem(hook.source, message, hook.line))


def _warn_of_empty(sections: Sequence[LayerSection], sources: Collection[Path]) -> None:
    """Warn of each file that an operator names if it has neither hooks nor switches nor other problems.

    `sources` are the files that have hooks.
    """
    for place, file, _ in sections:
        has_effect = (
            file.path in sources
            or any(name in _NOT_EVENTS for name in file.section("hooks"))
            or bool(file.section("hooksConfig"))
            or "enableHooks" in file.section("tools")
        )
        if place.layer not in GEMINI_LAYERS and not (has_effect or file.problems or file.warnings):
            # Never a problem, not even in policy files: the hooks of a running gateway may be removed.
            message = "contains no hooks; write them below the key 'hooks'"
            file.warnings.append(Problem(file.path, message))


def _http_targets(place: SettingsSource, config: FileConfig) -> list[str]:
    """Return the allowed targets of http hooks. Projects and extensions must not set them."""
    if config.http_targets and place.layer in ("project", "extensions"):
        log.warning(
            "%s: hooksConfig.http_targets: ignored in a project or extension; move it to the user's settings",
            place.path,
        )
        return []
    return config.http_targets


def _revision(sections: Sequence[LayerSection]) -> str:
    """Return a hash of the settings, 12 hexadecimal digits, which is the same in all processes."""
    digest = hashlib.sha256()
    for place, file, _ in sections:
        for text in (place.layer, str(place.path), file.text):
            digest.update(f"{len(text)}:{text}".encode())
    return digest.hexdigest()[:12]


# ---- the switches and defaults of a file


def _file_config(place: SettingsSource, file: SettingsFile) -> FileConfig:
    _check_top_level(place, file)
    section = file.section("hooksConfig")
    file.check_keys(["hooksConfig"], section, {*FileConfig.model_fields, *_NOT_EVENTS}, "hooksConfig")
    try:
        return FileConfig.model_validate(section)
    except ValidationError as error:
        file.add_validation_errors(["hooksConfig"], error)
        return FileConfig()


def _check_top_level(place: SettingsSource, file: SettingsFile) -> None:
    """Check for top-level keys that resemble those for hooks. Gemini CLI defines the other keys.

    An event, or a misspelled `hooks` in a file that an operator names, is a problem: the hooks below it would
    never run, and calls that they should stop would pass.
    """
    for key in file.settings:
        if key in EVENTS:
            file.add_problem([key], f": has no effect here; did you mean hooks.{key}?")
        elif key not in _SECTIONS and (near := closest_name(key, _SECTIONS)):
            message = f"{key!r} is not known here and has no effect; did you mean {near}?"
            if near == "hooks" and place.layer not in GEMINI_LAYERS:
                file.problems.append(Problem(file.path, message, files.line_number(file.text, [key])))
            else:
                file.warn([key], message)


def _limits(sections: Sequence[LayerSection]) -> EngineLimits:
    """Return the limits. Each comes from the highest layer that sets it and may affect all hooks."""
    for place, _, config in sections:
        if not place.binds_all and (config.deadline, config.concurrency) != (None, None):
            if place.layer == "extensions":
                reason = "an extension affects its own hooks only"
            else:
                reason = (
                    "a project that is not trusted as a whole (--trust-project) affects its own hooks only"
                )
            log.warning("%s: hooksConfig: deadline and concurrency are ignored: %s", place.path, reason)
    configs = [config for place, _, config in sections if place.binds_all]
    deadline = next((config.deadline for config in configs if config.deadline is not None), None)
    concurrency = next((config.concurrency for config in configs if config.concurrency is not None), None)
    return EngineLimits(
        EngineLimits().deadline if deadline is None else deadline / 1000,
        EngineLimits().concurrency if concurrency is None else concurrency,
    )


def _switches(sections: Sequence[LayerSection]) -> Callable[[Hook], bool]:
    """Return a predicate for hooks that are on.

    Hooks of policies are always on. Some files can switch off their own hooks only.
    """
    shared = _file_switches([file for place, file, _ in sections if place.binds_all])
    own = {place.path: _file_switches([file]) for place, file, _ in sections if not place.binds_all}

    def is_on(hook: Hook) -> bool:
        if hook.layer == "policy":
            return True
        return shared(hook.name) and (hook.source not in own or own[hook.source](hook.name))

    return is_on


def _file_switches(files: Sequence[SettingsFile]) -> Callable[[str], bool]:
    """Return a predicate for the names of hooks that these files leave on."""
    enabled = all(_hooks_enabled(file) for file in files)
    disabled = {name for file in files for name in _disabled(file)}
    return lambda name: enabled and name not in disabled


def _hooks_enabled(file: SettingsFile) -> bool:
    switches = (("tools", "enableHooks"), ("hooks", "enabled"), ("hooksConfig", "enabled"))
    return all(file.section(section).get(key) is not False for section, key in switches)


def _disabled(file: SettingsFile) -> Iterator[str]:
    for section in ("hooks", "hooksConfig"):
        names = file.section(section).get("disabled", [])
        if isinstance(names, list) and all(isinstance(name, str) for name in names):
            yield from names
        else:
            file.add_problem([section, "disabled"], ": must be a list of hook names")


# ---- groups and hooks


def _groups(place: SettingsSource, file: SettingsFile, defaults: FileConfig) -> Iterator[Group]:
    """Yield the groups of a file, including those without hooks."""
    events = file.settings.get("hooks", {})
    if not isinstance(events, dict):
        file.add_problem(
            ["hooks"], f': must be an object of events such as {{"BeforeModel": [{_GROUP_EXAMPLE}]}}'
        )
        return
    for event, groups in events.items():
        where = ["hooks", event]
        if event in _NOT_EVENTS:
            continue
        if event not in EVENTS:
            near = claude_names.EVENTS.get(event) or closest_name(event, EVENTS)
            remedy = f"did you mean {near}?" if near else f"use one of {', '.join(EVENTS)}"
            file.add_problem(where, f": there is no such event; {remedy}")
        elif not isinstance(groups, list):
            file.add_problem(where, f": must be a list of groups such as [{_GROUP_EXAMPLE}]")
        else:
            for number, group in enumerate(groups):
                parsed = _group(place, file, [*where, number], group, defaults)
                if parsed is not None:
                    yield parsed


def _group(
    place: SettingsSource, file: SettingsFile, where: list[str | int], group: Any, defaults: FileConfig
) -> Group | None:
    try:
        config = GroupConfig.model_validate(group)
    except ValidationError as error:
        file.add_validation_errors(where, error, texts=_GROUP_MISTAKES)
        return None
    event = str(where[1])
    file.check_keys(where, group, GroupConfig.model_fields, f"hooks.{event}")
    hooks = []
    for number, value in enumerate(config.hooks):
        try:
            hook = _HOOK.validate_python(value)
        except ValidationError as error:
            # pydantic's path begins with the hook's type if the type is known.
            has_type = error.errors(include_url=False)[0]["loc"][:1] != ()
            skip = 0 if has_type else None
            file.add_validation_errors([*where, "hooks", number], error, skip, known=_CONDITIONS)
            continue
        root = place.root or project_of(place.path)
        hook = _expand_variables(hook, place, root)
        configured = hook.on_error or defaults.on_error
        on_error = configured or _default_on_error(place.layer, hook)
        on_exit_code = configured or ("deny" if place.layer == "policy" else "allow")
        name = hook.name or display_target(hook)
        _check_hook(file, [*where, "hooks", number], f"hooks.{event}: the hook {name!r}", hook, root)
        line = files.line_number(file.text, [*where, "hooks", number])
        hooks.append(
            Hook(
                name,
                hook,
                root,
                place.path,
                event,
                place.layer,
                on_error,
                line,
                on_exit_code,
                place.needs_trust,
            )
        )
    return Group(tuple(hooks), config.sequential, _matcher(file, where, event, config.matcher))


def _default_on_error(layer: Layer, config: AnyConfig) -> OnError:
    """Return the default of `on_error`.

    Hooks of files that an operator names fail closed, and so do built-in policies. Other hooks of Gemini
    CLI's own layers fail open, since Gemini CLI documents a failed hook as a warning.
    """
    return "allow" if layer in GEMINI_LAYERS and not isinstance(config, BuiltinConfig) else "deny"


def _matcher(file: SettingsFile, where: list[str | int], event: str, pattern: str | None) -> Matcher:
    try:
        matcher = Matcher(event, pattern)
    except re.error as error:
        if meant := wildcards_as_regex(str(pattern)):
            remedy = f"did you mean {meant!r}?"
        else:
            remedy = f"to match it literally, use {re.escape(str(pattern))!r}"
        file.add_problem([*where, "matcher"], f": {pattern!r} is not a regular expression: {error}; {remedy}")
        return Literally(str(pattern))
    if mistake := find_matcher_mistake(event, matcher):
        message = f"hooks.{event}: the matcher {pattern!r} {mistake.message}"
        line = files.line_number(file.text, [*where, "matcher"])
        # Never a problem, not even in policy files: the tools of MCP servers are not known here.
        file.warnings.append(Problem(file.path, message, line, breaks_hook=mistake.breaks_hook))
    return matcher


def _expand_variables(config: AnyConfig, place: SettingsSource, root: Path) -> AnyConfig:
    """Expand `${extensionPath}` and similar variables in an extension's hook, as Gemini CLI does."""
    if place.layer != "extensions":
        return config
    values = {
        "extensionPath": str(place.path.parent.parent),
        "workspacePath": str(root),
        "/": "/",
        "pathSeparator": "/",
    }
    text = re.sub(
        r"\$\{(extensionPath|workspacePath|/|pathSeparator)\}",
        lambda m: json.dumps(values[m[1]])[1:-1],
        config.model_dump_json(exclude_unset=True),
    )
    return _HOOK.validate_json(text)


def _check_hook(
    file: SettingsFile, place: files.ValuePath, where: str, config: AnyConfig, root: Path
) -> None:
    """Warn about unknown keys of a hook, a program that cannot be started, and a timeout in seconds."""
    known = {*type(config).model_fields, *_IGNORED}
    file.check_keys(place, config.model_extra or {}, known, where)
    if isinstance(config, CommandConfig):
        if problem := command_problem(config, root):
            file.warn([*place, "command"], f"{where}: {problem}", breaks_hook=True)
        elif problem := search_problem(config, root):
            line = files.line_number(file.text, [*place, "command"])
            # Never a problem, not even in policy files: another process may have another PATH.
            file.warnings.append(Problem(file.path, f"{where}: {problem}", line, breaks_hook=True))
        for key, name in unset_variables(config):
            line = files.line_number(file.text, [*place, "env", key])
            # Never a problem, not even in policy files: a variable may be optional.
            message = f"{where}: env.{key}: ${name} is not set in hookgate's environment, so it is empty"
            file.warnings.append(Problem(file.path, message, line))
    for condition, mistake in condition_mistakes(config.when):
        line = files.line_number(file.text, [*place, "when", condition])
        file.warnings.append(Problem(file.path, f"{where}: when.{condition}: {mistake}", line))
    for option, mistake in option_mistakes(config) if isinstance(config, BuiltinConfig) else ():
        steps = [int(step) if step.isdigit() else step for step in option.split(".")]
        line = files.line_number(file.text, [*place, "options", *steps])
        # Never a problem, not even in policy files: a server's names may have dots and bars.
        file.warnings.append(Problem(file.path, f"{where}: options.{option}: {mistake}", line))
    if config.timeout < _SHORT_TIMEOUT_MS and not isinstance(config, BuiltinConfig):
        seconds = f"{config.timeout * 1000:g}"
        message = f"{where}: timeout: {config.timeout:g} is in milliseconds; for seconds, write {seconds}"
        line = files.line_number(file.text, [*place, "timeout"])
        # Never a problem, not even in policy files: a fast hook may have a short timeout.
        file.warnings.append(Problem(file.path, message, line))
