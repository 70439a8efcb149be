"""Half of a surrogate pair in JSON, which models write now and then: hooks see what is sent."""

import json
import threading
import tracemalloc
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.chat import HI as CHAT_HI
from support.bodies.chat import text_chunk
from support.gateway.loopback import gateway_before, listens, says
from support.hooks.policies import CARD
from support.wire import SSE, STREAM_HEAD, UNARY, ok, peer, post, prompt, spoken

from hookgate.translator.streaming import framing
from hookgate.translator.strictjson import Bounds, parse, with_whole_characters

Json = dict[str, Any]
HOOKS = {"type": "builtin", "builtin": "redact", "options": {"words": {"CARD": [CARD]}}}
CALL = {"functionCall": {"name": "cron", "args": {"id": "at \ud800"}}}
CHAT = "/v1beta/openai/chat/completions"
SLICE = 256 * 1024
"""The bytes of a large text that are searched at once."""


def repaired(value: Any) -> Any:
    return json.loads(json.dumps(value).replace("\\ud800", "\\ufffd"))


@given(st.text(st.characters(exclude_categories=()) | st.sampled_from('\ud800\udc00\\u"'), max_size=40))
def test_each_lone_surrogate_and_nothing_else_becomes_u_fffd(text: str) -> None:
    data = json.dumps({"a": [text]}).encode()
    text = json.loads(data)["a"][0]  # adjacent halves are one character
    expected = "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in text)
    assert json.loads(with_whole_characters(data)) == {"a": [expected]}
    assert parse(data, Bounds(10_000, 10_000)).value == {"a": [expected]}
    assert (with_whole_characters(data) is data) == (expected == text)


@given(
    st.text(st.sampled_from('\ud83d\ude00\\u"\n'), min_size=1, max_size=20),
    st.integers(SLICE - 120, SLICE),
)
def test_escapes_between_two_slices_of_a_large_text_are_read_as_a_whole(text: str, before: int) -> None:
    data = json.dumps({"a": "x" * before + text}).encode()
    whole = json.loads(data)["a"][before:]  # adjacent halves are one character
    expected = "".join("\ufffd" if "\ud800" <= each <= "\udfff" else each for each in whole)
    assert json.loads(with_whole_characters(data))["a"][before:] == expected


@pytest.mark.parametrize("escape", [rb"\n", rb"\ud800"])
def test_a_text_of_escapes_is_repaired_in_the_memory_of_some_copies(escape: bytes) -> None:
    """A list of its pieces would take as much memory as a hundred, and seconds of everyone's time to free."""
    data = b'["' + escape * 200_000 + rb"\ud800" + b'"]'
    tracemalloc.start()
    try:
        with_whole_characters(data)
        assert tracemalloc.get_traced_memory()[1] < 5 * len(data)
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize("hooks", [[listens([])], [HOOKS]], ids=["seen", "redact"])
@pytest.mark.parametrize("target", [UNARY, SSE])
async def test_an_answer_with_a_lone_surrogate_passes_repaired(target: str, hooks: list[Any]) -> None:
    answer = spoken(f"card {CARD}")
    answer["candidates"][0]["content"]["parts"].append(CALL)
    data = json.dumps(answer).encode()
    parts = [STREAM_HEAD, b"data: " + data + b"\r\n\r\n"] if target == SSE else [ok(data)]
    async with peer(*parts) as upstream, gateway_before(upstream.url, {"AfterModel": hooks}) as url:
        received = await post(url, target, {"contents": [{"parts": [{"text": "x"}]}]})
    assert received.status == 200
    assert b"ud800" not in received.body
    found = json.loads(received.body.removeprefix(b"data: "))["candidates"][0]["content"]["parts"]
    assert found[-1] == repaired(CALL)


async def test_a_history_with_a_lone_surrogate_is_sent_as_hooks_see_it() -> None:
    seen: list[Json] = []
    turns = [
        {"role": "user", "parts": [{"text": "x \ud800"}]},
        {"role": "model", "parts": [CALL]},
        {"role": "user", "parts": [{"functionResponse": {"name": "cron", "response": {"output": "none"}}}]},
    ]
    hooks = {"BeforeModel": [listens(seen) | {"view": "body"}]}
    async with (
        peer(ok(json.dumps(spoken("hi")).encode())) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        answer = await post(url, UNARY, {"contents": turns})
    assert answer.status == 200
    sent = json.loads(upstream.heard[0].split(b"\r\n\r\n")[1])
    assert sent["contents"] == seen[0]["llm_request"]["raw"]["contents"] == repaired(turns)


async def test_a_streamed_completion_with_a_lone_surrogate_passes_repaired() -> None:
    chunk = text_chunk("a \ud800")
    data = b"data: " + json.dumps(chunk).encode() + b"\n\ndata: [DONE]\n\n"
    async with (
        peer(STREAM_HEAD, data) as upstream,
        gateway_before(upstream.url, {"AfterModel": [HOOKS]}) as url,
    ):
        answer = await post(url, CHAT, {**CHAT_HI, "stream": True}, {"Authorization": "Bearer k"})
    assert json.dumps("a \ufffd").encode() in answer.body


async def test_many_lone_surrogates_are_replaced_in_a_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    replace, in_event_loop = framing.with_whole_characters, [0]

    def noted(data: bytes) -> bytes:
        if threading.current_thread() is threading.main_thread():
            in_event_loop.append(data.count(b"\\ud800"))
        return replace(data)

    monkeypatch.setattr(framing, "with_whole_characters", noted)
    event = json.dumps(spoken("~")).replace("~", "\\ud800" * 5_000)
    async with (
        peer(STREAM_HEAD + f"data: {event}\r\n\r\n".encode()) as upstream,
        gateway_before(upstream.url, {"AfterModel": [says()]}) as url,
    ):
        answer = await post(url, SSE, prompt("hi"))
    assert answer.body.count("\ufffd".encode()) + answer.body.count(b"\\ufffd") == 5_000
    assert sum(in_event_loop) == 0
