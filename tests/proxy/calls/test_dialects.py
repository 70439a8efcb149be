"""What holds of chat completions, responses and interactions alike at a whole gateway."""

import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.bodies import chat, interactions, responses
from support.bodies.interactions import ANSWER as INTERACTION
from support.bodies.interactions import Json
from support.bodies.planting import SECRET
from support.gateway.dialects import BOTH, no_rockets_at_all, no_shell
from support.gateway.loopback import gateway_before, listens, running_gateway, runs, says
from support.hooks.policies import CANNED, REFUSAL, answer_itself
from support.wire import KEY, STREAM_HEAD, Answer, ask, ok, peer, post

from hookgate.proxy.config import Config

MODEL = "gemini-2.5-flash"
ALLOWS_ALL = Config.model_validate({"routes": {"files": "forward", "unhooked": ["interactions"]}})
ASKS_AGAIN = Config.model_validate({"tools": {"refused": "ask_again", "ask_again_at_most": 2}})
COMMAND = ['{"command": "cat ', '/etc/passwd"}']
"""The arguments of a call that `no_shell` denies, in pieces."""


def events_of(answer: Answer) -> list[Json]:
    """Return the events of a stream, without the one that ends it."""
    lines = [line for line in answer.body.split(b"\n") if line.startswith(b"data: {")]
    return [json.loads(line.removeprefix(b"data: ")) for line in lines]


@dataclass(frozen=True)
class Api:
    """One of the APIs.

    Attributes:
        path: The path of a call.
        vertex: The path of a call on Vertex AI, or an empty string.
        prompt: A request.
        answer: A whole answer with the text `hello`, 3 tokens in and `output_tokens` out.
        unreadable: Fields of an answer that hooks cannot judge, with a secret.
        stream: Returns the bytes of a stream with these pieces of text, followed by a call with these pieces
            of arguments if there are any.
        call: Returns a whole answer that calls the tool `shell` with these arguments.
        text: Returns the text of a whole answer.
        streamed_text: Returns the text of a stream as a client joins it.
        tools: Returns the tools with these names.
        choice: What makes the model call `read_file`, as it is sent upstream.
        called: Returns the names of the tools that an answer calls.
    """

    path: str
    vertex: str
    prompt: Json
    answer: Json
    output_tokens: int
    unreadable: Json
    stream: Callable[..., bytes]
    call: Callable[[str], Json]
    text: Callable[[Json], str]
    streamed_text: Callable[[Answer], str]
    tools: Callable[..., list[Json]]
    choice: Json
    called: Callable[[Json], list[str]]

    async def send(self, url: str, **changes: Any) -> Answer:
        """Send the prompt with these changes."""
        return await post(url, self.path, {**self.prompt, **changes}, KEY)


# ---- chat completions


def chat_stream(texts: list[str], arguments: list[str], name: str = "read_file") -> bytes:
    calls = chat.called(arguments, name=name) if arguments else []
    ended = chat.ended("tool_calls" if arguments else "stop")
    return chat.sse([*map(chat.text_chunk, texts), *calls, ended])


def completion(message: Json, reason: str = "stop") -> Json:
    return {
        "id": "c1",
        "object": "chat.completion",
        "created": 1,
        "model": MODEL,
        "choices": [{"index": 0, "message": {"role": "assistant", **message}, "finish_reason": reason}],
        "usage": {"prompt_tokens": 3, "completion_tokens": 5, "total_tokens": 20},
    }


def chat_calls(answer: Json) -> list[str]:
    return [call["function"]["name"] for call in answer["choices"][0]["message"]["tool_calls"]]


CHAT = Api(
    path="/v1beta/openai/chat/completions",
    vertex="/v1/projects/p/locations/l/endpoints/openapi/chat/completions",
    prompt=chat.HI,
    answer=completion({"content": "hello"}),
    output_tokens=17,
    unreadable={"choices": [{"index": 0, "message": {"role": "assistant", "audio": {"transcript": SECRET}}}]},
    stream=chat_stream,
    call=lambda arguments: completion(
        {"content": None, "tool_calls": [chat.tool_call(arguments, name="shell")]}, "tool_calls"
    ),
    text=lambda answer: answer["choices"][0]["message"]["content"],
    streamed_text=lambda answer: "".join(
        choice["delta"].get("content") or "" for each in events_of(answer) for choice in each["choices"]
    ),
    tools=lambda *names: [chat.declared(name) for name in names],
    choice={"tool_choice": {"type": "function", "function": {"name": "read_file"}}},
    called=chat_calls,
)

