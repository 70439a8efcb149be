"""Many hooks on one event: they run concurrently, with the result of running them in order."""

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hooks.settings import (
    SESSION,
    Json,
    asking,
    editing,
    engine,
    parallel,
    rewriting,
    runtime,
    sequential,
    texts_of,
)

from hookgate.hooks import BeforeAgent, BeforeModel
from hookgate.hooks.settings import Group, Layer
from hookgate.translator import apply_request, show_request

Act = Callable[[Json], Json | None]

# ---- side by side, or in turn


@pytest.mark.parametrize("sizes", [[3], [1, 1, 1], [2, 1]])
async def test_parallel_hooks_run_side_by_side_within_groups_and_across_them(sizes: list[int]) -> None:
    everyone = asyncio.Barrier(3)

    async def meet(_: Json) -> None:
        await everyone.wait()

    groups = [parallel(*[meet] * size, timeout=5000) for size in sizes]
    outcome = await engine(*groups).fire(asking("hi"), SESSION)
    assert [run.error for run in outcome.runs] == ["", "", ""]


async def test_sequential_groups_run_concurrently() -> None:
    both = asyncio.Barrier(2)

    async def meet(_: Json) -> None:
        await both.wait()

    groups = [sequential(meet, meet, timeout=5000), sequential(meet, meet, timeout=5000)]
    outcome = await engine(*groups).fire(asking("hi"), SESSION)
    assert [run.error for run in outcome.runs] == [""] * 4


async def test_the_hooks_of_a_sequential_group_run_in_order_each_on_the_edits_of_the_earlier_ones() -> None:
    running = 0

    async def mark(letter: str, event: Json) -> Json:
        nonlocal running
        running += 1
        assert running == 1
        await asyncio.sleep(0)
        running -= 1
        return rewriting(lambda text: text + letter, event)

    outcome = await engine(sequential(*(partial(mark, letter) for letter in "abc"))).fire(
        asking("x"), SESSION
    )
    assert [run.error for run in outcome.runs] == ["", "", ""]
    assert texts_of(outcome.event) == ["xabc"]


@pytest.mark.parametrize(
    ("mode", "shown"), [("enforce", "hi\n\nIt is late."), ("observe", "hi")], ids=["enforce", "observe"]
)
async def test_in_a_sequential_group_the_next_hook_is_shown_added_context_unless_it_is_observed(
    mode: Literal["enforce", "observe"], shown: str
) -> None:
    seen: list[str] = []

    def add(_: Json) -> Json:
        return {"hookSpecificOutput": {"additionalContext": "It is late."}}

    def note(event: Json) -> None:
        seen.append(event["prompt"])

    group = Group((runtime(add, mode=mode), runtime(note)), sequential=True)
    await engine(group, event="BeforeAgent").fire(BeforeAgent("hi", []), SESSION)
    assert seen == [shown]


# ---- the ordered chain


class Redactor:
    """Replaces one word everywhere, and gives back all of its input as hooks of the documents do."""

    def __init__(self, word: str) -> None:
        self.word = word
        self.calls = 0

    async def __call__(self, event: Json) -> Json:
        self.calls += 1
        return rewriting(lambda text: text.replace(self.word, "*"), event)


async def test_the_second_redactor_does_not_undo_the_first() -> None:
    redactors = [Redactor("card"), Redactor("key")]
    outcome = await engine(parallel(*redactors)).fire(asking("my card, my key"), SESSION)
    assert texts_of(outcome.event) == ["my *, my *"]
    assert [redactor.calls for redactor in redactors] == [1, 2]


async def test_a_hook_that_saw_an_edit_which_came_out_otherwise_runs_again() -> None:
    def warm_up_for_cards(event: Json) -> Json | None:
        if "card" not in event["llm_request"]["messages"][0]["content"]:
            return None
        return {"hookSpecificOutput": {"llm_request": {**echoing_shouted(event), "config": {"seed": 100}}}}

    groups = [parallel(Redactor("card")), sequential(warm_up_for_cards, partial(counting, "seed"))]
    outcome = await engine(*groups).fire(asking("my card", config={"seed": 1}), SESSION)
    assert texts_of(outcome.event) == ["my *"]
    assert outcome.event.body["generationConfig"] == {"seed": 6}  # made of 1, not of 100


