"""Hooks taken out of a settings text; whatever else stands there keeps its bytes. Pure."""

from typing import Any

from hookgate.hooks.managing.splicing import value_of, without_item
from hookgate.hooks.settings import jsonc
from hookgate.shim.command.agents import tells_gateway


def installed(text: str) -> dict[str, list[Any]]:
    """The hooks by event that tell the gateway."""
    found = {
        event: [hook for group in _list(groups) for hook in _hooks(group) if tells_gateway(hook, event)]
        for event, groups in _events(text).items()
    }
    return {event: hooks for event, hooks in found.items() if hooks}


def without_hooks(text: str) -> str:
    """Without the hooks that tell the gateway, and the groups, events and `hooks` which that leaves empty."""
    for event in installed(text):
        text = _without_event(text, event)
        if not _events(text)[event]:
            text = _without_member(text, ["hooks", event])
            if not _events(text):
                text = _without_member(text, ["hooks"])
    return text


def _without_event(text: str, event: str) -> str:
    groups = _events(text)[event]
    for at, group in reversed(list(enumerate(groups))):
        ours = [number for number, hook in enumerate(_hooks(group)) if tells_gateway(hook, event)]
        if ours and len(ours) == len(_hooks(group)):
            text = without_item(text, ["hooks", event], at)
            continue
        for number in reversed(ours):
            place = ["hooks", event, at, "hooks"]
            text = without_item(text, place, number)
    return text


def _without_member(text: str, place: list[str]) -> str:
    """Take a member out of its object, with its comma and the white space before it.

    Beside a comment, which may be about it, an only member goes without the white space, and another stays.
    """
    span = jsonc.span_of(text, place)
    bare = jsonc.without_comments(text)
    begin = bare.rfind(f'"{place[-1]}"', 0, span[0]) if span else -1
    if span is None or begin < 0:
        return text
    end = span[1]
    before = len(bare[:begin].rstrip())
    after = len(bare) - len(bare[end:].lstrip())
    if text[before:begin].strip() or text[end:after].strip():
        return text[:begin] + text[end:] if bare[before - 1] == "{" and bare[after] == "}" else text
    if bare[before - 1] == ",":
        return text[: before - 1] + text[end:]
    return text[:before] + (text[after + 1 :] if bare[after] == "," else text[after:])


def _events(text: str) -> dict[str, Any]:
    value = value_of(text)
    events = value.get("hooks") if isinstance(value, dict) else None
    return events if isinstance(events, dict) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _hooks(group: Any) -> list[Any]:
    return _list(group.get("hooks")) if isinstance(group, dict) else []