# ---- responses


def response_stream(texts: list[str], arguments: list[str], name: str = "read_file") -> bytes:
    items = [responses.text_events(texts)] if texts else []
    calls = [responses.called(arguments, len(items), name)] if arguments else []
    return responses.sse(responses.whole(*items, *calls))


def response(*items: Json) -> Json:
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1,
        "status": "completed",
        "error": None,
        "model": MODEL,
        "output": list(items),
        "usage": {
            "input_tokens": 3,
            "input_tokens_details": {"cached_tokens": 1},
            "output_tokens": 17,
            "output_tokens_details": {"reasoning_tokens": 2},
            "total_tokens": 20,
        },
        # A function may have a parameter of the name with which tokens are reported.
        "tools": [
            responses.declared(parameters={"type": "object", "properties": {"usage": {"input_tokens": 9}}})
        ],
    }


RESPONSES = Api(
    path="/v1beta/openai/responses",
    vertex="/v1/projects/p/locations/l/endpoints/openapi/responses",
    prompt=responses.HI,
    answer=response(responses.message(responses.output_text("hello"))),
    output_tokens=17,
    unreadable={"output": [{"type": "custom_tool_call", "name": "shell", "input": SECRET}]},
    stream=response_stream,
    call=lambda arguments: response(responses.call_item(arguments, name="shell")),
    text=lambda answer: "".join(
        content["text"]
        for item in answer["output"]
        if item["type"] == "message"
        for content in item["content"]
    ),
    streamed_text=lambda answer: "".join(
        event["delta"] for event in events_of(answer) if event["type"] == "response.output_text.delta"
    ),
    tools=lambda *names: [responses.declared(name) for name in names],
    choice={"tool_choice": {"type": "function", "name": "read_file"}},
    called=lambda answer: [item["name"] for item in answer["output"]],
)

# ---- interactions


def interaction_stream(texts: list[str], arguments: list[str], name: str = "read_file") -> bytes:
    spoken = [
        interactions.started(interactions.TEXT_STEP),
        *map(interactions.delta, texts),
        interactions.stopped(),
    ]
    calls = interactions.called(arguments, int(bool(texts)), name) if arguments else []
    end = interactions.completed("requires_action" if arguments else "completed")
    return interactions.sse([interactions.CREATED, *(spoken if texts else []), *calls, end])


def interaction_call(arguments: str) -> Json:
    call = {"type": "function_call", "id": "c0", "name": "shell", "arguments": json.loads(arguments)}
    return {**INTERACTION, "status": "requires_action", "steps": [call]}


INTERACTIONS = Api(
    path=interactions.PATH,
    vertex="",
    prompt=interactions.HI,
    answer=INTERACTION,
    output_tokens=7,
    unreadable={"outputs": [interactions.text(SECRET)], "steps": None},
    stream=interaction_stream,
    call=interaction_call,
    text=lambda answer: "".join(
        content["text"]
        for step in answer["steps"]
        if step["type"] == "model_output"
        for content in step["content"]
    ),
    streamed_text=interactions.text_of,
    tools=lambda *names: [{"type": "function", "name": name} for name in names],
    choice={"generation_config": {"tool_choice": {"allowed_tools": {"mode": "any", "tools": ["read_file"]}}}},
    called=lambda answer: [step["name"] for step in answer["steps"]],
)

APIS = {"chat": CHAT, "responses": RESPONSES, "interactions": INTERACTIONS}
EACH = pytest.mark.parametrize("api", APIS.values(), ids=APIS)
OPENAIS = pytest.mark.parametrize("api", [CHAT, RESPONSES], ids=["chat", "responses"])


# ---- the request


def user(content: Any) -> Json:
    return {"role": "user", "content": content}


