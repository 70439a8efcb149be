"""The answer to a judged call: the upstream's own bytes, or the hooks' edit of them."""

import gzip
import json
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, running_gateway, runs, says
from support.wire import KEY, SSE, STREAM, STREAM_HEAD, UNARY, Answer, ask, ok, peer, post, prompt, response

from hookgate.proxy.calls.answer_stages import EDIT_NOT_JSON

HI = prompt("hi there my old friend")
WATCHED: dict[str, Any] = {"BeforeModel": [says()], "BeforeToolSelection": [says()], "AfterModel": [says()]}
EVERY_WAY = pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["unary", "sse", "array"])
STREAMS = pytest.mark.parametrize("target", [SSE, STREAM], ids=["sse", "array"])

CALL = {"functionCall": {"name": "f", "args": {"secret": "in the call"}}, "thoughtSignature": "c2ln"}
THOUGHT = {"text": "a secret thought", "thought": True, "thoughtSignature": "dGg="}
ODD = '{"candidates": [{"content": {"parts": [{"text": "a secret"}]}}], "n": 18446744073709551616, "o":{ }}'


def hide(event: dict[str, Any]) -> dict[str, Any]:
    """An AfterModel hook that masks a word and hands everything back, as a hook of the documents would."""
    shown = event["llm_response"]
    for candidate in shown["candidates"]:
        content = candidate["content"]
        content["parts"] = [part.replace("secret", "******") for part in content["parts"]]
    return {"hookSpecificOutput": {"llm_response": shown}}


HIDING = {"AfterModel": [runs(hide)]}


def bodies(answer: Answer, target: str) -> list[Any]:
    """The responses in an answer of any framing."""
    if target == SSE:
        return answer.events
    return answer.json if target == STREAM else [answer.json]


def parts(answer: Answer, target: str) -> list[Any]:
    return [p for body in bodies(answer, target) for p in body["candidates"][0]["content"]["parts"]]


# ---- unchanged


@EVERY_WAY
@pytest.mark.parametrize("hooks", [{}, WATCHED], ids=["without hooks", "with hooks"])
async def test_an_answer_that_no_hook_changes_is_the_upstreams_byte_for_byte(target: str, hooks: Any) -> None:
    async with running_gateway(hooks) as gateway:
        through = await post(gateway.url, target, HI)
        direct = await post(gateway.upstream_url, target, HI)
    assert (through.status, through.body, through.complete) == (200, direct.body, True)
    assert through.headers["content-type"] == direct.headers["content-type"]


@pytest.mark.parametrize(
    ("target", "body"),
    [
        (UNARY, ODD.encode()),
        (SSE, b"data: " + ODD.encode() + b"\n\ndata: {}\r\n\r\n"),
        (STREAM, b"[ " + ODD.encode() + b"\r\n,\r\n{ }\n]\n"),
    ],
    ids=["unary", "sse", "array"],
)
async def test_odd_spellings_of_the_upstream_survive_as_well(target: str, body: bytes) -> None:
    async with peer(ok(body)) as upstream, gateway_before(upstream.url, WATCHED) as url:
        assert (await post(url, target, HI)).body == body


@pytest.mark.parametrize("hooks", [{}, WATCHED], ids=["without hooks", "with hooks"])
async def test_judged_events_have_one_form_that_all_clients_read(hooks: Any) -> None:
    """Some clients ignore events with an ID, with another name, after a comment, or without a blank."""
    odd = b": hello\r\n\r\nid: 1\nevent: x\ndata: {}\n\n: a\ndata:{}\r\r" + b"data: {\ndata:}\r\n\r\n"
    async with peer(STREAM_HEAD, odd) as upstream, gateway_before(upstream.url, hooks) as url:
        assert (await post(url, SSE, HI)).body == (
            b"data: {}\r\n\r\n" * 2 + b"data: { }\r\n\r\n" if hooks else odd
        )


@pytest.mark.parametrize("verb", ["countTokens", "embedContent"])
async def test_an_answer_in_numbers_passes_unjudged(verb: str) -> None:
    seen: list[Any] = []
    hooks = {event: [listens(seen)] for event in WATCHED}
    body = HI if verb == "countTokens" else {"content": HI["contents"][0]}
    async with running_gateway(hooks) as gateway:
        through = await post(gateway.url, f"/v1/models/m:{verb}", body)
        direct = await post(gateway.upstream_url, f"/v1/models/m:{verb}", body)
    assert (through.status, through.body) == (200, direct.body)
    assert [event["hook_event_name"] for event in seen] == ["BeforeModel"]


