"""What is known of how tools are declared: which declarations are accepted, and which differ from those.

One file of the state folder, for all gateways that share it; a running gateway sees a change of it at once.
"""

import fcntl
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from threading import Lock

from hookgate.hooks.managing.edits import write_atomically
from hookgate.hooks.policies.pinfile import Content, Declaration, Tool, load, stamp_of

_FILE = "tools-pinned.json"

MAX_TOOLS = 2000
"""Names that are remembered; for others no declaration is accepted."""

_MAX_NAME = 256
"""Characters of a name that is remembered; the API takes 64."""

_MAX_CHANGED = 8
"""Changed declarations that are remembered of a tool, the latest ones."""

_MAX_SESSIONS = 100
"""Sessions that are remembered of a changed declaration, the latest ones."""

_MAX_SHOWN = 4000
"""Characters of a declaration that are kept for people to read."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration as a client sends it."""

    name: str
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class Noted:
    """What came of looking at the declarations of a request, by the tools' names."""

    changed: frozenset[str]
    """Those whose declaration is not accepted."""
    new: frozenset[str]
    """Of them, those whose declaration was never seen before."""


class Pins:
    """The declarations that are known, kept in the state folder; without one, in memory."""

    def __init__(self, state: Path | None) -> None:
        self._path = state and state / _FILE
        self._content = Content()
        self._stamp: tuple[int, ...] | None = None
        self._lock = Lock()

    def tools(self) -> Mapping[str, Tool]:
        """All that is known, by name. Raises OSError, and ValueError for a file that cannot be read."""
        if self._path is not None and (stamp := stamp_of(self._path)) != self._stamp:
            self._content, self._stamp = load(self._path), stamp
        return self._content.tools

    def note(self, declared: Sequence[Declared], session: str) -> Noted:
        """Remember the declarations of a session's request; the first one of a tool is accepted.

        Raises OSError, and ValueError for a file that cannot be read.
        """
        with self._lock:
            known = self.tools()
            new: set[str] = set()
            if any(_is_news(known, each, session) for each in declared):
                with self._changing() as tools:
                    new = {each.name for each in declared if _note(tools, each, session)}
            known = self.tools()
        return Noted(frozenset(each.name for each in declared if not _accepts(known, each)), frozenset(new))

    def declares_changed(self, session: str, name: str) -> bool:
        """Whether the session last declared the tool as nobody has accepted it. Raises as `tools` does."""
        with self._lock:
            tool = self.tools().get(name)
        return tool is not None and any(session in each.sessions for each in tool.changed)

    def accept(self, name: str, digests: Collection[str]) -> None:
        """Accept changed declarations of a tool. Raises as `tools` does."""
        with self._lock, self._changing() as tools:
            if (tool := tools.get(name)) is not None:
                taken = [each for each in tool.changed if each.digest in digests]
                tool.accepted += [each.model_copy(update={"sessions": []}) for each in taken]
                tool.changed = [each for each in tool.changed if each not in taken]

    @contextmanager
    def _changing(self) -> Iterator[dict[str, Tool]]:
        """The tools, to be changed: what no other process changes meanwhile."""
        if self._path is None:
            yield self._content.tools
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = load(self._path)
            yield content.tools
            write_atomically(self._path, content.model_dump_json(indent=2) + "\n", mode=0o600)
        finally:
            os.close(lock)


def _accepts(known: Mapping[str, Tool], declared: Declared) -> bool:
    tool = known.get(declared.name)
    return tool is not None and _found(tool.accepted, declared) is not None


def _is_news(known: Mapping[str, Tool], declared: Declared, session: str) -> bool:
    """Whether anything that is remembered would change."""
    tool = known.get(declared.name)
    if tool is None:
        return _has_room(known, declared.name)
    if _found(tool.accepted, declared):
        return any(session in each.sessions for each in tool.changed)
    found = _found(tool.changed, declared)
    return found is None or session not in found.sessions


def _has_room(known: Mapping[str, Tool], name: str) -> bool:
    return len(known) < MAX_TOOLS and len(name) <= _MAX_NAME


def _note(tools: dict[str, Tool], declared: Declared, session: str) -> bool:
    """Remember a declaration; whether it is a change that was never seen before."""
    tool = tools.get(declared.name)
    if tool is None:
        if _has_room(tools, declared.name):
            tools[declared.name] = Tool(accepted=[_seen(declared)])
        return False
    for each in tool.changed:
        each.sessions = [other for other in each.sessions if other != session]
    if _found(tool.accepted, declared):
        return False
    found = _found(tool.changed, declared)
    changed = found or _seen(declared)
    changed.sessions = [*changed.sessions, session][-_MAX_SESSIONS:]
    tool.changed = [*(each for each in tool.changed if each is not changed), changed][-_MAX_CHANGED:]
    return found is None


def _found(declarations: Sequence[Declaration], declared: Declared) -> Declaration | None:
    return next((each for each in declarations if each.digest == declared.digest), None)


def _seen(declared: Declared) -> Declaration:
    now = datetime.now(UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
    return Declaration(digest=declared.digest, seen=now, text=declared.text[:_MAX_SHOWN])