FORBIDDEN_CHATS: list[list[Json]] = [
    [user("a rocket")],
    [user([{"type": "text", "text": "a ro"}, {"type": "text", "text": "cket"}])],
    [{"role": "system", "content": "a rocket"}, user("hi")],
    [user("hi"), {"role": "developer", "content": [{"type": "text", "text": "a rocket"}]}],
    [user("hi"), {"role": "assistant", "content": "a rocket"}],
    [user("hi"), {"role": "assistant", "refusal": "a rocket", "content": None}],
]
FORBIDDEN_RESPONSES: list[Json] = [
    {"input": "a rocket"},
    {"input": [user("a rocket")]},
    {"input": [user([{"type": "input_text", "text": "a ro"}, {"type": "input_text", "text": "cket"}])]},
    {"input": "hi", "instructions": "a rocket"},
    {"input": [{"role": "system", "content": "a rocket"}, user("hi")]},
    {"input": [user("hi"), {"role": "developer", "content": "a rocket"}]},
    {"input": [user("hi"), responses.message(responses.output_text("a rocket"))]},
    {"input": [user("hi"), responses.message({"type": "refusal", "refusal": "a rocket"})]},
    {"input": [user("hi"), {"type": "reasoning", "summary": responses.summary("a rocket")}]},
]
FORBIDDEN_INTERACTIONS: list[Json] = [
    {"input": "a rocket"},
    {"input": {"type": "text", "text": "a rocket"}},
    {"input": [{"type": "text", "text": "a ro"}, {"type": "text", "text": "cket"}]},
    {"input": [{"type": "user_input", "content": [{"type": "text", "text": "a rocket"}]}]},
    {"input": [{"type": "from_the_future", "content": [{"type": "text", "text": "a rocket"}]}]},
    {"input": "hi", "system_instruction": "a rocket"},
    {"input": "hi", "systemInstruction": "a rocket"},
]


@pytest.mark.parametrize(
    ("api", "change"),
    [
        *((CHAT, {"messages": messages}) for messages in FORBIDDEN_CHATS),
        *((RESPONSES, change) for change in FORBIDDEN_RESPONSES),
        *((INTERACTIONS, change) for change in FORBIDDEN_INTERACTIONS),
    ],
)
@pytest.mark.parametrize("stream", [False, True])
async def test_a_prompt_is_denied_in_every_form(api: Api, change: Json, stream: bool) -> None:
    async with running_gateway({"BeforeModel": [runs(no_rockets_at_all)]}) as gateway:
        for path in filter(None, (api.path, api.vertex)):
            answer = await post(gateway.url, path, {**api.prompt, **change, "stream": stream})
            assert (answer.status, answer.error["message"]) == (403, REFUSAL)
    assert not gateway.recorded


@EACH
async def test_a_call_that_no_hook_edits_arrives_byte_for_byte_with_its_answer(api: Api) -> None:
    seen: list[Json] = []
    body = {**api.prompt, "model": f"models/{MODEL}", "future": {"a_b": 1.0}, "store": False}
    hooks = {"BeforeModel": [listens(seen)], "AfterModel": [listens(seen)]}
    data = json.dumps(api.answer, indent=1).encode()
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, api.path, body, {"Authorization": "Bearer test-key"})
    assert answer.body == data
    assert json.loads(upstream.heard[0].split(b"\r\n\r\n")[1]) == body
    assert b"Bearer test-key" in upstream.heard[0]
    assert seen[0]["llm_request"]["model"] == MODEL
    assert seen[0]["llm_request"]["messages"] == [{"role": "user", "content": "hi"}]
    assert seen[1]["llm_response"]["text"] == "hello"
    assert seen[1]["llm_response"]["usageMetadata"]["promptTokenCount"] == 3


