"""Merging outputs into one verdict: the laws, for any outputs in any order."""

from time import process_time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks.merge import Verdict, merge
from hookgate.hooks.output import Output

NAMES = ("edit", "read", "search", "shell")
SELECTING = "BeforeToolSelection"

DECISIONS = st.sampled_from([None, "allow", "ask", "deny"])


@st.composite
def outputs(draw: st.DrawFn) -> Output:
    """What a hook may say of a request, each reason with its own word."""
    fields: dict[str, st.SearchStrategy[Any]] = {
        "decision": DECISIONS.filter(bool),
        "reason": st.integers(0, 999).map(lambda n: f"because {n}"),
        "continue": st.booleans(),
        "stopReason": st.integers(0, 999).map(lambda n: f"stop {n}"),
        "systemMessage": st.sampled_from(["", "m1", "m2"]),
        "hookSpecificOutput": st.sampled_from([{}, {"llm_response": None}, {"llm_response": {"text": "t"}}]),
    }
    return draw(st.fixed_dictionaries({}, optional=fields))


SAID = st.lists(outputs(), max_size=4)


def chosen(*selections: Any) -> dict[str, Any] | None:
    """The selection that hooks make together, each with one of its own."""
    said = [{"hookSpecificOutput": {"toolConfig": selection}} for selection in selections]
    return merge(SELECTING, said).tool_config


def selected_tools(*filters: Any) -> list[str] | None:
    return merge(SELECTING, [{"hookSpecificOutput": {"tools": tools}} for tools in filters]).tools


# ---- decisions


def test_no_hooks_allow() -> None:
    assert merge("BeforeModel", []) == Verdict()


@given(SAID, outputs(), SAID)
def test_a_denial_is_sticky(before: list[Output], denial: Output, after: list[Output]) -> None:
    verdict = merge("BeforeModel", [*before, {**denial, "decision": "deny"}, *after])
    assert verdict.decision == "deny"
    assert verdict.denied or verdict.stop or verdict.synthetic


@given(SAID)
def test_the_strictest_decision_counts_in_any_order(said: list[Output]) -> None:
    decisions = {output.get("decision") for output in said}
    strictest = next((d for d in ("deny", "ask") if d in decisions), "allow")
    assert merge("BeforeModel", said).decision == strictest
    assert merge("BeforeModel", said[::-1]).decision == strictest


@given(SAID)
def test_exactly_one_of_stop_synthetic_and_denied_applies_in_that_order(said: list[Output]) -> None:
    verdict = merge("BeforeModel", said)
    stops = any(output.get("continue") is False for output in said)
    answering = [(output.get("hookSpecificOutput") or {}).get("llm_response") for output in said]
    denying = [output.get("decision") == "deny" for output in said]
    refused = any(denies and not answer for denies, answer in zip(denying, answering, strict=True))
    assert verdict.stop == stops
    assert verdict.synthetic == (any(answering) and not refused and not stops)
    assert verdict.denied == (any(denying) and not verdict.synthetic and not stops)


def test_another_hooks_answer_does_not_lift_a_denial() -> None:
    answer = {"hookSpecificOutput": {"llm_response": {"text": "mock"}}}
    verdict = merge("BeforeModel", [{"decision": "deny", "reason": "no"}, answer])
    assert (verdict.denied, verdict.synthetic, verdict.reason) == (True, False, "no")
    assert merge("BeforeModel", [{"decision": "deny", **answer}, answer]).synthetic


@given(SAID)
def test_a_stop_is_explained_by_those_that_stopped(said: list[Output]) -> None:
    verdict = merge("BeforeModel", [*said, {"continue": False, "stopReason": "enough"}])
    stops = [output for output in said if output.get("continue") is False]
    reported = [output.get("stopReason") or output.get("reason") for output in stops]
    assert verdict.reason.split("\n") == [*filter(None, reported), "enough"]


@given(st.lists(max_size=4, elements=outputs().filter(lambda output: output.get("continue") is not False)))
def test_a_denial_is_explained_by_those_that_denied_or_asked(said: list[Output]) -> None:
    verdict = merge("BeforeModel", [*said, {"decision": "deny", "reason": "not here"}])
    reported = [output.get("reason") for output in said if output.get("decision") in ("deny", "ask")]
    assert verdict.reason.split("\n") == [*filter(None, reported), "not here"]


def test_an_approval_explains_no_denial() -> None:
    said = [{"decision": "allow", "reason": "looks fine"}, {"decision": "deny"}, {"reason": "no opinion"}]
    assert merge("BeforeModel", said).reason == ""


@given(SAID)
def test_all_messages_to_the_user_are_kept_in_order(said: list[Output]) -> None:
    messages = [output["systemMessage"] for output in said if output.get("systemMessage")]
    assert merge("BeforeModel", said).system_messages == tuple(messages)


def test_the_later_of_two_synthetic_answers_counts() -> None:
    said = [{"hookSpecificOutput": {"llm_response": {"text": text}}} for text in ("one", "two")]
    assert merge("BeforeModel", [*said, {}]).llm_response == {"text": "two"}


def test_an_edited_answer_after_the_model_is_no_synthetic_one() -> None:
    edit = {"decision": "deny", "hookSpecificOutput": {"llm_response": {"text": "t"}}}
    verdict = merge("AfterModel", [edit])
    assert verdict.denied
    assert not verdict.synthetic


