"""Text in chunks: the output does not depend on the split, and no part of a secret is released early."""

import random
from collections.abc import Callable
from hashlib import sha256
from itertools import pairwise
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts.secrets import PLANTED, cut, fragments, mask, planted, prose, redacted

from hookgate.hooks.policies.redact import (
    DETECTORS,
    BlockedFragment,
    Detector,
    DroppedFragment,
    KeptFragment,
    ReplacedFragment,
    Scanner,
    TextRedactor,
    make_pseudonym,
    pattern_detector,
    words_detectors,
)

SMALL = Scanner(
    [
        Detector("PAIR", r"\bab\b", preceded_by=r"[^b]"),
        Detector("EVEN", r"a(b{1,4})a", lambda text: len(text) % 2 == 0),
        pattern_detector("LONG", r"xa*[bx]"),
        pattern_detector("TAIL", r"é.?b|^b|a$"),
        Detector("HEAD", r"(bba[ab]{0,4})\b", preceded_by=r"[^b]"),
    ]
)
PLANTS = [pytest.param(label, id=label) for label in PLANTED]


@pytest.mark.parametrize("label", PLANTS)
def test_every_split_in_two_gives_the_output_of_the_whole(scanner: Scanner, label: str) -> None:
    text, _ = planted(0, label)
    whole = redacted(scanner, text)
    for at in range(len(label) % 5, len(text), 5):
        assert redacted(scanner, text[:at], text[at:]) == whole, at


def test_a_secret_in_which_a_key_begins_is_found_at_every_split() -> None:
    keys = [detector for detector in DETECTORS if detector.kind == "PRIVATE_KEY"]
    quotes = Scanner([pattern_detector("QUOTED", '"[^"]{1,99}"'), *keys])
    text = 'so "a -----BEGIN PRIVATE KEY-----\nMIIE" ok'
    for at in range(len(text)):
        assert redacted(quotes, text[:at], text[at:]) == "so [QUOTED] ok"


@pytest.mark.parametrize("label", PLANTS)
def test_random_splits_give_the_output_of_the_whole_without_the_secret(scanner: Scanner, label: str) -> None:
    rnd = random.Random(label)  # noqa: S311  # it makes texts
    for seed in range(4):
        text, secret = planted(seed, label)
        whole = redacted(scanner, text)
        assert secret not in whole
        assert redacted(scanner, *cut(rnd, text)) == whole


@pytest.mark.parametrize("label", PLANTS)
def test_no_part_of_a_secret_goes_out_before_it_is_known(scanner: Scanner, label: str) -> None:
    text, secret = planted(20, label)
    redactor, out = TextRedactor(scanner, mask), ""
    for character in text[: text.index(secret) + len(secret)]:
        out += "".join(fragment.output for fragment in redactor.feed(character))
        assert not out.endswith(secret[: min(8, len(secret))])


@settings(deadline=None)
@given(st.integers(0, 10**6), st.lists(st.sampled_from(list(PLANTED)), min_size=1, max_size=6))
def test_texts_with_many_secrets(scanner: Scanner, seed: int, labels: list[str]) -> None:
    rnd = random.Random(seed)  # noqa: S311  # it makes texts
    text = " ".join(planted(seed + place, label)[0] for place, label in enumerate(labels))
    whole = redacted(scanner, text)
    assert redacted(scanner, *cut(rnd, text, 40)) == whole
    assert redacted(scanner, *text) == whole


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.lists(st.sampled_from(list(PLANTED)), min_size=1, max_size=6))
def test_redacting_twice_changes_nothing_more(scanner: Scanner, seed: int, labels: list[str]) -> None:
    # Without a blank, one secret may contain the name of the next, and its mask then looks like such a name:
    # `[DOCKER_TOKEN]: …`.
    text = " ".join(planted(seed + place, label)[0] for place, label in enumerate(labels))
    for replace in (mask, token):
        once = with_(replace, scanner, text)
        assert with_(replace, scanner, once) == once


def with_(replace: Callable[[str, str], str], scanner: Scanner, text: str) -> str:
    redactor = TextRedactor(scanner, replace)
    return "".join(fragment.output for fragment in [*redactor.feed(text), *redactor.finish()])


def token(kind: str, original: str) -> str:
    return make_pseudonym(kind, sha256(original.encode()).hexdigest()[:16])


@pytest.mark.parametrize(
    "text",
    [
        pytest.param(f"sk-{'a1' * 20}+17883735798", id="a number added to a key"),
        pytest.param("Bearer q1W2e3R4t5Z6u7I8o9P0=reset", id="a word right behind"),
    ],
)
def test_text_next_to_a_replacement_is_not_searched_again(scanner: Scanner, text: str) -> None:
    for replace in (mask, token):
        once = with_(replace, scanner, text)
        assert once != text
        assert with_(replace, scanner, once) == once