_CHAT_BODIES = [
    b'{"model": "m", "messages": [], "cached_content": "c", "google": {"cached_content": "a rocket"}}',
    b'{"model": "m", "messages": [], "google": {"cached_content": "a rocket"}}',
    b'{"model": "m", "messages": [{"role": "user", "content": "hi", "content": "a rocket"}]}',
    b'{"model": "m", "messages": [{"role": "user", "content": "hi", "Content": "a rocket"}]}',
    b'{"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": "true"}',
    b'{"model": "m", "messages": [{"role": "user", "content": "hi"}], "Stream": true}',
    b'{"model": "m/../n", "messages": [{"role": "user", "content": "hi"}]}',
    b'{"model": "meta/llama", "messages": [{"role": "user", "content": "hi"}]}',
    b'{"messages": [{"role": "user", "content": "hi"}]}',
    b'{"model": "m", "messages": [], "contents": [{"parts": [{"text": "a rocket"}]}]}',
    b'{"model": "m", "messages": [], "systemInstruction": {"parts": [{"text": "a rocket"}]}}',
    b'{"model": "m", "messages": [{"role": "function", "name": "f", "content": "a rocket"}]}',
    b'{"model": "m", "messages": [{"role": "assistant", "function_call": {"name": "a rocket"}}]}',
]
_RESPONSE_BODIES = [
    b'{"model": "m", "input": "hi", "input": "a rocket"}',
    b'{"model": "m", "input": [{"role": "user", "content": "hi", "content": "a rocket"}]}',
    b'{"model": "m", "input": [{"role": "user", "content": "hi", "Content": "a rocket"}]}',
    b'{"model": "m", "input": "hi", "Input": "a rocket"}',
    b'{"model": "m", "input": "hi", "Instructions": "a rocket"}',
    b'{"model": "m", "input": "hi", "stream": "true"}',
    b'{"model": "m", "input": "hi", "Stream": true}',
    b'{"model": "m", "input": "hi", "previousResponseId": "r"}',
    b'{"model": "m", "input": "hi", "PREVIOUS_RESPONSE_ID": "r"}',
    b'{"model": "m/../n", "input": "hi"}',
    b'{"model": "meta/llama", "input": "hi"}',
    b'{"input": "hi"}',
    b'{"model": "m", "contents": [{"parts": [{"text": "a rocket"}]}]}',
    b'{"model": "m", "input": "hi", "messages": [{"role": "user", "content": "a rocket"}]}',
    b'{"model": "m", "input": [{"type": "item_reference", "id": "msg_1"}]}',
    b'{"model": "m", "input": [{"type": "mcp_call", "output": "a rocket"}]}',
    b'{"model": "m", "input": [{"type": "custom_tool_call_output", "output": "a rocket"}]}',
    b'{"model": "m", "input": {"role": "user", "content": "a rocket"}}',
    b'{"model": "m", "input": "hi", "tools": [{"type": "web_search"}]}',
]
_INTERACTION_BODIES = [
    b'{"model": "m", "input": "hi", "input": "a rocket"}',
    b'{"model": "m", "input": "hi", "in\\u0070ut": "a rocket"}',
    b'{"model": "m", "input": "hi", "stream": "true"}',
    b'{"model": "m/../n", "input": "hi"}',
    b'{"input": "hi"}',
    b'{"model": "m", "input": "hi", "contents": [{"parts": [{"text": "a rocket"}]}]}',
    b'{"model": "m", "agent": "a", "input": "hi"}',
    b'{"model": "m", "INPUT": "a rocket"}',
    b'{"model": "m", "input": [{"type": "user_input", "Content": [{"text": "a rocket"}]}]}',
    b'{"model": "m", "input": "hi", "web_hook_config": {"url": "https://example.org"}}',
    b'{"model": "m", "input": "hi", "WebhookConfig": {"url": "https://example.org"}}',
]


@pytest.mark.parametrize(
    ("api", "body"),
    [
        *((CHAT, body) for body in _CHAT_BODIES),
        *((RESPONSES, body) for body in _RESPONSE_BODIES),
        *((INTERACTIONS, body) for body in _INTERACTION_BODIES),
    ],
)
async def test_a_body_that_hooks_could_not_judge_is_refused(api: Api, body: bytes) -> None:
    """For example one that two parsers could read differently. Operators may allow agents, as here."""
    config = ALLOWS_ALL if api is INTERACTIONS else None
    async with running_gateway({"BeforeModel": [runs(no_rockets_at_all)]}, config=config) as gateway:
        answer = await post(gateway.url, api.path, body)
    assert answer.status in (400, 403), answer.body
    assert not gateway.recorded


@EACH
async def test_the_policies_of_models_and_usage_apply(api: Api) -> None:
    models = {"type": "builtin", "builtin": "models", "options": {"allow": [MODEL]}}
    names = ["gemini-2.5-pro", MODEL, *([f"google/{MODEL}"] if api.vertex else [])]
    async with (
        peer(ok(json.dumps(api.answer).encode())) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [models]}) as url,
    ):
        answers = [await api.send(url, model=name) for name in names]
        path = f"/hookgate/v1/receipts/{answers[-1].headers['x-hookgate-receipt']}"
        receipt = (await ask(url, "GET", path, KEY)).json
    assert [answer.status for answer in answers] == [403, *[200] * (len(names) - 1)]
    assert receipt["model"] == MODEL
    assert (receipt["usage"]["input_tokens"], receipt["usage"]["output_tokens"]) == (3, api.output_tokens)


