"""What AfterTool hooks are shown of a tool's result, and what is left of it after a denial or an edit."""

import base64
import json
from typing import Any

import pytest
from google.genai import types
from support.bodies.genai import camel_case, leaves_of
from support.bodies.planting import SECRET
from support.gateway.loopback import gateway_before, listens, runs, says
from support.wire import KEY, UNARY, ok, peer, post

from hookgate.proxy.config import Config

Json = dict[str, Any]
TEXT = "planted text"
FILE = base64.b64encode(TEXT.encode()).decode()
FORWARDS = Config.model_validate({"routes": {"files": "forward"}})
DENY = {"AfterTool": [says({"decision": "deny", "reason": "hidden"})]}
pytestmark = pytest.mark.filterwarnings("ignore")  # of unknown enumerators


async def upstream_body(hooks: Json, path: str, body: Json) -> Any:
    """The body that goes upstream."""
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks, FORWARDS) as url:
        answer = await post(url, path, body, KEY)
        assert upstream.heard, answer.body
        return json.loads(upstream.heard[0].partition(b"\r\n\r\n")[2])


def turn(*parts: Json, **call: Any) -> Json:
    """A request with the results of a call."""
    called = {"functionCall": {"name": "read", "args": {}, **call}}
    return {
        "contents": [
            {"role": "user", "parts": [{"text": "hi"}]},
            {"role": "model", "parts": [called]},
            {"role": "user", "parts": list(parts)},
        ]
    }


def parts_of(body: Json) -> list[Json]:
    parts: list[Json] = body["contents"][-1]["parts"]
    return parts


def planted(value: Any) -> Any:
    if isinstance(value, dict):
        if value.get("data") == SECRET:
            return {**value, "mimeType": "text/plain", "data": FILE}
        return {key.replace(SECRET, TEXT): planted(item) for key, item in value.items()}
    return [planted(item) for item in value] if isinstance(value, list) else str(value).replace(SECRET, TEXT)


NOT_SHOWN = ("functionResponse.id", "thoughtSignature")


async def test_every_text_of_a_result_is_shown_by_the_types_of_the_sdk() -> None:
    base = {"name": "read", "response": {"output": "ok"}}
    results = [("response", {"functionResponse": {**base, "response": {"other": TEXT, "output": "a"}}})]
    for path, value in leaves_of(types.FunctionResponse):
        results.append(
            (f"functionResponse{path}", {"functionResponse": {**base, **planted(camel_case(value))}})
        )
    for path, value in leaves_of(types.Part):
        if not path.startswith((".function_", ".text", ".tool_", ".inline_")):  # the API refuses both at once
            part = planted(camel_case(value))
            results.append((camel_case({path[1:]: 0}).popitem()[0], {"functionResponse": base, **part}))
    results += [
        ("unknown", {"functionResponse": {**base, "scheduling": TEXT}}),
        ("unknown", {"functionResponse": {**base, "unknownField": [TEXT]}}),
        ("unknown", {"functionResponse": base, "unknownField": {TEXT: 1}}),
        ("unknown", {"functionResponse": {**base, "parts": TEXT}}),
    ]
    for path, part in results:
        seen: list[Json] = []
        body = turn(part)
        assert await upstream_body({"AfterTool": [listens(seen)]}, UNARY, body) == body
        [event] = seen
        assert (TEXT in json.dumps(event)) is (path not in NOT_SHOWN), path
    assert len(results) > 50


WHOLE: Json = {
    "functionResponse": {
        "id": "call-1",
        "name": "read",
        "response": {"output": TEXT, "error": TEXT},
        "scheduling": TEXT,
        "unknownField": {"a": TEXT},
        "parts": [{"inlineData": {"mimeType": "text/plain", "data": FILE, "displayName": TEXT}}],
    },
    "partMetadata": {"a": TEXT},
    "thoughtSignature": FILE,
    "unknown_field": TEXT,
}
HIDDEN = {"functionResponse": {"id": "call-1", "name": "read", "response": {"output": "hidden"}}}


@pytest.mark.parametrize(
    ("declared", "seen"),
    [(["read"], "read"), (["reads"], "Read"), (["read", "READ"], "read"), (["READ", "Read"], "Read")],
)
async def test_a_name_in_another_case_is_shown_as_it_is_declared(declared: list[str], seen: str) -> None:
    shown: list[Json] = []
    body = turn({"functionResponse": {"name": "Read", "response": {"output": TEXT}}}, name="Read")
    body["tools"] = [{"functionDeclarations": [{"name": name} for name in declared]}]
    sent = await upstream_body({"AfterTool": [listens(shown)]}, UNARY, body)
    assert [each["tool_name"] for each in shown] == [seen]
    assert parts_of(sent)[0]["functionResponse"]["name"] == "Read"


