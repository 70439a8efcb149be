"""Settings that change while calls run: the engine in force, and the ones still finishing their calls.

A call leases the engine in force and keeps it to its end, so it runs under one revision of the settings,
whatever is reloaded meanwhile. Settings that cannot be used are told, and the last good ones stay in force.
"""

import asyncio
import hashlib
import logging
import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hookgate.hooks.changes import Changes, Outline, changes, outline
from hookgate.hooks.engine import Engine
from hookgate.hooks.errors import SettingsError
from hookgate.hooks.exhaustion import is_exhaustion
from hookgate.hooks.health import Health
from hookgate.hooks.scripts import digest_of, fingerprint, scripts_of
from hookgate.hooks.settings import Configuration, Place, load_places

log = logging.getLogger("hookgate.hooks")

MakeEngine = Callable[[Configuration, Health], Engine]
# Some file systems tell of no change, so the files are looked at now and then all the same.
_WATCHING: Any = {
    "recursive": False,
    "rust_timeout": 5_000,
    "yield_on_timeout": True,
    "ignore_permission_denied": True,
}
_RETRY_SECONDS = 5.0
"""Until settings are looked at again after that has failed in a way that nobody foresaw."""

FindPlaces = Callable[[], Iterable[Place]]


class LiveEngine:
    """Keeps the engine in force up to date with its settings files."""

    def __init__(self, find_places: FindPlaces, make_engine: MakeEngine) -> None:
        """Raises SettingsError when the settings cannot be used from the start."""
        self._find_places, self._make_engine = find_places, make_engine
        self.health = Health()
        self.reloads: Counter[str] = Counter()
        """How often the settings were read again, by what came of it: applied, unchanged or refused."""
        self.watchers: list[Callable[[Changes], None]] = []
        """Who is told that other settings are in force; they must be quick."""
        self._leases: Counter[Engine] = Counter()
        self._closing: set[asyncio.Task[None]] = set()
        self._reloading = asyncio.Lock()  # so that the settings in force are those that were read last
        self._seen = _contents(self._places())
        self.current, self._outline = self._load()
        self._seen |= _contents(self._scripts(self.current))

    @property
    def waiting(self) -> int:
        """How many runs of hooks wait for their turn, those of former revisions included."""
        return sum(engine.waiting for engine in {self.current, *self._leases})

    @contextmanager
    def lease(self) -> Iterator[Engine]:
        """The engine in force, for the length of one call."""
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
        """Read the settings again; whether another revision is in force. Never raises, but logs."""
        try:
            return await self._reload()
        except Exception as error:
            self._log_surprise(error)
            return False

    async def watch(self) -> None:
        """Reload whenever a file changes that the settings rest on; runs until it is cancelled.

        Whatever goes wrong is logged, and the files are looked at again a little later.
        """
        while True:
            try:
                await self._until_changed()
                await self._reload()
            except Exception as error:
                self._log_surprise(error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _until_changed(self) -> None:
        from watchfiles import awatch  # noqa: PLC0415  # only a program that watches needs it

        if await asyncio.to_thread(self._changed):
            return
        folders = {_existing(path.parent) for path in self._files()}
        async for _ in awatch(*folders, **_WATCHING):
            if await asyncio.to_thread(self._changed):
                return

    async def _reload(self) -> bool:
        """As `reload`. Raises what nobody foresaw; then the files still count as changed."""
        async with self._reloading:
            seen = await asyncio.to_thread(_contents, self._files())
            try:
                engine, found = await asyncio.to_thread(self._load)
            except SettingsError as error:
                self._seen = seen
                self.reloads["refused"] += 1
                log.error("the settings cannot be used, revision %s stays: %s", self.current.revision, error)
                return False
            self._seen = seen | await asyncio.to_thread(_contents, self._scripts(engine))
            if engine.revision == self.current.revision:
                self.reloads["unchanged"] += 1
                log.info("settings read again: unchanged, revision %s", engine.revision)
                await engine.close()
                return False
            self._put_in_force(engine, found)
            return True

    def _put_in_force(self, engine: Engine, found: Outline) -> None:
        self.reloads["applied"] += 1
        before, self.current = self.current, engine
        self.health.keep(engine.configuration.hooks(), engine.configuration.off)
        self._retire(before)
        told, self._outline = changes(before.revision, self._outline, engine.revision, found), found
        self._tell(told)

    def _log_surprise(self, error: Exception) -> None:
        self.reloads["refused"] += 1
        if is_exhaustion(error):
            log.error("the settings cannot be read now, revision %s stays: %s", self.current.revision, error)
            return
        log.exception(
            "the settings could not be read again, revision %s stays; please report this",
            self.current.revision,
        )

    async def close(self) -> None:
        """End what the hooks keep, those of former revisions included."""
        await asyncio.gather(self.current.close(), *self._closing)

    def _load(self) -> tuple[Engine, Outline]:
        configuration = load_places(self._find_places())
        configuration = replace(configuration, revision=_revision(configuration))
        return self._make_engine(configuration, self.health), outline(configuration)

    def _tell(self, told: Changes) -> None:
        about = str(told) or "no hook is another"
        log.info("settings reloaded: revision %s, before %s; %s", told.revision, told.before, about)
        for watcher in self.watchers:
            watcher(told)

    def _changed(self) -> bool:
        return _contents(self._files()) != self._seen

    def _files(self) -> set[Path]:
        return self._places() | self._scripts(self.current)

    def _places(self) -> set[Path]:
        return {place.path for place in self._find_places()}

    @staticmethod
    def _scripts(engine: Engine) -> set[Path]:
        return {path for hook in engine.configuration.hooks() for path in scripts_of(hook)}

    def _retire(self, engine: Engine) -> None:
        """Close an engine that is no longer in force, once its last call is over."""
        if engine is not self.current and engine not in self._leases:
            task = asyncio.get_running_loop().create_task(engine.close())
            self._closing.add(task)
            task.add_done_callback(self._closing.discard)


def _revision(configuration: Configuration) -> str:
    """The settings' own revision and the scripts' content, as one."""
    digest = hashlib.sha256(configuration.revision.encode())
    for hook in configuration.hooks():
        digest.update(fingerprint(hook).encode())
    return digest.hexdigest()[:12]


def _existing(folder: Path) -> Path:
    """The folder, or the nearest one above it that is there: its appearance is seen there."""
    return next(each for each in (folder, *folder.parents) if os.path.isdir(each))


def _contents(files: Iterable[Path]) -> dict[Path, str | None]:
    return {path: digest_of(path) for path in files}