@OPENAIS
async def test_a_hook_that_changes_the_model_keeps_its_collection(api: Api) -> None:
    hook = says(llm_request={"model": "gemini-2.5-pro"})
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        for model in (MODEL, f"models/{MODEL}", f"google/{MODEL}"):
            await post(gateway.url, api.vertex, {**api.prompt, "model": model}, KEY)
    names = [request.body["model"] for request in gateway.recorded]
    assert names == ["gemini-2.5-pro", "models/gemini-2.5-pro", "google/gemini-2.5-pro"]


@pytest.mark.parametrize(
    ("api", "operation"),
    [(CHAT, "streamChatCompletion"), (RESPONSES, "streamResponse"), (INTERACTIONS, "streamInteraction")],
)
async def test_a_condition_on_the_operation_applies(api: Api, operation: str) -> None:
    seen: list[Json] = []
    hook = {**listens(seen), "when": {"operations": [operation]}}
    async with running_gateway({"BeforeModel": [hook]}) as gateway:
        for stream in (False, True):
            await api.send(gateway.url, stream=stream)
    assert len(seen) == 1


LATER: dict[str, Json] = {
    "chat": {"messages": [user("hi"), {"role": "assistant", "content": "hello"}, user("more")]},
    "responses": {
        "input": [user("hi"), responses.message(responses.output_text("hello")), user("more")],
    },
    "interactions": {
        "input": [
            {"type": "user_input", "content": [interactions.text("hi")]},
            {"type": "model_output", "content": [interactions.text("hello")]},
            {"type": "user_input", "content": [interactions.text("more")]},
        ]
    },
}


@pytest.mark.parametrize("name", APIS)
async def test_a_conversation_is_one_session(name: str) -> None:
    seen: list[Json] = []
    [(field, turns)] = LATER[name].items()
    async with running_gateway({"BeforeModel": [listens(seen)]}) as gateway:
        for change in (turns[:1], turns, turns[2:]):
            assert (await APIS[name].send(gateway.url, **{field: change})).status == 200
    sessions = [event["session_id"] for event in seen]
    assert sessions[0] == sessions[1] != sessions[2]


@EACH
async def test_a_selection_of_tools_reaches_the_upstream(api: Api) -> None:
    hook = says(toolConfig={"mode": "ANY", "allowedFunctionNames": ["read_file"]})
    async with running_gateway({"BeforeToolSelection": [hook]}) as gateway:
        answer = await api.send(gateway.url, tools=api.tools("shell", "read_file"))
    sent = gateway.recorded[0].body
    assert {name: sent[name] for name in api.choice} == api.choice
    if api is not INTERACTIONS:  # which names the tools that are allowed
        assert sent["tools"] == api.tools("read_file")
    assert api.called(answer.json) == ["read_file"]


RESULTS: dict[str, Json] = {
    "chat": {
        "messages": [
            user("read"),
            {"role": "assistant", "content": None, "tool_calls": [chat.tool_call("{}")]},
            {"role": "tool", "tool_call_id": "c1", "content": "milk"},
        ]
    },
    "responses": {
        "input": [
            user("read"),
            responses.call_item("{}"),
            {"type": "function_call_output", "call_id": "c1", "output": "milk"},
        ]
    },
    "interactions": {
        "input": [
            {"type": "user_input", "content": [interactions.text("read")]},
            {"type": "function_call", "id": "c1", "name": "read_file", "arguments": {}},
            {"type": "function_result", "call_id": "c1", "name": "read_file", "result": "milk"},
        ]
    },
}


@pytest.mark.parametrize("name", APIS)
async def test_an_edit_of_a_tools_result_reaches_the_model(name: str) -> None:
    def note(event: Json) -> Json:
        assert event["tool_response"]["llmContent"] == "milk"
        return {"hookSpecificOutput": {"additionalContext": "Checked."}}

    [(field, items)] = RESULTS[name].items()
    async with running_gateway({"AfterTool": [runs(note)]}) as gateway:
        await APIS[name].send(gateway.url, **{field: items})
    sent = gateway.recorded[0].body[field]
    assert sent[:2] == items[:2]
    assert "Checked." in json.dumps(sent)


# ---- answers in the model's place


