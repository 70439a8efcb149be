"""Code Assist: envelopes stay unchanged, and their content is judged like any call."""

import json
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, runs
from support.hooks.builtins import SENSITIVE
from support.hooks.policies import CARD, REDACTED, REFUSAL, answer_itself, no_rockets, redact
from support.wire import STREAM_HEAD, ok, peer, post, spoken, sse

UNARY, SSE = "/v1internal:generateContent", "/v1internal:streamGenerateContent?alt=sse"


def asking(text: str, **more: Any) -> dict[str, Any]:
    inner = {"contents": [{"role": "user", "parts": [{"text": text}]}], "session_id": "s-ca-1", **more}
    return {"model": "gemini-2.5-pro", "project": "p", "user_prompt_id": "u", "request": inner}


def wrapped(text: str) -> dict[str, Any]:
    return {"response": spoken(text, finishReason="STOP"), "traceId": "t-1"}


async def test_hooks_see_the_inner_request_with_its_model_and_session() -> None:
    seen: list[dict[str, Any]] = []
    answer = ok(b'{"response": {"candidates": []}, "traceId": "t"}')
    async with (
        peer(answer) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [listens(seen)]}) as url,
    ):
        through = await post(url, UNARY, asking("hello"))
    [event] = seen
    assert event["llm_request"]["model"] == "gemini-2.5-pro"
    assert event["llm_request"]["messages"] == [{"role": "user", "content": "hello"}]
    assert event["session_id"] == "s-ca-1"
    assert through.body == b'{"response": {"candidates": []}, "traceId": "t"}'


async def test_an_edit_lands_inside_and_the_envelope_stays() -> None:
    def colder(_: Any) -> dict[str, Any]:
        request = {"model": "gemini-2.5-flash", "config": {"temperature": 0}}
        return {"hookSpecificOutput": {"llm_request": request}}

    hooks = {"BeforeModel": [runs(colder)], "AfterModel": [runs(redact)]}
    body = STREAM_HEAD + b"".join(sse(wrapped(f"card {CARD}"), wrapped("bye")))
    async with peer(body) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, SSE, asking("hello"))
        sent = upstream.heard[0].partition(b"\r\n\r\n")[2]
    assert sent.startswith(b'{"model":"gemini-2.5-flash","project":"p","user_prompt_id":"u","request":{')
    assert b'"generationConfig":{"temperature":0}' in sent
    assert answer.events == [wrapped(f"card {REDACTED}"), wrapped("bye")]


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "stream"])
async def test_a_denial_is_an_error_and_a_hooks_answer_is_wrapped(target: str) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [runs(no_rockets)]}) as url:
        denied = await post(url, target, asking("a rocket"))
    assert (denied.status, denied.error["message"], upstream.heard) == (403, REFUSAL, [])
    async with (
        peer() as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(answer_itself)]}) as url,
    ):
        answer = await post(url, target, asking("hello"))
    [body] = answer.events if target == SSE else [answer.json]
    assert body.keys() == {"response"}
    assert body["response"]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize(
    ("body", "place"),
    [
        pytest.param({"project": "p"}, "model", id="no model"),
        pytest.param({"model": "m", "request": [1]}, "request", id="no request"),
        pytest.param({"model": "m", "request": {"contents": 1}}, "contents", id="no contents"),
    ],
)
async def test_an_envelope_that_cannot_be_read_is_refused(body: Any, place: str) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, UNARY, body)
    assert (answer.status, place in answer.error["message"], upstream.heard) == (400, True, [])


@pytest.mark.parametrize("path", ["models/", "publishers/google/models/"])
async def test_a_model_cannot_bypass_the_rules_with_a_longer_name(path: str) -> None:
    hook = {"type": "builtin", "builtin": "models", "options": {"deny": ["gemini-2.5-pro"]}}
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [hook]}) as url:
        answer = await post(url, UNARY, {**asking("hello"), "model": f"{path}gemini-2.5-pro"})
    assert (answer.status, upstream.heard) == (400, [])


async def test_fields_beside_the_request_are_redacted_as_well() -> None:
    mail = "anna.berg@example.org"
    hooks = {"BeforeModel": [{"type": "builtin", "builtin": "redact", "options": SENSITIVE}]}
    body = {
        **asking("hi", labels={"owner": mail}),
        "user_prompt_id": mail,
        "unknown": [{mail: mail}],
        mail: 1,
    }
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, hooks) as url:
        await post(url, UNARY, body)
        await post(url, UNARY, asking("hi"))
    first = upstream.heard[0].partition(b"\r\n\r\n")[2]
    assert mail.encode() not in first
    assert b'"project":"p"' in first
    assert b'"user_prompt_id":"[EMAIL]"' in first


GEMINI = "/v1beta/models/gemini-2.5-pro:generateContent"


def at(target: str, **session: Any) -> Any:
    """A request with a session in its body, in Code Assist's envelope if the target needs one."""
    whole = asking("hello")
    inner = {"contents": whole["request"]["contents"], **session}
    return {**whole, "request": inner} if target == UNARY else inner


async def sessions_seen(target: str, *bodies: Any) -> list[str]:
    """The sessions that hooks are shown. Each body must reach the upstream unchanged."""
    seen: list[dict[str, Any]] = []
    async with (
        peer(ok(b'{"candidates": []}')) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [listens(seen)]}) as url,
    ):
        for body in bodies:
            assert (await post(url, target, body)).status == 200
        sent = [json.loads(request.partition(b"\r\n\r\n")[2]) for request in upstream.heard]
    assert sent == [*bodies]
    return [event["session_id"] for event in seen]


@pytest.mark.parametrize("target", [UNARY, GEMINI], ids=["code assist", "gemini"])
async def test_a_session_in_the_body_names_the_session_and_is_passed_on(target: str) -> None:
    bodies = [at(target, sessionId=name) for name in ("s.1", "-610364215847624453", "7", "x" * 128)]
    expected = ["s.1", "session-610364215847624453", "7", "x" * 128]
    assert await sessions_seen(target, *bodies, at(target, session_id="s-2")) == [*expected, "s-2"]


@pytest.mark.parametrize("target", [UNARY, GEMINI], ids=["code assist", "gemini"])
async def test_a_session_in_the_body_that_cannot_be_a_name_is_ignored(target: str) -> None:
    strange: list[Any] = [
        "",
        "../etc",
        "-../etc",
        "a b",
        "x" * 129,
        f"-{'x' * 121}",
        "a\n",
        7,
        None,
        ["s"],
        {"s": 1},
    ]
    derived, *others = await sessions_seen(
        target, at(target), *[at(target, sessionId=value) for value in strange]
    )
    assert others == [derived] * len(strange)


async def test_path_and_header_name_the_session_before_the_body() -> None:
    seen: list[dict[str, Any]] = []
    async with (
        peer(ok(b'{"candidates": []}')) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [listens(seen)]}) as url,
    ):
        body = at(GEMINI, sessionId="in-the-body")
        await post(url, f"/s/in-the-path{GEMINI}", body)
        await post(url, GEMINI, body, {"x-hookgate-session": "in-a-header"})
    assert [event["session_id"] for event in seen] == ["in-the-path", "in-a-header"]
