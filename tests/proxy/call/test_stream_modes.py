"""How much of a streamed answer a hook sees: events, a sliding window, or all of it."""

import asyncio
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gateway import gateway_before, runs
from support.wire import HI, SSE, STREAM_HEAD, Answer, connected, peer, post, spoken, sse

from hookgate.proxy.call import stages

SECRET, MASK = "sk-123456", "[KEY]"
CALL = {"functionCall": {"name": "f", "args": {"a": 1}}, "thoughtSignature": "c2ln"}


def mask(event: dict[str, Any]) -> dict[str, Any]:
    """An AfterModel hook that masks the secret wherever it sees the whole of it."""
    shown = event["llm_response"]
    for candidate in shown["candidates"]:
        content = candidate["content"]
        content["parts"] = [part.replace(SECRET, MASK) for part in content["parts"]]
    return {"hookSpecificOutput": {"llm_response": shown}}


def masking(mode: str, **more: Any) -> dict[str, Any]:
    return {"AfterModel": [runs(mask, stream=mode, **more)]}


def split(text: str, *cuts: int) -> list[dict[str, Any]]:
    edges = [0, *sorted(cuts), len(text)]
    return [spoken(text[a:b]) for a, b in pairwise(edges)]


def said(answer: Answer, index: int = 0) -> str:
    texts = []
    for event in answer.events:
        for candidate in event.get("candidates", []):
            if candidate["index"] == index:
                texts += [part.get("text", "") for part in candidate["content"]["parts"]]
    return "".join(texts)


async def streamed(hooks: dict[str, Any], *says: Any, pause: float = 0.0) -> Answer:
    """What a client gets of a stream of these events, with a pause between any two of them."""
    writes: list[Any] = [STREAM_HEAD]
    for event in sse(*says):
        writes += [event, pause] if pause else [event]
    async with peer(*writes) as upstream, gateway_before(upstream.url, hooks) as url:
        return await post(url, SSE, HI)


TEXT = f"The key is {SECRET}, keep it safe."


@pytest.mark.parametrize("mode", ["window", "complete"])
@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_a_secret_is_found_however_it_is_split(mode: str, cuts: list[int]) -> None:
    events = [*split(TEXT, *cuts), spoken("", finishReason="STOP")]
    answer = asyncio.run(streamed(masking(mode, window=12), *events, pause=0.0005))
    assert said(answer) == TEXT.replace(SECRET, MASK)
    assert answer.events[-1]["candidates"][0]["finishReason"] == "STOP"
    assert len(answer.events) == len(events)


async def test_a_hook_for_events_sees_each_as_it_comes() -> None:
    seen: list[str] = []
    note = runs(lambda event: seen.append(event["llm_response"]["text"]))
    await streamed({"AfterModel": [note]}, spoken("a"), spoken("b"), pause=0.05)
    assert seen == ["a", "b"]


async def test_what_arrives_while_a_hook_thinks_is_judged_together() -> None:
    seen: list[str] = []

    async def ponder(event: dict[str, Any]) -> None:
        seen.append(event["llm_response"]["text"])
        await asyncio.sleep(0.3)

    events = [spoken(str(number)) for number in range(10)]
    answer = await streamed({"AfterModel": [runs(ponder)]}, *events, pause=0.01)
    assert "".join(seen) == said(answer) == "0123456789"
    assert len(seen) <= 3
    assert len(answer.events) == 10


async def test_a_window_lets_go_what_is_behind_it_before_the_stream_ends() -> None:
    never = asyncio.Event()
    events = sse(*[spoken("x" * 10) for _ in range(5)])
    async with (
        peer(STREAM_HEAD, *events, stays=never) as upstream,
        gateway_before(upstream.url, masking("window", window=25)) as url,
    ):
        body = await _begun(url, 2 * len(events[0]))
    assert body == b"".join(events[:2])


async def _begun(url: str, size: int) -> bytes:
    async with connected(url) as wire:
        await wire.post(SSE, HI)
        _, headers = await wire.head()
        return await wire.received(size, headers)


