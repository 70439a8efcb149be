"""The events of a streamed response as GenerateContentResponses, and back with a hook's edits.

An event with a piece of a text becomes a response with a part. The other fields of an event keep their names.
Events that repeat texts, such as `response.output_text.done`, are shown with empty ones: `ResponseEvents`
gives them the texts that the client has received. A function call is judged whole: `ResponseEvents` joins its
events to `{"events": […]}`, which is shown as one response with the complete call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from hookgate.translator.conversation.candidates import candidate_of, group_parts, parts_of_answer
from hookgate.translator.fields import BodyError, JsonObject, is_text, read_list, read_object, same
from hookgate.translator.responses.answer import (
    check_response_fields,
    metadata_as_usage,
    new_item,
    reason_of_status,
    usage_as_metadata,
)
from hookgate.translator.responses.contents import (
    THOUGHTS,
    is_content_text,
    texts_of_item,
    with_empty_texts,
    with_text,
)
from hookgate.translator.responses.items import (
    check_item_arguments,
    decode_output_item,
    encode_items,
    type_of_item,
)
from hookgate.translator.streaming.events import TextChannel
from hookgate.translator.streaming.sources import TextSources

NEXT = -1
"""The output index of an item that hooks have added: the framing replaces it with the next free one."""

CALL = "function_call"
BEGUN, ENDED = "response.output_item.added", "response.output_item.done"
ARGUMENTS, ALL_ARGUMENTS = "response.function_call_arguments.delta", "response.function_call_arguments.done"
_ARGUMENT_EVENTS = (ARGUMENTS, ALL_ARGUMENTS)
BEGINNINGS = ("response.created", "response.in_progress", "response.queued")
ENDINGS = ("response.completed", "response.failed", "response.incomplete")
FAILURE = "error"
_FAILED = frozenset({"code", "message", "param"})
_AUDIO = "response.audio."


class TextKind(NamedTuple):
    """How the events of one type of text are named."""

    content: str
    """The type of the content with the text."""
    list_name: str
    """The item's list that has the content."""
    number: str
    """The field with the content's number."""
    part: str
    """The beginning of the types of the events with which the content begins and ends."""
    text: str
    """The beginning of the types of the events with the text."""

    @property
    def delta(self) -> str:
        """The type of the event with a piece of the text."""
        return f"{self.text}.delta"

    @property
    def done(self) -> str:
        """The type of the event with the whole text."""
        return f"{self.text}.done"


_PART, _SUMMARY = "response.content_part", "response.reasoning_summary_part"
_KINDS = (
    TextKind("output_text", "content", "content_index", _PART, "response.output_text"),
    TextKind("refusal", "content", "content_index", _PART, "response.refusal"),
    TextKind("reasoning_text", "content", "content_index", _PART, "response.reasoning_text"),
    TextKind("summary_text", "summary", "summary_index", _SUMMARY, "response.reasoning_summary_text"),
)
KIND_OF_CONTENT = {kind.content: kind for kind in _KINDS}
KIND_OF_DELTA = {kind.delta: kind for kind in _KINDS}
KIND_OF_DONE = {kind.done: kind for kind in _KINDS}
PART_EVENTS = {
    f"{part}.{end}": kind
    for part, kind in ((_PART, _KINDS[0]), (_SUMMARY, _KINDS[-1]))
    for end in ("added", "done")
}
"""The kinds whose list and number the events have with which contents begin and end, by their types."""


class TextPlace(NamedTuple):
    """The place of a text: its item, the item's list, and the number in that."""

    item: int
    list_name: str
    number: int


def read_index(event: JsonObject, field: str = "output_index") -> int:
    """Return an index of an event. Raises BodyError if it is not one."""
    index = event.get(field)
    if type(index) is not int:
        raise BodyError(field, "an index must be an integer")
    return index


def place_in(event: JsonObject, kind: TextKind) -> TextPlace:
    """Return the place of the text in an event. Raises BodyError if the event names none."""
    return TextPlace(read_index(event), kind.list_name, read_index(event, kind.number))


def bare_item(item: JsonObject) -> JsonObject:
    """Return an item with empty texts, or a function call with empty arguments."""
    if item.get("type") == CALL:
        return {**item, "arguments": ""} if item.get("arguments") else item
    return with_empty_texts(item)


@dataclass(frozen=True, slots=True)
class _Shown:
    """An event, or a whole function call, as it is shown."""

    numbers: list[int]
    """The numbers of its events."""
    parts: list[JsonObject]


