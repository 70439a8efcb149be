"""An interaction, the answer of the API, as a GenerateContentResponse, and back with a hook's edits.

The contents of all steps of the model become the parts of one candidate. Steps of the user, which an
interaction has when it is read later, are under `userSteps`. All other fields keep their names.
"""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.conversation.candidates import candidate_of, group_parts, parts_of_answer
from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    read,
    read_list,
    read_object,
    renamed,
    same,
    strings_in,
)
from hookgate.translator.interactions.steps import decode_step, encode_turn, is_call_of_client

_USERS = ("user_input", "function_result")
_TAKEN = frozenset({"candidates", "usageMetadata", "usage_metadata", "userSteps", "user_steps"})
_REPEATED = frozenset({"output_audio", "output_image", "output_text", "output_video"})
"""Fields that repeat the contents of steps. They are removed if steps were edited."""

_COUNTS = {
    "total_input_tokens": "promptTokenCount",
    "total_output_tokens": "candidatesTokenCount",
    "total_thought_tokens": "thoughtsTokenCount",
    "total_tokens": "totalTokenCount",
    "total_cached_tokens": "cachedContentTokenCount",
    "total_tool_use_tokens": "toolUsePromptTokenCount",
}
_COUNTED: dict[str, str] = {shown: name for name, shown in _COUNTS.items()}
_REASONS = {
    "budget_exceeded": "MAX_TOKENS",
    "cancelled": "OTHER",
    "completed": "STOP",
    "failed": "OTHER",
    "idle": "STOP",
    "incomplete": "MAX_TOKENS",
    "requires_action": "STOP",
    "requires_continuation": "MAX_TOKENS",
}
"""The finishReason for the status of an interaction that has ended."""

SYNTHETIC_ID = "hookgate"
"""The ID of an interaction that a hook has answered. The API knows nothing of it."""


def decode_usage(usage: Any, path: str = "usage") -> JsonObject:
    """Return a usage as usageMetadata. Raises BodyError, with the path, if hooks could not inspect it."""
    if not isinstance(usage, dict):
        raise BodyError(path, "the usage must be an object, since hooks cannot inspect other types")
    return renamed(usage, _COUNTS, path)


def encode_usage(metadata: JsonObject) -> JsonObject:
    """Return usageMetadata as a usage."""
    return {_COUNTED.get(key, key): value for key, value in metadata.items()}


def finish_reason(status: Any) -> str | None:
    """Return the finishReason for the status of an interaction; None if it has not ended."""
    return _REASONS.get(status) if isinstance(status, str) else None


def has_ended(response: JsonObject) -> bool:
    """Return whether a response shows an interaction that has ended, or the event with which one ends."""
    if "event_type" not in response and finish_reason(response.get("status")) is not None:
        return True
    return any(read(each, "finishReason") is not None for each in read_list(response, "candidates"))


_NAMES_IN_STEPS = frozenset({"text", "type"})


def check_steps_of_user(body: JsonObject, request: JsonObject) -> None:
    """Refuse steps of the user, and results of functions, whose content is not that of the request.

    Clients that keep the conversation themselves send all steps of an answer again. `body` is an interaction
    that the request has created, an event of its stream, or joined events. Raises BodyError.
    """
    events = read_list(body, "events") if "events" in body and "event_type" not in body else [body]
    steps = [step for event in events for step in [*read_list(event, "steps"), event.get("step")]]
    own = [step for step in steps if isinstance(step, dict) and step.get("type") in _USERS]
    if not own:
        return
    given = _NAMES_IN_STEPS.union(strings_in(request.get("input")))
    for step in own:
        if not given.issuperset(strings_in([step.get("content"), step.get("result")])):
            raise BodyError("steps", f"a {step['type']} has what the request does not have")


def decode_interaction(body: JsonObject) -> JsonObject:
    """Return the GenerateContentResponse for an interaction. Raises BodyError."""
    response, _, _ = _decoded(body)
    return response


def without_unfinished(body: JsonObject) -> JsonObject:
    """Return an interaction without the model's steps if it has not ended; the same object if unchanged.

    Such a step may end in the middle of a word, which hooks cannot judge before it is complete.
    """
    steps = body.get("steps")
    if finish_reason(body.get("status")) is not None or not isinstance(steps, list) or not steps:
        return body
    left = [step for step in steps if isinstance(step, dict) and step.get("type") in _USERS]
    return {**{key: value for key, value in body.items() if key not in _REPEATED}, "steps": left}


def _decoded(body: JsonObject) -> tuple[JsonObject, list[JsonObject], list[tuple[int, JsonObject]]]:
    """Return the response, the turns of the model's steps, and each part with the number of its turn."""
    check_revision(body)
    steps = body.get("steps")
    if not isinstance(steps, list | None):
        raise BodyError("steps", "the steps must be a list")
    turns: list[JsonObject] = []
    users: list[Any] = []
    parts: list[tuple[int, JsonObject]] = []
    for number, step in enumerate(steps or ()):
        turn = decode_step(step, f"steps[{number}]")
        if step["type"] in _USERS:
            users.append(step)
            continue
        parts += [(len(turns), part) for part in turn.get("parts", ())]
        turns.append(turn)
    reason = finish_reason(body.get("status"))
    response = {key: value for key, value in body.items() if key not in ("steps", "usage")}
    response["candidates"] = [candidate_of([part for _, part in parts], reason)] if parts or reason else []
    unshown = [{k: v for k, v in turn.items() if k != "parts"} for turn in turns]
    if not all(map(_is_plain, unshown)):  # their fields could contain text
        response["stepFields"] = unshown
    if users:
        response["userSteps"] = users
    if body.get("usage") is not None:
        response["usageMetadata"] = decode_usage(body["usage"])
    return response, turns, parts


