"""The events of a streamed interaction as GenerateContentResponses, and back with a hook's edits.

An event with a piece of a step becomes a response with a part. The other fields of an event keep their names.
A function call is judged whole: `InteractionEvents` joins its events to `{"events": […]}`, which is shown as
one response with the complete call.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from hookgate.translator.checks import check_spellings
from hookgate.translator.conversation.candidates import candidate_of, group_parts, parts_of_answer
from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    is_text,
    read_list,
    read_object,
    same,
    without,
)
from hookgate.translator.interactions.answer import (
    decode_usage,
    encode_usage,
    finish_reason,
)
from hookgate.translator.interactions.contents import MEDIA, check_fields, decode_content, encode_content
from hookgate.translator.interactions.steps import (
    decode_contents,
    decode_step,
    encode_turn,
    is_call_of_client,
)
from hookgate.translator.openai.calls import check_argument_values
from hookgate.translator.streaming.events import TextChannel
from hookgate.translator.streaming.sources import TextSources
from hookgate.translator.strictjson import dumps, loads

NEXT = -1
"""The index of a step that hooks have added: the framing replaces it with the next free one."""

_OLD = ("content.", "interaction.start", "interaction.complete")
_REPEATED = frozenset({"steps", "output_audio", "output_image", "output_text", "output_video"})
"""Fields of an event, or of an interaction in one, that repeat what other events contain.

