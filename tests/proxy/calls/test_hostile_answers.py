"""Answers of a hostile upstream: what they cost other callers, and what they hide from hooks."""

import asyncio
import json
import threading
from collections import Counter
from typing import Any

import pytest
from support.bodies import chat, interactions, responses
from support.gateway.dialects import no_shell
from support.gateway.loopback import gateway_before, runs, says
from support.wire import (
    SSE,
    STREAM,
    STREAM_HEAD,
    UNARY,
    ask,
    ok,
    peer,
    post,
    prompt,
    response,
    spoken,
    sse,
)

from hookgate.hooks.policies.redact import Scanner
from hookgate.proxy.calls import answer_pipeline, citation_stage, pacing, pieces
from hookgate.proxy.calls.answer_pipeline import AnswerPipeline
from hookgate.proxy.calls.answer_reading import MAX_ERROR, AnswerLease, stream_slices
from hookgate.proxy.calls.citation_stage import CitedTexts
from hookgate.proxy.calls.pieces import Piece
from hookgate.proxy.config import Config
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.proxy.server.bodies import SMALL_BODY, work_of
from hookgate.translator import Frame, citations
from hookgate.translator import response as shown_response
from hookgate.translator.chat import CompletionChunks
from hookgate.translator.interactions import InteractionEvents
from hookgate.translator.responses import ResponseEvents
from hookgate.translator.streaming import events
from hookgate.translator.streaming.edits import respread

HI = prompt("hi")
KIB = 1024
JSON = {"Content-Type": "application/json"}
SECRET = "AKIA" + "Q3EGRYH7XJ4WPL2D"
ESCAPED = "".join(f"\\u{ord(character):04x}" for character in SECRET)
REDACT = {"AfterModel": [{"type": "builtin", "builtin": "redact"}]}

COUNT = "/v1beta/models/gemini-2.5-flash:countTokens"
EMBED = "/v1beta/models/gemini-embedding-001:embedContent"
BATCH = "/v1beta/models/gemini-2.5-flash:batchGenerateContent"
BODIES = {
    UNARY: HI,
    SSE: HI,
    COUNT: HI,
    EMBED: {"content": HI["contents"][0]},
    BATCH: {"batch": {"displayName": "b", "inputConfig": {"requests": {"requests": [{"request": HI}]}}}},
}
"""A request for each kind of call whose errors reach a client."""


# ---- time

SPOKEN = json.dumps(spoken("a")).encode()
TINY = {
    "texts": (SSE, b"data: " + SPOKEN + b"\n\n"),
    "empty events": (SSE, b"data:{}\n\n"),
    "comments": (SSE, b":\n\n"),
    "blank lines": (SSE, b"\r\r"),
    "elements": (STREAM, b"{},"),
    "lists in an element": (STREAM, b"[],"),
}


