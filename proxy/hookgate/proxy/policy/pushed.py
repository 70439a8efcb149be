"""The policy that operators push to the database: a gateway follows its newest revision."""

import asyncio
import contextlib
import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from hookgate.hooks import Configuration, SettingsError
from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.errors import Problem
from hookgate.hooks.policy_environment import PriceTable
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.settings import (
    Hook,
    NumberedText,
    RegoConfig,
    RuntimeConfig,
    SettingsSource,
    read_sources,
)
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import Sources, find_sources
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store import Store
from hookgate.translator.fields import JsonObject

if TYPE_CHECKING:  # its libraries are for a gateway with a database
    from hookgate.proxy.policy.table import PolicyRevision, PolicyTable, RevisionName

log = logging.getLogger("hookgate")

ROOT = Path("/")
"""The folder in which the hooks of a pushed policy run: the same on every machine."""

_POLL_SECONDS = 1.0
"""Seconds between two queries for the newest revision."""

_RETRY_SECONDS = 30.0
"""Seconds until a revision that could not be used here is tried again; a missing script may be there then."""

_NONE = "no policy was pushed to the database; push one with: hookgate policy push FILE"

PolicyState = Literal["current", "behind", "unknown"]
"""Whether the newest revision is in force; unknown while the database cannot be read."""


def pushed_source(revision: "PolicyRevision") -> SettingsSource:
    """Return a revision as a source of settings, in the layer that nothing else can switch off."""
    text = NumberedText(revision.number, revision.document)
    return SettingsSource(Path(f"<policy revision {revision.number}>"), "policy", ROOT, revision=text)


class PushedPolicy:
    """Follows the newest revision in the database, and reports whether it is in force.

    A revision that cannot be used here, and a database that cannot be read, leave the last revision in force.
    """

    def __init__(self, table: "PolicyTable") -> None:
        """Read the newest revision. Raises StoreError if the database cannot be read or has none."""
        self._table = table
        revision = self.read_newest()
        self.revision = revision
        """The revision that is in force."""
        self._offered = revision  # while it is being applied, it is not in force yet
        self.newest: RevisionName = revision.name
        """The newest revision that is known."""
        self._unreadable = self._refusal = ""
        self._refused: RevisionName | None = None
        self._refused_at = 0.0

    def read_newest(self) -> "PolicyRevision":
        """Return the newest revision. Raises StoreError."""
        name = self._table.newest()
        revision = self._table.find(name.number) if name else None
        if revision is None:
            raise StoreError(f"hooks.database: {_NONE}")
        return revision

    def find(self, number: int) -> "PolicyRevision | None":
        """Return a revision, or None if there is none with this number. Raises StoreError."""
        return self._table.find(number)

    def revisions(self) -> "list[PolicyRevision]":
        """Return all revisions, the newest first. Raises StoreError."""
        return self._table.all()

    def add(self, revision: "PolicyRevision") -> None:
        """Store a revision; all gateways follow it. Raises StoreError, for example if others were faster."""
        self._table.add(revision)

    @property
    def state(self) -> PolicyState:
        if self._unreadable:
            return "unknown"
        return "behind" if self.newest != self.revision.name else "current"

    @property
    def problem(self) -> str:
        """The reason why the newest revision is not in force, or not known; empty if it is in force."""
        return self._unreadable or (self._refusal if self.state == "behind" else "")

    def sources(self) -> list[SettingsSource]:
        """Return the revision as a source for an engine."""
        return [pushed_source(self._offered)]

    def summary(self) -> JsonObject:
        """Return the facts for operators without access to hooks: no message and no error."""
        return {
            "number": self.revision.number,
            "sha256": self.revision.sha256.hex(),
            "newest": self.newest.number,
            "state": self.state,
        }

    def details(self) -> JsonObject:
        """Return all facts except the document."""
        return {
            **self.summary(),
            "pushed": utc_text(self.revision.pushed, "seconds"),
            "pushed_by": self.revision.pushed_by,
            "message": self.revision.message,
            "restores": self.revision.restores,
            "problem": self.problem,
        }

    async def follow(self, reloader: EngineReloader) -> None:
        """Apply each new revision within seconds, until cancelled. Errors are logged."""
        while True:
            await asyncio.sleep(_POLL_SECONDS)
            try:
                await self.poll(reloader)
            except Exception:
                log.exception("the pushed policy could not be followed; please report this")

    async def poll(self, reloader: EngineReloader) -> None:
        """Apply the newest revision, unless it is in force or was refused a moment ago."""
        try:
            newest = await asyncio.to_thread(self._table.newest)
            if newest is None:
                raise StoreError(_NONE)
            self.newest = newest
            is_early = time.monotonic() < self._refused_at + _RETRY_SECONDS
            if newest == self.revision.name or (newest == self._refused and is_early):
                self._note_readable()
                return
            revision = await asyncio.to_thread(self._table.find, newest.number)
            self._note_readable()
        except StoreError as error:
            self._note_unreadable(str(error))
            return
        if revision is not None and revision.name == newest:
            await self._apply(revision, reloader)

    async def _apply(self, revision: "PolicyRevision", reloader: EngineReloader) -> None:
        self._offered = revision
        await reloader.reload()
        if reloader.current.configuration.pushed == pushed_source(revision).revision:
            self.revision = revision
            log.info("policy revision %d, pushed by %s, is in force", revision.number, revision.pushed_by)
            return
        self._offered = self.revision
        level = logging.INFO if revision.name == self._refused else logging.ERROR
        self._refused, self._refused_at = revision.name, time.monotonic()
        self._refusal = f"revision {revision.number} cannot be used here: {reloader.refusal}"
        log.log(
            level,
            "policy revision %d cannot be used here, so revision %d stays in force; correct what is missing, "
            "or push another one",
            revision.number,
            self.revision.number,
        )

    def _note_readable(self) -> None:
        if self._unreadable:
            log.warning("the pushed policy can be read again")
        self._unreadable = ""

    def _note_unreadable(self, problem: str) -> None:
        if not self._unreadable:
            log.error(
                "newer revisions of the policy cannot be read, so revision %d stays in force: %s",
                self.revision.number,
                problem,
            )
        self._unreadable = problem