They are not sent unless they are empty.
"""

_TAKEN = frozenset({"candidates", "usageMetadata", "usage_metadata"})
_WITHOUT_DELTA = ("interaction.", "step.start")
"""The prefixes of event types in which a delta is refused, because hooks would not see it."""


@dataclass(frozen=True, slots=True)
class _Shown:
    """An event, or a whole function call, as it is shown."""

    numbers: list[int]
    """The numbers of its events."""
    parts: list[JsonObject]


def decode_event(event: JsonObject) -> JsonObject:
    """Return the response for an event, or for joined events. Raises BodyError."""
    response, _ = _decoded(event)
    return response


class InteractionSources:
    """The sources of the texts of one interaction: what a text is, and the step in which it is.

    Clients know the texts of some steps only.
    """

    def __init__(self) -> None:
        self._steps: dict[Any, str] = {}  # the types of steps that have begun, by their indexes

    def sources_in(self, body: JsonObject) -> TextSources:
        """Yield the sources of the texts in an interaction, in an event, or in joined events."""
        events = read_list(body, "events") if "events" in body and "event_type" not in body else [body]
        for event in events:
            for step in read_list(event, "steps"):
                yield from _step_sources(step, "")
            if _has_a_step(event):
                kind = str(read_object(event, "step").get("type"))
                if len(self._steps) < _MOST_STEPS:
                    self._steps[event.get("index")] = kind
                yield from _step_sources(read_object(event, "step"), " at its beginning")
            delta = event.get("delta")
            if isinstance(delta, dict):
                own = self._steps.get(event.get("index"), "")
                where = "" if event.get("event_type") == "step.delta" else f" of {event.get('event_type')}"
                yield from _delta_sources(delta, f"{own}{where}")


_MOST_STEPS = 10_000


def _has_a_step(event: JsonObject) -> bool:
    return isinstance(event.get("step"), dict)


def _step_sources(step: JsonObject, where: str) -> TextSources:
    kind = str(step.get("type"))
    for name, thought in (("summary", True), ("content", kind == "thought")):
        for content in read_list(step, name):
            if text_type := _text_type(content):
                yield TextChannel(0, thought), f"{text_type} in {kind}{where}"


def _delta_sources(delta: JsonObject, step: str) -> TextSources:
    kind = str(delta.get("type"))
    inner = delta.get("content")
    for content in inner if isinstance(inner, list) else [delta, inner]:
        if text_type := _text_type(content, kind):
            of = kind if text_type == kind else f"{kind} with {text_type}"
            yield TextChannel(0, thought=kind == "thought_summary"), f"{of} in {step}"


def _text_type(content: Any, of_string: str = "") -> str:
    """Return the type of a content with a text; nothing if it has none."""
    if isinstance(content, str) and content:
        return of_string or "text"
    if isinstance(content, dict) and is_text(content) and content["text"]:
        return str(content.get("type", "text"))
    return ""


def _decoded(event: JsonObject) -> tuple[JsonObject, list[_Shown]]:
    if "event_type" in event or "events" not in event:
        response, parts = _decode_one(event, "")
        if _is_piece(event):
            raise BodyError("delta", "a piece of arguments needs the function call that it belongs to")
        return response, [_Shown([0], parts)]
    events = event["events"]
    if not isinstance(events, list) or len(event) != 1:
        raise BodyError("events", "the events must be a list")
    shown = _decode_joined(events)
    parts = [part for each in shown for part in each.parts]
    rests = [_rest_of(each, f"events[{number}]") for number, each in enumerate(events)]
    return {"candidates": [candidate_of(parts)], "events": rests}, shown


def _rest_of(event: Any, path: str) -> JsonObject:
    """Return an event without the fields that are shown as parts."""
    response, _ = _decode_one(event, path)
    delta = response.get("delta")
    if isinstance(delta, dict) and delta.get("type") == "arguments_delta":
        response["delta"] = without(delta, "arguments")
    return without(response, "candidates")


def _decode_joined(events: Sequence[Any]) -> list[_Shown]:
    """Return what is shown of joined events, step by step."""
    by_index: dict[Any, list[int]] = {}
    for number, event in enumerate(events):
        check_fields(event, f"events[{number}]")
        index = event.get("index")
        is_of_step = str(event.get("event_type")).startswith("step.")
        if type(index) is not int and (index is not None or is_of_step):
            raise BodyError(f"events[{number}].index", "an index must be an integer")
        by_index.setdefault(-1 if index is None else index, []).append(number)
    check_argument_values((_arguments_in(events, numbers) for numbers in by_index.values()), "events")
    shown: list[_Shown] = []
    for _, numbers in sorted(by_index.items()):  # a step that began earlier continues the text before it
        kind = read_object(events[numbers[0]], "step").get("type")
        if kind == "function_call" or any(_is_piece(events[number]) for number in numbers):
            shown.append(_Shown(numbers, [_whole_call(events, numbers)]))
        else:
            shown += [_Shown([n], _decode_one(events[n], f"events[{n}]")[1]) for n in numbers]
    return shown


def _whole_call(events: Sequence[JsonObject], numbers: Sequence[int]) -> JsonObject:
    """Return the part for a function call from all of its events. Raises BodyError."""
    step = read_object(events[numbers[0]], "step")
    if not str(step.get("type")).endswith("_call"):
        raise BodyError(
            f"events[{numbers[0]}].step", "a piece of arguments needs the function call that it belongs to"
        )
    for number in numbers[1:]:
        if _is_piece(events[number]):
            if not isinstance(events[number]["delta"].get("arguments"), str | None):
                raise BodyError(f"events[{number}].delta.arguments", "a piece of arguments must be a string")
        elif _has_step(events[number]):
            raise BodyError(f"events[{number}].index", "a step begins twice")
        elif _has_delta(events[number]):
            raise BodyError(f"events[{number}].delta.type", "a function call has no such delta")
    if text := _arguments_in(events, numbers):
        if step.get("arguments"):
            raise BodyError(
                "step.arguments", "a function call has arguments in its first event and in others"
            )
        arguments = loads(text.encode())
        if not isinstance(arguments, dict):
            raise BodyError("delta.arguments", "the arguments of a call must be an object")
        step = {**step, "arguments": arguments}
    part: JsonObject = decode_step(step, "step")["parts"][0]
    return part


def _arguments_in(events: Sequence[JsonObject], numbers: Sequence[int]) -> str:
    """Return the arguments in the pieces of one step."""
    pieces = (events[number]["delta"].get("arguments") for number in numbers if _is_piece(events[number]))
    return "".join(piece for piece in pieces if isinstance(piece, str))


def _decode_one(event: Any, path: str) -> tuple[JsonObject, list[JsonObject]]:
    """Return the response for a single event, and its parts."""
    check_fields(event, path)
    kind = event.get("event_type")
    if not isinstance(kind, str):
        raise BodyError(f"{path}.event_type" if path else "event_type", "an event must have a type")
    if kind.startswith(_OLD[0]) or kind in _OLD:
        raise BodyError(
            "event_type", "hooks judge steps; send the header Api-Revision: 2026-05-20 or a newer one"
        )
    for key in event:
        if key in _TAKEN or key == "events":
            raise BodyError(key, "the Interactions API has no such field")
    if (kind.startswith(_WITHOUT_DELTA) or _has_step(event)) and _has_delta(event):
        raise BodyError("delta", "an event of this type has no delta")
    if kind.startswith("interaction.") and _has_step(event):
        raise BodyError("step", "an event of this type has no step")
    response = dict(_without_repetitions(event))
    parts: list[JsonObject] = []
    reason = None
    if _has_step(event):
        step = event.get("step")
        turn = decode_step(step, "step")
        if (own := _STEP_TEXTS.get(str(turn.get("type")))) is not None:
            _check_text_fields(step, own, "step")
        parts = turn.get("parts", [])
        response["step"] = {key: value for key, value in turn.items() if key not in ("parts", "role")}
    elif _has_delta(event):
        response["delta"], parts = _decode_delta(event.get("delta"))
    elif kind.startswith("interaction."):
        reason = _decode_status(event, response)
    # Each event has a candidate, since hooks written for generateContent expect one.
    response["candidates"] = [candidate_of(parts, reason)]
    return response, parts


def _decode_status(event: JsonObject, response: JsonObject) -> str | None:
    """Replace the fields of an event about the whole interaction. Returns the reason why it has ended."""
    interaction = event.get("interaction")
    if isinstance(interaction, dict):
        check_spellings(interaction, "interaction")
        if "outputs" in interaction:
            raise BodyError(
                "outputs", "hooks judge steps; send the header Api-Revision: 2026-05-20 or a newer one"
            )
        response["interaction"] = without(_without_repetitions(interaction), "usage")
        if interaction.get("usage") is not None:
            response["usageMetadata"] = decode_usage(interaction["usage"], "interaction.usage")
    if event["event_type"] != "interaction.completed":
        return None
    return finish_reason(read_object(event, "interaction").get("status")) or "STOP"


def _decode_delta(delta: Any) -> tuple[JsonObject, list[JsonObject]]:
    """Return a delta without what is shown as a part, and the part, if there is one."""
    check_fields(delta, "delta")
    kind = delta.get("type")
    typed = {"type": kind}
    if not isinstance(kind, str):
        raise BodyError("delta.type", "a delta must have a type, such as text")
    _check_text_fields(delta, _field_of_texts(kind, delta), "delta")
    if kind == "text" or kind in MEDIA:
        return typed, [decode_content(delta, "delta")]
    if kind == "thought_summary":
        rest = without(delta, "content")
        content = delta.get("content")
        return rest, [] if content is None else [
            {**decode_content(content, "delta.content"), "thought": True}
        ]
    if kind == "thought_signature":
        rest = without(delta, "signature")
        signature = delta.get("signature")
        return rest, [] if signature is None else [{"thoughtSignature": signature}]
    if kind == "arguments_delta":  # its arguments are shown as those of the whole call
        return delta, []
    if kind == "function_call":
        raise BodyError("delta.type", "the Interactions API has no such delta")
    if kind.endswith(("_call", "_result")):
        part = decode_step(delta, "delta")["parts"][0]
        return typed, [part]
    return _decode_unknown_delta(delta)


_TEXT_FIELDS = ("text", "content", "summary")
_STEP_TEXTS = {"model_output": "content", "thought": "summary"}
"""The field of a step in which its texts are."""


def _field_of_texts(kind: str, delta: JsonObject) -> str:
    """Return the field of a delta in which its text is; an empty string if it has none."""
    if kind == "text":
        return "text"
    if kind == "thought_summary":
        return "content"
    if (
        kind in MEDIA
        or kind.endswith(("_call", "_result"))
        or kind in ("thought_signature", "arguments_delta")
    ):
        return ""
    return "text" if _is_content(delta) else "content"


def _check_text_fields(obj: JsonObject, own: str, path: str) -> None:
    """Refuse further texts, which clients may join, but hooks see event by event. Raises BodyError."""
    for name in _TEXT_FIELDS:
        if name != own and obj.get(name):
            raise BodyError(f"{path}.{name}", f"hooks cannot judge this field in a {obj['type'][:64]!r}")


def _has_step(event: JsonObject) -> bool:
    return event["event_type"] == "step.start" or isinstance(event.get("step"), dict)


def _has_delta(event: JsonObject) -> bool:
    return event["event_type"] == "step.delta" or isinstance(event.get("delta"), dict)


def _decode_unknown_delta(delta: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Do the same for a delta of an unknown type, whose texts are where those of known ones are."""
    content = delta.get("content")
    if _is_content(delta):
        return {"type": delta["type"]}, [decode_content(delta, "delta")]
    if isinstance(content, str):
        return without(delta, "content"), [{"text": content}]
    if content is not None:
        contents = content if isinstance(content, list) else [content]
        return without(delta, "content"), decode_contents(contents, "delta.content")
    return delta, []


