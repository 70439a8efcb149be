"""Streamed responses: bytes stay as they came, calls are judged whole, and edits become events."""

import json
import re
from collections.abc import Callable
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st
from openai import omit
from openai.lib.streaming.responses._responses import ResponseStreamState
from openai.types.responses import Response, ResponseStreamEvent
from support.bodies.interactions import Json, copied
from support.bodies.responses import (
    MODEL,
    added,
    call_item,
    called,
    done,
    message,
    output_text,
    responses,
    sse,
    state,
    text_events,
    whole,
)
from support.gateway.dialects import PIECES, SECRET, decided, redacted_stream
from support.translation import framing

from hookgate.translator import BodyError, ToolCallFilter, text_response
from hookgate.translator.fields import strings_in
from hookgate.translator.responses import (
    ResponseEvents,
    decode_response_event,
    encode_response_event,
    new_response,
)
from hookgate.translator.responses.events import response_events
from hookgate.translator.streaming.framing import MAX_EVENT
from hookgate.translator.strictjson import dumps, loads

KINDS = ["output_text", "refusal", "reasoning_text", "summary_text"]
KINDS_OF_EVENTS: dict[str, Any] = {
    get_args(kind.model_fields["type"].annotation)[0]: kind
    for kind in get_args(get_args(ResponseStreamEvent)[0])
}


def streamed(
    data: bytes, change: Callable[[Json], Json] = lambda response: response, cuts: tuple[int, ...] = ()
) -> bytes:
    return framing.streamed(
        ResponseEvents(), decode_response_event, encode_response_event, data, change=change, cuts=cuts
    )


def events_of(data: bytes) -> list[Json]:
    return [json.loads(line) for line in re.findall(rb"^data: (.*)$", data, re.MULTILINE)]


def final(data: bytes) -> Json:
    """The response as the last event has it."""
    response: Json = events_of(data)[-1]["response"]
    return response


def text_of(data: bytes) -> str:
    """The text as a client joins it from the pieces."""
    kinds = ("response.output_text.delta", "response.refusal.delta")
    return "".join(event["delta"] for event in events_of(data) if event["type"] in kinds)


def repeated(data: bytes) -> set[str]:
    """The texts of messages as the events repeat them: at the end of each text and of the response."""
    found: set[str] = set()
    for event in events_of(data):
        if event["type"] in ("response.output_text.done", "response.refusal.done"):
            found.add(event.get("text", event.get("refusal")))
        items = [event["item"]] if event["type"] == "response.output_item.done" else []
        if event["type"] == "response.completed":
            items = event["response"]["output"]
        texts = [
            "".join(content.get("text", content.get("refusal")) for content in item["content"])
            for item in items
            if item["type"] == "message"
        ]
        found |= set(texts) if event["type"] == "response.output_item.done" else {"".join(texts)}
    return found - {""}


def calls_of(data: bytes) -> list[tuple[str, str]]:
    """The names and arguments of the calls at the end of the response."""
    return [(i["name"], i["arguments"]) for i in final(data)["output"] if i["type"] == "function_call"]


def read_by_sdk(data: bytes) -> Any:
    """The response as the SDK accumulates it from the events, each of which it knows."""
    sdk: ResponseStreamState[Any] = ResponseStreamState(input_tools=omit, text_format=omit)
    for event in events_of(data):
        sdk.handle_event(KINDS_OF_EVENTS[event["type"]].model_validate(event))
    return sdk._completed_response  # what get_final_response returns


# ---- what nobody changed


@given(PIECES, PIECES, st.sampled_from(KINDS), st.lists(st.integers(0, 10_000), max_size=4))
def test_unchanged_events_keep_their_bytes_wherever_they_are_split(
    texts: list[str], arguments: list[str], kind: str, cuts: list[int]
) -> None:
    pieces = ['{"a": ', *(json.dumps("".join(arguments))[i : i + 3] for i in range(0, 99, 3)), "}"]
    data = sse(whole(text_events(texts, 0, kind), called(pieces, 1), called(["{}"], 2)))
    assert streamed(data, copied, tuple(cuts)) == data
    assert streamed(data + b"data: [DONE]\n\n", copied) == data + b"data: [DONE]\n\n"


def streamed_unless_refused(data: bytes, apply: Callable[[Json], Json]) -> bytes | None:
    """What is sent of a stream, or None if a message goes on after an item that clients may not know."""
    try:
        return streamed(data, apply)
    except BodyError as error:
        if "which some clients leave out" not in str(error):
            raise
        return None


