"""Requests with two different credentials are refused: limits and the upstream could use different ones."""

import pytest
from support.gateway.loopback import running_gateway
from support.wire import UNARY, ask, post

from hookgate.proxy.config import Config

JUNK = {"x-goog-api-key": "junk", "Authorization": "Bearer a-real-key"}
LIVE = "/ws/google.ai.generativelanguage.v1.GenerativeService.BidiGenerateContent"
WEBSOCKET = {
    "Connection": "Upgrade",
    "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
}


@pytest.mark.parametrize(
    ("method", "target", "headers"),
    [
        ("POST", UNARY, JUNK),
        ("POST", f"{UNARY}?key=junk", {"Authorization": "Bearer a-real-key"}),
        ("POST", "/v1beta/models/m:embedContent", JUNK),
        ("GET", "/v1beta/models", JUNK),
        ("POST", "/v1beta/openai/chat/completions", JUNK),
        ("POST", "/hookgate/v1/events/SessionStart", JUNK),
        ("GET", "/hookgate/v1/receipts/r", JUNK),
        ("GET", LIVE, {**WEBSOCKET, **JUNK}),
        ("GET", f"{LIVE}?access_token=a-real-key", {**WEBSOCKET, "x-goog-api-key": "junk"}),
        ("GET", f"{LIVE}?access_token=a-real-key&key=junk", WEBSOCKET),
    ],
)
async def test_they_are_refused_on_every_route(method: str, target: str, headers: dict[str, str]) -> None:
    config = Config.model_validate({"routes": {"unhooked": ["live", "openai"]}})
    async with running_gateway(config=config) as gateway:
        if method == "GET":
            answer = await ask(gateway.url, method, target, headers)
        else:
            answer = await post(gateway.url, target, {"contents": []}, headers)
        assert not gateway.recorded
    assert (answer.status, "two different credentials" in answer.error["message"]) == (400, True)
    assert b"a-real-key" not in answer.body
