"""The policy `redact` on streamed answers: the same output for every split, and no needless delay."""

import json
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any
from unittest import mock

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hooks.builtins import SENSITIVE

from hookgate.hooks import SessionContext, Withheld
from hookgate.hooks.policies.redact.policy import redact_policy
from hookgate.hooks.policy_environment import PolicyEnvironment
from hookgate.hooks.session import CallState
from hookgate.translator import join_events

Json = dict[str, Any]
MAIL = "anna.berg@example.org"
KEY = "AKIA" + "Q3EGRYH7XJ4WPL2D"
SAID = f"Write to {MAIL}, quote AKIA and {KEY}; ünïcode – ok. {MAIL}"
MASKED = "Write to [EMAIL], quote AKIA and [AWS_ACCESS_KEY]; ünïcode – ok. [EMAIL]"

POLICY: Any = redact_policy(SENSITIVE, PolicyEnvironment(Path("/")))


def event(*parts: Json, index: int = 0, **more: Any) -> Json:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": index, **more}]}


def text(said: str, **more: Any) -> Json:
    return event({"text": said}, **more)


def released_events(
    events: Sequence[Json], policy: Any = POLICY, at_once: int = 1, prefilled: str = ""
) -> list[list[tuple[int, Json]]]:
    """What goes on after each event, or after so many events that arrive together, and after the last."""
    screen = policy.screen(SessionContext("s-1", call_state=CallState(prefilled=prefilled)))
    groups = [events[at : at + at_once] for at in range(0, len(events), at_once)]
    steps = [screen.feed(group, last=False) for group in groups]
    return [*steps, screen.feed([], last=True)]


def outcome(events: Sequence[Json], policy: Any = POLICY) -> list[Json]:
    return [body for step in released_events(events, policy) for _, body in step]


def joined_text(events: Iterable[Json], *, thought: bool = False, index: int = 0) -> str:
    return "".join(
        part["text"]
        for each in events
        for candidate in each["candidates"]
        if candidate.get("index", 0) == index
        for part in candidate["content"]["parts"]
        if "text" in part and bool(part.get("thought")) is thought
    )


def cut(whole: str, edges: Iterable[int]) -> list[str]:
    points = [0, *sorted(edge % (len(whole) + 1) for edge in edges), len(whole)]
    return [whole[a:b] for a, b in pairwise(points)]


@pytest.mark.parametrize("at", range(len(SAID)))
def test_every_split_in_two_gives_the_same(at: int) -> None:
    events = [text(SAID[:at]), text(SAID[at:], finishReason="STOP")]
    assert joined_text(outcome(events)) == MASKED


CONTINUED: Any = {
    "by its reason": [text("", finishReason="CONTINUATION")],
    "by its token": [text("", continuationToken="b3BhcXVl")],
    "with another reason behind it": [
        text("", finish_reason="CONTINUATION", continuation_token="b3BhcXVl"),  # noqa: S106  # no secret
        text("", finishReason="STOP"),
    ],
    "with a token for the rest of its budget": [
        text("", finishReason="MAX_TOKENS", continuationToken="b3BhcXVl"),
    ],
    "as an interaction": [
        {"event_type": "interaction.completed", "interaction": {"status": "requires_continuation"}},
    ],
    "as an interaction by its status": [
        {"event_type": "interaction.status_update", "status": "requires_continuation"},
        text("", finishReason="STOP"),
    ],
}
"""How an answer ends that clients continue by themselves, so that the next answer is joined to it."""


@pytest.mark.parametrize("ends", CONTINUED)
@pytest.mark.parametrize("at", [6, 12, len(KEY) - 1])
def test_a_secret_is_not_in_two_answers_that_clients_join(ends: str, at: int) -> None:
    first = outcome([text(f"It is {KEY[:at]}"), *CONTINUED[ends]])
    second = outcome([text(f"{KEY[at:]}.", finishReason="STOP")])
    told = joined_text(each for each in (*first, *second) if "candidates" in each)
    assert told.startswith("It is [AWS_ACCESS_KEY]")
    assert KEY not in told