@given(responses())
def test_a_response_can_be_streamed_in_events(body: Json) -> None:
    body = {**body, "output": [{"id": f"i{n}", **item} for n, item in enumerate(body.get("output") or ())]}
    data = sse(response_events(body), counted=False)
    assert streamed_unless_refused(data, copied) in (data, None)
    assert final(data)["output"] == body["output"]


@given(responses())
def test_every_string_of_a_stream_is_in_what_hooks_are_shown(body: Json) -> None:
    shown: list[Json] = []

    def see(response: Json) -> Json:
        shown.append(response)
        return response

    if streamed_unless_refused(sse(response_events(body), counted=False), see) is None:
        return
    seen = "\n".join(text for response in shown for text in strings_in(response))
    assert set(re.findall(r"<\d+>", json.dumps({**body, "output_text": ""}))) <= set(
        re.findall(r"<\d+>", seen)
    )


def test_text_flows_while_it_is_judged_and_a_call_is_held_until_it_is_complete() -> None:
    framing = ResponseEvents()

    def released(each: Json) -> int:
        return len(framing.feed(sse([each])))

    assert [released(each) for each in text_events(["a", "b"])[0]] == [1] * 7
    assert [released(each) for each in called(['{"a": ', "1}"], 1)[0]] == [0, 0, 0, 0, 1]


@pytest.mark.parametrize("id_", [None, 5, "", "another"])
def test_a_piece_of_a_text_has_the_id_of_its_item_because_clients_leave_out_others(id_: Any) -> None:
    events = whole(text_events(["a", "b"]))
    changed = [{**event, "item_id": id_} if "item_id" in event else event for event in events]
    assert events_of(streamed(sse(changed))) == events_of(streamed(sse(events)))


LOGPROB = {"token": "a", "logprob": -1.0}


@pytest.mark.parametrize("tokens", [[{}], [None], [LOGPROB], [{**LOGPROB, "top_logprobs": [{"token": "a"}]}]])
def test_a_piece_of_a_text_has_no_logprobs_for_which_clients_leave_it_out(tokens: list[Any]) -> None:
    events = whole(text_events(["a", "b"]))
    at = next(n for n, event in enumerate(events) if event["type"].endswith("text.delta"))
    changed = [*events[:at], {**events[at], "logprobs": tokens}, *events[at + 1 :]]
    assert events_of(streamed(sse(changed))) == events_of(streamed(sse(events)))


def test_an_item_without_an_id_gets_one() -> None:
    events, item = text_events(["a"])
    bare = json.loads(json.dumps(whole((events, item))))
    for event in bare:
        for holder in (event.get("item"), *event.get("response", {}).get("output", ())):
            if holder:
                del holder["id"]
    out = events_of(streamed(sse(bare)))
    ids = {event.get("item_id", event.get("item", {}).get("id")) for event in out if "output_index" in event}
    assert ids == {"item_0"}


def test_a_text_does_not_go_on_after_the_next_one_of_its_item() -> None:
    events, item = text_events(["a", "b"], kind="summary_text")
    at = next(n for n, event in enumerate(events) if event["type"].endswith("text.delta"))
    other = {**events[at], "summary_index": 1, "delta": "~"}
    with pytest.raises(BodyError, match="goes on after the next one"):
        streamed(sse(whole(([*events[: at + 1], other, *events[at + 1 :]], item))))


@pytest.mark.parametrize("kind", ["weather", "reasoning"])
def test_a_message_does_not_go_on_after_the_text_of_an_item_that_clients_leave_out(kind: str) -> None:
    first, between, last = (text_events([text], index=n, id_=f"m{n}") for n, text in enumerate("a~b"))
    for holder in (between[1], *(event["item"] for event in between[0] if "item" in event)):
        holder["type"] = kind
    with pytest.raises(BodyError, match=f"message item goes on after {kind} item"):
        streamed(sse(whole(first, between, last)))
    assert text_of(streamed(sse(whole(between, last)))) == "~b"


def test_unknown_events_pass_and_are_shown() -> None:
    seen: list[Json] = []

    def see(response: Json) -> Json:
        seen.append(response)
        return response

    unknown = {"type": "response.weather.changed", "output_index": 0, "note": "rain"}
    events = whole(text_events(["a"]))
    data = sse([*events[:4], unknown, {"type": "keepalive"}, *events[4:]])
    assert streamed(data, see) == data
    assert any(each.get("note") == "rain" for each in seen)


