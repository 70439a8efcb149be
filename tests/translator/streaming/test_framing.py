"""Streamed answers: bytes to frames, and frames to bytes."""

import json
from collections.abc import Callable
from itertools import groupby, pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.translator import BodyError, Frame, Framing, JsonArray, ServerSentEvents
from hookgate.translator.chat.framing import CompletionChunks
from hookgate.translator.interactions.framing import InteractionEvents
from hookgate.translator.responses.framing import ResponseEvents
from hookgate.translator.streaming.joining import frame_event

Framed = type[Framing]
KINDS = [ServerSentEvents, CompletionChunks, ResponseEvents, InteractionEvents]


def decoded(framing: Framing, chunks: list[bytes]) -> list[Frame]:
    return [frame for chunk in chunks for frame in framing.feed(chunk)] + framing.finish()


def data_of(framing: Framed, stream: bytes) -> list[bytes]:
    return [frame.data for frame in decoded(framing(), [stream])]


def passed_on(framing: Framing, chunks: list[bytes]) -> bytes:
    return b"".join(framing.encode(frame, frame.data) for frame in decoded(framing, chunks))


def cut(stream: bytes, places: set[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(place % (len(stream) + 1) for place in places)})
    return [stream[a:b] for a, b in pairwise(edges)]


PLACES = st.sets(st.integers(0, 10_000), max_size=12)


# ---- server-sent events


EVENTS = st.lists(
    st.sampled_from(
        [
            'data: {"a": 1}',
            'data:{"a":1}',
            "data: aé😀秋b",
            ": comment",
            "event: x~data: y~id: 7",
            "data",
            "",
            ": keep-alive~~",
        ]
    ),
    max_size=6,
)


@st.composite
def event_streams(draw: st.DrawFn, *more: str) -> bytes:
    ends = draw(st.lists(st.sampled_from(["\n", "\r", "\r\n"]), min_size=1, max_size=3))
    events = draw(st.permutations([*draw(EVENTS), *more]))
    lines = "~".join(line for event in events for line in (event, "")).split("~")
    text = "".join(line + ends[i % len(ends)] for i, line in enumerate(lines))
    return text.encode()[: draw(st.sampled_from([None, None, -1, -3]))]


@given(event_streams("data: {~data: }"), PLACES)
def test_events_are_the_same_however_the_bytes_arrive(stream: bytes, places: set[int]) -> None:
    whole = with_joined_silence(decoded(ServerSentEvents(), [stream]))
    assert with_joined_silence(decoded(ServerSentEvents(), cut(stream, places))) == whole
    bytes_ = [bytes([byte]) for byte in stream]
    assert with_joined_silence(decoded(ServerSentEvents(), bytes_)) == whole


def with_joined_silence(frames: list[Frame]) -> list[Frame]:
    """Return the frames with those that follow each other without data as one."""
    joined: list[Frame] = []
    for has_data, group in groupby(frames, lambda frame: bool(frame.data)):
        found = [*group]
        joined += found if has_data else [Frame(b"".join(frame.raw for frame in found), b"")]
    return joined


@given(filler=st.sampled_from([b"\n", b"\r\n", b":\n\n", b": x\r\n\r\n"]), places=PLACES)
def test_very_many_comments_and_blank_lines_are_few_frames(filler: bytes, places: set[int]) -> None:
    stream = filler * 300 + b"data: {}\n\n"
    assert len(decoded(ServerSentEvents(), cut(stream, places))) <= 2 * len(places) + 3


@given(event_streams(), PLACES)
def test_events_that_no_hook_edits_keep_their_bytes(stream: bytes, places: set[int]) -> None:
    passed = passed_on(ServerSentEvents(), cut(stream, places))
    data = [event.data for event in decoded(ServerSentEvents(), [stream])]
    if any(b"\n" in each for each in data):  # an event of several data lines goes on as one line
        assert [event.data for event in decoded(ServerSentEvents(), [passed])] == [
            each.replace(b"\n", b" ") for each in data
        ]
    else:
        assert passed == stream