async def test_models_are_listed_as_the_upstream_lists_them() -> None:
    async with running_gateway(WATCHED) as gateway:
        through = await ask(gateway.url, "GET", "/s/abc/v1beta/models?pageSize=2")
        direct = await ask(gateway.upstream_url, "GET", "/v1beta/models?pageSize=2")
    assert (through.status, through.body) == (200, direct.body)
    assert len(through.json["models"]) == 2


async def test_an_unjudged_answer_stays_compressed() -> None:
    packed = gzip.compress(b'{"models": []}')
    async with (
        peer(ok(packed, **{"Content-Encoding": "gzip"})) as upstream,
        gateway_before(upstream.url) as url,
    ):
        answer = await ask(url, "GET", "/v1/models", {**KEY, "Accept-Encoding": "gzip"})
    assert (answer.body, answer.headers["content-encoding"]) == (packed, "gzip")
    assert b"accept-encoding: gzip\r\n" in upstream.heard[0].lower()


# ---- edited


@EVERY_WAY
async def test_a_redaction_changes_texts_and_nothing_else(target: str) -> None:
    answer = {"chunks": [[THOUGHT], "the secret ", [{"text": "is out"}, CALL]]}
    async with running_gateway(HIDING, {"rules": [{"answer": answer}]}) as gateway:
        edited = await post(gateway.url, target, HI)
        original = await post(gateway.upstream_url, target, HI)
    expected = json.loads(json.dumps(bodies(original, target)).replace("a secret", "a ******"))
    expected = json.loads(json.dumps(expected).replace("the secret", "the ******"))
    assert bodies(edited, target) == expected
    assert CALL in parts(edited, target)
    assert {**THOUGHT, "text": "a ****** thought"} in parts(edited, target)


@STREAMS
async def test_events_without_the_secret_keep_their_bytes(target: str) -> None:
    script = {"rules": [{"answer": {"chunks": ["one ", "secret ", "three"]}}]}
    async with running_gateway(HIDING, script) as gateway:
        edited = await post(gateway.url, target, HI)
        original = await post(gateway.upstream_url, target, HI)
    between = b"\r\n\r\n" if target == SSE else b"\r\n,\r\n"
    first, _, third = original.body.split(between, 2)
    assert [p["text"] for p in parts(edited, target)] == ["one ", "****** ", "three"]
    assert edited.body.startswith(first)
    assert edited.body.endswith(between + third)


# ---- what the upstream may do


@EVERY_WAY
async def test_a_compressed_answer_is_judged_although_none_was_asked_for(target: str) -> None:
    event = b'{"candidates":[{"content":{"parts":[{"text":"a secret"}]}}]}'
    framed = {UNARY: event, SSE: b"data: " + event + b"\n\n", STREAM: b"[" + event + b"]"}[target]
    packed = ok(gzip.compress(framed), **{"Content-Encoding": "gzip"})
    async with peer(packed) as upstream, gateway_before(upstream.url, HIDING) as url:
        answer = await post(url, target, HI, {"Accept-Encoding": "gzip, deflate, br"})
    assert b"\r\naccept-encoding: identity\r\n" in upstream.heard[0].lower()
    assert "content-encoding" not in answer.headers
    assert parts(answer, target) == [{"text": "a ******"}]


@EVERY_WAY
@pytest.mark.parametrize("status", [400, 429, 500, 503])
async def test_an_upstream_error_passes_unchanged_without_hooks(target: str, status: int) -> None:
    seen: list[Any] = []
    body = b'{ "error": {"code": %d, "message": "try later", "details": []} }' % status
    error = response(status, body, {"Content-Type": "application/json", "Retry-After": "7"})
    async with peer(error) as upstream, gateway_before(upstream.url, {"AfterModel": [listens(seen)]}) as url:
        answer = await post(url, target, HI)
        receipt = await ask(url, "GET", f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}")
    assert (answer.status, answer.body, answer.headers["retry-after"]) == (status, body, "7")
    assert (receipt.json["outcome"], seen) == ("failed", [])