@pytest.mark.parametrize("tiny", TINY)
@pytest.mark.parametrize(
    "hooks",
    [{"BeforeModel": [says()]}, {"AfterModel": [says()]}],
    ids=["copied", "judged"],
)
async def test_other_calls_go_on_while_many_tiny_events_arrive_at_once(
    monkeypatch: pytest.MonkeyPatch, tiny: str, hooks: Any
) -> None:
    monkeypatch.setattr(pacing, "SLICE", 0)
    target, event = TINY[tiny]
    start = b"[" if target == STREAM else b""
    events_by_turn: Counter[int] = Counter()
    turn, reader = 0, AnswerMeter if "BeforeModel" in hooks else answer_pipeline.AnswerPipeline
    feed = reader.feed

    async def take_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(reading: Any, chunk: bytes, **options: bool) -> Any:
        events_by_turn[turn] += len(chunk) // len(event)
        return feed(reading, chunk, **options)

    monkeypatch.setattr(reader, "feed", noted)
    async with (
        peer(STREAM_HEAD + start + event * (200 * KIB // len(event))) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        others = asyncio.create_task(take_turns())
        await post(url, target, HI)
        others.cancel()
    assert 0 < max(events_by_turn.values()) < 1_100


@pytest.mark.parametrize(
    "data", [b"\n" * 100_000, b"\r\n" * 50_000, b"{}," * 30_000, b"[" * 100_000, b"a" * 300_000, b"a\n", b""]
)
def test_slices_of_a_stream_are_small_and_complete(data: bytes) -> None:
    slices = stream_slices(data)
    assert b"".join(slices) == data
    assert all(len(each) <= 64 * KIB and each.count(b"\n") * 128 <= SMALL_BODY for each in slices)
    assert len(slices) > 1 or len(data) < 3


async def test_citations_in_many_events_are_moved_beside_the_event_loop_and_not_without_end(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    move, threads = citation_stage.move_citations, []

    def noted(*given: Any) -> Any:
        threads.append(threading.current_thread())
        return move(*given)

    monkeypatch.setattr(citation_stage, "_COMPARED", 64 * KIB)
    monkeypatch.setattr(citation_stage, "move_citations", noted)
    cited = {"citationMetadata": {"citations": [{"startIndex": 4, "endIndex": 9}]}}
    events = [spoken(f"See {SECRET}. ", **cited)] * 300
    data = b"".join(sse(*events, spoken("", finishReason="STOP")))
    async with peer(STREAM_HEAD, data) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, SSE, HI)
    assert 30 < len(threads) < 150
    assert threading.main_thread() not in threads[-30:]
    assert 30 < answer.body.count(b"citationMetadata") < 150
    assert SECRET.encode() not in answer.body


CHAT = "/v1beta/openai/chat/completions"
MESSAGES = {"model": "gemini-2.5-flash", "messages": [{"role": "user", "content": "hi"}], "stream": True}
INPUT = {"model": "gemini-2.5-flash", "input": "hi", "stream": True}
RESPONSES, INTERACTIONS = "/v1beta/openai/responses", "/v1beta/interactions"
PIECES = ["{", *[" "] * 3_000, "}"]
ITEMS = responses.identified([responses.message(responses.output_text("a")) for _ in range(3_000)])
STEPS = [interactions.started({"type": "model_output"}, index) for index in range(3_000)]
PARTS = spoken("a")["candidates"][0]["content"]["parts"] * 3_000
LARGE: dict[str, tuple[str, Any, bytes]] = {
    "a call in many chunks": (CHAT, MESSAGES, chat.sse([*chat.called(PIECES), chat.ended()])),
    "a call in many events": (RESPONSES, INPUT, responses.sse(responses.whole(responses.called(PIECES)))),
    "many items in the last event": (
        RESPONSES,
        INPUT,
        responses.sse([responses.state("created"), responses.state("completed", ITEMS)]),
    ),
    "many steps at once": (INTERACTIONS, INPUT, interactions.sse([interactions.CREATED, *STEPS])),
    "many parts": (SSE, HI, sse({"candidates": [{"content": {"role": "model", "parts": PARTS}}]})[0]),
}
"""Large events, or events that are judged as a large one, for each dialect."""


@pytest.mark.parametrize("large", LARGE)
async def test_other_calls_go_on_while_a_large_event_is_judged(
    monkeypatch: pytest.MonkeyPatch, large: str
) -> None:
    """Large events are processed in a thread, and what they become in portions."""
    works, numbers = [0], [0]
    data, advance = Piece.data, AnswerPipeline._advance

    def note(frame: Frame) -> None:
        if threading.current_thread() is threading.main_thread():
            works.append(work_of(frame.raw))

    def noted_data(piece: Piece) -> bytes:
        note(piece.frame)
        return data(piece)

    async def noted_advance(pipeline: AnswerPipeline, pieces: list[Piece], *more: Any) -> Any:
        numbers.append(len(pieces))
        return await advance(pipeline, pieces, *more)

    def noted_encode(framing: Any, frame: Frame, new: bytes) -> bytes:
        note(frame)
        return encoders[type(framing)](framing, frame, new)

    encoders: dict[type, Any] = {}
    for framing in (CompletionChunks, InteractionEvents, ResponseEvents):
        encoders[framing] = framing.encode
        monkeypatch.setattr(framing, "encode", noted_encode)
    monkeypatch.setattr(Piece, "data", noted_data)
    monkeypatch.setattr(AnswerPipeline, "_advance", noted_advance)
    target, body, answer = LARGE[large]
    hooks = dict.fromkeys(("AfterModel", "BeforeTool"), REDACT["AfterModel"])
    async with peer(STREAM_HEAD, answer) as upstream, gateway_before(upstream.url, hooks) as url:
        await post(url, target, body)
    assert max(works) <= SMALL_BODY
    assert 0 < max(numbers) <= 1_000


NOTED = b"data: " + SPOKEN + b"\n" + b":%b\n" % (b"a" * 40 * KIB) * 8 + b"\n"
LINES = b"data: " + SPOKEN + b"\n" + b": a\n" * 900 + b"\n"


@pytest.mark.parametrize(("event", "threads"), [(NOTED, 1), (LINES, 0)], ids=["large", "small"])
async def test_the_lines_of_a_large_event_are_checked_in_a_thread(
    monkeypatch: pytest.MonkeyPatch, event: bytes, threads: int
) -> None:
    check, in_thread = answer_pipeline.check_frame, [0]

    def noted(*given: Any) -> None:
        in_thread[0] += threading.current_thread() is not threading.main_thread()
        check(*given)

    monkeypatch.setattr(answer_pipeline, "check_frame", noted)
    async with peer(STREAM_HEAD, event) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, SSE, HI)
    assert (answer.body, in_thread) == (b"data: %b\r\n\r\n" % SPOKEN, [threads])


@pytest.mark.parametrize(
    "event",
    [b"data: " + SPOKEN + b"\n" + b":\n" * 1_001 + b"\n", b"data: {}\n:%b\n\n" % (b"a" * 65 * KIB)],
    ids=["many lines", "a long comment"],
)
async def test_an_event_that_takes_long_to_check_is_refused(event: bytes) -> None:
    async with peer(STREAM_HEAD, event) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")


TOKENS = [{"token": f"ab1cd2ef{number}"} for number in range(1_000)]
MANY_SECRETS = json.dumps({"error": {"details": TOKENS}}).encode()
CALL = {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {"x": TOKENS}}}]}}]}
WITH_SECRETS = {
    "a call": (200, sse(CALL)[0]),
    "a text": (200, sse(spoken(" ".join(f"token=ab1cd2ef{n}" for n in range(1_000))))[0]),
    "small events": (200, sse(spoken(" ".join(f"token=ab1cd2ef{n}" for n in range(20))))[0] * 60),
    "an error": (429, MANY_SECRETS),
    "an error in the stream": (200, b"data: %b\r\n\r\n" % MANY_SECRETS),
}