def decode_response_event(event: JsonObject) -> JsonObject:
    """Return the response for an event, or for joined events. Raises BodyError."""
    response, _ = _decoded(event)
    return response


def is_joined(event: JsonObject) -> bool:
    """Return whether an object consists of joined events."""
    return "events" in event and "type" not in event


def response_sources(body: JsonObject) -> TextSources:
    """Yield the sources of the texts in a response, in an event, or in joined events."""
    events = read_list(body, "events") if is_joined(body) else [body]
    for event in events:
        kind = event.get("type")
        if not isinstance(kind, str):
            yield from (source for item in read_list(event, "output") for source in _item_sources(item))
        elif isinstance(event.get("delta"), str) and event["delta"] and kind.endswith(".delta"):
            source = KIND_OF_DELTA[kind].content if kind in KIND_OF_DELTA else kind
            if kind != ARGUMENTS:
                yield TextChannel(0, thought=source in THOUGHTS), source


def _item_sources(item: JsonObject) -> TextSources:
    """Yield the sources of the texts in an item of a response."""
    for content in [*read_list(item, "summary"), *read_list(item, "content")]:
        kind = content.get("type") if isinstance(content, dict) else None
        has_text = is_content_text(content) or (isinstance(content, dict) and is_text(content))
        if kind in THOUGHTS and has_text and content["text"]:
            yield TextChannel(0, thought=True), kind
        elif kind not in THOUGHTS and has_text:
            own = kind if item.get("type") == "message" else item.get("type")
            yield TextChannel(0, thought=False), str(own)
    if isinstance(item.get("text"), str):
        yield TextChannel(0, thought=False), str(item.get("type"))


def _decoded(event: JsonObject) -> tuple[JsonObject, list[_Shown]]:
    if not is_joined(event):
        response, parts = _decode_one(event, "")
        if _is_of_call(event):
            raise BodyError("type", "this event of a function call cannot be judged without all the others")
        return response, [_Shown([0], parts)]
    events = event["events"]
    if not isinstance(events, list) or len(event) != 1:
        raise BodyError("events", "the events must be a list")
    decoded = [_decode_one(each, f"events[{number}]") for number, each in enumerate(events)]
    check_item_arguments((each.get("item") for each in events if each["type"] == ENDED), "events")
    shown = _shown_of(events, [parts for _, parts in decoded])
    candidate = candidate_of([part for each in shown for part in each.parts])
    rests: list[JsonObject] = []
    logprobs: list[Any] = []
    for response, _ in decoded:
        [own] = response["candidates"]
        logprobs += own.get("logprobsResult", [])
        rests.append({key: value for key, value in response.items() if key != "candidates"})
    if logprobs:
        candidate["logprobsResult"] = logprobs
    return {"candidates": [candidate], "events": rests}, shown


def _shown_of(events: Sequence[JsonObject], parts: Sequence[list[JsonObject]]) -> list[_Shown]:
    """Return what is shown of joined events, item by item."""
    by_index: dict[int, list[int]] = {}
    for number, event in enumerate(events):
        index = read_index(event) if "output_index" in event else NEXT
        by_index.setdefault(index, []).append(number)
    shown: list[_Shown] = []
    for _, numbers in sorted(by_index.items()):  # an item that began earlier continues the text before it
        if any(_is_of_call(events[number]) for number in numbers):
            shown.append(_Shown(numbers, [_whole_call([events[number] for number in numbers])]))
        else:
            shown += [_Shown([number], parts[number]) for number in numbers]
    return shown


def _is_of_call(event: JsonObject) -> bool:
    """Return whether an event is one of a function call."""
    return event["type"] in _ARGUMENT_EVENTS or read_object(event, "item").get("type") == CALL


def _whole_call(events: Sequence[JsonObject]) -> JsonObject:
    """Return the part for a function call from all of its events. Raises BodyError."""
    first, last = read_object(events[0], "item"), read_object(events[-1], "item")
    if events[0]["type"] != BEGUN or events[-1]["type"] != ENDED or first.get("type") != CALL:
        raise BodyError("type", "a function call needs all of its events")
    pieces = [each.get("delta") or "" for each in events if each["type"] == ARGUMENTS]
    text = "".join([first.get("arguments") or "", *pieces])
    for event in events[1:]:
        for holder in (event, read_object(event, "item")):
            if any(holder.get(key, first.get(key)) != first.get(key) for key in ("call_id", "name")):
                raise BodyError("item", "the events of a function call have different names or IDs")
        whole = event.get("arguments") if event["type"] == ALL_ARGUMENTS else None
        if whole is not None and whole != text:
            raise BodyError("arguments", "the arguments of a function call differ from their pieces")
    if last.get("type") != CALL or (last.get("arguments") or "") != text:
        raise BodyError("item.arguments", "the arguments of a function call differ from their pieces")
    [part] = decode_output_item({**last, "arguments": text}, "item")["parts"]
    return dict(part)


