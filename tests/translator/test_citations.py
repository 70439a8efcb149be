"""Offsets of citations follow the edits of the text that they refer to."""

import re
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.translator import citations
from hookgate.translator.citations import move_citations, with_moved_annotations, with_moved_citations
from hookgate.translator.streaming.edits import respread

Json = dict[str, Any]

SECRET = re.compile("secret[0-9]")
WORDS = st.sampled_from(
    ["Zürich ", "won. ", "secret1 ", "secret2", "日本 ", "a", " ", "😀", "Spain ", "x\ny "]
)
TEXTS = st.lists(WORDS, min_size=1, max_size=20).map("".join)


def masked(text: str) -> str:
    return SECRET.sub("[KEY]", text)


def segments(text: str, draw: Any) -> list[tuple[int, int]]:
    """Spans of a text in characters, none of which begins or ends within a secret."""
    inside = {at for found in SECRET.finditer(text) for at in range(found.start() + 1, found.end())}
    borders = st.sampled_from([at for at in range(len(text) + 1) if at not in inside])
    return [tuple(sorted((draw(borders), draw(borders)))) for _ in range(draw(st.integers(1, 5)))]


@st.composite
def cited(draw: st.DrawFn) -> tuple[str, list[tuple[int, int]]]:
    text = draw(TEXTS)
    return text, segments(text, draw)


def size(text: str) -> int:
    return len(text.encode())


def support(text: str, first: int, last: int) -> Json:
    start, end = size(text[:first]), size(text[:last])
    return {"segment": {"startIndex": start, "endIndex": end, "text": text[first:last]}}


def answer(text: str, supports: list[Json]) -> Json:
    content = {"role": "model", "parts": [{"text": text}]}
    return {"candidates": [{"content": content, "groundingMetadata": {"groundingSupports": supports}}]}


@given(case=cited())
def test_the_text_at_the_offsets_of_a_masked_answer_is_that_of_the_segment(
    case: tuple[str, list[tuple[int, int]]],
) -> None:
    text, spans = case
    before = answer(text, [support(text, *span) for span in spans])
    new = masked(text)
    after = answer(
        new,
        [
            {"segment": {**each["segment"], "text": masked(each["segment"]["text"])}}
            for each in before["candidates"][0]["groundingMetadata"]["groundingSupports"]
        ],
    )
    moved = with_moved_citations(before, after)["candidates"][0]["groundingMetadata"]["groundingSupports"]
    for each in moved:
        segment = each["segment"]
        shown = new.encode()[segment["startIndex"] : segment["endIndex"]]
        assert shown.decode() == segment["text"]
        assert segment["text"] in {masked(text[first:last]) for first, last in spans}
    if not SECRET.search(text):
        assert moved == before["candidates"][0]["groundingMetadata"]["groundingSupports"]


@given(case=cited(), cut=st.integers(0, 60))
def test_citations_of_a_stream_refer_to_its_whole_text(
    case: tuple[str, list[tuple[int, int]]], cut: int
) -> None:
    text, spans = case
    last = {"groundingMetadata": {"groundingSupports": [support(text, *span) for span in spans]}}
    moved = move_citations(last, last, (text, masked(text)))
    for each in moved["groundingMetadata"]["groundingSupports"]:
        segment = each["segment"]
        assert masked(text).encode()[segment["startIndex"] : segment["endIndex"]].decode() == segment["text"]


def test_a_segment_behind_a_mask_moves_and_keeps_its_text() -> None:
    text = "Mail secret1 for Zürich. Spain won."
    at = text.index("Spain")
    before = answer(text, [support(text, at, len(text))])
    after = answer(masked(text), before["candidates"][0]["groundingMetadata"]["groundingSupports"])
    [moved] = with_moved_citations(before, after)["candidates"][0]["groundingMetadata"]["groundingSupports"]
    assert moved == {"segment": {"startIndex": 24, "endIndex": 34, "text": "Spain won."}}


def test_the_segment_s_part_decides_if_there_are_several_texts() -> None:
    parts = [{"text": "secret1. "}, {"text": "A secret2 here. So."}]
    segment = {"partIndex": 1, "startIndex": 16, "endIndex": 19, "text": "So."}
    grounding = {"groundingSupports": [{"segment": segment}]}
    before = {"candidates": [{"content": {"parts": parts}, "groundingMetadata": grounding}]}
    new = [{"text": masked(part["text"])} for part in parts]
    after = {"candidates": [{"content": {"parts": new}, "groundingMetadata": grounding}]}
    [moved] = with_moved_citations(before, after)["candidates"][0]["groundingMetadata"]["groundingSupports"]
    assert moved["segment"] == {"partIndex": 1, "startIndex": 14, "endIndex": 17, "text": "So."}


@pytest.mark.parametrize("name", ["citationSources", "citations"])
def test_sources_of_citations_move_or_lose_their_offsets(name: str) -> None:
    text, new = "secret1 é quoted words here", "[KEY] é quoted words here"
    start = size(text[: text.index("quoted")])
    sources = [
        {"uri": "u", "startIndex": start, "endIndex": start + 6},
        {"uri": "v", "startIndex": 9, "endIndex": 999},
    ]
    before = answer(text, [])
    before["candidates"][0]["citationMetadata"] = {name: sources}
    after = {"candidates": [{**before["candidates"][0], "content": {"parts": [{"text": new}]}}]}
    moved = with_moved_citations(before, after)["candidates"][0]["citationMetadata"][name]
    assert moved == [{"uri": "u", "startIndex": start - 2, "endIndex": start + 4}, {"uri": "v"}]


