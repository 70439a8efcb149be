"""Issued keys, at a whole gateway."""

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from support.gateway.audits import reading
from support.gateway.keys import (
    ACCEPTING,
    UPSTREAM_KEY,
    denial_reason,
    id_of,
    issue,
    issuing_gateway,
    key_header,
    rotate,
    until_answered,
)
from support.gateway.loopback import listens, runs, says
from support.wire import HI, SSE, UNARY, ask, peer, post, response

from hookgate.proxy.keys.secrets import create_key
from hookgate.proxy.routes.table import TABLE

EMBED = UNARY.replace("generateContent", "embedContent")
CODE_ASSIST = "/v1internal:generateContent"
EVENT = "/hookgate/v1/events/SessionStart"
STARTED = {"session_id": "s-1", "hook_event_name": "SessionStart", "source": "startup"}
OWN = "AIza-the-callers-own"


@pytest.fixture(autouse=True)
def all_logs(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """No log line of any level holds an issued key, or the gateway's."""
    caplog.set_level(logging.DEBUG)
    yield
    assert "canary" not in caplog.text
    assert "hgk_" not in caplog.text


# ---- who calls


@pytest.mark.parametrize(
    "way",
    [
        pytest.param(lambda key: ("", {"X-Goog-Api-Key": key}), id="header"),
        pytest.param(lambda key: (f"?key={key}", {}), id="query"),
        pytest.param(lambda key: (f"?k%65y={key}", {}), id="encoded query"),
        pytest.param(lambda key: ("", {"Authorization": f"Bearer {key}"}), id="bearer"),
        pytest.param(lambda key: ("", {"authorization": f"bEARER   {key}"}), id="other case"),
        pytest.param(
            lambda key: (f"?key={key}", {"x-goog-api-key": key, "Authorization": f"Bearer {key}"}), id="all"
        ),
    ],
)
async def test_a_key_is_accepted_wherever_clients_send_googles_and_goes_nowhere(
    way: Any, tmp_path: Path
) -> None:
    seen: list[Any] = []
    key = issue(tmp_path)
    query, headers = way(key)
    async with issuing_gateway(tmp_path, {"BeforeModel": [listens(seen)]}) as gateway:
        answer = await post(gateway.url, UNARY + query, HI, headers)
        [request] = gateway.recorded
        receipt = await ask(
            gateway.url,
            "GET",
            f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}",
            key_header(key),
        )
    assert answer.status == 200
    assert request.headers["x-goog-api-key"] == UPSTREAM_KEY
    assert "authorization" not in {name.lower() for name in request.headers}
    assert key not in json.dumps([dict(request.headers), request.path_qs])
    assert receipt.json["session"] | {"id": ""} == {"id": "", "key": "alice", "team": "search"}
    assert receipt.json["issued_key"] == id_of(key)
    told = json.dumps([seen, receipt.json]) + (tmp_path / "audit.db").read_bytes().decode("latin-1")
    assert key not in told
    assert UPSTREAM_KEY not in told


@pytest.mark.parametrize(
    "headers",
    [{"x-goog-api-key": OWN}, {}],
    ids=["x-goog-api-key", "nothing"],
)
async def test_two_different_credentials_are_refused(headers: dict[str, str], tmp_path: Path) -> None:
    key = issue(tmp_path)
    async with issuing_gateway(tmp_path) as gateway:
        answer = await post(
            gateway.url, f"{UNARY}?key={issue(tmp_path)}", HI, {**headers, "Authorization": f"Bearer {key}"}
        )
        assert not gateway.recorded
    assert (answer.status, answer.error["details"][0]["reason"]) == (400, "CREDENTIALS_DIFFER")


async def test_hooks_and_metrics_see_owner_and_team(tmp_path: Path) -> None:
    def deny(**when: Any) -> dict[str, Any]:
        return runs(lambda _: {"decision": "deny", "reason": "Not for you."}, when=when)

    alice, bob = issue(tmp_path), issue(tmp_path, owner="bob", team="platform")
    hooks = {"BeforeModel": [deny(keys=["alice"])], "BeforeTool": [deny(teams="search")]}
    event = {"session_id": "s-1", "tool_name": "t", "tool_input": {}}
    async with issuing_gateway(tmp_path, hooks) as gateway:
        assert b"Not for you." in (await post(gateway.url, UNARY, HI, key_header(alice))).body
        assert (await post(gateway.url, UNARY, HI, key_header(bob))).status == 200
        for key, decided in ((alice, "deny"), (bob, None)):
            answer = await post(gateway.url, "/hookgate/v1/events/BeforeTool", event, key_header(key))
            assert answer.json.get("decision") == decided
        metrics = gateway.metrics.page().decode()
    assert 'team="platform"' in metrics
    assert "bob" not in metrics


