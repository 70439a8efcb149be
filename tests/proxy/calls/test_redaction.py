"""The policy `redact` at a whole gateway: what crosses the wire, and what does not."""

import json
import re
from itertools import pairwise
from pathlib import Path
from random import Random
from typing import Any

import pytest
from aiohttp import web
from support.gateway.loopback import gateway_before, listens, running_gateway, runs
from support.hooks.builtins import SENSITIVE
from support.hooks.policies import answer_itself
from support.texts.secrets import PLANTED, planted, redacted
from support.texts.secrets import cut as chunked
from support.wire import (
    KEY,
    SSE,
    STREAM,
    STREAM_HEAD,
    UNARY,
    Answer,
    ask,
    ok,
    peer,
    post,
    prompt,
    spoken,
    sse,
)

from hookgate.hooks.policies.redact import DETECTORS, shared_scanner
from hookgate.proxy.app import serve_on
from hookgate.proxy.config import Config, ToolCallSettings, TranscriptSettings

Json = dict[str, Any]
MAIL = "anna.berg@example.org"
SECRET = "AKIA" + "Q3EGRYH7XJ4WPL2D"
TOKEN = re.compile(r"HG_[A-Z0-9_]+_[0-9a-f]{16}")
SAID = f"Mail {MAIL} about {SECRET}, please."
MASKED = "Mail [EMAIL] about [AWS_ACCESS_KEY], please."


def policy(**options: Any) -> Json:
    return {"type": "builtin", "name": "no-secrets", "builtin": "redact", "options": SENSITIVE | options}


def both(**options: Any) -> Json:
    return {"BeforeModel": [policy(**options)], "AfterModel": [policy(**options)]}


def answer_text(answer: Answer) -> str:
    parts = [part for each in answer.events for one in each["candidates"] for part in one["content"]["parts"]]
    return "".join(part.get("text", "") for part in parts)


def cut(text: str, *at: int) -> list[Json]:
    edges = [0, *at, len(text)]
    events = [spoken(text[a:b]) for a, b in pairwise(edges)]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    return events


def files(folder: Path) -> list[Path]:
    return list(folder.rglob("*.jsonl"))


async def streamed(events: list[Json], hooks: Json, target: str = SSE) -> Answer:
    async with peer(STREAM_HEAD, *sse(*events)) as upstream, gateway_before(upstream.url, hooks) as url:
        return await post(url, target, prompt("hi"), KEY)


async def test_a_receipt_tells_how_much_of_a_stream_was_searched_and_what_was_found() -> None:
    events = sse(*cut(SAID, 9, 30))
    async with (
        peer(STREAM_HEAD, *events) as upstream,
        gateway_before(upstream.url, {"AfterModel": [policy()]}) as url,
    ):
        answer = await post(url, SSE, prompt("hi"), KEY)
        receipt = await ask(url, "GET", f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}")
    assert answer_text(answer) == MASKED
    [hook] = receipt.json["hooks"]
    assert (hook["runs"], hook["bytes"]) == (1, sum(map(len, events)))
    assert receipt.json["redacted"] == ["no-secrets"]


async def test_nothing_of_a_secret_goes_to_the_model_and_nothing_comes_back() -> None:
    async with running_gateway(both(), {"rules": [{"answer": {"text": SAID}}]}) as gateway:
        whole = await post(gateway.url, UNARY, prompt(SAID), KEY)
        stream = await post(gateway.url, SSE, prompt(SAID), KEY)
    for request in gateway.generated:
        assert request.body["contents"][0]["parts"] == [{"text": MASKED}]
    assert whole.json["candidates"][0]["content"]["parts"] == [{"text": MASKED}]
    assert answer_text(stream) == MASKED


@pytest.mark.parametrize("at", range(1, len(SAID)))
async def test_no_byte_of_a_secret_is_on_the_wire_at_any_split(at: int) -> None:
    answer = await streamed(cut(SAID, at), both())
    assert answer_text(answer) == MASKED
    for secret in (MAIL, SECRET):
        assert not any(secret[:size].encode() in answer.body for size in range(6, len(secret) + 1))


