"""Scripts of web pages: which may call the gateway from a browser, and read its answers."""

from typing import Any

import pytest
from support.gateway.loopback import listens, running_gateway, says
from support.wire import KEY, SSE, UNARY, Answer, connected, post, prompt, request_bytes

from hookgate.proxy.config import ClientSettings, Config

PAGE = "https://app.example"
BEFORE_TOOL = "/hookgate/v1/events/BeforeTool"
CONFIG = Config(clients=ClientSettings(origins=(PAGE,)))
ASKS = {
    "Origin": PAGE,
    "Access-Control-Request-Method": "POST",
    "Access-Control-Request-Headers": "content-type,x-goog-api-key",
}


async def preflight(url: str, headers: dict[str, str]) -> Answer:
    async with connected(url) as wire:
        await wire.write(request_bytes("OPTIONS", UNARY, b"", headers))
        status, found = await wire.head()
        body = b"" if status == 204 else await wire.received(int(found["content-length"]), found)
        return Answer(status, found, body)


@pytest.mark.parametrize("config", [Config(), CONFIG], ids=["none", "another"])
async def test_a_page_of_an_origin_that_is_not_listed_is_refused_with_the_remedy(config: Config) -> None:
    async with running_gateway(config=config) as gateway:
        answer = await preflight(gateway.url, {**ASKS, "Origin": "https://evil.example"})
    assert answer.status == 403
    assert "clients.origins" in answer.error["message"]
    assert not [name for name in answer.headers if name.startswith("access-control-")]


async def test_a_page_of_a_listed_origin_may_call_with_a_key(caplog: pytest.LogCaptureFixture) -> None:
    async with running_gateway(config=CONFIG) as gateway:
        answer = await preflight(gateway.url, ASKS)
    assert not gateway.recorded
    assert not [record for record in caplog.records if record.levelname in ("WARNING", "ERROR")]
    assert answer.status == 204
    assert answer.headers["access-control-allow-origin"] == PAGE
    assert "POST" in answer.headers["access-control-allow-methods"]
    assert answer.headers["access-control-allow-headers"] == "content-type,x-goog-api-key"
    assert "access-control-allow-credentials" not in answer.headers


@pytest.mark.parametrize("asked", ["*", "x\ty", "a" * 65, "a,,b", ""])
async def test_names_of_headers_that_are_none_are_not_repeated(asked: str) -> None:
    async with running_gateway(config=CONFIG) as gateway:
        answer = await preflight(gateway.url, {**ASKS, "Access-Control-Request-Headers": asked})
    assert "access-control-allow-headers" not in answer.headers


@pytest.mark.parametrize("target", [UNARY, SSE])
@pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [says({"decision": "deny", "reason": "No."})]}])
async def test_a_page_of_a_listed_origin_can_read_answers_and_denials(
    target: str, hooks: dict[str, Any]
) -> None:
    async with running_gateway(hooks, config=CONFIG) as gateway:
        allowed = await post(gateway.url, target, prompt("hi"), {**KEY, "Origin": PAGE})
        other = await post(gateway.url, target, prompt("hi"), {**KEY, "Origin": f"{PAGE}.evil"})
    assert allowed.headers["access-control-allow-origin"] == PAGE
    assert allowed.headers["vary"] == "Origin"
    assert "access-control-allow-origin" not in other.headers


async def test_other_questions_are_not_taken_for_a_browsers() -> None:
    async with running_gateway(config=CONFIG) as gateway:
        answer = await preflight(gateway.url, {"Origin": PAGE})
    assert (answer.status, "not OPTIONS" in answer.error["message"]) == (403, True)


@pytest.mark.parametrize("origin", ["https://evil.example", "null", f"{PAGE}.evil"])
async def test_no_hook_runs_on_an_event_that_a_page_of_another_origin_reports(origin: str) -> None:
    """A browser sends such a request without asking, and only hides the answer."""
    seen: list[Any] = []
    event = {"session_id": "s", "tool_name": "shell", "tool_input": {}}
    as_text = {"Content-Type": "text/plain"}
    async with running_gateway({"BeforeTool": [listens(seen)]}, config=CONFIG) as gateway:
        other = await post(gateway.url, BEFORE_TOOL, event, {**as_text, "Origin": origin})
        assert (other.status, seen) == (403, [])
        assert "clients.origins" in other.error["message"]
        for headers in ({}, {"Origin": PAGE}):
            assert (await post(gateway.url, BEFORE_TOOL, event, {**as_text, **headers})).status == 200
    assert len(seen) == 2
