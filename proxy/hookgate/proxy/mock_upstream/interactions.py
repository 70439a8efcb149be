"""The Interactions API of the mock upstream: answers as those of generateContent, in the form of steps.

It is written from the API's documentation, independently of the translator, which the tests check against it.
"""

from typing import Any

import orjson

from hookgate.proxy.mock_upstream.answers import ModelCall
from hookgate.proxy.mock_upstream.requests import EmbeddedApiError, Json
from hookgate.translator.strictjson import encode_answer


def read_interaction(body: Json) -> ModelCall:
    """Return the call of a body that creates an interaction. Raises EmbeddedApiError (400)."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise EmbeddedApiError(400, "Invalid value at 'model': a model's name is expected.")
    request: Json = {"contents": _contents(body.get("input"))}
    if not request["contents"]:
        raise EmbeddedApiError(400, "Invalid value at 'input': it has neither text nor calls or results.")
    if isinstance(instruction := body.get("system_instruction"), str):
        request["systemInstruction"] = {"parts": [{"text": instruction}]}
    tools = [tool for tool in body.get("tools") or [] if tool.get("type") == "function"]
    if tools:
        request["tools"] = [{"functionDeclarations": tools}]
        request["toolConfig"] = {"functionCallingConfig": _calling(body.get("generation_config") or {})}
    return ModelCall(model.removeprefix("models/"), body.get("stream") is True, request)


def _calling(config: Json) -> Json:
    choice = config.get("tool_choice", "auto")
    if isinstance(choice, str):
        return {"mode": choice.upper()}
    allowed = choice["allowed_tools"]
    return {"mode": allowed.get("mode", "auto").upper(), "allowedFunctionNames": allowed.get("tools", [])}


def _contents(given: Any) -> list[Json]:
    if isinstance(given, str):
        return [{"role": "user", "parts": [{"text": given}]}]
    items = given if isinstance(given, list) else [given]
    if not items or not all(isinstance(item, dict) and isinstance(item.get("type"), str) for item in items):
        raise EmbeddedApiError(400, "Invalid value at 'input': a text, contents or steps are expected.")
    return [content for item in items if (content := _content(item))["parts"]]


def _content(item: Json) -> Json:
    kind = item["type"]
    if kind == "function_call":
        part = {"functionCall": {"name": item["name"], "args": item["arguments"], "id": item["id"]}}
        return {"role": "model", "parts": [part]}
    if kind == "function_result":
        response = {"name": item.get("name"), "response": item.get("result"), "id": item["call_id"]}
        return {"role": "user", "parts": [{"functionResponse": response}]}
    contents = item.get("content") or item.get("summary") or ([item] if kind == "text" else [])
    role = "user" if kind in ("user_input", "text") else "model"
    return {"role": role, "parts": [{"text": each["text"]} for each in contents if "text" in each]}


def interaction_answer(responses: list[Json], call: ModelCall) -> Json:
    """Return the whole interaction for the responses of generateContent."""
    steps: list[Json] = []
    for response in responses:
        for part in response["candidates"][0]["content"]["parts"]:
            _add(steps, part, f"call-{len(steps)}")
    calls = any(step["type"] == "function_call" for step in steps)
    return {
        "id": f"v1_{call.id}",
        "object": "interaction",
        "model": call.model,
        "status": "requires_action" if calls else "completed",
        "steps": steps,
        "usage": _usage(responses[-1].get("usageMetadata", {})),
    }


def _add(steps: list[Json], part: Json, call_id: str) -> None:
    if "functionCall" in part:
        called = part["functionCall"]
        step = {"type": "function_call", "id": called.get("id", call_id), "name": called["name"]}
        steps.append({**step, "arguments": called.get("args", {})})
        return
    field, kind = ("summary", "thought") if part.get("thought") else ("content", "model_output")
    text = {"type": "text", "text": part.get("text", "")}
    if steps and steps[-1]["type"] == kind:
        steps[-1][field].append(text)
    else:
        steps.append({"type": kind, field: [text]})


def _usage(metadata: Json) -> Json:
    return {
        "total_input_tokens": metadata.get("promptTokenCount", 0),
        "total_output_tokens": metadata.get("candidatesTokenCount", 0),
        "total_thought_tokens": metadata.get("thoughtsTokenCount", 0),
        "total_tokens": metadata.get("totalTokenCount", 0),
    }


def interaction_begun(answer: Json, status: str = "in_progress") -> Json:
    """Return an interaction that has not produced anything."""
    return {key: value for key, value in answer.items() if key not in ("steps", "usage")} | {"status": status}


def interaction_stream(answer: Json, after: str = "") -> list[bytes]:
    """Return the bytes of the events of an interaction, with `[DONE]` at the end.

    With `after`, return those after the event with this ID. Raises EmbeddedApiError (400) if there is none.
    """
    head = {key: value for key, value in answer.items() if key not in ("steps", "usage", "status")}
    events: list[Json] = [
        {"interaction": {**head, "status": "in_progress"}, "event_type": "interaction.created"}
    ]
    status = {"interaction_id": answer["id"], "status": "in_progress"}
    events.append({**status, "event_type": "interaction.status_update"})
    for index, step in enumerate(answer["steps"]):
        events += _step_events(index, step)
    ended = {key: value for key, value in answer.items() if key != "steps"}
    events.append({"interaction": ended, "event_type": "interaction.completed"})
    events = [{**event, "event_id": f"e{number}"} for number, event in enumerate(events, 1)]
    ids = [event["event_id"] for event in events]
    if after and after not in ids:
        raise EmbeddedApiError(400, f"Invalid value at 'last_event_id': there is no event {after}.")
    rest = events[ids.index(after) + 1 :] if after else events
    framed = [_framed(event["event_type"], encode_answer(event)) for event in rest]
    return [*framed, _framed("done", b"[DONE]")]


def _step_events(index: int, step: Json) -> list[Json]:
    deltas: list[Json]
    if step["type"] == "function_call":
        text = orjson.dumps(step["arguments"]).decode()
        pieces = [text[start : start + 5] for start in range(0, len(text), 5)]
        deltas = [{"type": "arguments_delta", "arguments": piece} for piece in pieces]
        begun = {**step, "arguments": {}}
    elif step["type"] == "thought":
        deltas = [{"type": "thought_summary", "content": each} for each in step["summary"]]
        begun = {"type": "thought"}
    else:
        deltas, begun = step["content"], {"type": step["type"]}
    return [
        {"index": index, "step": begun, "event_type": "step.start"},
        *({"index": index, "delta": delta, "event_type": "step.delta"} for delta in deltas),
        {"index": index, "event_type": "step.stop"},
    ]


def _framed(name: str, data: bytes) -> bytes:
    return b"event: " + name.encode() + b"\ndata: " + data + b"\n\n"
