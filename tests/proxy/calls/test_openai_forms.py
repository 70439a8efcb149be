"""Forms of bodies of OpenAI's SDKs and upstreams: nulls, images in results, choices without messages."""

import json
from typing import Any

import pytest
from openai.types.chat import ChatCompletionMessage
from openai.types.responses import ResponseFunctionToolCall, ResponseOutputMessage, ResponseOutputText
from support.bodies.chat import HI, IMAGE, MODEL, tool_call
from support.bodies.interactions import Json
from support.bodies.planting import SECRET
from support.gateway.dialects import REDACT
from support.gateway.loopback import gateway_before, listens, running_gateway, says
from support.wire import ok, peer, post

from hookgate.proxy.config import Config

CHAT, RESPONSES = "/v1beta/openai/chat/completions", "/v1beta/openai/responses"
BEARER = {"Authorization": "Bearer test-key"}
BOTH = {"BeforeModel": [REDACT], "AfterModel": [REDACT]}
JUDGES_FILES = Config.model_validate({"routes": {"files": "judge"}})
FULL: Json = {
    "id": "x",
    "object": "chat.completion",
    "model": MODEL,
    "choices": [{"index": 0, "finish_reason": "length", "logprobs": None}],
    "usage": {"prompt_tokens": 9, "total_tokens": 40},
}


@pytest.mark.parametrize("choice", [{}, {"message": None}, {"delta": None}], ids=str)
async def test_a_choice_without_a_message_passes_as_it_came(choice: Json) -> None:
    """The model has used up its tokens for thoughts; Vertex AI then sends no message."""
    data = json.dumps({**FULL, "choices": [{**FULL["choices"][0], **choice}]}).encode()
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, BOTH) as url:
        answer = await post(url, CHAT, HI, BEARER)
    assert (answer.status, answer.body) == (200, data)


async def test_a_hook_may_add_a_text_to_a_choice_without_a_message() -> None:
    hook = says({"hookSpecificOutput": {"llm_response": {"text": "too long"}}})
    data = json.dumps(FULL).encode()
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, {"AfterModel": [hook]}) as url:
        answer = await post(url, CHAT, HI, BEARER)
    [choice] = answer.json["choices"]
    assert (choice["message"]["content"], choice["finish_reason"]) == ("too long", "length")


NULLS = dict.fromkeys(("annotations", "audio", "function_call", "refusal", "tool_calls"))


async def test_messages_with_the_nulls_of_openais_sdk_pass_in_requests_and_answers() -> None:
    dumped = {**ChatCompletionMessage(role="assistant", content="ok").model_dump(), **NULLS}
    body = {**HI, "messages": [*HI["messages"], dumped, {"role": "user", "content": f"key {SECRET}"}]}
    choice = {"index": 0, "finish_reason": "stop", "message": {**NULLS, "role": "assistant", "content": "ok"}}
    data = json.dumps({**FULL, "choices": [choice]}).encode()
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, BOTH) as url:
        answer = await post(url, CHAT, body, BEARER)
    assert (answer.status, answer.body) == (200, data)
    sent = json.loads(upstream.heard[0].split(b"\r\n\r\n")[1])
    assert sent["messages"][1] == dumped
    assert SECRET not in json.dumps(sent)


async def test_items_with_the_nulls_of_openais_sdk_pass() -> None:
    text = ResponseOutputText(annotations=[], text="a", type="output_text", logprobs=None)
    message = ResponseOutputMessage(
        id="m", role="assistant", status="completed", type="message", content=[text]
    )
    call = ResponseFunctionToolCall(arguments="{}", call_id="c", name="f", type="function_call")
    items = [item.model_dump() for item in (message, call)]
    result = {"type": "function_call_output", "call_id": "c", "output": f"key {SECRET}"}
    body = {"model": MODEL, "input": [{"role": "user", "content": "hi"}, *items, result]}
    async with running_gateway({"BeforeModel": [REDACT]}) as gateway:
        answer = await post(gateway.url, RESPONSES, body, BEARER)
    assert answer.status == 200
    assert gateway.recorded[0].body["input"][1:3] == items
    assert SECRET not in json.dumps(gateway.recorded[0].body)


