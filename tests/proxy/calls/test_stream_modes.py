"""How much of a streamed answer a hook sees: one event, a sliding window, or all of it."""

import asyncio
import json
import threading
from collections.abc import Sequence
from itertools import pairwise
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.gateway.loopback import gateway_before, runs, says
from support.wire import HI, SSE, STREAM_HEAD, Answer, connected, peer, post, spoken, sse

from hookgate.hooks import Configuration, Engine, SessionContext
from hookgate.hooks.settings import Layer
from hookgate.proxy.calls import answer_stages, pieces
from hookgate.proxy.calls.answer_stages import EDIT_NOT_JSON
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.pieces import Piece
from hookgate.proxy.calls.screen_stage import ScreenStage
from hookgate.proxy.calls.window_stage import WindowStage
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.translator import Frame

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


def stream_text(answer: Answer, index: int = 0) -> str:
    texts = []
    for event in answer.events:
        for candidate in event.get("candidates", []):
            if candidate["index"] == index:
                texts += [part.get("text", "") for part in candidate["content"]["parts"]]
    return "".join(texts)


async def streamed(hooks: dict[str, Any], *says: Any, pause: float = 0.0, candidates: int = 1) -> Answer:
    """What a client gets of a stream of these events, with a pause between any two of them."""
    writes: list[Any] = [STREAM_HEAD]
    for event in sse(*says):
        writes += [event, pause] if pause else [event]
    async with peer(*writes) as upstream, gateway_before(upstream.url, hooks) as url:
        return await post(url, SSE, {**HI, "generationConfig": {"candidateCount": candidates}})


TEXT = f"The key is {SECRET}, keep it safe."


@pytest.mark.parametrize("mode", ["window", "complete"])
@settings(max_examples=25)
@given(cuts=st.lists(st.integers(0, len(TEXT)), max_size=8))
def test_a_secret_is_found_however_it_is_split(mode: str, cuts: list[int]) -> None:
    events = [*split(TEXT, *cuts), spoken("", finishReason="STOP")]
    answer = asyncio.run(streamed(masking(mode, window=12), *events, pause=0.0005))
    assert stream_text(answer) == TEXT.replace(SECRET, MASK)
    assert answer.events[-1]["candidates"][0]["finishReason"] == "STOP"
    assert len(answer.events) == len(events)


@pytest.mark.parametrize(
    ("layer", "expected"),
    [
        ("policy", f"The key is {MASK}."),
        ("explicit", f"The key is {MASK}."),
        ("user", f"The key is {SECRET}."),
    ],
)
async def test_operators_hook_finds_split_secret_unless_it_asks_for_events(
    layer: Layer, expected: str
) -> None:
    writes: list[Any] = [STREAM_HEAD]
    for event in sse(*split(f"The key is {SECRET}.", 14)):
        writes += [event, 0.02]
    hooks = {"AfterModel": [runs(mask)]}
    async with peer(*writes) as upstream, gateway_before(upstream.url, hooks, layer=layer) as url:
        assert stream_text(await post(url, SSE, HI)) == expected


async def test_a_hook_for_events_sees_each_as_it_comes() -> None:
    seen: list[str] = []
    note = runs(lambda event: seen.append(event["llm_response"]["text"]), stream="event")
    await streamed({"AfterModel": [note]}, spoken("a"), spoken("b"), pause=0.05)
    assert seen == ["a", "b"]


async def test_what_arrives_while_a_hook_thinks_is_judged_together() -> None:
    seen: list[str] = []

    async def ponder(event: dict[str, Any]) -> None:
        seen.append(event["llm_response"]["text"])
        await asyncio.sleep(0.3)

    events = [spoken(str(number)) for number in range(10)]
    answer = await streamed({"AfterModel": [runs(ponder, stream="event")]}, *events, pause=0.01)
    assert "".join(seen) == stream_text(answer) == "0123456789"
    assert len(seen) <= 3
    assert len(answer.events) == 10


async def test_text_before_a_window_is_released_before_the_stream_ends() -> None:
    never = asyncio.Event()
    events = sse(*[spoken("x" * 10) for _ in range(5)])
    async with (
        peer(STREAM_HEAD, *events, stays=never) as upstream,
        gateway_before(upstream.url, masking("window", window=25)) as url,
    ):
        body = await _begun(url, 2 * len(events[0]))
    assert body == b"".join(events[:2])


