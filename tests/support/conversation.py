"""A conversation as tests write it: turns, calls of tools, their results, and the text of an answer."""

from typing import Any

Json = dict[str, Any]


def user_turn(*parts: str | Json) -> Json:
    """Return a turn of the user. A string is a part with this text."""
    return {"role": "user", "parts": [_part(part) for part in parts]}


def model_turn(*parts: str | Json) -> Json:
    """Return a turn of the model. A string is a part with this text."""
    return {"role": "model", "parts": [_part(part) for part in parts]}


def function_call(name: str, call_id: str = "", **args: Any) -> Json:
    """Return a part that calls a function, with an ID if one is given."""
    return {"functionCall": {"name": name, "args": args, **({"id": call_id} if call_id else {})}}


def function_result(name: str, output: Any, call_id: str = "") -> Json:
    """Return a part with the result of a function, with an ID if one is given."""
    response = {"name": name, "response": {"output": output}, **({"id": call_id} if call_id else {})}
    return {"functionResponse": response}


def tool_turns(name: str, output: str) -> list[Json]:
    """Return a conversation that ends with the result of a tool."""
    return [
        user_turn("do it"),
        model_turn(function_call(name)),
        user_turn(function_result(name, output)),
    ]


def answer_text(answer: Json) -> str:
    """Return the text of the first candidate of an answer."""
    return "".join(part.get("text", "") for part in answer["candidates"][0]["content"]["parts"])


def _part(part: str | Json) -> Json:
    return {"text": part} if isinstance(part, str) else part
