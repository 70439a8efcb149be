"""Each kind of receiver gets its own format, and the secret is where the format has it, and nowhere else."""

import zlib
from dataclasses import replace

import pytest
from aiohttp import web
from support.operating.receivers import SECRET, dripping, endless, receiving_alerts

from hookgate.proxy.alerts.notices import alert_notice
from hookgate.proxy.alerts.receivers import Receiver, SendResult
from hookgate.proxy.alerts.showing import test_messages as messages_of_a_test

KEY = "0123456789abcdef" * 2


@pytest.mark.parametrize(
    ("kind", "secret", "sign"),
    [
        ("json", SECRET, '"type": "alert.test"'),
        ("slack", "", '"type": "plain_text"'),
        ("teams", "", '"type": "AdaptiveCard"'),
        ("pagerduty", KEY, '"event_action": "trigger"'),
    ],
)
async def test_a_receiver_gets_its_format(kind: str, secret: str, sign: str) -> None:
    async with receiving_alerts() as received:
        receiver = Receiver("ops", kind, received.url, secret)
        for message in messages_of_a_test("ops"):
            assert (await receiver.send(alert_notice(message), "msg_1")).error == ""
        await receiver.close()
    first, headers = received.bodies[0].decode(), received.headers[0]
    assert sign in first
    assert headers["content-type"] == "application/json"
    assert ("webhook-signature" in headers) is (kind == "json")
    assert (KEY in first) is (kind == "pagerduty")
    assert SECRET not in str(received)


async def test_nothing_of_an_answer_is_read_but_its_status() -> None:
    async def bomb(_: web.Request) -> web.StreamResponse:
        body = zlib.compress(bytes(64 * 1024 * 1024))
        return web.Response(body=body, headers={"Content-Encoding": "deflate"})

    async with receiving_alerts() as received:
        receiver = Receiver("ops", "slack", received.url, "")
        for answer in (bomb, dripping, endless):
            received.answer = answer
            assert await receiver.send(alert_notice(messages_of_a_test("ops")[0]), "msg_1") == SendResult()
        await receiver.close()


async def test_a_receiver_that_does_not_exist_is_named_without_its_url() -> None:
    receiver = Receiver("ops", "slack", "http://127.0.0.1:1/services/canary", "")
    notice = alert_notice(replace(messages_of_a_test("ops")[0], rule="r"))
    result = await receiver.send(notice, "msg_1")
    await receiver.close()
    assert result == SendResult("cannot be reached: 127.0.0.1:1: Connection refused")