async def test_a_text_that_has_ended_leaves_the_window_once_enough_of_another_follows() -> None:
    """A model thinks before it answers, and its last thought must not hold back the answer."""
    never = asyncio.Event()
    thought = {"candidates": [{"content": {"parts": [{"text": "so", "thought": True}]}, "index": 0}]}
    events = sse(thought, *[spoken("x" * 10) for _ in range(15)])
    async with (
        peer(STREAM_HEAD, *events, stays=never) as upstream,
        gateway_before(upstream.url, masking("window", window=25)) as url,
    ):
        assert (await _begun(url, len(events[0]))).startswith(events[0])


def thinking(size: int) -> dict[str, Any]:
    return {"candidates": [{"content": {"parts": [{"text": "x" * size, "thought": True}]}, "index": 0}]}


async def test_a_text_around_long_thoughts_is_judged_as_one() -> None:
    def deny(event: dict[str, Any]) -> dict[str, Any] | None:
        found = "rocket" in event["llm_response"]["text"]
        return {"decision": "deny", "reason": "no"} if found else None

    events = [spoken("a roc"), *[thinking(400)] * 4, spoken("ket"), spoken("!", finishReason="STOP")]
    hooks = {"AfterModel": [runs(deny, stream="window", window=256)]}
    answer = await streamed(hooks, *events, pause=0.01)
    text = stream_text(answer)
    assert (text.startswith("a roc"), "ket" in text, text.endswith("no")) == (True, False, True)


async def test_an_edit_of_what_was_sent_is_an_error_unless_it_changes_what_follows() -> None:
    def edit(event: dict[str, Any]) -> dict[str, Any]:
        text = event["llm_response"]["text"]
        return {
            "hookSpecificOutput": {
                "llm_response": {"text": text.replace("roc", "***") if "!" in text else text}
            }
        }

    events = [spoken("a roc"), *[thinking(400)] * 4, spoken("ket!"), spoken("", finishReason="STOP")]
    answer = await streamed({"AfterModel": [runs(edit, stream="window", window=256)]}, *events, pause=0.01)
    assert "was sent before" in stream_text(answer)
    assert "ket" not in stream_text(answer)


async def _begun(url: str, size: int) -> bytes:
    async with connected(url) as wire:
        await wire.post(SSE, HI)
        _, headers = await wire.head()
        return await wire.received(size, headers)


async def test_window_shows_pieces_without_text_once() -> None:
    judged: list[int] = []

    async def judge(window: list[Piece]) -> list[Piece]:
        judged.append(len(window))
        return window

    stage, adapter = WindowStage(judge, 256), ADAPTERS["generate_content"]()
    events = [spoken("x"), *[{"candidates": [{"index": 0}]}] * 100, spoken("y"), {"usageMetadata": {}}]
    received = [Piece(Frame(b"", b""), event, event, adapter) for event in events]
    released = [piece for new in received for piece in await stage.feed([new])]
    assert [*released, *await stage.finish()] == received
    assert max(judged) == 3  # two with text, and a new one


async def test_the_largest_of_several_windows_applies_to_all_hooks() -> None:
    small, large = (runs(action, stream="window", window=size) for action, size in ((dict, 2), (mask, 12)))
    answer = await streamed({"AfterModel": [small, large]}, *map(spoken, TEXT), pause=0.001)
    assert stream_text(answer) == TEXT.replace(SECRET, MASK)


async def test_events_that_no_hook_changed_leave_a_window_unchanged() -> None:
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
    answer = await streamed(masking("complete"), *events, candidates=2)
    assert (stream_text(answer, 0), stream_text(answer, 1)) == (MASK, MASK)
    assert answer.events[2] == events[2]


async def test_a_denial_of_the_whole_answer_is_an_error_since_nothing_was_sent() -> None:
    deny = runs(lambda _: {"decision": "deny", "reason": "not this"}, stream="complete")
    answer = await streamed({"AfterModel": [deny]}, spoken("a"), spoken("b"))
    assert (answer.status, answer.error["message"]) == (403, "not this")


