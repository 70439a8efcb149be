"""Runtime hooks: Python functions in this process, from a module or a file, well-behaved or not."""

import asyncio
import copy
import os
import py_compile
import sys
import threading
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.hooks.functions import DENIAL, Denier, deny, deny_later
from support.hooks.settings import SESSION, Json, asking, engine, one_group, parallel, sequential, write_file

from hookgate.hooks import AfterModel, Engine, Run, SettingsError, load_settings
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.runners import inprocess


async def run(action: Callable[..., Any], **config: Any) -> Run:
    """The one run of a hook, fired with a request of one message."""
    [run] = (await engine(parallel(action, **config)).fire(asking("hi"), SESSION)).runs
    return run


# ---- what may be a hook


@pytest.mark.parametrize("action", [deny, deny_later, Denier(), partial(deny), partial(deny_later)])
async def test_a_hook_is_anything_to_call_that_gives_an_output_now_or_later(
    action: Callable[..., Any],
) -> None:
    run_of_it = await run(action)
    assert (run_of_it.output, run_of_it.error) == (DENIAL, "")


async def test_a_hook_that_gives_nothing_says_nothing() -> None:
    run_of_it = await run(lambda _: None)
    assert (run_of_it.output, run_of_it.error) == (None, "")


async def test_a_function_that_blocks_does_not_block_the_loop() -> None:
    loop = asyncio.get_running_loop()
    reached = threading.Event()

    def block(_: Json) -> Json:
        loop.call_soon_threadsafe(reached.set)  # only a free loop sets it
        assert reached.wait(5)
        return DENIAL

    assert (await run(block)).output == DENIAL


# ---- what fails


def divide(_: Json) -> float:
    return 1 / 0


def leave(_: Json) -> None:
    raise SystemExit(2)


async def leave_later(_: Json) -> None:
    raise SystemExit(2)


def find_nothing(_: Json) -> Any:
    return next(iter([]))


def give_up(_: Json) -> None:
    raise TimeoutError("the database did not answer")


@pytest.mark.parametrize(
    ("action", "error"),
    [
        (divide, "raised ZeroDivisionError('division by zero')"),
        (leave, "raised SystemExit(2)"),
        (leave_later, "raised SystemExit(2)"),
        (find_nothing, "raised StopIteration()"),
        (give_up, "raised TimeoutError('the database did not answer')"),
        (lambda _: "deny", "returned str; return an object or nothing"),
        (lambda _: [DENIAL], "returned list; return an object or nothing"),
        (
            lambda _: {"decision": "never"},
            "output.decision: must be allow (or approve), deny (or block) or ask, ",
        ),
        (lambda _: {"reason": 5}, "output.reason: must be a string, not 5"),
    ],
)
async def test_a_hook_that_misbehaves_has_failed_and_nothing_else(
    action: Callable[..., Any], error: str
) -> None:
    run_of_it = await run(action)
    assert run_of_it.error.startswith(error)
    assert run_of_it.output is None


async def test_a_function_that_takes_too_long_has_failed_while_it_runs_on() -> None:
    release = threading.Event()
    try:
        run_of_it = await run(lambda _: release.wait(30), timeout=30)
        assert run_of_it.error == "timed out after 30 ms"
        assert not release.is_set()
    finally:
        release.set()


async def test_a_coroutine_that_takes_too_long_is_cancelled() -> None:
    cancelled = asyncio.Event()

    async def wait(_: Json) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    assert (await run(wait, timeout=30)).error == "timed out after 30 ms"
    assert cancelled.is_set()


async def test_a_coroutine_that_refuses_to_be_cancelled_cleanly_has_timed_out_all_the_same() -> None:
    async def wait(_: Json) -> None:
        try:
            await asyncio.Event().wait()
        finally:
            raise ValueError("cleaning up failed")

    assert (await run(wait, timeout=30)).error == "timed out after 30 ms"


# ---- the input is the hook's own


def ruin(event: Json) -> None:
    event["llm_request"]["messages"][0]["content"] = "ruined"
    event["llm_request"]["config"]["stopSequences"].append("ruined")
    event["session_id"] = "ruined"
    event["llm_request"].clear()