BEFORE, REST = SECRET[:12], SECRET[12:]
ASSISTANT = [{"role": "user", "content": "hi"}, {"role": "assistant", "content": f"It is {BEFORE}"}]
TURNS = [
    {"role": "user", "parts": [{"text": "hi"}]},
    {"role": "model", "parts": [{"text": f"It is {BEFORE}"}]},
]
OPENAI = {"model": "gemini-2.5-flash"}
BEGUN: dict[str, tuple[str, Json]] = {
    "whole": (UNARY, {"contents": TURNS}),
    "streamed": (SSE, {"contents": TURNS}),
    "in two turns": (
        SSE,
        {"contents": [*TURNS[:1], *({**TURNS[1], "parts": [{"text": s}]} for s in BEFORE)]},
    ),
    "chat": ("/v1beta/openai/chat/completions", OPENAI | {"messages": ASSISTANT}),
    "chat streamed": ("/v1beta/openai/chat/completions", OPENAI | {"messages": ASSISTANT, "stream": True}),
    "responses": ("/v1beta/openai/responses", OPENAI | {"input": ASSISTANT, "store": False}),
    "responses streamed": (
        "/v1beta/openai/responses",
        OPENAI | {"input": ASSISTANT, "store": False, "stream": True},
    ),
}
"""Requests that begin the model's answer, by the API."""


@pytest.mark.parametrize("request_", BEGUN)
async def test_an_answer_does_not_end_a_secret_that_its_request_begins(request_: str) -> None:
    target, body = BEGUN[request_]
    script = {"rules": [{"answer": {"text": f"{REST} for you."}}]}
    async with running_gateway(both(), script) as gateway:
        answer = await post(gateway.url, target, body, KEY)
    assert answer.status == 200
    assert not any(REST[at : at + 4].encode() in answer.body for at in range(len(REST) - 3))


async def test_a_stream_without_anything_to_hide_keeps_its_bytes() -> None:
    events = [spoken("All is well. "), spoken("Good. ", finishReason="STOP")]
    answer = await streamed(events, both())
    assert b"".join(sse(*events)) in answer.body