@pytest.mark.parametrize("mode", ["complete", "window"])
async def test_an_answer_that_is_held_back_has_a_bound(mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MAX_ANSWER", 10_000)
    answer = await streamed(masking(mode, window=10_000), *(spoken("a") for _ in range(30)))
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")


async def test_the_text_of_a_turn_that_hooks_are_to_judge_at_its_end_has_a_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(pieces, "MAX_ANSWER", 1000)
    answer = await streamed({"AfterAgent": [says()]}, *(spoken("a" * 100) for _ in range(11)))
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")
    answer = await streamed({"AfterAgent": [says()]}, *(spoken("a" * 100) for _ in range(10)))
    assert stream_text(answer, 0) == "a" * 1000


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
    assert "bad" not in stream_text(answer)
    assert stream_text(answer).endswith("not this")
    assert answer.events[-1]["candidates"][0]["finishReason"] == "STOP"


async def test_hooks_of_several_modes_each_see_what_the_finer_ones_left() -> None:
    seen: list[str] = []

    def shout(event: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"llm_response": {"text": event["llm_response"]["text"].upper()}}}

    note = runs(lambda event: seen.append(event["llm_response"]["text"]), stream="complete")
    answer = await streamed({"AfterModel": [note, runs(shout)]}, spoken("a"), spoken("b"), pause=0.02)
    assert (seen, stream_text(answer)) == (["AB"], "AB")


async def test_a_stream_that_breaks_off_lets_nothing_out_that_was_not_judged() -> None:
    begun = STREAM_HEAD.replace(b"Connection: close", b"Content-Length: 10000\r\nConnection: close")
    async with (
        peer(begun, *sse(spoken("held"))) as upstream,
        gateway_before(upstream.url, masking("complete")) as url,
    ):
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_BROKE")


@pytest.mark.parametrize("pause", [0.0, 0.02], ids=["together", "one by one"])
async def test_a_call_that_a_hook_removes_from_the_body_is_not_sent(pause: float) -> None:
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
    assert stream_text(answer) == "ab"


# ---- answers in JSON, of which a hook may see only a part

ASKS_JSON = {**HI, "generationConfig": {"responseMimeType": "application/json"}}
LIST = [spoken("[1, "), spoken("42"), spoken(", 3]", finishReason="STOP")]


def replacing(old: str, new: str, mode: str, window: int = 1) -> dict[str, Any]:
    """An AfterModel hook that replaces a text."""

    def edit(event: dict[str, Any]) -> dict[str, Any]:
        text = event["llm_response"]["text"].replace(old, new)
        return {"hookSpecificOutput": {"llm_response": {"text": text}}}

    return {"AfterModel": [runs(edit, stream=mode, window=window)]}


async def asked_for_json(hooks: dict[str, Any], body: dict[str, Any], pause: float = 0.0) -> Answer:
    """What a client gets of the list, in events with a pause between any two of them, or all at once."""
    events = sse(*LIST)
    writes: list[Any] = [STREAM_HEAD, *events] if pause else [STREAM_HEAD + b"".join(events)]
    for place in range(len(writes) - 1, 1, -1):
        writes.insert(place, pause)
    async with peer(*writes) as upstream, gateway_before(upstream.url, hooks) as url:
        return await post(url, SSE, body)


@pytest.mark.parametrize("mode", ["event", "window"])
async def test_the_end_of_an_answer_that_an_edit_has_left_no_json_says_so(mode: str) -> None:
    answer = await asked_for_json(replacing("42", "[NUMBER", mode), ASKS_JSON, pause=0.05)
    assert answer.status == 200
    assert stream_text(answer) == f"[1, [NUMBER{EDIT_NOT_JSON}"
    assert answer.events[-1]["candidates"][0]["finishReason"] == "STOP"


@pytest.mark.parametrize("mode", ["event", "window", "complete"])
async def test_an_answer_that_an_edit_has_left_no_json_is_refused_if_nothing_was_sent(mode: str) -> None:
    answer = await asked_for_json(replacing("42", "[NUMBER", mode, window=20), ASKS_JSON)
    assert (answer.status, answer.error["message"]) == (403, EDIT_NOT_JSON)


