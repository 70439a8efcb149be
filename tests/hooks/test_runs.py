"""Running the hooks of an event: its deadline, observe mode, conditions, failures and records."""

import asyncio
import logging
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import (
    SESSION,
    asking,
    command,
    editing,
    engine,
    one_group,
    parallel,
    rewriting,
    runtime,
    sequential,
    texts_of,
    write_file,
)

from hookgate.hooks import (
    BeforeTool,
    BeforeToolSelection,
    CallState,
    Configuration,
    Engine,
    Event,
    Notification,
    PreCompress,
    SessionContext,
    SessionEnd,
    load_settings,
)
from hookgate.hooks.session import Steps
from hookgate.hooks.settings import EngineLimits, Group

DENIAL = {"decision": "deny", "reason": "not here"}


def limited(*groups: Group, event: str = "BeforeModel", **limits: Any) -> Engine:
    return Engine(Configuration({event: groups}, EngineLimits(**limits)))


# ---- the whole time of an event


async def hang(_: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("on_error", ["allow", "deny"])
async def test_an_event_s_whole_time_ends_hooks_whose_own_time_is_longer(on_error: str) -> None:
    begin = time.monotonic()
    outcome = await limited(parallel(hang, on_error=on_error), deadline=0.05).fire(asking("hi"), SESSION)
    assert time.monotonic() - begin < 2
    assert [run.error for run in outcome.runs] == ["the deadline for the event's hooks has passed"]
    assert outcome.verdict.denied
    assert outcome.verdict.reason == "The hook 'hang' could not judge this call (deadline)."


async def test_a_lone_hook_that_has_to_wait_for_its_turn_has_no_more_time_than_the_event() -> None:
    """Its own time begins with its turn, and would end after the event's."""
    busy = limited(parallel(hang, timeout=40), deadline=0.05, concurrency=1)
    hanging = asyncio.create_task(busy.fire(asking("hi"), SESSION))
    await asyncio.sleep(0)
    waiting = await busy.fire(asking("hi"), SessionContext("s-2"))
    assert "timed out" not in str(waiting.runs[0].error)
    assert waiting.runs[0].error
    await hanging


@pytest.mark.parametrize(("timeout", "inline"), [(119_999, True), (120_000, False)])
def test_a_lone_hook_needs_no_deadline_if_its_own_time_ends_before_it(timeout: float, inline: bool) -> None:
    plan = engine(parallel(lambda _: None, timeout=timeout)).plan(asking("hi"), SESSION)
    assert (plan.inline_hook is not None) is inline


async def test_a_lone_hook_whose_large_input_is_prepared_elsewhere_has_no_more_time_than_the_event() -> None:
    class EndlessSteps(Steps):
        is_large = True

        async def run(self, *_: Any) -> Any:
            await asyncio.Event().wait()

    session = SessionContext("s-1", call_state=CallState(steps=EndlessSteps()))
    alone = limited(parallel(hang, timeout=40), deadline=0.05)
    outcome = await asyncio.wait_for(alone.fire(asking("hi"), session), 5)
    assert [run.error for run in outcome.runs] == ["the deadline for the event's hooks has passed"]


async def test_a_hook_that_never_gets_its_turn_fails_when_the_time_is_over() -> None:
    outcome = await limited(parallel(hang, hang), deadline=0.05, concurrency=1).fire(asking("hi"), SESSION)
    assert [bool(run.error) for run in outcome.runs] == [True, True]


async def test_what_is_left_of_the_time_is_what_a_sequel_has() -> None:
    seen: list[str] = []
    groups = sequential(hang, lambda event: seen.append(event["hook_event_name"]))
    outcome = await limited(groups, deadline=0.05).fire(asking("hi"), SESSION)
    assert [run.error for run in outcome.runs] == ["the deadline for the event's hooks has passed"] * 2
    assert not seen


@pytest.mark.parametrize(
    ("when", "call"),
    [
        ({"models": "gemini-*"}, {}),
        ({"clients": "cli-*"}, {"client": "cli-1"}),
        ({"keys": "alice"}, {"key": "alice"}),
        ({"teams": "search"}, {"team": "search"}),
        ({"sessions": "s-1*"}, {"session_id": "s-17"}),
        ({"operations": "*enerateContent"}, {"call_state": CallState(operation="streamGenerateContent")}),
        ({"json": True}, {"call_state": CallState(requires_json=True)}),
    ],
)
async def test_a_hook_runs_for_the_calls_that_its_conditions_name(when: Any, call: Any) -> None:
    seen: list[Any] = []
    own = limited(parallel(seen.append, when=when))
    await own.fire(asking("hi"), SessionContext(**{"session_id": "s-2", **call}))
    assert len(seen) == 1
    if call:
        await own.fire(asking("hi"), SessionContext("s-2"))
        assert len(seen) == 1


async def test_the_input_names_the_operation_if_there_is_one() -> None:
    seen: list[Any] = []
    own = engine(parallel(seen.append))
    await own.fire(asking("hi"), SessionContext("s-1", call_state=CallState(operation="countTokens")))
    await own.fire(asking("hi"), SESSION)
    assert [event.get("operation", "none") for event in seen] == ["countTokens", "none"]


async def test_no_more_hooks_run_at_once_than_allowed() -> None:
    now = most = 0

    async def count(_: Any) -> None:
        nonlocal now, most
        now += 1
        most = max(most, now)
        await asyncio.sleep(0.001)
        now -= 1

    busy = limited(parallel(*[count] * 20), concurrency=3)
    for _ in range(2):
        await asyncio.gather(*(busy.fire(asking("hi"), SessionContext(f"s-{n}")) for n in range(5)))
    assert most == 3


class Started:
    """Runners of programs that do not end before they are told to, and how many have run at once."""

    def __init__(self, *, go: bool) -> None:
        self.now = self.most = 0
        self.go = asyncio.Event()
        if go:
            self.go.set()

    async def run(self, *_: Any) -> None:
        self.now += 1
        self.most = max(self.most, self.now)
        await asyncio.sleep(0)
        await self.go.wait()
        self.now -= 1

    async def close(self) -> None:
        pass


def commands(folder: Path, started: Started, *hooks: dict[str, Any], **limits: Any) -> Engine:
    """An engine whose hooks are commands, none of which is really started."""
    loaded = load_settings([write_file(folder, one_group(*hooks))])
    configuration = replace(loaded, limits=EngineLimits(**limits))
    return Engine(configuration, dict.fromkeys(configuration.hooks(), started))


async def test_no_more_programs_run_at_once_than_allowed(tmp_path: Path) -> None:
    started = Started(go=True)
    hooks = [command(f"true {number}") for number in range(4)]
    busy = commands(tmp_path, started, *hooks, programs=3)
    outcomes = await asyncio.gather(
        *(busy.fire(asking("hi"), SessionContext(f"s-{number}", key="key")) for number in range(5))
    )
    assert [run.error for outcome in outcomes for run in outcome.runs] == [""] * 20
    assert started.most == 3


async def test_persistent_programs_do_not_count_as_programs_that_run(tmp_path: Path) -> None:
    started = Started(go=False)
    busy = commands(tmp_path, started, command("cat", persistent=True), programs=1)
    calls = [asyncio.create_task(busy.fire(asking("hi"), SESSION)) for _ in range(5)]
    async with asyncio.timeout(5):
        while started.now < 5:  # noqa: ASYNC110  # a plain fact, it signals nothing
            await asyncio.sleep(0)
    started.go.set()
    await asyncio.gather(*calls)


async def test_a_program_that_waits_too_long_for_others_denies_the_call_for_overload(tmp_path: Path) -> None:
    started = Started(go=False)
    busy = commands(tmp_path, started, command("a"), command("b"), programs=1, deadline=0.05)
    outcome = await busy.fire(asking("hi"), SESSION)
    assert started.most == 1
    assert outcome.verdict.denied
    assert outcome.runs[1].client_reason().endswith("could not judge this call (overload).")
    assert busy.waiting == 0


async def test_a_lone_hook_gives_its_turn_back() -> None:
    busy = limited(parallel(lambda _: {"systemMessage": "ran"}), concurrency=1, deadline=1)
    for _ in range(3):
        assert (await busy.fire(asking("hi"), SESSION)).runs[0].output


async def test_runs_that_wait_for_their_turn_are_reported_while_they_wait() -> None:
    go = asyncio.Event()

    async def wait(_: Any) -> None:
        await go.wait()

    busy = limited(parallel(wait), concurrency=1)
    calls = [asyncio.create_task(busy.fire(asking("hi"), SessionContext(f"s-{n}"))) for n in range(3)]
    while busy.waiting < 2:  # noqa: ASYNC110  # a plain fact, it signals nothing
        await asyncio.sleep(0)
    go.set()
    await asyncio.gather(*calls)
    assert busy.waiting == 0


# ---- mode "observe"


async def test_what_a_hook_in_observe_mode_says_is_recorded_and_not_applied(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def rewrite(event: Any) -> Any:
        return {**rewriting(str.upper, event), **DENIAL}

    caplog.set_level(logging.INFO)
    event = asking("hello")
    outcome = await engine(parallel(rewrite, mode="observe")).fire(event, SESSION)
    assert outcome.event is event
    assert not outcome.verdict.denied
    [run] = outcome.runs
    assert (run.only_observes, run.output and run.output["decision"], list(run.edit)) == (
        True,
        "deny",
        ["messages"],
    )
    assert "BeforeModel hook 'rewrite' would have denied a call" in caplog.text


async def test_what_a_hook_in_observe_mode_would_edit_is_logged_without_the_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    def rewrite(event: Any) -> Any:
        return rewriting(str.upper, event)

    caplog.set_level(logging.INFO)
    await engine(parallel(rewrite, mode="observe")).fire(asking("hello"), SESSION)
    assert caplog.messages == ["BeforeModel hook 'rewrite' would have edited messages"]
    caplog.clear()
    await engine(parallel(rewrite)).fire(asking("hello"), SESSION)
    await engine(parallel(lambda _: {"reason": "fine"}, mode="observe")).fire(asking("hello"), SESSION)
    assert caplog.messages == []  # the former edits, and the latter would not


async def test_an_observing_hook_sees_what_it_would_see_and_hides_nothing_from_later_ones() -> None:
    seen: list[list[str]] = []

    def note(event: Any) -> Any:
        seen.append([message["content"] for message in event["llm_request"]["messages"]])
        return rewriting(lambda text: text + " observed", event)

    groups = [parallel(lambda e: rewriting(str.upper, e)), parallel(note, mode="observe"), parallel(note)]
    outcome = await engine(*groups).fire(asking("hi"), SESSION)
    assert texts_of(outcome.event) == ["HI observed"]
    assert seen[-2:] == [["HI"], ["HI"]]


async def test_an_observing_hook_that_fails_denies_nothing() -> None:
    outcome = await engine(parallel(lambda _: 1 / 0, mode="observe", on_error="deny")).fire(
        asking("hi"), SESSION
    )
    assert outcome.runs[0].error
    assert (outcome.verdict.decision, outcome.failed_closed) == ("allow", False)


# ---- when


async def test_a_hook_for_one_model_client_or_key_leaves_the_others_alone() -> None:
    strict = engine(
        parallel(lambda _: DENIAL, when={"models": ["*-pro"], "clients": ["GeminiCLI"], "keys": ["k"]})
    )
    pro = replace(asking("hi"), model="gemini-2.5-pro")
    known = SessionContext("s", client="GeminiCLI", key="k")
    assert (await strict.fire(pro, known)).verdict.denied
    assert not (await strict.fire(asking("hi"), known)).verdict.denied
    assert not (await strict.fire(pro, replace(known, client="curl"))).verdict.denied
    assert not (await strict.fire(pro, replace(known, key=""))).verdict.denied


async def test_a_hook_for_one_team_leaves_the_others_alone() -> None:
    strict = engine(parallel(lambda _: DENIAL, when={"teams": ["search"]}))
    assert (await strict.fire(asking("hi"), SessionContext("s", team="search"))).verdict.denied
    assert not (await strict.fire(asking("hi"), SessionContext("s", team="platform"))).verdict.denied
    assert not (await strict.fire(asking("hi"), SessionContext("s"))).verdict.denied


async def test_a_model_hook_may_be_for_requests_that_declare_a_tool() -> None:
    guard = engine(parallel(lambda _: DENIAL, when={"tools": "run_*"}))
    body = {"contents": [], "tools": [{"functionDeclarations": [{"name": "run_shell_command"}]}]}
    assert (await guard.fire(replace(asking("hi"), body=body), SESSION)).verdict.denied
    assert not (await guard.fire(asking("hi"), SESSION)).verdict.denied


# ---- tool selections that no other hook may widen


def selecting(*names: str, mode: str = "ANY") -> Any:
    return {"hookSpecificOutput": {"toolConfig": {"mode": mode, "allowedFunctionNames": list(names)}}}


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize(
    ("limit", "expected"),
    [
        (selecting("a", "b"), {"mode": "ANY", "allowedFunctionNames": ["b"]}),
        (selecting("a"), {"mode": "NONE", "allowedFunctionNames": []}),
        (selecting(mode="NONE"), {"mode": "NONE", "allowedFunctionNames": []}),
        (None, {"mode": "ANY", "allowedFunctionNames": ["b", "c"]}),
    ],
    ids=["both", "nothing in common", "none", "no opinion"],
)
async def test_an_intersecting_hook_s_limit_applies_whatever_its_position(
    limit: Any, expected: Any, last: bool
) -> None:
    groups = [parallel(lambda _: limit, merge="intersect"), parallel(lambda _: selecting("b", "c"))]
    select = engine(*(groups[::-1] if last else groups), event="BeforeToolSelection")
    outcome = await select.fire(BeforeToolSelection("m", {"contents": []}), SESSION)
    assert outcome.verdict.tool_config == expected


def in_mode(mode: str) -> Any:
    return {"hookSpecificOutput": {"toolConfig": {"mode": mode}}}


@pytest.mark.parametrize(
    ("limit", "other", "expected"),
    [
        (in_mode("ANY"), in_mode("AUTO"), {"mode": "ANY"}),
        (in_mode("ANY"), selecting("b"), {"mode": "ANY", "allowedFunctionNames": ["b"]}),
        (selecting("b"), in_mode("ANY"), {"mode": "ANY", "allowedFunctionNames": ["b"]}),
    ],
)
async def test_a_limit_without_names_limits_only_the_mode(limit: Any, other: Any, expected: Any) -> None:
    groups = [parallel(lambda _: limit, merge="intersect"), parallel(lambda _: other)]
    outcome = await engine(*groups, event="BeforeToolSelection").fire(
        BeforeToolSelection("m", {"contents": []}), SESSION
    )
    assert outcome.verdict.tool_config == expected


async def test_the_hooks_of_one_layer_can_be_run_separately() -> None:
    seen: list[str] = []
    hooks = [
        replace(runtime(lambda _, layer=layer: seen.append(layer)), layer=layer)
        for layer in ("system", "user")
    ]
    both = engine(Group(tuple(hooks)), Group(tuple(hooks[:1])), Group(tuple(hooks[1:])))
    assert both.listens_to("BeforeModel", layer="system")
    assert not both.listens_to("BeforeModel", layer="project")
    outcome = await both.fire(asking("hi"), SESSION, "system")
    assert (seen, len(outcome.runs)) == (["system"] * 2, 2)
    assert not (await both.fire(asking("hi"), SESSION, "project")).runs


# ---- the record


async def test_a_failing_hook_shows_as_degraded_until_it_runs_well() -> None:
    fails = [True, False]

    def act(_: Any) -> Any:
        if fails.pop(0):
            raise ValueError("no")
        return DENIAL

    judge = engine(parallel(act))
    [hook] = judge.configuration.hooks()
    assert judge.health.status_for(hook).runs == 0
    await judge.fire(asking("hi"), SESSION)
    assert judge.health.degraded == ["act"]
    await judge.fire(asking("hi"), SESSION)
    status = judge.health.status_for(hook)
    assert judge.health.degraded == []
    assert (status.runs, status.failures, status.denials, status.summary) == (2, 1, 1, "deny")


async def test_the_record_contains_decisions_and_no_content() -> None:
    judge = engine(parallel(lambda e: {**rewriting(str.upper, e), "reason": "a secret"}))
    await judge.fire(asking("another secret"), SESSION)
    [status] = judge.health.hooks.values()
    assert status.summary == "edits messages"


@pytest.mark.parametrize(
    ("output", "summary"),
    [({"systemMessage": "hi"}, "sends a message"), ({}, "no output"), (None, "no output")],
)
async def test_a_message_is_no_lack_of_output(output: Any, summary: str) -> None:
    judge = engine(parallel(lambda e: output))
    await judge.fire(asking("hi"), SESSION)
    [status] = judge.health.hooks.values()
    assert status.summary == summary


async def test_the_record_tells_of_a_tool_selection_that_no_other_hook_sees() -> None:
    chosen: list[Any] = []

    def choose(event: Any) -> Any:
        chosen.append(event["tool_config"])
        return selecting("a")

    group = sequential(choose, choose)
    hooks = tuple(replace(hook, event="BeforeToolSelection") for hook in group.hooks)
    judge = engine(replace(group, hooks=hooks), event="BeforeToolSelection")
    outcome = await judge.fire(BeforeToolSelection("m", {"contents": []}), SESSION)
    assert [run.changes_input for run in outcome.runs] == [False, False]
    assert chosen == [None, None]
    assert {status.summary for status in judge.health.hooks.values()} == {"edits toolConfig"}


async def test_the_record_keeps_the_warnings_about_the_last_output() -> None:
    outputs = [{"decison": "deny"}, {"systemMessage": 'Note: {"decision": "deny"}'}, None]
    judge = engine(parallel(lambda _: outputs.pop(0)))
    told = []
    for _ in range(3):
        await judge.fire(asking("hi"), SESSION)
        [status] = judge.health.hooks.values()
        told.append(status.warning)
    assert "'decison'" in told[0]
    assert told[1].startswith("printed a decision that is not one valid JSON object")
    assert told[2] == ""


@pytest.mark.parametrize("on_error", ["allow", "deny"])
async def test_a_decision_on_stderr_is_a_warning_and_a_failure_if_the_hook_fails_closed(
    on_error: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    line = """echo '{"decision": "deny"}' >&2"""
    hook = {"type": "command", "command": line, "name": "guard", "on_error": on_error}
    settings = write_file(tmp_path, {"hooks": {"BeforeModel": [{"hooks": [hook]}]}})
    judge = Engine(load_settings([settings]))
    outcome = await judge.fire(asking("hi"), SESSION)
    await judge.close()
    assert outcome.verdict.denied == (on_error == "deny")
    told = "wrote a decision to stderr, where it is not read; print it to stdout"
    [status] = judge.health.hooks.values()
    assert (status.error, status.warning) == ((told, "") if on_error == "deny" else ("", told))
    assert told in caplog.text


# ---- hooks that rewrite the same text


def redactor(secret: str) -> Any:
    async def redact(event: Any) -> Any:
        await asyncio.sleep(0)
        messages = event["llm_request"]["messages"]
        return editing(messages=[{**m, "content": m["content"].replace(secret, "***")} for m in messages])

    return redact


async def test_two_parallel_redactors_never_undo_each_other_in_a_thousand_runs() -> None:
    both = engine(parallel(redactor("alpha"), redactor("beta")))
    outcomes = await asyncio.gather(
        *(both.fire(asking(f"{n} alpha and beta"), SessionContext(f"s-{n}")) for n in range(1000))
    )
    assert [texts_of(outcome.event) for outcome in outcomes] == [[f"{n} *** and ***"] for n in range(1000)]


# ---- tool arguments


async def test_arguments_edited_by_several_hooks_lie_over_one_another() -> None:
    def add(event: Any) -> Any:
        return {"hookSpecificOutput": {"tool_input": {"seen": sorted(event["tool_input"]), "a": 2}}}

    def rename(_: Any) -> Any:
        return {"hookSpecificOutput": {"tool_args": {"b": 3}}}

    judge = engine(parallel(rename, add), event="BeforeTool")
    outcome = await judge.fire(BeforeTool("t", {"a": 1}), SESSION)
    assert outcome.event.tool_input == {"a": 2, "b": 3, "seen": ["a", "b"]}


@pytest.mark.parametrize(
    "event", [PreCompress("auto"), SessionEnd("exit"), Notification("ToolPermission", "May it?")]
)
async def test_a_failed_hook_of_an_advisory_event_denies_nothing(
    event: Event, caplog: pytest.LogCaptureFixture
) -> None:
    group = parallel(lambda _: "no object", on_error="deny")
    hooks = tuple(replace(hook, event=event.name) for hook in group.hooks)
    judge = engine(replace(group, hooks=hooks), event=event.name)
    outcome = await judge.fire(event, SESSION)
    assert outcome.runs[0].error
    assert not outcome.failed_closed
    assert "the call is denied" not in caplog.text