def _decode_one(event: Any, path: str) -> tuple[JsonObject, list[JsonObject]]:
    """Return the response for a single event, and its parts."""
    kind = _type_of_event(event, path)
    response, parts, reason = dict(event), list[JsonObject](), None
    logprobs: list[Any] = []
    if kind in KIND_OF_DELTA or (kind.endswith(".delta") and kind != ARGUMENTS):
        parts = _decode_delta(event, response)
    elif kind in (BEGUN, ENDED):
        response["item"] = _decode_item(event.get("item"), "item", logprobs)
    elif kind in PART_EVENTS:
        response["part"] = _decode_part(event.get("part"), logprobs)
    elif kind in KIND_OF_DONE:
        _hide_text(event, response, KIND_OF_DONE[kind])
    elif kind in _ARGUMENT_EVENTS:
        _hide(event, response, "delta" if kind == ARGUMENTS else "arguments")
    elif kind in (*BEGINNINGS, *ENDINGS):
        reason = _decode_state(event, response, logprobs)
    elif read_list(read_object(event, "response"), "output"):
        raise BodyError("response.output", "an event of this type has no output")
    elif kind == FAILURE and not _FAILED.isdisjoint(event):
        _refuse_error(event)
        response = {key: value for key, value in event.items() if key not in _FAILED}
        response["error"] = {key: event[key] for key in event if key in _FAILED}
    if own := _logprobs_of(response):
        logprobs += own
        response["logprobs"] = []
    # Each event has a candidate, since hooks written for generateContent expect one.
    candidate = candidate_of(parts, reason)
    response["candidates"] = [{**candidate, "logprobsResult": logprobs} if logprobs else candidate]
    return response, parts


def _type_of_event(event: Any, path: str) -> str:
    check_response_fields(event, path)
    kind = event.get("type")
    if not isinstance(kind, str):
        raise BodyError(f"{path}.type" if path else "type", "an event must have a type")
    if kind.startswith(_AUDIO):
        raise BodyError("type", "hooks cannot judge spoken answers")
    return kind


def _decode_delta(event: JsonObject, response: JsonObject) -> list[JsonObject]:
    """Return the part for a piece of a text, and hide it in the response. Raises BodyError."""
    kind = KIND_OF_DELTA.get(event["type"])
    if kind is not None or isinstance(event.get("delta"), str):
        _hide(event, response, "delta")
        part: JsonObject = {"text": event.get("delta") or ""}
        is_thought = kind is not None and kind.content in THOUGHTS
        return [{**part, "thought": True} if is_thought else part]
    return []  # of an unknown type, and not a text


def _hide(event: JsonObject, response: JsonObject, field: str) -> None:
    if not isinstance(event.get(field), str | None):
        raise BodyError(field, "it must be a string, since hooks cannot inspect other types")
    if event.get(field):
        response[field] = ""


def _hide_text(event: JsonObject, response: JsonObject, kind: TextKind) -> None:
    _hide(event, response, "refusal" if kind.content == "refusal" else "text")


def _decode_item(item: Any, path: str, logprobs: list[Any]) -> JsonObject:
    """Return an item without what is shown as parts elsewhere. The log probabilities are added to a list."""
    type_of_item(item, path)
    decode_output_item(item if item.get("type") != CALL else {**item, "arguments": ""}, path)
    for _, _, content in texts_of_item(item):
        logprobs += _logprobs_of(content)
    return bare_item(item)


def _logprobs_of(holder: JsonObject) -> list[Any]:
    """Return the log probabilities of the tokens of a text. Raises BodyError unless they are a list."""
    logprobs = holder.get("logprobs")
    if not isinstance(logprobs, list | None):
        raise BodyError("logprobs", "it must be a list, since hooks cannot inspect other types")
    return logprobs or []


def _decode_part(part: Any, logprobs: list[Any]) -> JsonObject:
    check_response_fields(part, "part")
    if not is_content_text(part):
        found: JsonObject = part
        return found
    logprobs += _logprobs_of(part)
    return with_text(part, "", keeps_logprobs=False)


