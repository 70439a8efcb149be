"""Text that is joined across the events of a stream, and split again."""

import copy
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.generate_content import responses

from hookgate.translator.streaming.events import TextChannel, cut_texts, join_texts

SPOKEN, THOUGHT = TextChannel(0, False), TextChannel(0, True)


def text_event(text: str, index: int | None = 0, **part: Any) -> dict[str, Any]:
    """One event of a stream."""
    candidate: dict[str, Any] = {"content": {"role": "model", "parts": [{"text": text, **part}]}}
    return {"candidates": [candidate if index is None else {**candidate, "index": index}]}


def test_a_word_that_is_split_over_two_events_is_found_and_replaced() -> None:
    events = [text_event("my card is 4111-11"), text_event("11-1111-1111, keep it"), text_event(" safe")]
    joined = join_texts(events)
    assert joined == {SPOKEN: "my card is 4111-1111-1111-1111, keep it safe"}
    masked = cut_texts(events, {SPOKEN: joined[SPOKEN].replace("4111-1111-1111-1111", "[CARD]")})
    assert join_texts(masked) == {SPOKEN: "my card is [CARD], keep it safe"}
    assert masked[0]["candidates"][0]["content"]["parts"][0]["text"].startswith("my card is ")
    assert masked[2] is events[2]


def test_thoughts_and_candidates_are_channels_of_their_own() -> None:
    events = [
        text_event("hm ", thought=True),
        text_event("a", 0),
        text_event("b", 1),
        text_event("so", thought=True, thoughtSignature="c2ln"),
        text_event("c", None),
    ]
    assert join_texts(events) == {THOUGHT: "hm so", SPOKEN: "ac", TextChannel(1, False): "b"}
    edited = cut_texts(events, {THOUGHT: "hm no"})
    assert edited[3]["candidates"][0]["content"]["parts"] == [
        {"text": "no", "thought": True, "thoughtSignature": "c2ln"}
    ]
    assert [edited[i] is events[i] for i in range(5)] == [True, True, True, False, True]


@given(st.lists(responses(), max_size=5))
def test_cutting_what_was_joined_changes_no_event(events: list[dict[str, Any]]) -> None:
    assert all(a is b for a, b in zip(cut_texts(events, join_texts(events)), events, strict=True))


@given(st.lists(responses(), max_size=5), st.data())
def test_cut_pieces_join_to_the_edited_text(events: list[dict[str, Any]], data: st.DataObject) -> None:
    before = copy.deepcopy(events)
    joined = join_texts(events)
    if not joined:
        return
    channel = data.draw(st.sampled_from(sorted(joined)))
    text = data.draw(st.text(max_size=20)) + joined[channel][3:]
    assert join_texts(cut_texts(events, {channel: text})) == {**joined, channel: text}
    assert events == before


def test_a_channel_that_is_not_there_is_no_silent_loss() -> None:
    with pytest.raises(KeyError):
        cut_texts([text_event("a")], {TextChannel(7, False): "b"})
