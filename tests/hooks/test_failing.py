"""Hooks that fail: a call is denied exactly where docs/failing.md says so."""

import asyncio
import json
import re
import tempfile
import time
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.hooks import failing
from support.hooks.failing import FAILURES, Failure, documented, hang, is_denied
from support.hooks.http import answering, http, peer, read_request, response, service
from support.hooks.kinds import ask, running
from support.hooks.settings import SESSION, asking, engine, parallel, write_file

from hookgate.hooks import (
    AfterModel,
    AfterTool,
    BeforeModel,
    BeforeTool,
    BeforeToolSelection,
    Configuration,
    Engine,
    Event,
    Outcome,
    SessionContext,
)
from hookgate.hooks.clock import StallAwareTimeout, StallClock
from hookgate.hooks.errors import HookUnavailableError
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.settings import EngineLimits, Layer, SettingsSource, load_sources

Json = dict[str, Any]

LAYERS: list[Layer] = ["policy", "explicit", "project", "user", "system", "extensions"]
NO_OPINION = {"type": "command", "command": "true", "name": "quiet"}


def event_of(name: str, text: str) -> Event:
    body = asking(text).body
    return {
        "BeforeModel": BeforeModel("m", body),
        "BeforeToolSelection": BeforeToolSelection("m", body),
        "AfterModel": AfterModel(
            {}, {"candidates": [{"content": {"role": "model", "parts": [{"text": text}]}}]}, "m"
        ),
        "BeforeTool": BeforeTool("run_shell_command", {"command": text}),
        "AfterTool": AfterTool("run_shell_command", {}, {"llmContent": text}),
    }[name]


EVENTS = ["BeforeModel", "BeforeToolSelection", "AfterModel", "BeforeTool", "AfterTool"]


def configured(  # noqa: PLR0917  # the dimensions of the table
    folder: Path,
    failure: Failure,
    event: str,
    layer: Layer,
    on_error: str | None,
    around: tuple[int, int],
    **group: Any,
) -> Configuration:
    """One guard that fails, between so many hooks without an opinion."""
    guard = {"name": "guard", "timeout": 60_000, **failure.hook(folder)}
    guard |= {"on_error": on_error} if on_error else {}
    hooks = [*[NO_OPINION] * around[0], guard, *[NO_OPINION] * around[1]]
    guards = write_file(folder, {"hooks": {event: [{"hooks": hooks, **group}]}})
    # The deadline of an event is in a file of its own: in those of extensions, for one, it would not count.
    limits = write_file(folder, {"hooksConfig": failure.limits}, "limits.json")
    return load_sources([SettingsSource(limits, "user"), SettingsSource(guards, layer, trusted=True)])


def unguarded(folder: Path, hook: Any) -> Configuration:
    """A hook whose own failures let calls pass."""
    return configured(folder, Failure("", hook), "BeforeModel", "user", "allow", (0, 0))


async def fired(judge: Engine, event: Event, times: int) -> list[Outcome[Event]]:
    try:
        calls = (judge.fire(event, SessionContext(f"s-{number}")) for number in range(times))
        return await asyncio.gather(*calls)
    finally:
        await judge.close()


@settings(max_examples=50, deadline=None)
@given(
    failure=st.sampled_from(sorted(FAILURES)),
    event=st.sampled_from(EVENTS),
    layer=st.sampled_from(LAYERS),
    on_error=st.sampled_from([None, "allow", "deny"]),
    around=st.tuples(st.integers(0, 1), st.integers(0, 1)),
    sequential=st.booleans(),
    times=st.integers(1, 3),
)
def test_a_failed_hook_denies_exactly_where_the_table_says(  # noqa: PLR0917  # by hypothesis, by name
    failure: str,
    event: str,
    layer: Layer,
    on_error: str | None,
    around: tuple[int, int],
    sequential: bool,
    times: int,
) -> None:
    fails = FAILURES[failure]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        configuration = configured(folder, fails, event, layer, on_error, around, sequential=sequential)
        fails.after_load(folder)
        judge = Engine(configuration)
        with fails.meanwhile():
            about = event_of(event, "a forbidden prompt" + "." * fails.input_bytes)
            outcomes = asyncio.run(fired(judge, about, times))
    for outcome in outcomes:
        [guard] = [run for run in outcome.runs if run.hook.name == "guard"]
        assert guard.error
        assert outcome.verdict.denied == is_denied(fails.row, layer, on_error), guard.error


async def judged(configuration: Configuration, **more: Any) -> bool:
    """Whether a call is denied."""
    judge = Engine(configuration, make_runners(configuration.hooks(), **more))
    [outcome] = await fired(judge, asking("a forbidden prompt"), 1)
    return outcome.verdict.denied