@given(st.text(max_size=60), st.lists(st.integers(0, 60), max_size=6))
def test_pieces_stand_for_all_of_the_text(scanner: Scanner, text: str, cuts: list[int]) -> None:
    ends = [0, *sorted(min(at, len(text)) for at in cuts), len(text)]
    chunks = [text[a:b] for a, b in pairwise(ends)]
    assert "".join(fragment.original for fragment in fragments(scanner, chunks)) == text


def naive(text: str, cap: int, at_cap: str) -> str:
    """The law, one character after another over all of the text so far, with nothing forgotten."""
    out, at, dropping = "", 0, False
    for end in range(1, len(text) + 2):
        final = end > len(text)
        if dropping and not final:
            dropping = not text[end - 1].isspace() or text[end - 1] in "\r\n"
            at = end if dropping else at
        if dropping:
            continue
        data, start = text[:end].encode(), len(text[:at].encode())
        until = len(data) if final else SMALL.undecided(data, start)
        while finding := SMALL.next(data, start, until):
            out += data[start : finding.start].decode() + f"[{finding.detector.kind}]"
            start = finding.end
            until = until if final else max(until, start) if start <= until else SMALL.undecided(data, start)
        out += data[start:until].decode()
        at = len(data[:until].decode())
        if not final and end - at == cap:
            if at_cap == "block":
                return out
            out += f"[{SMALL.open_detector(data, until).kind}]"
            at, dropping = end, True
    return out


@settings(max_examples=settings().max_examples * 2, deadline=None)
@given(
    st.text("aabbx é\n", max_size=40),
    st.sampled_from([1, 2, 3, 5, 8]),
    st.sampled_from(["mask", "block"]),
    st.integers(0, 10**6),
)
def test_the_cap_is_met_at_the_same_character_in_every_split(
    text: str, cap: int, at_cap: Literal["mask", "block"], seed: int
) -> None:
    expected = naive(text, cap, at_cap)
    chunks = cut(random.Random(seed), text)  # noqa: S311  # it makes texts
    for parts in ([text], list(text), chunks):
        assert redacted(SMALL, *parts, cap=cap, at_cap=at_cap) == expected


def test_what_is_held_is_never_longer_than_the_cap(scanner: Scanner) -> None:
    redactor = TextRedactor(scanner, mask, cap=100)
    text, longest = f"{prose(random.Random(1), 30)} eyJ{'a' * 5000} end", 0  # noqa: S311  # it makes texts
    for chunk in cut(random.Random(2), text):  # noqa: S311  # it makes texts
        redactor.feed(chunk)
        longest = max(longest, len(redactor.held_text))
    assert 90 <= longest < 100


LONG_KEY = "-----BEGIN PRIVATE KEY-----\n" + f"{'Ab1+' * 16}\n" * 300


# What is held is read again with each step, so the smallest steps have a smaller cap.
STEPS = pytest.mark.parametrize(("step", "cap"), [(1, 1024), (100, 8192), (4096, 8192), (10**6, 8192)])


@STEPS
def test_a_key_over_the_cap_is_masked_and_its_rest_dropped(scanner: Scanner, step: int, cap: int) -> None:
    text = f"see {LONG_KEY} and more"
    found = fragments(scanner, [text[i : i + step] for i in range(0, len(text), step)], cap)
    assert "".join(fragment.output for fragment in found) == "see [PRIVATE_KEY]\n and more"
    assert [fragment.kind for fragment in found if isinstance(fragment, ReplacedFragment)] == ["PRIVATE_KEY"]
    assert any(isinstance(fragment, DroppedFragment) for fragment in found)
    assert "".join(fragment.original for fragment in found) == text


@pytest.mark.parametrize("step", [1, 7, 100, 10**6])
@pytest.mark.parametrize("lines", [2, 3, 9])
def test_a_key_over_the_cap_is_dropped_to_its_last_line(scanner: Scanner, lines: int, step: int) -> None:
    """However few characters of it are left when the others have been dropped."""
    key = "-----BEGIN PRIVATE KEY-----\n" + f"{'Ab1+' * 16}\n" * lines
    text = f"see {key}uyakVn==\n-----END PRIVATE KEY----- and more"
    chunks = [text[i : i + step] for i in range(0, len(text), step)]
    assert redacted(scanner, *chunks, cap=200) == "see [PRIVATE_KEY] and more"


@STEPS
def test_a_key_over_the_cap_blocks_the_rest_if_that_is_asked_for(
    scanner: Scanner, step: int, cap: int
) -> None:
    text = f"see {LONG_KEY} and more"
    found = fragments(scanner, [text[i : i + step] for i in range(0, len(text), step)], cap, at_cap="block")
    assert "".join(fragment.output for fragment in found) == "see "
    assert found[-1] == BlockedFragment("PRIVATE_KEY", LONG_KEY[:cap])
    assert all(isinstance(fragment, KeptFragment) for fragment in found[:-1])