async def test_callers_keys_still_work_unless_they_are_refused(tmp_path: Path) -> None:
    for unknown_keys, status in (("allow", 200), ("refuse", 403)):
        clients = {**ACCEPTING["clients"], "unknown_keys": unknown_keys}
        async with issuing_gateway(tmp_path, clients=clients) as gateway:
            own = await post(gateway.url, UNARY, HI, key_header(OWN))
            issued = await post(gateway.url, UNARY, HI, key_header(issue(tmp_path)))
            assert (own.status, issued.status) == (status, 200)
            keys = [request.headers["x-goog-api-key"] for request in gateway.recorded]
            assert keys == ([OWN] if status == 200 else []) + [UPSTREAM_KEY]
    assert "hookgate accepts only keys that it has issued" in own.error["message"]


async def test_a_conversation_stays_the_same_when_its_key_is_rotated(tmp_path: Path) -> None:
    seen: list[Any] = []
    old = issue(tmp_path)
    async with issuing_gateway(tmp_path, {"BeforeModel": [listens(seen)]}) as gateway:
        await post(gateway.url, UNARY, HI, key_header(old))
        await until_answered(gateway.url, rotate(tmp_path, old))
        await post(gateway.url, UNARY, HI, key_header(issue(tmp_path)))
    first, second, other = (event["session_id"] for event in seen)
    assert first == second != other


# ---- denials


def with_other_end(key: str) -> str:
    return key[:-1] + ("a" if key[-1] != "a" else "b")


@pytest.mark.parametrize("target", [SSE, "/v1beta/models", EVENT])
@pytest.mark.parametrize(
    ("make", "reason", "owner"),
    [
        pytest.param(lambda _: create_key()[0], "KEY_UNKNOWN", "", id="of another gateway"),
        pytest.param(lambda state: create_key(id_of(issue(state)))[0], "KEY_UNKNOWN", "", id="guessed"),
        pytest.param(lambda state: with_other_end(issue(state)), "KEY_UNKNOWN", "", id="wrong checksum"),
        pytest.param(lambda state: issue(state)[:-1], "KEY_UNKNOWN", "", id="incomplete"),
        pytest.param(lambda state: issue(state) + ",", "KEY_UNKNOWN", "", id="more"),
        pytest.param(lambda _: "hgk_", "KEY_UNKNOWN", "", id="only the prefix"),
        pytest.param(lambda state: issue(state, revoked=1), "KEY_REVOKED", "alice", id="revoked"),
        pytest.param(lambda state: issue(state, expires=1), "KEY_EXPIRED", "alice", id="expired"),
    ],
)
async def test_an_invalid_key_is_denied_before_any_hook_and_on_record(
    make: Any, reason: str, owner: str, target: str, tmp_path: Path
) -> None:
    seen: list[Any] = []
    key = make(tmp_path)
    hooks = {"BeforeModel": [listens(seen)], "SessionStart": [listens(seen)]}
    async with issuing_gateway(tmp_path, hooks) as gateway:
        if target in (SSE, EVENT):
            answer = await post(gateway.url, target, STARTED if target == EVENT else HI, key_header(key))
        else:
            answer = await ask(gateway.url, "GET", target, key_header(key))
        assert not gateway.recorded
    assert denial_reason(answer) == reason
    assert not seen
    if target == SSE:
        [call] = calls_in(tmp_path)
        assert (call.outcome, call.body["reasons"]["gateway"].partition(":")[0]) == ("refused", reason)
        assert call.key == owner if owner else len(call.key) == 24
        assert call.body["start"].get("issued_key") == (id_of(key) if owner else None)


def calls_in(state: Path, url: str | None = None) -> list[Any]:
    with reading(state, url) as audit:
        found = audit.calls(100)
        for each in found:
            detail = audit.call(each.id)
            assert detail is not None
            assert detail.start is not None
            each.body["start"] = detail.start.record.body
    return found


@pytest.mark.parametrize(
    ("headers"),
    [
        {"Authorization": "Basic {}"},
        {"Authorization": "Bearer {}, x"},
        {"Authorization": "Bearer\t{}"},
        {"x-goog-api-key": "x {}"},
        {"x-goog-api-key": "x,{}"},
    ],
    ids=str,
)
async def test_a_key_in_an_odd_place_is_not_sent_upstream(headers: dict[str, str], tmp_path: Path) -> None:
    key = issue(tmp_path)
    async with issuing_gateway(tmp_path) as gateway:
        await post(gateway.url, UNARY, HI, {name: value.format(key) for name, value in headers.items()})
        assert key not in json.dumps([dict(request.headers) for request in gateway.recorded])


