"""Pinned tool declarations: the policy `tools` flags or refuses tools whose declaration has changed."""

import asyncio
import fcntl
import json
import logging
import os
from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from threading import Lock
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from hookgate.hooks.events.base import utc_text
from hookgate.hooks.policies.canonical import canonical_form, digest
from hookgate.hooks.runners.inprocess import Policy
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings.editing import write_atomically
from hookgate.translator import declared_names
from hookgate.translator.fields import read_list

log = logging.getLogger("hookgate.hooks")


class Declaration(BaseModel):
    """A stored declaration of a tool."""

    model_config = ConfigDict(extra="forbid")

    digest: str
    """The SHA-256 of its canonical form."""
    seen: str
    """When it was first seen: ISO 8601, UTC."""
    text: str
    """The beginning of the declaration, for people to read."""
    sessions: list[str] = []
    """The latest sessions that use the declaration, if it is not accepted."""


class PinnedTool(BaseModel):
    """The declarations of the tool of one name."""

    model_config = ConfigDict(extra="forbid")

    accepted: list[Declaration] = Field(min_length=1)
    changed: list[Declaration] = []


class PinFileContent(BaseModel):
    """The content of the file: tools by name."""

    model_config = ConfigDict(extra="forbid")

    tools: dict[str, PinnedTool] = {}


def load_pins(path: Path) -> PinFileContent:
    """Read the file. Returns an empty content if there is none. Raises OSError, or ValueError if invalid."""
    try:
        return PinFileContent.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        return PinFileContent()
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"])) or "the file"
        raise ValueError(f"{path}: {place}: {first['msg']}; repair or remove it") from None


def stamp_of(path: Path) -> tuple[int, ...] | None:
    """Return a value that changes whenever the file does. Returns None if there is no file."""
    try:
        stat = path.stat()
    except FileNotFoundError:
        return None
    return stat.st_ino, stat.st_size, stat.st_mtime_ns


_FILE = "tools-pinned.json"

MAX_TOOLS = 2000
"""The maximum number of tools that are stored. Declarations of further tools are not accepted."""

_MAX_NAME = 256
"""The maximum length of a name in characters; the API accepts 64."""

_MAX_CHANGED = 8
"""The number of changed declarations that are stored per tool; older ones are dropped."""

_MAX_SESSIONS = 100
"""The number of sessions that are stored per changed declaration; older ones are dropped."""

_MAX_SHOWN = 4000
"""The number of characters of a declaration that are stored for people to read."""


@dataclass(frozen=True, slots=True)
class Declared:
    """A declaration in a request."""

    name: str
    digest: str
    text: str


@dataclass(frozen=True, slots=True)
class Noted:
    """The names of tools in a request whose declarations have changed."""

    changed: frozenset[str]
    """The tools whose declaration is not accepted."""
    new: frozenset[str]
    """Those of them whose declaration was never seen before."""


