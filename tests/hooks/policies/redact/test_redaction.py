"""How one value is redacted: which of its texts are searched, what is counted, and where a search ends."""

from base64 import b64encode
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.texts.secrets import mask, redacted

from hookgate.hooks.policies.redact import (
    DETECTORS,
    Detector,
    Scanner,
    fields,
    pattern_detector,
    shared_scanner,
)
from hookgate.hooks.policies.redact.fields import redacted_data
from hookgate.hooks.policies.redact.redaction import (
    CleanCheck,
    Redaction,
    Search,
)
from hookgate.hooks.policies.redact.scanner import TakesLong
from hookgate.hooks.policies.speakers import SCOPES, Scope
from hookgate.hooks.session import Withheld

WORDS = Scanner([pattern_detector("WORD", "secret"), pattern_detector("DIGITS", "[0-9]{8}")])


def find_anna(text: str) -> list[tuple[int, int, str]]:
    at = text.find("Anna")
    return [] if at < 0 else [(at, at + 4, "PERSON")]


def redaction(**search: Any) -> Redaction:
    return Redaction(Search(WORDS, **search), lambda kind, _: f"[{kind}]")


def test_every_string_name_and_long_number_of_a_value_is_searched() -> None:
    value = {
        "a": ["secret", {"secret": 10_000_000, "secret ": -10_000_000}],
        "b": [9_999_999, -9_999_999, 10_000_000.0, 12345678.5, True, None],
        "c": [[["secret"]], "clean"],
    }
    one = redaction()
    assert one.value(value) == {
        "a": ["[WORD]", {"[WORD]": "[DIGITS]", "[WORD] ": "-[DIGITS]"}],
        "b": [9_999_999, -9_999_999, "[DIGITS]", "[DIGITS].5", True, None],
        "c": [[["[WORD]"]], "clean"],
    }
    # A name that tells what its value is, as "secret" does, is searched once more together with the value.
    assert one.findings == {"WORD": 6, "DIGITS": 4}


def test_a_long_number_is_searched_together_with_the_name_of_its_field() -> None:
    one = Redaction(Search(shared_scanner(DETECTORS)), mask)
    value = {"ssn": 460899847, "people": [{"ssn": {"default": 514690360}}, {"bsn": [111222333, 1]}]}
    assert one.value(value) == {
        "ssn": "[US_SSN]",
        "people": [{"ssn": {"default": "[US_SSN]"}}, {"bsn": ["[NL_BSN]", 1]}],
    }
    unnamed = {"count": 460899847, "size": 111222333}
    assert one.value(unnamed) is unnamed


@pytest.mark.parametrize(
    "character", ["~", "\x80", "\u07ff", "\u0800", "\u0964", "\uffff", "\U00010000", "😀"]
)
def test_a_secret_is_found_between_characters_of_any_length(scanner: Scanner, character: str) -> None:
    key, masked = "AKIA" + "Q3EGRYH7XJ4WPL2D", "[AWS_ACCESS_KEY]"
    between, expected = (f"{character}{each}{character}" for each in (key, masked))
    assert redacted(scanner, between) == redacted(scanner, *between) == expected


@pytest.mark.parametrize("pattern", ["(?i-s:acme.token)", "(?i-ms:acme.token$)"])
def test_flags_that_a_pattern_sets_and_unsets_hold_among_other_texts(pattern: str) -> None:
    one = Redaction(Search(Scanner([pattern_detector("ACME", pattern)])), lambda kind, _: f"[{kind}]")
    value = ["before", "an ACME-token", "acme\ntoken", "after"]
    assert one.value(value) == ["before", "an [ACME]", "acme\ntoken", "after"]


@pytest.mark.parametrize("value", ["clean", ["clean", 5], {"a": {"b": ["clean", 1.5, False]}}, 17, None])
def test_a_clean_value_is_the_very_object(value: Any) -> None:
    one = redaction()
    for _ in range(2):
        assert one.value(value) is value
    assert one.findings == {}


def test_names_that_become_the_same_are_numbered() -> None:
    value = {"secret": 1, "[WORD]": 2, "[WORD]_2": 3, "b": 4}
    assert redaction().value(value) == {"[WORD]": 1, "[WORD]_2": 2, "[WORD]_2_2": 3, "b": 4}


def test_what_is_replaced_with_itself_is_no_finding() -> None:
    one = Redaction(Search(WORDS), lambda _, text: text)
    assert one.text("a secret") == "a secret"
    assert +one.findings == {}


def test_an_additional_detector_sees_every_text() -> None:
    one = redaction(find=find_anna)
    assert one.slow
    assert not one.is_clean("hello")
    assert one.text("I am Anna") == "I am [PERSON]"
    assert one.value({"a": ["Anna"]}) == {"a": ["[PERSON]"]}
    assert one.chunk("I am Anna") == "I am Anna"  # it has searched the whole
    assert not CleanCheck(one).is_clean_throughout(lambda each: each.text("hello"))