def _is_content(delta: JsonObject) -> bool:
    """Return whether a delta of an unknown type is a content, rather than to have one."""
    return isinstance(delta.get("text"), str) or delta.get("uri") is not None


# ---- and back


def encode_event(event: JsonObject, response: JsonObject) -> JsonObject:
    """Return the event, or `{"events": […]}`, after an edit; the event itself if nothing changed.

    Raises BodyError if events cannot express the edit.
    """
    was, shown = _decoded(event)
    joined = "events" in was
    if same(was, response) and not _repeats(event):
        return event
    events = event["events"] if joined else [event]
    rests = response["events"] if joined else [response]
    before = was["events"] if joined else [was]
    edited = parts_of_answer(response)
    owners = [number for number, each in enumerate(shown) for _ in each.parts]
    groups = group_parts(owners, [part for each in shown for part in each.parts], edited)
    new: dict[int, list[JsonObject]] = {}
    for number, each in enumerate(shown):
        mine = [events[n] for n in each.numbers]
        others = [_with_rest(events[n], before[n], rests[n]) for n in each.numbers]
        left = groups.get(number, [])
        if same(left, each.parts):
            encoded = [[other] for other in others]
        elif len(mine) > 1:
            encoded = _encode_call(others, left)
        else:
            encoded = [_encode_one(others[0], left)]
        new |= dict(zip(each.numbers, encoded, strict=True))
    out = [each for number in range(len(events)) for each in new.get(number, [events[number]])]
    if not joined and _ends(was) and not _ends(response):
        out = []  # another answer follows
    return out[0] if len(out) == 1 else {"events": out}