def test_only_the_last_word_of_prose_is_held_back(scanner: Scanner) -> None:
    redactor = TextRedactor(scanner, mask)
    for said, held in [("Hello", 5), (" world", 5), (", and ", 0), ("日本語", 0), ("\n", 0), ("x" * 99, 0)]:
        redactor.feed(said)
        assert len(redactor.held_text) == held, said


def test_boundaries_are_reported_by_what_went_out_before() -> None:
    """`ab` is a word only where no letter stands before it, whatever chunk that came in."""
    words = Scanner(words_detectors("WORD", ["ab"]))
    assert redacted(words, "x", "ab ", "é", "ab", " ", "ab") == "xab é[WORD] [WORD]"


def test_lone_surrogates_pass(scanner: Scanner) -> None:
    assert redacted(scanner, "a\ud800", "\udc00 jane@example.com \udfff") == "a\ud800\udc00 [EMAIL] \udfff"


def test_a_redactor_has_to_hold_something(scanner: Scanner) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        TextRedactor(scanner, mask, cap=0)


def test_the_built_in_detectors_are_found_in_any_scanner() -> None:
    """Each alone finds its own as all together do: none lives on another's pattern."""
    for label in PLANTED:
        kind = label.split()[0]
        alone = Scanner([detector for detector in DETECTORS if detector.kind == kind])
        text, secret = planted(3, label)
        assert secret not in redacted(alone, text), label


def broken_off(scanner: Scanner, text: str, cap: int = 8192) -> str:
    redactor = TextRedactor(scanner, mask, cap)
    out = "".join(fragment.output for fragment in [*redactor.feed(text), *redactor.cut_off()])
    assert len(redactor.held_text) == 0
    return out


@pytest.mark.parametrize("label", [pytest.param(label, id=label) for label in PLANTED])
def test_a_secret_that_is_cut_off_anywhere_shows_four_characters_at_most(
    scanner: Scanner, label: str
) -> None:
    before, _, make = PLANTED[label]
    secret = make(random.Random(5))  # noqa: S311  # it makes texts
    for end in range(5, len(secret)):
        out = broken_off(scanner, f"so {before}{secret[:end]}")
        is_word = "@" not in secret[:end] and not any(map(str.isdigit, secret[:end]))
        assert secret[:end] not in out or (label in BEGIN_WITH_A_WORD and is_word), secret[:end]


BEGIN_WITH_A_WORD = {"EMAIL", "IT_FISCAL_CODE", "IN_PAN"}
"""What may begin like a plain word, which is shown."""


@pytest.mark.parametrize("text", ["", "done. ", "it was sai", "Hello", "a, b", "see www.exa", "4 of 12"])
def test_prose_that_is_cut_off_is_not_masked(scanner: Scanner, text: str) -> None:
    assert broken_off(scanner, text) == text


SHORT_KEY = "-----BEGIN PRIVATE KEY-----\n" + f"{'Ab1+' * 16}\n" * 5 + "uyakVn==\n-----END PRIVATE KEY-----"


def test_a_key_over_the_cap_that_is_cut_off_anywhere_is_masked_once(scanner: Scanner) -> None:
    for end in range(len(SHORT_KEY) - 4 * 65, len(SHORT_KEY) + 1):
        assert broken_off(scanner, f"see {SHORT_KEY[:end]}", cap=100) == "see [PRIVATE_KEY]", end


@pytest.mark.parametrize(
    ("rest", "expected"),
    [
        (" and mo", " and mo"),
        ("\nto anna7@exa", "\nto [EMAIL]"),
        ("\n\nAKIAQV6MAVZO", "\n\n[AWS_ACCESS_KEY]"),
    ],
)
def test_what_follows_a_key_over_the_cap_is_cut_off_like_any_text(
    scanner: Scanner, rest: str, expected: str
) -> None:
    assert broken_off(scanner, f"see {SHORT_KEY}{rest}", cap=100) == f"see [PRIVATE_KEY]{expected}"


@pytest.mark.parametrize("before", ["", " ", "\n", "(", "a ", "é ", "x_y ", "* "])
@pytest.mark.parametrize("emphasis", ["_", "__", "___"])
def test_a_secret_in_emphasis_is_found_after_any_sign(scanner: Scanner, before: str, emphasis: str) -> None:
    key = "AKIA" + "Q3EGRYH7XJ4WPL2D"
    text = f"{before}{emphasis}{key}{emphasis}"
    expected = f"{before}{emphasis}[AWS_ACCESS_KEY]{emphasis}"
    assert redacted(scanner, text) == expected
    assert redacted(scanner, *text) == expected