@pytest.mark.parametrize("name", WITH_SECRETS)
async def test_other_calls_go_on_while_many_possible_secrets_are_checked(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """In the event loop, a few are checked, and then others have their turn, or a thread continues."""
    monkeypatch.setattr(pacing, "SLICE", 0)
    checks: Counter[tuple[bool, int]] = Counter()
    turn, check = 0, Scanner._at

    async def take_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    def noted(*given: Any) -> Any:
        in_loop = threading.current_thread() is threading.main_thread()
        checks[in_loop, turn if in_loop else 0] += 1
        return check(*given)

    monkeypatch.setattr(Scanner, "_at", noted)
    status, data = WITH_SECRETS[name]
    sent = STREAM_HEAD + data if status == 200 else response(status, data, JSON)
    async with peer(sent) as upstream, gateway_before(upstream.url, REDACT) as url:
        others = asyncio.create_task(take_turns())
        answer = await post(url, SSE, HI)
        others.cancel()
    assert b"[ASSIGNMENT]" in answer.body
    assert answer.body.count(b"ab1cd2ef") < 10  # a few have too many equal digits
    assert checks.total() >= 1_000
    assert max([number for (in_loop, _), number in checks.items() if in_loop], default=0) <= 700


def masked(event: dict[str, Any]) -> Any:
    text = event["llm_response"]["text"].replace("SEC1", "[X]").replace("SEC2", "[X]")
    return {"hookSpecificOutput": {"llm_response": {"text": text}}}


REPETITIVE = f"SEC1 {'a' * 20_000} SEC2"
BORDERS = range(0, len(REPETITIVE), 1_000)
SPANS = [{"startIndex": at, "endIndex": at + 10} for at in BORDERS]
ANNOTATIONS = [{"type": "url_citation", "start_index": at, "end_index": at + 10} for at in BORDERS]
IN_PIECES = [REPETITIVE[at : at + 1_000] for at in BORDERS]
PARTED = {"candidates": [{"content": {"role": "model", "parts": [{"text": piece} for piece in IN_PIECES]}}]}
ANNOTATED = responses.message({**responses.output_text(REPETITIVE), "annotations": ANNOTATIONS})
LONG_EDITS: dict[str, tuple[str, Any, bytes]] = {
    "a stream": (SSE, HI, STREAM_HEAD + b"".join(sse(*map(spoken, IN_PIECES)))),
    "parts": (UNARY, HI, ok(json.dumps(PARTED).encode())),
    "citations": (
        UNARY,
        HI,
        ok(json.dumps(spoken(REPETITIVE, citationMetadata={"citations": SPANS})).encode()),
    ),
    "annotations": (
        RESPONSES,
        responses.HI,
        ok(json.dumps(responses.state("completed", [ANNOTATED])["response"]).encode()),
    ),
    "annotations in a stream": (
        RESPONSES,
        INPUT,
        STREAM_HEAD
        + responses.sse(
            [responses.state("created"), responses.state("completed", responses.identified([ANNOTATED]))]
        ),
    ),
}


@pytest.mark.parametrize("name", LONG_EDITS)
async def test_long_edits_are_distributed_beside_the_event_loop(
    monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    sizes: Counter[bool] = Counter()

    def noted(old: list[str], new: str) -> list[str]:
        in_loop = threading.current_thread() is threading.main_thread()
        sizes[in_loop] = max(sizes[in_loop], len(new))
        return respread(old, new)

    for module in (citations, events, shown_response):
        monkeypatch.setattr(module, "respread", noted)
    target, body, answer = LONG_EDITS[name]
    hooks = {"AfterModel": [runs(masked, stream="complete")]}
    async with peer(answer) as upstream, gateway_before(upstream.url, hooks) as url:
        received = await post(url, target, body)
    assert b"[X]" in received.body
    assert b"SEC1" not in received.body
    assert sizes[True] <= 16 * KIB < sizes[False]


# ---- memory

MAY_BEGIN = spoken(f"The key is {SECRET[:12]}")
FOLLOWING: dict[str, Any] = {
    "events without text": {"candidates": [{}]},
    "thoughts": {"candidates": [{"content": {"parts": [{"text": "", "thought": True}]}}]},
    "function calls": {"candidates": [{"content": {"parts": [{"functionCall": {"name": "f", "args": {}}}]}}]},
    "errors": {"error": {"code": 500}},
}


@pytest.mark.parametrize("following", FOLLOWING)
async def test_what_follows_text_that_is_held_back_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, following: str
) -> None:
    monkeypatch.setattr(pieces, "MAX_ANSWER", 64 * KIB)
    first, event = sse(MAY_BEGIN, FOLLOWING[following])
    async with (
        peer(STREAM_HEAD, first, 0.1, event * 300) as upstream,
        gateway_before(upstream.url, REDACT) as url,
    ):
        answer = await post(url, SSE, HI)
    assert b"bytes of memory" in answer.body
    assert SECRET[:12].encode() not in answer.body


async def test_blank_lines_and_comments_are_not_held_back(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pieces, "MAX_ANSWER", 64 * KIB)
    first, last = sse(MAY_BEGIN, spoken("!", finishReason="STOP"))
    between = b"\r\n\r\n:\r\n\r\n" * 300
    async with (
        peer(STREAM_HEAD, first, 0.1, between, last) as upstream,
        gateway_before(upstream.url, REDACT) as url,
    ):
        answer = await post(url, SSE, HI)
    assert (answer.status, answer.complete) == (200, True)
    assert b'"STOP"' in answer.body


def test_citations_in_many_events_do_not_cost_more_than_their_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    compared = 0

    def noted(before: Any, after: Any, texts: tuple[str, str]) -> Any:
        nonlocal compared
        compared += sum(map(len, texts))
        return after

    monkeypatch.setattr(citation_stage, "move_citations", noted)
    texts = CitedTexts()
    texts.note_original(spoken("a" * 100_000))
    event = spoken("a" * 10, citationMetadata={"citations": [{"endIndex": 9}]})
    for _ in range(1_000):
        texts.note_original(event)
        texts.note_sent([Piece(Frame(b"", b""), event, event, ADAPTERS["generate_content"]())])
    assert texts.size < compared < 4 * 1024 * KIB + 5 * texts.size


def test_texts_are_not_kept_for_citations_beyond_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(citation_stage, "_MAX_CITED", 10)
    texts = CitedTexts()
    for _ in range(100):
        texts.note_original(spoken("a"))
    assert texts.size == 11


# ---- errors


@pytest.mark.parametrize(
    "hooks", [REDACT, {"BeforeModel": [says()]}, {}], ids=["judged", "copied", "forwarded"]
)
async def test_an_error_that_claims_to_be_a_success_is_recorded_as_a_failure(
    caplog: pytest.LogCaptureFixture, hooks: Any
) -> None:
    error = b'{"error": {"code": 503, "message": "overloaded", "status": "UNAVAILABLE"}}'
    async with peer(ok(error)) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.body) == (200, error)
    assert "the answer has an error: 503 UNAVAILABLE" in caplog.text


