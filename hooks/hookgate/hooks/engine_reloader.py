"""Replaces the engine when its settings files change, and reports what changed."""

import asyncio
import hashlib
import logging
import os
import time
from collections import Counter, defaultdict
from collections.abc import AsyncIterator, Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

from hookgate.hooks.engine import Engine
from hookgate.hooks.errors import SettingsError, is_exhaustion
from hookgate.hooks.layers_in_force import LayersInForce, NotInForce
from hookgate.hooks.runs import Health
from hookgate.hooks.settings import Configuration, Hook, SettingsSource
from hookgate.hooks.settings.files import open_without_links
from hookgate.hooks.settings.reading import UNTRUSTED_BYTES
from hookgate.hooks.timestamps import utc_text
from hookgate.hooks.trust import digest_of, hook_fingerprint, scripts_of

log = logging.getLogger("hookgate.hooks")

Label = tuple[str, str]
"""The event and the name of a hook."""


@dataclass(frozen=True, slots=True)
class Outline:
    """A summary of a configuration for comparisons: fingerprints of the hooks that are on, and those off."""

    on: Mapping[Label, frozenset[str]]
    off: frozenset[Label]


@dataclass(frozen=True, slots=True)
class Changes:
    """The differences between two revisions of the settings. Hooks are listed as `EVENT NAME`."""

    before: str
    revision: str
    added: tuple[str, ...] = ()
    removed: tuple[str, ...] = ()
    switched_on: tuple[str, ...] = ()
    switched_off: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def hooks(self) -> dict[str, tuple[str, ...]]:
        """Return the hooks by kind of change, without the kinds that have none."""
        return {change: hooks for change, hooks in asdict(self).items() if hooks and isinstance(hooks, tuple)}

    def __str__(self) -> str:
        return "; ".join(
            f"{change.replace('_', ' ')}: {', '.join(hooks)}" for change, hooks in self.hooks().items()
        )


def outline(configuration: Configuration) -> Outline:
    """Summarize a configuration for comparisons. This reads the hooks' scripts."""
    on: dict[Label, set[str]] = defaultdict(set)
    for event, groups in configuration.groups.items():
        for group in groups:
            for hook in group.hooks:
                properties = (
                    _fingerprint(hook),
                    hook.config.model_dump_json(),
                    hook.on_error,
                    hook.on_exit_code,
                    hook.layer,
                )
                on[event, hook.name].add(f"{group.sequential} {group.matcher.pattern} {properties}")
    off = frozenset((hook.event, hook.name) for hook in configuration.off)
    return Outline({label: frozenset(hooks) for label, hooks in on.items()}, off - on.keys())


def changes(before: str, old: Outline, revision: str, new: Outline) -> Changes:
    """Return the differences between two revisions."""
    added, removed = new.on.keys() - old.on.keys(), old.on.keys() - new.on.keys()
    same = old.on.keys() & new.on.keys()
    return Changes(
        before,
        revision,
        added=_sorted_names(added - old.off),
        removed=_sorted_names(removed - new.off),
        switched_on=_sorted_names(added & old.off),
        switched_off=_sorted_names(removed & new.off),
        changed=_sorted_names(label for label in same if old.on[label] != new.on[label]),
    )


def _sorted_names(labels: Iterable[Label]) -> tuple[str, ...]:
    return tuple(f"{event} {name}" for event, name in sorted(labels))


MakeEngine = Callable[[Configuration, Health], Engine]
# Some file systems report no changes, so the files are also checked at intervals.
_WATCH_OPTIONS: Any = {
    "recursive": False,
    "debounce": 200,  # a file that changes all the time must not delay the report of another one
    "rust_timeout": 1_000,  # a change between a check and the start of watching is found after this time
    "yield_on_timeout": True,
    "ignore_permission_denied": True,
}
_RETRY_SECONDS = 5.0
"""The pause after an unexpected error, before the settings are checked again."""

_PAUSE_SECONDS = 2.0
"""The shortest time between two readings of layers that affect their own hooks only."""

FindSources = Callable[[], Iterable[SettingsSource]]


