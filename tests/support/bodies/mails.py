"""A turn in which a mail was read, and an answer that sends one, in each API that generates content."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.bodies import chat, interactions, responses
from support.conversation import function_call, function_result, model_turn, user_turn
from support.wire import STREAM, UNARY, ok

Json = dict[str, Any]
ANN = "ann@corp.example"
ASKED = f"Read my mails, and send a summary to {ANN}."
TOOLS = ("read_mail", "send_mail")


def arguments(to: str) -> str:
    return json.dumps({"to": to, "body": "a summary"})


# ---- the APIs: a turn of a user, in which a mail was read, and an answer that sends one


def gemini_turn(result: str) -> Json:
    contents = [
        user_turn(ASKED),
        model_turn(function_call("read_mail")),
        user_turn(function_result("read_mail", result)),
    ]
    return {"contents": contents, "tools": [{"functionDeclarations": [{"name": name} for name in TOOLS]}]}


def gemini_answer(to: str) -> Json:
    content = model_turn(function_call("send_mail", to=to, body="a summary"))
    return {"candidates": [{"content": content, "finishReason": "STOP"}]}


def gemini_stream(to: str) -> bytes:
    return f"data: {json.dumps(gemini_answer(to))}\r\n\r\n".encode()


def chat_turn(result: str) -> Json:
    called = {"role": "assistant", "content": None, "tool_calls": [chat.tool_call("{}", name="read_mail")]}
    messages = [
        {"role": "user", "content": ASKED},
        called,
        {"role": "tool", "tool_call_id": "c1", "content": result},
    ]
    return {**chat.HI, "messages": messages, "tools": [chat.declared(name) for name in TOOLS]}


def completion(to: str) -> Json:
    message = {"role": "assistant", "content": None}
    calls = [chat.tool_call(arguments(to), name="send_mail")]
    choice = {"index": 0, "message": {**message, "tool_calls": calls}, "finish_reason": "tool_calls"}
    return {"id": "c", "object": "chat.completion", "created": 1, "model": chat.MODEL, "choices": [choice]}


def responses_turn(result: str) -> Json:
    items = [
        {"role": "user", "content": ASKED},
        responses.call_item("{}", name="read_mail"),
        {"type": "function_call_output", "call_id": "c1", "output": result},
    ]
    return {**responses.HI, "input": items, "tools": [responses.declared(name) for name in TOOLS]}


def response(to: str) -> Json:
    call = responses.call_item(arguments(to), name="send_mail")
    return {
        "id": "r",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "model": responses.MODEL,
        "output": [call],
    }


def interactions_turn(result: str) -> Json:
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": ASKED}]},
        {"type": "function_call", "id": "c1", "name": "read_mail", "arguments": {}},
        {"type": "function_result", "call_id": "c1", "name": "read_mail", "result": result},
    ]
    tools = [{"type": "function", "name": name} for name in TOOLS]
    return {**interactions.HI, "input": steps, "tools": tools}


def interaction(to: str) -> Json:
    call = {"type": "function_call", "id": "c2", "name": "send_mail", "arguments": json.loads(arguments(to))}
    return {**interactions.ANSWER, "status": "requires_action", "steps": [call]}


@dataclass(frozen=True)
class Api:
    """One of the APIs: the path, the request, and what the upstream sends."""

    path: str
    turn: Callable[[str], Json]
    answer: Callable[[str], list[bytes]]


def whole(make: Callable[[str], Json]) -> Callable[[str], list[bytes]]:
    return lambda to: [ok(json.dumps(make(to)).encode())]


def streamed(make: Callable[[str], bytes]) -> Callable[[str], list[bytes]]:
    return lambda to: [ok(make(to), "text/event-stream")]


def chat_stream(to: str) -> bytes:
    return chat.sse([*chat.called([arguments(to)], name="send_mail"), chat.ended("tool_calls")])


def response_stream(to: str) -> bytes:
    return responses.sse(responses.whole(responses.called([arguments(to)], 0, "send_mail")))


def interaction_stream(to: str) -> bytes:
    called = interactions.called([arguments(to)], 0, "send_mail")
    return interactions.sse([interactions.CREATED, *called, interactions.completed("requires_action")])


CHAT, RESPONSES = "/v1beta/openai/chat/completions", "/v1beta/openai/responses"
APIS = {
    "generateContent": Api(UNARY, gemini_turn, whole(gemini_answer)),
    "streamGenerateContent": Api(f"{STREAM}?alt=sse", gemini_turn, streamed(gemini_stream)),
    "chat": Api(CHAT, chat_turn, whole(completion)),
    "chat stream": Api(CHAT, lambda read: {**chat_turn(read), "stream": True}, streamed(chat_stream)),
    "responses": Api(RESPONSES, responses_turn, whole(response)),
    "responses stream": Api(
        RESPONSES, lambda read: {**responses_turn(read), "stream": True}, streamed(response_stream)
    ),
    "interactions": Api(interactions.PATH, interactions_turn, whole(interaction)),
    "interactions stream": Api(
        interactions.PATH,
        lambda read: {**interactions_turn(read), "stream": True},
        streamed(interaction_stream),
    ),
}