UNREADABLE = {
    "escaped, and not valid JSON": b'{"error": {"message": "%s"},}' % ESCAPED.encode(),
    "escaped, with a repeated key": b'{"error": {"message": "%s", "message": ""}}' % ESCAPED.encode(),
    "escaped, in an event": b'data: {"error": {"message": "%s"}}\r\n\r\n' % ESCAPED.encode(),
    "UTF-16": json.dumps({"error": {"message": SECRET}}).encode("utf-16"),
    "Latin-1": json.dumps({"error": {"message": f"é {ESCAPED}"}}, ensure_ascii=False).encode("latin-1"),
}


@pytest.mark.parametrize("error", UNREADABLE.values(), ids=UNREADABLE)
async def test_an_error_that_may_hide_a_secret_is_not_forwarded(error: bytes) -> None:
    async with peer(response(429, error, JSON)) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, UNARY, HI)
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")
    assert "its error is n" in answer.error["message"]


@pytest.mark.parametrize("target", BODIES)
@pytest.mark.parametrize(
    "text", [SECRET, ESCAPED, f"{ESCAPED} \\ud800"], ids=["plain", "escaped", "surrogate"]
)
async def test_a_secret_in_an_error_is_masked_whatever_was_asked(target: str, text: str) -> None:
    error = b'{"error": {"code": 429, "message": "%s"}}' % text.encode()
    async with peer(response(429, error, JSON)) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, target, BODIES[target])
    assert answer.status == 429
    assert "[AWS_ACCESS_KEY]" in answer.error["message"]


