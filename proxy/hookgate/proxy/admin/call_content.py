"""The stored content of a call for the panel: with the change that each hook made, and shortened."""

from typing import Any

from hookgate.hooks import AfterModel, BeforeModel, BeforeToolSelection, Event
from hookgate.hooks.events.base import Document, SharedValue
from hookgate.proxy.audit.reading import CallDetail
from hookgate.translator import TranslatorError, declared_names, show_tool_config
from hookgate.translator.fields import JsonObject


def shown_content(detail: CallDetail) -> JsonObject | None:
    """Return the stored content of a call with the changes by hooks, or None if no content is stored."""
    start = detail.start.content if detail.start else None
    end = detail.end.content if detail.end else None
    if start is None and end is None:
        return None
    body = detail.start.record.body if detail.start else {}
    content = {"request": None, "sent": None, "answer": None, "given": None, **(start or {}), **(end or {})}
    streamed = ":stream" in str((body.get("route") or {}).get("path", ""))
    changes = hook_changes(content, str(body.get("model") or ""), streamed=streamed)
    content.pop("edits", None)
    shortened: JsonObject = shorten({**content, "changes": changes})
    return shortened


_SHOWN_AS = {"BeforeModel": "llm_request", "AfterModel": "llm_response"}
_RAW = frozenset({"contents", "systemInstruction"})


def hook_changes(content: JsonObject, model: str, *, streamed: bool) -> list[JsonObject]:
    """Return the edits in order, as objects with event, hook, mode, before and after.

    `before` is None for streams: the parts that hooks saw are not stored.
    """
    request, answer = content.get("request"), content.get("answer")
    events: dict[str, Event] = {}
    if isinstance(request, dict):
        events["BeforeModel"] = BeforeModel(model, request)
    if isinstance(answer, dict) and not streamed:
        events["AfterModel"] = AfterModel(SharedValue({}), answer)
    found = []
    for each in content.get("edits") or ():
        if each["event"] == BeforeToolSelection.name:
            before, after = _before_selection(events.get("BeforeModel"), each["edit"]), None
        else:
            before, after = _step(events.get(each["event"]), each["edit"])
        found.append({name: each[name] for name in ("event", "hook", "mode")})
        found[-1] |= {"before": before, "after": each["edit"]}
        if each["mode"] == "enforce" and after is not None:
            events[each["event"]] = after
    return found


def _step(event: Event | None, edit: JsonObject) -> tuple[JsonObject | None, Event | None]:
    """Return the values of the edit's fields before the edit, and the event after it."""
    if event is None:
        return None, None
    view = _view(edit)
    try:
        shown = Document(event.fields(view)).value()[_SHOWN_AS[event.name]]
        return {name: shown.get(name) for name in edit}, event.edited(edit, view)
    except (TranslatorError, AttributeError, KeyError, TypeError, ValueError):  # content of another version's
        return None, None


def _before_selection(event: Event | None, selection: JsonObject) -> JsonObject | None:
    """Return what a request offers without the selection. Selections are united: none sees another one."""
    if not isinstance(event, BeforeModel):
        return None
    try:
        offered = {"toolConfig": show_tool_config(event.body), "tools": declared_names(event.body)}
    except (TranslatorError, AttributeError, TypeError, ValueError):  # content of another version's
        return None
    return {name: offered.get(name) for name in selection}


def _view(edit: JsonObject) -> str:
    """Return the view in which an edit was made, judging by its fields: text, parts, raw or body."""
    if "raw" in edit:
        return "body"
    if not _RAW.isdisjoint(edit):
        return "raw"
    messages: Any = edit.get("messages")
    listed = [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    return "parts" if any(isinstance(each.get("content"), list) for each in listed) else "text"


LONGEST_TEXT = 20_000
"""Characters that are shown of one text."""

MAX_ITEMS = 2_000
"""Items that are shown of one list or object."""

MAX_CHARACTERS = 2_000_000
"""The approximate number of characters that are shown of a document."""

_DEEPEST = 60
_EXACT = 2**53 - 1
"""The largest integer that JavaScript represents exactly; larger ones are sent as texts."""
_NODE = 8
"""The size of a value without its text, in characters."""


def shorten(value: Any) -> Any:
    """Return the value with long texts, lists and objects shortened."""
    return _Cutter().cut(value, 0)


class _Cutter:
    """Shortens one document."""

    def __init__(self) -> None:
        self._left = MAX_CHARACTERS

    def cut(self, value: Any, depth: int) -> Any:
        self._left -= _NODE
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and abs(value) > _EXACT:
            return str(value)
        if not isinstance(value, dict | list):
            return value
        if depth > _DEEPEST:
            return "… (deeper levels are left out)"
        return self._object(value, depth) if isinstance(value, dict) else self._list(value, depth)

    def _text(self, text: str) -> str:
        kept = text[: max(0, min(LONGEST_TEXT, self._left))]
        self._left -= len(kept)
        return kept if kept == text else f"{kept} … ({len(text) - len(kept)} more characters)"

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in items[:MAX_ITEMS]:
            if self._left <= 0:
                break
            kept.append(self.cut(item, depth + 1))
        return kept if len(kept) == len(items) else [*kept, f"… ({len(items) - len(kept)} more)"]

    def _object(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in list(fields.items())[:MAX_ITEMS]:
            if self._left <= 0 and depth:
                break
            self._left -= len(name)
            kept[self._text(name)] = self.cut(value, depth + 1)
        return kept if len(kept) == len(fields) else {**kept, "…": f"({len(fields) - len(kept)} more)"}