@pytest.mark.parametrize(
    ("stream", "data"),
    [
        (b"data: 1\n\ndata: 2\n\n", [b"1", b"2"]),
        (b"data: 1\r\rdata: 2\r\r", [b"1", b"2"]),
        (b"data: 1\r\n\r\ndata: 2\r\n\r\n", [b"1", b"2"]),
        (b"data: 1\n\r\ndata: 2\r\n\n", [b"1", b"2"]),
        (b"data:1\n\ndata:  2\n\n", [b"1", b" 2"]),
        (b'data: {"a":\ndata: 1}\n\n', [b'{"a":\n1}']),
        (b"event: x\ndata: 1\nid: 3\n\n", [b"1"]),
        (b": ping\n\ndata: 1\n\n", [b"", b"1"]),
        (b"data: 1\n\ndata: 2", [b"1", b"2"]),
        (b"data: 1\n\ndata: 2\n", [b"1", b"2"]),
        (b"data: 1\n\n\n", [b"1", b""]),
        (b"", []),
    ],
)
def test_an_event_ends_at_a_blank_line_of_any_kind_or_with_the_stream(
    stream: bytes, data: list[bytes]
) -> None:
    assert data_of(ServerSentEvents, stream) == data


def test_an_event_comes_out_as_soon_as_its_blank_line_is_there() -> None:
    framing = ServerSentEvents()
    assert framing.feed(b"data: 1\r\n\r") == []
    assert framing.feed(b"\n") == [Frame(b"data: 1\r\n\r\n", b"1")]
    assert framing.feed(b"data: 2\n\n") == [Frame(b"data: 2\n\n", b"2")]
    assert framing.finish() == []


def test_an_edited_event_is_one_data_line_and_a_blank_line() -> None:
    framing = ServerSentEvents()
    (frame,) = framing.feed(b": c\nid: 1\ndata: {\ndata: }\n\n")
    assert framing.encode(frame, b'{"a":1}') == b'data: {"a":1}\r\n\r\n'
    assert framing.event(b"{}") + framing.end() == b"data: {}\r\n\r\n"


def test_several_data_lines_are_sent_as_one() -> None:
    framing = ServerSentEvents()
    (frame,) = framing.feed(b'data:{"x":\ndata: {"a": 1}\r\n: c\rdata:}\n\n')
    assert frame.data == b'{"x":\n{"a": 1}\n}'
    assert framing.encode(frame, frame.data) == b'data: {"x": {"a": 1} }\r\n\r\n'


def test_an_event_added_behind_one_without_its_blank_line_is_an_event_of_its_own() -> None:
    framing = ServerSentEvents()
    sent = passed_on(framing, [b"data: 1\n\ndata: 2"]) + framing.event(b"3")
    assert data_of(ServerSentEvents, sent) == [b"1", b"2", b"3"]


KEPT = "keep-alive"
SENT = st.lists(
    st.sampled_from([KEPT, 'data: {"a": 1}\r\n\r\n', 'data:{"b": 2}\n\n', '\r\ndata: {"c": 3}\r\n\r\n'])
)


def kept_alive(framing: Framing, pieces: list[str]) -> bytes:
    """What a client gets of these pieces of a stream."""
    sent = [
        framing.keep_alive() if piece is KEPT else framing.after_keep_alive(piece.encode())
        for piece in pieces
    ]
    return b"".join([*sent, framing.after_keep_alive(b"")])


@given(SENT)
def test_keep_alives_are_a_part_of_the_event_after_them(pieces: list[str]) -> None:
    events = [json.loads(data) for data in data_of(ServerSentEvents, kept_alive(ServerSentEvents(), pieces))]
    given_ends = pieces[-1:] == [KEPT]
    expected = [json.loads(piece.strip().removeprefix("data:")) for piece in pieces if piece is not KEPT]
    assert events == expected + [{}] * given_ends


@given(SENT.filter(lambda pieces: pieces[:1] == [KEPT]))
def test_the_bytes_before_the_first_event_are_those_that_every_client_takes(pieces: list[str]) -> None:
    sent = kept_alive(ServerSentEvents(), pieces)
    assert sent.startswith(b"data: ")
    assert json.loads(sent.split(b"\n")[0].removeprefix(b"data:")) is not None


@given(
    st.lists(st.sampled_from([b"da", b"ta:", b" 1", b"\r\n", b"\n", b"x", b"data: 2"]), max_size=8).map(
        b"".join
    ),
    PLACES,
)
def test_a_stream_that_is_copied_after_keep_alives_may_be_cut_anywhere(
    stream: bytes, places: set[int]
) -> None:
    whole, pieces = ServerSentEvents(), ServerSentEvents()
    begun = whole.keep_alive()
    assert pieces.keep_alive() == begun
    expected = whole.after_keep_alive(stream) + whole.after_keep_alive(b"")
    found = b"".join(map(pieces.after_keep_alive, cut(stream, places))) + pieces.after_keep_alive(b"")
    assert found == expected


def test_what_begins_with_another_line_follows_an_event_of_its_own() -> None:
    framing = ServerSentEvents()
    sent = framing.keep_alive() + framing.after_keep_alive(b": comment\n\ndata: 1\n\n")
    assert sent == b"data: {}\r\n\r\n: comment\n\ndata: 1\n\n"