@contextmanager
def open_pushed_policy(config: Config, sources: Sources) -> Iterator[tuple[Sources, PushedPolicy | None]]:
    """Open the pushed policy while the block runs, if the gateway is configured to use one.

    Yields the sources, to which it was added, and the policy. Raises StoreError if it cannot be read.
    """
    if not config.hooks.database:
        yield sources, None
        return
    # Imported only if there is a database.
    from hookgate.proxy.policy.table import PolicyTable  # noqa: PLC0415  # see above
    from hookgate.proxy.store.database import open_policies  # noqa: PLC0415  # see above

    table = PolicyTable(open_policies(Store(config.store, sources.state).url(), sources.state))
    with contextlib.closing(table):
        pushed = PushedPolicy(table)
        yield replace(sources, added=pushed.sources), pushed


def read_all_sources(config: Config, default_project: Path | None = None) -> Sources:
    """Return the configured sources with the newest pushed policy, for commands. Raises StoreError."""
    found = find_sources(config.hooks, default_project)
    with open_pushed_policy(config, found) as (sources, _):
        return sources


def check_pushed(state: Path, prices: PriceTable | None, text: str) -> None:
    """Raise SettingsError for a policy that a gateway on this machine could not use."""
    check_policy(Path("<policy>"), text, state, prices, scripts_elsewhere=False)


def check_policy(
    path: Path, text: str, state: Path, prices: PriceTable | None, *, scripts_elsewhere: bool
) -> tuple[Configuration, tuple[Problem, ...]]:
    """Return the configuration of a policy to push, and its warnings. `path` names it in messages.

    With `scripts_elsewhere`, programs and scripts need not exist on this machine, and functions are not
    loaded. Raises SettingsError with every problem.
    """
    source = SettingsSource(path, "policy", ROOT, revision=NumberedText(0, text))
    loaded = read_sources([source])
    problems = [
        str(problem) for problem in loaded.problems if not (scripts_elsewhere and problem.breaks_hook)
    ]

    def refusal(hook: Hook) -> str | None:
        is_elsewhere = scripts_elsewhere and isinstance(hook.config, RegoConfig | RuntimeConfig)
        return "its files are on other machines" if is_elsewhere else None

    configuration = loaded.configuration
    try:
        make_runners(
            configuration.hooks(),
            trust_check=refusal,
            http_targets=configuration.http_targets,
            state=state,
            prices=prices,
        )
    except SettingsError as error:
        problems += str(error).splitlines()
    if problems:
        raise SettingsError("\n".join(problems))
    return configuration, loaded.warnings