async def test_events_that_nobody_changed_leave_a_window_as_they_came() -> None:
    events = [*split("nothing to hide here, not a thing", 3, 9, 20), spoken("", finishReason="STOP")]
    answer = await streamed(masking("window", window=5), *events)
    assert answer.body == b"".join(sse(*events))


async def test_calls_and_candidates_keep_their_place_and_state() -> None:
    events = [
        spoken("sk-12", 0),
        spoken("sk-1", 1),
        {"candidates": [{"content": {"role": "model", "parts": [CALL]}, "index": 0}]},
        spoken("3456", 0),
        spoken("23456", 1, finishReason="STOP"),
    ]
    answer = await streamed(masking("complete"), *events)
    assert (said(answer, 0), said(answer, 1)) == (MASK, MASK)
    assert answer.events[2] == events[2]


async def test_a_denial_of_the_whole_answer_is_an_error_since_nothing_was_sent() -> None:
    deny = runs(lambda _: {"decision": "deny", "reason": "not this"}, stream="complete")
    answer = await streamed({"AfterModel": [deny]}, spoken("a"), spoken("b"))
    assert (answer.status, answer.error["message"]) == (403, "not this")


@pytest.mark.parametrize("mode", ["complete", "window"])
async def test_an_answer_that_is_held_back_has_a_bound(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(stages, "MAX_ANSWER", 10_000)
    answer = await streamed(masking(mode, window=10_000), *(spoken("a") for _ in range(30)))
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")


async def test_a_denial_within_a_window_ends_the_stream_with_its_reason() -> None:
    def deny(event: dict[str, Any]) -> dict[str, Any] | None:
        bad = "bad" in event["llm_response"]["text"]
        return {"decision": "deny", "reason": "not this"} if bad else None

    events = [
        spoken("fine words. "),
        spoken("and more. "),
        spoken("b"),
        spoken("a"),
        spoken("d"),
        spoken("never seen"),
    ]
    hooks = {"AfterModel": [runs(deny, stream="window", window=8)]}
    answer = await streamed(hooks, *events, pause=0.02)
    assert "never seen" not in answer.body.decode()
    assert "bad" not in said(answer)
    assert said(answer).endswith("not this")
    assert answer.events[-1]["candidates"][0]["finishReason"] == "STOP"


async def test_hooks_of_several_modes_each_see_what_the_finer_ones_left() -> None:
    seen: list[str] = []

    def shout(event: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"llm_response": {"text": event["llm_response"]["text"].upper()}}}

    note = runs(lambda event: seen.append(event["llm_response"]["text"]), stream="complete")
    answer = await streamed({"AfterModel": [note, runs(shout)]}, spoken("a"), spoken("b"), pause=0.02)
    assert (seen, said(answer)) == (["AB"], "AB")


async def test_a_stream_that_breaks_off_lets_nothing_out_that_was_not_judged() -> None:
    begun = STREAM_HEAD.replace(b"Connection: close", b"Content-Length: 10000\r\nConnection: close")
    async with (
        peer(begun, *sse(spoken("held"))) as upstream,
        gateway_before(upstream.url, masking("complete")) as url,
    ):
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_BROKE")


@pytest.mark.parametrize("pause", [0.0, 0.02], ids=["together", "one by one"])
async def test_a_call_that_a_hook_takes_out_of_the_body_goes_to_nobody(pause: float) -> None:
    def without_calls(event: dict[str, Any]) -> dict[str, Any]:
        raw = event["llm_response"]["raw"]
        for candidate in raw.get("candidates", []):
            content = candidate["content"]
            content["parts"] = [part for part in content["parts"] if "functionCall" not in part]
        return {"hookSpecificOutput": {"llm_response": {"raw": raw}}}

    call = {"candidates": [{"content": {"role": "model", "parts": [CALL]}, "index": 0}]}
    hooks = {"AfterModel": [runs(without_calls, view="raw")]}
    answer = await streamed(hooks, spoken("a"), call, spoken("b", finishReason="STOP"), pause=pause)
    assert "functionCall" not in answer.body.decode()
    assert said(answer) == "ab"
