"""A chat completion, or a chunk of one, as a GenerateContentResponse, and back with a hook's edits.

Each choice becomes a candidate. What a message says and calls becomes the candidate's parts; its other
fields stay in the candidate, under `message` or `delta`. All other fields keep their names.

Calls of functions are judged whole, so all chunks that have a part of one are judged together: the framing
joins them to `{"chunks": […]}`, which is shown as one response.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from hookgate.translator.chat.messages import REASONING, check_message_arguments, decode_call, encode_call
from hookgate.translator.conversation.alignment import align_parts
from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    camel,
    parts_of,
    read,
    read_list,
    read_object,
    renamed,
    same,
    same_items,
)
from hookgate.translator.openai.fields import check_openai_fields
from hookgate.translator.streaming.events import TextChannel
from hookgate.translator.streaming.sources import TextSources

_TAKEN = frozenset({"candidates", "chunks", "usageMetadata"})
_OF_CANDIDATE = frozenset({"content", "finishMessage", "finishReason", "logprobsResult"})
_OF_MESSAGE = frozenset({"content", "refusal", "tool_calls", *REASONING})

_OF_PIECE = frozenset({"index", "function", "type", "id"})

_COUNTS = {
    "completion_tokens": "candidatesTokenCount",
    "prompt_tokens": "promptTokenCount",
    "total_tokens": "totalTokenCount",
}
_COUNTED: dict[str, str] = {shown: name for name, shown in _COUNTS.items()}
_REASONS = {"content_filter": "SAFETY", "length": "MAX_TOKENS", "stop": "STOP", "tool_calls": "STOP"}
_REASON = re.compile("[a-z_]{1,64}")
_STOPPED = {"MAX_TOKENS": "length", "STOP": "stop"}
"""The finish_reason for a finishReason. All others are those of a filter."""

SYNTHETIC_ID = "chatcmpl-hookgate"
"""The ID of a completion that a hook has answered."""

_Place = tuple[str, int]
"""The field of a message that a part was, and its number among tool calls, or else 0."""


def decode_completion(body: JsonObject) -> JsonObject:
    """Return the response for a completion, a chunk, or joined chunks. Raises BodyError."""
    if "chunks" not in body or "choices" in body:
        check_message_arguments(_messages_in([body]), "choices")
        return _decode_one(body)
    chunks = body["chunks"]
    if not isinstance(chunks, list) or len(body) != 1:
        raise BodyError("chunks", "the chunks must be a list")
    whole = with_joined_calls(chunks)
    check_message_arguments(_messages_in(whole), "chunks")
    return _joined([_decode_one(chunk) for chunk in whole])


def _messages_in(bodies: Iterable[JsonObject]) -> Iterator[JsonObject]:
    """Yield the messages of all choices."""
    for body in bodies:
        for choice in read_list(body, "choices"):
            if isinstance(choice, dict):
                yield read_object(choice, "message")
                yield read_object(choice, "delta")


def _decode_one(body: JsonObject) -> JsonObject:
    check_openai_fields(body, "")
    for key in body:
        if camel(key) in _TAKEN:
            raise BodyError(key, "chat completions have no such field")
    choices = body.get("choices")
    if not isinstance(choices, list | None):
        raise BodyError("choices", "the choices must be a list")
    response = {key: value for key, value in body.items() if key not in ("choices", "usage")}
    response["candidates"] = [_decode_choice(each, f"choices[{n}]") for n, each in enumerate(choices or ())]
    if (usage := body.get("usage")) is not None:
        if not isinstance(usage, dict):
            raise BodyError("usage", "the usage must be an object")
        response["usageMetadata"] = renamed(usage, _COUNTS, "usage")
    return response


def _decode_choice(choice: Any, path: str) -> JsonObject:
    check_openai_fields(choice, path)
    for key in choice:
        if key != "finish_reason" and camel(key) in _OF_CANDIDATE:
            raise BodyError(f"{path}.{key}", "a choice has no such field")
    _check_index(choice, path)
    field = _holder(choice, path)
    message = _message_of(choice, field)
    check_openai_fields(message, f"{path}.{field}")
    if message.get("role") not in (None, "assistant"):
        raise BodyError(f"{path}.{field}.role", "it must be assistant: clients send the message again")
    parts = [part for _, part in _decode_parts(message, f"{path}.{field}")]
    candidate = {
        key: value for key, value in choice.items() if key not in (field, "finish_reason", "logprobs")
    }
    candidate["content"] = {"role": "model", "parts": parts}
    rest = {key: value for key, value in message.items() if key not in _OF_MESSAGE}
    candidate[field] = rest
    reason = choice.get("finish_reason")
    if reason is not None and not (isinstance(reason, str) and _REASON.fullmatch(reason)):
        raise BodyError(f"{path}.finish_reason", "a reason must be a name, such as stop")
    if reason is not None:
        candidate["finishReason"] = _REASONS.get(reason, "OTHER")
        if reason not in _REASONS:  # it could be any word
            candidate["finishMessage"] = reason
    if choice.get("logprobs") is not None:
        candidate["logprobsResult"] = choice["logprobs"]
    return candidate


def _check_index(choice: JsonObject, path: str) -> None:
    if type(index := choice.get("index")) is not int and index is not None:
        raise BodyError(f"{path}.index", "an index must be an integer")


def _holder(choice: JsonObject, path: str) -> str:
    """Return the field of a choice that has its message. Raises BodyError if there are two.

    A choice has none if the model has used up all tokens for its thoughts.
    """
    found = [field for field in ("message", "delta") if field in choice]
    if len(found) > 1:
        raise BodyError(path, "a choice must have a message or a delta, not both")
    return found[0] if found else "message"


def _message_of(choice: JsonObject, field: str) -> Any:
    """Return the message in a field of a choice; an empty one if there is none."""
    message = choice.get(field)
    return {} if message is None else message


def _decode_parts(message: JsonObject, path: str) -> list[tuple[_Place, JsonObject]]:
    """Return the parts of a message, each with its place."""
    for key in ("audio", "function_call"):
        if message.get(key) is not None:
            raise BodyError(f"{path}.{key}", "hooks cannot judge this field")
    parts: list[tuple[_Place, JsonObject]] = []
    for key in (*REASONING, "content", "refusal"):
        text = message.get(key)
        if not isinstance(text, str | None):
            raise BodyError(f"{path}.{key}", "it must be a string, since hooks cannot inspect other types")
        if text is None or (key == "content" and not text and message.get("tool_calls")):
            continue
        if key in REASONING:
            parts.append(((key, 0), {"text": text, "thought": True, "type": key}))
        else:
            parts.append(((key, 0), {"text": text} if key == "content" else {"text": text, "refusal": True}))
    calls = message.get("tool_calls")
    if not isinstance(calls, list | None):
        raise BodyError(f"{path}.tool_calls", "the tool calls must be a list")
    for number, call in enumerate(calls or ()):
        parts.append((("tool_calls", number), decode_call(call, f"{path}.tool_calls[{number}]")))
    return parts


def completion_sources(body: JsonObject) -> TextSources:
    """Yield the sources of the texts in a completion, in a chunk, or in joined chunks."""
    joined = "chunks" in body and "choices" not in body
    for chunk in read_list(body, "chunks") if joined else [body]:
        for choice in read_list(chunk, "choices"):
            index = choice.get("index") or 0
            for field in ("message", "delta"):
                message = read_object(choice, field)
                for key in (*REASONING, "content", "refusal"):
                    if message.get(key):
                        yield TextChannel(index, thought=key in REASONING), f"{field}.{key}"


# ---- calls in pieces


def _is_piece(call: Any) -> bool:
    """Return whether an item of a delta's tool calls continues a call that an earlier one began.

    Raises BodyError if its name has another type, for which each client has a rule of its own.
    """
    if not isinstance(call, dict):
        return False
    name = read_object(call, "function").get("name")
    if not isinstance(name, str | None):
        raise BodyError("tool_calls.function.name", "the name of a function must be a string")
    return not name


def with_joined_calls(chunks: Sequence[Any]) -> list[JsonObject]:
    """Return the chunks with the pieces of each call in the chunk in which it begins. Raises BodyError.

    Chunks that have nothing but pieces of calls are left out. If all calls are whole, none is changed.
    """
    merged: list[JsonObject] = []
    begun: dict[tuple[Any, Any], _BegunCall] = {}  # by choice and call: the last one
    calls: list[_BegunCall] = []
    for number, chunk in enumerate(chunks):
        check_openai_fields(chunk, f"chunks[{number}]")
        if not isinstance(chunk.get("choices"), list | None):
            raise BodyError(f"chunks[{number}].choices", "the choices must be a list")
        choices = read_list(chunk, "choices")
        new = [_with_begun_calls(choice, begun, calls, number) for choice in choices]
        kept = [choice for choice in new if choice is not None]
        if same_items(kept, choices):
            merged.append(chunk)
        elif kept or not chunk.keys() <= _OF_CHUNK:
            merged.append({**chunk, "choices": kept})
    if all(len(pieces) == 1 for _, pieces in calls):
        return list(chunks)
    for call, pieces in calls:
        call["function"]["arguments"] = "".join(pieces)
    return merged


_BegunCall = tuple[JsonObject, list[str]]
"""A copy of a call that begins, and the pieces of its arguments."""

_OF_CHUNK = frozenset({"choices", "created", "id", "model", "object", "service_tier", "system_fingerprint"})
"""Fields that all chunks of a completion have."""


def _with_begun_calls(
    choice: Any, begun: dict[tuple[Any, Any], _BegunCall], started: list[_BegunCall], number: int
) -> Any:
    """Return a choice with the calls that begin in it; None if it has nothing but pieces of others."""
    delta = read_object(choice, "delta") if isinstance(choice, dict) else {}
    calls = delta.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        return choice
    _check_index(choice, f"chunks[{number}].choices")
    new = [each for call in calls if (each := _begun(call, choice.get("index"), begun, number)) is not None]
    started += new
    if new:
        return {**choice, "delta": {**delta, "tool_calls": [call for call, _ in new]}}
    left = {key: value for key, value in delta.items() if key != "tool_calls"}
    is_empty = left.keys() <= {"role", "content"} and not left.get("content")
    if is_empty and all(value is None for key, value in choice.items() if key not in ("index", "delta")):
        return None
    return {**choice, "delta": left}


def _begun(
    call: Any, choice: Any, begun: dict[tuple[Any, Any], _BegunCall], number: int
) -> _BegunCall | None:
    """Return a copy of a call that begins here, or None for a piece of one, which is added to it."""
    path = f"chunks[{number}].tool_calls"
    check_openai_fields(call, path)
    index, function = call.get("index"), check_openai_fields(call.get("function"), f"{path}.function")
    piece = function.get("arguments")
    if type(index) is not int and index is not None:
        raise BodyError(f"{path}.index", "an index must be an integer")
    if not isinstance(piece, str | None):
        raise BodyError(f"{path}.function.arguments", "a piece of arguments must be a string")
    if _is_piece(call):
        if (choice, index) not in begun:
            raise BodyError(path, "a piece of arguments needs the call that it belongs to")
        if any(value is not None for value in _unshown(call, function)):
            raise BodyError(path, "hooks would not see other fields of a piece of arguments")
        if call.get("type") not in (None, "", "function"):
            raise BodyError(f"{path}.type", "hooks can judge function calls only")
        first, pieces = begun[choice, index]
        if call.get("id") not in (None, "", first.get("id")):
            raise BodyError(f"{path}.id", "a piece of arguments has the ID of another call")
        pieces.append(piece or "")
        return None
    new = {**call, "function": dict(function)}
    begun[choice, index] = new, [piece or ""]
    return begun[choice, index]


def _unshown(call: JsonObject, function: JsonObject) -> Iterator[Any]:
    """Yield the values of a piece of a call that are not shown with the call."""
    yield from (value for key, value in call.items() if key not in _OF_PIECE)
    yield from (value for key, value in function.items() if key not in ("name", "arguments"))


def _joined(responses: Sequence[JsonObject]) -> JsonObject:
    """Return one response for those of several chunks: all parts, and the other fields under `chunks`."""
    candidates: dict[Any, JsonObject] = {}
    joined: JsonObject = {}
    final = _final_usage(responses)
    if final is not None:
        joined["usageMetadata"] = final["usageMetadata"]
    for response in responses:
        for candidate in response["candidates"]:
            index = candidate.get("index", 0)
            own = candidates.setdefault(index, {"index": index, "content": {"role": "model", "parts": []}})
            own["content"]["parts"] += candidate["content"]["parts"]
            if "finishReason" in candidate:
                own["finishReason"] = candidate["finishReason"]
    rests = [
        {
            **{k: v for k, v in response.items() if k != "usageMetadata" or response is not final},
            "candidates": [
                {key: value for key, value in each.items() if key not in ("content", "finishReason")}
                for each in response["candidates"]
            ],
        }
        for response in responses
    ]
    return {"candidates": list(candidates.values()), **joined, "chunks": rests}


def _final_usage(responses: Sequence[JsonObject]) -> JsonObject | None:
    """Return the last response with a usage, which is that of all chunks; None if there is none."""
    return next((each for each in reversed(responses) if "usageMetadata" in each), None)


# ---- and back


def encode_completion(body: JsonObject, response: JsonObject) -> JsonObject:
    """Return the completion or chunks after an edit of the response; the same object if nothing changed.

    Raises BodyError if a completion cannot express the edit.
    """
    was = decode_completion(body)
    if same(was, response):
        return body
    if "chunks" not in body or "choices" in body:
        [new] = _with_reasons([body], [_encode_one(body, was, response)])
        return new
    chunks = with_joined_calls(body["chunks"])
    responses = [_decode_one(chunk) for chunk in chunks]
    edited = _split(responses, was, response)
    encoded = [
        chunk if same(before, after) else _encode_one(chunk, before, after)
        for chunk, before, after in zip(chunks, responses, edited, strict=True)
    ]
    return {"chunks": _with_reasons(chunks, encoded)}


def _with_reasons(before: Sequence[JsonObject], bodies: Sequence[JsonObject]) -> list[JsonObject]:
    """Return a completion or its chunks without the reason `tool_calls` for choices that lost all calls."""
    refused = _calling(before) - _calling(bodies)
    return [
        {**body, "choices": [_with_reason(choice, refused) for choice in body["choices"]]}
        if body.get("choices")
        else body
        for body in bodies
    ]


def _calling(bodies: Sequence[JsonObject]) -> set[Any]:
    """Return the indexes of choices that call functions."""
    choices = [choice for body in bodies for choice in body.get("choices") or ()]
    return {
        choice.get("index")
        for choice in choices
        if read_object(choice, _holder(choice, "")).get("tool_calls")
    }


def _with_reason(choice: JsonObject, refused: set[Any]) -> JsonObject:
    waits = choice.get("finish_reason") == "tool_calls" and choice.get("index") in refused
    return {**choice, "finish_reason": "stop"} if waits else choice


def _split(responses: Sequence[JsonObject], was: JsonObject, edited: JsonObject) -> list[JsonObject]:
    """Return the response of each chunk with its share of an edit of the joined response."""
    rests = edited.get("chunks")
    if not isinstance(rests, list) or len(rests) != len(responses):
        raise BodyError("chunks", "a hook's edit removed chunks of an answer")
    before = {each.get("index"): each for each in was["candidates"]}
    after = {each.get("index", 0): each for each in read_list(edited, "candidates")}
    final = _final_usage(responses)
    new: list[JsonObject] = []
    for response, rest in zip(responses, rests, strict=True):
        candidates = [
            {**own, **{key: each[key] for key in ("content", "finishReason") if key in each}}
            for each, own in zip(response["candidates"], read_list(rest, "candidates"), strict=False)
            if each.get("index", 0) in after
        ]
        new.append({**rest, "candidates": candidates})
        if response is final:
            new[-1]["usageMetadata"] = read(edited, "usageMetadata")
    by_index: dict[Any, list[JsonObject]] = {}
    for one in new:
        for each in one["candidates"]:
            by_index.setdefault(each.get("index", 0), []).append(each)
    for index, holders in by_index.items():
        old = before[index]
        _deal_parts(holders, old["content"]["parts"], parts_of(after[index]))
        if after[index].get("finishReason") != old.get("finishReason"):
            for each in holders:
                each.pop("finishReason", None)
            if (reason := after[index].get("finishReason")) is not None:
                holders[-1]["finishReason"] = reason
    return new


def _deal_parts(
    holders: Sequence[JsonObject], shown: Sequence[JsonObject], edited: Sequence[JsonObject]
) -> None:
    """Give each holder the parts that were its own, and new parts to the holder of the part before them."""
    owners = [n for n, holder in enumerate(holders) for _ in holder["content"]["parts"]]
    dealt: list[list[JsonObject]] = [[] for _ in holders]
    at = 0
    for part, match in zip(edited, align_parts(shown, edited), strict=True):
        at = at if match is None else owners[match]
        dealt[at].append(part)
    for holder, parts in zip(holders, dealt, strict=True):
        holder["content"] = {"role": "model", "parts": parts}


def _encode_one(body: JsonObject, was: JsonObject, response: JsonObject) -> JsonObject:
    """Return a completion or chunk after an edit."""
    new: JsonObject = {}
    for key, value in body.items():
        if key == "choices":
            new[key] = _encode_choices(body, was, read_list(response, "candidates"))
        elif key == "usage":
            metadata = read(response, "usageMetadata")
            unchanged = same(metadata, was.get("usageMetadata"))
            new[key] = value if unchanged else {_COUNTED.get(k, k): v for k, v in (metadata or {}).items()}
        elif key in response:
            new[key] = response[key]
    return new


def _encode_choices(body: JsonObject, was: JsonObject, edited: Sequence[JsonObject]) -> list[Any]:
    choices = read_list(body, "choices")
    if len(edited) == len(choices):
        return [
            _encode_choice(choice, before, after)
            for choice, before, after in zip(choices, was["candidates"], edited, strict=True)
        ]
    by_index = {choice.get("index", 0): number for number, choice in enumerate(choices)}
    encoded = []
    for position, after in enumerate(edited):
        number = by_index.get(after.get("index", position))
        if number is None:
            raise BodyError("choices", "a hook's edit added a candidate")
        encoded.append(_encode_choice(choices[number], was["candidates"][number], after))
    return encoded


def _encode_choice(choice: JsonObject, before: JsonObject, after: JsonObject) -> JsonObject:
    if same(before, after):
        return choice
    field = _holder(choice, "choices")
    message = _message_of(choice, field)
    new_message = _encode_message(message, parts_of(after), read_object(after, field))
    new: JsonObject = {} if field in choice or not new_message else {field: new_message}
    for key, value in choice.items():
        if key == field:
            new[key] = new_message if new_message or isinstance(value, dict) else value
        elif key == "logprobs":
            new[key] = after.get("logprobsResult")
        elif key == "finish_reason":
            new[key] = (after.get("finishMessage") or "stop") if "finishMessage" in before else value
        elif key in after:
            new[key] = after[key]
    reason = after.get("finishReason")
    if reason != before.get("finishReason"):
        new["finish_reason"] = None if reason is None else _STOPPED.get(reason, "content_filter")
    return new


def _encode_message(message: JsonObject, edited: Sequence[JsonObject], rest: JsonObject) -> JsonObject:
    """Return a message with edited parts and other fields. Texts in place of calls become its content."""
    texts, calls = _encode_parts(message, edited)
    new: JsonObject = {}
    for key, value in message.items():
        if key == "tool_calls":
            if calls or not value:
                new[key] = calls or value
        elif key in _OF_MESSAGE:
            new[key] = texts.pop(key, value and "")
        elif key in rest:
            new[key] = rest[key]
    new |= texts
    return new if "tool_calls" in new or not calls else {**new, "tool_calls": calls}


def _encode_parts(
    message: JsonObject, edited: Sequence[JsonObject]
) -> tuple[dict[str, str], list[JsonObject]]:
    """Return the texts of a message by field, and its tool calls, for edited parts. Raises BodyError."""
    places = _decode_parts(message, "")
    texts: dict[str, str] = {}
    calls: list[JsonObject] = []
    for part, match in zip(edited, align_parts([part for _, part in places], edited), strict=True):
        place, old = (("", 0), None) if match is None else places[match]
        call = part.get("functionCall")
        if isinstance(call, dict):
            calls.append(_encode_part(message, place, call, same(part, old)))
        elif isinstance(part.get("text"), str):
            field = _text_field(part)
            texts[field] = texts.get(field, "") + part["text"]
        elif part.keys() != {"thoughtSignature"}:
            raise BodyError(
                "choices", f"a message cannot contain a part with {', '.join(part) or 'no fields'}"
            )
    return texts, calls


def _text_field(part: JsonObject) -> str:
    """Return the field of a message for a text."""
    if part.get("thought"):
        return str(part.get("type", REASONING[0]))
    return "refusal" if part.get("refusal") is True else "content"


def _encode_part(message: JsonObject, place: _Place, call: JsonObject, unchanged: bool) -> JsonObject:
    """Return the tool call for a part that was the one at a place, or is new."""
    if place[0] != "tool_calls":
        return encode_call(call)
    original: JsonObject = message["tool_calls"][place[1]]
    if unchanged:
        return original
    index = {"index": original["index"]} if "index" in original else {}
    return {**index, **encode_call(call)}


def new_completion(response: JsonObject, model: str, created: int) -> JsonObject:
    """Return a synthetic response as a completion. A completion is returned unchanged.

    `created` is in seconds since 1970. Raises BodyError if a completion cannot express the response.
    """
    if "choices" in response or "candidates" not in response:
        return response
    choices = []
    for position, candidate in enumerate(read_list(response, "candidates")):
        empty: JsonObject = {"role": "assistant", "content": None}
        message = _encode_message(empty, parts_of(candidate), empty)
        calls = [
            {**call, "id": call.get("id") or f"call-{n}"}
            for n, call in enumerate(message.get("tool_calls", ()))
        ]
        if calls:
            message["tool_calls"] = calls
        reason = _STOPPED.get(candidate.get("finishReason", "STOP"), "content_filter")
        index = candidate.get("index", position)
        choices.append(
            {"index": index, "message": message, "finish_reason": "tool_calls" if calls else reason}
        )
    body: JsonObject = {
        "id": SYNTHETIC_ID,
        "object": "chat.completion",
        "created": created,
        "model": model,
        "choices": choices,
    }
    usage = {_COUNTED.get(key, key): value for key, value in read_object(response, "usageMetadata").items()}
    return {**body, "usage": usage} if usage else body


def completion_chunks(body: JsonObject) -> list[JsonObject]:
    """Return the chunks of a whole completion, as the API would stream it."""
    head = {key: value for key, value in body.items() if key not in ("choices", "usage")}
    head["object"] = "chat.completion.chunk"
    chunks: list[JsonObject] = []
    for choice in read_list(body, "choices"):
        message = dict(read_object(choice, "message"))
        if calls := message.get("tool_calls"):
            message["tool_calls"] = [{"index": n, **call} for n, call in enumerate(calls)]
        rest = {key: value for key, value in choice.items() if key not in ("message", "finish_reason")}
        chunks.append({**head, "choices": [{**rest, "delta": message, "finish_reason": None}]})
        ended = {"index": choice.get("index", 0), "delta": {}, "finish_reason": choice.get("finish_reason")}
        chunks.append({**head, "choices": [ended]})
    return [*chunks, {**head, "choices": [], "usage": body["usage"]}] if "usage" in body else chunks
