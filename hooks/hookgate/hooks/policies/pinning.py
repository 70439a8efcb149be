"""Tools whose declaration changed since it was first seen: for the policy `tools`, flagged or refused.

Whoever may change the description of a tool tells the model what to do. A tool that was looked at once and
found harmless should not become another one unseen.
"""

import asyncio
import json
import logging
from collections.abc import Collection
from pathlib import Path
from typing import Any, Literal

from hookgate.hooks.kinds.builtin import Policy
from hookgate.hooks.policies.canonical import canonical, digest
from hookgate.hooks.policies.pins import Declared, Pins
from hookgate.hooks.session import Session
from hookgate.translator import declared_names
from hookgate.translator.fields import read_list

log = logging.getLogger("hookgate.hooks")

_KEPT = "tools pinned"

_CHANGED = "The tool {name!r} is not declared as it was when it was first seen, so it is not allowed here."

_TOLD = (
    "{count} of the tools offered are not declared as they were first seen: {names}; "
    "`hookgate tools list` shows them, `hookgate tools accept NAME` takes a change"
)


def pinned(policy: Policy, how: Literal["flag", "refuse"], state: Path | None) -> Policy:
    """The policy, with an eye on declarations besides. `state` is the folder that they are remembered in."""
    pins = Pins(state)

    async def act(event: dict[str, Any], session: Session) -> dict[str, Any] | None:
        said: dict[str, Any] | None = policy(event, session)
        if event["hook_event_name"] == "BeforeToolSelection":
            tools = {"tools": event.get("available_tools")}
            changed = await _changed(pins, tools, session)
            return _selection(said, changed, declared_names(tools), how) if changed else said
        if event["hook_event_name"] == "BeforeTool" and how == "refuse" and said is None:
            return await _refusal(pins, str(event.get("tool_name")), session)
        return said

    return act


async def _changed(pins: Pins, tools: dict[str, Any], session: Session) -> frozenset[str]:
    """The names in a request whose declaration is another one; kept for the calls that follow from it."""
    noted = await asyncio.to_thread(pins.note, _declared(tools), session.session_id)
    for name in sorted(noted.new):
        log.warning(
            "the declaration of the tool %r has changed; seen in session %s", name, session.session_id
        )
    session.call.kept[_KEPT] = noted.changed
    return noted.changed


def _declared(tools: dict[str, Any]) -> list[Declared]:
    """Every function declaration; what has no name is nothing that a model could call."""
    declarations = (
        canonical(each)
        for tool in read_list(tools, "tools")
        if isinstance(tool, dict)
        for each in read_list(tool, "functionDeclarations")
        if isinstance(each, dict) and isinstance(each.get("name"), str)
    )
    return [
        Declared(each["name"], digest(each), json.dumps(each, sort_keys=True, ensure_ascii=False, indent=2))
        for each in declarations
    ]


def _selection(
    said: dict[str, Any] | None, changed: Collection[str], declared: list[str], how: Literal["flag", "refuse"]
) -> dict[str, Any]:
    names = ", ".join(repr(name) for name in sorted(changed))
    told = {"systemMessage": _TOLD.format(count=len(changed), names=names)}
    if how == "flag":
        return {**(said or {}), **told}
    kept = declared if said is None else said["hookSpecificOutput"]["tools"]
    return {**told, "hookSpecificOutput": {"tools": [name for name in kept if name not in changed]}}


async def _refusal(pins: Pins, name: str, session: Session) -> dict[str, Any] | None:
    """What is said to a call: one that the answer to this very request holds, or one an agent tells of."""
    if _KEPT in session.call.kept:
        refused = name in session.call.kept[_KEPT]
    else:
        refused = await asyncio.to_thread(pins.declares_changed, session.session_id, name)
    return {"decision": "deny", "reason": _CHANGED.format(name=name)} if refused else None