@EACH
async def test_a_hook_answers_itself_whole_and_streamed(api: Api) -> None:
    async with running_gateway({"BeforeModel": [runs(answer_itself)]}) as gateway:
        whole, stream = [await api.send(gateway.url, stream=stream) for stream in (False, True)]
    assert (api.text(whole.json), api.streamed_text(stream)) == (CANNED, CANNED)
    assert not gateway.recorded


# ---- the answer


@EACH
async def test_unchanged_events_keep_their_bytes(api: Api) -> None:
    pieces = [] if api is CHAT else ['{"a"', ": 1}"]  # a call of a chat completion is sent whole
    data = api.stream(["hel", "lo"], pieces)
    hooks = {"BeforeTool": [listens([])], **BOTH}
    async with peer(STREAM_HEAD, data) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await api.send(url, stream=True)
    assert answer.body == data


@EACH
@pytest.mark.parametrize("mode", ["event", "window", "complete"])
async def test_a_hook_edits_a_stream_in_each_mode(api: Api, mode: str) -> None:
    def shout(event: Json) -> Json:
        text = event["llm_response"].get("text") or ""
        return {
            "hookSpecificOutput": {"llm_response": {"candidates": [{"content": {"parts": [text.upper()]}}]}}
        }

    hooks = {"AfterModel": [runs(shout, stream=mode)]}
    data = api.stream(["hel", "lo ", "you"], [])
    async with peer(STREAM_HEAD, data) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await api.send(url, stream=True)
    assert api.streamed_text(answer) == "HELLO YOU"
    assert b"hel" not in answer.body
    assert b"you" not in answer.body


@EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_a_forbidden_call_does_not_reach_the_client(api: Api, stream: bool) -> None:
    whole = ok(json.dumps(api.call("".join(COMMAND))).encode())
    bodies = [STREAM_HEAD, api.stream([], COMMAND, "shell")] if stream else [whole]
    async with (
        peer(*bodies) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [runs(no_shell)]}) as url,
    ):
        answer = await api.send(url, stream=stream, tools=api.tools("shell"))
    assert b"passwd" not in answer.body
    assert "no shell" in (api.streamed_text(answer) if stream else api.text(answer.json))


@EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_a_model_is_asked_again_after_a_refused_call(api: Api, stream: bool) -> None:
    script = {
        "rules": [
            {"when": {"tool_response": "shell"}, "answer": {"text": "I did not."}},
            {"answer": {"parts": [{"text": "Running. "}, {"functionCall": {"name": "shell", "args": {}}}]}},
        ]
    }
    async with running_gateway({"BeforeTool": [runs(no_shell)]}, script, ASKS_AGAIN) as gateway:
        answer = await api.send(gateway.url, stream=stream, tools=api.tools("shell", "read_file"))
    assert len(gateway.recorded) == 2
    assert "Tool execution blocked: no shell" in json.dumps(gateway.recorded[1].body)
    text = api.streamed_text(answer) if stream else api.text(answer.json)
    assert text.endswith("I did not.")
    assert not any(call in answer.body for call in (b'"tool_calls"', b'"function_call"'))


@EACH
@pytest.mark.parametrize("stream", [False, True])
async def test_a_call_of_a_tool_that_the_request_does_not_declare_is_refused(api: Api, stream: bool) -> None:
    """Some clients run the tool `shell` then."""
    script = {
        "rules": [
            {"when": {"tool_response": "shel"}, "answer": {"text": "I did not."}},
            {"answer": {"parts": [{"functionCall": {"name": "shel", "args": {}}}]}},
        ]
    }
    async with running_gateway({"BeforeTool": [runs(no_shell)]}, script, ASKS_AGAIN) as gateway:
        answer = await api.send(gateway.url, stream=stream, tools=api.tools("shell", "read_file"))
    text = api.streamed_text(answer) if stream else api.text(answer.json)
    assert text == "I did not."
    assert "declares no tool of this name" in json.dumps(gateway.recorded[1].body)
    assert not any(call in answer.body for call in (b'"tool_calls"', b'"function_call"'))


@EACH
async def test_an_answer_that_hooks_could_not_judge_is_refused(api: Api) -> None:
    answer_body = {
        name: value for name, value in {**api.answer, **api.unreadable}.items() if value is not None
    }
    async with (
        peer(ok(json.dumps(answer_body).encode())) as upstream,
        gateway_before(upstream.url, {"AfterModel": [listens([])]}) as url,
    ):
        answer = await api.send(url)
    assert answer.status == 502
    assert SECRET.encode() not in answer.body
