"""Several credentials of the gateway: which are tried, in which order, and what is recorded."""

import asyncio
import json
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.gateway.audits import reading
from support.gateway.counted import Counted
from support.gateway.keys import issue, issuing_gateway, key_header
from support.gateway.loopback import says
from support.hooks.http import service
from support.upstream.google_cloud import PROJECT_ID, TOKEN, Call, GoogleCloud, google_cloud, vertex
from support.wire import HI, SSE, UNARY, Answer, ask, connected, post, prompt

from hookgate.proxy.config import CredentialSettings, UpstreamSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import AuditState, CallRecord
from hookgate.proxy.routes.table import match, with_gateway_credential
from hookgate.proxy.upstream.client import Upstreams
from hookgate.proxy.upstream.credentials import GatewayCredentials
from hookgate.proxy.upstream.fail_over import FailOver

FIRST, SECOND = "AIza-canary-first", "AIza-canary-second"
TWO_KEYS = {"first": {"api": "gemini", "key": FIRST}, "second": {"api": "gemini", "key": SECOND}}
JUDGED = {"BeforeModel": [says()], "AfterModel": [says()]}


def failing(status: int, *secrets: str, **headers: str) -> Any:
    """An API that answers calls with these secrets so, and others as usual."""

    def answer(call: Call) -> web.Response | None:
        return web.Response(status=status, headers=headers) if call.secret in secrets else None

    return answer


def behind(
    cloud: GoogleCloud, state: Path, credentials: Any = TWO_KEYS, hooks: Any = None, **more: Any
) -> Any:
    """A gateway that has only these credentials."""
    sections = {"upstream": {}, **more}
    return issuing_gateway(state, hooks, upstream_url=cloud.url, credentials=credentials, **sections)


async def at_once(step: Callable[[bytes], bytes], data: bytes) -> bytes:
    """Run a step of the gateway's work."""
    return step(data)


async def receipt_of(url: str, answer: Answer, key: str) -> Any:
    """The receipt of a call, for the caller."""
    return (
        await ask(
            url, "GET", f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}", key_header(key)
        )
    ).json


@pytest.mark.parametrize("hooks", [{}, JUDGED], ids=["no hooks", "hooks"])
@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "stream"])
@pytest.mark.parametrize("status", [429, 503])
async def test_no_client_sees_that_one_of_two_keys_has_no_quota(
    status: int, target: str, hooks: Any, tmp_path: Path
) -> None:
    async with google_cloud() as cloud, behind(cloud, tmp_path, hooks=hooks) as gateway:
        cloud.answer = failing(status, FIRST)
        key = issue(tmp_path)
        answer = await post(gateway.url, target, HI, key_header(key))
        assert (answer.status, answer.complete) == (200, True)
        assert b'"ok"' in answer.body
        assert cloud.secrets == [FIRST, SECOND]
        assert cloud.calls[0].body == cloud.calls[1].body
        receipt = await receipt_of(gateway.url, answer, key)
        found = Counted(gateway.metrics.page())
    tried = [(each["credential"], each["status"]) for each in receipt["attempts"]]
    assert tried == [("first", status), ("second", 200)]
    with reading(tmp_path) as audit:
        call = audit.calls(10)[0]
    assert call.body["attempts"] == receipt["attempts"]
    requests = "hookgate_credential_requests_total"
    assert found.total(requests, credential="first", status_class=f"{status // 100}xx") == 1
    assert found.total(requests, credential="second", status_class="2xx") == 1


async def test_a_body_that_arrives_slowly_is_sent_again_as_well(tmp_path: Path) -> None:
    body = json.dumps(prompt("x" * 200_000)).encode()
    async with google_cloud() as cloud, behind(cloud, tmp_path) as gateway:
        cloud.answer = failing(429, FIRST)
        async with connected(gateway.url) as wire:
            head = f"POST {UNARY} HTTP/1.1\r\nHost: a\r\nContent-Length: {len(body)}\r\n"
            await wire.write(f"{head}x-goog-api-key: {issue(tmp_path)}\r\n\r\n".encode() + body[:1000])
            await wire.write(body[1000:])
            assert (await wire.answer()).status == 200
        assert [json.loads(call.body) for call in cloud.calls] == [json.loads(body)] * 2


