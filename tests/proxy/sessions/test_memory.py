"""Tool results are matched to their calls, and turns to their IDs, whatever their number."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.proxy.sessions import memory
from hookgate.proxy.sessions.memory import (
    CLAIM_SECONDS,
    KEPT_RESULTS,
    ConversationMemory,
    HookEffect,
    tool_results,
    turn_of,
    user_text,
    user_turns,
)
from hookgate.translator.strictjson import dumps

NAMES = st.sampled_from(["a", "b"])
IDS = st.sampled_from([None, "1", "2"])


def _part(kind: str, name: str, number: str | None) -> dict[str, Any]:
    return {kind: {"name": name, **({"id": number} if number else {})}}


PARTS = st.builds(_part, st.sampled_from(["functionCall", "functionResponse"]), NAMES, IDS)
CONTENTS = st.lists(
    st.builds(
        lambda role, parts: {"role": role, "parts": parts},
        st.sampled_from(["user", "model"]),
        st.lists(PARTS, max_size=4),
    ),
    max_size=8,
)


def _plainly(contents: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The call that each result answers: the first open one with its ID, else with its name."""
    waiting: list[dict[str, Any]] = []
    found = []
    for content in contents:
        for part in content["parts"]:
            if "functionCall" in part:
                waiting.append(part["functionCall"])
                continue
            response = part["functionResponse"]
            alike = [
                call
                for key in ("id", "name")
                for call in waiting
                if call.get(key) is not None and call.get(key) == response.get(key)
            ]
            taken = alike[0] if alike else {}
            waiting = [call for call in waiting if call is not taken]
            found.append(taken)
    return found


@given(CONTENTS)
def test_each_result_is_reported_of_with_the_first_call_that_it_can_answer(
    contents: list[dict[str, Any]],
) -> None:
    assert [result.call for result in tool_results(contents)] == _plainly(contents)


@pytest.mark.parametrize("value", [["1"], {"1": 1}, 1, None])
def test_a_result_with_an_id_or_name_that_is_not_a_string_answers_no_call(value: Any) -> None:
    parts = [{"functionCall": {"name": "f"}}, {"functionResponse": {"id": value, "name": value}}]
    assert [result.call for result in tool_results([{"role": "user", "parts": parts}])] == [{}]


@given(CONTENTS, st.integers(0, 8))
def test_a_turn_has_the_name_that_it_had_when_it_was_the_last(
    contents: list[dict[str, Any]], end: int
) -> None:
    end = min(end, len(contents))
    assert turn_of(contents, end) == turn_of(contents[:end])


@given(CONTENTS)
def test_no_content_is_in_the_names_of_several_turns(contents: list[dict[str, Any]]) -> None:
    sizes: list[int] = []

    def counted(value: Any) -> bytes:
        sizes.append(len(value[1]))
        return dumps(value)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(memory, "dumps", counted)
        turns = user_turns(contents)
    assert sum(sizes) <= len(contents)
    assert turns == [(turn_of(contents[: at + 1])[0], at) for _, at in turns]


def test_results_under_the_role_model_do_not_end_a_turn_and_calls_do() -> None:
    asked = {"role": "user", "parts": [{"text": "hi"}]}
    called = {"role": "model", "parts": [_part("functionCall", "a", None)]}
    result = {"role": "model", "parts": [_part("functionResponse", "a", None)]}
    ends = [at for _, at in user_turns([asked, called, result, asked, result, asked, called, asked])]
    assert ends == [0, 5, 7]


def test_many_results_without_a_call_are_not_compared_with_every_call() -> None:
    compared = []

    class Name(str):
        __slots__ = ()

        def __eq__(self, other: object) -> bool:
            compared.append(other)
            return str.__eq__(self, other)

        __hash__ = str.__hash__

    calls = [{"functionCall": {"name": Name(f"call-{n}")}} for n in range(500)]
    results = [{"functionResponse": {"name": Name(f"other-{n}")}} for n in range(500)]
    tool_results([{"role": "model", "parts": calls}, {"role": "user", "parts": results}])
    assert len(compared) < 10_000


def test_the_oldest_of_too_many_results_is_forgotten() -> None:
    """An agent sends its latest results again with the next call, whose edits must not be lost."""
    memory = ConversationMemory()
    for number in range(KEPT_RESULTS + 1):
        memory.remember(str(number), HookEffect({"response": number}))
    assert memory.effect_on("0") is None
    assert memory.effect_on("1") == HookEffect({"response": 1})
    assert memory.effect_on(str(KEPT_RESULTS)) == HookEffect({"response": KEPT_RESULTS})


def test_context_that_is_added_to_a_result_later_leaves_the_result_hidden() -> None:
    memory = ConversationMemory()
    memory.remember("result", HookEffect({"output": "hidden"}, ("a",)))
    memory.remember("result", HookEffect(None, ("b",)))
    assert memory.effect_on("result") == HookEffect({"output": "hidden"}, ("a", "b"))


def test_what_another_call_has_decided_since_stays() -> None:
    memory = ConversationMemory()
    memory.note_turn("turn", "turn-hooks", ("first",), is_question=False)
    assert (memory.turn, memory.question) == ("turn-hooks", "")
    memory.note_turn("turn", "turn-hooks", ("second",), is_question=True)
    assert (memory.turn, memory.question) == ("turn-hooks", "turn-hooks")
    memory.remember_results({"result": HookEffect({"output": "first"})})
    memory.remember_results({"result": HookEffect({"output": "second"})})
    assert memory.effect_on("turn") == HookEffect(None, ("first",))
    assert memory.effect_on("result") == HookEffect({"output": "first"})


def test_one_call_judges_the_start_of_a_session_until_its_claim_lapses() -> None:
    memory = ConversationMemory()
    assert memory.claim_start("one", 10)
    assert not memory.claim_start("two", 9 + CLAIM_SECONDS)
    memory.release_start("two")  # it is not theirs
    assert not memory.claim_start("two", 9 + CLAIM_SECONDS)
    assert memory.claim_start("one", 20)
    assert not memory.claim_start("two", 19 + CLAIM_SECONDS)
    assert memory.claim_start("two", 20 + CLAIM_SECONDS)
    memory.release_start("two")
    assert memory.claim_start("three", 21 + CLAIM_SECONDS)
    memory.start(("welcome",))
    assert memory.claim_start("two", 22 + CLAIM_SECONDS)  # it finds the session started


def test_the_context_of_a_session_s_start_is_added_to_one_turn() -> None:
    memory = ConversationMemory()
    memory.start(("welcome",))
    memory.deliver_waiting("first")
    memory.deliver_waiting("second")
    assert memory.effect_on("first") == HookEffect(None, ("welcome",))
    assert memory.effect_on("second") is None


def test_what_may_be_a_tools_or_the_agents_own_is_not_taken_for_the_users_words() -> None:
    said = {"role": "user", "parts": [{"text": "now"}]}
    asked = {"role": "user", "parts": [{"text": "before"}]}
    answer = {"role": "model", "parts": [{"text": "done"}]}
    beside = {"role": "user", "parts": [_part("functionResponse", "a", None), {"text": "of a tool"}]}
    tools = {"tools": [{"functionDeclarations": [{"name": "a"}]}]}
    contents = [asked, answer, beside, said]
    assert user_text(tools, contents) == "now"
    assert user_text({"cachedContent": "cachedContents/c"}, contents) == "now"
    assert user_text({}, contents) == ""
    assert user_text({**tools, "generationConfig": {"responseMimeType": "application/json"}}, contents) == ""