@pytest.mark.parametrize("target", BODIES)
async def test_an_error_without_secrets_keeps_its_bytes(target: str) -> None:
    error = b"<html><title>503</title> Try again at <b>noon</b>.</html>"
    async with peer(response(503, error, JSON)) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, target, BODIES[target])
    assert (answer.status, answer.body) == (503, error)


@pytest.mark.parametrize("target", BODIES)
async def test_an_error_that_hooks_block_is_refused(target: str) -> None:
    blocking = {"type": "builtin", "builtin": "redact", "options": {"actions": {"AWS_ACCESS_KEY": "block"}}}
    error = json.dumps({"error": {"message": SECRET}}).encode()
    async with (
        peer(response(429, error, JSON)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [blocking]}) as url,
    ):
        answer = await post(url, target, BODIES[target])
    assert (answer.status, answer.error["status"]) == (403, "PERMISSION_DENIED")


@pytest.mark.parametrize("target", BODIES)
async def test_a_very_large_error_is_not_buffered(target: str) -> None:
    error = b'{"error": [' + b"1," * (MAX_ERROR // 2) + b"1]}"
    async with peer(response(500, error, JSON)) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, target, BODIES[target])
    assert (answer.status, answer.error["status"]) == (502, "UNAVAILABLE")


# ---- events that clients may read otherwise