def test_supports_of_a_text_that_was_replaced_are_removed() -> None:
    before = answer("One. Two.", [support("One. Two.", 0, 4)])
    after = answer("Ganz anders", before["candidates"][0]["groundingMetadata"]["groundingSupports"])
    assert (
        with_moved_citations(before, after)["candidates"][0]["groundingMetadata"]["groundingSupports"] == []
    )


def test_an_unedited_answer_is_the_same_object() -> None:
    before = answer("One.", [support("One.", 0, 4)])
    assert with_moved_citations(before, before) is before


@pytest.mark.parametrize("nested", [True, False])
@given(case=cited())
def test_annotations_count_characters(nested: bool, case: tuple[str, list[tuple[int, int]]]) -> None:
    text, spans = case
    offsets = [{"start_index": first, "end_index": last} for first, last in spans]
    notes = [{"type": "url_citation", "url_citation": each} if nested else each for each in offsets]
    before = {"output": [{"content": [{"type": "output_text", "text": text, "annotations": notes}]}]}
    after = {"output": [{"content": [{"type": "output_text", "text": masked(text), "annotations": notes}]}]}
    [content] = with_moved_annotations(before, after, in_bytes=False)["output"][0]["content"]
    expected = [masked(text[first:last]) for first, last in spans]
    shown = []
    for note in content["annotations"]:
        place = note["url_citation"] if nested else note
        shown.append(content["text"][place["start_index"] : place["end_index"]])
    if SECRET.search(text) is None:
        assert shown == expected
    assert len(shown) <= len(expected)


def test_annotations_of_interactions_count_bytes_and_arguments_are_left_alone() -> None:
    text, new = "é secret1 here", "é [KEY] here"
    note = {"start_index": 11, "end_index": 15}
    step = {"content": [{"type": "text", "text": text, "annotations": [note]}], "arguments": {"text": text}}
    edited = {"content": [{**step["content"][0], "text": new}], "arguments": {"text": new}}
    moved = with_moved_annotations({"steps": [step]}, {"steps": [edited]}, in_bytes=True)["steps"][0]
    assert moved["content"][0]["annotations"] == [{"start_index": 9, "end_index": 13}]
    assert moved["arguments"] is edited["arguments"]


@given(
    blocks=st.lists(st.sampled_from(["é" * 700, "a" * 1024, "日" * 1023, "😀"]), max_size=4),
    case=cited(),
)
def test_offsets_in_a_long_text_are_moved_exactly(
    blocks: list[str], case: tuple[str, list[tuple[int, int]]]
) -> None:
    begin = "".join(blocks)
    text, spans = begin + case[0], [(len(begin) + first, len(begin) + last) for first, last in case[1]]
    last = {"groundingMetadata": {"groundingSupports": [support(text, *span) for span in spans]}}
    moved = move_citations(last, last, (text, masked(text)))["groundingMetadata"]["groundingSupports"]
    for each in moved:
        segment = each["segment"]
        shown = masked(text).encode()[segment["startIndex"] : segment["endIndex"]]
        assert shown.decode() == segment["text"]


def test_the_places_of_all_citations_of_a_text_are_searched_for_at_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    calls: list[int] = []

    def noted(pieces: list[str], new: str) -> list[str]:
        calls.append(len(pieces))
        return respread(pieces, new)

    monkeypatch.setattr(citations, "respread", noted)
    text = "One SECRET. Two. Three."
    spans = [{"startIndex": 0, "endIndex": 11}, {"startIndex": 12, "endIndex": 16}]
    cited: Json = {"content": {"parts": [{"text": text}]}}
    cited["citationMetadata"] = {"citationSources": spans[:1], "citations": spans[1:]}
    cited["groundingMetadata"] = {"groundingSupports": [{"segment": spans[1]}]}
    moved = move_citations(cited, cited, (text, text.replace("SECRET", "X")))
    assert calls == [4]
    assert moved["citationMetadata"] == {
        "citationSources": [{"startIndex": 0, "endIndex": 6}],
        "citations": [{"startIndex": 7, "endIndex": 11}],
    }
    assert moved["groundingMetadata"]["groundingSupports"][0]["segment"]["startIndex"] == 7


def test_spans_of_a_long_text_are_not_read_once_for_each_citation() -> None:
    text = "a secret1 here. " * 100_000
    supports = [{"segment": {"endIndex": len(text) - 16, "text": "x"}} for _ in range(10_000)]
    before, after = answer(text, supports), answer(masked(text), supports)
    started = time.process_time()
    moved = with_moved_citations(before, after)
    assert time.process_time() - started < 3  # reading the span of each would take ten times as long
    assert moved["candidates"][0]["groundingMetadata"]["groundingSupports"] == []


def test_a_segment_without_its_text_gets_none() -> None:
    """The texts of many supports would repeat the whole answer once for each."""
    text = "a secret1 here. " * 50
    span = {"startIndex": 0, "endIndex": len(text)}
    shown: list[Json] = [
        {"segment": dict(span)},
        {"segment": {**span, "text": "short"}},
        {"segment": {**span, "text": text}},
    ]
    before = {
        "candidates": [
            {"content": {"parts": [{"text": text}]}, "groundingMetadata": {"groundingSupports": shown}}
        ]
    }
    after = {"candidates": [{**before["candidates"][0], "content": {"parts": [{"text": masked(text)}]}}]}
    [candidate] = with_moved_citations(before, after)["candidates"]
    moved = [each["segment"] for each in candidate["groundingMetadata"]["groundingSupports"]]
    assert [each.get("text") for each in moved] == [None, masked(text)]