def _decode_state(event: JsonObject, response: JsonObject, logprobs: list[Any]) -> str | None:
    """Replace the fields of an event about the whole response. Returns the reason why that has ended."""
    state = event.get("response")
    if not isinstance(state, dict):
        raise BodyError("response", "it must be an object, since hooks cannot inspect other types")
    check_response_fields(state, "response")
    shown = {key: value for key, value in state.items() if key not in ("error", "usage")}
    output = shown.get("output")
    if not isinstance(output, list | None):
        raise BodyError("response.output", "the output must be a list")
    if output:
        shown["output"] = [
            _decode_item(item, f"response.output[{number}]", logprobs) for number, item in enumerate(output)
        ]
    response["response"] = shown
    if state.get("error") is not None:
        _refuse_error(event)
        response["error"] = state["error"]
    if state.get("usage") is not None:
        response["usageMetadata"] = usage_as_metadata(state["usage"], "response.usage")
    if event["type"] not in ENDINGS:
        return None
    return reason_of_status(state) or ("STOP" if event["type"] == ENDINGS[0] else "OTHER")


def _refuse_error(event: JsonObject) -> None:
    """Refuse an error beside the one that is shown in its place. Raises BodyError."""
    if "error" in event:
        raise BodyError("error", "an event of this type has no such field beside its error")


# ---- and back


def encode_response_event(event: JsonObject, response: JsonObject) -> JsonObject:
    """Return the event, or `{"events": […]}`, after an edit; the event itself if nothing changed.

    Texts that events repeat are those of the original event. Raises BodyError if events cannot express the
    edit.
    """
    was, shown = _decoded(event)
    if same(was, response):
        return event
    joined = is_joined(event)
    events = event["events"] if joined else [event]
    rests = response["events"] if joined else [response]
    if len(rests) != len(events):
        raise BodyError("events", "a hook's edit removed events of an answer")
    if not joined and _ends(was) and not _ends(response):
        return {"events": []}  # another answer follows
    before = [part for each in shown for part in each.parts]
    owners = [number for number, each in enumerate(shown) for _ in each.parts]
    groups = group_parts(owners, before, parts_of_answer(response))
    new: dict[int, list[JsonObject]] = {}
    for number, each in enumerate(shown):
        others = [_with_rest(events[n], rests[n]) for n in each.numbers]
        left = groups.get(number, [])
        if same(left, each.parts):
            encoded = [
                [_with_hidden(events[n], other)] for n, other in zip(each.numbers, others, strict=True)
            ]
        elif len(each.numbers) > 1:
            encoded = _encode_call(others, left)
        else:
            encoded = [_encode_one(others[0], left)]
        new |= dict(zip(each.numbers, encoded, strict=True))
    out = [each for number in range(len(events)) for each in new[number]]
    return out[0] if len(out) == 1 else {"events": out}


def _ends(response: JsonObject) -> bool:
    candidates = read_list(response, "candidates")
    return any(candidate.get("finishReason") is not None for candidate in candidates)


def _with_rest(event: JsonObject, rest: JsonObject) -> JsonObject:
    """Return an event for what hooks left of its fields, with empty texts."""
    error = rest.get("error")
    new = {key: value for key, value in rest.items() if key not in ("candidates", "error", "usageMetadata")}
    if event["type"] == FAILURE and "error" in event:
        return new if error is None else {**new, "error": error}
    if event["type"] == FAILURE:
        return {**new, **(error if isinstance(error, dict) else {})}
    if isinstance(state := event.get("response"), dict) and isinstance(new.get("response"), dict):
        own: JsonObject = {}
        if "error" in state:
            own["error"] = error
        if "usage" in state:
            own["usage"] = metadata_as_usage(read_object(rest, "usageMetadata")) if state["usage"] else None
        new["response"] = {**new["response"], **own}
    return new


def _with_hidden(event: JsonObject, new: JsonObject) -> JsonObject:
    """Return a changed event with the text, or the arguments of a call, that was not shown in its fields."""
    hidden: JsonObject = {}
    if event["type"].endswith(".delta") and isinstance(event.get("delta"), str) and "delta" in new:
        hidden["delta"] = event["delta"]
    if event["type"] == ALL_ARGUMENTS and "arguments" in event and "arguments" in new:
        hidden["arguments"] = event["arguments"]
    item = event.get("item")
    if isinstance(item, dict) and item.get("type") == CALL and isinstance(new.get("item"), dict):
        hidden["item"] = {**new["item"], "arguments": item.get("arguments")}
    return {**new, **hidden}