CALL_STEP = {"type": "function_call", "id": "c0", "name": "shell", "arguments": {}}
COMPLETED = responses.state("completed", [responses.call_item("{}", name="shell")])
STREAMS = {
    "a step without a type": (
        interactions.PATH,
        interactions.HI,
        [("interaction.created", interactions.CREATED), ("step.start", {"index": 0, "step": CALL_STEP})],
    ),
    "a type that is no text": (
        interactions.PATH,
        interactions.HI,
        [("interaction.created", {**interactions.CREATED, "event_type": []})],
    ),
    "output in an unknown event": (
        "/v1beta/openai/responses",
        {**responses.HI, "store": False},
        [("response.completed", {**COMPLETED, "type": "response.done"})],
    ),
}


@pytest.mark.parametrize("name", STREAMS)
async def test_events_that_some_clients_read_otherwise_are_refused(name: str) -> None:
    target, body, events = STREAMS[name]
    stream = "".join(f"event: {kind}\ndata: {json.dumps(event)}\n\n" for kind, event in events)
    hooks = {"BeforeTool": [runs(no_shell)]}
    async with (
        peer(STREAM_HEAD + stream.encode()) as upstream,
        gateway_before(upstream.url, hooks) as url,
    ):
        answer = await post(url, target, {**body, "stream": True})
    assert b"UPSTREAM_UNREADABLE" in answer.body
    assert b"shell" not in answer.body


def of_thought(text: str, kind: str) -> tuple[str, dict[str, Any]]:
    """An event with a piece of a thought of a response."""
    number = "summary_index" if "summary" in kind else "content_index"
    return kind, {"type": kind, "item_id": "r", "output_index": 0, number: 0, "delta": text}


SUMMARY, RAW = "response.reasoning_summary_text.delta", "response.reasoning_text.delta"
REASONING = {"type": "reasoning", "id": "r", "summary": []}
HALVES = SECRET[:10], SECRET[10:]


def in_step(kind: str, text: str, index: int) -> list[tuple[str, dict[str, Any]]]:
    """The events of a step of an interaction with a text."""
    events = [interactions.started({"type": kind}, index), interactions.delta(text, index)]
    return [(event["event_type"], event) for event in (*events, interactions.stopped(index))]


BETWEEN = {
    "a thought of another kind": (
        "/v1beta/openai/responses",
        {**responses.HI, "store": False},
        [
            ("response.output_item.added", responses.added(REASONING)),
            of_thought(HALVES[0], SUMMARY),
            of_thought("~", RAW),
            of_thought(HALVES[1], SUMMARY),
        ],
    ),
    "a thought of another name": (
        CHAT,
        MESSAGES,
        [
            ("", chat.chunk({key: text}))
            for key, text in (
                ("reasoning_content", HALVES[0]),
                ("reasoning", "~"),
                ("reasoning_content", HALVES[1]),
            )
        ],
    ),
    **{
        f"a text in a step {kind}": (
            interactions.PATH,
            interactions.HI,
            [
                *in_step("model_output", HALVES[0], 0),
                *in_step(kind, "~", 1),
                *in_step("model_output", HALVES[1], 2),
            ],
        )
        for kind in ("thought", "user_input", "google_search_result", "future")
    },
}