# ---- what an upstream leaves out


def test_a_text_that_came_in_no_piece_becomes_one() -> None:
    [begun, _, _, text_done, part_done, ended], item = text_events(["hello"])
    for events in (
        [begun, text_done, part_done, ended],
        [begun, part_done, ended],
        [begun, ended],
        [ended],
        [added(item), ended],
        [],
    ):
        data = sse([state("created"), *events, state("completed", [item])])
        out = streamed(data, shouting)
        assert (text_of(out), repeated(out)) == ("HELLO", {"HELLO"})
        assert read_by_sdk(out).output_text == "HELLO"


@pytest.mark.parametrize("kind", KINDS)
def test_a_delta_that_is_added_has_the_fields_of_its_kind(kind: str) -> None:
    """The API sends `logprobs` with the text of an answer only."""
    events, item = text_events(["hello"], 0, kind)
    fewer = [event for event in events if not event["type"].endswith(".delta")]
    [delta] = [event for event in events_of(streamed(sse(whole((fewer, item))), copied)) if "delta" in event]
    assert delta["delta"] == "hello"
    assert delta.get("logprobs") == ([] if kind == "output_text" else None)


def test_a_call_that_came_in_no_piece_is_judged() -> None:
    [begun, *_, ended], item = called(['{"a":1}'])
    for events in ([begun, ended], [ended], [added(item), ended], [begun], []):
        data = sse([state("created"), *events, state("completed", [item])])
        assert calls_of(streamed(data)) == [("read_file", '{"a":1}')]
        out = streamed(data, decided("not allowed"))
        assert (text_of(out), calls_of(out)) == ("not allowed", [])
        assert b'"a":1' not in out.replace(b"\\", b"")


@pytest.mark.parametrize("at", [-3, -2, -1], ids=["text", "part", "item"])
def test_a_repetition_with_more_text_is_judged_and_one_with_other_text_is_refused(at: int) -> None:
    events, more, other = (text_events([text])[0] for text in ("hello", f"hello {SECRET}", SECRET))
    out = redacted(sse([state("created"), *events[:at], *more[at:], state("completed")]))
    assert text_of(out) == "hello [KEY]"
    assert "hello [KEY]" in repeated(out)
    assert SECRET not in out.decode()
    with pytest.raises(BodyError, match="differs"):
        streamed(sse([state("created"), *events[:at], other[at]]))


@pytest.mark.parametrize("text", [f"hello {SECRET}", SECRET])
def test_a_response_that_differs_from_its_items_is_refused(text: str) -> None:
    with pytest.raises(BodyError, match="differs"):
        streamed(sse([*whole((text_events(["hello"])[0], text_events([text])[1]))]))


def test_items_at_the_beginning_of_a_response_are_those_of_other_events() -> None:
    events, item = text_events(["hello"])
    data = sse([state("created", [message(output_text(SECRET))]), *events, state("completed", [item])])
    assert SECRET not in streamed(data).decode()


# ---- edits


def shouting(response: Json) -> Json:
    new = copied(response)
    for candidate in new["candidates"]:
        for part in candidate["content"]["parts"]:
            if "text" in part:
                part["text"] = part["text"].upper()
    return dict(new)


@pytest.mark.parametrize("kind", KINDS)
def test_an_edited_text_is_the_same_in_all_events(kind: str) -> None:
    out = streamed(
        sse(whole(text_events(["hel", "lo"], 0, kind), text_events(["you"], 1, id_="msg_2"))), shouting
    )
    assert "hel" not in out.decode().replace("hello", "")
    assert "hello" not in out.decode()
    texts = [event["delta"] for event in events_of(out) if event["type"].endswith(".delta")]
    assert texts == ["HEL", "LO", "YOU"]
    assert "HELLO" in json.dumps(final(out)["output"][0])
    assert [event["sequence_number"] for event in events_of(out)] == [*range(len(events_of(out)))]
    assert read_by_sdk(out).output[1].content[0].text == "YOU"


def test_a_text_that_hooks_add_at_the_end_becomes_a_message() -> None:
    def add(response: Json) -> Json:
        if response["candidates"][0].get("finishReason") is None:
            return response
        new = copied(response)
        new["candidates"][0]["content"]["parts"] = [{"text": "Bye."}]
        return dict(new)

    out = streamed(sse(whole(text_events(["hello"]))), add)
    assert text_of(out) == "helloBye."
    assert [item["content"][0]["text"] for item in final(out)["output"]] == ["hello", "Bye."]
    ids = [item["id"] for item in final(out)["output"]]
    assert len(set(ids)) == 2
    assert read_by_sdk(out).output_text == "helloBye."