EVERYWHERE = [(layer, on_error) for layer in LAYERS for on_error in (None, "allow", "deny")]

MISPLACED = [
    """echo Processing...; echo '{"decision": "deny"}'""",
    """echo '{"decision": "allow"}'; echo '{"decision": "deny"}'""",
    """echo "{'decision': 'deny'}" """,
    """echo '{"decison": "deny"}'""",
    """echo '{"hook_specific_output": {"decision": "deny"}}'""",
    """echo '{"hookSpecificOutput": {"decision": "deny"}}'""",
]


@pytest.mark.parametrize("line", MISPLACED)
@pytest.mark.parametrize(("layer", "on_error"), EVERYWHERE)
async def test_a_decision_that_is_not_understood_denies_exactly_where_the_table_says(
    layer: Layer, on_error: str | None, line: str, tmp_path: Path
) -> None:
    guard = Failure(failing.MISPLACED, failing.command(line))
    judge = Engine(configured(tmp_path, guard, "BeforeModel", layer, on_error, (0, 0)))
    [outcome] = await fired(judge, asking("a forbidden prompt"), 1)
    [run] = outcome.runs
    assert outcome.verdict.denied == is_denied(guard.row, layer, on_error)
    assert bool(run.error) == outcome.verdict.denied
    assert run.error or run.warnings


@pytest.mark.parametrize("line", ["echo it is fine", """echo '{"version": 2, "debug": {"decision": 1}}'"""])
async def test_other_text_is_no_failure(line: str, tmp_path: Path) -> None:
    guard = Failure("", failing.command(line))
    judge = Engine(configured(tmp_path, guard, "BeforeModel", "policy", None, (0, 0)))
    [outcome] = await fired(judge, asking("hi"), 1)
    assert (outcome.verdict.denied, outcome.runs[0].error) == (False, "")