@pytest.mark.parametrize(
    ("text", "clean"), [("hello", True), ("a secret", False), ("x" * 20, True), ("x" * 30 + "secret", False)]
)
def test_a_body_is_clean_if_all_of_its_texts_are(text: str, clean: bool) -> None:
    one = redaction(cap=20)
    for look in (
        lambda each: each.text(text),
        lambda each: each.value({"a": [text]}),
        lambda each: each.is_clean(text),
    ):
        assert CleanCheck(one).is_clean_throughout(look) is clean
    assert one.findings == {}


def test_what_only_looks_like_a_secret_counts_towards_the_limit() -> None:
    lookalikes = Scanner([Detector("WORD", r"\bsecret\b", lambda _: False)])
    one = Redaction(Search(lookalikes, limit=5), lambda kind, _: kind)
    assert one.text("secret secret 1") == "secret secret 1"
    assert one.value({"a": "secret 2", "b": "secret 3"}) == {"a": "secret 2", "b": "secret 3"}
    with pytest.raises(Withheld, match="too many possible secrets"):
        one.text("secret secret 4")


def test_a_text_with_too_many_possible_secrets_is_withheld() -> None:
    assert redaction(limit=4).text("secret secret secret") == "[WORD] [WORD] [WORD]"
    with pytest.raises(Withheld, match="too many possible secrets"):
        redaction(limit=3).text("secret secret secret")


def test_a_brief_redaction_stops_if_a_search_takes_long() -> None:
    brief = Redaction(Search(WORDS), lambda kind, _: kind, brief=True)
    assert brief.text("secret " * 100) == "WORD " * 100
    with pytest.raises(TakesLong):
        brief.text("secret " * 501)
    with pytest.raises(Withheld):
        Redaction(Search(WORDS, limit=3), lambda kind, _: kind, brief=True).text("secret " * 4)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[KEY:9c1f04d2ab7e]", "[KEY:9c1f04d2ab7e]"),
        ("[AWS_ACCESS_KEY_2:9c1f04d2ab7e]", "[AWS_ACCESS_KEY_2:9c1f04d2ab7e]"),
        ("[A" + "B" * 23 + ":9c1f04d2ab7e]", "[A" + "B" * 23 + ":9c1f04d2ab7e]"),
        ("[A" + "B" * 24 + ":9c1f04d2ab7e]", "[A" + "B" * 24 + ":[HASH]]"),
        ("9c1f04d2ab7e", "[HASH]"),
        ("[key:9c1f04d2ab7e]", "[key:[HASH]]"),
        ("[KEY:9c1f04d2ab7e", "[KEY:[HASH]"),
        ("KEY:9c1f04d2ab7e]", "KEY:[HASH]]"),
    ],
)
def test_the_digits_of_a_hash_that_was_put_in_are_no_finding(text: str, expected: str) -> None:
    assert redacted(Scanner([pattern_detector("HASH", "[0-9a-f]{12}")]), text) == expected


def test_a_group_that_took_no_part_in_a_match_is_not_replaced() -> None:
    own = Scanner([pattern_detector("TAIL", "id(=[0-9]+)?")])
    assert redacted(own, "id and id=17") == "id and id[TAIL]"


WIDE = ("x" * 4096).encode("utf-16-le")


@pytest.mark.parametrize(
    ("raw", "new"),
    [
        (b"a secret", b"a [WORD]"),
        ("a secret".encode("utf-16"), "a [WORD]".encode("utf-16")),
        ("a secret".encode("utf-16-le"), "a [WORD]".encode("utf-16-le")),
        ("a secret".encode("utf-16-be"), "a [WORD]".encode("utf-16-be")),
        ("a secret".encode("utf-8-sig"), "a [WORD]".encode("utf-8-sig")),
        (b"\0" * 64 + b"a secret", b"\0" * 64 + b"a [WORD]"),
        (b"\xff\xfe" + b"a secret", b"\xff\xfe" + b"a [WORD]"),
        (WIDE + b"a secret!", WIDE + b"a [WORD]!"),
        (b"a secret \xe9", b"a [WORD] \xe9"),
        (bytes(range(256)) + b"a secret", bytes(range(256)) + b"a secret"),
    ],
    ids=[
        "UTF-8",
        "UTF-16",
        "UTF-16-LE",
        "UTF-16-BE",
        "with a mark",
        "zeros",
        "ASCII after a mark of UTF-16",
        "ASCII after UTF-16",
        "Latin-1",
        "no text",
    ],
)
def test_bytes_that_are_text_are_searched_in_their_encoding(raw: bytes, new: bytes) -> None:
    assert redacted_data(redaction(), b64encode(raw).decode()) == b64encode(new).decode()