class Pins:
    """The known declarations, stored in the state folder, or in memory if there is none."""

    def __init__(self, state: Path | None) -> None:
        self._path = state and state / _FILE
        self._content = PinFileContent()
        self._stamp: tuple[int, ...] | None = None
        self._lock = Lock()

    def tools(self) -> Mapping[str, PinnedTool]:
        """Return the known tools by name. Raises OSError, or ValueError for an invalid file."""
        if self._path is not None and (stamp := stamp_of(self._path)) != self._stamp:
            self._content, self._stamp = load_pins(self._path), stamp
        return self._content.tools

    def note(self, declared: Sequence[Declared], session: str) -> Noted:
        """Store the declarations of a session's request. The first one of each tool is accepted.

        Raises OSError, or ValueError for an invalid file.
        """
        with self._lock:
            known = self.tools()
            new: set[str] = set()
            if any(_would_change(known, item, session) for item in declared):
                with self._locked_tools() as tools:
                    new = {item.name for item in declared if _note(tools, item, session)}
            known = self.tools()
        return Noted(frozenset(item.name for item in declared if not _accepts(known, item)), frozenset(new))

    def declares_changed(self, session: str, name: str) -> bool:
        """Return whether the session's latest declaration of the tool is not accepted.

        Raises the same exceptions as `tools`.
        """
        with self._lock:
            tool = self.tools().get(name)
        return tool is not None and any(session in declaration.sessions for declaration in tool.changed)

    def accept(self, name: str, digests: Collection[str]) -> None:
        """Accept changed declarations of a tool. Raises the same exceptions as `tools`."""
        with self._lock, self._locked_tools() as tools:
            if (tool := tools.get(name)) is not None:
                accepted = [item for item in tool.changed if item.digest in digests]
                tool.accepted += [item.model_copy(update={"sessions": []}) for item in accepted]
                tool.changed = [item for item in tool.changed if item not in accepted]

    @contextmanager
    def _locked_tools(self) -> Iterator[dict[str, PinnedTool]]:
        """Lock the file, yield the tools so that they can be changed, and write them back."""
        if self._path is None:
            yield self._content.tools
            return
        self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        lock = os.open(self._path.with_suffix(".lock"), os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            content = load_pins(self._path)
            yield content.tools
            write_atomically(self._path, content.model_dump_json(indent=2) + "\n", mode=0o600)
        finally:
            os.close(lock)


def _accepts(known: Mapping[str, PinnedTool], declared: Declared) -> bool:
    tool = known.get(declared.name)
    return tool is not None and _find(tool.accepted, declared) is not None


def _would_change(tools: Mapping[str, PinnedTool], declared: Declared, session: str) -> bool:
    """Return whether `_note` would change anything."""
    tool = tools.get(declared.name)
    if tool is None:
        return _has_room(tools, declared.name)
    if _find(tool.accepted, declared):
        return any(session in declaration.sessions for declaration in tool.changed)
    known = _find(tool.changed, declared)
    return known is None or session not in known.sessions


def _has_room(known: Mapping[str, PinnedTool], name: str) -> bool:
    return len(known) < MAX_TOOLS and len(name) <= _MAX_NAME


def _note(tools: dict[str, PinnedTool], declared: Declared, session: str) -> bool:
    """Store a declaration. Returns whether it is a change that was never seen before."""
    tool = tools.get(declared.name)
    if tool is None:
        if _has_room(tools, declared.name):
            tools[declared.name] = PinnedTool(accepted=[_new_declaration(declared)])
        return False
    for declaration in tool.changed:
        declaration.sessions = [other for other in declaration.sessions if other != session]
    if _find(tool.accepted, declared):
        return False
    known = _find(tool.changed, declared)
    changed = known or _new_declaration(declared)
    changed.sessions = [*changed.sessions, session][-_MAX_SESSIONS:]
    tool.changed = [*(declaration for declaration in tool.changed if declaration is not changed), changed][
        -_MAX_CHANGED:
    ]
    return known is None


def _find(declarations: Sequence[Declaration], declared: Declared) -> Declaration | None:
    return next((declaration for declaration in declarations if declaration.digest == declared.digest), None)


def _new_declaration(declared: Declared) -> Declaration:
    return Declaration(
        digest=declared.digest, seen=utc_text(precision="seconds"), text=declared.text[:_MAX_SHOWN]
    )


_CALL_KEY = "tools pinned"

_CHANGED = "The tool {name!r} has changed since it was first declared, so it is not allowed here."

_MESSAGE = (
    "{count} of the offered tools have changed since they were first declared: {names}; "
    "run `hookgate tools list` to see them, `hookgate tools accept NAME` to accept a change"
)


def check_pins(policy: Policy, mode: Literal["flag", "refuse"], state: Path | None) -> Policy:
    """Wrap a policy so that it also checks declarations. They are stored in the folder `state`."""
    pins = Pins(state)

    async def judge(event: dict[str, Any], session: SessionContext) -> dict[str, Any] | None:
        output: dict[str, Any] | None = policy(event, session)
        if event["hook_event_name"] == "BeforeToolSelection":
            tools = {"tools": event.get("available_tools")}
            changed = await _changed(pins, tools, session)
            return _selection(output, changed, declared_names(tools), mode) if changed else output
        if event["hook_event_name"] == "BeforeTool" and mode == "refuse" and output is None:
            return await _refusal(pins, str(event.get("tool_name")), session)
        return output

    return judge


async def _changed(pins: Pins, tools: dict[str, Any], session: SessionContext) -> frozenset[str]:
    """Return the names of changed tools in a request, and keep them for the calls in its answer."""
    noted = await asyncio.to_thread(pins.note, _declared(tools), session.session_id)
    for name in sorted(noted.new):
        log.warning(
            "the declaration of the tool %r has changed; seen in session %s", name, session.session_id
        )
    session.call_state.values[_CALL_KEY] = noted.changed
    return noted.changed


def _declared(tools: dict[str, Any]) -> list[Declared]:
    """Return all function declarations that have a name; a model cannot call the others."""
    declarations = (
        canonical_form(item)
        for tool in read_list(tools, "tools")
        if isinstance(tool, dict)
        for item in read_list(tool, "functionDeclarations")
        if isinstance(item, dict) and isinstance(item.get("name"), str)
    )
    return [
        Declared(item["name"], digest(item), json.dumps(item, sort_keys=True, ensure_ascii=False, indent=2))
        for item in declarations
    ]


def _selection(
    output: dict[str, Any] | None,
    changed: Collection[str],
    declared: list[str],
    mode: Literal["flag", "refuse"],
) -> dict[str, Any]:
    names = ", ".join(repr(name) for name in sorted(changed))
    message = {"systemMessage": _MESSAGE.format(count=len(changed), names=names)}
    if mode == "flag":
        return {**(output or {}), **message}
    allowed = declared if output is None else output["hookSpecificOutput"]["tools"]
    return {**message, "hookSpecificOutput": {"tools": [name for name in allowed if name not in changed]}}


async def _refusal(pins: Pins, name: str, session: SessionContext) -> dict[str, Any] | None:
    """Return the denial of a call, if its tool has changed.

    The call is either in the answer to this request, or reported by an agent of the same session.
    """
    if _CALL_KEY in session.call_state.values:
        refused = name in session.call_state.values[_CALL_KEY]
    else:
        refused = await asyncio.to_thread(pins.declares_changed, session.session_id, name)
    return {"decision": "deny", "reason": _CHANGED.format(name=name)} if refused else None