@pytest.mark.parametrize("name", BETWEEN)
async def test_what_clients_leave_out_between_two_texts_hides_no_secret(name: str) -> None:
    target, body, events = BETWEEN[name]
    stream = "".join(
        f"event: {kind}\ndata: {json.dumps(event)}\n\n" if kind else f"data: {json.dumps(event)}\n\n"
        for kind, event in events
    )
    async with (
        peer(STREAM_HEAD + stream.encode()) as upstream,
        gateway_before(upstream.url, REDACT) as url,
    ):
        answer = await post(url, target, {**body, "stream": True})
    assert b"which some clients leave out" in answer.body
    assert HALVES[1].encode() not in answer.body


async def test_events_have_the_name_of_their_type() -> None:
    events = [("response.completed", {**responses.state("in_progress"), "type": "response.future"})]
    stream = "".join(f"event: {kind}\ndata: {json.dumps(event)}\n\n" for kind, event in events)
    async with (
        peer(STREAM_HEAD + stream.encode()) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [runs(no_shell)]}) as url,
    ):
        answer = await post(url, "/v1beta/openai/responses", {**responses.HI, "store": False, "stream": True})
    assert answer.body.startswith(b"event: response.future\n")


SHELL_ITEM = responses.call_item("{}", name="shell")
UNTYPED = {key: value for key, value in SHELL_ITEM.items() if key != "type"}
UNKNOWN_TEXT = responses.message({"type": "future", "text": "hello"})


@pytest.mark.parametrize(
    "output", [[UNTYPED], [UNKNOWN_TEXT, SHELL_ITEM]], ids=["no type", "cannot be sent back"]
)
async def test_a_response_that_cannot_be_judged_or_asked_again_is_refused(output: list[Any]) -> None:
    body = json.dumps(responses.state("completed", output)["response"]).encode()
    async with (
        peer(response(200, body, JSON)) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [runs(no_shell)]}) as url,
    ):
        answer = await post(url, "/v1beta/openai/responses", {**responses.HI, "store": False})
    assert (answer.status, answer.error["details"][0]["reason"]) == (502, "UPSTREAM_UNREADABLE")


def called(**call: Any) -> dict[str, Any]:
    """An event with a function call, or a piece of one."""
    return {"candidates": [{"content": {"role": "model", "parts": [{"functionCall": call}]}}]}


def continued(path: str, value: Any, **more: Any) -> dict[str, Any]:
    """An event with a piece of an argument, after which more follows."""
    piece = {"jsonPath": path, "stringValue": value, **more}
    return called(partialArgs=[piece], willContinue=True)


BEGUN = called(name="run", willContinue=True)
IN_CALLS = {
    "another spelling of the path": [BEGUN, continued("$.a", HALVES[0]), continued("a", HALVES[1])],
    "quoted names": [BEGUN, continued("$['a']", HALVES[0]), continued("$['b']", HALVES[1])],
    "a number and a text": [
        BEGUN,
        called(partialArgs=[{"jsonPath": "$.a", "numberValue": 411111}], willContinue=True),
        continued("$.a", "1111111111"),
    ],
    "a piece after the end": [
        called(name="run", partialArgs=[{"jsonPath": "$.a", "stringValue": HALVES[0], "willContinue": True}]),
        continued("$.a", HALVES[1]),
    ],
    "another call in between": [
        BEGUN,
        continued("$.a", HALVES[0]),
        called(name="run", args={"a": "b"}),
        continued("$.a", HALVES[1]),
    ],
}
"""Calls in pieces that AI SDK puts together to a call with a secret."""


@pytest.mark.parametrize("name", IN_CALLS)
async def test_clients_put_no_arguments_together_that_hooks_have_not_judged_so(name: str) -> None:
    stream = b"".join(sse(*IN_CALLS[name], called(), spoken("", finishReason="STOP")))
    async with peer(STREAM_HEAD + stream) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, SSE, HI)
    assert b"jsonPath" not in answer.body
    assert SECRET.encode() not in answer.body


# ---- charsets

UTF7_TYPE = "; charset=utf-7"