def test_logprobs_of_an_edited_text_are_not_sent() -> None:
    tokens = [{"token": "hello", "logprob": -1.0, "bytes": [], "top_logprobs": []}]
    events, item = text_events(["hello"])
    events[2]["logprobs"] = tokens
    events[3]["logprobs"] = tokens
    events[4]["part"] = {**events[4]["part"], "logprobs": tokens}
    item = {**item, "content": [{**item["content"][0], "logprobs": tokens}]}
    events[5] = done(item)
    data = sse(whole((events, item)))
    assert streamed(data, copied) == data
    assert b"hello" not in streamed(data, shouting)
    assert b'"token"' not in redacted(data)  # which removes all of them, as from other answers


# ---- redaction


def redacted(data: bytes) -> bytes:
    return redacted_stream(data, ResponseEvents(), decode_response_event, encode_response_event)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("cut", range(len(SECRET) + 1))
def test_a_secret_is_masked_wherever_the_deltas_of_a_text_are_split(cut: int, kind: str) -> None:
    pieces = ["the key is ", SECRET[:cut], SECRET[cut:], " as you know"]
    out = redacted(sse(whole(text_events(pieces, 0, kind))))
    texts = [event["delta"] for event in events_of(out) if event["type"].endswith(".delta")]
    assert "".join(texts) == "the key is [KEY] as you know"
    assert not [piece for piece in re.findall("[a-z0-9_]{4,}", out.decode()) if piece in SECRET]
    if kind == "output_text":
        assert repeated(out) == {"the key is [KEY] as you know"}
        assert read_by_sdk(out).output_text == "the key is [KEY] as you know"


@pytest.mark.parametrize("cut", range(len(SECRET) + 9))
def test_a_secret_in_arguments_is_masked_wherever_they_are_split(cut: int) -> None:
    text = json.dumps({"a": SECRET})
    out = redacted(sse(whole(text_events(["look"]), called([text[:cut], text[cut:]], 1))))
    assert calls_of(out) == [("read_file", '{"a":"[KEY]"}')]
    assert text_of(out) == "look"
    assert SECRET not in out.decode()
    assert read_by_sdk(out).output[1].arguments == '{"a":"[KEY]"}'


@pytest.mark.parametrize("cut", range(1, len(SECRET)))
def test_a_secret_is_masked_across_messages(cut: int) -> None:
    out = redacted(sse(whole(text_events([SECRET[:cut]]), text_events([SECRET[cut:]], 1, id_="msg_2"))))
    assert text_of(out) == "[KEY]"
    assert SECRET[:cut] not in repeated(out) or cut < 4


@pytest.mark.parametrize(
    "event",
    [
        {"type": "response.code_interpreter_call_code.delta", "output_index": 0, "delta": SECRET},
        {"type": "response.code_interpreter_call_code.done", "output_index": 0, "code": SECRET},
        {
            "type": "response.output_text.annotation.added",
            "output_index": 0,
            "annotation": {"title": SECRET},
        },
        {"type": "error", "code": "c", "message": SECRET, "param": None},
        {"type": "from_the_future", SECRET: {"deep": [SECRET]}},
    ],
)
def test_a_secret_in_any_other_event_is_masked(event: Json) -> None:
    events = whole(text_events(["hi"]))
    out = redacted(sse([*events[:4], event, *events[4:]]))
    assert SECRET not in out.decode()
    assert events_of(out)[4]["type"] == event["type"]


def test_a_secret_in_unknown_pieces_is_masked() -> None:
    kind = "response.from_the_future.delta"
    pieces = [{"type": kind, "output_index": 0, "delta": piece} for piece in (SECRET[:6], SECRET[6:])]
    events = whole(text_events(["hi"]))
    out = redacted(sse([*events[:3], *pieces, *events[3:]]))
    assert "".join(event["delta"] for event in events_of(out) if event["type"] == kind) == "[KEY]"


# ---- decisions about calls


