"""The Responses API of the mock upstream: answers as those of generateContent, in the form of items.

It is written from the API's documentation, independently of the translator, which the tests check against it.
"""

from typing import Any

import orjson

from hookgate.proxy.mock_upstream.answers import ModelCall
from hookgate.proxy.mock_upstream.requests import EmbeddedApiError, Json
from hookgate.translator.strictjson import encode_answer

_MODES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_INCOMPLETE = {"MAX_TOKENS": "max_output_tokens", "SAFETY": "content_filter"}


def read_response_request(body: Json) -> ModelCall:
    """Return the call of a body that creates a response. Raises EmbeddedApiError (400)."""
    model, given = body.get("model"), body.get("input")
    if not isinstance(model, str) or not model:
        raise EmbeddedApiError(400, "Invalid value at 'model': a model's name is expected.")
    items: Any = [{"role": "user", "content": given}] if isinstance(given, str) else given
    if not isinstance(items, list) or not items:
        raise EmbeddedApiError(400, "Invalid value at 'input': a text or a list of items is expected.")
    names = {item["call_id"]: item["name"] for item in items if item.get("type") == "function_call"}
    turns: list[Json] = []
    for item in items:
        if item.get("role") in ("system", "developer"):
            continue
        turn = _turn(item, names)
        if turns and turns[-1]["role"] == turn["role"]:  # parallel calls, and their results, are one turn
            turns[-1]["parts"] += turn["parts"]
        elif turn["parts"]:
            turns.append(turn)
    if not turns:
        raise EmbeddedApiError(400, "Invalid value at 'input': there is no message of a user.")
    request: Json = {"contents": turns}
    if tools := body.get("tools"):
        request["tools"] = [{"functionDeclarations": tools}]
        request["toolConfig"] = {"functionCallingConfig": _calling(body.get("tool_choice", "auto"))}
    if ((body.get("text") or {}).get("format") or {}).get("type") in ("json_object", "json_schema"):
        request["generationConfig"] = {"responseMimeType": "application/json"}
    name = model.removeprefix("models/").removeprefix("google/")
    return ModelCall(name, body.get("stream") is True, request)


def _turn(item: Json, names: Json) -> Json:
    kind = item.get("type", "message")
    if kind == "function_call":
        call = {"name": item["name"], "args": orjson.loads(item["arguments"] or "{}")}
        return {"role": "model", "parts": [{"functionCall": call}]}
    if kind == "function_call_output":
        id_ = item["call_id"]
        response = {"name": names.get(id_), "response": {"output": _text(item["output"])}, "id": id_}
        return {"role": "user", "parts": [{"functionResponse": response}]}
    text = _text(item.get("content") or item.get("summary"))
    role = "user" if item.get("role") == "user" else "model"
    return {"role": role, "parts": [{"text": text}] if text else []}


def _text(content: Any) -> str:
    if isinstance(content, list):
        return "".join(part.get("text", "") for part in content)
    return content or ""


def _calling(choice: Any) -> Json:
    if isinstance(choice, str):
        return {"mode": _MODES[choice]}
    if choice["type"] == "allowed_tools":
        names = [tool["name"] for tool in choice["tools"]]
        return {"mode": _MODES[choice["mode"]], "allowedFunctionNames": names}
    return {"mode": "ANY", "allowedFunctionNames": [choice["name"]]}


def response_answer(responses: list[Json], call: ModelCall, body: Json) -> Json:
    """Return the whole response for the responses of generateContent."""
    output: list[Json] = []
    for response in responses:
        for part in response["candidates"][0]["content"]["parts"]:
            _add(output, part)
    reason = _INCOMPLETE.get(responses[-1]["candidates"][0].get("finishReason", "STOP"))
    counts = responses[-1].get("usageMetadata", {})
    return {
        "id": f"resp_{call.id}",
        "object": "response",
        "created_at": 0,
        "status": "incomplete" if reason else "completed",
        "error": None,
        "incomplete_details": {"reason": reason} if reason else None,
        "instructions": body.get("instructions"),
        "metadata": body.get("metadata") or {},
        "model": call.model,
        "output": output,
        "parallel_tool_calls": True,
        "temperature": body.get("temperature"),
        "text": body.get("text") or {"format": {"type": "text"}},
        "tool_choice": body.get("tool_choice", "auto"),
        "tools": body.get("tools") or [],
        "top_p": body.get("top_p"),
        "usage": {
            "input_tokens": counts.get("promptTokenCount", 0),
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens": counts.get("candidatesTokenCount", 0),
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": counts.get("totalTokenCount", 0),
        },
    }