@pytest.mark.parametrize("mode", ["event", "window", "complete"])
@pytest.mark.parametrize(
    ("body", "new"),
    [
        pytest.param(ASKS_JSON, "4, 2", id="still JSON"),
        pytest.param(HI, "[NUMBER", id="JSON is not required"),
    ],
)
async def test_other_edits_of_parts_apply(
    body: dict[str, Any], new: str, mode: str, caplog: pytest.LogCaptureFixture
) -> None:
    answer = await asked_for_json(replacing("42", new, mode), body, pause=0.02)
    assert (answer.status, stream_text(answer)) == (200, f"[1, {new}, 3]")
    assert "no longer JSON" not in caplog.text  # a part that is no JSON may belong to an answer that is


async def test_a_masked_number_of_an_answer_in_json_is_a_string() -> None:
    redact = {"type": "builtin", "builtin": "redact", "options": {"words": {"NUMBER": ["42"]}}}
    answer = await asked_for_json({"AfterModel": [redact]}, ASKS_JSON)
    assert (answer.status, json.loads(stream_text(answer))) == (200, [1, "[NUMBER]", 3])


async def test_an_answer_that_is_too_large_to_be_checked_is_passed_on(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(answer_stages, "MAX_ANSWER", 4000)  # one event, but not all of them
    answer = await asked_for_json(replacing("42", "[NUMBER", "event"), ASKS_JSON, pause=0.02)
    assert stream_text(answer) == "[1, [NUMBER, 3]"
    assert "the answer is too large to check whether it is still JSON" in caplog.text


@pytest.mark.parametrize(
    ("hooks", "body"), [(masking("event"), ASKS_JSON), ({"AfterAgent": [says()]}, HI)], ids=["json", "turn"]
)
async def test_what_follows_the_end_of_an_answer_has_a_bound(
    hooks: dict[str, Any], body: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "MAX_ANSWER", 10_000)
    events = [spoken("1", finishReason="STOP"), *(spoken("") for _ in range(30))]
    async with peer(STREAM_HEAD, *sse(*events)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, SSE, body)
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")


@pytest.mark.parametrize("mode", ["event", "window", "complete"])
async def test_a_stream_without_events_is_an_empty_answer(mode: str) -> None:
    answer = await streamed(masking(mode))
    assert (answer.status, answer.body) == (200, b"")


class Passing:
    """A screen that passes every event at once."""

    slow = False

    def __init__(self) -> None:
        self._count = 0

    def takes_long(self, values: Sequence[Any]) -> bool:
        return False

    def feed(
        self, events: Sequence[dict[str, Any]], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, dict[str, Any]]]:
        first, self._count = self._count, self._count + len(events)
        return list(enumerate(events, first))

    def redact(self, value: Any) -> Any:
        return value

    def findings_output(self) -> dict[str, Any]:
        return {}


JUDGE = Judge(Engine(Configuration({})), CallRecord(), SessionContext("s"))


async def test_released_pieces_of_a_long_stream_are_not_kept() -> None:
    stage, adapter = ScreenStage(Passing(), JUDGE), ADAPTERS["generate_content"]()
    for event in split("a" * 100, *range(1, 100)):
        piece = Piece(Frame(b"", b""), event, event, adapter)
        assert await stage.feed([piece]) == [piece]
    assert len(stage._held) == 1  # a screen may split the last one


class Collecting(Passing):
    """A screen that passes all events at the end, and notes the thread that it runs in."""

    def __init__(self) -> None:
        super().__init__()
        self._events: list[dict[str, Any]] = []
        self.threads: list[int] = []

    def feed(
        self, events: Sequence[dict[str, Any]], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, dict[str, Any]]]:
        self.threads.append(threading.get_ident())
        self._events += events
        return list(enumerate(self._events)) if last else []


@pytest.mark.parametrize(("number", "in_thread"), [(10, False), (1_000, True)])
async def test_many_pieces_that_a_screen_has_held_are_judged_in_a_thread(
    number: int, in_thread: bool
) -> None:
    screen, adapter = Collecting(), ADAPTERS["generate_content"]()
    stage = ScreenStage(screen, JUDGE)
    for event in [spoken("a")] * number:
        await stage.feed([Piece(Frame(b"", b""), event, event, adapter)])
    assert len(cast(list[Any], await stage.finish())) == number
    assert (screen.threads[-1] != threading.get_ident()) is in_thread