def _encode_one(event: JsonObject, parts: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the events for a single event whose parts were edited. `event` has no text."""
    if event["type"] in ENDINGS:
        return [*_new_items(parts), event]
    if not event["type"].endswith(".delta"):  # text that hooks added where there was none
        return [event, *_new_items(parts)]
    pieces = [part for part in parts if isinstance(part.get("text"), str)]
    others = [part for part in parts if not isinstance(part.get("text"), str)]
    return [*({**event, "delta": part["text"]} for part in pieces), *_new_items(others)]


def _encode_call(events: Sequence[JsonObject], parts: Sequence[JsonObject]) -> list[list[JsonObject]]:
    """Return the events of a function call after a decision about it, one list for each event.

    A call with other arguments has them in one piece. A refused call becomes a message.
    """
    index, rest = read_index(events[0]), events[1:]
    if len(parts) != 1 or "functionCall" not in parts[0]:
        return [_new_items(parts, index), *([] for _ in rest)]
    [call] = encode_items({"role": "model", "parts": list(parts)})
    first, last = events[0], events[-1]
    id_ = read_object(first, "item").get("id")
    pieces = _argument_events(call, index, id_)
    begun = {**first, "item": {**first["item"], **call, "arguments": ""}}
    ended = {**last, "item": {**last["item"], **call}}
    kept = [[] if each["type"] in _ARGUMENT_EVENTS else [each] for each in rest[:-1]]
    return [[begun, *pieces], *kept, [ended]]


def _new_items(parts: Sequence[JsonObject], index: int = NEXT) -> list[JsonObject]:
    """Return the events of new items, each from its beginning to its end."""
    events: list[JsonObject] = []
    for item in encode_items({"role": "model", "parts": list(parts)}) if parts else ():
        events += item_events(new_item(item, str(index)), index)
        index = NEXT
    return events


# ---- the events of items


def item_events(item: JsonObject, index: int) -> list[JsonObject]:
    """Return the events of one item: its beginning, its texts or arguments, and its end."""
    begun = bare_item(item)
    events: list[JsonObject] = []
    if item.get("type") == CALL:
        events = _argument_events(item, index, item.get("id"))
    texts = [*texts_of_item(item)]
    for name, number, content in texts:
        begun = {**begun, name: []}
        events += content_events(content, TextPlace(index, name, number), item.get("id"))
    if "status" in begun:
        begun = {**begun, "status": "in_progress"}
    return [
        {"type": BEGUN, "output_index": index, "item": begun},
        *events,
        {"type": ENDED, "output_index": index, "item": item},
    ]


def _argument_events(call: JsonObject, index: int, id_: Any) -> list[JsonObject]:
    arguments, place = call.get("arguments") or "", {"item_id": id_, "output_index": index}
    return [
        *([{"type": ARGUMENTS, **place, "delta": arguments}] if arguments else []),
        {"type": ALL_ARGUMENTS, **place, "name": call.get("name"), "arguments": arguments},
    ]


def content_events(content: JsonObject, place: TextPlace, id_: Any) -> list[JsonObject]:
    """Return the events of one content of an item that is a text, from its beginning to its end."""
    kind = KIND_OF_CONTENT.get(content["type"], _KINDS[0])
    at = {"item_id": id_, "output_index": place.item, kind.number: place.number}
    field = "refusal" if kind.content == "refusal" else "text"
    text = content[field]
    logprobs: JsonObject = {"logprobs": []} if kind.content == "output_text" else {}
    empty = with_text(content, "", keeps_logprobs=False)
    return [
        {"type": f"{kind.part}.added", **at, "part": empty},
        *([{"type": kind.delta, **at, "delta": text, **logprobs}] if text else []),
        {"type": kind.done, **at, field: text, **logprobs},
        {"type": f"{kind.part}.done", **at, "part": content},
    ]


def response_events(body: JsonObject) -> list[JsonObject]:
    """Return the events of a whole response, as the API would stream it."""
    begun = {key: value for key, value in body.items() if key not in ("output_text", "usage")}
    begun |= {"status": "in_progress", "incomplete_details": None, "output": []}
    events = [{"type": BEGINNINGS[0], "response": begun}]
    for index, item in enumerate(body.get("output") or ()):
        events += item_events(item, index)
    status = body.get("status")
    ending = f"response.{status}" if f"response.{status}" in ENDINGS else ENDINGS[0]
    events.append({"type": ending, "response": body})
    return [{**event, "sequence_number": number} for number, event in enumerate(events)]
