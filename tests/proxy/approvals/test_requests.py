"""What a request is about, what people are shown of it, and how decisions change it."""

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.gateway.approving import asked_call, decision, now

from hookgate.proxy.approvals import requests
from hookgate.proxy.approvals.requests import (
    MAX_ARGUMENTS,
    ApprovalRequest,
    AskedCall,
    DecisionError,
    Scope,
    read_row,
    request_document,
    request_summary,
    row_of,
    shown_arguments,
    shown_name,
    visible,
)
from hookgate.translator.fields import same
from hookgate.translator.strictjson import loads

TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=4)
NUMBERS = st.one_of(
    st.integers(-3, 3), st.floats(-3, 3).map(lambda x: round(x, 1)), st.integers(2**53 - 1, 2**64)
)
VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), NUMBERS, TEXTS),
    lambda each: st.one_of(st.lists(each, max_size=3), st.dictionaries(TEXTS, each, max_size=3)),
    max_leaves=6,
)
ARGUMENTS = st.dictionaries(TEXTS, VALUES, max_size=3)
TOOLS = Scope("tools", "send_*", 3600)


def call(arguments: dict[str, Any], tool: str = "t") -> Any:
    return replace(asked_call(tool), arguments=arguments)


def request(persons: int = 1, **arguments: Any) -> ApprovalRequest:
    at = now()
    made = ApprovalRequest.about(asked_call(**arguments), "7f3a12bc" * 4, at, at + 3_600_000, persons)
    assert made
    return made


@given(ARGUMENTS, ARGUMENTS)
def test_digests_are_equal_if_and_only_if_the_tool_gets_the_same(a: Any, b: Any) -> None:
    assert (call(a).digest == call(b).digest) is same(a, b)


def reordered(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: reordered(value[key]) for key in reversed(value)}
    return [reordered(each) for each in value] if isinstance(value, list) else value


@given(ARGUMENTS)
def test_spelling_and_order_do_not_change_a_digest(arguments: Any) -> None:
    spelled = json.dumps(reordered(arguments), ensure_ascii=True, indent=3).encode()
    assert call(loads(spelled)).digest == call(arguments).digest


@given(ARGUMENTS, VALUES, TEXTS)
def test_a_value_more_is_another_call(arguments: Any, value: Any, name: str) -> None:
    if name not in arguments:
        assert call({**arguments, name: value}).digest != call(arguments).digest


@pytest.mark.parametrize(
    ("a", "b"),
    [
        ({"n": 1}, {"n": True}),
        ({"n": 1}, {"n": "1"}),
        ({"n": 0}, {"n": None}),
        ({"n": None}, {}),
        ({"n": []}, {"n": {}}),
        ({"to": "a"}, {"To": "a"}),
        ({"to": "a"}, {"to": "a "}),
        ({"to": "é"}, {"to": "e\u0301"}),
        ({"n": 2**53}, {"n": 2**53 + 1}),
    ],
)
def test_these_are_different_calls(a: Any, b: Any) -> None:
    assert call(a).digest != call(b).digest


def test_the_border_of_the_tools_name_counts() -> None:
    assert call({}, "send").digest != call({}, "send_").digest
    assert call({"x": "y"}, "t").digest != call({}, 't",{"x":"y"}').digest


# ---- what is shown

HOSTILE = {"to": "a\u202eb\u200bc\u3164d\u2800\ufe0f<b>", "cc": "\x1b[2J\u0007", "\u202ekey": ["\U000e0041"]}


def test_what_is_invisible_is_shown_as_codes_and_nothing_is_lost() -> None:
    shown = shown_arguments(request(**HOSTILE))
    assert json.loads(shown) == HOSTILE
    assert not [each for each in shown if not each.isprintable() and each != "\n"]
    for escaped in (r"\u202e", r"\u200b", r"\u3164", r"\u2800", r"\ufe0f", r"\u001b", r"\udb40\udc41"):
        assert escaped in shown


def test_marks_that_would_cover_other_lines_are_shown_as_codes() -> None:
    assert visible("x" + "\u0336" * 5) == "x" + r"\u0336" * 5
    assert visible("x" + "\u0336\u20e5" * 200) == "x" + r"\u0336\u20e5" * 200
    for word in ("Grüße", "vie\u0323\u0302t", "\u05d1\u05bc\u05b0\u0596", "\u0e01\u0e39\u0e49"):
        assert visible(word) == word