def echoing_shouted(event: Json) -> Json:
    shouted: Json = rewriting(str.upper, event)["hookSpecificOutput"]["llm_request"]
    return shouted


WORDS = ["card", "key", "name", "pin"]


@st.composite
def grouped(draw: st.DrawFn, items: list[Any]) -> list[tuple[bool, list[Any]]]:
    """The items in their order, cut into groups: whether each is sequential, and its items."""
    groups: list[tuple[bool, list[Any]]] = []
    for item in items:
        if not groups or draw(st.booleans()):
            groups.append((draw(st.booleans()), []))
        groups[-1][1].append(item)
    return groups


def as_groups(plan: list[tuple[bool, list[Any]]], act: Callable[[Any], Act]) -> list[Group]:
    """Hooks for the items of a plan, the later ones quicker: each waits for fewer turns of the loop."""
    turns = sum(len(items) for _, items in plan)

    def hook(item: Any) -> Any:
        nonlocal turns
        turns -= 1

        async def run(event: Json, turns: int = turns) -> Json | None:
            for _ in range(turns):
                await asyncio.sleep(0)
            return act(item)(event)

        return runtime(run)

    return [Group(tuple(hook(item) for item in items), is_sequential) for is_sequential, items in plan]


@given(st.permutations(WORDS).flatmap(grouped), st.lists(st.sampled_from(WORDS), min_size=1))
def test_no_word_that_any_redactor_replaces_is_left(plan: Any, said: list[str]) -> None:
    def redactor(word: str) -> Act:
        return lambda event: rewriting(lambda text: text.replace(word, "*"), event)

    event = asking(" ".join(said), "and " + " ".join(said[::-1]))
    after = asyncio.run(engine(*as_groups(plan, redactor)).fire(event, SESSION)).event
    assert texts_of(after) == [" ".join("*" * len(said)), "and " + " ".join("*" * len(said))]


def counting(key: str, event: Json) -> Json:
    config = event["llm_request"]["config"]
    return editing(config={key: config.get(key, 1) * 2 + len(key)})


def adding(word: str, event: Json) -> Json:
    return rewriting(lambda text: f"<{text} {word}>", event)


def adding_a_turn(word: str, event: Json) -> Json:
    messages = event["llm_request"]["messages"]
    return editing(messages=[*messages, {"role": "model", "content": f"{word} {len(messages)}"}])


def both(key: str, event: Json) -> Json:
    edits = [
        output["hookSpecificOutput"]["llm_request"] for output in (counting(key, event), adding(key, event))
    ]
    return editing(**edits[0], **edits[1])


def echoing(_: str, event: Json) -> Json:
    return editing(**event["llm_request"])


def denying(word: str, _: Json) -> Json:
    return {"decision": "deny", "reason": word}


def naming(name: str, event: Json) -> Json:
    return editing(model=event["llm_request"]["model"] + f"-{name}")


BEHAVIORS = [
    *[partial(act, word) for act in (adding, adding_a_turn, denying, naming) for word in ("a", "b")],
    *[partial(act, key) for act in (counting, both) for key in ("seed", "topK")],
    partial(echoing, ""),
    lambda event: None,
]


def one_after_another(event: BeforeModel, acts: list[Act]) -> tuple[str, Json]:
    """The chain without the engine."""
    model, body = event.model, event.body
    for act in acts:
        said = act({"llm_request": show_request(model, body)}) or {}
        edit = said.get("hookSpecificOutput", {}).get("llm_request", {})
        model, body = apply_request(model, body, edit)
    return model, body


@given(st.lists(st.sampled_from(BEHAVIORS), min_size=1, max_size=6).flatmap(grouped), st.integers(0, 9))
def test_any_hooks_in_any_groups_make_what_they_make_one_after_another(plan: Any, seed: int) -> None:
    event = asking("one", "two", config={"seed": seed})
    acts = [act for _, group in plan for act in group]
    outcome = asyncio.run(engine(*as_groups(plan, lambda act: act)).fire(event, SESSION))
    assert (outcome.event.model, outcome.event.body) == one_after_another(event, acts)
    denials = [act.args[0] for act in acts if getattr(act, "func", None) is denying]
    assert outcome.verdict.reason == "\n".join(denials)
    assert [run.error for run in outcome.runs] == [""] * len(acts)