async def test_nothing_of_a_denied_result_goes_upstream() -> None:
    body = turn(WHOLE, id="call-1")
    body["contents"][-1]["unknownField"] = TEXT
    assert (await upstream_body(DENY, UNARY, body))["contents"][-1] == {"role": "user", "parts": [HIDDEN]}


@pytest.mark.parametrize("key", ["name", "id"])
async def test_the_name_and_the_id_of_a_denied_result_are_those_of_its_call(key: str) -> None:
    result = {**HIDDEN["functionResponse"], key: TEXT}
    [part] = parts_of(await upstream_body(DENY, UNARY, turn({"functionResponse": result}, id="call-1")))
    assert part == HIDDEN
    result = {"name": TEXT, "id": TEXT, "response": {}}
    body = {"contents": [{"role": "user", "parts": [{"functionResponse": result}]}]}
    assert TEXT not in json.dumps(await upstream_body(DENY, UNARY, body))


async def test_the_same_denied_result_stays_hidden_in_every_later_call() -> None:
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, DENY) as url:
        for _ in range(3):
            await post(url, UNARY, turn(WHOLE, id="call-1"), KEY)
        bodies = [json.loads(each.partition(b"\r\n\r\n")[2]) for each in upstream.heard]
    assert [parts_of(body) for body in bodies] == [[HIDDEN]] * 3


async def test_nothing_of_a_denied_message_of_a_tool_goes_upstream() -> None:
    call = {"id": "c1", "type": "function", "function": {"name": "read", "arguments": "{}"}}
    tool = {"role": "tool", "tool_call_id": "c1", "name": TEXT, "content": TEXT, "unknown": TEXT}
    messages = [{"role": "user", "content": "hi"}, {"role": "assistant", "tool_calls": [call]}, tool]
    body = {"model": "gemini-2.5-flash", "messages": messages}
    *_, last = (await upstream_body(DENY, "/v1beta/openai/chat/completions", body))["messages"]
    assert last == {"role": "tool", "tool_call_id": "c1", "content": "hidden"}


async def test_nothing_of_a_denied_result_of_an_interaction_goes_upstream() -> None:
    steps = [
        {"type": "user_input", "content": [{"type": "text", "text": "hi"}]},
        {"type": "function_call", "id": "c1", "name": "read", "arguments": {}},
        {"type": "function_result", "call_id": "c1", "name": TEXT, "result": TEXT, "unknown": TEXT},
    ]
    *_, last = (
        await upstream_body(DENY, "/v1beta/interactions", {"model": "gemini-2.5-flash", "input": steps})
    )["input"]
    assert TEXT not in json.dumps(last)
    assert (last["type"], last["call_id"], last["name"]) == ("function_result", "c1", "read")


def edits(**result: Any) -> Json:
    return {"AfterTool": [says({"hookSpecificOutput": {"tool_result": result}})]}


async def test_an_edit_replaces_the_whole_result_with_its_files_and_other_fields() -> None:
    [part] = parts_of(await upstream_body(edits(llmContent="masked"), UNARY, turn(WHOLE, id="call-1")))
    assert part["functionResponse"] == {"id": "call-1", "name": "read", "response": {"output": "masked"}}


async def test_an_edit_keeps_the_files_and_fields_that_the_hook_returns() -> None:
    def mask(event: Json) -> Json:
        return {"hookSpecificOutput": {"tool_result": {**event["tool_response"], "llmContent": "masked"}}}

    [part] = parts_of(await upstream_body({"AfterTool": [runs(mask)]}, UNARY, turn(WHOLE, id="call-1")))
    want: Json = json.loads(json.dumps(WHOLE))
    want["functionResponse"]["response"]["output"] = "masked"
    assert part == want


async def test_a_file_that_a_hook_edits_is_removed() -> None:
    def mask(event: Json) -> Json:
        result = event["tool_response"]
        result["parts"][0]["text"] = "masked"
        return {"hookSpecificOutput": {"tool_result": result}}

    [part] = parts_of(await upstream_body({"AfterTool": [runs(mask)]}, UNARY, turn(WHOLE, id="call-1")))
    assert "parts" not in part["functionResponse"]


@pytest.mark.parametrize("result", [TEXT, [{"response": {"output": TEXT}}], {"name": "a", "response": TEXT}])
async def test_a_result_that_hooks_could_not_see_is_refused(result: Any) -> None:
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, DENY) as url:
        answer = await post(url, UNARY, turn({"functionResponse": result}), KEY)
    assert (answer.status, upstream.heard) == (400, [])
    assert "contents[2].parts[0].functionResponse" in answer.error["message"]
