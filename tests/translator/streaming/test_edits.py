"""Law 3: an edit of joined text parts changes the part that it touches."""

from collections.abc import Callable
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.translation.inspect import Json

from hookgate.translator.fields import with_texts, without_texts
from hookgate.translator.streaming import edits
from hookgate.translator.streaming.edits import common_prefix, common_suffix, respread

CHUNKS = st.text(alphabet="ab \n.é", max_size=6)


@given(st.lists(CHUNKS, min_size=1, max_size=5), st.lists(CHUNKS, max_size=5).map("".join))
def test_whatever_the_edit_as_many_parts_join_to_exactly_the_new_text(old: list[str], new: str) -> None:
    spread = respread(old, new)
    assert "".join(spread) == new
    assert len(spread) == len(old)


@given(st.lists(CHUNKS, min_size=1, max_size=5), st.data())
def test_small_edits_of_the_joined_text_join_to_exactly_the_new_text(old: list[str], data: Any) -> None:
    joined = "".join(old)
    edges = st.integers(0, len(joined))
    a, b = sorted([data.draw(edges), data.draw(edges)])
    new = joined[:a] + data.draw(CHUNKS) + joined[b:]
    assert "".join(respread(old, new)) == new
    assert respread(old, joined) == old


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (["my key is K1", "and yours is K2"], ["my key is [X]", "and yours is [X]"]),
        (["K1 first", "middle", "last K2"], ["[X] first", "middle", "last [X]"]),
        (["same K1 same", "same K2 same", "same K3 same"], ["same . same", "same . same", "same . same"]),
        (["say K1 now.\n", "say K2 now.\n"], ["say now.\n", "say now.\n"]),
        (["one ", "two ", "three"], ["one ", "2 ", "three"]),
        (["one ", "two ", "three"], ["one ", "", "three"]),
        (["one ", "", "three"], ["one and ", "", "three"]),
        (["😀 K1 é", "秋 K2"], ["😀 ** é", "秋 **"]),
        (["Hello ", "world"], ["Hello there ", "world"]),
        (["Hello ", "world"], ["Hello ", "world!"]),
        (["Hello ", "world"], ["", "world"]),
        (["Hello ", "world"], ["", ""]),
        (["aaaa", "aaaa"], ["aaaa", ""]),
        (["", "x", ""], ["", "y", ""]),
        (["sec", "ret word"], ["[X]", " word"]),
        (["one", "two"], ["start one", "two"]),
        (["The cat ", "sat on ", "the mat."], ["The dog ", "sat on ", "a mat."]),
        (["foo bar ", "foo bar"], ["foo qux ", "foo bar"]),
        (["foo bar ", "foo bar"], ["foo bar ", "foo qux"]),
    ],
)
def test_each_replaced_word_lands_in_the_part_it_stood_in(old: list[str], new: list[str]) -> None:
    assert respread(old, "".join(new)) == new


def test_scattered_edits_of_a_very_large_text_land_in_their_parts() -> None:
    old = [" ".join(f"{name}{i}" for i in range(5_000)) for name in ("first", "second", "third")]

    def redacted(text: str) -> str:
        return " ".join("[REDACTED]" if word.endswith("77") else word for word in text.split(" "))

    new = [redacted(text) for text in old]
    assert respread(old, "".join(new)) == new


def test_an_edit_of_a_text_that_repeats_few_words_costs_no_more_than_its_length() -> None:
    unit = "x x x a@b.cc "
    old = [unit * 24 + "a@b", ".cc " + unit * 24]  # the border is in a word that is replaced
    new = "".join(old).replace("a@b.cc", "[EMAIL]")
    began = process_time()
    for _ in range(100):  # as many turns of a request, of 130 KB
        assert "".join(respread(old, new)) == new
    assert process_time() - began < 1


REPETITIVE = ["a" * 200_000, "ab" * 100_000, "a " * 100_000, ("a" * 6_450 + "b") * 31]