def _repeats(event: JsonObject) -> bool:
    """Return whether an event repeats what other events contain."""
    events = event["events"] if "events" in event and "event_type" not in event else [event]
    holders = [holder for each in events for holder in (each, read_object(each, "interaction"))]
    return any(_without_repetitions(holder) is not holder for holder in holders)


def _without_repetitions(holder: JsonObject) -> JsonObject:
    """Return an event or an interaction without repetitions; the same object if there are none."""
    left = {key: value for key, value in holder.items() if not (key in _REPEATED and value)}
    return holder if len(left) == len(holder) else left


def _ends(response: JsonObject) -> bool:
    candidates = response.get("candidates") or [{}]
    return candidates[0].get("finishReason") is not None


def _with_rest(event: JsonObject, before: JsonObject, after: JsonObject) -> JsonObject:
    """Return the event with the fields that hooks changed, and without repetitions."""
    removed = before.keys() - after.keys() - {"candidates", "usageMetadata", "events"}
    new = {key: value for key, value in event.items() if key not in removed} if removed else event
    new = _without_repetitions(new)
    for key, value in after.items():
        if key in ("candidates", "usageMetadata", "events") or same(value, before.get(key)):
            continue
        if key in ("step", "delta", "interaction") and isinstance(event[key], dict):
            hidden = {k: v for k, v in event[key].items() if k not in before[key]}
            new = {**new, key: {**value, **hidden}}
        else:
            new = {**new, key: value}
    interaction = new.get("interaction")
    if isinstance(interaction, dict):
        left = _without_repetitions(interaction)
        metadata = after.get("usageMetadata")
        if metadata is not None and not same(metadata, before.get("usageMetadata")):
            left = {**left, "usage": encode_usage(metadata)}
        new = new if same(left, interaction) else {**new, "interaction": left}
    return new