def test_a_keep_alive_behind_an_event_without_its_blank_line_begins_another_event() -> None:
    framing = ServerSentEvents()
    sent = passed_on(framing, [b"data: 1\n\ndata: 2"]) + framing.keep_alive()
    assert data_of(ServerSentEvents, sent + framing.after_keep_alive(framing.event(b"3"))) == [
        b"1",
        b"2",
        b" 3",
    ]


@pytest.mark.parametrize("framing", [CompletionChunks, ResponseEvents, InteractionEvents])
def test_keep_alives_between_events_with_names_are_line_ends(framing: Callable[[], Framing]) -> None:
    events = framing()
    assert events.keep_alive() + events.after_keep_alive(b"event: x\n") == b"\r\nevent: x\n"


# ---- JSON arrays


ELEMENTS = [
    {"a": 1},
    {"text": '}]{["\\'},
    {"text": 'say "hi\\" {'},
    {"deep": [{"x": [[]]}, {}], "é": "😀秋"},
    {},
]
LAYOUTS = st.sampled_from([("[", "\r\n,\r\n", "\r\n]"), ("[", ",", "]"), (" [\n", " , ", "\n]\n")])


@st.composite
def arrays(draw: st.DrawFn) -> tuple[list[object], bytes]:
    elements = draw(st.lists(st.sampled_from(ELEMENTS), max_size=4))
    opening, comma, closing = draw(LAYOUTS)
    indent = draw(st.sampled_from([None, 2]))
    ascii_only = draw(st.booleans())
    texts = [json.dumps(element, indent=indent, ensure_ascii=ascii_only) for element in elements]
    return list(elements), (opening + comma.join(texts) + closing).encode()


@given(arrays(), PLACES)
def test_elements_are_the_same_however_the_bytes_arrive(
    array: tuple[list[object], bytes], places: set[int]
) -> None:
    elements, stream = array
    for chunks in ([stream], cut(stream, places), [bytes([byte]) for byte in stream]):
        frames = decoded(JsonArray(), chunks)
        assert [json.loads(frame.data) for frame in frames if frame.data] == elements
        assert frames == decoded(JsonArray(), [stream])


@given(arrays(), PLACES)
def test_arrays_that_no_hook_edits_keep_their_bytes(
    array: tuple[list[object], bytes], places: set[int]
) -> None:
    framing = JsonArray()
    assert passed_on(framing, cut(array[1], places)) + framing.end() == array[1]


@given(
    arrays(), PLACES, st.lists(st.sampled_from(["pass", "edit", "drop", "add", "add and pass"]), max_size=5)
)
def test_whatever_is_edited_dropped_and_added_the_answer_is_a_json_array(
    array: tuple[list[object], bytes], places: set[int], steps: list[str]
) -> None:
    framing, sent, wanted = JsonArray(), b"", []
    for number, frame in enumerate(decoded(framing, cut(array[1], places))):
        step = steps[number] if number < len(steps) else "pass"
        if not frame.data:
            step = "pass"  # the closing bracket
        if step.startswith("add"):
            sent, wanted = sent + framing.event(b'{"new":1}'), [*wanted, {"new": 1}]
        if step == "edit":
            sent, wanted = sent + framing.encode(frame, b"[2.0]"), [*wanted, [2.0]]
        if step.endswith("pass"):
            sent += framing.encode(frame, frame.data)
            wanted += [json.loads(frame.data)] if frame.data else []
    assert json.loads(sent + framing.end()) == wanted


@given(arrays(), st.integers(0, 5), st.booleans(), PLACES)
def test_an_answer_that_a_gateway_ends_early_is_a_json_array(
    array: tuple[list[object], bytes], passed: int, adds: bool, places: set[int]
) -> None:
    """At once, after some elements, or instead of the closing bracket; whatever else has arrived already."""
    framing = JsonArray()
    frames = [frame for frame in decoded(framing, cut(array[1], places)) if frame.data][:passed]
    sent = b"".join(framing.encode(frame, frame.data) for frame in frames)
    sent += framing.event(b'{"stopped":1}') if adds else b""
    wanted = [json.loads(frame.data) for frame in frames] + ([{"stopped": 1}] if adds else [])
    assert json.loads(sent + framing.end()) == wanted