async def test_what_blocks_is_a_403_for_a_request_and_ends_a_stream_with_its_reason() -> None:
    hooks = both(actions={"AWS_ACCESS_KEY": "block"}, reason="keys stay here")
    async with running_gateway(hooks) as gateway:
        denied = await post(gateway.url, UNARY, prompt(SAID), KEY)
        assert gateway.generated == []
    assert (denied.status, denied.error["message"]) == (403, "keys stay here")
    head, *rest = sse(spoken("So, "), spoken(f"{SECRET} "), spoken("more"))
    async with (
        peer(STREAM_HEAD, head, 0.1, *rest) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        answer = await post(url, SSE, prompt("hi"), KEY)
    assert answer_text(answer).replace(" ", "") == "So,keysstayhere"
    assert answer.events[-1]["candidates"][0]["finishReason"] == "STOP"
    assert b"AKIA" not in answer.body


async def test_pseudonyms_go_upstream_and_the_originals_come_back() -> None:
    heard: list[str] = []

    async def repeating(request: web.BaseRequest) -> web.StreamResponse:
        """A model that repeats what it was told, a few characters an event, and then in a call."""
        heard.append(text := (await request.json())["contents"][0]["parts"][0]["text"])
        call = {"functionCall": {"name": "send", "args": {"body": [text]}}}
        calling = {"candidates": [{"content": {"parts": [call]}, "index": 0, "finishReason": "STOP"}]}
        events = [*map(spoken, re.findall("(?s).{1,5}", text)), calling]
        return web.Response(body=b"".join(sse(*events)), headers={"Content-Type": "text/event-stream"})

    async with (
        serve_on(repeating, "127.0.0.1", 0) as upstream,
        gateway_before(upstream, both(action="pseudonymise")) as url,
    ):
        answer = await post(url, SSE, prompt(SAID), KEY)
    assert len(TOKEN.findall(heard[0])) == 2
    assert MAIL not in heard[0]
    assert SECRET not in heard[0]
    assert answer_text(answer) == SAID
    parts = answer.events[-1]["candidates"][0]["content"]["parts"]
    assert parts[-1]["functionCall"]["args"] == {"body": [SAID]}


async def test_a_hooks_own_answer_comes_back_with_the_originals() -> None:
    def quote(event: Json) -> Json:
        text = event["llm_request"]["messages"][-1]["content"]
        return {"hookSpecificOutput": {"llm_response": {"text": f"You said: {text}"}}}

    hooks = {"BeforeModel": [policy(action="pseudonymise"), runs(quote)]}
    async with running_gateway(hooks) as gateway:
        whole = await post(gateway.url, UNARY, prompt(SAID), KEY)
        stream = await post(gateway.url, SSE, prompt(SAID), KEY)
    assert whole.json["candidates"][0]["content"]["parts"] == [{"text": f"You said: {SAID}"}]
    assert answer_text(stream) == f"You said: {SAID}"


async def test_other_hooks_and_transcripts_see_what_the_model_sees(tmp_path: Path) -> None:
    seen: list[Json] = []
    hooks = {"BeforeModel": [policy()], "AfterModel": [policy(), listens(seen)]}
    config = Config(transcripts=TranscriptSettings(enabled=True, folder=tmp_path))
    async with running_gateway(hooks, {"rules": [{"answer": {"text": SAID}}]}, config) as gateway:
        await post(gateway.url, SSE, prompt(SAID), KEY)
    kept = "".join(map(Path.read_text, files(tmp_path)))
    assert MASKED in kept
    assert SECRET not in kept + json.dumps(seen)
    assert MAIL not in kept + json.dumps(seen)


async def test_a_refused_call_is_reported_to_the_model_in_its_own_words() -> None:
    async def no_sending(event: Json) -> Json:
        return {"decision": "deny", "reason": "not now"}

    call = {"functionCall": {"name": "send", "args": {"to": SECRET}}}
    script = {
        "rules": [
            {"when": {"tool_response": "send"}, "answer": {"text": "Then not."}},
            {"answer": {"parts": [call]}},
        ]
    }
    hooks = {**both(action="pseudonymise"), "BeforeTool": [runs(no_sending)]}
    async with running_gateway(hooks, script, Config(tools=ToolCallSettings(refused="ask_again"))) as gateway:
        answer = await post(gateway.url, UNARY, prompt("send it"), KEY)
        asked = gateway.generated
    assert answer.json["candidates"][0]["content"]["parts"] == [{"text": "Then not."}]
    assert SECRET not in json.dumps(asked[-1].body)
    assert TOKEN.search(json.dumps(asked[-1].body))


@pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["whole", "events", "array"])
async def test_what_was_observed_is_decided_the_same_when_enforced(target: str) -> None:
    reported = []
    for mode in ("observe", "enforce"):
        hooks = {event: [{**hook[0], "mode": mode}] for event, hook in both().items()}
        async with running_gateway(hooks, {"rules": [{"answer": {"text": SAID}}]}) as gateway:
            answer = await post(gateway.url, target, prompt(SAID), KEY)
            path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
            receipt = (await ask(gateway.url, "GET", path, headers=KEY)).json
            assert (SECRET in answer.body.decode()) is (mode == "observe")
        reported.append(
            [(each["event"], each["decisions"], each["findings"], each["edits"]) for each in receipt["hooks"]]
        )
    assert reported[0] == reported[1]
    assert [findings for _, _, findings, _ in reported[0]] == [{"EMAIL": 1, "AWS_ACCESS_KEY": 1}] * 2


@pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["whole", "events", "array"])
async def test_the_receipt_tells_what_was_found_where(target: str) -> None:
    asked = {"contents": [{"role": "user", "parts": [{"text": "hi"}, {"text": SAID}]}]}
    for mode in ("observe", "enforce"):
        hooks = {event: [{**hook[0], "mode": mode}] for event, hook in both().items()}
        async with running_gateway(hooks, {"rules": [{"answer": {"text": SAID}}]}) as gateway:
            answer = await post(gateway.url, target, asked, KEY)
            path = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
            receipt = (await ask(gateway.url, "GET", path, headers=KEY)).json
        told = {hook["event"]: (hook["mode"], hook["found"]) for hook in receipt["hooks"]}
        places = {
            "BeforeModel": "contents[0].parts[1].text",
            "AfterModel": "candidates[0].content.parts[0].text",
        }
        for event, place in places.items():
            assert told[event][0] == mode
            assert [(each["kind"], each["source"], each["place"]) for each in told[event][1]] == [
                ("EMAIL", "built-in", place),
                ("AWS_ACCESS_KEY", "built-in", place),
            ]
        assert MAIL not in json.dumps(receipt)