def _is_plain(turn: JsonObject) -> bool:
    """Return whether a turn has nothing but a role and a known type."""
    kind = str(turn.get("type"))
    return len(turn) == 2 and (kind in ("model_output", "thought") or kind.endswith(("_call", "_result")))


def check_revision(body: JsonObject) -> None:
    """Refuse the answers of older revisions of the API. Raises BodyError."""
    if "outputs" in body:
        raise BodyError(
            "outputs", "hooks judge steps; send the header Api-Revision: 2026-05-20 or a newer one"
        )
    for key in body:
        if key in _TAKEN or key == "stepFields":
            raise BodyError(key, "the Interactions API has no such field")


def encode_interaction(body: JsonObject, response: JsonObject) -> JsonObject:
    """Return the interaction after an edit of its response, or the interaction itself if nothing changed.

    Raises BodyError if an interaction cannot express the edit.
    """
    was, turns, parts = _decoded(body)
    if same(was, response):
        return body
    new_turns = _with_fields(turns, response.get("stepFields"))
    encoded = _encoded_turns(turns, new_turns, parts, parts_of_answer(response))
    users = iter(response.get("userSteps", ()))
    steps: list[Any] = []
    originals = [step for step in body.get("steps") or () if step["type"] not in _USERS]
    rest = iter(zip(encoded, originals, strict=False))
    for step in body.get("steps") or ():
        if step["type"] in _USERS:
            steps += [next(users)] if "userSteps" in response else []
            continue
        new, original = next(rest)
        steps += [original] if new is None else new
    steps += [each for new in encoded[len(originals) :] for each in new or ()]
    return _encoded(body, response, steps)


def _encoded(body: JsonObject, response: JsonObject, steps: list[Any]) -> JsonObject:
    """Return the interaction with new steps, and with the other fields of the response."""
    kept = {key: value for key, value in response.items() if key not in (*_TAKEN, "stepFields")}
    changed = not same(steps, body.get("steps") or [])
    new: JsonObject = {}
    for key in body:
        if key == "steps":
            new[key] = steps
        elif key == "usage":
            new[key] = encode_usage(read_object(response, "usageMetadata"))
        elif key in kept and not (changed and key in _REPEATED):
            new[key] = kept[key]
    if "steps" not in body and steps:
        new["steps"] = steps
    waits = new.get("status") == "requires_action" and _calls(body.get("steps") or ())
    if waits and not _calls(steps):
        new["status"] = "completed"
    return new


def _calls(steps: Sequence[Any]) -> bool:
    return any(map(is_call_of_client, steps))


def _with_fields(turns: list[JsonObject], fields: Any) -> list[JsonObject]:
    """Return the turns with their fields as hooks left them. An unchanged turn is the same object."""
    if not isinstance(fields, list) or len(fields) != len(turns):
        return turns
    new = [
        {**field, "parts": turn["parts"]} if "parts" in turn else field
        for field, turn in zip(fields, turns, strict=True)
    ]
    return [turn if same(turn, each) else each for turn, each in zip(turns, new, strict=True)]


def _encoded_turns(
    turns: Sequence[JsonObject],
    new_turns: Sequence[JsonObject],
    parts: Sequence[tuple[int, JsonObject]],
    edited: Sequence[JsonObject],
) -> list[list[JsonObject] | None]:
    """Return the new steps of each turn, or None for an unchanged one; new steps at the end are added."""
    groups = group_parts(
        [number for number, _ in parts], [part for _, part in parts], edited, 0 if turns else -1
    )
    encoded: list[list[JsonObject] | None] = []
    for number, turn in enumerate(new_turns):
        left = groups.get(number, [])
        if same(left, turn.get("parts", [])):
            encoded.append(None if turn is turns[number] else encode_turn(turn))
        else:
            encoded.append(encode_turn({**turn, "parts": left}) if left else [])
    if -1 in groups:
        encoded.append(encode_turn({"role": "model", "parts": groups[-1]}))
    return encoded


def new_interaction(response: JsonObject, model: str = "") -> JsonObject:
    """Return a synthetic response as an interaction. An interaction is returned unchanged.

    Raises BodyError if an interaction cannot express the response.
    """
    if "steps" in response or "candidates" not in response:
        return response
    steps = [
        {**step, "id": step.get("id", f"call-{number}")} if step["type"] == "function_call" else step
        for number, step in enumerate(encode_turn({"role": "model", "parts": parts_of_answer(response)}))
    ]
    body: JsonObject = {
        "id": SYNTHETIC_ID,
        "object": "interaction",
        "status": "requires_action" if _calls(steps) else "completed",
        "steps": steps,
    }
    if model:
        body["model"] = model
    usage = encode_usage(read_object(response, "usageMetadata"))
    return {**body, "usage": usage} if usage else body