def test_a_refused_call_becomes_a_message() -> None:
    data = sse(whole(text_events(["I try. "]), called(['{"a": 1', "}"], 1)))
    out = streamed(data, decided("not allowed"))
    assert (text_of(out), calls_of(out)) == ("I try. not allowed", [])
    assert [item["type"] for item in final(out)["output"]] == ["message", "message"]
    assert read_by_sdk(out).output_text == "I try. not allowed"
    for event in events_of(out):
        KINDS_OF_EVENTS[event["type"]].model_validate(event)


def test_one_of_two_calls_is_refused_and_one_gets_other_arguments() -> None:
    data = sse(whole(called(['{"a"', ": 1}"]), called(["{", '"b": 2}'], 1, "shell")))
    out = streamed(data, decided("not allowed", {"b": 3}))
    assert (text_of(out), calls_of(out)) == ("not allowed", [("shell", '{"b":3}')])
    assert read_by_sdk(out).output[1].arguments == '{"b":3}'
    for event in events_of(out):
        KINDS_OF_EVENTS[event["type"]].model_validate(event)


def test_calls_whose_pieces_alternate_are_judged_whole() -> None:
    (first, one), (second, two) = called(['{"a"', ": 1}"]), called(["{", '"b": 2}'], 1, "shell")
    mixed = [each for pair in zip(first, second, strict=True) for each in pair]
    seen: list[Json] = []

    def note(response: Json) -> Json:
        seen.extend(ToolCallFilter().starting_calls(response))
        return response

    data = sse([state("created"), *mixed, state("completed", [one, two])])
    assert streamed(data, note) == data
    assert [(call["name"], call["args"]) for call in seen] == [("read_file", {"a": 1}), ("shell", {"b": 2})]


def test_a_call_that_overlaps_a_text_is_judged_with_it() -> None:
    (text, item), (call, other) = text_events(["SEC", "RET"]), called(["{}"], 1)
    mixed = [*text[:3], *call[:2], *text[3:], *call[2:]]
    data = sse([state("created"), *mixed, state("completed", [item, other])])
    assert streamed(data, copied) == data
    out = streamed(data, decided("no"))
    assert [item["content"][0]["text"] for item in final(out)["output"]] == ["SECRET", "no"]


# ---- answers in a row


def test_another_answer_continues_the_response() -> None:
    framing, out = ResponseEvents(), b""

    def send(data: bytes, change: Callable[[Json], Json]) -> bytes:
        sent = b""
        for frame in [*framing.feed(data), *framing.finish()]:
            body = loads(frame.data)
            closed = encode_response_event(body, change(decode_response_event(body)))
            sent += framing.encode(frame, frame.data if closed is body else dumps(closed))
        return sent

    def unfinished(response: Json) -> Json:
        [candidate] = response["candidates"]
        kept = {key: value for key, value in candidate.items() if key != "finishReason"}
        return {**response, "candidates": [kept]}

    out += send(sse(whole(text_events(["Running. "]))), unfinished)
    framing.reset_decoder()
    events = whole(text_events(["I did not."], id_="msg_9"))
    events[0]["response"]["id"] = events[-1]["response"]["id"] = "resp_2"
    out += send(sse(events), copied)
    kinds = [event["type"] for event in events_of(out)]
    assert (kinds.count("response.created"), kinds.count("response.completed")) == (1, 1)
    assert (text_of(out), final(out)["id"]) == ("Running. I did not.", "resp_1")
    numbers = [event["sequence_number"] for event in events_of(out)]
    assert numbers == sorted(set(numbers))
    assert read_by_sdk(out).output_text == "Running. I did not."


@pytest.mark.parametrize("sent", range(2, 8))
def test_an_answer_that_ends_early_ends_all_items(sent: int) -> None:
    framing, out = ResponseEvents(), b""
    for frame in framing.feed(sse(whole(text_events(["hello ", "you"]))[:sent])):
        out += framing.encode(frame, frame.data)
    out += framing.event(dumps(new_response(text_response("No."), MODEL, 1)))
    read = read_by_sdk(out)
    text = "".join(["hello ", "you"][: max(sent - 4, 0)])
    assert (text_of(out), read.output_text) == (f"{text}No.", f"{text}No.")
    assert read.id == "resp_1"
    ends = [event["output_index"] for event in events_of(out) if event["type"] == "response.output_item.done"]
    begins = [event["output_index"] for event in events_of(out) if event["type"].endswith("item.added")]
    assert sorted(ends) == sorted(begins)