async def test_text_held_back_from_an_answer_that_breaks_off_is_released() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"
    events = sse(spoken("I am writing to ann"))
    async with peer(head, *events) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, SSE, prompt("hi"), KEY)
    assert answer_text(answer) == "I am writing to ann"


async def test_a_secret_that_breaks_off_in_the_middle_is_masked() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nContent-Length: 9999\r\n\r\n"
    events = sse(spoken("The key is AKIAQV6M"), spoken("AVZO"))
    async with peer(head, *events) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, SSE, prompt("hi"), KEY)
    assert answer_text(answer) == "The key is [AWS_ACCESS_KEY]"


async def test_a_secret_that_an_error_interrupts_is_masked() -> None:
    error = {"error": {"code": 500, "message": "gone", "status": "INTERNAL"}}
    answer = await streamed([spoken("The card is 4111 1111 11"), error], both())
    *before, last = answer.events
    assert last == error
    texts = [part["text"] for each in before for part in each["candidates"][0]["content"]["parts"]]
    assert "".join(texts) == "The card is [CARD]"


async def test_batches_are_redacted_both_ways() -> None:
    batch = {"batch": {"inputConfig": {"requests": {"requests": [{"request": prompt(SAID)}]}}}}
    done = {"response": {"inlinedResponses": {"inlinedResponses": [{"response": spoken(SAID)}]}}}
    target = "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
    async with peer(ok(json.dumps(done).encode())) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, target, batch, KEY)
        [heard] = upstream.heard
    assert SECRET.encode() not in heard
    assert SECRET not in answer.body.decode()
    assert MASKED in answer.body.decode()


async def test_a_canned_answer_without_pseudonyms_stays() -> None:
    hooks = {"BeforeModel": [policy(action="pseudonymise"), runs(answer_itself)]}
    async with running_gateway(hooks) as gateway:
        answer = await post(gateway.url, UNARY, prompt("hi"), KEY)
    assert answer.json["candidates"][0]["finishReason"] == "STOP"


async def test_no_planted_secret_of_any_kind_leaves_however_the_answer_is_split() -> None:
    """Two of each: tests/hooks/policies/redact/test_held.py cuts many more, without a gateway."""
    scanner = shared_scanner(DETECTORS)
    texts = [planted(seed, label) for label in sorted(PLANTED) for seed in range(2)]
    asked = iter(texts)

    async def saying(_: web.BaseRequest) -> web.StreamResponse:
        text, secret = next(asked)
        chunks = chunked(Random(secret), text)  # noqa: S311  # it cuts texts
        stream = b"".join(sse(*map(spoken, chunks), spoken("", finishReason="STOP")))
        return web.Response(body=stream, headers={"Content-Type": "text/event-stream"})

    async with (
        serve_on(saying, "127.0.0.1", 0) as upstream,
        gateway_before(upstream, both(detect=["*"])) as url,
    ):
        for text, secret in texts:
            answer = await post(url, SSE, prompt("hi"), KEY)
            assert answer_text(answer) == redacted(scanner, text)
            assert json.dumps(secret)[1:-1].encode() not in answer.body
            assert secret not in answer_text(answer)


async def test_what_blocks_in_a_call_ends_a_stream_with_its_reason() -> None:
    call = {"functionCall": {"name": "send", "args": {"key": SECRET}}}
    calling = {"candidates": [{"content": {"role": "model", "parts": [call]}, "index": 0}]}
    hooks = {"AfterModel": [policy(actions={"AWS_ACCESS_KEY": "block"}, reason="keys stay here")]}
    answer = await streamed([calling], hooks)
    assert (answer.status, answer.error["message"]) == (403, "keys stay here")


