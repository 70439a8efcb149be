"""Pinned tool declarations: the policy `tools` flags or refuses tools whose declaration has changed."""

import inspect
import json
import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from hookgate.hooks.policies.canonical import canonical_form, digest
from hookgate.hooks.policy_environment import PinnedTools, Policy
from hookgate.hooks.session import SessionContext
from hookgate.hooks.threads import run_in_file_thread
from hookgate.hooks.timestamps import utc_text
from hookgate.translator import declared_names, function_declarations, hosted_kinds
from hookgate.translator.fields import read, read_object

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
    """The known declarations. Every method also raises the exceptions of `stored`."""

    def __init__(self, stored: PinnedTools) -> None:
        self._stored = stored
        # A tool is stored much less often than it is declared.
        self._parsed = lru_cache(MAX_TOOLS)(PinnedTool.model_validate_json)

    async def tools(self, names: Collection[str] | None = None) -> Mapping[str, PinnedTool]:
        """Return the known tools by name; by default all of them."""
        documents = await self._stored.read(names)
        return await run_in_file_thread(
            lambda: {name: self._parsed(document) for name, document in documents.items()}
        )

    async def note(self, declared: Sequence[Declared], session: str) -> Noted:
        """Store the declarations of a session's request. The first one of each tool is accepted."""
        names = {item.name for item in declared if _can_be_stored(item.name)}
        known = await self.tools(names)
        new: frozenset[str] = frozenset()
        count = 0 if names <= known.keys() else await self._stored.count()
        if any(_would_change(known, count, item, session) for item in declared):
            noting = _Noting(declared, session)
            await self._stored.change(names, noting)
            known, new = noting.known, frozenset(noting.new)
        return Noted(frozenset(item.name for item in declared if not _accepts(known, item)), new)

    async def declares_changed(self, session: str, name: str) -> bool:
        """Return whether the session's latest declaration of the tool is not accepted."""
        tool = (await self.tools([name])).get(name) if _can_be_stored(name) else None
        return tool is not None and any(session in declaration.sessions for declaration in tool.changed)

    async def accept(self, name: str, digests: Collection[str]) -> None:
        """Accept changed declarations of a tool."""

        def change(documents: Mapping[str, bytes], _: int) -> Mapping[str, bytes]:
            if name not in documents:
                return {}
            tool = PinnedTool.model_validate_json(documents[name])
            accepted = [item for item in tool.changed if item.digest in digests]
            tool.accepted += [item.model_copy(update={"sessions": []}) for item in accepted]
            tool.changed = [item for item in tool.changed if item not in accepted]
            return {name: tool.model_dump_json().encode()}

        await self._stored.change([name], change)

    async def forget(self, names: Collection[str]) -> None:
        """Remove tools: their next declarations are accepted like those of unknown tools."""
        await self._stored.change(names, lambda _, __: dict.fromkeys(names))


class _Noting:
    """Records declarations, as a change to apply to the stored tools."""

    def __init__(self, declared: Sequence[Declared], session: str) -> None:
        self._declared, self._session = declared, session
        self.known: dict[str, PinnedTool] = {}
        """The tools with these names after the change."""
        self.new: set[str] = set()
        """The tools with a changed declaration that was never seen before."""

    def __call__(self, documents: Mapping[str, bytes], count: int) -> Mapping[str, bytes]:
        tools = {name: PinnedTool.model_validate_json(document) for name, document in documents.items()}
        # Tools are added to `tools`, and may be more than those that were known.
        others = count - len(tools)
        self.new = {item.name for item in self._declared if _note(tools, others, item, self._session)}
        self.known = tools
        stored = {name: tool.model_dump_json().encode() for name, tool in tools.items()}
        return {name: document for name, document in stored.items() if documents.get(name) != document}


class MemoryPins:
    """Pinned tools that last as long as the process."""

    def __init__(self) -> None:
        self._tools: dict[str, bytes] = {}

    async def read(self, names: Collection[str] | None = None) -> Mapping[str, bytes]:
        """Return the tools with these names that are stored; by default all tools."""
        wanted = self._tools.keys() if names is None else self._tools.keys() & set(names)
        return {name: self._tools[name] for name in wanted}

    async def count(self) -> int:
        """Return the number of tools."""
        return len(self._tools)

    async def change(
        self,
        names: Collection[str],
        change: Callable[[Mapping[str, bytes], int], Mapping[str, bytes | None]],
    ) -> None:
        """Change tools, in the event loop."""
        for name, document in change(await self.read(names), len(self._tools)).items():
            if document is None:
                self._tools.pop(name, None)
            else:
                self._tools[name] = document


def _accepts(known: Mapping[str, PinnedTool], declared: Declared) -> bool:
    tool = known.get(declared.name)
    return tool is not None and _find(tool.accepted, declared) is not None