# ---- tool selections


@st.composite
def selections(draw: st.DrawFn) -> dict[str, Any]:
    fields = {
        "mode": st.sampled_from(["AUTO", "ANY", "NONE", "VALIDATED"]),
        "allowedFunctionNames": st.lists(st.sampled_from(NAMES)),
    }
    selection: dict[str, Any] = draw(st.fixed_dictionaries({}, optional=fields))
    return {"functionCallingConfig": selection} if selection and draw(st.booleans()) else selection


SELECTIONS = st.lists(selections(), max_size=4)


def flat(selection: dict[str, Any]) -> dict[str, Any]:
    inner: dict[str, Any] = selection.get("functionCallingConfig", selection)
    return inner


@given(SELECTIONS)
def test_selections_are_united_and_sorted_in_any_order(said: list[dict[str, Any]]) -> None:
    united = chosen(*said)
    assert united == chosen(*said[::-1])
    named = [flat(s)["allowedFunctionNames"] for s in said if "allowedFunctionNames" in flat(s)]
    if united and united["mode"] != "NONE" and named:
        assert united["allowedFunctionNames"] == sorted({name for names in named for name in names})


@given(SELECTIONS, SELECTIONS)
def test_none_wins_over_every_other_selection(
    before: list[dict[str, Any]], after: list[dict[str, Any]]
) -> None:
    assert chosen(*before, {"mode": "NONE"}, *after) == {"mode": "NONE", "allowedFunctionNames": []}


@given(SELECTIONS, st.lists(st.sampled_from([{}, {"decision": "allow"}, {"systemMessage": "hi"}])))
def test_a_hook_without_a_selection_has_no_say(said: list[dict[str, Any]], others: list[Output]) -> None:
    opinions: list[Output] = [{"hookSpecificOutput": {"toolConfig": selection}} for selection in said]
    assert merge(SELECTING, [*others, *opinions]).tool_config == chosen(*said)


@pytest.mark.parametrize(
    ("modes", "mode"),
    [(["AUTO", "ANY"], "ANY"), (["AUTO", "VALIDATED"], "VALIDATED"), (["VALIDATED", "ANY"], "ANY")],
)
def test_the_narrower_mode_counts(modes: list[str], mode: str) -> None:
    assert chosen(*({"mode": each} for each in modes)) == {"mode": mode}


def test_names_are_sorted_as_javascript_sorts_them() -> None:
    names = ["b", "a", "B", "\N{FULLWIDTH LATIN SMALL LETTER A}", "😀"]
    united = chosen({"mode": "ANY", "allowed_function_names": names})
    assert united is not None
    assert united["allowedFunctionNames"] == ["B", "a", "b", "😀", "\N{FULLWIDTH LATIN SMALL LETTER A}"]


@given(st.lists(st.lists(st.sampled_from(NAMES), unique=True), min_size=1))
def test_filters_keep_what_all_of_them_keep(filters: list[list[str]]) -> None:
    common = set(NAMES).intersection(*filters)
    assert selected_tools(*filters, None) == [name for name in filters[0] if name in common]


def test_without_a_filter_nothing_is_filtered() -> None:
    assert selected_tools() is None
    assert selected_tools(None) is None
    assert selected_tools([]) == []


def test_two_filters_of_many_tools_cost_no_more_than_their_number() -> None:
    names = [f"tool{number}" for number in range(50_000)]
    began = process_time()
    assert selected_tools(names[1:], names[:-1]) == names[1:-1]
    assert process_time() - began < 1


@pytest.mark.parametrize("event", ["BeforeModel", "AfterModel"])
def test_only_hooks_of_the_tool_selection_select_tools(event: str) -> None:
    specific = {"toolConfig": {"mode": "NONE"}, "tools": ["read"]}
    verdict = merge(event, [{"hookSpecificOutput": specific}, {"hookSpecificOutput": {"toolConfig": "?"}}])
    assert (verdict.tool_config, verdict.tools) == (None, None)


@pytest.mark.parametrize(
    ("specific", "names", "config"),
    [
        ({"tools": ["read"]}, ["read"], None),
        ({"toolConfig": {"mode": "ANY"}}, ["read", "shell"], {"functionCallingConfig": {"mode": "ANY"}}),
        (
            {"tools": ["read"], "toolConfig": {"mode": "ANY"}},
            ["read"],
            {"functionCallingConfig": {"mode": "ANY"}},
        ),
    ],
)
def test_a_selection_of_tools_or_of_how_they_are_called_is_applied_to_the_request(
    specific: Any, names: list[str], config: Any
) -> None:
    verdict = merge(SELECTING, [{"hookSpecificOutput": specific}])
    sent = verdict.apply_selection(
        {"tools": [{"functionDeclarations": [{"name": n} for n in ("read", "shell")]}]}
    )
    assert verdict.selects_tools
    assert [tool["name"] for tool in sent["tools"][0]["functionDeclarations"]] == names
    assert sent.get("toolConfig") == config


def test_without_a_selection_a_request_is_unchanged() -> None:
    body = {"tools": [{"functionDeclarations": [{"name": "read"}]}]}
    verdict = merge(SELECTING, [{"decision": "allow"}])
    assert not verdict.selects_tools
    assert verdict.apply_selection(body) is body
