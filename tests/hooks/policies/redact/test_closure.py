"""Prefix closures: exactly the texts that can still become a match."""

import itertools
import re

import pytest
import re2  # type: ignore[import-untyped]  # it has no stubs
from hypothesis import given, settings
from hypothesis import strategies as st

from hookgate.hooks.policies.redact import DETECTORS
from hookgate.hooks.policies.redact.closure import language

TEXTS = ["".join(text) for length in range(1, 9) for text in itertools.product("ab", repeat=length)]

atoms = st.sampled_from(["a", "b", "[ab]", "[^a]", ".", "ab", "(?:a|bb)", "(?i:A)"])
bounds = st.sampled_from(["", "?", "??", "{2}", "{1,2}", "{0,2}?"])


def sequences(parts: st.SearchStrategy[str], most: int) -> st.SearchStrategy[str]:
    repeated = st.tuples(parts, bounds).map(lambda pair: f"(?:{pair[0]}){pair[1]}")
    return st.lists(repeated, min_size=1, max_size=most).map("".join)


bounded = st.one_of(
    sequences(atoms, 2),
    st.tuples(sequences(atoms, 1), sequences(atoms, 2)).map("|".join),
    sequences(st.tuples(atoms, atoms).map("|".join), 2),
)
endless = st.tuples(bounded, st.sampled_from("*+"), bounded).map(lambda p: f"(?:{p[0]}){p[1]}(?:{p[2]})")


def is_empty(pattern: str) -> bool:
    return re.fullmatch(pattern, "") is not None


def in_closure(pattern: str) -> set[str]:
    closure = re2.compile(f"(?:{language(pattern).prefixes})")
    return {text for text in TEXTS if closure.fullmatch(text)}


def prefixes_of_matches(pattern: str) -> set[str]:
    matches = [text for text in TEXTS if re.fullmatch(pattern, text)]
    return {text[:end] for text in matches for end in range(1, len(text) + 1)}


@settings(max_examples=100, deadline=None)
@given(bounded.filter(lambda pattern: not is_empty(pattern)))
def test_a_closure_contains_exactly_the_prefixes_of_matches(pattern: str) -> None:
    assert in_closure(pattern) == prefixes_of_matches(pattern)


@settings(max_examples=20, deadline=None)
@given(endless.filter(lambda pattern: not is_empty(pattern)))
def test_every_prefix_of_a_match_is_in_the_closure_of_an_endless_pattern(pattern: str) -> None:
    assert prefixes_of_matches(pattern) <= in_closure(pattern)


@settings(max_examples=60, deadline=None)
@given(bounded.filter(lambda pattern: not is_empty(pattern)))
def test_the_pattern_that_is_written_means_the_same(pattern: str) -> None:
    written = re2.compile(language(pattern).whole)
    assert {t for t in TEXTS if written.fullmatch(t)} == {t for t in TEXTS if re.fullmatch(pattern, t)}


@pytest.mark.parametrize(
    ("pattern", "inside", "outside"),
    [
        pytest.param(r"\bfoo\b", ["f", "fo", "foo"], ["", "o", "fooo", "foo "], id="boundaries"),
        pytest.param(r"(?i)Straße", ["s", "STR", "straß"], ["ß"], id="case and other letters"),
        pytest.param(r"[^\d\s]x", ["é", "-x", "日"], ["1", " "], id="negated classes"),
        pytest.param(r"(?s:a.)b", ["a\n", "a\nb"], ["a\nc"], id="dot that takes line ends"),
        pytest.param(r"a.b", ["a", "axb"], ["a\n"], id="dot that does not"),
        pytest.param(r"(?m)^a$\nb", ["a", "a\n", "a\nb"], ["\n"], id="lines"),
        pytest.param(r"(?:a){0}bc", ["b", "bc"], ["a", "ab"], id="repeat that is none"),
        pytest.param(r"(?:\b){2}ab", ["a", "ab"], ["b"], id="repeat of a position"),
        pytest.param(
            r"(?:ab)+c", ["a", "ab", "aba", "abab", "ababc"], ["b", "abb", "ac"], id="endless repeat"
        ),
        pytest.param(r"(?:ab){2}?c", ["a", "ab", "aba", "abab", "ababc"], ["ababa", "b"], id="short repeat"),
        pytest.param(r"[^a-c]x", ["d", "dx"], ["a", "cx"], id="negated range"),
        pytest.param(r"[a-c-]x", ["b", "-x"], ["d", "]"], id="range and a sign"),
        pytest.param(r"a(?:|b)c", ["a", "ab", "ac", "abc"], ["b", "abb"], id="empty branch"),
        pytest.param(r"(?i)k(?-i:ey)s", ["K", "Ke", "keyS"], ["kE", "KEYs"], id="flag that is unset"),
    ],
)
def test_what_is_in_a_closure(pattern: str, inside: list[str], outside: list[str]) -> None:
    closure = re2.compile(f"(?:{language(pattern).prefixes})")
    assert [text for text in inside if not closure.fullmatch(text)] == []
    assert [text for text in outside if closure.fullmatch(text)] == []


@pytest.mark.parametrize(
    ("pattern", "why"),
    [
        pytest.param("x*", "can match the empty string", id="empty"),
        pytest.param(r"\b", "can match the empty string", id="position only"),
        pytest.param("(?=a)b", "assert", id="lookahead"),
        pytest.param(r"(a)\1", "groupref", id="back-reference"),
        pytest.param("a{,3}b", "lower bound", id="repeat that RE2 takes for letters"),
        pytest.param("[[:alpha:]]", "nested set", id="class that Python reads otherwise"),
        pytest.param("a(", "unterminated", id="broken"),
    ],
)
def test_what_has_no_closure_is_reported(pattern: str, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        language(pattern)


def test_every_detector_has_one() -> None:
    assert [detector for detector in DETECTORS if not language(detector.pattern).prefixes] == []