async def test_nothing_is_tried_again_once_an_answer_has_begun(tmp_path: Path) -> None:
    text = "one " * 200
    event = f'data: {{"candidates": [{{"content": {{"parts": [{{"text": "{text}"}}]}}}}]}}\r\n\r\n'.encode()
    calls = []

    async def cut_off(request: web.BaseRequest) -> web.StreamResponse:
        calls.append(request.headers["x-goog-api-key"])
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream", "Content-Length": "9999"})
        await response.prepare(request)
        await response.write(event * 2)  # of which hooks hold back the last one
        assert request.transport is not None
        request.transport.abort()
        return response

    for hooks in ({}, JUDGED):
        async with service(cut_off) as url:  # type: ignore[arg-type]  # a handler, too  # a plain server's requests
            state = tmp_path / str(len(calls))
            async with behind(GoogleCloud(url), state, hooks=hooks) as gateway:
                answer = await post(gateway.url, SSE, HI, key_header(issue(state)))
        assert not answer.complete
    assert calls == [FIRST, FIRST]


async def test_a_request_that_may_have_been_processed_is_not_sent_again(tmp_path: Path) -> None:
    heard = []

    async def hangs_up(request: web.BaseRequest) -> web.StreamResponse:
        heard.append(await request.read())
        assert request.transport is not None
        request.transport.abort()
        return web.Response()

    async with service(hangs_up) as url, behind(GoogleCloud(url), tmp_path) as gateway:  # type: ignore[arg-type]  # any answer
        answer = await post(gateway.url, UNARY, HI, key_header(issue(tmp_path)))
    assert (answer.status, len(heard)) == (502, 1)


@pytest.mark.parametrize("status", [400, 401, 403, 404, 500])
async def test_other_errors_are_answers(status: int, tmp_path: Path) -> None:
    async with google_cloud() as cloud, behind(cloud, tmp_path) as gateway:
        cloud.answer = failing(status, FIRST)
        assert (await post(gateway.url, UNARY, HI, key_header(issue(tmp_path)))).status == status
        assert cloud.secrets == [FIRST]


async def test_each_is_tried_once_and_the_last_answer_is_the_clients(tmp_path: Path) -> None:
    async with google_cloud() as cloud, behind(cloud, tmp_path) as gateway:
        cloud.answer = failing(429, FIRST, SECOND, **{"Retry-After": "7"})
        answer = await post(gateway.url, UNARY, HI, key_header(issue(tmp_path)))
        assert (answer.status, answer.headers["retry-after"]) == (429, "7")
        assert cloud.secrets == [FIRST, SECOND]


async def test_an_api_that_cannot_be_reached_is_replaced_by_vertex_ai(tmp_path: Path) -> None:
    async with google_cloud() as cloud:
        tables = {"studio": TWO_KEYS["first"], "cloud": vertex(cloud, tmp_path, locations=["europe-west4"])}
        credentials = {name: CredentialSettings.model_validate(each) for name, each in tables.items()}
        record, route = (
            CallRecord(audit_state=AuditState.NOT_AUDITED),
            with_gateway_credential(match("POST", UNARY)),
        )
        with socket.socket() as silent:  # bound, but not listening
            silent.bind(("127.0.0.1", 0))
            gemini = f"http://127.0.0.1:{silent.getsockname()[1]}"
            settings = UpstreamSettings(gemini=gemini, vertex=cloud.url)
            async with Upstreams(settings, credentials=credentials) as upstreams:
                fail_over = FailOver(upstreams, record, "POST", route, at_once, decompress=True)
                async with fail_over.final_answer({}, b"{}") as answer:
                    assert answer.status == 200
    assert [(each.credential, each.location, each.status) for each in record.attempts] == [
        ("studio", "", 0),
        ("cloud", "europe-west4", 200),
    ]