def test_an_answer_that_was_only_continued_before_its_end_is_sent_whole() -> None:
    events = [text("Quote ", continuationToken="b3BhcXVl"), text(KEY[:12], finishReason="STOP")]
    assert joined_text(outcome(events)) == f"Quote {KEY[:12]}"


@pytest.mark.parametrize("at", range(SAID.index(KEY) + 5, SAID.index(KEY) + len(KEY)))
@pytest.mark.parametrize("pieces", [1, 3])
def test_no_secret_begins_in_a_prefilled_text_and_ends_in_the_answer(at: int, pieces: int) -> None:
    before, rest = SAID[:at], SAID[at:]
    events = [text(piece) for piece in cut(rest, range(0, len(rest), -(-len(rest) // pieces)))]
    steps = released_events([*events, text("", finishReason="STOP")], prefilled=before)
    told = joined_text(body for step in steps for _, body in step)
    assert told == MASKED.partition("quote AKIA and ")[2]


def test_what_stands_in_a_prefilled_text_alone_is_no_finding_of_the_answer() -> None:
    screen = POLICY.screen(SessionContext("s-1", call_state=CallState(prefilled=f"{SAID} ")))
    [(_, passed)] = screen.feed([text("Ask anna.", finishReason="STOP")], last=True)
    assert joined_text([passed]) == "Ask anna."
    assert screen.findings_output() == {}


def test_an_answer_in_json_that_the_request_begins_stays_json() -> None:
    state = CallState(prefilled=f'{{"key": "{KEY[:9]}', requires_json=True)
    policy: Any = redact_policy(
        {"detect": ["AWS_ACCESS_KEY"], "mask": '"{kind}"'}, PolicyEnvironment(Path("/"))
    )
    screen = policy.screen(SessionContext("s-1", call_state=state))
    [(_, passed)] = screen.feed([text(f'{KEY[9:]}"}}', finishReason="STOP")], last=True)
    assert json.loads(state.prefilled + joined_text([passed])) == {"key": f'{KEY[:9]}"AWS_ACCESS_KEY"'}


def test_an_answer_is_also_read_as_if_no_prefilled_text_stood_before_it() -> None:
    steps = released_events([text(f"{KEY} it is")], prefilled="x")
    assert joined_text(body for step in steps for _, body in step) == "[AWS_ACCESS_KEY] it is"


@pytest.mark.parametrize("prefilled", ["x" * 100_000, "-----BEGIN PRIVATE KEY-----\n" + "MIIE" * 5000])
def test_a_long_prefilled_text_hides_no_secret_after_it(prefilled: str) -> None:
    assert POLICY.screen(SessionContext("s-1", call_state=CallState(prefilled=prefilled))).slow
    steps = released_events([text(f"\n{KEY} it is")], prefilled=prefilled)
    assert KEY not in joined_text(body for step in steps for _, body in step)


@given(st.lists(st.integers(0, 1000), max_size=40))
def test_every_split_into_many_gives_the_same_and_numbers_never_fall(edges: list[int]) -> None:
    events = [text(piece) for piece in cut(SAID, edges)]
    steps = released_events(events)
    assert joined_text(body for step in steps for _, body in step) == MASKED
    numbers = [number for step in steps for number, _ in step]
    assert numbers == sorted(numbers)


@given(st.lists(st.sampled_from(["answer", "thought", "other"]), min_size=3, max_size=30), st.data())
def test_candidates_and_thoughts_are_texts_of_their_own(turns: list[str], data: st.DataObject) -> None:
    left = {turn: cut(SAID, data.draw(st.lists(st.integers(0, 99), max_size=8))) for turn in set(turns)}
    made = {
        "answer": text,
        "thought": lambda piece: event({"text": piece, "thought": True}),
        "other": lambda piece: text(piece, index=1),
    }
    order = [*turns, *(turn for turn, pieces in left.items() for _ in pieces)]
    events = [made[turn](left[turn].pop(0)) for turn in order if left[turn]]
    out = outcome(events)
    for turn, thought, index in (("answer", False, 0), ("thought", True, 0), ("other", False, 1)):
        if turn in turns:
            assert joined_text(out, thought=thought, index=index) == MASKED


def test_prose_is_released_at_once_except_for_its_last_word() -> None:
    steps = released_events([text("The quick brown fox ju"), text("mps over the lazy dog. ")])
    assert [joined_text(body for _, body in step) for step in steps] == [
        "The quick brown fox ",
        "jumps over the lazy dog. ",
        "",
    ]


def test_an_event_that_nothing_changes_is_the_very_object() -> None:
    events = [text("All is well. "), text("Done.", finishReason="STOP"), {"usageMetadata": {}}]
    assert all(a is b for a, b in zip(outcome(events), events, strict=True))


def test_a_part_keeps_its_signature_and_gets_it_once() -> None:
    signed = event({"text": "to anna.b", "thoughtSignature": "c2ln"})
    out = outcome([signed, text("erg@example.org now", finishReason="STOP")])
    assert joined_text(out) == "to [EMAIL] now"
    assert str(out).count("c2ln") == 1


def test_a_call_waits_for_the_text_before_it_and_their_order_stays() -> None:
    call = {"functionCall": {"name": "f", "args": {"to": MAIL}}}
    events = [text("I ask ann"), event(call), text("a@"), text("example.org", finishReason="STOP")]
    steps = released_events(events)
    assert [[number for number, _ in step] for step in steps] == [[0], [], [], [], [0, 1, 3]]
    parts = [part for step in steps for _, body in step for part in body["candidates"][0]["content"]["parts"]]
    assert parts == [
        {"text": "I ask "},
        {"text": "[EMAIL]"},
        {"functionCall": {"name": "f", "args": {"to": "[EMAIL]"}}},
    ]


@pytest.mark.parametrize("at", range(1, len(KEY)))
def test_arguments_that_come_in_pieces_are_one_text(at: int) -> None:
    def piece(value: str, goes_on: bool) -> Json:
        partial = {"jsonPath": "$.command", "stringValue": value, "willContinue": goes_on}
        return event({"functionCall": {"partialArgs": [partial], "willContinue": goes_on}})

    begin = event({"functionCall": {"name": "sh", "willContinue": True}})
    out = outcome([begin, piece(f"curl -H {KEY[:at]}", True), piece(f"{KEY[at:]} url", False)])
    values = [
        each["stringValue"]
        for body in out[1:]
        for part in body["candidates"][0]["content"]["parts"]
        for each in part["functionCall"]["partialArgs"]
    ]
    assert "".join(values) == "curl -H [AWS_ACCESS_KEY] url"


def test_text_that_was_held_back_is_released_when_the_answer_breaks_off() -> None:
    steps = released_events([text("mail ann")])
    assert [joined_text(body for _, body in step) for step in steps] == ["mail ", "ann"]


def test_pieces_of_one_event_join_to_what_it_held() -> None:
    whole = {**text("hello wor"), "modelVersion": "m-1"}
    out = outcome([whole, {"usageMetadata": {"totalTokenCount": 3}}])
    assert joined_text([each for each in out if "candidates" in each]) == "hello wor"


def test_what_blocks_ends_the_answer() -> None:
    policy: Any = redact_policy(
        {**SENSITIVE, "action": "block", "reason": "no"}, PolicyEnvironment(Path("/"))
    )
    screen = policy.screen(SessionContext("s-1"))
    assert screen.feed([text("the key is AKIAQ3EG")], last=False)
    with pytest.raises(Withheld, match="no"):
        screen.feed([text("RYH7XJ4WPL2D. ")], last=False)


@pytest.mark.parametrize("at_cap", ["mask", "block"])
def test_what_waits_is_bounded(at_cap: str) -> None:
    policy: Any = redact_policy({**SENSITIVE, "cap": 256, "at_cap": at_cap}, PolicyEnvironment(Path("/")))
    begin = "-----BEGIN RSA PRIVATE KEY-----\n"
    events = [text(begin), *(text("A" * 64 + "\n") for _ in range(20))]
    if at_cap == "block":
        with pytest.raises(Withheld, match="PRIVATE_KEY"):
            outcome(events, policy)
    else:
        assert "AAAA" not in joined_text(outcome(events, policy))


def test_logprobs_would_tell_the_tokens_and_are_left_out() -> None:
    out = outcome([text("ok. ", finishReason="STOP", logprobsResult={"chosenCandidates": []})])
    assert "logprobsResult" not in out[0]["candidates"][0]


def test_a_stream_joins_to_what_a_whole_answer_becomes() -> None:
    events = [text(piece) for piece in cut(SAID, range(0, 80, 7))]
    event_of = {"hook_event_name": "AfterModel", "llm_response": {"raw": join_events(events)}}
    whole = POLICY(event_of, SessionContext("s-1"))["hookSpecificOutput"]["llm_response"]["raw"]
    assert joined_text(outcome(events)) == joined_text([whole])


def flat(events: Iterable[Json]) -> list[Any]:
    """All that is said, thought and called, in order; neighboring texts of one sort as one."""
    out: list[Any] = []
    for each in events:
        for part in each["candidates"][0]["content"]["parts"]:
            kind = "call" if "functionCall" in part else "thought" if part.get("thought") else "text"
            if kind != "call" and out and out[-1][0] == kind:
                out[-1] = kind, out[-1][1] + part["text"]
            elif kind == "call" or part["text"]:
                out.append((kind, part["functionCall"] if kind == "call" else part["text"]))
    return out


PIECES = st.sampled_from(["anna", "@example.", "org", " ", "AKIA", "Q3EGRYH7", "XJ4WPL2D", "ok. ", "HG_"])
PARTS = st.one_of(
    PIECES.map(lambda said: {"text": said}),
    PIECES.map(lambda said: {"text": said}),
    PIECES.map(lambda said: {"text": said, "thought": True}),
    PIECES.map(lambda said: {"functionCall": {"name": "f", "args": {"a": said}}}),
)


@given(st.lists(st.lists(PARTS, min_size=1, max_size=3), max_size=12), st.data())
def test_texts_and_calls_keep_their_order_however_they_come(
    parts: list[list[Json]], data: st.DataObject
) -> None:
    events = [event(*each) for each in parts]
    whole = [body for _, body in POLICY.screen(SessionContext("s-1")).feed(events, last=True)]
    assert flat(outcome(events)) == flat(whole)
    screen = POLICY.screen(SessionContext("s-1"))
    out, at = [], 0
    while at < len(events):
        size = data.draw(st.integers(1, 4))
        out += [body for _, body in screen.feed(events[at : at + size], last=False)]
        at += size
    out += [body for _, body in screen.feed([], last=True)]
    assert flat(out) == flat(whole)


@pytest.mark.parametrize("at", range(1, len(KEY)))
def test_a_finish_reason_in_every_event_is_not_the_end_of_a_text(at: int) -> None:
    events = [text(f"so {KEY[:at]}", finishReason="STOP"), text(f"{KEY[at:]} ok", finishReason="STOP")]
    out = outcome(events)
    assert joined_text(out) == "so [AWS_ACCESS_KEY] ok"
    assert [body["candidates"][0]["finishReason"] for body in out] == ["STOP", "STOP"]


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("finishMessage", f"Malformed function call: send('{KEY}')"),
        ("citationMetadata", {"citationSources": [{"uri": f"https://example.org/?k={KEY}"}]}),
        ("urlContextMetadata", {"urlMetadata": [{"retrievedUrl": f"https://example.org/?k={KEY}"}]}),
        ("groundingMetadata", {"webSearchQueries": [KEY]}),
    ],
    ids=["finish-message", "citations", "addresses", "grounding"],
)
def test_what_repeats_the_answer_beside_it_is_redacted(field: str, value: Any) -> None:
    assert KEY not in str(outcome([text("so ", finishReason="STOP", **{field: value})]))


def test_a_call_that_ends_without_a_word_is_over() -> None:
    """The arguments of the next one are texts of their own, and begin anew."""

    def call(value: str) -> list[Json]:
        partial = {"jsonPath": "$.command", "stringValue": value, "willContinue": True}
        return [
            event({"functionCall": {"name": "sh", "willContinue": True}}),
            event({"functionCall": {"partialArgs": [partial], "willContinue": True}}),
            event({"functionCall": {}}),
        ]

    out = outcome([*call("echo"), *call(KEY)])
    assert KEY not in str(out)
    assert str(out).count("[AWS_ACCESS_KEY]") == 1


def test_a_call_that_ends_leaves_the_arguments_of_another_candidate_open() -> None:
    def piece(value: str, index: int, goes_on: bool) -> Json:
        partial = {"jsonPath": "$.command", "stringValue": value, "willContinue": goes_on}
        return event({"functionCall": {"partialArgs": [partial], "willContinue": goes_on}}, index=index)

    out = outcome([piece(KEY[:9], 0, True), piece("ls", 1, False), piece(KEY[9:], 0, False)])
    values = [
        each["stringValue"]
        for body in out
        for candidate in body["candidates"]
        if candidate["index"] == 0
        for part in candidate["content"]["parts"]
        for each in part["functionCall"]["partialArgs"]
    ]
    assert "".join(values) == "[AWS_ACCESS_KEY]"


def test_a_number_that_is_an_argument_in_pieces_is_redacted() -> None:
    partial = {"jsonPath": "$.card", "numberValue": 4111111111111111}
    [out] = outcome([event({"functionCall": {"name": "pay", "partialArgs": [partial]}})])
    [part] = out["candidates"][0]["content"]["parts"]
    assert part["functionCall"]["partialArgs"] == [{"jsonPath": "$.card", "stringValue": "[CARD]"}]


def test_invalid_pieces_of_arguments_are_redacted_too() -> None:
    [out] = outcome([event({"functionCall": {"name": "f", "partialArgs": [f"so {KEY}", 1]}})])
    [part] = out["candidates"][0]["content"]["parts"]
    assert part["functionCall"]["partialArgs"] == ["so [AWS_ACCESS_KEY]", 1]


def test_a_part_that_waits_as_a_whole_keeps_its_signature() -> None:
    signed = event({"text": "so "}, {"text": "anna", "thoughtSignature": "c2ln"})
    out = outcome([signed, text("@example.org now. ", finishReason="STOP")])
    assert joined_text(out) == "so [EMAIL] now. "
    assert str(out).count("c2ln") == 1


@pytest.mark.parametrize("other", [1, 2])
def test_a_candidate_without_an_index_is_candidate_0_whatever_its_position(other: int) -> None:
    def candidate(said: str, **index: int) -> Json:
        return {"content": {"role": "model", "parts": [{"text": said}]}, **index}

    both = {"candidates": [candidate("so. ", index=other), candidate(f"is {KEY[:9]}")]}
    out = outcome([both, {"candidates": [candidate(f"{KEY[9:]} ok. ")]}])
    assert joined_text(out) == "is [AWS_ACCESS_KEY] ok. "
    assert joined_text(out, index=other) == "so. "


def test_a_signature_behind_the_beginning_of_a_secret_is_not_lost() -> None:
    signed = event({"text": "erg@example.org", "thoughtSignature": "c2ln"})
    out = outcome([text("anna.b"), signed, text(" now. ", finishReason="STOP")])
    assert joined_text(out) == "[EMAIL] now. "
    assert str(out).count("c2ln") == 1


def test_an_event_with_an_empty_text_keeps_its_other_fields() -> None:
    counted = {**text(""), "usageMetadata": {"totalTokenCount": 3}}
    events = [text("All is well. "), counted, text("Done.", finishReason="STOP")]
    assert all(a is b for a, b in zip(outcome(events), events, strict=True))


def test_a_thought_that_continues_after_an_interruption_is_one_text() -> None:
    long = text("All is well here. " * 12)  # two of them are longer than the silence that ends a thought
    thoughts = (event({"text": piece, "thought": True}) for piece in (f"so {KEY[:9]}", KEY[9:15], KEY[15:]))
    first, second, third = thoughts
    out = outcome([first, long, second, long, third, text("Done.", finishReason="STOP")])
    assert joined_text(out, thought=True) == "so [AWS_ACCESS_KEY]"


@pytest.mark.parametrize("ending", [{"finishReason": "STOP"}, {}])
@pytest.mark.parametrize("beside", [[], [{"executableCode": {"code": "x"}}]])
@pytest.mark.parametrize("streamed", [False, True])
def test_what_is_beside_a_text_of_an_answer_does_not_hide_a_secret_in_it(
    beside: list[Json], streamed: bool, ending: Json
) -> None:
    answer = event({"text": "up"}, *beside, {"text": KEY}, *beside, {"text": "to"}, **ending)
    screen = POLICY.screen(SessionContext("s-1"))
    events = screen.feed([answer], last=not streamed)
    events += screen.feed([], last=True) if streamed else []
    assert joined_text(body for _, body in events) == "up[AWS_ACCESS_KEY]to"


BETWEEN = {
    "call": event({"functionCall": {"name": "f", "args": {}}}),
    "code": event({"executableCode": {"code": "x"}}),
    "thought": event({"text": "hm", "thought": True}),
    "step": {**event(), "event_type": "step.start", "step": {"type": "model_output"}},
    "long thought": event({"text": "All is well here. " * 20, "thought": True}),
}


def sections(events: Iterable[Json]) -> list[str]:
    """The texts of an answer, each up to what interrupts it."""
    texts = [""]
    for each in events:
        texts += [""] if "step" in each else []
        for part in each["candidates"][0]["content"]["parts"]:
            if "text" not in part or (part.get("thought") and part["text"]):
                texts.append("")
            elif not part.get("thought"):
                texts[-1] += part["text"]
    return [text for text in texts if text]


@pytest.mark.parametrize("between", BETWEEN)
@pytest.mark.parametrize("at", range(1, len(KEY)))
def test_content_between_texts_does_not_hide_a_secret_that_it_splits(at: int, between: str) -> None:
    """Nor does the text beyond hide that the secret begins or ends at what stands between."""
    for before, after in (("so ", " ok"), ("up", " ok"), ("so ", "to"), ("up", "to")):
        events = [text(before), BETWEEN[between], text(KEY[:at]), BETWEEN[between], text(KEY[at:])]
        out = sections(outcome([*events, BETWEEN[between], text(after)]))
        if between == "long thought":  # its first part has been released before the second one arrived
            assert out == [before, KEY[:at], "[AWS_ACCESS_KEY]", after]
        else:
            assert out == [before, "[AWS_ACCESS_KEY]", after]


@pytest.mark.parametrize("between", BETWEEN)
@given(edges=st.lists(st.integers(0, 99), max_size=6))
def test_text_after_an_interruption_does_not_hide_a_secret(between: str, edges: list[int]) -> None:
    pieces = [text(piece) for piece in cut(KEY, edges)]
    events = [text("up"), BETWEEN[between], *pieces, BETWEEN[between], text("to")]
    assert sections(outcome(events)) == ["up", "[AWS_ACCESS_KEY]", "to"]


@given(edges=st.lists(st.integers(0, 99), max_size=6))
def test_a_thought_of_another_step_hides_no_secret(edges: list[int]) -> None:
    up, *pieces, to = [event({"text": piece, "thought": True}) for piece in ("up", *cut(KEY, edges), "to")]
    out = outcome([up, BETWEEN["step"], *pieces, BETWEEN["step"], to])
    assert joined_text(out, thought=True) == "up[AWS_ACCESS_KEY]to"


BORDERS: dict[str, Callable[[str, int], Json]] = {
    "items": lambda said, n: {**text(said), "type": "delta", "output_index": n, "content_index": 0},
    "contents": lambda said, n: {**text(said), "type": "delta", "output_index": 0, "content_index": n},
    "kinds of contents": lambda said, n: {**text(said), "type": f"{n}.delta", "output_index": 0},
    "steps": lambda said, n: {**text(said), "event_type": "step.delta", "index": n},
    "content and refusal": lambda said, n: event({"text": said, **({"refusal": True} if n % 2 else {})}),
    "summaries": lambda said, n: {**event({"text": said, "thought": True}), "summary_index": n},
    "kinds of thoughts": lambda said, n: event({"text": said, "thought": True, "type": f"reasoning-{n}"}),
}
"""Pieces of the n-th text of an answer, in which nothing but another text follows a text."""


def bordering(pieces: Iterable[Sequence[str]], border: str) -> list[str]:
    """What clients see of each text of an answer, given the pieces of each."""
    events = [BORDERS[border](piece, n) for n, each in enumerate(pieces) for piece in each]
    shown: dict[str, str] = {}
    for each in outcome(events):
        [part] = each["candidates"][0]["content"]["parts"]
        source = str([each.get("type"), [each.get(name) for name in ("output_index", "content_index")]])
        source += str([each.get("index"), each.get("summary_index"), part.get("refusal"), part.get("type")])
        shown[source] = shown.get(source, "") + part["text"]
    return [*shown.values()]


@pytest.mark.parametrize("border", BORDERS)
@given(words=st.tuples(*[st.sampled_from(["up", "so ", " ok"])] * 2), edges=st.lists(st.integers(0, 99)))
def test_no_text_hides_a_secret_that_another_one_begins_or_ends_with(
    border: str, words: tuple[str, str], edges: list[int]
) -> None:
    if border == "content and refusal":  # there are only two texts
        assert bordering([cut(KEY, edges), [words[1]]], border) == ["[AWS_ACCESS_KEY]", words[1]]
        assert bordering([[words[0]], cut(KEY, edges)], border) == [words[0], "[AWS_ACCESS_KEY]"]
    else:
        shown = bordering([[words[0]], cut(KEY, edges), [words[1]]], border)
        assert shown == [words[0], "[AWS_ACCESS_KEY]", words[1]]


@pytest.mark.parametrize("border", sorted(BORDERS.keys() - {"content and refusal"}))
@pytest.mark.parametrize("at", range(1, len(KEY)))
def test_a_secret_that_two_texts_share_is_found_whatever_is_around_it(at: int, border: str) -> None:
    for before, after in (("so ", " ok"), ("up", " ok"), ("so ", "to"), ("up", "to")):
        shown = bordering([[before], [KEY[:at]], [KEY[at:]], [after]], border)
        assert "".join(shown) == f"{before}[AWS_ACCESS_KEY]{after}"


@pytest.mark.parametrize("border", BORDERS)
def test_what_was_held_back_of_a_text_is_sent_as_a_part_of_that_text(border: str) -> None:
    assert bordering([["I go, wor"], ["ld. Yes"]], border) == ["I go, wor", "ld. Yes"]


def test_an_invalid_index_does_no_harm() -> None:
    odd = [{**text(piece, index=0), "output_index": [{}]} for piece in (f"so {KEY[:9]}", KEY[9:], "ly")]
    assert joined_text(outcome([*odd, event({"text": " ok", "refusal": {}})])) == f"so {KEY}ly ok"


def test_a_refusal_that_was_held_back_remains_one() -> None:
    parts = outcome([event({"text": "I will not hel", "refusal": True})])
    assert [each["candidates"][0]["content"]["parts"] for each in parts] == [
        [{"text": "I will not ", "refusal": True}],
        [{"text": "hel", "refusal": True}],
    ]


TEXTS = ["so ", "up", KEY, KEY[:9], KEY[9:], KEY[4:9], MAIL[:6], MAIL[6:]]
SHORT = sorted(BETWEEN.keys() - {"long thought"})


@given(st.lists(st.tuples(st.sampled_from(TEXTS), st.sampled_from(SHORT)), max_size=12))
def test_no_texts_in_a_row_show_a_secret(parts: list[tuple[str, str]]) -> None:
    """However many of them a reader joins."""
    shown = sections(outcome([event for said, between in parts for event in (text(said), BETWEEN[between])]))
    for begin in range(len(shown)):
        for end in range(begin, len(shown)):
            assert KEY not in "".join(shown[begin : end + 1])


@pytest.mark.parametrize(
    ("count", "around", "is_found"),
    [(15, ("up", "to"), True), (16, ("up", "to"), False), (17, ("so ", " ok"), True)],
)
def test_a_secret_may_have_15_pieces_or_any_number_if_no_text_hides_its_ends(
    count: int, around: tuple[str, str], is_found: bool
) -> None:
    """The threat model names this limit."""
    pieces = [*KEY[: count - 1], KEY[count - 1 :]]
    events = [each for said in (around[0], *pieces) for each in (text(said), BETWEEN["call"])]
    events.append(text(around[1]))
    assert ("[AWS_ACCESS_KEY]" in sections(outcome(events))) is is_found


def test_text_that_cannot_begin_a_secret_does_not_wait_for_an_interruption() -> None:
    call = BETWEEN["call"]
    steps = released_events([text("I look. "), call, text("Here. "), call, text("wor"), text("ld. ")])
    assert [[number for number, _ in step] for step in steps] == [[0], [1], [2], [3], [], [4, 5], []]


def test_a_signature_is_not_between_the_texts_around_it() -> None:
    signed = event({"text": "", "thoughtSignature": "c2ln"})
    card = "4111111111111111"
    assert joined_text(outcome([text("no 9"), signed, text(card + " ok")])) == f"no 9{card} ok"


def test_a_last_thought_holds_up_the_answer_for_a_few_words_only() -> None:
    events = [
        event({"text": "so I say hel", "thought": True}),
        *(text("All is well here. ") for _ in range(40)),
    ]
    steps = released_events(events)
    before_the_end = [number for step in steps[:-1] for number, _ in step]
    assert before_the_end[-1] == 40
    late = next(at for at, step in enumerate(steps) if any(number == 1 for number, _ in step))
    assert late <= 1 + 256 // len("All is well here. ") + 1
    assert joined_text([body for step in steps for _, body in step], thought=True) == "so I say hel"


_FIELDS = {
    "modelVersion": ["gemini-2.5-flash", f"for {MAIL}", ""],
    "responseId": ["abc123", KEY, 4111111111111111],
    "usageMetadata": [
        *({"promptTokenCount": 5}, {"promptTokenCount": 6}, {"promptTokenCount": 4111111111111111}),
        *({"note": MAIL}, {MAIL: 1}, {"token": [MAIL, 5]}, 4111111111111111),
    ],
}
_CANDIDATE = {
    "index": [0, 1, 4111111111111111, None, True],
    "finishReason": ["STOP", None],
    "note": [MAIL],
}


@st.composite
def events_of_any_kind(draw: st.DrawFn) -> list[Json]:
    """Events most of which are a single text with fields that need nothing, and some of which are not."""

    def some(fields: dict[str, list[Any]]) -> Json:
        # The first value of each field is one of a usual event.
        return {
            name: draw(st.sampled_from(values)) if draw(st.integers(0, 9)) == 0 else values[0]
            for name, values in fields.items()
            if name != "note" or draw(st.integers(0, 9)) == 0
        }

    events = []
    for piece in cut(SAID, draw(st.lists(st.integers(0, 99), max_size=12))):
        parts: list[Json] = [{"text": piece}]
        if draw(st.integers(0, 9)) == 0:
            parts.append(
                draw(st.sampled_from([{"text": MAIL, "thought": True}, {"text": ""}, {"other": MAIL}]))
            )
        usual = {name: value for name, value in some(_CANDIDATE).items() if value != "STOP"}
        content = {"role": draw(st.sampled_from(["model"] * 9 + [MAIL])), "parts": parts}
        events.append({"candidates": [{"content": content, **usual}], **some(_FIELDS)})
    return events


@given(events_of_any_kind(), st.integers(1, 8))
def test_an_event_of_one_text_comes_out_as_if_it_were_read_field_by_field(
    events: list[Json], at_once: int
) -> None:
    quick = released_events(events, at_once=at_once)
    with mock.patch("hookgate.hooks.policies.redact.answers._plain_part", return_value=None):
        slow = released_events(events, at_once=at_once)
    assert quick == slow
    assert MAIL not in str(quick)


@pytest.mark.parametrize(
    ("uri", "passes"),
    [
        ("https://maps.google.com/?cid=4220952323027039852", True),
        ("https://maps.google.com/?cid=4111111111111111", False),
        ("https://maps.google.com/?cid=4220952323027039852&to=4111111111111111", False),
        (f"https://maps.google.com/?cid={MAIL}", False),
    ],
)
def test_a_link_to_a_place_stays_unless_it_has_more_than_its_number(uri: str, passes: bool) -> None:
    chunks = [{"maps": {"uri": uri, "title": f"Write to {MAIL}"}}]
    [event] = outcome([text("Here.", groundingMetadata={"groundingChunks": chunks})])
    place = event["candidates"][0]["groundingMetadata"]["groundingChunks"][0]["maps"]
    assert (place["uri"] == uri) is passes
    assert place["title"] == "Write to [EMAIL]"