async def test_what_blocks_before_anything_was_released_is_an_error() -> None:
    """The first event is held back as a whole; the next one shows that it begins a secret."""
    hooks = {"AfterModel": [policy(actions={"AWS_ACCESS_KEY": "block"}, reason="keys stay here")]}
    first, second = sse(spoken(SECRET[:9]), spoken(f"{SECRET[9:]} ok. "))
    async with (
        peer(STREAM_HEAD, first, 0.1, second) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        answer = await post(url, SSE, prompt("hi"))
    assert (answer.status, answer.error["message"]) == (403, "keys stay here")


@pytest.mark.parametrize("beside", [{}, {"usageMetadata": {"totalTokenCount": 1}}])
async def test_what_may_begin_a_secret_is_masked_where_an_error_ends_the_stream(
    beside: dict[str, Any],
) -> None:
    error = {"code": 500, "message": "gone", "status": "INTERNAL"}
    answer = await streamed([spoken(f"The key is {SECRET[:12]}"), {"error": error, **beside}], both())
    assert SECRET[:12].encode() not in answer.body
    assert answer.events[-1]["error"] == error


async def test_what_follows_an_error_does_not_show_what_may_begin_a_secret() -> None:
    usage = {"usageMetadata": {"totalTokenCount": 1}}
    error = {"error": {"code": 500, "message": "gone", "status": "INTERNAL"}, **usage}
    answer = await streamed([spoken(f"The key is {SECRET[:12]}"), error, usage], both())
    assert SECRET[:12].encode() not in answer.body
    assert [event for event in answer.events if "error" in event] == [error]


BLOCKED_ERROR = {"error": {"code": 500, "message": f"{SECRET} is not valid", "status": "INTERNAL"}}
BLOCKING = {"AfterModel": [policy(actions={"AWS_ACCESS_KEY": "block"}, reason="keys stay here")]}


async def test_after_a_blocked_error_no_text_held_back_is_sent() -> None:
    """The end of the first event is held, and the event that ends the stream is refused."""
    first, second = sse(spoken("All is well. I am writing to ann"), BLOCKED_ERROR)
    async with (
        peer(STREAM_HEAD, first, 0.1, second) as upstream,
        gateway_before(upstream.url, BLOCKING) as url,
    ):
        answer = await post(url, SSE, prompt("hi"))
    shown = (
        answer.error["message"] if answer.status == 403 else answer_text(answer)
    )  # if both arrived together
    assert shown in ("All is well. I am writing to keys stay here", "keys stay here")
    assert SECRET.encode() not in answer.body


async def test_a_blocked_error_also_removes_the_text_before_it() -> None:
    """Both arrive together: nothing was sent yet, so the client receives an error status."""
    events = b"".join(sse(spoken("All is well. I am writing to ann"), BLOCKED_ERROR))
    async with peer(STREAM_HEAD + events) as upstream, gateway_before(upstream.url, BLOCKING) as url:
        answer = await post(url, SSE, prompt("hi"))
    assert (answer.status, answer.error["message"]) == (403, "keys stay here")


async def test_an_error_in_a_stream_does_not_overtake_text_held_back() -> None:
    error = {"error": {"code": 500, "message": "gone", "status": "INTERNAL"}}
    answer = await streamed([spoken("I am writing to ann"), error], both())
    *before, last = answer.events
    assert last == error
    assert "".join(part["text"] for each in before for part in each["candidates"][0]["content"]["parts"]) == (
        "I am writing to ann"
    )


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "events"])
async def test_odd_pieces_of_arguments_are_refused_where_pseudonyms_are_put_back(target: str) -> None:
    call = {"functionCall": {"name": "f", "partialArgs": ["x"]}}
    calling = {"candidates": [{"content": {"role": "model", "parts": [call]}, "index": 0}]}
    says = [ok(json.dumps(calling).encode())] if target == UNARY else [STREAM_HEAD, *sse(calling)]
    hooks = {"BeforeModel": [policy(action="pseudonymise")]}
    async with peer(*says) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, target, prompt("hi"), KEY)
    assert (answer.status, b"partialArgs[0]: it must be an object" in answer.body) == (502, True)


async def test_an_array_is_closed_after_text_held_back() -> None:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    array = json.dumps([spoken("I am writing to "), spoken("ann")]).encode()
    async with peer(head, array) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, STREAM, prompt("hi"), KEY)
    texts = [each["candidates"][0]["content"]["parts"][0]["text"] for each in answer.json]
    assert "".join(texts) == "I am writing to ann"


async def test_an_observed_policy_with_pseudonyms_changes_nothing() -> None:
    said = spoken(f"Mail {MAIL}. ", finishReason="STOP", logprobsResult={"topCandidates": []})
    hooks = {
        event: [{**hook, "mode": "observe"} for hook in listed]
        for event, listed in both(action="pseudonymise").items()
    }
    answer = await streamed([said], hooks)
    assert answer.events == [said]