@pytest.mark.parametrize(
    ("data", "expected"),
    [
        ("secret/abcdef", "[WORD]/abcdef"),  # of a length that base64 does not have
        (["a secret"], ["a [WORD]"]),
        (b64encode(b"\xff\xfe\0\0 a secret").decode(), b64encode(b"\xff\xfe\0\0 a [WORD]").decode()),
    ],
    ids=["no base64", "no string", "not in its encoding"],
)
def test_data_that_cannot_be_decoded_is_searched_as_it_is(data: Any, expected: Any) -> None:
    assert redacted_data(redaction(), data, "text/plain") == expected


NAMED = Scanner([pattern_detector("WORD", "secret"), pattern_detector("NAMED", 'password": "([a-z]+)')])
ENCODED = b64encode(b"a secret").decode()
PIECES = st.sampled_from(
    [
        "hello",
        "a secret",
        "a se",
        "cret",
        "x" * 30,
        "x" * 30 + " secret",
        b64encode(b"a secret").decode(),
        "user",
    ]
)
VALUES = st.recursive(
    PIECES | st.just(5) | st.none(),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(PIECES | st.just("password"), inner, max_size=2)
    ),
    max_leaves=4,
)
CALLS = st.lists(PIECES, min_size=2, max_size=2).map(
    lambda pieces: {"partialArgs": [{"jsonPath": "$.a", "stringValue": piece} for piece in pieces]}
)
RESULTS = st.just({"parts": [{"inlineData": {"mimeType": "text/plain", "data": ENCODED}}]})
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "text": PIECES | VALUES,
        "thought": st.booleans(),
        "functionCall": VALUES
        | st.fixed_dictionaries({"partialArgs": st.just([{"stringValue": "a secret"}])}),
        "functionResponse": VALUES | RESULTS,
        "thoughtSignature": PIECES,
        "inlineData": VALUES,
        "other": VALUES,
    },
)
TURNS = st.fixed_dictionaries(
    {"parts": st.lists(PARTS | VALUES, max_size=3) | PARTS},
    optional={"role": st.sampled_from(["user", "model", "a secret"]) | VALUES, "password": VALUES},
)


@settings(max_examples=settings().max_examples * 2)
@given(st.lists(TURNS | VALUES, max_size=3), VALUES, st.sampled_from([SCOPES, SCOPES - {"thoughts"}]))
def test_the_quick_check_of_a_request_misses_nothing(
    contents: list[Any], system: Any, scopes: frozenset[Scope]
) -> None:
    """A request that is not clean is redacted part by part, and one that is clean would be left as it is."""

    def mask(kind: str, _: str) -> str:
        return f"[{kind}]"

    request = {"contents": contents, "systemInstruction": system, "model": "m"}
    search = Search(NAMED, cap=20)
    part_by_part = fields._redacted_request(Redaction(search, mask, scopes), request)
    assert fields.redacted_request(Redaction(search, mask, scopes), request) == part_by_part


HALVES = [{"text": "a se"}, {"text": "cret"}]


@pytest.mark.parametrize(
    "turns",
    [
        pytest.param([{"parts": HALVES}], id="a text in two parts"),
        pytest.param([{"parts": [half]} for half in HALVES], id="a text in two contents"),
        pytest.param([{"parts": [half | {"thought": True} for half in HALVES]}], id="a thought in two parts"),
        pytest.param(
            [
                {
                    "parts": [
                        {
                            "functionCall": {
                                "partialArgs": [
                                    {"jsonPath": "$.a", "stringValue": "a se"},
                                    {"jsonPath": "$.a", "stringValue": "cret"},
                                ]
                            }
                        }
                    ]
                }
            ],
            id="an argument in two pieces",
        ),
        pytest.param(
            [{"parts": [{"functionResponse": {"parts": [{"inlineData": {"data": ENCODED}}]}}]}],
            id="a file in a result",
        ),
        pytest.param([{"parts": [{"inlineData": {"data": ENCODED}}]}], id="a file"),
        pytest.param([{"parts": [{"thoughtSignature": ENCODED}]}], id="a signature that is text"),
        pytest.param([{"parts": [], "password": "abc"}], id="an assignment beside the parts"),
        pytest.param([{"parts": [], "role": "a secret"}], id="a role"),
        pytest.param([{"parts": [{"text": {"password": "abc"}}]}], id="a text that is none"),
    ],
)
def test_the_quick_check_of_a_request_finds(turns: list[Any]) -> None:
    request = {"contents": turns}
    found = Redaction(Search(NAMED), lambda kind, _: f"[{kind}]")
    assert fields.redacted_request(found, request) != request
    assert found.findings