def test_a_synthetic_answer_is_a_stream_that_the_sdk_reads() -> None:
    call = {"functionCall": {"name": "read_file", "args": {"path": "a"}}}
    parts = [{"text": "hm", "thought": True}, {"text": "look"}, call]
    response = {"candidates": [{"content": {"parts": parts}, "finishReason": "STOP"}]}
    out = ResponseEvents().event(dumps(new_response(response, MODEL, 1)))
    for event in events_of(out):
        KINDS_OF_EVENTS[event["type"]].model_validate(event)
    Response.model_validate(final(out))
    read = read_by_sdk(out)
    assert [item.type for item in read.output] == ["reasoning", "message", "function_call"]
    assert (read.output_text, calls_of(out)) == ("look", [("read_file", '{"path":"a"}')])


# ---- what hooks could not judge

BEGUN, *REST = text_events(["hello"])[0]
CALLED = called(["{}"])[0]


@pytest.mark.parametrize(
    "events",
    [
        [BEGUN, BEGUN],
        [BEGUN, *REST, BEGUN],
        [BEGUN, *REST, REST[1]],
        [BEGUN, *REST, REST[-1]],
        [BEGUN, REST[0], REST[0]],
        [BEGUN, *REST[:3], REST[2]],
        [REST[1]],
        [CALLED[1]],
        [CALLED[0], REST[1]],
        [*CALLED[:-1], done(call_item("{}", name="shell"))],
        [*CALLED[:-1], done(call_item("{}", "c7"))],
        [*CALLED[:-1], done(message())],
        [BEGUN, done(call_item(""))],
        [*CALLED[:2], {**CALLED[2], "name": "shell"}, CALLED[3]],
        [*CALLED[:2], {**CALLED[2], "arguments": '{"a":1}'}, CALLED[3]],
        called(["{"])[0],
        [added({"type": "custom_tool_call", "name": "shell", "input": ""})],
        [state("completed"), BEGUN],
        [state("completed"), state("completed")],
        [{**BEGUN, "output_index": "0"}],
        [{**BEGUN, "item": "hello"}],
        [{**BEGUN, "candidates": []}],
        [{**BEGUN, "outputIndex": 0}],
        [BEGUN, {**REST[1], "delta": 7}],
        [BEGUN, {**REST[1], "delta": {"text": "hi"}}],
        [BEGUN, {**REST[2], "text": ["hi"]}],
        [BEGUN, {**REST[1], "content_index": None}],
        [{"type": "response.audio.transcript.delta", "delta": "hi"}],
        [{"type": 7}],
        [{"type": "response.completed", "response": "hi"}],
        [{"type": "response.completed", "response": {"output": "hi"}}],
        [state("completed", [text_events(["a"])[1]] * 2)],
    ],
)
def test_a_stream_that_hooks_could_not_judge_is_refused(events: list[Json]) -> None:
    with pytest.raises(BodyError):
        streamed("".join(f"data: {json.dumps(event)}\n\n" for event in events).encode())


def test_a_stream_that_ends_in_the_middle_of_a_call_is_refused() -> None:
    with pytest.raises(BodyError, match="middle of a function call"):
        streamed(sse([state("created"), *called(['{"a": 1}'])[0][:-1]]))


def test_a_call_without_end_is_refused_before_it_fills_the_memory() -> None:
    framing = ResponseEvents()
    begun, piece, *_ = called(["x" * 1_000_000])[0]
    framing.feed(sse([begun]))
    for _ in range(MAX_EVENT // 1_000_100):
        framing.feed(sse([piece]))
    with pytest.raises(BodyError, match="larger than"):
        framing.feed(sse([piece]))


def test_texts_without_end_are_refused_before_they_fill_the_memory() -> None:
    framing = ResponseEvents()
    begun, part, piece, *_ = text_events(["x" * 1_000_000])[0]
    framing.feed(sse([begun, part]))
    for _ in range(MAX_EVENT // 1_000_000):
        framing.feed(sse([piece]))
    with pytest.raises(BodyError, match="larger than"):
        framing.feed(sse([piece]))


def test_an_ended_item_is_kept_once_and_without_what_it_began_with() -> None:
    stream = ResponseEvents()
    begun = message(id="m0", status="in_progress", note="a" * 10_000)
    ended = message(id="m0", status="completed")
    for event, kept in ((added(begun), range(10_000, 13_000)), (done(ended), range(3_000))):
        for frame in stream.feed(sse([event])):
            stream.encode(frame, frame.data)
        assert stream.kept_bytes in kept
