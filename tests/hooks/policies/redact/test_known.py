"""Parts of requests that were searched before: remembering them changes nothing but the cost."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.conversation import model_turn, user_turn

from hookgate.hooks.policies.redact import Scanner, pattern_detector
from hookgate.hooks.policies.redact.fields import redacted_request
from hookgate.hooks.policies.redact.known import CleanDigests, RememberedParts
from hookgate.hooks.policies.redact.redaction import Redaction, Search
from hookgate.hooks.policies.speakers import SCOPES, Scope
from hookgate.hooks.session import Withheld
from hookgate.translator.known_turns import Known, RequestTurns, parse_turns
from hookgate.translator.strictjson import Bounds, dumps

SECRETS = Scanner(
    [pattern_detector("WORD", "secret"), pattern_detector("NAMED", 'password": "([a-z]+)')],
)
TEXTS = st.sampled_from(["hello", "a secret", "a se", "cret", "password", "x" * 30, "x" * 28 + " secret"])
VALUES = st.recursive(
    TEXTS | st.sampled_from([5, 5.0, True, 1, None, 12345678901234567890123]),
    lambda inner: (
        st.lists(inner, max_size=2) | st.dictionaries(TEXTS | st.just("password"), inner, max_size=2)
    ),
    max_leaves=4,
)
PARTS = st.fixed_dictionaries(
    {},
    optional={
        "text": TEXTS | VALUES,
        "thought": st.booleans(),
        "functionCall": st.fixed_dictionaries({"name": st.just("f"), "args": VALUES}),
        "functionResponse": st.fixed_dictionaries({"name": st.just("f"), "response": VALUES}),
    },
)
TURNS = st.fixed_dictionaries(
    {"parts": st.lists(PARTS, max_size=3)}, optional={"role": st.sampled_from(["user", "model"])}
)
REQUESTS = st.fixed_dictionaries(
    {"contents": st.lists(st.integers(0, 3), max_size=5)},
    optional={"systemInstruction": TURNS, "tools": VALUES, "password": VALUES},
)


def mask(kind: str, _: str) -> str:
    return f"[{kind}]"


def redaction(search: Search, scopes: frozenset[Scope], *known: Any) -> Redaction:
    return Redaction(search, mask, scopes, **({"known": RememberedParts(*known)} if known else {}))


@settings(max_examples=settings().max_examples * 5)
@given(
    st.lists(TURNS, min_size=4, max_size=4),
    st.lists(st.tuples(REQUESTS, st.sampled_from(["anna", "ben"])), max_size=6),
    st.sampled_from([SCOPES, SCOPES - {"thoughts"}, SCOPES - {"other"}]),
    st.sampled_from([2, 6, 1000]),
)
def test_requests_are_redacted_as_if_no_turn_had_been_seen_before(
    turns: list[Any], requests: list[tuple[Any, str]], scopes: frozenset[Scope], size: int
) -> None:
    """Conversations that share turns, go on, and are edited, of two callers."""
    search, clean = Search(SECRETS, cap=20), CleanDigests(size)
    for drawn, caller in requests:
        request, known = as_read({**drawn, "contents": [turns[number] for number in drawn["contents"]]})
        remembering, fresh = redaction(search, scopes, clean, caller, known), redaction(search, scopes)
        assert redacted_request(remembering, request) == redacted_request(fresh, request)
        assert remembering.findings_output() == fresh.findings_output()
        assert len(clean) <= size


def as_read(request: Any) -> tuple[Any, RequestTurns]:
    """The request as a gateway reads it, with the turns whose JSON is canonical."""
    first = {"contents": request["contents"], **request}
    parsed, turns = parse_turns(dumps(first), Known(), Bounds(10**6, 10**5))
    return parsed.value, turns


def searched_parts(request: Any, clean: CleanDigests, caller: str = "anna") -> list[Any]:
    """Redact a request, and return its parts that are not known."""
    parts: list[Any] = []

    class Noted(RememberedParts):
        def redacted(self, scope: str, part: Any, redact: Any) -> Any:
            def note(part: Any) -> Any:
                parts.append(part)
                return redact(part)

            return super().redacted(scope, part, note)

        def again(self) -> "Noted":
            return Noted(clean, caller)

    redacted_request(Redaction(Search(SECRETS), mask, known=Noted(clean, caller)), request)
    return parts


def test_only_the_new_turns_of_a_conversation_are_searched() -> None:
    clean = CleanDigests()
    asked = {"contents": [user_turn("hello")], "tools": [{"functionDeclarations": []}]}
    assert len(searched_parts(asked, clean)) == 2
    assert searched_parts(asked, clean) == []
    goes_on = {**asked, "contents": [user_turn("hello"), model_turn("hi"), user_turn("and now?")]}
    assert searched_parts(goes_on, clean) == [[model_turn("hi")], [user_turn("and now?")]]


HI, WELL, SE, CRET = user_turn("hi"), model_turn("well"), user_turn("a se"), user_turn("cret")


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([HI, WELL, SE], [HI, WELL, SE, CRET]),
        ([HI, WELL, SE, CRET, WELL], [HI, WELL, SE, CRET]),
        ([HI, WELL, model_turn("a se")], [HI, WELL, model_turn("a se"), model_turn("cret"), HI]),
        ([HI, model_turn("a se"), SE], [HI, model_turn("a se"), model_turn("cret")]),
        ([HI, model_turn("a secret")], [HI, model_turn("a secret"), HI]),
    ],
)
def test_a_secret_that_a_known_conversation_goes_on_with_is_found(before: Any, after: Any) -> None:
    clean = CleanDigests()
    for contents in (before, after):
        request, turns = as_read({"contents": contents})
        remembering = redaction(Search(SECRETS), SCOPES - {"answers"}, clean, "anna", turns)
        new = redacted_request(remembering, request)
        assert new == redacted_request(redaction(Search(SECRETS), SCOPES - {"answers"}), request)


def test_a_known_conversation_is_looked_at_from_its_last_turns_on() -> None:
    looked_at: list[Any] = []

    class Noted(RememberedParts):
        def redacted(self, scope: str, part: Any, redact: Any) -> Any:
            looked_at.append(part)
            return super().redacted(scope, part, redact)

    clean, contents = CleanDigests(), [HI, WELL] * 20
    for count in (10, 12, 14):
        looked_at.clear()
        request, turns = as_read({"contents": [*contents[:count], HI]})
        redacted_request(Redaction(Search(SECRETS), mask, known=Noted(clean, "anna", turns)), request)
    assert looked_at == [{}, [WELL], [HI]]


def test_turns_of_one_speaker_are_known_together_because_a_secret_may_span_them() -> None:
    clean = CleanDigests()
    assert searched_parts({"contents": [user_turn("a se")]}, clean)
    assert searched_parts({"contents": [user_turn("cret")]}, clean) == [[user_turn("cret")]]
    both = {"contents": [user_turn("a se"), user_turn("cret")]}
    assert searched_parts(both, clean) == [both["contents"]] * 2  # found, then replaced


def test_a_turn_with_a_secret_is_searched_in_every_call_but_the_others_are_not() -> None:
    clean = CleanDigests()
    contents = [user_turn("a secret"), model_turn("hi"), user_turn("and now?")]
    searched_parts({"contents": contents}, clean)
    assert searched_parts({"contents": contents}, clean) == [[user_turn("a secret")]] * 2


def test_callers_do_not_share_what_is_known_and_scopes_do_not_either() -> None:
    clean = CleanDigests()
    assert searched_parts({"contents": [user_turn("hello")]}, clean, "anna")
    assert [user_turn("hello")] in searched_parts({"contents": [user_turn("hello")]}, clean, "ben")
    assert searched_parts({"contents": [], "systemInstruction": user_turn("hello")}, clean) == [
        [user_turn("hello")]
    ]


def test_nothing_of_a_request_that_is_withheld_is_remembered() -> None:
    clean = CleanDigests()

    def refuse(kind: str, _: str) -> str:
        raise Withheld(kind)

    request = {"contents": [user_turn("hello"), model_turn("a secret")]}
    with pytest.raises(Withheld):
        redacted_request(Redaction(Search(SECRETS), refuse, known=RememberedParts(clean, "anna")), request)
    assert len(clean) == 0


def test_the_memory_is_bounded_and_keeps_what_is_used() -> None:
    clean = CleanDigests(8)
    for number in range(100):
        clean.add(b"often")
        clean.add(b"%d" % number)
        assert b"often" in clean
        assert len(clean) <= 8
    assert b"1" not in clean