@pytest.mark.parametrize("text", REPETITIVE, ids=["letter", "letters", "words", "near"])
@pytest.mark.parametrize("edited", [lambda text: text, lambda text: text.replace("b", "c")])
def test_the_borders_of_a_repetitive_text_are_not_searched_for_without_end(
    text: str, edited: Callable[[str], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    searched = 0
    places = edits._Budget.places

    def noted(budget: Any, text: str, word: str) -> list[int]:
        nonlocal searched
        before, found = budget._left, places(budget, text, word)
        assert len(found) <= 50
        searched += before - budget._left
        return found

    monkeypatch.setattr(edits._Budget, "places", noted)
    joined, size = f"SEC1 {text} SEC2", len(text) // 31
    old = [joined[at : at + size] for at in range(0, len(joined), size)][:32]
    old[-1] = joined[31 * size :]
    new = f"[X] {edited(text)} [X]"
    assert "".join(respread(old, new)) == new
    assert 0 < searched < 1_000_000 + 42 * (len(joined) + len(new))


# ---- more parts than borders are looked for one by one: the pieces of a long stream


@given(st.lists(CHUNKS, min_size=1, max_size=5), st.integers(20, 60), st.data())
def test_edits_of_many_parts_join_to_exactly_the_new_text(old: list[str], times: int, data: Any) -> None:
    many = old * times
    edges = st.integers(0, len("".join(many)))
    joined = new = "".join(many)
    for _ in range(3):
        a, b = sorted([data.draw(edges), data.draw(edges)])
        new = new[:a] + data.draw(CHUNKS) + new[b:]
    spread = respread(many, new)
    assert "".join(spread) == new
    assert len(spread) == len(many)
    assert respread(many, joined) == many


STREAM = [f"event {i} says {i * i} words and key{i} " for i in range(1_000)]


@pytest.mark.parametrize("every", [1, 7, 100, 998])
def test_words_replaced_in_many_parts_land_where_they_stood(every: int) -> None:
    new = [
        text.replace(f"key{i} ", "[X] ") if i % every == 1 % every else text for i, text in enumerate(STREAM)
    ]
    assert respread(STREAM, "".join(new)) == new


@pytest.mark.parametrize("new", ["", "words", "said otherwise. " * 2_000])
def test_many_parts_keep_their_texts_before_and_behind_what_changes(new: str) -> None:
    spread = respread(STREAM, "".join([*STREAM[:300], "<", new, ">", *STREAM[700:]]))
    assert (spread[:299], spread[701:]) == (STREAM[:299], STREAM[701:])
    assert "".join(spread[299:701]) == "".join([STREAM[299], "<", new, ">", STREAM[700]])


def test_what_changes_wholly_is_shared_out_by_the_lengths_that_the_parts_had() -> None:
    assert respread(STREAM, "".join(STREAM).upper()) == [text.upper() for text in STREAM]
    halves = respread(["ab"] * 100, "c" * 100)
    assert halves == ["c"] * 100


def test_text_inserted_at_a_border_continues_the_part_before_it() -> None:
    assert respread(["one. ", "two."], "one. And two.") == ["one. And ", "two."]


@given(CHUNKS, CHUNKS)
def test_the_common_beginning_and_end_are_as_long_as_they_can_be(a: str, b: str) -> None:
    head, tail = common_prefix(a, b), common_suffix(a, b)
    assert a[:head] == b[:head]
    assert a[: head + 1] != b[: head + 1] or head == min(len(a), len(b))
    assert a[len(a) - tail :] == b[len(b) - tail :]
    assert tail == min(len(a), len(b)) or a[len(a) - tail - 1] != b[len(b) - tail - 1]


IMAGE: Json = {"inlineData": {}}
FLAGGED: Json = {"text": "b", "thoughtSignature": "c2ln"}


@pytest.mark.parametrize(
    ("parts", "texts", "expected"),
    [
        ([{"text": "a"}, IMAGE, FLAGGED], ["x", "y"], [{"text": "x"}, IMAGE, {**FLAGGED, "text": "y"}]),
        ([{"text": "a"}, IMAGE, FLAGGED], [], [IMAGE, {**FLAGGED, "text": ""}]),
        ([{"text": "a"}, IMAGE], ["x", "y"], [{"text": "x"}, {"text": "y"}, IMAGE]),
        ([IMAGE], ["x"], [IMAGE, {"text": "x"}]),
        ({"text": "a"}, ["x"], {"text": "x"}),
        ({"text": "a"}, ["x", "y"], [{"text": "x"}, {"text": "y"}]),
    ],
)
def test_texts_are_written_into_their_parts(parts: Any, texts: list[str], expected: Any) -> None:
    assert with_texts({"parts": parts, "role": "user"}, texts) == {"parts": expected, "role": "user"}


def test_a_content_of_text_alone_has_no_parts_without_it() -> None:
    assert without_texts({"role": "user", "parts": [{"text": "a"}]}) == {"role": "user"}
    assert without_texts({"parts": [{"text": "a"}, IMAGE]}) == {"parts": [IMAGE]}