def _would_change(tools: Mapping[str, PinnedTool], count: int, declared: Declared, session: str) -> bool:
    """Return whether `_note` would change anything. `count` is the number of all tools."""
    tool = tools.get(declared.name)
    if tool is None:
        return _has_room(count, declared.name)
    if _find(tool.accepted, declared):
        return any(session in declaration.sessions for declaration in tool.changed)
    known = _find(tool.changed, declared)
    return known is None or session not in known.sessions


def _has_room(count: int, name: str) -> bool:
    return count < MAX_TOOLS and _can_be_stored(name)


def _can_be_stored(name: str) -> bool:
    """Return whether a tool may have this name. PostgreSQL cannot store texts with NUL."""
    return len(name) <= _MAX_NAME and "\0" not in name


def _note(tools: dict[str, PinnedTool], others: int, declared: Declared, session: str) -> bool:
    """Add a declaration to `tools`. Returns whether it is a change that was never seen before.

    `others` is the number of tools besides those in `tools`.
    """
    tool = tools.get(declared.name)
    if tool is None:
        if _has_room(others + len(tools), declared.name):
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


def check_pins(policy: Policy, mode: Literal["flag", "refuse"], stored: PinnedTools | None) -> Policy:
    """Wrap a policy so that it also checks declarations, which are kept in memory if they are not stored."""
    pins = Pins(stored or MemoryPins())

    async def judge(event: dict[str, Any], session: SessionContext) -> dict[str, Any] | None:
        result = policy(event, session)
        output: dict[str, Any] | None = await result if inspect.isawaitable(result) else result
        if event["hook_event_name"] == "BeforeToolSelection":
            tools = tools_of(event)
            changed = await _changed(pins, tools, session)
            if not changed:
                return output
            offered = await session.call_state.steps.run(_offered, tools)
            return _selection(output, changed, offered, mode)
        if event["hook_event_name"] == "BeforeTool" and mode == "refuse" and output is None:
            return await _refusal(pins, str(event.get("tool_name")), session)
        return output

    return judge


def tools_of(event: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `tools` of the request in a BeforeToolSelection event, of any view, as a body."""
    request = event.get("llm_request") or {}
    return {"tools": read(request, "tools") or read(read_object(request, "raw"), "tools")}


def _offered(tools: dict[str, Any]) -> list[str]:
    """Return the names of the functions in a request, and the kinds of tools that the API runs."""
    return declared_names(tools) + hosted_kinds(tools)


async def _changed(pins: Pins, tools: dict[str, Any], session: SessionContext) -> frozenset[str]:
    """Return the names of changed tools in a request, and keep them for the calls in its answer."""
    declared = await session.call_state.steps.run(_declared, tools)
    noted = await pins.note(declared, _session_of(session))
    for name in sorted(noted.new):
        log.warning(
            "the declaration of the tool %r has changed; seen in session %s", name, session.session_id
        )
    session.call_state.values[_CALL_KEY] = noted.changed
    return noted.changed


def _session_of(session: SessionContext) -> str:
    """Return the name of a session for its declarations. Sessions of different keys may have the same ID."""
    return f"{session.key}/{session.session_id}"


def _declared(tools: dict[str, Any]) -> list[Declared]:
    """Return all function declarations that have a name; a model cannot call the others."""
    declarations = (canonical_form(item) for item in function_declarations(tools) if isinstance(item, dict))
    return [
        Declared(item["name"], digest(item), json.dumps(item, sort_keys=True, ensure_ascii=False, indent=2))
        for item in declarations
        if isinstance(item.get("name"), str)
    ]


def _selection(
    output: dict[str, Any] | None,
    changed: Collection[str],
    offered: list[str],
    mode: Literal["flag", "refuse"],
) -> dict[str, Any]:
    names = ", ".join(repr(name) for name in sorted(changed))
    message = {"systemMessage": _MESSAGE.format(count=len(changed), names=names)}
    if mode == "flag":
        return {**(output or {}), **message}
    allowed = offered if output is None else output["hookSpecificOutput"]["tools"]
    kept = [each for each in allowed if not (isinstance(each, str) and each in changed)]
    return {**message, "hookSpecificOutput": {"tools": kept}}


async def _refusal(pins: Pins, name: str, session: SessionContext) -> dict[str, Any] | None:
    """Return the denial of a call, if its tool has changed.

    The call is either in the answer to this request, or reported by an agent of the same session.
    """
    if _CALL_KEY in session.call_state.values:
        refused = name in session.call_state.values[_CALL_KEY]
    else:
        refused = await pins.declares_changed(_session_of(session), name)
    return {"decision": "deny", "reason": _CHANGED.format(name=name)} if refused else None
