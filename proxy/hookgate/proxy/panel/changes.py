"""What each hook changed in a call, with what stood there before: made of a call's stored content. Pure."""

from typing import Any

from hookgate.hooks import AfterModel, BeforeModel, Event
from hookgate.hooks.document import Document, Encoded
from hookgate.translator import TranslatorError
from hookgate.translator.fields import JsonObject

_SHOWN_AS = {"BeforeModel": "llm_request", "AfterModel": "llm_response"}
_RAW = frozenset({"contents", "systemInstruction"})


def changes_of(content: JsonObject, model: str, *, streamed: bool) -> list[JsonObject]:
    """The edits in their order: {event, hook, mode, before, after}.

    `before` is None where it is not known: a hook on a stream saw pieces of it, which are not kept.
    """
    request, answer = content.get("request"), content.get("answer")
    events: dict[str, Event] = {}
    if isinstance(request, dict):
        events["BeforeModel"] = BeforeModel(model, request)
    if isinstance(answer, dict) and not streamed:
        events["AfterModel"] = AfterModel(Encoded({}), answer)
    found = []
    for each in content.get("edits") or ():
        before, after = _step(events.get(each["event"]), each["edit"])
        found.append({name: each[name] for name in ("event", "hook", "mode")})
        found[-1] |= {"before": before, "after": each["edit"]}
        if each["mode"] == "enforce" and after is not None:
            events[each["event"]] = after
    return found


def _step(event: Event | None, edit: JsonObject) -> tuple[JsonObject | None, Event | None]:
    """What the edit's fields held before, and the event after it."""
    if event is None:
        return None, None
    view = _view(edit)
    try:
        shown = Document(event.fields(view)).value()[_SHOWN_AS[event.name]]
        return {name: shown.get(name) for name in edit}, event.edited(edit, view)
    except (TranslatorError, AttributeError, KeyError, TypeError, ValueError):  # content of another version's
        return None, None


def _view(edit: JsonObject) -> str:
    """The view in which the edit was made, as its fields tell: texts, parts, raw contents, or the body."""
    if "raw" in edit:
        return "body"
    if not _RAW.isdisjoint(edit):
        return "raw"
    messages: Any = edit.get("messages")
    listed = [each for each in messages if isinstance(each, dict)] if isinstance(messages, list) else []
    return "parts" if any(isinstance(each.get("content"), list) for each in listed) else "text"