def test_names_are_one_line_and_are_cut() -> None:
    assert shown_name("a\nb\tc\u202e") == r"a\nb\tc\u202e"
    assert len(shown_name("x" * 5000)) == 200
    assert visible("Grüße") == "Grüße"


def test_a_summary_contains_nothing_of_the_content() -> None:
    made = request(to="secret@example.com")
    assert "secret" not in json.dumps(request_summary(made, now()))
    assert "send_mail" not in json.dumps(request_summary(made, now()))
    assert request_document(made, now())["arguments"] == {"to": "secret@example.com"}


LARGE = {
    "one text": asked_call(x="y" * MAX_ARGUMENTS),
    "many values": asked_call(x=[0] * MAX_ARGUMENTS),
    "a name": asked_call("send_" * MAX_ARGUMENTS),
}


@pytest.mark.parametrize("asked", LARGE.values(), ids=LARGE)
def test_what_nobody_would_read_is_not_asked_about_nor_hashed(asked: AskedCall) -> None:
    """Both would keep the GIL, in the only thread that asks people."""
    at = now()
    assert ApprovalRequest.about(asked, "a" * 32, at, at + 1, 1) is None
    assert not asked.digest
    assert call({"x": "y" * (MAX_ARGUMENTS // 2)}).digest


def test_only_the_part_of_a_name_that_is_shown_is_escaped(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes: list[int] = []
    monkeypatch.setattr(requests, "escape_controls", lambda text: sizes.append(len(text)) or text)
    assert len(shown_name("\u2800" * 100_000)) == 200
    assert max(sizes) < 2000


@given(ARGUMENTS)
def test_a_row_is_read_as_it_was_stored(arguments: Any) -> None:
    at = now()
    made = ApprovalRequest.about(call(arguments), "a" * 32, at, at + 1000, 2)
    assert made
    decided = made.after(decision("ada"))
    assert read_row(row_of(made)) == made
    assert read_row(row_of(decided)) == decided
    assert json.loads(made.arguments) == arguments


# ---- decisions


def test_one_person_approves_or_denies() -> None:
    assert request().after(decision()).state == "approved"
    denied = request().after(decision(approves=False, reason="no"))
    assert (denied.state, denied.deciders) == ("denied", ["ada"])


def test_two_persons_must_be_two() -> None:
    first = request(persons=2).after(decision("Ada@example.com"))
    assert first.state == "pending"
    with pytest.raises(DecisionError, match="another person"):
        first.after(decision("ada@EXAMPLE.com"))
    second = first.after(decision("bob"))
    assert (second.state, second.deciders) == ("approved", ["Ada@example.com", "bob"])
    assert first.after(decision("bob", approves=False)).state == "denied"


def test_two_persons_must_approve_the_same() -> None:
    first = request(persons=2).after(decision("ada"))
    with pytest.raises(DecisionError, match="ada has approved it for: once"):
        first.after(decision("bob", scope=TOOLS))


def test_approvals_before_a_denial_do_not_count() -> None:
    denied = request(persons=2).after(decision("ada")).after(decision("bob", approves=False))
    assert denied.after(decision("ada")).state == "pending"


def test_what_is_over_is_not_decided() -> None:
    over = replace(request(), expires=now() - 1)
    with pytest.raises(DecisionError, match="expired"):
        over.after(decision())
    used = replace(request(), state="used")
    for approves in (True, False):
        with pytest.raises(DecisionError, match="has been made"):
            used.after(decision(approves=approves))
    with pytest.raises(DecisionError, match="was approved by ada"):
        request().after(decision()).after(decision("bob"))


def test_an_approval_is_withdrawn_by_a_denial() -> None:
    assert request().after(decision()).after(decision("bob", approves=False)).state == "denied"


@pytest.mark.parametrize(
    ("scope", "why"),
    [
        (Scope("tools", "read_*", 60), "do not include"),
        (Scope("tools", "send_*", 0), "at most 30 days"),
        (Scope("tools", "send_*", 40 * 24 * 3600), "at most 30 days"),
    ],
)
def test_tools_are_approved_within_bounds(scope: Scope, why: str) -> None:
    with pytest.raises(DecisionError, match=why):
        request().after(decision(scope=scope))


def test_tools_are_not_approved_for_callers_without_a_key() -> None:
    with pytest.raises(DecisionError, match="this call has none"):
        replace(request(), key="").after(decision(scope=TOOLS))