async def test_comments_names_and_ids_of_events_do_not_pass() -> None:
    """Clients read them, and no policy does."""
    event = json.dumps(spoken("All is well. ", finishReason="STOP")).encode()
    aside = SECRET.encode()
    stream = b": %b\r\n\r\nid: %b\nevent: %b\ndata: %b\nretry: 3\n: %b\n\n" % (
        aside,
        aside,
        aside,
        event,
        aside,
    )
    async with peer(STREAM_HEAD, stream) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, SSE, prompt("hi"), KEY)
    assert answer.body == b"data: %b\r\n\r\n" % event


FAILED = {"error": {"code": 400, "message": f"cannot send to {MAIL}", "status": "INVALID_ARGUMENT"}}


@pytest.mark.parametrize("target", [UNARY, SSE])
@pytest.mark.parametrize(
    ("body", "expected"),
    [
        (
            json.dumps(FAILED).encode(),
            json.dumps(FAILED).replace(MAIL, "[EMAIL]").replace(": ", ":").replace(", ", ","),
        ),
        (f"<p>no {MAIL}</p>".encode(), "<p>no [EMAIL]</p>"),
    ],
    ids=["json", "page"],
)
async def test_an_error_of_the_upstream_is_redacted(target: str, body: bytes, expected: str) -> None:
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    async with peer(head, body) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, target, prompt("hi"), KEY)
    assert (answer.status, answer.body.decode()) == (400, expected)


@pytest.mark.parametrize("target", [UNARY, SSE])
async def test_an_error_of_the_upstream_that_is_blocked_is_replaced_with_the_reason(target: str) -> None:
    head = b"HTTP/1.1 400 Bad Request\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    hooks = {"AfterModel": [policy(actions={"EMAIL": "block"})]}
    async with peer(head, f"no {MAIL}".encode()) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, target, prompt("hi"), KEY)
    assert answer.status == 403
    assert MAIL not in answer.body.decode()
    assert "EMAIL" in answer.error["message"]


@pytest.mark.parametrize("target", [UNARY, SSE])
async def test_an_error_in_the_place_of_an_answer_is_redacted(target: str) -> None:
    says = [ok(json.dumps(FAILED).encode())] if target == UNARY else [STREAM_HEAD, *sse(FAILED)]
    async with peer(*says) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, target, prompt("hi"), KEY)
    assert MAIL not in answer.body.decode()
    assert "cannot send to [EMAIL]" in answer.body.decode()


async def test_an_error_without_anything_to_hide_keeps_its_bytes() -> None:
    body = b'{ "error" : {"code": 503, "message": "later"} }'
    head = b"HTTP/1.1 503 Service Unavailable\r\nContent-Type: application/json\r\nConnection: close\r\n\r\n"
    async with peer(head, body) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, UNARY, prompt("hi"), KEY)
    assert (answer.status, answer.body) == (503, body)


async def test_an_error_that_quotes_a_pseudonym_gives_the_original_back() -> None:
    async def refusing(request: web.BaseRequest) -> web.StreamResponse:
        text = (await request.json())["contents"][0]["parts"][0]["text"]
        return web.json_response({"error": {"code": 400, "message": f"not this: {text}"}}, status=400)

    async with (
        serve_on(refusing, "127.0.0.1", 0) as upstream,
        gateway_before(upstream, both(action="pseudonymise")) as url,
    ):
        answer = await post(url, UNARY, prompt(SAID), KEY)
    assert answer.json["error"]["message"] == f"not this: {SAID}"


async def test_tools_labels_and_settings_of_a_request_are_redacted() -> None:
    beside = {
        "tools": [{"functionDeclarations": [{"name": "f", "description": f"calls with {SECRET}"}]}],
        "generationConfig": {"stopSequences": [SECRET], "responseSchema": {"enum": [SECRET]}},
        "labels": {"owner": MAIL},
        "unknown": {SECRET: [SECRET]},
    }
    async with running_gateway(both()) as gateway:
        answer = await post(gateway.url, UNARY, {**prompt("hi"), **beside}, KEY)
        [asked] = gateway.generated
    assert answer.status == 200
    assert SECRET not in json.dumps(asked.body)
    assert asked.body["labels"] == {"owner": "[EMAIL]"}
    assert asked.body["generationConfig"]["stopSequences"] == ["[AWS_ACCESS_KEY]"]