@pytest.mark.parametrize("target", [*BODIES, STREAM])
@pytest.mark.parametrize("status", [200, 400])
async def test_the_client_reads_an_answer_in_the_charset_in_which_it_was_judged(
    target: str, status: int
) -> None:
    body = b'{"candidates": [], "note": "+ACI-"}'  # a quotation mark in UTF-7
    kind = "text/event-stream" if target == SSE and status == 200 else "application/json"
    data = b"data: " + body + b"\r\n\r\n" if kind == "text/event-stream" else body
    sent = response(
        status, b"[" + body + b"]" if target == STREAM else data, {"Content-Type": kind + UTF7_TYPE}
    )
    async with peer(sent) as upstream, gateway_before(upstream.url, REDACT) as url:
        answer = await post(url, target, BODIES.get(target, HI))
    assert answer.status == status
    assert answer.headers["content-type"].lower() == f"{kind}; charset=utf-8"


# ---- memory


async def test_large_answers_have_a_common_bound() -> None:
    config = Config.model_validate({"limits": {"memory": 2_000_000, "body": 2_000_000, "text": 2_000_000}})
    large = ok(json.dumps(spoken("a" * 1_500_000)).encode())
    async with (
        peer(large[:1_000_000], 0.3, large[1_000_000:]) as upstream,
        gateway_before(upstream.url, REDACT, config) as url,
    ):
        answers = await asyncio.gather(*(post(url, UNARY, HI) for _ in range(4)))
        alone = await post(url, UNARY, HI)
    refused = [answer for answer in answers if answer.status != 200]
    assert (len(refused), alone.status) == (3, 200)
    assert all(answer.status == 502 and "limits.memory" in answer.error["message"] for answer in refused)


def items(number: int, size: int) -> list[Any]:
    """Return the events of many items that no hook holds back."""
    events = [responses.state("created")]
    for index in range(number):
        item = responses.message(id=f"m{index}", x="a" * size)
        events += [responses.added(item, index), responses.done(item, index)]
    return events


def identified_events(number: int) -> list[Any]:
    return [
        {**interactions.CREATED, "event_id": "0"},
        *({"event_type": "step.future", "event_id": f"id {index}"} for index in range(number)),
    ]


KEPT = {
    "large items": (RESPONSES, INPUT, responses.sse(items(10, 10_000))),
    "many items": (RESPONSES, INPUT, responses.sse(items(100, 0))),
    "many steps": (
        INTERACTIONS,
        INPUT,
        interactions.sse([interactions.CREATED, *(interactions.stopped(index) for index in range(600))]),
    ),
}


@pytest.mark.parametrize("kept", KEPT)
async def test_what_is_kept_of_events_that_have_been_sent_has_a_limit(
    monkeypatch: pytest.MonkeyPatch, kept: str
) -> None:
    monkeypatch.setattr(answer_pipeline, "MAX_ANSWER", 64 * KIB)
    sizes = []
    resize = AnswerLease.resize

    def noted(lease: AnswerLease, size: int) -> None:
        sizes.append(size)
        resize(lease, size)

    monkeypatch.setattr(AnswerLease, "resize", noted)
    target, body, answer = KEPT[kept]
    parts = [answer[at : at + 8 * KIB] for at in range(0, len(answer), 8 * KIB)]
    sent = [each for part in parts for each in (part, 0.02)]
    async with (
        peer(STREAM_HEAD, *sent) as upstream,
        gateway_before(upstream.url, {"AfterModel": [says()]}) as url,
    ):
        received = await post(url, target, body)
    assert b"bytes of memory" in received.body
    assert 32 * KIB < max(sizes) <= 96 * KIB


async def test_the_ids_of_events_before_a_resumed_stream_have_a_limit(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(answer_pipeline, "MAX_ANSWER", 64 * KIB)
    path = f"{INTERACTIONS}/v1_1?stream=true&last_event_id=none"
    async with (
        peer(STREAM_HEAD + interactions.sse(identified_events(1_000))) as upstream,
        gateway_before(upstream.url, REDACT) as url,
    ):
        answer = await ask(url, "GET", path)
    assert b"bytes of memory" in answer.body