def test_an_edited_element_keeps_its_place_in_googles_layout() -> None:
    framing = JsonArray()
    first, second = framing.feed(b'[{"a": 1}\r\n,\r\n{"a": 2}\r\n]')
    (closing,) = framing.finish()
    sent = framing.encode(first, b'{"b":1}') + framing.encode(second, second.data)
    assert sent + framing.encode(closing, closing.data) + framing.end() == b'[{"b":1}\r\n,\r\n{"a": 2}\r\n]'


def test_an_array_that_breaks_off_between_elements_is_closed() -> None:
    framing = JsonArray()
    assert passed_on(framing, [b'[{"a": 1}\r\n']) + framing.end() == b'[{"a": 1}\r\n]'


def test_an_answer_that_is_not_an_array_is_refused() -> None:
    with pytest.raises(BodyError, match="not a JSON array"):
        JsonArray().feed(b' {"error": {}}')


def test_keep_alives_are_white_space_to_json() -> None:
    framing = JsonArray()
    alive = framing.keep_alive()
    sent = alive + framing.event(b"1") + alive + framing.event(b"2") + alive + framing.end()
    assert json.loads(alive + sent + alive) == [1, 2]


def test_an_unchanged_event_behind_one_without_its_blank_line_is_an_event_of_its_own() -> None:
    framing = ServerSentEvents()
    framing.feed(b"data: 1")
    (last,) = framing.finish()
    framing.reset_decoder()
    (first,) = framing.feed(b"data: 2\r\n\r\n")
    sent = framing.encode(last, last.data) + framing.encode(first, first.data)
    assert data_of(ServerSentEvents, sent) == [b"1", b"2"]


@pytest.mark.parametrize(
    ("raw", "canonical"),
    [
        (b"data: {}\r\n\r\n", b"data: {}\r\n\r\n"),
        (b"data: {}\n\n", b"data: {}\n\n"),
        (b": hidden\ndata: {}\n\n", b"data: {}\r\n\r\n"),
        (b"event: hidden\r\nid: hidden\r\ndata: {}\r\n\r\n", b"data: {}\r\n\r\n"),
        (b"data: {}\nhidden\n\n", b"data: {}\r\n\r\n"),
        (b"retry: hidden\rdata:{}\r\r", b"data: {}\r\n\r\n"),
        (b"data: {\ndata: }\n\n", b"data: { }\r\n\r\n"),
        (b"data:{}", b"data: {}\r\n\r\n"),
        (b": hidden\n\n", None),
        (b"id: hidden\n\n", None),
    ],
)
def test_a_canonical_event_has_nothing_besides_its_data(raw: bytes, canonical: bytes | None) -> None:
    framing = ServerSentEvents()
    [frame] = [*framing.feed(raw), *framing.finish()]
    assert framing.canonical(frame) == (None if canonical is None else Frame(canonical, frame.data))


def test_joined_events_are_canonical_one_by_one() -> None:
    frame = Frame(b"id: 1\ndata: 1\n\n: a\n\ndata:2\r\r", b"[1,2]")
    assert ServerSentEvents().canonical(frame) == Frame(b"data: 1\r\n\r\ndata: 2\r\n\r\n", b"[1,2]")


# ---- names of events


@pytest.mark.parametrize("name", ["a\ndata: x", "a\rdata: x", "a\n\ndata: x", "a\u2028b", " a", "", None, 1])
def test_a_name_that_could_contain_lines_is_left_out_of_an_event(name: Any) -> None:
    assert frame_event(name, {"type": name}).splitlines()[0].startswith(b"data: {")


def test_an_event_has_the_name_it_is_given() -> None:
    assert frame_event("step.delta", {"a": 1}) == b'event: step.delta\ndata: {"a":1}\n\n'


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("line", [b":\n", b"data:\r", b"event:\r\n", b"x\n"])
@pytest.mark.parametrize("begin", [b"data: {}\n", b""])
def test_an_event_has_a_limited_number_of_lines(kind: Framed, line: bytes, begin: bytes) -> None:
    with pytest.raises(BodyError, match="more than 1000 lines"):
        kind().feed(begin + line * 1_001 + b"\n\n")
    with pytest.raises(BodyError, match="more than 1000 lines"):
        decoded(kind(), [begin + line * 1_001])
    with pytest.raises(BodyError, match="more than 1000 lines"):
        [*map(kind().feed, [line] * 2_001)]


def test_many_lines_of_several_events_and_comments_are_no_event_of_many_lines() -> None:
    comment, event = b":\r\n" * 500 + b"\r\n", b"data: {}\n" + b"id: 1\n" * 900 + b"\n"
    frames = decoded(ServerSentEvents(), [(comment + event) * 4])
    assert [frame.data for frame in frames] == [b"", b"{}"] * 4
