"""Cached contents: writes are judged like prompts, and hooks see which calls use them."""

import json
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from google.genai.errors import ClientError
from support.clients.python_sdk import python_client, sdk_warnings
from support.gateway.loopback import gateway_before, listens, runs
from support.gateway.routes import PLACE
from support.hooks.policies import CARD, REFUSAL, no_rockets, only_weather
from support.wire import KEY, UNARY, connected, ok, peer, post, prompt, request_bytes

from hookgate.proxy.app import serve_on

PATH = "/v1beta/cachedContents"
MODEL = "models/gemini-2.5-flash"
HI = prompt("hi")
TOOLS = [{"functionDeclarations": [{"name": "get_weather"}, {"name": "launch"}]}]
REDACT = {"type": "builtin", "builtin": "redact", "options": {"words": {"CARD": [CARD]}}}


class Caches:
    """An upstream that keeps what it is sent, and answers as the API does."""

    def __init__(self) -> None:
        self.sent: list[tuple[str, str, Any]] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = json.loads(await request.read())
        self.sent.append((request.method, request.path, body))
        cache = {
            "name": "cachedContents/1",
            "model": body.get("model"),
            "displayName": body.get("displayName"),
        }
        return web.json_response(cache | {"usageMetadata": {"totalTokenCount": 5000}})


@pytest.fixture
async def caches() -> AsyncIterator[tuple[str, Caches]]:
    upstream = Caches()
    async with serve_on(upstream.handle, "127.0.0.1", 0) as url:
        yield url, upstream


async def patch(url: str, target: str, body: Any) -> Any:
    async with connected(url) as wire:
        await wire.write(request_bytes("PATCH", target, json.dumps(body).encode(), KEY))
        return await wire.answer()


@sdk_warnings
async def test_google_genai_creates_and_extends_a_cache_under_policies(caches: tuple[str, Caches]) -> None:
    upstream_url, upstream = caches
    seen: list[dict[str, Any]] = []
    hooks = {
        "BeforeModel": [REDACT, runs(no_rockets), listens(seen)],
        "BeforeToolSelection": [runs(only_weather)],
        "AfterModel": [listens(seen)],
    }
    async with gateway_before(upstream_url, hooks) as url, python_client(url) as client:
        config: Any = {"contents": f"My card is {CARD}", "system_instruction": "Be brief.", "tools": TOOLS}
        cache = await client.aio.caches.create(model="gemini-2.5-flash", config=config)
        extended = await client.aio.caches.update(name="cachedContents/1", config={"ttl": "60s"})
        with pytest.raises(ClientError) as denied:
            await client.aio.caches.create(model="gemini-2.5-flash", config={"contents": "a rocket"})
    assert (cache.name, extended.name) == ("cachedContents/1", "cachedContents/1")
    [(_, _, created), (method, path, update)] = upstream.sent
    assert "My card is [CARD]" in str(created)
    assert CARD not in str(created)
    assert [each["name"] for each in created["tools"][0]["functionDeclarations"]] == ["get_weather"]
    assert (method, path, update) == ("PATCH", "/v1/cachedContents/1", {"ttl": "60s"})
    assert {(event["hook_event_name"], event["operation"]) for event in seen} == {
        ("BeforeModel", "createCachedContent")
    }
    request = seen[0]["llm_request"]
    assert request["model"] == "gemini-2.5-flash"
    assert [message["role"] for message in request["messages"]] == ["system", "user"]
    assert (denied.value.code, denied.value.message) == (403, REFUSAL)


async def test_an_update_that_carries_contents_is_judged(caches: tuple[str, Caches]) -> None:
    upstream_url, upstream = caches
    async with gateway_before(upstream_url, {"BeforeModel": [runs(no_rockets)]}) as url:
        denied = await patch(url, f"{PATH}/1?updateMask=contents", {"model": MODEL, **prompt("a rocket")})
        named = await patch(url, f"{PATH}/1", {"displayName": "a rocket", "model": MODEL})
        unnamed = await patch(url, f"{PATH}/1", prompt("a rocket"))
        passed = await patch(url, f"{PATH}/1", {"model": MODEL, **HI})
    assert [each.status for each in (denied, named, unnamed, passed)] == [403, 403, 400, 200]
    assert "model: must be the name" in unnamed.error["message"]
    assert len(upstream.sent) == 1