@pytest.mark.parametrize(("layer", "on_error"), EVERYWHERE)
async def test_a_service_that_fails_denies_exactly_where_the_table_says(
    layer: Layer, on_error: str | None, tmp_path: Path
) -> None:
    async def hangs_up(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await read_request(reader)
        writer.close()

    async with AsyncExitStack() as stack:
        urls = {
            failing.HTTP: [
                await stack.enter_async_context(service(answering(status=500))),
                await stack.enter_async_context(service(answering(text="no JSON"))),
                await stack.enter_async_context(peer(hangs_up)),
            ]
        }
        for row, found in urls.items():
            for url in found:
                fails = Failure(row, lambda _, url=url: {"type": "http", "url": url})  # type: ignore[misc]  # mypy infers no default
                configuration = configured(tmp_path, fails, "BeforeModel", layer, on_error, (0, 0))
                assert await judged(configuration) == is_denied(row, layer, on_error)


@pytest.mark.parametrize(("layer", "on_error"), EVERYWHERE)
async def test_a_policy_of_hookgate_that_fails_denies_exactly_where_the_table_says(
    layer: Layer, on_error: str | None, tmp_path: Path
) -> None:
    fails = Failure(failing.BUILTIN, lambda _: {"type": "builtin", "builtin": "broken"})
    configuration = configured(tmp_path, fails, "BeforeModel", layer, on_error, (0, 0))
    builtins = {"broken": lambda options, environment: lambda value, session: 1 / 0}
    assert await judged(configuration, builtins=builtins) == is_denied(failing.BUILTIN, layer, on_error)


@pytest.mark.parametrize(("layer", "on_error"), EVERYWHERE)
async def test_rules_in_rego_that_fail_deny_exactly_where_the_table_says(
    layer: Layer, on_error: str | None, tmp_path: Path
) -> None:
    rules = write_file(tmp_path, "package hookgate\ndeny contains 1 if input.llm_request", "guard.rego")
    fails = Failure(failing.BUILTIN, lambda _: {"type": "rego", "files": [str(rules)]})
    configuration = configured(tmp_path, fails, "BeforeModel", layer, on_error, (0, 0))
    assert await judged(configuration) == is_denied(failing.BUILTIN, layer, on_error)


@pytest.mark.parametrize(("layer", "on_error"), EVERYWHERE)
async def test_a_hook_that_is_not_trusted_denies_exactly_where_the_table_says(
    layer: Layer, on_error: str | None, tmp_path: Path
) -> None:
    fails = Failure(failing.UNTRUSTED, failing.command("true"))
    configuration = configured(tmp_path, fails, "BeforeModel", layer, on_error, (0, 0))
    [group] = configuration.groups["BeforeModel"]
    hooks = tuple(replace(hook, needs_trust=True) for hook in group.hooks)
    configuration = replace(configuration, groups={"BeforeModel": (replace(group, hooks=hooks),)})
    judge = Engine(configuration, trust_check=lambda hook: "is not trusted")
    [outcome] = await fired(judge, asking("hi"), 1)
    assert outcome.verdict.denied == is_denied(failing.UNTRUSTED, layer, on_error)


def test_every_row_of_the_table_is_tried() -> None:
    tried = {failure.row for failure in FAILURES.values()}
    elsewhere = {failing.HTTP, failing.BUILTIN, failing.UNTRUSTED, failing.OVERLOAD, failing.CLOSED}
    elsewhere |= {failing.MISPLACED}
    assert tried | elsewhere == set(documented())


@pytest.mark.parametrize("failure", sorted(FAILURES))
async def test_a_hook_that_is_observed_denies_nothing_by_failing(failure: str, tmp_path: Path) -> None:
    fails = FAILURES[failure]
    observed = Failure(
        fails.row, lambda folder: {**fails.hook(folder), "mode": "observe"}, limits=fails.limits
    )
    configuration = configured(tmp_path, observed, "BeforeModel", "user", "deny", (0, 0))
    fails.after_load(tmp_path)
    with fails.meanwhile():
        [outcome] = await fired(Engine(configuration), asking("hi" + "." * fails.input_bytes), 1)
    failed = outcome.runs[0].failure
    assert failed is not None
    assert re.sub(r" \d+$", "", failed.cause) in failing.documented_causes() - {"error"}
    assert not outcome.verdict.denied


# ---- overload, and hooks that are closed


async def test_a_call_whose_hook_gets_no_turn_in_time_is_denied() -> None:
    async def hang_on(event: Any) -> None:
        try:
            await hang(event)
        finally:
            await asyncio.sleep(0.1)  # the deadlines of the others pass before this slot is free

    hooks = {"BeforeModel": (parallel(hang_on, on_error="allow"),)}
    configuration = Configuration(hooks, EngineLimits(0.1, 1))
    outcomes = await fired(Engine(configuration), asking("hi"), 3)
    causes = [getattr(outcome.runs[0].failure, "cause", "") for outcome in outcomes]
    assert sorted(causes) == ["deadline", "overload", "overload"]
    assert all(outcome.verdict.denied for outcome in outcomes)


async def test_a_call_that_waits_for_a_busy_worker_in_vain_is_denied(tmp_path: Path) -> None:
    slow = failing.command("read line; sleep 30", persistent=True, workers=1, timeout=200)
    configuration = configured(
        tmp_path, Failure(failing.OVERLOAD, slow), "BeforeModel", "user", "allow", (0, 0)
    )
    outcomes = await fired(Engine(configuration), asking("hi"), 2)
    assert [outcome.verdict.denied for outcome in outcomes] == [False, True]  # the first: its own time-out
    assert outcomes[1].verdict.reason == "The hook 'guard' could not judge this call (overload)."


@pytest.mark.parametrize("hook", [failing.command("cat", persistent=True), failing.nobody_home])
async def test_a_call_whose_hook_has_been_closed_is_denied(hook: Any, tmp_path: Path) -> None:
    configuration = configured(
        tmp_path, Failure(failing.CLOSED, hook), "BeforeModel", "user", "allow", (0, 0)
    )
    judge = Engine(configuration)
    await judge.close()
    assert (await judge.fire(asking("hi"), SESSION)).verdict.denied


async def test_the_verdicts_of_the_other_hooks_outlive_what_hookgate_fails_at(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def deny(_: Any) -> Json:
        return {"decision": "deny", "reason": "not here"}

    judge = engine(parallel(deny, lambda _: None, on_error="allow"))
    broken = judge.configuration.hooks()[1]

    class Breaks:
        async def run(self, *_: Any) -> None:
            raise KeyError("nobody expected this")

    monkeypatch.setitem(judge._runners, broken, Breaks())  # type: ignore[index]  # a mapping that is a dict
    outcome = await judge.fire(asking("hi"), SESSION)
    assert outcome.verdict.reason.splitlines() == [
        "not here",
        f"The hook {broken.name!r} could not judge this call (internal error).",
    ]
    assert "Traceback" in caplog.text
    assert "nobody expected this" in caplog.text


async def test_what_cannot_be_merged_denies_and_is_logged(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def fail(*_: Any) -> None:
        raise TypeError("nobody expected this")

    monkeypatch.setattr("hookgate.hooks.engine.merge", fail)
    allows = parallel(lambda _: {"decision": "allow"})
    assert (await engine(allows).fire(asking("hi"), SESSION)).verdict.denied
    assert "the BeforeModel hooks could not be run" in caplog.text
    assert "nobody expected this" in caplog.text


# ---- time


@pytest.mark.parametrize(
    "limits", [EngineLimits(), EngineLimits(deadline=1)], ids=["own time", "event's time"]
)
async def test_a_verdict_that_came_while_the_loop_stalled_beats_the_clock(
    limits: EngineLimits, tmp_path: Path
) -> None:
    line = "touch begun; sleep 0.2; echo not here >&2; exit 2"
    guard = {"type": "command", "command": line, "timeout": 1000, "on_error": "allow"}
    hooks = {"hooks": {"BeforeModel": [{"hooks": [guard]}]}}
    found = load_sources([SettingsSource(write_file(tmp_path, hooks), "user")])
    judge = Engine(Configuration(found.groups, limits))
    call = asyncio.create_task(judge.fire(asking("hi"), SESSION))
    while not ((tmp_path / "begun").exists() or call.done()):  # noqa: ASYNC110  # a file, it signals nothing
        await asyncio.sleep(0)
    time.sleep(1.5)  # noqa: ASYNC251  # the stall
    assert (await call).verdict.reason == "not here"


async def test_a_hook_s_time_does_not_run_while_the_loop_stalls() -> None:
    clock = StallClock()
    ended = asyncio.get_running_loop().create_future()
    async with StallAwareTimeout(clock, 0.3):
        await asyncio.sleep(0)
        time.sleep(0.6)  # noqa: ASYNC251  # the stall
        asyncio.get_running_loop().call_later(0.1, ended.set_result, None)
        await ended


async def test_time_that_the_loop_did_not_stall_runs() -> None:
    began = time.monotonic()
    with pytest.raises(TimeoutError):
        async with StallAwareTimeout(StallClock(), 0.1):
            await asyncio.Event().wait()
    assert 0.1 <= time.monotonic() - began < 5


async def test_a_clock_beats_only_while_something_is_timed() -> None:
    clock = StallClock()
    async with StallAwareTimeout(clock, 10):
        assert clock._beating
    async with asyncio.timeout(5):
        while clock._beating:  # noqa: ASYNC110  # a plain fact, it signals nothing
            await asyncio.sleep(0.01)


async def test_a_limit_that_was_not_reached_leaves_the_task_alone() -> None:
    clock = StallClock()
    for _ in range(100):
        async with StallAwareTimeout(clock, 0.001):
            await asyncio.sleep(0)
    await asyncio.sleep(0.05)  # fifty times the limit: whatever it would still do, it has done
    task = asyncio.current_task()
    assert task is not None
    assert task.cancelling() == 0


# ---- output


ESCAPED = ("é", "😀", "\x01", "<", "\\", '"')


@pytest.mark.parametrize("letter", ESCAPED)
@pytest.mark.parametrize("persistent", [False, True], ids=["command", "persistent"])
async def test_a_hook_may_return_its_whole_large_input_escaped_and_encoded_twice(
    letter: str, persistent: bool, tmp_path: Path
) -> None:
    source = """
import json, sys
for line in sys.stdin:
    call = json.loads(line)
    messages = call["llm_request"]["messages"]
    messages[0]["content"] = messages[0]["content"].replace("secret", "******")
    answer = {"hookSpecificOutput": {"llm_request": {"messages": messages}}}
    text = json.dumps(answer).replace("<", "\\\\u003c")
    print(json.dumps(text), flush=True)
"""
    (tmp_path / "mask.py").write_text(source)
    mask = {"type": "command", "command": "python3 mask.py", "persistent": persistent, "on_error": "allow"}
    hooks = {"hooks": {"BeforeModel": [{"hooks": [mask]}]}}
    judge = Engine(load_sources([SettingsSource(write_file(tmp_path, hooks), "user")]))
    [outcome] = await fired(judge, asking("my secret " + letter * 200_000), 1)
    assert not outcome.runs[0].error
    assert outcome.event.body["contents"][0]["parts"][0]["text"] == "my ****** " + letter * 200_000


async def test_a_service_may_return_a_large_input() -> None:
    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        call = json.loads(await read_request(reader))
        writer.write(response(json.dumps({"systemMessage": json.dumps(call)}).encode()))
        await writer.drain()

    async with peer(talk) as url, running(http(url)) as runner:
        assert len((await ask(runner, text="\x01" * 400_000))["systemMessage"]) > 400_000 * 6


async def test_a_service_that_answers_a_large_input_at_too_great_length_did_not_fail_by_itself() -> None:
    async with service(answering(body=b" " * 1_100_000)) as url, running(http(url)) as runner:
        with pytest.raises(
            HookUnavailableError, match="answered with more than 1048576 bytes, to an input of"
        ):
            await ask(runner, text="x" * 20_000)