CALL_PIECE = {"candidates": [{"content": {"parts": [{"functionCall": {"willContinue": True}}]}}]}
STAGES: list[tuple[Any, dict[str, Any]]] = [
    (
        lambda: answer_stages.WholeCallsStage(JUDGE.session.call_state.steps),
        CALL_PIECE,
    ),
    (lambda: answer_stages.TurnEndStage(cast(Any, None), None), spoken("", finishReason="STOP")),
    (
        lambda: answer_stages.JsonStage(answer_stages.OriginalStage(), cast(Any, None)),
        spoken("", finishReason="STOP"),
    ),
    (lambda: answer_stages.CompleteStage(cast(Any, None)), spoken("a")),
]


class CountedBytes(bytes):
    """Bytes of a frame that count how often their length is asked for."""

    asked = 0

    def __len__(self) -> int:
        CountedBytes.asked += 1
        return super().__len__()


async def _left_alone(pieces: list[Piece]) -> list[Piece]:
    return pieces


HOLDING = [
    *STAGES,
    (lambda: ScreenStage(Collecting(), JUDGE), spoken("a")),
    (lambda: WindowStage(_left_alone, 100), spoken("a")),
]


@pytest.mark.parametrize(
    ("make", "event"),
    HOLDING,
    ids=["calls in pieces", "end of turn", "JSON", "complete", "screen", "window"],
)
async def test_the_size_of_what_is_held_costs_the_same_however_much_it_is(
    make: Any, event: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is asked for after each read, so that many small events would cost their number squared."""
    monkeypatch.setattr(CountedBytes, "asked", 0)
    stage, adapter = make(), ADAPTERS["generate_content"]()
    for number in range(1, 51):
        assert await stage.feed([Piece(Frame(CountedBytes(b"abc"), b""), event, event, adapter)]) == []
        assert stage.held_bytes() == 3 * number
    assert 50 <= CountedBytes.asked <= 150
    await stage.abandon()
    assert stage.held_bytes() == 0


@pytest.mark.parametrize(
    ("make", "event"), STAGES, ids=["calls in pieces", "end of turn", "JSON", "complete"]
)
async def test_each_piece_that_is_held_is_measured_once(
    make: Any, event: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Otherwise a model that sends thousands of small events makes them cost their number squared."""
    measured: list[Piece] = []

    def memory_of(piece: Piece) -> int:
        measured.append(piece)
        return 1

    monkeypatch.setattr(pieces, "memory_of", memory_of)
    stage, adapter = make(), ADAPTERS["generate_content"]()
    for _ in range(50):
        assert await stage.feed([Piece(Frame(b"", b""), event, event, adapter)]) == []
    assert len(measured) == 50


@pytest.mark.parametrize(
    ("make", "event"), STAGES, ids=["calls in pieces", "end of turn", "JSON", "complete"]
)
async def test_an_answer_of_which_too_much_is_held_is_refused(
    make: Any, event: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pieces, "MAX_ANSWER", 50 * 600)
    stage, adapter = make(), ADAPTERS["generate_content"]()
    piece = Piece(Frame(b"", b""), event, event, adapter)
    with pytest.raises(ApiError, match="cannot be judged"):
        await stage.feed([piece] * 100)


async def test_comments_before_the_end_of_a_turn_keep_their_place() -> None:
    stage, adapter = answer_stages.TurnEndStage(cast(Any, Listening()), None), ADAPTERS["generate_content"]()
    comment = Piece(Frame(b":\n\n", b""), None, {}, adapter)
    text, end = (
        Piece(Frame(b"", b""), event, event, adapter)
        for event in (spoken("a"), spoken("", finishReason="STOP"))
    )
    assert await stage.feed([comment]) == []
    assert await stage.feed([text, comment]) == [comment, text]
    assert await stage.feed([end, text]) == []
    assert await stage.feed([comment]) == []
    assert await stage.finish() == [comment, end, text, comment]


class Listening:
    """Listens to the end of a turn."""

    async def turn_ended(self, text: str) -> None:
        assert text == "aa"