async def test_hooks_see_that_a_call_uses_a_cache() -> None:
    seen: list[dict[str, Any]] = []
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [listens(seen)]}) as url,
    ):
        for body in ({"cachedContent": "cachedContents/1"}, {"cached_content": "cachedContents/1"}, {}):
            assert (await post(url, UNARY, {**HI, **body})).status == 200
    shown = [(each["llm_request"].get("cachedContent"), each["llm_request"].get("history")) for each in seen]
    assert shown == [("cachedContents/1", "unknown"), ("cachedContents/1", "unknown"), (None, None)]


@pytest.mark.parametrize("name", [{"a": "rocket"}, "a rocket", ["cachedContents/1"], ""])
async def test_the_name_of_a_cache_can_hide_no_text(name: Any) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, UNARY, {**HI, "cachedContent": name})
    assert (answer.status, upstream.heard) == (400, [])


@pytest.mark.parametrize(
    ("target", "body", "place"),
    [
        (PATH, {**HI}, "model"),
        (PATH, {**HI, "model": "publishers/google/models/m"}, "model"),
        (PATH, {**HI, "model": "projects/p/locations/l/publishers/google/models/m"}, "model"),
        (f"{PLACE}/cachedContents", {**HI, "model": f"{MODEL}/../x"}, "model"),
        (
            f"{PLACE}/cachedContents",
            {**HI, "model": "projects/other/locations/l/publishers/google/models/m"},
            "model",
        ),
        (PATH, {**HI, "model": MODEL, "note": "a rocket"}, "note"),
        (PATH, {**HI, "model": MODEL, "ttl": "a rocket"}, "ttl"),
        (PATH, {**HI, "model": MODEL, "expireTime": {"a": "rocket"}}, "expireTime"),
        (PATH, {**HI, "model": MODEL, "name": "a rocket"}, "name"),
        (PATH, {**HI, "model": MODEL, "displayName": ["a rocket"]}, "displayName"),
        (PATH, {**HI, "model": MODEL, "display_name": "a", "displayName": "b"}, "displayName"),
        (PATH, {**HI, "model": MODEL, "encryptionSpec": {"note": "a rocket"}}, "encryptionSpec.note"),
        (PATH, {**HI, "model": MODEL, "encryptionSpec": {"kmsKeyName": "a rocket"}}, "kmsKeyName"),
        (PATH, {**HI, "model": MODEL, "contents": ["a rocket"]}, "contents[0]"),
    ],
)
async def test_what_hooks_would_not_see_is_refused(target: str, body: Any, place: str) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, target, body)
    assert (answer.status, upstream.heard) == (400, [])
    assert place in answer.error["message"]


async def test_a_cache_of_a_file_follows_the_rule_of_files() -> None:
    body = {"model": MODEL, "contents": [{"parts": [{"fileData": {"fileUri": "files/f"}}]}]}
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [listens([])]}) as url:
        answer = await post(url, PATH, body)
    assert (answer.status, upstream.heard) == (403, [])
    assert answer.error["message"].startswith("contents[0].parts[0].fileData")


async def test_a_hooks_edits_of_contents_and_name_are_sent_together(caches: tuple[str, Caches]) -> None:
    upstream_url, upstream = caches
    body = {"model": MODEL, "displayName": f"of {CARD}", **prompt(f"my {CARD}"), "ttl": "60s"}
    models = {"type": "builtin", "builtin": "models", "options": {"rename": {"gemini-2.5-flash": "other"}}}
    async with gateway_before(upstream_url, {"BeforeModel": [REDACT, models]}) as url:
        assert (await post(url, PATH, body)).status == 200
    [(_, _, sent)] = upstream.sent
    expected = {"model": "models/other", "displayName": "of [CARD]", **prompt("my [CARD]"), "ttl": "60s"}
    assert sent == expected
