"""Answers that end for any reason of the newest SDK reach hooks and clients with it."""

import json
from typing import Any

import pytest
from google.genai import types
from support.gateway.loopback import gateway_before, listens
from support.wire import HI, KEY, UNARY, ok, peer, post

Json = dict[str, Any]
REASONS = [each.value for each in types.FinishReason]
BLOCKS = [each.value for each in types.BlockedReason]


@pytest.mark.parametrize("reason", REASONS)
async def test_each_finish_reason_is_shown_to_hooks_and_sent_on(reason: str) -> None:
    content = {"role": "model", "parts": [{"text": "hello"}]}
    candidate = {"content": content, "finishReason": reason, "continuationToken": "b3BhcXVl"}
    data = json.dumps({"candidates": [candidate]}).encode()
    shown: list[Json] = []
    async with (
        peer(ok(data)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [listens(shown)]}) as url,
    ):
        answer = await post(url, UNARY, HI, KEY)
    assert answer.body == data
    assert [each["llm_response"]["candidates"][0]["finishReason"] for each in shown] == [reason]


@pytest.mark.parametrize("reason", BLOCKS)
async def test_each_block_reason_is_sent_on(reason: str) -> None:
    data = json.dumps({"promptFeedback": {"blockReason": reason}}).encode()
    async with peer(ok(data)) as upstream, gateway_before(upstream.url, {"AfterModel": [listens([])]}) as url:
        answer = await post(url, UNARY, HI, KEY)
    assert (answer.status, answer.body) == (200, data)
