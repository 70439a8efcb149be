"""Events that are joined to one response, and edits of it that are distributed to the events."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.generate_content import responses
from support.translation.inspect import hidden_parts

from hookgate.translator import BodyError, apply_response, join_events, show_response, split_edit
from hookgate.translator.fields import EARLIER
from hookgate.translator.streaming.events import join_texts


def answer_of(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0}], **more}


CALL = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}
STREAM = [
    answer_of({"text": "I thi", "thought": True}),
    answer_of({"text": "nk", "thought": True}),
    answer_of({"text": "my key is sk-1"}, modelVersion="m"),
    answer_of({"text": "23, keep it"}),
    answer_of(CALL),
    {**answer_of({"text": ""}), "usageMetadata": {"totalTokenCount": 7}},
]


def test_a_hook_reads_words_that_are_split_over_events() -> None:
    view = show_response(join_events(STREAM))
    assert view["candidates"][0]["content"]["parts"] == ["I think", "my key is sk-123, keep it"]
    assert (view["text"], view["usageMetadata"]["totalTokenCount"]) == ("my key is sk-123, keep it", 7)


def test_an_edit_goes_to_the_events_that_it_touches() -> None:
    joined = join_events(STREAM)
    edited = apply_response(joined, {"text": "my key is [KEY], keep it"})
    cut = split_edit(STREAM, joined, edited)
    assert [event is was for event, was in zip(cut, STREAM, strict=True)] == [
        True,
        True,
        False,
        False,
        True,
        True,
    ]
    assert show_response(join_events(cut))["text"] == "my key is [KEY], keep it"
    assert cut[2]["modelVersion"] == "m"


def test_other_edits_go_to_the_last_event_that_has_the_field_or_the_candidate() -> None:
    joined = join_events(STREAM)
    edit = {
        "candidates": [{"index": 0, "finishReason": "STOP"}],
        "usageMetadata": {"totalTokenCount": 9},
    }
    cut = split_edit(STREAM, joined, apply_response(joined, edit))
    assert cut[:5] == STREAM[:5]
    assert cut[5]["candidates"][0]["finishReason"] == "STOP"
    assert cut[5]["usageMetadata"]["totalTokenCount"] == 9


SEARCHED = {"groundingMetadata": {"webSearchQueries": ["a"]}}


def test_no_event_hides_a_field_of_another_one() -> None:
    first, second = answer_of({"text": "a"}, modelVersion="m", note="b"), answer_of({"text": "c"}, note="d")
    first["candidates"][0] |= SEARCHED
    second["candidates"][0] |= {"groundingMetadata": {}}
    second["candidates"][0]["content"]["role"] = "user"
    joined = join_events([first, second])
    assert (joined["note"], joined["modelVersion"]) == ("d", "m")
    lost = {"index": 0, **SEARCHED, "content": {"role": "model"}}
    assert joined[EARLIER] == [{"note": "b", "candidates": [lost]}]
    assert EARLIER not in join_events([first, {**second, "note": "b", "candidates": first["candidates"]}])


@pytest.mark.parametrize(
    "hidden",
    [
        {"usageMetadata": {"trafficType": "a rocket"}},
        {"usageMetadata": {"a rocket": 1}},
        {"usageMetadata": {"promptTokensDetails": [{"modality": "ROCKET", "tokenCount": 1}]}},
        {"event_id": "a rocket"},
        {"type": "a rocket", "event_type": "a"},
        {"sequence_number": ["a rocket"]},
    ],
)
def test_no_count_and_no_name_of_an_event_hides_a_text(hidden: dict[str, Any]) -> None:
    usage = {"trafficType": "ON_DEMAND", "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 2}]}
    plain = {
        "usageMetadata": usage,
        "event_id": "v1_Zg==",
        "type": "b",
        "event_type": "b",
        "sequence_number": 2,
    }
    joined = join_events([answer_of({"text": "a"}, **hidden), answer_of({"text": "c"}, **plain)])
    assert "rocket" in repr(joined[EARLIER]).lower()
    counted = {**usage, "promptTokensDetails": [{"modality": "TEXT", "tokenCount": 1}]}
    counts = {**plain, "usageMetadata": counted, "event_id": "v1_Zw==", "type": "c", "sequence_number": 1}
    assert EARLIER not in join_events([answer_of({"text": "a"}, **counts), answer_of({"text": "c"}, **plain)])


def test_a_field_that_a_hook_removes_is_in_no_event() -> None:
    events = [
        answer_of({"text": text}, note=note, modelVersion="m")
        for text, note in zip("abc", "ddd", strict=True)
    ]
    joined = join_events(events)
    edited = {key: value for key, value in joined.items() if key != "note"}
    assert not any("note" in each for each in split_edit(events, joined, edited))
    alone = split_edit(events, joined, {"candidates": answer_of({"text": "e"})["candidates"]})
    assert [each["modelVersion"] for each in alone] == ["m"] * 3
    assert join_events(alone)["note"] == "d"


@pytest.mark.parametrize("parts", [[{"text": "c"}], [{"functionCall": {"name": "g", "args": {}}}]])
def test_an_edit_of_a_field_reaches_all_events_with_its_value(parts: list[dict[str, Any]]) -> None:
    """Upstreams repeat fields, and the last event may not have them."""
    events = [answer_of({"text": text}, note="secret") for text in "abc"]
    for event in events[:2]:
        event["candidates"][0] |= SEARCHED
    joined = join_events(events)
    edited = copy.deepcopy(joined)
    edited["note"] = "b"
    edited["candidates"][0] |= {"groundingMetadata": {"webSearchQueries": ["b"]}}
    edited["candidates"][0]["content"]["parts"] = parts
    split = split_edit(events, joined, edited)
    assert [each["note"] for each in split] == ["b"] * 3
    assert SEARCHED["groundingMetadata"] not in [
        each.get("groundingMetadata") for event in split for each in event.get("candidates", [])
    ]


def test_a_field_that_a_hook_removes_from_a_candidate_is_in_no_event() -> None:
    events = [answer_of({"text": text}) for text in "abc"]
    events[0]["candidates"][0] |= {**SEARCHED, "delta": {"role": "assistant"}}
    events[1]["candidates"][0] |= {"groundingMetadata": {"webSearchQueries": ["b"]}, "finishReason": "STOP"}
    joined = join_events(events)
    content = joined["candidates"][0]["content"]
    split = split_edit(events, joined, {"candidates": [{"content": content}]})
    assert not any("groundingMetadata" in event["candidates"][0] for event in split)
    assert split[0]["candidates"][0]["delta"] == {"role": "assistant"}
    assert split[1]["candidates"][0]["finishReason"] == "STOP"


def test_no_text_hides_what_stands_beside_the_next_one() -> None:
    noted = {"text": "b", "partMetadata": {"note": "c"}}
    joined = join_events([answer_of({"text": "a"}), answer_of(noted, noted), answer_of({"text": "d"})])
    beside = {"partMetadata": {"note": "c"}}
    assert joined[EARLIER] == [{"candidates": [{"index": 0, "content": {"parts": [beside, beside]}}]}]
    assert EARLIER not in join_events([answer_of(noted), answer_of(noted)])


@pytest.mark.parametrize("new", [{"text": "f"}, {"functionCall": {"name": "g", "args": {}}}])
def test_fields_that_a_later_event_has_too_are_sent_unchanged_or_not_at_all(new: dict[str, Any]) -> None:
    events = [answer_of({"text": "a"}, note="b"), answer_of({"text": "c"}, note="d")]
    joined = join_events(events)
    edited = {**joined, "candidates": answer_of(new)["candidates"]}
    split = split_edit(events, joined, edited)
    assert [each["note"] for each in split] == ["b", "d"]
    assert not any(EARLIER in each for each in split)
    with pytest.raises(BodyError, match="later event"):
        split_edit(events, joined, {**edited, EARLIER: []})


def test_true_in_place_of_1_is_an_edit() -> None:
    events = [answer_of({"text": "so:"}), answer_of({"functionCall": {"name": "f", "args": {"dry_run": 1}}})]
    joined = join_events(events)
    edited = copy.deepcopy(joined)
    edited["candidates"][0]["content"]["parts"][-1]["functionCall"]["args"]["dry_run"] = True
    last = split_edit(events, joined, edited)[-1]["candidates"][0]["content"]["parts"][-1]
    assert last["functionCall"]["args"]["dry_run"] is True


def test_text_for_a_candidate_that_had_none_is_added_at_its_end() -> None:
    events = [answer_of(CALL), answer_of(CALL)]
    joined = join_events(events)
    cut = split_edit(events, joined, apply_response(joined, {"text": "not these"}))
    assert cut[0] is events[0]
    assert cut[1]["candidates"][0]["content"]["parts"] == [CALL, {"text": "not these"}]


def test_a_candidate_that_leaves_out_its_index_keeps_its_text_to_itself() -> None:
    def speaks(text: str, **index: int) -> dict[str, Any]:
        return {"candidates": [{"content": {"parts": [{"text": text}]}, **index}]}

    events = [speaks("B has K", index=1), speaks("A has K"), speaks("1.", index=1), speaks("1!")]
    joined = join_events(events)
    view = show_response(joined)
    assert [candidate["index"] for candidate in view["candidates"]] == [1, 0]
    for candidate in view["candidates"]:
        candidate["content"]["parts"] = [text.replace("K1", "[X]") for text in candidate["content"]["parts"]]
    cut = split_edit(events, joined, apply_response(joined, view))
    said_by = {channel.candidate: text for channel, text in join_texts(cut).items()}
    assert said_by == {1: "B has [X].", 0: "A has [X]!"}


def test_a_candidate_that_a_hook_adds_is_no_other_one_in_the_last_event() -> None:
    events = [answer_of({"text": "A"}), {"candidates": [{"content": {"parts": [{"text": "B"}]}, "index": 1}]}]
    events.append(answer_of({"text": "A"}))
    joined = join_events(events)
    view = show_response(joined)
    added = {"content": {"parts": ["C"]}}
    cut = split_edit(events, joined, apply_response(joined, {"candidates": [*view["candidates"], added]}))
    assert {channel.candidate: text for channel, text in join_texts(cut).items()} == {0: "AA", 1: "B", 2: "C"}


def test_neither_of_two_candidates_with_one_index_is_lost() -> None:
    twins = [{"content": {"parts": [{"text": text}]}, "index": 0} for text in "AB"]
    events: list[dict[str, Any]] = [answer_of({"text": "first "}), {"candidates": twins}]
    joined = join_events(events)
    edit = {"candidates": [{"index": 0, "finishReason": "STOP"}]}
    cut = split_edit(events, joined, apply_response(joined, edit))
    assert cut[1]["candidates"] == [twins[0], {**twins[1], "finishReason": "STOP"}]


@given(st.lists(responses(), min_size=1, max_size=4))
def test_each_candidate_says_the_same_in_the_joined_response(events: list[dict[str, Any]]) -> None:
    assert join_texts([join_events(events)]) == join_texts(events)


@given(st.lists(responses(), min_size=1, max_size=4))
def test_an_echo_changes_no_event(events: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(events)
    joined = join_events(events)
    cut = split_edit(events, joined, apply_response(joined, show_response(joined)))
    assert all(a is b for a, b in zip(cut, events, strict=True))
    assert events == before


@given(st.lists(responses(), min_size=1, max_size=4), st.text(max_size=30))
def test_an_edited_text_is_what_the_events_say_and_nothing_else_changes(
    events: list[dict[str, Any]], text: str
) -> None:
    joined = join_events(events)
    if not (show_response(joined)["candidates"] and show_response(joined).get("text")):
        return
    edited = apply_response(joined, {"text": text})
    cut = split_edit(events, joined, edited)
    assert join_texts(cut) == join_texts([edited])
    assert [hidden_parts(event) for event in cut] == [hidden_parts(event) for event in events]


def test_a_call_that_a_hook_removes_is_in_no_event() -> None:
    joined = join_events(STREAM)
    candidate = joined["candidates"][0]
    kept = [part for part in candidate["content"]["parts"] if "functionCall" not in part]
    edited = {**joined, "candidates": [{**candidate, "content": {**candidate["content"], "parts": kept}}]}
    cut = split_edit(STREAM, joined, edited)
    assert "functionCall" not in str(cut)
    assert join_events(cut)["candidates"] == edited["candidates"]


def test_a_candidate_that_a_hook_removes_is_in_no_event() -> None:
    joined = join_events(STREAM)
    cut = split_edit(STREAM, joined, {**joined, "candidates": []})
    assert not [event for event in cut if event.get("candidates")]


def test_arguments_that_a_hook_edits_are_the_ones_that_are_sent() -> None:
    joined = join_events(STREAM)
    edited = copy.deepcopy(joined)
    for part in edited["candidates"][0]["content"]["parts"]:
        if "functionCall" in part:
            part["functionCall"]["args"] = {"a": 1}
    assert join_events(split_edit(STREAM, joined, edited)) == edited
