"""Events read as one response, and an edit of it cut into the events again."""

import copy
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.bodies import responses
from support.inspect import hidden_parts

from hookgate.translator import apply_response, cut_events, join_events, show_response
from hookgate.translator.joining import join_texts


def said(*parts: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0}], **more}


CALL = {"functionCall": {"name": "f", "args": {}}, "thoughtSignature": "c2ln"}
STREAM = [
    said({"text": "I thi", "thought": True}),
    said({"text": "nk", "thought": True}),
    said({"text": "my key is sk-1"}, modelVersion="m"),
    said({"text": "23, keep it"}),
    said(CALL),
    {**said({"text": ""}), "usageMetadata": {"totalTokenCount": 7}},
]


def test_a_hook_reads_words_that_are_split_over_events() -> None:
    view = show_response(join_events(STREAM))
    assert view["candidates"][0]["content"]["parts"] == ["I think", "my key is sk-123, keep it"]
    assert (view["text"], view["usageMetadata"]["totalTokenCount"]) == ("my key is sk-123, keep it", 7)


def test_an_edit_goes_to_the_events_that_it_touches() -> None:
    joined = join_events(STREAM)
    edited = apply_response(joined, {"text": "my key is [KEY], keep it"})
    cut = cut_events(STREAM, joined, edited)
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
    cut = cut_events(STREAM, joined, apply_response(joined, edit))
    assert cut[:5] == STREAM[:5]
    assert cut[5]["candidates"][0]["finishReason"] == "STOP"
    assert cut[5]["usageMetadata"]["totalTokenCount"] == 9


def test_text_for_a_candidate_that_had_none_is_added_at_its_end() -> None:
    events = [said(CALL), said(CALL)]
    joined = join_events(events)
    cut = cut_events(events, joined, apply_response(joined, {"text": "not these"}))
    assert cut[0] is events[0]
    assert cut[1]["candidates"][0]["content"]["parts"] == [CALL, {"text": "not these"}]


@given(st.lists(responses(), min_size=1, max_size=4))
def test_an_echo_changes_no_event(events: list[dict[str, Any]]) -> None:
    before = copy.deepcopy(events)
    joined = join_events(events)
    cut = cut_events(events, joined, apply_response(joined, show_response(joined)))
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
    cut = cut_events(events, joined, edited)
    assert join_texts(cut) == join_texts([edited])
    assert [hidden_parts(event) for event in cut] == [hidden_parts(event) for event in events]
