"""Law 4: messages are recognized by role and text, whatever their position."""

from difflib import SequenceMatcher
from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.translator.conversation.alignment import Message, align, align_parts

MESSAGES = st.lists(
    st.tuples(st.sampled_from(["user", "model"]), st.sampled_from(["", "a", "b", "long text", "long word"])),
    max_size=8,
)
DISTINCT = st.lists(
    st.tuples(st.sampled_from(["user", "model"]), st.integers(0, 99).map("text {}".format)),
    max_size=10,
    unique_by=lambda message: message[1],
)


@given(MESSAGES, MESSAGES)
def test_each_shown_message_is_used_once_at_most_and_equal_ones_are_never_left_over(
    shown: list[Message], edited: list[Message]
) -> None:
    matches = align(shown, edited)
    used = [match for match in matches if match is not None]
    assert len(matches) == len(edited)
    assert len(used) == len(set(used))
    assert all(0 <= match < len(shown) for match in used)
    unused = [message for i, message in enumerate(shown) if i not in used]
    new = [message for message, match in zip(edited, matches, strict=True) if match is None]
    assert not set(unused) & set(new)


@given(MESSAGES)
def test_equal_lists_align_one_to_one(shown: list[Message]) -> None:
    assert align(shown, list(shown)) == list(range(len(shown)))


LONG = ("the first question", "the second question", "another matter")


@pytest.mark.parametrize(
    ("shown", "edited", "expected"),
    [
        ("aba", "ba", [1, 2]),
        ("ab", "ba", [1, 0]),
        ("abcd", "dabc", [3, 0, 1, 2]),
        ("aab", "ab", [0, 2]),
        ("abab", "ab", [0, 1]),
        ("aabcd", "bcda", [2, 3, 4, 0]),
        ("abc", "c", [2]),
        ("ab", "axb", [0, None, 1]),
        ("", "ab", [None, None]),
        (LONG, ("the 1st question", "another matter"), [0, 2]),
        (LONG, ("the first question!", "something", "another matter?"), [0, 1, 2]),
        (("one two", "three four"), ("three five",), [1]),
        (("one two", "three four"), ("five four",), [1]),
    ],
)
def test_messages_are_the_ones_that_a_reader_would_take_them_for(
    shown: list[str], edited: list[str], expected: list[int | None]
) -> None:
    assert align([("user", text) for text in shown], [("user", text) for text in edited]) == expected


@given(DISTINCT, st.data())
def test_moved_removed_and_added_messages_leave_the_others_recognized(
    shown: list[Message], data: Any
) -> None:
    order: list[int | None] = data.draw(st.permutations(range(len(shown))))
    order = order[: data.draw(st.integers(0, len(order)))]
    if len(order) == len(shown):  # else a new message may well be a rewritten one
        order.insert(data.draw(st.integers(0, len(order))), None)
    edited = [("user", "new") if i is None else shown[i] for i in order]
    assert align(shown, edited) == order


@given(DISTINCT, st.sets(st.integers(0, 9)))
def test_rewritten_messages_are_recognized_by_where_they_stand(
    shown: list[Message], places: set[int]
) -> None:
    edited = [
        (role, f"{text}, rewritten") if i in places else (role, text) for i, (role, text) in enumerate(shown)
    ]
    assert align(shown, edited) == list(range(len(shown)))


@given(st.integers(2, 120), st.integers(0, 120))
def test_a_message_added_while_all_others_are_rewritten_shifts_none_of_them(size: int, place: int) -> None:
    shown = [(("user", "model")[i % 2], f"message {i} with a secret") for i in range(size)]
    edited: list[Message] = [(role, text.replace("a secret", "[REDACTED]")) for role, text in shown]
    place = min(place, size)
    edited.insert(place, ("user", "Something else entirely."))
    assert align(shown, edited) == [*range(place), None, *range(place, size)]


@given(st.lists(st.booleans(), max_size=8))
def test_rewritten_parts_beside_a_new_one_are_recognized_by_their_position(rewritten: list[bool]) -> None:
    shown = [{"text": f"part {number}"} for number in range(len(rewritten))]
    edited = [{"text": f"new {number}"} if rewritten[number] else part for number, part in enumerate(shown)]
    assert align_parts(shown, [*edited, {"text": "added"}]) == [*range(len(shown)), None]


def test_an_edited_message_is_reported_from_a_new_one_by_what_they_have_in_common() -> None:
    shown = [("user", "my password is hunter2")]
    new, edited = ("user", "Answer in French."), ("user", "my password is [REDACTED]")
    assert align(shown, [new, edited]) == [None, 0]
    assert align(shown, [edited, new]) == [0, None]


def test_a_message_with_another_role_and_other_text_is_a_new_one() -> None:
    assert align([("user", "a")], [("model", "b")]) == [None]
    assert align([("user", "a")], [("model", "a")]) == [0]


def test_a_message_of_which_only_the_role_changed_is_not_taken_for_a_new_one() -> None:
    shown, edited, new = ("user", "a text"), ("model", "a text"), ("user", "another text")
    assert align([shown], [edited, new]) == [0, None]
    assert align([shown], [new, edited]) == [None, 0]


@pytest.mark.parametrize(("messages", "texts"), [(1_000, 1), (20_000, 20_000)], ids=["the same", "distinct"])
def test_a_list_whose_every_other_message_is_edited_takes_little_time(messages: int, texts: int) -> None:
    shown = [("user", str(i % texts)) for i in range(messages)]
    edited = [(role, text if i % 2 else "X") for i, (role, text) in enumerate(shown)]
    began = process_time()
    align(shown, edited)
    assert process_time() - began < 2


SAME = [("user", "a"), ("model", "b")] * 5_000
NUMBERED = [("user", str(number)) for number in range(10_000)]
LONG: dict[str, tuple[list[Message], list[Message], list[int | None]]] = {
    "the same many times": (
        [("user", "first"), *SAME, ("user", "last")],
        [("user", "FIRST"), *SAME, ("user", "LAST")],
        [*range(10_002)],
    ),
    "every other one removed": (NUMBERED, NUMBERED[1::2], [*range(1, 10_000, 2)]),
}


@pytest.mark.parametrize("name", LONG)
def test_long_lists_are_aligned_without_comparing_all_with_all(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    compared = 0
    find = SequenceMatcher.find_longest_match

    def counting(matcher: Any, alo: int, ahi: int, blo: int, bhi: int) -> Any:
        nonlocal compared
        compared += ahi - alo
        return find(matcher, alo, ahi, blo, bhi)

    monkeypatch.setattr(SequenceMatcher, "find_longest_match", counting)
    shown, edited, expected = LONG[name]
    assert align(shown, edited) == expected
    assert compared < 200 * len(shown)
