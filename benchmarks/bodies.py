"""An agent's request and a streamed answer, of the size that coding agents send and get."""

from typing import Any

import orjson

WORDS = "the gateway reads what an agent asks and a hook decides what may pass "


def agent_request(turns: int = 24) -> dict[str, Any]:
    """About 100 KB: a long system prompt, twenty tools, and turns of calls, results and text."""
    declarations = [
        {
            "name": f"tool_{i}",
            "description": WORDS * 6,
            "parametersJsonSchema": {
                "type": "object",
                "properties": {f"argument_{k}": {"type": "string", "description": WORDS} for k in range(3)},
            },
        }
        for i in range(20)
    ]
    contents: list[dict[str, Any]] = [{"role": "user", "parts": [{"text": WORDS * 20}, {"text": "fix it"}]}]
    for i in range(turns):
        call = {"functionCall": {"name": f"tool_{i % 20}", "args": {"argument_0": WORDS * 3}}}
        result = {"functionResponse": {"name": f"tool_{i % 20}", "response": {"output": WORDS * 12}}}
        contents += [
            {"role": "model", "parts": [{"text": f"step {i}"}, {**call, "thoughtSignature": "c2ln" * 40}]},
            {"role": "user", "parts": [result]},
            {"role": "model", "parts": [{"text": WORDS * 4}]},
            {"role": "user", "parts": [{"text": f"go on with {i}"}]},
        ]
    return {
        "systemInstruction": {"parts": [{"text": WORDS * 440}]},
        "contents": contents,
        "tools": [{"functionDeclarations": declarations}],
        "generationConfig": {"temperature": 1, "topP": 0.95, "topK": 64, "maxOutputTokens": 65536},
    }


def answer_event(index: int, last: bool = False) -> dict[str, Any]:
    """One event of a streamed answer, about 600 bytes."""
    candidate: dict[str, Any] = {"content": {"parts": [{"text": WORDS * 4}], "role": "model"}, "index": 0}
    return {
        "candidates": [{**candidate, "finishReason": "STOP"} if last else candidate],
        "usageMetadata": {
            "promptTokenCount": 25_000,
            "candidatesTokenCount": index,
            "totalTokenCount": 25_000 + index,
            "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 25_000}],
        },
        "modelVersion": "gemini-2.5-flash",
        "responseId": "pu8AabcD",
    }


def answer_stream(events: int = 40) -> list[bytes]:
    """The data of each event."""
    return [orjson.dumps(answer_event(i, i == events - 1)) for i in range(events)]
