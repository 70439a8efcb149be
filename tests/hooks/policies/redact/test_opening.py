"""Openings: every match of a pattern begins with its opening, and every prefix of a match may be held."""

import random

import pytest
import re2  # type: ignore[import-untyped]  # it has no stubs
from support.texts.formats import written

from hookgate.hooks.policies.redact.detectors.issued import ISSUED
from hookgate.hooks.policies.redact.opening import opening, prefixes_of, searched_of


def test_matches_begin_with_the_opening_and_their_prefixes_are_held() -> None:
    """Of the few patterns without one, nothing is known."""
    openings = [(row.pattern, opening(row.pattern)) for row in ISSUED]
    for pattern, begins in openings:
        if begins is None:
            continue
        searched, held = re2.compile(searched_of([begins])), re2.compile(prefixes_of([begins]))
        rnd = random.Random(pattern)  # noqa: S311  # it makes texts
        for _ in range(5):
            match = "".join(written(rnd, pattern))
            assert match[:3].encode() in begins.heads, pattern
            assert searched.match(match), pattern
            assert all(held.fullmatch(match[:end]) for end in range(1, len(match) + 1)), pattern


def test_most_issued_keys_have_an_opening() -> None:
    """All others are searched as a whole, so there must be few."""
    assert sum(opening(row.pattern) is None for row in ISSUED) <= 15


@pytest.mark.parametrize(
    ("pattern", "heads"),
    [
        pytest.param("abc", ["abc"], id="literal"),
        pytest.param("ab[cd]{2}", ["abc", "abd"], id="class"),
        pytest.param("(?:a|bc)?de+f", ["ade", "bcd", "dee", "def"], id="branches"),
        pytest.param("(?i)a-b", ["A-B", "A-b", "a-B", "a-b"], id="case"),
        pytest.param("(?i:a)b(?-i:c)", ["Abc", "abc"], id="case of a group"),
        pytest.param(r"\babc\b", ["abc"], id="boundaries"),
        pytest.param("a{2,}b?c", ["aaa", "aab", "aac"], id="endless repeat"),
    ],
)
def test_the_heads_are_the_first_characters_of_all_matches(pattern: str, heads: list[str]) -> None:
    begins = opening(pattern)
    assert begins is not None
    assert sorted(head.decode() for head in begins.heads) == heads


@pytest.mark.parametrize(
    "pattern",
    [
        pytest.param("ab", id="short"),
        pytest.param("abc?", id="perhaps short"),
        pytest.param(r"\w{8}", id="many beginnings"),
        pytest.param("abc def", id="blank"),
        pytest.param("abc[^x]", id="negated class"),
        pytest.param("abc.", id="any character"),
        pytest.param("abcé", id="not ASCII"),
        pytest.param(r"abc\s", id="white space"),
        pytest.param("(?:a?b?c?d?e?f?g?h?i?j?)xyz", id="many sequences"),
    ],
)
def test_other_patterns_have_none(pattern: str) -> None:
    assert opening(pattern) is None


def test_openings_of_several_patterns_are_one_pattern() -> None:
    begins = [each for each in map(opening, ["abcx", "abcy", "abd"]) if each]
    searched = re2.compile(searched_of(begins))
    assert [text for text in ("abcx", "abcy", "abd", "abc", "abe") if searched.fullmatch(text)] == [
        "abcx",
        "abcy",
        "abd",
    ]