def _add(output: list[Json], part: Json) -> None:
    number = len(output)
    if "functionCall" in part:
        called = part["functionCall"]
        item = {"id": f"fc_{number}", "type": "function_call", "status": "completed"}
        item |= {"call_id": called.get("id") or f"call-{number}", "name": called["name"]}
        output.append({**item, "arguments": orjson.dumps(called.get("args", {})).decode()})
        return
    kind, field = ("reasoning", "summary") if part.get("thought") else ("message", "content")
    if not output or output[-1]["type"] != kind:
        message = {"role": "assistant", "status": "completed"} if kind == "message" else {}
        content: Json = {"type": "output_text" if kind == "message" else "summary_text", "text": ""}
        content |= {"annotations": []} if kind == "message" else {}
        output.append({"id": f"{kind}_{number}", "type": kind, **message, field: [content]})
    output[-1][field][0]["text"] += part.get("text", "")


def response_stream(responses: list[Json], answer: Json) -> list[bytes]:
    """Return the bytes of the events of a response."""
    begun = {**answer, "status": "in_progress", "incomplete_details": None, "output": [], "usage": None}
    events: list[Json] = [
        {"type": "response.created", "response": begun},
        {"type": "response.in_progress", "response": begun},
    ]
    parts = [part for response in responses for part in response["candidates"][0]["content"]["parts"]]
    for index, item in enumerate(answer["output"]):
        if item["type"] == "function_call":
            text, events = item["arguments"], [*events, *_begun(index, {**item, "arguments": ""})]
            while parts and "functionCall" not in parts[0]:
                parts.pop(0)
            parts = parts[1:]
            events += _call_events(index, item, [text[at : at + 5] for at in range(0, len(text), 5)])
        else:
            pieces = []
            thinks = item["type"] == "reasoning"
            while parts and "functionCall" not in parts[0] and bool(parts[0].get("thought")) is thinks:
                pieces.append(parts.pop(0).get("text", ""))
            events += _text_events(index, item, pieces, "summary" if thinks else "content")
        events.append({"type": "response.output_item.done", "output_index": index, "item": item})
    events.append({"type": f"response.{answer['status']}", "response": answer})
    numbered = ({**event, "sequence_number": number} for number, event in enumerate(events))
    return [
        b"event: " + event["type"].encode() + b"\ndata: " + encode_answer(event) + b"\n\n"
        for event in numbered
    ]


def _begun(index: int, item: Json) -> list[Json]:
    status = {"status": "in_progress"} if "status" in item else {}
    return [{"type": "response.output_item.added", "output_index": index, "item": {**item, **status}}]


def _call_events(index: int, item: Json, pieces: list[str]) -> list[Json]:
    at, name = {"item_id": item["id"], "output_index": index}, "response.function_call_arguments"
    done = {"type": f"{name}.done", **at, "name": item["name"], "arguments": item["arguments"]}
    return [*({"type": f"{name}.delta", **at, "delta": piece} for piece in pieces), done]


def _text_events(index: int, item: Json, pieces: list[str], field: str) -> list[Json]:
    is_summary = field == "summary"
    part_name = "response.reasoning_summary_part" if is_summary else "response.content_part"
    name = "response.reasoning_summary_text" if is_summary else "response.output_text"
    at = {"item_id": item["id"], "output_index": index, f"{field}_index": 0}
    [content] = item[field]
    logprobs: Json = {} if is_summary else {"logprobs": []}
    return [
        *_begun(index, {**item, field: []}),
        {"type": f"{part_name}.added", **at, "part": {**content, "text": ""}},
        *({"type": f"{name}.delta", **at, "delta": piece, **logprobs} for piece in pieces),
        {"type": f"{name}.done", **at, "text": content["text"], **logprobs},
        {"type": f"{part_name}.done", **at, "part": content},
    ]