async def test_an_error_that_is_not_json_passes_unchanged() -> None:
    error = response(503, b"<html>down</html>", {"Content-Type": "text/html"})
    async with peer(error) as upstream, gateway_before(upstream.url, WATCHED) as url:
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.body) == (503, b"<html>down</html>")
    assert answer.headers["content-type"] == "text/html"


@EVERY_WAY
async def test_an_error_within_an_answer_passes_on(target: str) -> None:
    seen: list[Any] = []
    error = b'{"error": {"code": 503, "message": "overloaded"}}'
    event = b'{"candidates": [{"content": {"parts": [{"text": "so far"}]}}]}'
    sse = b"data: " + event + b"\r\n\r\ndata: " + error + b"\r\n\r\n"
    body = {UNARY: error, SSE: sse, STREAM: b"[" + event + b",\r\n" + error + b"]"}[target]
    async with (
        peer(ok(body)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [listens(seen)]}) as url,
    ):
        answer = await post(url, target, HI)
    assert (answer.status, answer.body) == (200, body)
    assert len(seen) == (0 if target == UNARY else 1)


ERROR = {"code": 503, "message": "over", "status": "UNAVAILABLE"}
WRAPPED = "/v1internal:"


@pytest.mark.parametrize("stream", ["event", "window", "complete"])
@pytest.mark.parametrize("target", [UNARY, SSE, STREAM, f"{WRAPPED}generateContent"])
async def test_an_error_does_not_smuggle_an_answer_past_the_hooks(target: str, stream: str) -> None:
    said = {"candidates": [{"content": {"parts": [{"text": "a secret"}]}}]}
    event = {"error": ERROR, "response": said} if target.startswith(WRAPPED) else {"error": ERROR, **said}
    body = json.dumps([event] if target == STREAM else event).encode()
    if target == SSE:
        body = b"data: " + body + b"\r\n\r\n"
    request = {"model": "gemini-2.5-flash", "request": HI} if target.startswith(WRAPPED) else HI
    hooks = {"AfterModel": [runs(hide, stream=stream)]}
    async with peer(ok(body)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, target, request)
    # Clients differ in which of both they show.
    assert (answer.status, b"secret" in answer.body) == (502, False)


@EVERY_WAY
async def test_an_error_beside_other_fields_is_shown_to_hooks_like_any_other_event(target: str) -> None:
    seen: list[Any] = []
    event = {
        "error": ERROR,
        "promptFeedback": {"blockReason": "OTHER"},
        "usageMetadata": {"totalTokenCount": 1},
    }
    body = json.dumps([event] if target == STREAM else event).encode()
    if target == SSE:
        body = b"data: " + body + b"\r\n\r\n"
    async with (
        peer(ok(body)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [listens(seen)]}) as url,
    ):
        answer = await post(url, target, HI)
    assert (answer.status, answer.body, len(seen)) == (200, body, 1)


@pytest.mark.parametrize("body", [b"", b"no JSON", b'{"candidates": [{"content": 1}]}'])
async def test_an_answer_that_no_hook_reads_passes_whatever_it_is(body: bytes) -> None:
    async with (
        peer(ok(body)) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [says()]}) as url,
    ):
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.body) == (200, body)


async def test_an_empty_answer_is_shown_to_no_hook() -> None:
    seen: list[dict[str, Any]] = []
    async with (
        peer(ok(b"")) as upstream,
        gateway_before(upstream.url, {"AfterModel": [listens(seen)]}) as url,
    ):
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.body, seen) == (200, b"", [])


async def test_a_stream_without_any_event_ends_as_an_empty_one() -> None:
    async with peer(ok(b"", "text/event-stream")) as upstream, gateway_before(upstream.url, WATCHED) as url:
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.body, answer.complete) == (200, b"", True)


# ---- answers in JSON: Gemini CLI asks for some, and asks again and again if it cannot read one

ASKS_JSON = {**HI, "generationConfig": {"responseMimeType": "application/json"}}
CHOICE = '{"model_choice": "flash"}'


def puts_before(text: str) -> dict[str, Any]:
    """An AfterModel hook that puts a text before the answer."""

    def edit(event: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"llm_response": {"text": text + event["llm_response"]["text"]}}}

    return runs(edit)