@pytest.mark.parametrize("group", [parallel, sequential])
async def test_a_hook_that_writes_into_its_input_changes_nothing_for_others(group: Any) -> None:
    seen: list[Json] = []
    event = asking("hi", config={"stopSequences": ["end"]})
    before = copy.deepcopy(event.body)
    outcome = await engine(group(ruin, seen.append)).fire(event, SESSION)
    assert outcome.event.body == before
    assert seen[0]["llm_request"]["messages"] == [{"role": "user", "content": "hi"}]
    assert seen[0]["llm_request"]["config"] == {"stopSequences": ["end"]}
    assert seen[0]["session_id"] == SESSION.session_id


async def test_a_hook_that_writes_into_a_shared_request_finds_it_unchanged_in_the_next_event() -> None:
    seen: list[Json] = []

    def spoil(event: Json) -> None:
        seen.append(copy.deepcopy(event["llm_request"]))
        event["llm_request"]["messages"].clear()

    async def leave(event: Json) -> None:
        seen.append(copy.deepcopy(event["llm_request"]))

    shown = SharedValue({"model": "m", "messages": [{"role": "user", "content": "hi"}]})
    for act in (spoil, leave):
        running = engine(parallel(act), event="AfterModel")
        for _ in range(3):
            await running.fire(AfterModel(shown, {"candidates": []}), SESSION)
    assert seen == [{"model": "m", "messages": [{"role": "user", "content": "hi"}]}] * 6


async def test_a_function_that_ran_out_of_time_does_not_share_its_input_with_the_next_run() -> None:
    go_on, done = threading.Event(), threading.Event()
    inputs: list[Json] = []

    def wait(event: Json) -> None:
        inputs.append(event)
        if len(inputs) == 1:
            go_on.wait(10)
            event["llm_request"]["messages"].clear()
            done.set()

    running = engine(parallel(wait, timeout=50), event="AfterModel")
    shown = SharedValue({"messages": [{"role": "user", "content": "hi"}]})
    for _ in range(2):
        await running.fire(AfterModel(shown, {"candidates": []}), SESSION)
    go_on.set()
    assert await asyncio.to_thread(done.wait, 10)
    assert inputs[1]["llm_request"]["messages"] == [{"role": "user", "content": "hi"}]


# ---- loading


def load(folder: Path, action: str, name: str = "guard") -> Engine:
    config = {"type": "runtime", "name": name, "action": action}
    return Engine(load_settings([write_file(folder, one_group(config), ".gemini/settings.json")]))


@pytest.mark.parametrize("target", ["./hooks/guard.py", "hooks/guard.py", "{root}/hooks/guard.py"])
async def test_a_file_is_found_from_its_project(target: str, tmp_path: Path) -> None:
    write_file(tmp_path, "def act(event): return {'decision': 'deny'}", "hooks/guard.py")
    loaded = load(tmp_path, target.format(root=tmp_path) + ":act")
    assert (await loaded.fire(asking("hi"), SESSION)).verdict.denied


async def test_a_module_is_found_by_its_name(tmp_path: Path) -> None:
    loaded = load(tmp_path, "json:dumps")  # no hook, but a function that every Python has
    [run_of_it] = (await loaded.fire(asking("hi"), SESSION)).runs
    assert run_of_it.error == "returned str; return an object or nothing"


STATEFUL = """
from __future__ import annotations
from dataclasses import dataclass

@dataclass
class Seen:
    times: int = 0

seen = Seen()

def count(event):
    seen.times += 1

def tell(event):
    return {"systemMessage": f"{seen.times} seen"}
"""


def judging(decision: str) -> str:
    return f"def act(event): return {{'decision': {decision!r}}}"


async def test_a_file_is_reloaded_even_if_its_size_and_time_are_unchanged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "dont_write_bytecode", False)
    for decision in ("block", "allow"):
        file = write_file(tmp_path, judging(decision), "guard.py")
        os.utime(file, (1_700_000_000, 1_700_000_000))
        outcome = await load(tmp_path, "guard.py:act").fire(asking("hi"), SESSION)
        assert outcome.verdict.denied == (decision == "block")