def _encode_one(event: JsonObject, parts: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the events for a single event whose parts were edited."""
    if _has_step(event):
        return _encode_start(event, parts)
    if event["event_type"] == "interaction.completed":
        return [*_new_step(parts), event]
    if not _has_delta(event):  # text that hooks added where there was none
        return [event, *_new_step(parts)]
    events = [{**event, "delta": _encode_delta(part, event["delta"])} for part in parts]
    # A client that resumes the stream after the event continues after its last piece.
    return [*(without(each, "event_id") for each in events[:-1]), *events[-1:]]


def _encode_delta(part: JsonObject, delta: JsonObject) -> JsonObject:
    kind = delta["type"]
    if part.get("thought"):
        return {**without(delta, "content"), "type": "thought_summary", "content": encode_content(part)}
    if "thoughtSignature" in part and len(part) == 1:
        return {"type": "thought_signature", "signature": part["thoughtSignature"]}
    if not {"functionCall", "toolCall", "toolResponse", "functionResponse"}.isdisjoint(part):
        return encode_turn({"type": kind, "role": "model", "parts": [part]})[0]
    if kind == "text" or kind in MEDIA or _is_content(delta) or delta.get("content") is None:
        return encode_content(part)
    if isinstance(delta["content"], str) and is_text(part):
        return {**delta, "content": part["text"]}
    content = encode_content(part)
    return {**delta, "content": [content] if isinstance(delta["content"], list) else content}


def _encode_start(event: JsonObject, parts: Sequence[JsonObject]) -> list[JsonObject]:
    """Return the first event of a step with edited parts. A step without any begins empty."""
    step = event["step"]
    turn = decode_step(step, "step")
    if not turn.get("parts"):  # text that hooks added
        return [*_new_step(parts), event]
    steps = encode_turn({**turn, "parts": list(parts)})
    if not steps:
        kind = "model_output" if is_call_of_client(step) else step["type"]
        steps = [{"type": kind}]
    if len(steps) > 1:
        raise BodyError("step", "a hook's edit turned one step of a stream into several")
    return [{**event, "step": steps[0]}]


def _encode_call(events: Sequence[JsonObject], parts: Sequence[JsonObject]) -> list[list[JsonObject]]:
    """Return the events of a function call after a decision about it, one list for each event.

    A call with other arguments has them in one piece. A refused call becomes a text.
    """
    first, rest = events[0], events[1:]
    if not parts:
        return [[] for _ in events]
    steps = encode_turn({"role": "model", "parts": list(parts)})
    index = first.get("index")
    if len(steps) == 1 and steps[0]["type"].endswith("_call"):
        step = {**steps[0], "arguments": {}}
        piece = {"type": "arguments_delta", "arguments": dumps(steps[0].get("arguments", {})).decode()}
        begun = [{**first, "step": step}, {"event_type": "step.delta", "index": index, "delta": piece}]
        return [begun, *([each] if not _is_piece(each) else [] for each in rest)]
    return [_new_step(parts, index), *([] for _ in rest)]


def _is_piece(event: JsonObject) -> bool:
    return read_object(event, "delta").get("type") == "arguments_delta"


def _new_step(parts: Sequence[JsonObject], index: Any = NEXT) -> list[JsonObject]:
    """Return the events of new steps, each from its start to its stop."""
    events: list[JsonObject] = []
    for step in encode_turn({"role": "model", "parts": list(parts)}):
        events += step_events(step, index)
        index = NEXT
    return events


def step_events(step: JsonObject, index: int) -> list[JsonObject]:
    """Return the events of one step: its start, its texts or arguments as deltas, and its stop."""
    bare, deltas = step, []
    if step["type"] == "model_output":
        bare, deltas = {"type": "model_output"}, step.get("content", [])
    elif step["type"] == "function_call":
        bare = {**step, "arguments": {}}
        deltas = [{"type": "arguments_delta", "arguments": dumps(step["arguments"]).decode()}]
    return [
        {"event_type": "step.start", "index": index, "step": bare},
        *({"event_type": "step.delta", "index": index, "delta": delta} for delta in deltas),
        {"event_type": "step.stop", "index": index},
    ]


def with_deltas(event: JsonObject) -> list[JsonObject]:
    """Return an event; if an output begins with contents, which not all clients read, it and their deltas."""
    step = event.get("step")
    if event.get("event_type") != "step.start" or not isinstance(step, dict):
        return [event]
    contents = step.get("content")
    if step.get("type") != "model_output" or not isinstance(contents, list) or not contents:
        return [event]
    if not all(isinstance(content, dict) and content.keys() == {"type", "text"} for content in contents):
        return [event]  # as a delta, another content could mean something else
    if any(content["type"] != "text" for content in contents):
        return [event]
    at: JsonObject = {"event_type": "step.delta", "index": event.get("index")}
    begun = {**event, "step": without(step, "content")}
    return [begun, *({**at, "delta": content} for content in contents)]


def interaction_events(body: JsonObject) -> list[JsonObject]:
    """Return the events of a whole interaction, as the API would stream it."""
    begun = {key: value for key, value in body.items() if key not in ("steps", "usage", "status")}
    ended = {key: value for key, value in body.items() if key != "steps"}
    events = [{"event_type": "interaction.created", "interaction": {**begun, "status": "in_progress"}}]
    for index, step in enumerate(body.get("steps") or ()):
        events += step_events(step, index)
    return [*events, {"event_type": "interaction.completed", "interaction": ended}]