@pytest.mark.parametrize("place", ["/s/{}" + UNARY, "/v1beta/models/{}:generateContent", "/v1/files/{}"])
async def test_a_key_in_the_path_is_refused_and_not_logged(place: str, tmp_path: Path) -> None:
    key = issue(tmp_path)
    async with issuing_gateway(tmp_path) as gateway:
        answer = await post(gateway.url, place.format(key), HI, key_header(key))
        assert not gateway.recorded
    assert answer.status in (400, 403)
    assert key.encode() not in answer.body + (tmp_path / "audit.db").read_bytes()


@pytest.mark.parametrize(
    ("scope", "target", "message"),
    [
        (
            {"models": ["gemini-2.5-*"]},
            UNARY.replace("2.5", "3"),
            "for the model 'gemini-3-flash'; it may be",
        ),
        ({"models": ["gemini-2.5-*"]}, UNARY.replace("2.5", "3") + "?key=", "'gemini-3-flash'"),
        ({"models": ["*flash"]}, "/v1/publishers/google/models/pro:generateContent", "the model 'pro'"),
        (
            {"models": ["gemini-*"]},
            "/v1beta/tunedModels/gemini-mine:generateContent",
            "'tunedModels/gemini-mine'",
        ),
        (
            {"models": ["gemini-*"]},
            "/v1/projects/p/locations/l/endpoints/gemini-x:generateContent",
            "'endpoints/gemini-x'",
        ),
        ({"routes": ["generate"]}, EMBED, "for this path; it may be used for: generate"),
        ({"routes": ["embed"]}, SSE, "for this path; it may be used for: embed"),
        ({}, UNARY.replace("generateContent", "batchGenerateContent"), "for this path"),
        ({}, "/upload/v1beta/files", "for this path"),
        ({}, "/v1beta/cachedContents", "for this path"),
        ({}, "/v1beta/openai/conversations", "for this path"),
        ({}, "/v1/projects/models/locations/models/cachedContents", "for this path"),
        ({"routes": ["agents"]}, "/v1beta/auth_tokens", "for this path"),
        ({"routes": ["agents"]}, "/v1alpha/auth_tokens/x:extend", "for this path"),
    ],
)
async def test_a_key_is_for_its_models_and_routes(
    scope: dict[str, Any], target: str, message: str, tmp_path: Path
) -> None:
    key = issue(tmp_path, scope=scope)
    routes = {"unhooked": ["agents", "openai"], "files": "forward"}
    async with issuing_gateway(tmp_path, routes=routes) as gateway:
        answer = await post(gateway.url, target, HI, key_header(key))
        assert not gateway.recorded
    assert denial_reason(answer) == "KEY_NOT_ALLOWED"
    assert answer.error["message"].startswith(f"The key {id_of(key)} of alice may not be used for ")
    assert message in answer.error["message"]


async def test_a_key_for_some_models_is_for_no_other_in_a_body(tmp_path: Path) -> None:
    key = issue(tmp_path, scope={"models": ["gemini-2.5-flash"], "routes": ["batches"]})
    inner = {"model": "models/gemini-2.5-pro", "contents": HI["contents"]}
    batch = {"batch": {"inputConfig": {"requests": {"requests": [{"request": inner}]}}}}
    async with issuing_gateway(tmp_path) as gateway:
        target = UNARY.replace("generateContent", "batchGenerateContent")
        assert (await post(gateway.url, target, batch, key_header(key))).status == 400
        assert not gateway.recorded


async def test_a_hook_does_not_get_a_batch_to_a_model_that_the_key_is_not_for(tmp_path: Path) -> None:
    key = issue(tmp_path, scope={"models": ["gemini-2.5-flash"], "routes": ["batches"]})
    batch = {"batch": {"inputConfig": {"requests": {"requests": [{"request": HI}]}}}}
    hooks = {"BeforeModel": [says(llm_request={"model": "gemini-2.5-pro"})]}
    async with issuing_gateway(tmp_path, hooks) as gateway:
        target = UNARY.replace("generateContent", "batchGenerateContent")
        answer = await post(gateway.url, target, batch, key_header(key))
        assert not gateway.recorded
    assert denial_reason(answer) == "KEY_NOT_ALLOWED"
    assert "may not be used for the model 'gemini-2.5-pro'" in answer.error["message"]


CHAT = "/v1beta/openai/chat/completions"
PROMPT = [{"role": "user", "content": "hi"}]
NAMING = {
    "chat": (CHAT, {"messages": PROMPT}),
    "streamed chat": (CHAT, {"messages": PROMPT, "stream": True}),
    "response": ("/v1beta/openai/responses", {"input": "hi"}),
    "embedding": ("/v1beta/openai/embeddings", {"input": ["hi", "you"]}),
}
"""Calls whose bodies name their model, without its name."""


