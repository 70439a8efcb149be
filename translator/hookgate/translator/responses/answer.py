"""A response, the answer of the API, as a GenerateContentResponse, and back with a hook's edits.

The contents of all items of the output become the parts of one candidate. The other fields of the items are
under `outputFields`. All other fields keep their names.
"""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.conversation.alignment import align_parts
from hookgate.translator.conversation.candidates import candidate_of, group_parts, parts_of_answer
from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    camel,
    read,
    read_list,
    read_object,
    renamed,
    same,
)
from hookgate.translator.openai.fields import check_openai_fields
from hookgate.translator.responses.items import check_item_arguments, decode_output_item, encode_items

_TAKEN = frozenset({"candidates", "outputFields", "usageMetadata"})
_FIELDS = "outputFields"
_REPEATED = "output_text"
"""A field that repeats the texts of the output. It is removed if these were edited."""

_COUNTS = {
    "input_tokens": "promptTokenCount",
    "output_tokens": "candidatesTokenCount",
    "total_tokens": "totalTokenCount",
}
_COUNTED: dict[str, str] = {shown: name for name, shown in _COUNTS.items()}
_REASONS = {"completed": "STOP", "failed": "OTHER", "cancelled": "OTHER"}
_STOPPED = {"STOP": ("completed", None), "MAX_TOKENS": ("incomplete", "max_output_tokens")}
"""The status, and why the response is incomplete, for a finishReason. All others are those of a filter."""

SYNTHETIC_ID = "resp_hookgate"
"""The ID of a response that a hook has given. The API knows nothing of it."""


def usage_as_metadata(usage: Any, path: str) -> JsonObject:
    """Return a usage as usageMetadata. Raises BodyError, with the path, if hooks could not inspect it."""
    if not isinstance(usage, dict):
        raise BodyError(path, "the usage must be an object, since hooks cannot inspect other types")
    return renamed(usage, _COUNTS, path)


def metadata_as_usage(metadata: JsonObject) -> JsonObject:
    """Return usageMetadata as a usage."""
    return {_COUNTED.get(key, key): value for key, value in metadata.items()}


def reason_of_status(body: JsonObject) -> str | None:
    """Return the finishReason for the status of a response; None if it has not ended."""
    status = body.get("status")
    if status == "incomplete":
        is_filtered = read_object(body, "incomplete_details").get("reason") == "content_filter"
        return "SAFETY" if is_filtered else "MAX_TOKENS"
    return _REASONS.get(status) if isinstance(status, str) else None


def check_response_fields(body: JsonObject, path: str = "") -> None:
    """Refuse fields of a response, or of an event, that would be shown as others. Raises BodyError."""
    check_openai_fields(body, path)
    for key in body:
        if camel(key) in _TAKEN:
            raise BodyError(f"{path}.{key}" if path else key, "the Responses API has no such field")


def decode_response(body: JsonObject) -> JsonObject:
    """Return the GenerateContentResponse for a response. Raises BodyError."""
    response, _ = _decoded(body)
    return response


def _decoded(body: JsonObject) -> tuple[JsonObject, list[JsonObject]]:
    """Return the response, and the turns of the items of its output."""
    check_response_fields(body)
    output = body.get("output")
    if not isinstance(output, list | None):
        raise BodyError("output", "the output must be a list")
    check_item_arguments(output or (), "output")
    turns = [decode_output_item(item, f"output[{number}]") for number, item in enumerate(output or ())]
    parts = [part for turn in turns for part in turn["parts"]]
    candidate = candidate_of([_bare(part) for part in parts], reason_of_status(body))
    if any(part.get("logprobs") for part in parts):
        candidate["logprobsResult"] = [part.get("logprobs") for part in parts]
    response = {key: value for key, value in body.items() if key not in ("output", "usage")}
    response["candidates"] = [candidate]
    fields = [{key: value for key, value in turn.items() if key not in ("parts", "role")} for turn in turns]
    if any(each.keys() - {"type"} for each in fields):  # which could contain text
        response[_FIELDS] = fields
    if body.get("usage") is not None:
        response["usageMetadata"] = usage_as_metadata(body["usage"], "usage")
    return response, turns


def _bare(part: JsonObject) -> JsonObject:
    """Return a part without the log probabilities of its tokens, which are those of the candidate."""
    if not part.get("logprobs"):
        return part
    return {key: value for key, value in part.items() if key != "logprobs"}


def encode_response(body: JsonObject, response: JsonObject) -> JsonObject:
    """Return the response of the API after an edit, or the same object if nothing changed.

    Raises BodyError if a response cannot express the edit.
    """
    was, turns = _decoded(body)
    if same(was, response):
        return body
    output = _encode_output(body.get("output") or [], was, turns, response)
    changed = not same(output, body.get("output") or [])
    new: JsonObject = {}
    for key in body:
        if key == "output":
            new[key] = output
        elif key == "usage":
            metadata = read(response, "usageMetadata")
            unchanged = same(metadata, was.get("usageMetadata"))
            new[key] = body[key] if unchanged else metadata_as_usage(metadata or {})
        elif key in response and not (changed and key == _REPEATED):
            new[key] = response[key]
    return {**new, **({"output": output} if output else {}), **_encode_reason(was, response)}