class EngineReloader:
    """Provides calls with an engine, and keeps it up to date with its settings files.

    The layers that affect all hooks come into force first. The others, such as the settings of a checkout,
    are read afterwards, and not more often than every few seconds: neither what they contain nor how often
    they change delays the first ones.
    """

    def __init__(self, find_sources: FindSources, make_engine: MakeEngine) -> None:
        """Load the settings. Raises SettingsError if those that affect all hooks are unusable."""
        self._find_sources, self._make_engine = find_sources, make_engine
        self.health = Health()
        self.reloads: Counter[str] = Counter()
        """The number of reloads by result: applied, unchanged or refused."""
        self.watchers: list[Callable[[Changes], None]] = []
        """Callbacks for changed settings. They must be quick."""
        self._leases: Counter[Engine] = Counter()
        self._closing: set[asyncio.Task[None]] = set()
        self._reload_lock = asyncio.Lock()  # so that the settings that were read last win
        self._layers = LayersInForce(self._build)
        self._failure: NotInForce | None = None
        sources = list(self._find_sources())
        self._digests = _digests(sources)
        self._next_pause = 0.0
        loaded = self._layers.bring(sources)
        if loaded is None or self.refusal:
            raise SettingsError(self.refusal)
        self.current, self._outline = loaded
        self._digests |= _script_digests(self.current)

    @property
    def not_in_force(self) -> tuple[NotInForce, ...]:
        """The layers whose settings, as they are now, are not in force."""
        return (*([self._failure] if self._failure else []), *self._layers.not_in_force.values())

    @property
    def refusal(self) -> str:
        """The reason why settings that affect all hooks are not in use as they are now; empty if they are."""
        return "\n".join(each.reason for each in self.not_in_force if each.binds_all)

    @property
    def waiting(self) -> int:
        """The number of queued hook runs, including those of former revisions."""
        return sum(engine.waiting for engine in {self.current, *self._leases})

    @contextmanager
    def lease(self) -> Iterator[Engine]:
        """Yield the current engine, and keep it open for the length of the context."""
        engine = self.current
        self._leases[engine] += 1
        try:
            yield engine
        finally:
            self._leases[engine] -= 1
            if not self._leases[engine]:
                del self._leases[engine]
                self._retire(engine)

    async def reload(self) -> bool:
        """Reload the settings, and return whether they have changed. Errors are logged, never raised.

        `not_in_force` has the layers that could not be used.
        """
        try:
            return await self._reload(binding=True, others=True)
        except Exception as error:
            self._log_unexpected(error)
            return False

    async def watch(self) -> None:
        """Reload whenever a settings file or a script changes, until cancelled.

        Errors are logged, and the files are checked again after a pause.
        """
        while True:
            try:
                binding, others = await self._until_changed()
                await self._reload(binding=binding, others=others)
            except Exception as error:
                self._log_unexpected(error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _until_changed(self) -> tuple[bool, bool]:
        """Wait for a change. Returns whether it affects all hooks, and whether it affects other layers."""
        from watchfiles import awatch  # noqa: PLC0415  # only `watch` needs it

        if any(changed := await asyncio.to_thread(self._changes)):
            return changed
        # Who writes to a project could cause thousands of reports a second: it is looked at every second.
        sources = self._sources()
        roots = _roots_of_projects(sources)
        files = _files_of(source for source in sources if not source.needs_trust)
        files |= {script for script in _scripts_of(self.current) if not _is_below(script, roots)}
        folders = {_nearest_existing(path.parent) for path in files}
        reports = awatch(*folders, **_WATCH_OPTIONS) if folders else _every_second()
        async for _ in reports:
            if any(changed := await asyncio.to_thread(self._changes)):
                break
        return changed

    async def _reload(self, *, binding: bool, others: bool) -> bool:
        """Reload like `reload`, but raise unexpected errors; the files then still count as changed."""
        async with self._reload_lock:
            refusals = self._layers.refusals
            self._next_pause = time.monotonic() + _PAUSE_SECONDS
            applied = binding and await self._bring(binding=True)
            if others:
                applied |= await self._bring(binding=False)
            self._failure = None
            if self._layers.refusals > refusals:
                self.reloads["refused"] += 1
            elif not applied:
                self.reloads["unchanged"] += 1
                log.info("settings read again: unchanged, revision %s", self.current.revision)
            return applied

    async def _bring(self, *, binding: bool) -> bool:
        """Read the layers that affect all hooks, or the others, and return whether the engine has changed."""
        sources = await asyncio.to_thread(self._sources)
        chosen = [source for source in sources if source.binds_all is binding]
        digests = await asyncio.to_thread(_digests, chosen)
        scripts = await asyncio.to_thread(_script_digests, self.current)
        loaded = await asyncio.to_thread(self._layers.bring, sources, binding=binding)
        if not self._layers.retry:
            self._digests |= digests
        if loaded is None:
            return False
        engine, new_outline = loaded
        # A script that changes after it was read still counts as changed.
        self._digests |= await asyncio.to_thread(_script_digests, engine) | scripts
        if engine.revision == self.current.revision:
            await engine.close()
            return False
        self._activate(engine, new_outline)
        return True

    def _activate(self, engine: Engine, new_outline: Outline) -> None:
        self.reloads["applied"] += 1
        previous, self.current = self.current, engine
        self.health.retain(engine.configuration.hooks(), engine.configuration.off)
        self._retire(previous)
        difference = changes(previous.revision, self._outline, engine.revision, new_outline)
        self._outline = new_outline
        self._notify(difference)

    def _log_unexpected(self, error: Exception) -> None:
        self.reloads["refused"] += 1
        since = self._failure.since if self._failure else utc_text(precision="seconds")
        self._failure = NotInForce("all", "", since, str(error) or type(error).__name__)
        if is_exhaustion(error):
            log.error(
                "the settings cannot be read now, so revision %s stays in use: %s",
                self.current.revision,
                error,
            )
            return
        log.exception(
            "the settings could not be read again, so revision %s stays in use; please report this",
            self.current.revision,
        )

    async def close(self) -> None:
        """End the processes and connections of all hooks, including those of former revisions."""
        await asyncio.gather(self.current.close(), *self._closing)

    def _build(self, configuration: Configuration) -> tuple[Engine, Outline]:
        configuration = replace(configuration, revision=_revision(configuration))
        return self._make_engine(configuration, self.health), outline(configuration)

    def _notify(self, difference: Changes) -> None:
        summary = str(difference) or "no hook changed"
        if not self._outline.on:
            summary += "; no hooks are left: calls are forwarded unchanged"
        log.log(
            logging.INFO if self._outline.on else logging.WARNING,
            "settings reloaded: revision %s, previously %s; %s",
            difference.revision,
            difference.before,
            summary,
        )
        for watcher in self.watchers:
            try:
                watcher(difference)
            except Exception:  # the new settings are in use all the same
                log.exception("a change of the settings could not be reported; please report this")

    def _sources(self) -> list[SettingsSource]:
        return list(self._find_sources())

    def _changes(self) -> tuple[bool, bool]:
        """Return whether files have changed that affect all hooks, and whether others have.

        The others, and scripts in a project that is not trusted, are looked at only after a pause, and not if
        there is a change that affects all hooks: one that changes all the time neither is a load nor delays.
        """
        sources = self._sources()
        binding = [source for source in sources if source.binds_all]
        others = [source for source in sources if not source.binds_all]
        scripts = _scripts_of(self.current, {source.path for source in binding})
        in_projects = {script for script in scripts if _is_below(script, _roots_of_projects(others))}
        if self._differ(_digests(binding)) or self._differ(_file_digests(scripts - in_projects)):
            return True, False
        if time.monotonic() < self._next_pause:
            return False, False
        if self._differ(_file_digests(in_projects)):
            return True, False
        other_scripts = _scripts_of(self.current, {source.path for source in others})
        return False, self._differ(_digests(others)) or self._differ(_file_digests(other_scripts))

    def _differ(self, digests: Mapping[Path, str | None]) -> bool:
        return any(self._digests.get(path, "") != digest for path, digest in digests.items())

    def _retire(self, engine: Engine) -> None:
        """Close an engine that is no longer current, once its last lease has ended."""
        if engine is not self.current and engine not in self._leases:
            task = asyncio.get_running_loop().create_task(engine.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _revision(configuration: Configuration) -> str:
    """Return a hash of the settings' revision and the content of the hooks' scripts.

    The number of settings that are not in a file comes first, so that one can see which of them are in use.
    """
    digest = hashlib.sha256(configuration.revision.encode())
    for hook in configuration.hooks():
        digest.update(_fingerprint(hook).encode())
    prefix = "" if configuration.pushed is None else f"{configuration.pushed.number}-"
    return f"{prefix}{digest.hexdigest()[:12]}"


def _fingerprint(hook: Hook) -> str:
    """Return a hash of the hook with its scripts.

    It is empty for a hook that needs trust, whose scripts may be of any number and size: if one of them
    changes, the hook does not run.
    """
    return "" if hook.needs_trust else hook_fingerprint(hook)


async def _every_second() -> AsyncIterator[None]:
    while True:
        await asyncio.sleep(1)
        yield


def _roots_of_projects(sources: Iterable[SettingsSource]) -> set[Path]:
    """Return the folders of the projects that are not trusted."""
    return {(source.root or source.path.parent).resolve() for source in sources if source.needs_trust}


def _is_below(path: Path, folders: Iterable[Path]) -> bool:
    path = path.resolve()
    return any(path.is_relative_to(folder) for folder in folders)


def _files_of(sources: Iterable[SettingsSource]) -> set[Path]:
    return {source.path for source in sources if source.revision is None}


def _scripts_of(engine: Engine, files: Container[Path] | None = None) -> set[Path]:
    """Return the scripts whose changes change the settings: of all hooks, or of those in some files."""
    hooks = (hook for hook in engine.configuration.hooks() if files is None or hook.source in files)
    return {path for hook in hooks if not hook.needs_trust for path in scripts_of(hook)}


def _nearest_existing(folder: Path) -> Path:
    """Return the folder, or its nearest existing parent, where the creation of the folder can be observed."""
    return next(path for path in (folder, *folder.parents) if os.path.isdir(path))


def _digests(sources: Iterable[SettingsSource]) -> dict[Path, str | None]:
    """Return the digests of the files of sources. No file of a project makes this take long, or wait."""
    return {source.path: _digest_of_source(source) for source in sources if source.revision is None}


def _digest_of_source(source: SettingsSource) -> str | None:
    if not source.needs_trust:
        return digest_of(source.path)
    opener = partial(open_without_links, source.root or source.path.parent)
    return digest_of(source.path, opener, UNTRUSTED_BYTES)


def _script_digests(engine: Engine) -> dict[Path, str | None]:
    return _file_digests(_scripts_of(engine))


def _file_digests(paths: Iterable[Path]) -> dict[Path, str | None]:
    return {path: digest_of(path) for path in paths}