async def test_the_names_and_metadata_of_a_batch_are_redacted() -> None:
    item = {"request": prompt("hi"), "metadata": {"key": SECRET}}
    batch = {"displayName": MAIL, "inputConfig": {"requests": {"requests": [item]}}}
    target = "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, target, {"batch": batch}, KEY)
        [heard] = upstream.heard
    assert answer.status == 200
    assert b"[EMAIL]" in heard
    assert MAIL.encode() not in heard
    assert SECRET.encode() not in heard


@pytest.mark.parametrize(
    ("target", "body"),
    [
        ("/v1beta/models/m:countTokens", {"generateContentRequest": {"model": "models/m", **prompt(SAID)}}),
        ("/v1beta/models/m:countTokens", prompt(SAID)),
        ("/v1beta/models/m:embedContent", {"content": prompt(SAID)["contents"][0], "title": SECRET}),
        (
            "/v1beta/models/m:batchEmbedContents",
            {"requests": [{"model": "models/m", "content": prompt(SAID)["contents"][0], "title": SECRET}]},
        ),
    ],
    ids=["count-request", "count", "embed", "embed-many"],
)
async def test_what_is_counted_and_embedded_is_redacted(target: str, body: Json) -> None:
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, both()) as url:
        answer = await post(url, target, body, KEY)
        [heard] = upstream.heard
    assert answer.status == 200
    assert SECRET.encode() not in heard
    assert MAIL.encode() not in heard
    assert b"[EMAIL]" in heard


@pytest.mark.parametrize("mode", ["event", "window", "complete"])
async def test_a_hook_behind_the_policy_sees_only_the_masked_stream(mode: str) -> None:
    shown: list[Json] = []
    recorder = listens(shown) | {"stream": mode}
    for hooks in ([policy(), recorder], [recorder, policy()]):  # a stream passes the policy first in any case
        answer = await streamed(cut(f"The key is {SECRET}, keep it.", 14, 20, 25), {"AfterModel": hooks})
        assert answer_text(answer) == "The key is [AWS_ACCESS_KEY], keep it."
    assert len(shown) >= 2
    assert "[AWS_ACCESS_KEY]" in json.dumps(shown)
    assert not re.search("AKIA|Q3EGR|7XJ4W", json.dumps(shown))


async def test_a_stream_passes_the_policies_of_all_groups(tmp_path: Path) -> None:
    policies = [
        {"type": "builtin", "name": word, "builtin": "redact", "options": {"words": {"WORD": [word]}}}
        for word in ("one", "two")
    ]
    settings = tmp_path / "settings.json"
    settings.write_text(json.dumps({"hooks": {"AfterModel": [{"hooks": [each]} for each in policies]}}))
    events = sse(*cut("Now one and two.", 5, 13))
    async with peer(STREAM_HEAD, *events) as upstream, gateway_before(upstream.url, settings) as url:
        answer = await post(url, SSE, prompt("hi"), KEY)
    assert answer_text(answer) == "Now [WORD] and [WORD]."


async def test_a_hook_behind_the_policy_sees_only_the_masked_call() -> None:
    shown: list[Json] = []
    hooks = {event: [policy(), listens(shown)] for event in ("BeforeModel", "AfterModel")}
    async with running_gateway(hooks, {"rules": [{"answer": {"text": SAID}}]}) as gateway:
        await post(gateway.url, UNARY, prompt(SAID), KEY)
    assert [event["hook_event_name"] for event in shown] == ["BeforeModel", "AfterModel"]
    assert all(MASKED in json.dumps(event) for event in shown)
    assert SECRET not in json.dumps(shown)


def cited(text: str) -> Json:
    """Return grounding metadata that cites the last sentence of a text."""
    shown = text.encode()
    start = shown.index(b"Spain")
    segment = {"startIndex": start, "endIndex": len(shown), "text": shown[start:].decode()}
    return {"groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}]}


CITED = f"Mail {MAIL} for Zürich. Spain won Euro 2024."


@pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["whole", "events", "array"])
async def test_citations_refer_to_the_masked_text(target: str) -> None:
    parts = [spoken(CITED[:9]), spoken(CITED[9:40]), spoken(CITED[40:])]
    end = spoken("", finishReason="STOP", groundingMetadata=cited(CITED))
    whole = spoken(CITED, finishReason="STOP", groundingMetadata=cited(CITED))
    data = {
        UNARY: ok(json.dumps(whole).encode()),
        SSE: ok(b"".join(sse(*parts, end))),
        STREAM: ok(json.dumps([*parts, end]).encode()),
    }
    async with (
        peer(data[target]) as upstream,
        gateway_before(upstream.url, {"AfterModel": [policy()]}) as url,
    ):
        answer = await post(url, target, prompt("hi"))
    bodies = answer.events if target == SSE else answer.json if target == STREAM else [answer.json]
    candidates = [body["candidates"][0] for body in bodies]
    shown = "".join(part["text"] for each in candidates for part in each["content"]["parts"])
    assert MAIL not in shown
    [support] = candidates[-1]["groundingMetadata"]["groundingSupports"]
    segment = support["segment"]
    assert segment["text"] == "Spain won Euro 2024."
    assert shown.encode()[segment["startIndex"] : segment["endIndex"]].decode() == segment["text"]