async def post_text(body: dict[str, Any], hooks: dict[str, Any], text: str, target: str = UNARY) -> Answer:
    script = {"rules": [{"answer": {"chunks": [[{"text": "so", "thought": True}, {"text": text}]]}}]}
    async with running_gateway(hooks, script) as gateway:
        return await post(gateway.url, target, body, KEY)


async def test_an_edit_that_leaves_no_json_is_refused_where_json_is_required() -> None:
    answer = await post_text(ASKS_JSON, {"AfterModel": [puts_before("Note: ")]}, CHOICE)
    assert answer.status == 403
    assert answer.error["message"] == EDIT_NOT_JSON
    assert CHOICE not in answer.body.decode()


@pytest.mark.parametrize(
    ("body", "before", "text"),
    [
        pytest.param(ASKS_JSON, " ", CHOICE, id="still JSON"),
        pytest.param(ASKS_JSON, "Note: ", "no JSON", id="no JSON before"),
        pytest.param(HI, "Note: ", CHOICE, id="JSON is not required"),
    ],
)
async def test_other_edits_of_answers_apply(body: dict[str, Any], before: str, text: str) -> None:
    answer = await post_text(body, {"AfterModel": [puts_before(before)]}, text)
    assert answer.status == 200
    assert answer.json["candidates"][0]["content"]["parts"][-1]["text"] == before + text


@pytest.mark.parametrize("requires", [True, False])
async def test_a_hook_may_ask_for_calls_that_require_json_or_not(requires: bool) -> None:
    shown: list[dict[str, Any]] = []
    hook = listens(shown) | {"when": {"json": requires}}
    async with running_gateway({"BeforeModel": [hook], "AfterModel": [hook]}) as gateway:
        await post(gateway.url, UNARY, ASKS_JSON if requires else HI, KEY)
        assert [event["hook_event_name"] for event in shown] == ["BeforeModel", "AfterModel"]
        await post(gateway.url, UNARY, HI if requires else ASKS_JSON, KEY)
    assert len(shown) == 2


# ---- of a hook


async def test_a_hooks_answer_has_the_usage_that_clients_require_unless_it_is_a_whole_body() -> None:
    spoken = says(llm_response={"text": "canned"})
    used = {"promptTokenCount": 0, "candidatesTokenCount": 0, "totalTokenCount": 0}
    async with running_gateway({"BeforeModel": [spoken]}) as gateway:
        assert (await post(gateway.url, UNARY, HI)).json["usageMetadata"] == used
    whole = {"candidates": [{"content": {"role": "model", "parts": [{"text": "canned"}]}}]}
    async with running_gateway({"BeforeModel": [says(llm_response={"raw": whole})]}) as gateway:
        assert (await post(gateway.url, UNARY, HI)).json == whole


@pytest.mark.parametrize("said", [{"decision": "allow"}, {"continue": False, "stopReason": "canned"}])
@pytest.mark.parametrize("event", ["BeforeModel", "AfterModel"])
async def test_a_hooks_answer_names_the_model_that_was_requested(event: str, said: dict[str, Any]) -> None:
    hook = says(said, llm_response={"text": "canned"})
    async with running_gateway({event: [hook | {"stream": "complete"}]}) as gateway:
        whole = await post(gateway.url, UNARY, HI)
        streamed = await post(gateway.url, SSE, HI)
    assert whole.json["candidates"][0]["content"]["parts"] == [{"text": "canned"}]
    assert whole.json["modelVersion"] == "gemini-2.5-flash"
    assert {chunk["modelVersion"] for chunk in streamed.events} == {"gemini-2.5-flash"}


async def test_a_stopped_answer_has_the_usage_of_the_models() -> None:
    stop = says({"continue": False, "stopReason": "Enough."})
    async with running_gateway({"AfterModel": [stop]}) as gateway:
        stopped = (await post(gateway.url, UNARY, HI)).json
        direct = (await post(gateway.upstream_url, UNARY, HI)).json
    assert stopped["candidates"][0]["content"]["parts"] == [{"text": "Enough."}]
    assert stopped["usageMetadata"]["promptTokenCount"] == direct["usageMetadata"]["promptTokenCount"]