@pytest.mark.parametrize("name", ["function_call", "functionCall"])
async def test_a_function_call_of_the_old_form_is_refused_with_the_remedy(name: str) -> None:
    message = {"role": "assistant", "content": None, name: {"name": "f", "arguments": "{}"}}
    async with running_gateway({"BeforeModel": [REDACT]}) as gateway:
        answer = await post(gateway.url, CHAT, {**HI, "messages": [message]}, BEARER)
    assert (answer.status, f"messages[0].{name}" in answer.error["message"]) == (400, True)
    assert ("use these" in answer.error["message"]) is (name == "function_call")


def with_result(path: str, *contents: Json) -> Json:
    """A request with the contents in the result of a tool."""
    if path == CHAT:
        called = {"role": "assistant", "tool_calls": [tool_call("{}", "c1")]}
        result = {"role": "tool", "tool_call_id": "c1", "content": [*contents]}
        return {**HI, "messages": [*HI["messages"], called, result]}
    called = {"type": "function_call", "call_id": "c1", "name": "read", "arguments": "{}"}
    result = {"type": "function_call_output", "call_id": "c1", "output": [*contents]}
    return {"model": MODEL, "input": [{"role": "user", "content": "hi"}, called, result]}


def image(path: str, url: str) -> Json:
    if path == CHAT:
        return {"type": "image_url", "image_url": {"url": url}}
    return {"type": "input_image", "detail": "auto", "image_url": url}


def text(path: str, value: str) -> Json:
    return {"type": "text" if path == CHAT else "input_text", "text": value}


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_images_in_tool_results_are_shown_and_stay_when_a_text_is_redacted(path: str) -> None:
    seen: list[Json] = []
    hooks: Json = {"BeforeModel": [listens(seen) | {"view": "body"}, REDACT], "AfterTool": [listens([])]}
    contents = [text(path, f"key {SECRET}"), image(path, IMAGE), text(path, "b"), image(path, IMAGE)]
    async with running_gateway(hooks) as gateway:
        answer = await post(gateway.url, path, with_result(path, *contents), BEARER)
    assert answer.status == 200
    result = seen[0]["llm_request"]["raw"]["contents"][-1]["parts"][0]["functionResponse"]
    assert result["response"]["result"][1:] == [{"part": 0}, contents[2], {"part": 1}]
    assert [part["inlineData"]["mimeType"] for part in result["parts"]] == ["image/png"] * 2
    sent = gateway.recorded[0].body
    last = sent["messages"][-1]["content"] if path == CHAT else sent["input"][-1]["output"]
    assert last[1:] == contents[1:]
    assert SECRET not in json.dumps(sent)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
async def test_images_of_a_denied_tool_result_are_not_sent(path: str) -> None:
    contents = [text(path, "a"), image(path, IMAGE)]
    hooks = {"AfterTool": [says({"decision": "deny", "reason": "withheld"})]}
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, path, with_result(path, *contents), BEARER)
    sent = json.dumps(gateway.recorded[0].body)
    assert ("withheld" in sent, "base64" in sent) == (True, False)


@pytest.mark.parametrize("path", [CHAT, RESPONSES])
@pytest.mark.parametrize("config", [Config(), JUDGES_FILES], ids=["refuses files", "judges files"])
async def test_an_image_with_an_address_is_refused_at_its_place_with_the_remedy(
    path: str, config: Config
) -> None:
    contents = [text(path, "see"), image(path, "https://example.org/a.png")]
    messages: list[Any] = [{"role": "system", "content": "a"}, {"role": "user", "content": contents}]
    body = {"model": MODEL, "messages" if path == CHAT else "input": messages}
    async with running_gateway({"BeforeModel": [REDACT]}, config=config) as gateway:
        answer = await post(gateway.url, path, body, BEARER)
        in_result = await post(gateway.url, path, with_result(path, contents[1]), BEARER)
    said = answer.error["message"]
    assert answer.status == 403
    assert said.startswith(f"{'messages' if path == CHAT else 'input'}[1].content[1]: ")
    assert "a data URL" in said
    assert ('routes.files = "judge"' in said) is (config is not JUDGES_FILES)
    assert (in_result.status, "data URLs" in in_result.error["message"]) == (400, True)
    assert not gateway.recorded