OPENAI = {
    "chat/completions": {"messages": [{"role": "user", "content": "hi"}]},
    "embeddings": {"input": "hi"},
}
PLACE = f"/v1/projects/{PROJECT_ID}/locations/europe-west4/endpoints/openapi"


@pytest.mark.parametrize("hooks", [{}, JUDGED], ids=["no hooks", "hooks"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("end", OPENAI)
@pytest.mark.parametrize("named", ["gemini-3-flash", "models/gemini-3-flash", "google/gemini-3-flash"])
async def test_the_openai_compatible_path_fails_over_to_vertex_ai(
    named: str, end: str, stream: bool, hooks: Any, tmp_path: Path
) -> None:
    body = {**OPENAI[end], "model": named} | ({"stream": True} if stream and end != "embeddings" else {})
    async with google_cloud() as cloud:
        tables = {**TWO_KEYS, "cloud": vertex(cloud, tmp_path, locations=["europe-west4"])}
        async with behind(cloud, tmp_path, tables, hooks) as gateway:
            cloud.answer = failing(429, FIRST, SECOND)
            key = issue(tmp_path, scope={"models": ["gemini-3-*"]})
            path = f"/v1beta/openai/{end}"
            answer = await post(gateway.url, path, body, {"Authorization": f"Bearer {key}"})
            receipt = await receipt_of(gateway.url, answer, key)
        assert (answer.status, answer.complete) == (200, True)
        assert cloud.secrets == [FIRST, SECOND, f"{TOKEN}-1"]
        assert [call.path for call in cloud.calls] == [path, path, f"{PLACE}/{end}"]
        first, second, last = (json.loads(call.body) for call in cloud.calls)
        assert first == second == {**last, "model": named}
        assert last["model"] == "google/gemini-3-flash"
        assert all(key not in str(call) for call in cloud.calls)
    tried = [(each["credential"], each["status"]) for each in receipt["attempts"]]
    assert tried == [("first", 429), ("second", 429), ("cloud", 200)]


@pytest.mark.parametrize("end", OPENAI)
async def test_a_path_of_vertex_ai_gets_the_project_of_the_credential(end: str, tmp_path: Path) -> None:
    body = {**OPENAI[end], "model": "google/gemini-3-flash"}
    async with google_cloud() as cloud:
        tables = {"cloud": vertex(cloud, tmp_path, locations=["europe-west1", "europe-west4"])}
        async with behind(cloud, tmp_path, tables) as gateway:
            cloud.answer = lambda call: web.Response(status=503) if "europe-west1" in call.path else None
            path = f"/v1/projects/theirs/locations/us/endpoints/openapi/{end}"
            answer = await post(gateway.url, path, body, key_header(issue(tmp_path)))
        assert answer.status == 200
        assert [call.path for call in cloud.calls] == [
            f"{PLACE.replace('west4', 'west1')}/{end}",
            f"{PLACE}/{end}",
        ]
        assert json.loads(cloud.calls[1].body) == body


async def test_a_model_that_a_hook_chooses_has_the_name_of_vertex_ai(tmp_path: Path) -> None:
    hooks = {"BeforeModel": [says(llm_request={"model": "gemini-3-pro"})]}
    body = {**OPENAI["chat/completions"], "model": "models/gemini-3-flash"}
    async with google_cloud() as cloud:
        async with behind(cloud, tmp_path, {"cloud": vertex(cloud, tmp_path)}, hooks) as gateway:
            await post(gateway.url, "/v1beta/openai/chat/completions", body, key_header(issue(tmp_path)))
        [call] = cloud.calls
        assert json.loads(call.body)["model"] == "google/gemini-3-pro"


async def test_an_api_key_of_vertex_ai_is_sent_as_one(tmp_path: Path) -> None:
    places = {"project": PROJECT_ID, "locations": ["europe-west4"]}
    credentials = {"express": {"api": "vertex", "key": FIRST, "serves": ["gemini"], **places}}
    body = {**OPENAI["embeddings"], "model": "gemini-embedding-2"}
    async with google_cloud() as cloud, behind(cloud, tmp_path, credentials) as gateway:
        await post(gateway.url, "/v1beta/openai/embeddings", body, key_header(issue(tmp_path)))
        [call] = cloud.calls
        assert (call.headers.get("x-goog-api-key"), call.path) == (FIRST, f"{PLACE}/embeddings")


async def test_responses_are_not_sent_to_vertex_ai(tmp_path: Path) -> None:
    body = {"model": "gemini-3-flash", "input": "hi"}
    async with google_cloud() as cloud:
        tables = {"cloud": vertex(cloud, tmp_path), **TWO_KEYS}
        async with behind(cloud, tmp_path, {"cloud": tables["cloud"]}) as gateway:
            refused = await post(gateway.url, "/v1beta/openai/responses", body, key_header(issue(tmp_path)))
        assert (refused.status, refused.error["details"][0]["reason"]) == (404, "NOT_ON_VERTEX")
        assert not cloud.calls
        async with behind(cloud, tmp_path, tables) as gateway:
            cloud.answer = failing(429, FIRST, SECOND)
            await post(gateway.url, "/v1beta/openai/responses", body, key_header(issue(tmp_path)))
        assert cloud.secrets == [FIRST, SECOND]


@pytest.mark.parametrize(
    "state", [state for state in AuditState if state.name not in ("NOT_AUDITED", "STARTED")]
)
async def test_nothing_is_sent_before_the_call_is_on_record(state: AuditState, tmp_path: Path) -> None:
    async with google_cloud() as cloud:
        credentials = {name: CredentialSettings.model_validate(each) for name, each in TWO_KEYS.items()}
        settings, route = UpstreamSettings(gemini=cloud.url), with_gateway_credential(match("POST", UNARY))
        async with Upstreams(settings, credentials=credentials) as upstreams:
            fail_over = FailOver(
                upstreams, CallRecord(audit_state=state), "POST", route, at_once, decompress=True
            )
            with pytest.raises(RuntimeError, match="before its start is recorded"):
                async with fail_over.final_answer({}, b"{}"):
                    pass
    assert not cloud.calls


async def test_a_credential_is_not_avoided_because_the_gateway_has_no_connection_left() -> None:
    async with google_cloud() as cloud:
        credentials = {name: CredentialSettings.model_validate(each) for name, each in TWO_KEYS.items()}
        settings = UpstreamSettings(gemini=cloud.url, connect_timeout=0.1)
        route = with_gateway_credential(match("POST", UNARY))
        async with Upstreams(settings, 1, credentials) as upstreams:
            one, other = (
                FailOver(
                    upstreams,
                    CallRecord(audit_state=AuditState.NOT_AUDITED),
                    "POST",
                    route,
                    at_once,
                    decompress=True,
                )
                for _ in range(2)
            )
            async with one.final_answer({}, b"{}"):
                with pytest.raises(ApiError) as refused:
                    async with other.final_answer({}, b"{}"):
                        pass
            async with other.final_answer({}, b"{}"):
                pass
    assert (refused.value.code, refused.value.reason) == (503, "CONNECTIONS_BUSY")
    assert "limits.connections" in refused.value.message
    assert cloud.secrets == [FIRST, FIRST]


async def test_a_body_that_can_be_read_only_once_is_sent_only_once() -> None:
    async def pieces() -> Any:
        yield b"{}"

    async with google_cloud() as cloud:
        cloud.answer = failing(429, FIRST)
        credentials = {name: CredentialSettings.model_validate(each) for name, each in TWO_KEYS.items()}
        settings, route = UpstreamSettings(gemini=cloud.url), with_gateway_credential(match("POST", UNARY))
        async with Upstreams(settings, credentials=credentials) as upstreams:
            record = CallRecord(audit_state=AuditState.NOT_AUDITED)
            fail_over = FailOver(upstreams, record, "POST", route, at_once, decompress=True)
            async with fail_over.final_answer({}, pieces()) as answer:
                assert (answer.status, record.upstream_requests) == (429, 1)


async def test_objects_that_are_stored_in_a_project_are_requested_with_the_first_key_only(
    tmp_path: Path,
) -> None:
    key = key_header(issue(tmp_path, scope={"routes": ["files", "models"]}))
    async with google_cloud() as cloud, behind(cloud, tmp_path) as gateway:
        cloud.answer = failing(429, FIRST)
        assert (await ask(gateway.url, "GET", "/v1beta/models", key)).status == 200
        for _ in range(2):  # also after it has failed
            assert (await ask(gateway.url, "GET", "/v1beta/files", key)).status == 429
        assert cloud.secrets == [FIRST, SECOND, FIRST, FIRST]


async def test_callers_with_keys_of_their_own_use_these(tmp_path: Path) -> None:
    async with google_cloud() as cloud, behind(cloud, tmp_path) as gateway:
        cloud.answer = failing(429, "AIza-of-the-caller")
        assert (await post(gateway.url, UNARY, HI, key_header("AIza-of-the-caller"))).status == 429
        assert cloud.secrets == ["AIza-of-the-caller"]


# ---- the order


class _Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def credentials_with(tables: dict[str, Any], now: Any = _Clock()) -> GatewayCredentials:  # noqa: B008  # it stands still
    credentials = {name: CredentialSettings.model_validate(each) for name, each in tables.items()}
    return GatewayCredentials(UpstreamSettings(), credentials, now)


def order(credentials: GatewayCredentials, team: str = "", target: str = UNARY) -> list[str]:
    route = with_gateway_credential(match("POST", target), team)
    return [f"{each.credential.name}{each.location}" for each in credentials.candidates(route)]


@pytest.mark.parametrize(
    ("said", "seconds"), [("30", 30), ("3600", 60), ("", 10), ("soon", 10), ("1e9", 10), ("9" * 9, 60)]
)
def test_a_credential_without_quota_is_tried_last_for_as_long_as_its_answer_says(
    said: str, seconds: float
) -> None:
    clock = _Clock()
    credentials = credentials_with(TWO_KEYS, clock)
    first = credentials.candidates(with_gateway_credential(match("POST", UNARY)))[0]
    credentials.avoid(first, said)
    assert order(credentials) == ["second", "first"]
    clock.now = seconds - 0.1
    assert order(credentials) == ["second", "first"]
    clock.now = seconds + 0.1
    assert order(credentials) == ["first", "second"]


def test_the_quota_of_one_model_says_nothing_about_another() -> None:
    credentials = credentials_with(TWO_KEYS)
    credentials.avoid(credentials.candidates(with_gateway_credential(match("POST", UNARY)))[0])
    assert order(credentials, target="/v1beta/models/gemini-2.5-pro:generateContent") == ["first", "second"]


def test_each_location_is_tried_before_the_next_credential() -> None:
    places = {"project": "my-project", "locations": ["europe-west4", "europe-west1"]}
    keys = {name: {"api": "vertex", "key": FIRST, "serves": ["gemini"], **places} for name in ("a-", "b-")}
    assert order(credentials_with(keys)) == [
        "a-europe-west4",
        "a-europe-west1",
        "b-europe-west4",
        "b-europe-west1",
    ]


def test_a_team_uses_its_own_credentials_and_those_of_all() -> None:
    credentials = credentials_with(
        {
            "search": {**TWO_KEYS["first"], "teams": ["search"]},
            "all": TWO_KEYS["second"],
            "ads": {**TWO_KEYS["first"], "teams": ["ads", "shop"]},
        }
    )
    assert order(credentials, "search") == ["search", "all"]
    assert order(credentials, "shop") == ["all", "ads"]
    assert order(credentials) == ["all"]


async def test_a_team_without_a_credential_gets_an_explanation(tmp_path: Path) -> None:
    of_ads = {"ads": {**TWO_KEYS["first"], "teams": ["ads"]}}
    async with google_cloud() as cloud, behind(cloud, tmp_path, of_ads) as gateway:
        answer = await post(gateway.url, UNARY, HI, key_header(issue(tmp_path)))
        assert answer.status == 403
        assert "no credential of its own for gemini that the team search may use" in answer.error["message"]
        await asyncio.sleep(0)
        assert not cloud.calls