async def test_citations_of_a_long_streamed_text_refer_to_the_masked_text() -> None:
    text = "An introduction. " * 5_000 + CITED
    parts = [spoken(text[start : start + 4_096]) for start in range(0, len(text), 4_096)]
    end = spoken("", finishReason="STOP", groundingMetadata=cited(text))
    async with (
        peer(ok(b"".join(sse(*parts, end)))) as upstream,
        gateway_before(upstream.url, {"AfterModel": [policy()]}) as url,
    ):
        answer = await post(url, SSE, prompt("hi"))
    candidates = [body["candidates"][0] for body in answer.events]
    shown = "".join(part["text"] for each in candidates for part in each["content"]["parts"])
    assert MAIL not in shown
    [support] = candidates[-1]["groundingMetadata"]["groundingSupports"]
    segment = support["segment"]
    assert shown.encode()[segment["startIndex"] : segment["endIndex"]].decode() == "Spain won Euro 2024."


async def test_a_citation_of_one_part_of_a_whole_answer_refers_to_that_part() -> None:
    sentence = "Spain won Euro 2024."
    segment = {"partIndex": 1, "startIndex": 0, "endIndex": len(sentence), "text": sentence}
    body = spoken(
        f"Write to {MAIL}. ",
        finishReason="STOP",
        groundingMetadata={"groundingSupports": [{"segment": segment, "groundingChunkIndices": [0]}]},
    )
    body["candidates"][0]["content"]["parts"].append({"text": sentence})
    async with (
        peer(ok(json.dumps(body).encode())) as upstream,
        gateway_before(upstream.url, {"AfterModel": [policy()]}) as url,
    ):
        answer = await post(url, UNARY, prompt("hi"))
    [candidate] = answer.json["candidates"]
    assert MAIL not in str(candidate)
    assert candidate["groundingMetadata"]["groundingSupports"][0]["segment"] == segment


async def test_annotations_of_a_response_refer_to_the_masked_text() -> None:
    note = {"type": "url_citation", "url": "u", "start_index": CITED.index("Spain"), "end_index": len(CITED)}
    content = {"type": "output_text", "text": CITED, "annotations": [note]}
    item = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": [content]}
    body = json.dumps({"id": "r", "object": "response", "status": "completed", "output": [item]}).encode()
    request = {"model": "m", "store": False, "input": "hi"}
    async with peer(ok(body)) as upstream, gateway_before(upstream.url, {"AfterModel": [policy()]}) as url:
        answer = await post(url, "/v1beta/openai/responses", request)
    [content] = answer.json["output"][0]["content"]
    [note] = content["annotations"]
    assert content["text"][note["start_index"] : note["end_index"]] == "Spain won Euro 2024."
    assert MAIL not in content["text"]


async def test_annotations_of_a_chat_completion_refer_to_the_masked_text() -> None:
    place = {"url": "u", "start_index": CITED.index("Spain"), "end_index": len(CITED)}
    message = {"role": "assistant", "content": CITED, "annotations": [{"url_citation": place}]}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    request = {"model": "m", "messages": [{"role": "user", "content": "hi"}]}
    body = json.dumps({"choices": [choice]}).encode()
    async with peer(ok(body)) as upstream, gateway_before(upstream.url, {"AfterModel": [policy()]}) as url:
        answer = await post(url, "/v1beta/openai/chat/completions", request)
    message = answer.json["choices"][0]["message"]
    place = message["annotations"][0]["url_citation"]
    assert message["content"][place["start_index"] : place["end_index"]] == "Spain won Euro 2024."