async def test_bytecode_that_comes_with_a_project_is_not_run(tmp_path: Path) -> None:
    file = write_file(tmp_path, judging("allow"), "guard.py")
    unchecked = py_compile.PycInvalidationMode.UNCHECKED_HASH
    py_compile.compile(str(file), doraise=True, invalidation_mode=unchecked)
    write_file(tmp_path, judging("block"), "guard.py")
    assert (await load(tmp_path, "guard.py:act").fire(asking("hi"), SESSION)).verdict.denied


async def test_hooks_of_one_file_share_its_globals(tmp_path: Path) -> None:
    write_file(tmp_path, STATEFUL, "guard.py")
    configs = [{"type": "runtime", "action": f"./guard.py:{function}"} for function in ("count", "tell")]
    path = write_file(tmp_path, one_group(*configs, sequential=True))
    for _ in range(2):  # an engine made anew begins anew
        outcome = await Engine(load_settings([path])).fire(asking("hi"), SESSION)
        assert outcome.verdict.system_messages == ("1 seen",)


@pytest.mark.parametrize(
    ("source", "action", "expected"),
    [
        ("", "./none.py:act", r"\./none\.py does not exist in .+; check the path$"),
        ("", "no.such.module:act", r"no\.such\.module cannot be imported: ModuleNotFoundError\("),
        ("def act(:", "./guard.py:act", r"\./guard\.py cannot be imported: guard\.py:1: "),
        ("1 / 0", "./guard.py:act", r"\./guard\.py cannot be imported: ZeroDivisionError\("),
        (
            "def act(event): ...",
            "guard:act",
            r"guard cannot be imported: .*did you mean '\./guard\.py:act'\?",
        ),
        ("def other(event): ...", "./guard.py:act", r"\./guard\.py has no function 'act'; check the name"),
        (
            "def redcat(event): ...",
            "./guard.py:redact",
            r"\./guard\.py has no function 'redact'; did you mean 'redcat'\?",
        ),
        (
            "def act(): ...",
            "./guard.py:act",
            r"\./guard\.py: act must accept one argument, the event; declare ",
        ),
        ("async def act(event, session): ...", "./guard.py:act", r"\./guard\.py: act must accept one "),
        ("act = 5", "./guard.py:act", r"\./guard\.py has no function 'act'"),
    ],
)
def test_a_hook_that_cannot_be_loaded_is_reported_by_file_and_hook(
    source: str, action: str, expected: str, tmp_path: Path
) -> None:
    write_file(tmp_path, source, "guard.py")
    with pytest.raises(SettingsError, match=rf"settings\.json:1: the runtime hook 'guard': {expected}"):
        load(tmp_path, action)


@pytest.mark.parametrize(
    "source",
    [
        "def act(event, limit=1): ...",
        "def act(*events): ...",
        "act = print",
        "act = dict",
        "class Act:\n    def __call__(self, event): ...\nact = Act()",
    ],
)
def test_a_callable_that_accepts_one_argument_loads(source: str, tmp_path: Path) -> None:
    write_file(tmp_path, source, "guard.py")
    load(tmp_path, "./guard.py:act")


async def test_functions_that_hang_keep_no_other_from_running() -> None:
    release = threading.Event()

    def hang(_: Any) -> None:
        release.wait()

    try:
        stuck = parallel(*(partial(hang) for _ in range(40)), timeout=50)
        outcome = await engine(stuck).fire(asking("hi"), SESSION)
        assert {run.error for run in outcome.runs} == {"timed out after 50 ms"}
        outcome = await engine(parallel(lambda _: {"decision": "deny"})).fire(asking("hi"), SESSION)
        assert outcome.verdict.denied
    finally:
        release.set()


async def test_a_function_that_hangs_uses_a_limited_number_of_threads_and_then_denies(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(inprocess, "MAX_THREADS", 3)
    release = threading.Event()

    def hang(_: Any) -> None:
        release.wait()

    stuck = engine(parallel(hang, timeout=20, on_error="allow"))
    try:
        for _ in range(3):
            assert not (await stuck.fire(asking("hi"), SESSION)).verdict.denied
        outcome = await stuck.fire(asking("hi"), SESSION)
        assert outcome.verdict.denied
        assert "overload" in outcome.verdict.reason
    finally:
        release.set()


async def test_the_error_of_a_hook_has_its_file_and_line() -> None:
    line = divide.__code__.co_firstlineno + 1
    assert (await run(divide)).error.endswith(f" in {__file__}:{line}")
