"""Streamed interactions: bytes stay as they came, calls are judged whole, and edits become events."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.interactions import (
    CREATED,
    Json,
    called,
    completed,
    copied,
    delta,
    interactions,
    sse,
    started,
    stopped,
)
from support.gateway.dialects import PIECES, SECRET, decided, redacted_stream
from support.translation import framing

from hookgate.hooks.policies.redact.detectors.detector import WORD, Detector
from hookgate.translator import BodyError, ToolCallFilter
from hookgate.translator.fields import strings_in
from hookgate.translator.interactions import InteractionEvents, decode_event, encode_event, new_interaction
from hookgate.translator.interactions.events import interaction_events
from hookgate.translator.strictjson import dumps, loads

TEXT = {"type": "model_output"}
SUMMARY = {"type": "thought_summary", "content": {"type": "text", "text": "a thought"}}


def streamed(
    data: bytes,
    change: Callable[[Json], Json] = lambda response: response,
    cuts: tuple[int, ...] = (),
    after: str = "",
) -> bytes:
    return framing.streamed(
        InteractionEvents(after), decode_event, encode_event, data, change=change, cuts=cuts
    )


def numbered(data: bytes) -> bytes:
    """The stream with an ID for each of its events."""
    return sse([{**event, "event_id": f"e{number}"} for number, event in enumerate(events_of(data))])


def events_of(data: bytes) -> list[Json]:
    return [
        json.loads(line) for line in re.findall(rb"^data: (.*)$", data, re.MULTILINE) if line != b"[DONE]"
    ]


def text_of(data: bytes) -> str:
    deltas = [event["delta"] for event in events_of(data) if event["event_type"] == "step.delta"]
    return "".join(each.get("text", "") for each in deltas)


def arguments_of(data: bytes) -> str:
    deltas = [event["delta"] for event in events_of(data) if event["event_type"] == "step.delta"]
    return "".join(each.get("arguments", "") for each in deltas)


def whole(*steps: list[Json]) -> bytes:
    return sse([CREATED, *(event for step in steps for event in step), completed()])


def text_step(pieces: list[str], index: int = 0) -> list[Json]:
    return [started(TEXT, index), *(delta(piece, index) for piece in pieces), stopped(index)]


# ---- what nobody changed


@given(PIECES, PIECES, st.lists(st.integers(0, 10_000), max_size=4))
def test_unchanged_events_keep_their_bytes_wherever_they_are_split(
    texts: list[str], arguments: list[str], cuts: list[int]
) -> None:
    call = called([piece for text in arguments for piece in (f'{{"a": {json.dumps(text)}', "}")][:2], 1)
    data = whole(text_step(texts), call, text_step(texts, 2))
    assert streamed(data, copied, tuple(cuts)) == data


def test_events_of_steps_that_overlap_keep_their_bytes_and_order() -> None:
    mixed = [started(TEXT, 0), started(TEXT, 1), delta("a", 0), delta("b", 1), stopped(1), stopped(0)]
    assert streamed(whole(mixed), copied) == whole(mixed)


@given(interactions())
def test_every_string_of_an_event_is_in_what_hooks_are_shown(body: Json) -> None:
    for frame in InteractionEvents().feed(sse(interaction_events(body))):
        shown = "\n".join(strings_in(decode_event(loads(frame.data)))) if frame.data else ""
        planted = set(re.findall(r"<\d+>", frame.data.decode()))
        assert planted == set(re.findall(r"<\d+>", shown))


def test_a_completed_interaction_that_repeats_its_steps_is_sent_without_them() -> None:
    data = sse([CREATED, completed(steps=[{**TEXT, "content": [{"type": "text", "text": SECRET}]}])])
    assert SECRET.encode() not in streamed(data)
    assert events_of(streamed(data))[-1] == completed()


UNKNOWN: dict[str, Callable[[str], Any]] = {
    "text": lambda said: {"type": "future", "text": said, "more": 1},
    "content": lambda said: {"type": "future", "content": {"type": "text", "text": said}, "more": 1},
    "contents": lambda said: {"type": "future", "content": [{"type": "text", "text": said}]},
    "unknown content": lambda said: {"type": "future", "content": {"type": "future", "text": said}},
    "string": lambda said: {"type": "future", "content": said},
}


@pytest.mark.parametrize("event_type", ["step.delta", "step.future"])
@pytest.mark.parametrize("kind", UNKNOWN)
@given(cut=st.integers(0, len(SECRET)))
def test_the_texts_of_deltas_of_unknown_types_are_judged_as_texts(
    kind: str, event_type: str, cut: int
) -> None:
    texts = ["so ", SECRET[:cut], SECRET[cut:], " ok"]
    deltas = [{"event_type": event_type, "index": 0, "delta": UNKNOWN[kind](text)} for text in texts]
    data = whole([started(TEXT), *deltas, stopped()])
    assert streamed(data, copied) == data
    for each, text in zip(deltas, texts, strict=True):
        assert decode_event(each)["candidates"][0]["content"]["parts"][0]["text"] == text
    shown = [event["delta"] for event in events_of(redacted(data)) if "delta" in event]
    assert SECRET not in json.dumps(shown)
    assert "".join(re.findall("so |KEY| ok", json.dumps(shown))) == "so KEY ok"
    assert all(each.keys() == UNKNOWN[kind]("").keys() for each in shown)


@pytest.mark.parametrize(
    "fields",
    [
        {"type": "thought_summary", "text": "x"},
        {**SUMMARY, "text": "x"},
        {**SUMMARY, "summary": [{"type": "text", "text": "x"}]},
        {"type": "thought_signature", "signature": "c2ln", "text": "x"},
        {"type": "thought_signature", "content": {"type": "text", "text": "x"}},
        {"type": "text", "text": "a", "content": {"type": "text", "text": "x"}},
        {"type": "image", "data": "aGk=", "mime_type": "image/png", "text": "x"},
        {"type": "google_search_call", "arguments": {"queries": ["a"]}, "text": "x"},
        {"type": "google_search_result", "result": [], "content": "x"},
        {"type": "future", "text": "a", "content": "x"},
        {"type": "future", "content": "a", "summary": "x"},
    ],
)
def test_a_delta_has_its_text_in_one_field(fields: Json) -> None:
    """A client may join the texts of another field, which hooks would have seen only piece by piece."""
    with pytest.raises(BodyError, match="cannot judge this field"):
        decode_event({"event_type": "step.delta", "index": 0, "delta": fields})


@pytest.mark.parametrize(
    "step", [{"type": "thought", "summary": [], "text": "x"}, {**TEXT, "summary": [{"type": "text"}]}]
)
def test_a_step_begins_with_its_text_in_one_field(step: Json) -> None:
    with pytest.raises(BodyError, match="cannot judge this field"):
        decode_event(started(step))


@pytest.mark.parametrize(
    "event", [completed(outputs=[{"type": "function_call", "name": "run"}]), started(TEXT)]
)
def test_an_event_that_is_not_a_piece_of_a_step_may_not_have_a_delta(event: Json) -> None:
    with pytest.raises(BodyError, match="has no delta"):
        decode_event({**event, "delta": {"type": "text", "text": SECRET}})


@pytest.mark.parametrize(
    "odd", [{"index": index} for index in (None, "0", 0.0, True, -1, 7)] + [{"event_id": 5}], ids=str
)
def test_a_piece_that_clients_leave_out_is_refused(odd: Json) -> None:
    """The AI SDK ignores pieces of steps that have not begun, and joins those around them."""
    events = [started(TEXT), delta("a"), {**delta("b"), **odd}, delta("c"), stopped()]
    with pytest.raises(BodyError):
        streamed(whole(events))


def test_a_text_at_the_beginning_of_an_output_is_sent_as_a_delta_because_clients_leave_it_out() -> None:
    begun = {**TEXT, "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]}
    out = streamed(whole([started(begun), delta("c"), stopped()]))
    assert events_of(out) == events_of(whole([started(TEXT), delta("a"), delta("b"), delta("c"), stopped()]))


def test_several_texts_of_a_delta_and_a_file_in_it_are_shown() -> None:
    contents = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    several = {"event_type": "step.delta", "index": 0, "delta": {"type": "future", "content": contents}}
    file = {"event_type": "step.delta", "index": 0, "delta": {"type": "future", "uri": "gs://b/f"}}
    data = whole([started(TEXT), several, file, stopped()])
    assert decode_event(several)["candidates"][0]["content"]["parts"] == [{"text": "a"}, {"text": "b"}]
    assert "fileData" in decode_event(file)["candidates"][0]["content"]["parts"][0]
    sent = events_of(streamed(data, louder))
    assert [each["delta"]["content"] for each in sent if "content" in each.get("delta", {})] == [
        [{"type": "text", "text": "B"}]
    ]


# ---- streams that are resumed


def louder(response: Json) -> Json:
    """The response with its texts in capitals, and without those that have an a."""
    parts = response["candidates"][0]["content"]["parts"]
    new = [{**part, "text": part["text"].upper()} if "text" in part else part for part in parts]
    new = [part for part in new if "A" not in part.get("text", "")]
    candidate = {**response["candidates"][0], "content": {"role": "model", "parts": new}}
    return {**response, "candidates": [candidate]}


@given(PIECES, PIECES, st.sampled_from([copied, louder]), st.lists(st.integers(0, 10_000), max_size=2))
def test_a_stream_continues_after_any_event(
    texts: list[str], arguments: list[str], change: Callable[[Json], Json], cuts: list[int]
) -> None:
    overlapping = [started(TEXT, 1), started(TEXT, 2), delta("b", 1), delta("c", 2), stopped(2), stopped(1)]
    call = called([piece for text in arguments for piece in (f'{{"a": {json.dumps(text)}', "}")][:2], 3)
    data = numbered(whole(text_step(texts), overlapping, call, text_step(texts, 4)))
    sent = events_of(streamed(data, change))
    for number, event in enumerate(sent, 1):
        rest = streamed(data, change, tuple(cuts), event["event_id"])
        assert events_of(rest) == sent[number:]
    assert events_of(streamed(data, change, tuple(cuts), "unknown")) == []


# ---- streams that end early


@given(st.integers(0, 10_000), PIECES)
def test_an_answer_in_place_of_the_rest_leaves_a_well_formed_stream(at: int, texts: list[str]) -> None:
    overlapping = [started(TEXT, 1), started(TEXT, 2), delta("b", 1), delta("c", 2), stopped(2), stopped(1)]
    data = whole(text_step(texts), overlapping, called(['{"a": 1}'], 3))
    framing = InteractionEvents()
    out = b"".join(framing.encode(frame, frame.data) for frame in framing.feed(data[: at % len(data)]))
    reason = {"candidates": [{"content": {"role": "model", "parts": [{"text": "No."}]}}]}
    ending = {**new_interaction(reason), "status": "incomplete"}
    events = [event for event in events_of(out + framing.event(dumps(ending))) if event]
    if any(event["event_type"] == "interaction.completed" for event in events_of(out)):
        return
    steps = [(event["event_type"], event["index"]) for event in events if "index" in event]
    begun = [index for kind, index in steps if kind == "step.start"]
    assert begun == sorted(set(begun))
    assert sorted(begun) == sorted(index for kind, index in steps if kind == "step.stop")
    assert events[0]["event_type"] == "interaction.created"
    assert events[-1]["interaction"]["id"] == events[0]["interaction"]["id"]
    assert events[-1]["interaction"]["status"] == "incomplete"
    assert text_of(sse(events)).endswith("No.")


# ---- redaction


KEY = Detector("KEY", r"sk_live_[0-9]{10}\b", group="credentials", preceded_by=WORD)


def redacted(data: bytes) -> bytes:
    return redacted_stream(data, InteractionEvents(), decode_event, encode_event, KEY)


@pytest.mark.parametrize("cut", range(len(SECRET) + 1))
def test_a_secret_is_masked_wherever_the_deltas_of_a_text_are_split(cut: int) -> None:
    data = whole(text_step(["the key is ", SECRET[:cut], SECRET[cut:], " as you know"]))
    assert text_of(redacted(data)) == "the key is [KEY] as you know"


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_secret_is_masked_if_two_steps_that_overlap_share_its_events(cut: int) -> None:
    mixed = [started(TEXT, 0), delta(SECRET[:cut], 0), started(TEXT, 1), delta("between", 1)]
    data = whole([*mixed, delta(SECRET[cut:], 0), stopped(0), stopped(1)])
    text = text_of(redacted(data))
    assert SECRET not in text
    assert "[KEY]" in text


@pytest.mark.parametrize("between", ["call", "thought", "nothing"])
@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_the_steps_around_a_text_hide_no_secret_in_it(cut: int, between: str) -> None:
    """Nor does a step that stands in the middle of a secret."""
    steps = []
    for index, said in enumerate(("up", SECRET[:cut], SECRET[cut:], "to")):
        thought = {"event_type": "step.delta", "index": 2 * index + 1, "delta": SUMMARY}
        others = {
            "call": called(["{}"], 2 * index + 1),
            "thought": [started({"type": "thought"}, 2 * index + 1), thought, stopped(2 * index + 1)],
            "nothing": [],
        }
        steps += [text_step([said], 2 * index), others[between]]
    assert text_of(redacted(whole(*steps))) == "up[KEY]to"


@pytest.mark.parametrize("cut", range(1, len(SECRET) + 9))
def test_a_secret_is_masked_wherever_the_arguments_of_a_call_are_split(cut: int) -> None:
    text = json.dumps({"key": SECRET})
    out = redacted(whole(called([text[:cut], text[cut:]])))
    assert json.loads(arguments_of(out)) == {"key": "[KEY]"}


# ---- decisions about calls


def test_a_call_is_judged_with_all_of_its_arguments() -> None:
    seen: list[Json] = []

    def note(response: Json) -> Json:
        seen.extend(ToolCallFilter().starting_calls(response))
        return response

    streamed(whole(called(['{"pa', 'th": "/etc', '/passwd"}'])), note)
    assert seen == [{"id": "c0", "name": "read_file", "args": {"path": "/etc/passwd"}}]


def test_a_refused_call_becomes_a_text_and_the_interaction_waits_for_nothing() -> None:
    status = {
        "interaction_id": "v1_1",
        "status": "requires_action",
        "event_type": "interaction.status_update",
    }
    data = sse([CREATED, *called(['{"a": 1}']), status, completed("requires_action")])
    out = streamed(data, decided("No."))
    assert text_of(out) == "No."
    assert b"function_call" not in out
    assert b"requires_action" not in out
    assert events_of(out)[-1]["interaction"]["status"] == "completed"


def test_other_arguments_come_in_one_piece() -> None:
    out = streamed(whole(called(['{"a"', ": 1}"])), decided({"b": 2}))
    assert [event["event_type"] for event in events_of(out)[1:-1]] == [
        "step.start",
        "step.delta",
        "step.stop",
    ]
    assert json.loads(arguments_of(out)) == {"b": 2}


@pytest.mark.parametrize(
    "events",
    [
        [started({"type": "function_call", "id": "1", "name": "shell", "arguments": {}})],
        called(['{"a": 1']),
        called(["[1]"]),
        called(['{"a": 1, "a": 2}']),
        [*called(['{"a": 1}'])[:-1], started(TEXT, 0), stopped(0)],
        [started({"type": "function_call", "name": "f", "arguments": {"a": 1}}), *called(['{"b": 2}'])[1:]],
        [{"event_type": "content.delta", "delta": {"type": "text", "text": "of an older revision"}}],
        [{"index": 0, "delta": {"type": "text", "text": 1}, "event_type": "step.delta"}],
        [{"index": 0, "delta": "text", "event_type": "step.delta"}],
        [{"index": 0, "delta": {"type": "function_call", "name": "shell"}, "event_type": "step.delta"}],
        [started(TEXT), *called(['{"a": 1}'])[1:]],
        called(['{"a": 1}'])[1:],
        [{**CREATED, "candidates": [{"content": {"parts": [{"text": "not of this API"}]}}]}],
        [{**completed(), "interaction": {"outputs": [{"type": "text", "text": "a"}]}}],
        [*called(["{}"])[:-1], delta("text within a call"), stopped(0)],
        [*called(["{}"])[:-1], {"index": 0, "delta": SUMMARY, "event_type": "step.delta"}, stopped(0)],
        [
            *called(["{}"])[:-1],
            {**started(TEXT), "index": None},
            {**delta("no index"), "index": None},
            stopped(0),
        ],
        [started(TEXT), delta("a"), stopped(0), delta("after its end")],
        [completed(usage="not an object")],
        [started(TEXT), {"index": 0, "delta": {"text": "no type"}, "event_type": "step.delta"}],
        [
            *called([])[:1],
            {"index": 0, "delta": {"type": "arguments_delta", "arguments": 1}, "event_type": "step.delta"},
        ],
    ],
)
def test_events_that_hooks_could_not_read_are_refused(events: list[Json]) -> None:
    with pytest.raises(BodyError):
        streamed(sse([CREATED, *events]))


@pytest.mark.parametrize("joined", [{"events": {}}, {"events": [delta("a")], "candidates": []}])
def test_what_only_resembles_joined_events_is_refused(joined: Json) -> None:
    with pytest.raises(BodyError, match="must be a list"):
        decode_event(joined)


def test_frames_that_are_not_events_are_refused_before_they_are_joined() -> None:
    call = sse(called(["{}"])).partition(b"\n\n")[0]
    two = b'data: {"event_type": "x"},{"event_type": "y"}'
    with pytest.raises(BodyError, match="not a JSON object"):
        InteractionEvents().feed(b"\n\n".join([call, two, b""]))


class CountedSteps(dict[int, bool]):
    """Open steps, and how many of them were looked at."""

    looks = 0

    def values(self) -> Any:
        for value in super().values():
            self.looks += 1
            yield value


def test_an_event_costs_the_same_however_many_steps_are_open() -> None:
    """An upstream could otherwise stop the event loop with steps that never end."""
    framing, steps = InteractionEvents(), CountedSteps()
    framing._open = steps
    events = [CREATED, *(started(TEXT, index) for index in range(1000))]
    framing.feed(sse(events))
    assert len(steps) == 1000
    assert steps.looks <= 2 * len(events)


def test_a_field_that_a_hook_removes_from_an_event_is_not_sent() -> None:
    event = {"event_type": "error", "error": {"message": "a secret"}, "note": "another", "id": "1"}
    response = decode_event(event)
    del response["error"], response["note"]
    assert encode_event(event, response) == {"event_type": "error", "id": "1"}


# ---- other answers


def parsed(data: bytes) -> list[Any]:
    from google.genai._gaos.types.interactions import InteractionSSEEvent  # noqa: PLC0415  # takes a second
    from pydantic import TypeAdapter  # noqa: PLC0415  # needed with the types alone

    return [TypeAdapter(InteractionSSEEvent).validate_json(json.dumps(event)) for event in events_of(data)]


def test_a_synthetic_answer_is_a_stream_that_the_sdk_reads() -> None:
    body = new_interaction({"candidates": [{"content": {"parts": [{"text": "hello"}]}}]}, "m")
    out = InteractionEvents().event(dumps(body))
    kinds = [type(event).__name__ for event in parsed(out)]
    assert kinds == [
        "InteractionCreatedEvent", "StepStart", "StepDelta", "StepStop", "InteractionCompletedEvent"
    ]  # fmt: skip
    assert text_of(out) == "hello"
    assert out.endswith(b"data: [DONE]\n\n")


def test_an_answer_in_the_middle_of_a_stream_continues_it() -> None:
    framing = InteractionEvents()
    for frame in framing.feed(sse([CREATED, *text_step(["a"])])):
        framing.encode(frame, frame.data)
    body = new_interaction({"candidates": [{"content": {"parts": [{"text": "stop"}]}}]})
    out = events_of(framing.event(dumps(body)))
    assert out[0]["event_type"] == "step.start"
    assert {event["index"] for event in out if "index" in event} == {1}


def test_a_second_answer_of_the_model_continues_the_first_one() -> None:
    framing, out = InteractionEvents(), b""
    for data in (
        sse([CREATED, *text_step(["a"])])[: -len("event: done\ndata: [DONE]\n\n")],
        whole(text_step(["b"])),
    ):
        for frame in framing.feed(data):
            out += framing.encode(frame, frame.data)
        framing.reset_decoder()
    kinds = [event["event_type"] for event in events_of(out)]
    assert kinds.count("interaction.created") == kinds.count("interaction.completed") == 1
    assert [event["index"] for event in events_of(out) if event["event_type"] == "step.start"] == [0, 1]


def test_text_that_a_hook_adds_at_the_end_is_a_step_of_its_own() -> None:
    def add(response: Json) -> Json:
        if response.get("event_type") != "interaction.completed":
            return response
        response = copied(response)
        response["candidates"][0]["content"]["parts"].append({"text": "added"})
        return response

    out = events_of(streamed(whole(text_step(["a"])), add))
    assert [event.get("index") for event in out if event["event_type"] == "step.start"] == [0, 1]
    assert out[-1]["event_type"] == "interaction.completed"


def test_text_that_a_hook_adds_to_any_event_reaches_the_client_once_and_in_steps_of_their_own() -> None:
    data = whole([started({"type": "thought"}, 0), stopped(0)], text_step(["a"], 1), called(['{"a": 1}'], 2))
    places = len(InteractionEvents().feed(data)) - 1
    for place in range(places):
        left = iter(range(places))

        def add(response: Json, place: int = place, left: Any = left) -> Json:
            if next(left) != place:
                return response
            response = copied(response)
            response["candidates"][0]["content"]["parts"].append({"text": "added"})
            return response

        out = events_of(streamed(data, add))
        starts = [event["index"] for event in out if event["event_type"] == "step.start"]
        assert starts == list(range(len(starts)))
        assert json.dumps(out).count("added") == 1
        stops = [event["index"] for event in out if event["event_type"] == "step.stop"]
        assert sorted(stops) == starts


def test_names_of_events_stay_and_other_lines_that_could_hold_text_go() -> None:
    framing = InteractionEvents()
    [frame] = framing.feed(b": secret\nid: secret\n" + sse([CREATED]).split(b"event: done")[0])
    canonical = framing.canonical(frame)
    assert canonical is not None
    assert canonical.raw.replace(b"\r\n", b"\n") == sse([CREATED]).split(b"event: done")[0]
    assert framing.canonical(canonical) is canonical


def test_a_field_that_should_be_an_object_can_be_edited() -> None:
    event = {"event_type": "step.stop", "index": 0, "delta": "secret"}
    assert encode_event(event, {**decode_event(event), "delta": "masked"})["delta"] == "masked"