def _encode_output(
    output: Sequence[Any], was: JsonObject, turns: Sequence[JsonObject], response: JsonObject
) -> list[Any]:
    """Return the items of the output. Unchanged items are the same objects; new ones follow the others."""
    shown, edited = parts_of_answer(was), parts_of_answer(response)
    parts = _with_logprobs([part for turn in turns for part in turn["parts"]], shown, response)
    owners = [number for number, turn in enumerate(turns) for _ in turn["parts"]]
    groups = group_parts(owners, shown, parts, 0 if turns else -1)
    fields = response.get(_FIELDS)
    if not isinstance(fields, list) or len(fields) != len(turns):
        fields = was.get(_FIELDS) or [{"type": turn["type"]} if "type" in turn else {} for turn in turns]
    encoded: list[Any] = []
    for number, (turn, own) in enumerate(zip(turns, fields, strict=True)):
        new = {"role": turn["role"], **own, "parts": groups.get(number, [])}
        if same(new, turn):
            encoded.append(output[number])
        elif new["parts"] or not turn["parts"]:
            items = encode_items(new)
            encoded += [
                each if each.get("type") == turn.get("type") else _added(each, encoded) for each in items
            ]
    if -1 in groups:
        encoded += [_added(each, encoded) for each in encode_items({"role": "model", "parts": groups[-1]})]
    return encoded if edited or output else []


def _added(item: JsonObject, before: Sequence[Any]) -> JsonObject:
    """Return an item that hooks have added after others."""
    return new_item(item, str(len(before)))


def _with_logprobs(
    originals: Sequence[JsonObject], shown: Sequence[JsonObject], response: JsonObject
) -> list[JsonObject]:
    """Return the edited parts with the log probabilities of the parts that they were.

    Those of a text that hooks changed are left out, unless hooks changed them as well.
    """
    edited = parts_of_answer(response)
    if not any(part.get("logprobs") for part in originals):
        return edited
    candidates = read_list(response, "candidates")
    left = candidates[0].get("logprobsResult") if candidates else None
    kept = left if isinstance(left, list) and len(left) == len(originals) else [[]] * len(originals)
    new: list[JsonObject] = []
    for part, match in zip(edited, align_parts(shown, edited), strict=True):
        before = None if match is None else originals[match].get("logprobs")
        if match is None or not before:
            new.append(part)
            continue
        stale = part.get("text") != shown[match].get("text") and same(kept[match], before)
        new.append({**part, "logprobs": [] if stale else kept[match]})
    return new


def _encode_reason(was: JsonObject, response: JsonObject) -> JsonObject:
    """Return the fields for a finishReason that hooks changed."""
    before, after = (
        [read(each, "finishReason") for each in read_list(one, "candidates")][:1] for one in (was, response)
    )
    if before == after or not after or after[0] is None:
        return {}
    status, reason = _STOPPED.get(after[0], ("incomplete", "content_filter"))
    return {"status": status, "incomplete_details": None if reason is None else {"reason": reason}}


def new_response(response: JsonObject, model: str, created: int) -> JsonObject:
    """Return a synthetic response as one of the API. One of the API is returned unchanged.

    `created` is in seconds since 1970. Raises BodyError if the API cannot express the response.
    """
    if "output" in response or "candidates" not in response:
        return response
    candidate: JsonObject = next(iter(read_list(response, "candidates")), {})
    items = encode_items({"role": "model", "parts": parts_of_answer(response)})
    status, reason = _STOPPED.get(candidate.get("finishReason", "STOP"), ("incomplete", "content_filter"))
    body: JsonObject = {
        "id": SYNTHETIC_ID,
        "object": "response",
        "created_at": created,
        "status": status,
        "error": None,
        "incomplete_details": None if reason is None else {"reason": reason},
        "instructions": None,
        "metadata": {},
        "model": model,
        "output": [new_item(item, str(number)) for number, item in enumerate(items)],
        "parallel_tool_calls": True,
        "temperature": None,
        "tool_choice": "auto",
        "tools": [],
        "top_p": None,
    }
    usage = metadata_as_usage(read_object(response, "usageMetadata"))
    details = {
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {**body, "usage": {**details, **usage}} if usage else body


def new_item(item: JsonObject, number: str) -> JsonObject:
    """Return an item that hooks made as the API has it in an output: with a type, an ID and a status."""
    kind, status = item.get("type", "message"), {"status": "completed"}
    if kind == "function_call":
        return {"id": f"fc_hookgate_{number}", "call_id": f"call-{number}", **status, **item}
    if kind == "reasoning":
        return {"id": f"rs_hookgate_{number}", **item}
    content = item.get("content")
    if isinstance(content, str):
        content = [{"type": "output_text", "text": content, "annotations": []}]
    return {"id": f"msg_hookgate_{number}", "type": kind, **status, **item, "content": content}