# ---- hooks do not run more often than they have to


async def calls_of(event: BeforeModel, **acts: Act) -> Counter[str]:
    """How often each hook is called when all stand in one parallel group."""
    calls: Counter[str] = Counter()

    def counted(name: str, act: Act) -> Act:
        def run(given: Json) -> Json | None:
            calls[name] += 1
            return act(given)

        return run

    outcome = await engine(parallel(*(counted(name, act) for name, act in acts.items()))).fire(event, SESSION)
    assert [run.error for run in outcome.runs] == [""] * len(acts)
    return calls


async def test_a_guard_sees_what_an_earlier_hook_put_in() -> None:
    def guard(event: Json) -> Json | None:
        found = any("card" in message["content"] for message in event["llm_request"]["messages"])
        return {"decision": "deny", "reason": "a card"} if found else None

    outcome = await engine(parallel(partial(adding, " card"), guard)).fire(asking("hi"), SESSION)
    assert (outcome.verdict.denied, outcome.verdict.reason) == (True, "a card")
    outcome = await engine(parallel(Redactor("card"), guard)).fire(asking("my card"), SESSION)
    assert not outcome.verdict.denied


async def test_hooks_before_the_first_edit_run_once() -> None:
    calls = await calls_of(asking("hi"), look=lambda _: None, edit=partial(adding, "a"))
    assert calls == {"look": 1, "edit": 1}


async def test_hooks_that_return_their_whole_input_edit_nothing_and_run_once() -> None:
    event = asking("hi", config={"temperature": 1.0, "stopSequences": ["end"]})
    calls = await calls_of(event, echo=partial(echoing, ""), again=partial(echoing, ""), none=lambda _: None)
    assert set(calls.values()) == {1}
    outcome = await engine(parallel(partial(echoing, ""), partial(echoing, ""))).fire(event, SESSION)
    assert outcome.event.body is event.body
    assert [run.edit for run in outcome.runs] == [{}, {}]


async def test_an_edit_of_what_an_earlier_hook_edited_runs_the_later_hook_again() -> None:
    calls = await calls_of(asking("hi"), first=partial(adding, "a"), later=partial(adding, "b"))
    assert calls == {"first": 1, "later": 2}


async def test_two_spellings_of_a_setting_are_one_setting() -> None:
    def in_snake_case(event: Json) -> Json:
        return editing(config={"top_k": event["llm_request"]["config"]["topK"] + 1})

    event = asking("hi", config={"topK": 1})
    outcome = await engine(parallel(partial(counting, "topK"), in_snake_case)).fire(event, SESSION)
    assert outcome.event.body["generationConfig"] == {"topK": 7}


async def test_asking_for_nothing_by_null_is_no_edit() -> None:
    outcome = await engine(parallel(lambda _: editing(messages=None, config=None))).fire(
        asking("hi"), SESSION
    )
    assert outcome.runs[0].edit == {}


async def test_sequential_groups_wait_for_those_of_higher_layers() -> None:
    order: list[str] = []

    async def mark(name: str, pauses: int, event: Json) -> Json:
        for _ in range(pauses):
            await asyncio.sleep(0)
        order.append(name)
        return rewriting(lambda text: text + name, event)

    def group(name: str, layer: Layer, pauses: int = 0) -> Group:
        made = sequential(partial(mark, name, pauses))
        return replace(made, hooks=tuple(replace(hook, layer=layer) for hook in made.hooks))

    groups = [group("a", "project", 20), group("b", "project", 10), group("c", "user"), group("d", "system")]
    outcome = await engine(*groups).fire(asking("x"), SESSION)
    assert texts_of(outcome.event) == ["xabcd"]
    assert order == ["b", "a", "b", "c", "d"]  # b runs again, because a has edited what it has edited