@pytest.mark.parametrize("call", NAMING)
@pytest.mark.parametrize("hooked", [False, True], ids=["no hooks", "hooks"])
async def test_a_key_is_for_its_models_if_only_the_body_names_them(
    call: str, hooked: bool, tmp_path: Path
) -> None:
    seen: list[Any] = []
    path, body = NAMING[call]
    key = issue(tmp_path, scope={"models": ["gemini-2.5-*"]})
    async with issuing_gateway(tmp_path, {"BeforeModel": [listens(seen)]} if hooked else {}) as gateway:
        for name in ("gemini-3-flash", "models/gemini-3-flash", "google/gemini-3-flash"):
            answer = await post(gateway.url, path, {**body, "model": name}, key_header(key))
            assert denial_reason(answer) == "KEY_NOT_ALLOWED"
            denial = "may not be used for the model 'gemini-3-flash'; it may be used for: gemini-2.5-*."
            assert answer.error["message"] == f"The key {id_of(key)} of alice {denial}"
        assert not seen
        assert not gateway.recorded
        for name in ("gemini-2.5-flash", "models/gemini-2.5-flash", "google/gemini-2.5-flash"):
            assert (await post(gateway.url, path, {**body, "model": name}, key_header(key))).status == 200
        assert [request.body["model"] for request in gateway.recorded] == [
            "gemini-2.5-flash",
            "models/gemini-2.5-flash",
            "google/gemini-2.5-flash",
        ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        *((path, {**body, "model": "gemini-2.5-flash"}) for path, body in NAMING.values()),
        (UNARY, HI),
        (SSE, HI),
        (EMBED, {"content": {"parts": [{"text": "hi"}]}}),
        (
            UNARY.replace("generateContent", "batchGenerateContent"),
            {"batch": {"inputConfig": {"requests": {"requests": [{"request": HI}]}}}},
        ),
    ],
    ids=[*NAMING, "generateContent", "streamGenerateContent", "embedContent", "batch"],
)
async def test_a_hook_cannot_choose_a_model_that_the_key_is_not_for(
    path: str, body: Any, tmp_path: Path
) -> None:
    scope = {"models": ["gemini-2.5-*"], "routes": ["generate", "embed", "batches"]}
    key = key_header(issue(tmp_path, scope=scope))
    for chosen, denied in (("gemini-3-flash", True), ("gemini-2.5-pro", False)):
        hooks = {"BeforeModel": [says(llm_request={"model": chosen})]}
        async with issuing_gateway(tmp_path, hooks) as gateway:
            answer = await post(gateway.url, path, body, key)
            assert (answer.status == 403) is denied
            assert bool(gateway.recorded) is not denied
        assert (f"may not be used for the model '{chosen}'".encode() in answer.body) is denied


async def test_a_key_is_not_for_code_assist_or_an_api_without_a_key_of_the_gateway(tmp_path: Path) -> None:
    key = key_header(issue(tmp_path))
    async with issuing_gateway(tmp_path, upstream={"vertex_key": UPSTREAM_KEY}) as gateway:
        body = {"model": "m", "request": HI}
        assert denial_reason(await post(gateway.url, CODE_ASSIST, body, key)) == "KEY_NOT_ALLOWED"
        missing = await post(gateway.url, UNARY, HI, key)
        assert denial_reason(missing) == "UPSTREAM_KEY_MISSING"
        assert "[credentials.NAME]" in missing.error["message"]
        assert (await post(gateway.url, f"/v1/publishers/google{UNARY[7:]}", HI, key)).status == 200
        assert len(gateway.recorded) == 1


async def test_the_gateways_key_reaches_no_client_although_the_upstream_quotes_it(tmp_path: Path) -> None:
    quoting = f'{{"error": {{"message": "Consumer \'api_key:{UPSTREAM_KEY}\' is suspended."}}}}'.encode()
    for hooks in ({}, {"AfterModel": [listens([])]}):
        for target in (UNARY, SSE, "/v1beta/models"):
            upstream_answer = response(403, quoting, {"Content-Type": "application/json"})
            async with (
                peer(upstream_answer) as upstream,
                issuing_gateway(tmp_path, hooks, upstream_url=upstream.url) as gateway,
            ):
                key = key_header(issue(tmp_path))
                if target == "/v1beta/models":
                    answer = await ask(gateway.url, "GET", target, key)
                else:
                    answer = await post(gateway.url, target, HI, key)
            assert (answer.status, b"is suspended" in answer.body) == (403, True)
            assert b"canary" not in answer.body


def test_every_route_of_google_belongs_to_a_group() -> None:
    """A route without a group could not be called with an issued key."""
    for row in TABLE:
        creates_credentials = "/auth_tokens" in row.template
        is_without = creates_credentials or row.api == "code_assist" or row.kind in ("event", "receipt")
        assert (row.group is None) is is_without, row
