"""Firing an event: what every hook receives, and what happens if a hook fails."""

import asyncio
import copy
import logging
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import (
    SESSION,
    Json,
    asking,
    command,
    editing,
    engine,
    one_group,
    parallel,
    sequential,
    texts_of,
    write_file,
)
from support.programs.processes import children, eventually

from hookgate.hooks import (
    BeforeModel,
    Configuration,
    Engine,
    Notification,
    SessionContext,
    Verdict,
    load_settings,
)


@pytest.fixture(autouse=True)
async def _all_programs_end() -> AsyncIterator[None]:
    before = children()
    yield
    await eventually(lambda: children() <= before)


# ---- the input


async def input_of_a_hook(session: SessionContext = SESSION) -> Json:
    seen: list[Json] = []
    await engine(parallel(seen.append)).fire(asking("hi"), session)
    return seen[0]


async def test_every_hook_is_shown_the_base_fields() -> None:
    shown = await input_of_a_hook()
    assert list(shown)[:5] == ["session_id", "transcript_path", "cwd", "hook_event_name", "timestamp"]
    assert (shown["session_id"], shown["transcript_path"]) == (SESSION.session_id, SESSION.transcript_path)
    assert shown["hook_event_name"] == "BeforeModel"


async def test_the_timestamp_is_iso_8601_in_utc() -> None:
    timestamp = (await input_of_a_hook())["timestamp"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", timestamp)
    assert abs(datetime.now(UTC) - datetime.fromisoformat(timestamp)) < timedelta(minutes=1)


async def test_each_hook_s_cwd_is_the_project_of_its_own_file(tmp_path: Path) -> None:
    files = [
        write_file(tmp_path / name, one_group(command("pwd; cat", name=name)), ".gemini/settings.json")
        for name in ("one", "two")
    ]
    outcome = await Engine(load_settings(files)).fire(asking("hi"), SESSION)
    for name, message in zip(("one", "two"), outcome.verdict.system_messages, strict=True):
        assert message.startswith(f"{tmp_path / name}\n")
        assert f'"cwd":"{tmp_path / name}"' in message


async def test_a_command_hook_is_shown_what_a_runtime_hook_is_shown(tmp_path: Path) -> None:
    printing = command("""python3 -c 'import json, sys; print(json.dumps({"seen": json.load(sys.stdin)}))'""")
    path = write_file(tmp_path, one_group(printing))
    [run] = (await Engine(load_settings([path])).fire(asking("grüße 😀"), SESSION)).runs
    assert run.output is not None
    shown, other = run.output["seen"], await input_of_a_hook()
    assert list(shown) == list(other)
    assert shown["llm_request"]["messages"] == [{"role": "user", "content": "grüße 😀"}]


# ---- the outcome


async def test_without_hooks_an_event_comes_back_as_it_is() -> None:
    event = asking("hi")
    outcome = await Engine(Configuration()).fire(event, SESSION)
    assert (outcome.event, outcome.verdict, outcome.runs) == (event, Verdict(), ())
    assert outcome.event is event


async def test_an_engine_listens_only_to_the_events_of_its_hooks() -> None:
    listening = engine(parallel(dict), event="AfterModel")
    assert listening.listens_to("AfterModel")
    assert not listening.listens_to("BeforeModel")


async def test_a_command_hook_edits_denies_and_speaks(tmp_path: Path) -> None:
    lines = [
        """echo '{"hookSpecificOutput": {"llm_request": {"config": {"temperature": 0}}}}'""",
        "echo 'not today' >&2; exit 2",
        "echo 'be careful'",
    ]
    path = write_file(tmp_path, one_group(*map(command, lines)))
    outcome = await Engine(load_settings([path])).fire(asking("hi", config={"temperature": 1}), SESSION)
    assert outcome.event.body["generationConfig"] == {"temperature": 0}
    assert (outcome.verdict.denied, outcome.verdict.reason) == (True, "not today")
    assert outcome.verdict.system_messages == ("be careful",)


async def test_runs_are_reported_in_the_order_of_the_plan_with_the_time_they_took() -> None:
    quick = asyncio.Event()

    async def first(_: Json) -> None:
        await quick.wait()

    async def second(_: Json) -> None:
        quick.set()

    outcome = await engine(parallel(first), parallel(second)).fire(asking("hi"), SESSION)
    assert [run.hook.name for run in outcome.runs] == ["first", "second"]
    assert all(0 < run.seconds < 5 for run in outcome.runs)


async def test_the_caller_s_body_is_never_changed() -> None:
    event = asking("hi", config={"stopSequences": ["end"]})
    before = copy.deepcopy(event.body)
    edit = editing(messages=[{"role": "user", "content": "ho"}], config={"stopSequences": []})
    outcome = await engine(parallel(lambda _: edit)).fire(event, SESSION)
    assert event.body == before
    assert texts_of(outcome.event) == ["ho"]


async def test_a_call_that_is_cancelled_cancels_its_hooks(tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command("echo > ready; sleep 30")))
    call = asyncio.create_task(Engine(load_settings([path])).fire(asking("hi"), SESSION))
    await eventually((tmp_path / "ready").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call  # and the program ends, as after every test here


# ---- edits that cannot be applied


BAD_EDITS = [
    (editing(messages="x"), "llm_request.messages: expected a list of {role, content}, got 'x'"),
    (editing(messages=[{"role": "bot", "content": ""}]), "llm_request.messages[0].role: expected"),
    (editing(messages=[{"role": "user", "content": 5}]), "llm_request.messages[0].content: expected"),
    (editing(config=[1]), "llm_request.config: expected an object, got a list"),
    (editing(model=5), "llm_request.model: expected"),
    (editing(toolConfig={"mode": "SOME"}), "llm_request.toolConfig.mode: expected one of"),
    (editing(contents=["x"]), "llm_request.contents[0]: a content must be an object"),
    (editing(contents={"parts": ["x"]}), "llm_request.contents[0].parts[0]: a part must be an object"),
    (
        editing(systemInstruction={"parts": [{"inlineData": {}, "inline_data": {}}]}),
        "llm_request.systemInstruction.parts[0].inlineData: the field is given twice",
    ),
    ({"hookSpecificOutput": {"llm_request": "x"}}, "llm_request: expected an object, got 'x'"),
    ({"hookSpecificOutput": {"llm_response": {"a": 1}}}, "llm_response.candidates: expected"),
    ({"hookSpecificOutput": {"llm_response": {"candidates": [5]}}}, "llm_response.candidates[0]: expected"),
]


@pytest.mark.parametrize("group", [parallel, sequential])
@pytest.mark.parametrize(("output", "expected"), BAD_EDITS)
async def test_an_edit_that_cannot_be_applied_fails_its_hook_by_path_and_no_other(
    output: Json, expected: str, group: Any
) -> None:
    good = partial(lambda edit, _: edit, editing(config={"seed": 1}))
    outcome = await engine(group(good, lambda _: output, good)).fire(asking("hi"), SESSION)
    assert outcome.event.body == {**asking("hi").body, "generationConfig": {"seed": 1}}
    assert [bool(run.error) for run in outcome.runs] == [False, True, False]
    assert outcome.runs[1].error.startswith(f"hookSpecificOutput.{expected}")
    assert outcome.verdict == Verdict()


@pytest.mark.parametrize("group", [parallel, sequential])
async def test_an_edit_that_fails_on_this_request_only_fails_its_hook_too(group: Any) -> None:
    event = asking("hi")
    calling = {"toolConfig": {"functionCallingConfig": {"mode": "ANY"}}, "tools": [{"name": "f"}]}
    event.body.update(calling)
    bad = editing(toolConfig={"mode": "ANY", "functionCallingConfig": {"mode": "SOME"}}, config={"seed": 1})
    outcome = await engine(group(lambda _: {**bad, "decision": "deny"})).fire(event, SESSION)
    assert outcome.event.body is event.body
    assert outcome.runs[0].error.startswith("hookSpecificOutput.llm_request.toolConfig.mode: expected one of")
    assert (outcome.runs[0].output, outcome.runs[0].edit) == (None, {})
    assert outcome.verdict == Verdict()


# ---- failed hooks


def fail(_: Json) -> None:
    raise ValueError("broken")


def allow(_: Json) -> Json:
    return {"decision": "allow", "reason": "fine"}


async def test_a_failed_hook_lets_the_call_continue_by_default() -> None:
    outcome = await engine(parallel(fail, allow)).fire(asking("hi"), SESSION)
    assert outcome.verdict == Verdict(allowed=True, reason="fine")


@pytest.mark.parametrize("group", [parallel, sequential])
async def test_a_failed_hook_that_has_to_work_denies(group: Any) -> None:
    outcome = await engine(group(fail, on_error="deny"), group(allow)).fire(asking("hi"), SESSION)
    assert outcome.verdict.denied
    assert outcome.verdict.reason == "The hook 'fail' failed; see the gateway's log."


async def test_an_edit_that_cannot_be_applied_denies_too_when_its_hook_has_to_work() -> None:
    hook = parallel(lambda _: editing(messages="x"), on_error="deny")
    assert (await engine(hook).fire(asking("hi"), SESSION)).verdict.denied


@pytest.mark.parametrize(
    "line", ["exit 1", "kill -9 $$", "/no/such/program", "yes", "echo '{\"reason\": 5}'"]
)
async def test_a_program_that_fails_is_a_failed_hook(line: str, tmp_path: Path) -> None:
    for on_error, denied in (("allow", False), ("deny", True)):
        path = write_file(tmp_path, one_group(command(line, on_error=on_error)))
        outcome = await Engine(load_settings([path])).fire(asking("hi"), SESSION)
        assert outcome.runs[0].error
        assert outcome.verdict.denied == denied


async def test_a_failed_hook_is_logged_by_event_and_name(caplog: pytest.LogCaptureFixture) -> None:
    await engine(parallel(fail, allow)).fire(asking("hi"), SESSION)
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().startswith(
        f"BeforeModel hook 'fail' failed: raised ValueError('broken') in {__file__}:"
    )


@pytest.mark.parametrize(
    ("more", "expected"), [({}, ["BeforeModel hook 'speak' says: hi"]), ({"suppressOutput": True}, [])]
)
async def test_a_message_is_logged_unless_it_is_suppressed(
    more: Json, expected: list[str], caplog: pytest.LogCaptureFixture
) -> None:
    def speak(_: Json) -> Json:
        return {"systemMessage": "hi", **more}

    with caplog.at_level(logging.INFO, "hookgate.hooks"):
        await engine(parallel(speak)).fire(asking("hi"), SESSION)
    assert [record.getMessage() for record in caplog.records] == expected


async def test_a_key_without_effect_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    numbers = iter(range(100))

    def misspell(_: Json) -> Json:
        return {"decison": "deny", f"reason{next(numbers)}": "x"}

    running = engine(parallel(misspell))
    for _ in range(30):
        outcome = await running.fire(asking("hi"), SESSION)
        assert outcome.verdict.decision == "allow"
    assert caplog.messages[0] == (
        "BeforeModel hook 'misspell' returned the key 'decison', which is not read; did you mean 'decision'?"
    )
    assert (len(caplog.messages), len(set(caplog.messages))) == (20, 20)


def test_a_hook_that_is_in_two_groups_runs_once(tmp_path: Path) -> None:
    groups = [{"matcher": matcher, "hooks": [command()]} for matcher in ("*", "x")]
    configuration = load_settings([write_file(tmp_path, {"hooks": {"BeforeModel": groups}})])
    plan = Engine(configuration).plan(asking("hi"), SESSION)
    assert sum(len(group.hooks) for group in plan.groups) == 1


def test_plans_do_not_keep_long_names_that_clients_send(tmp_path: Path) -> None:
    """They may take up any amount of memory, and be others in each call; so may many short or empty ones."""
    on_tools = one_group(command(when={"tools": ["run_*"], "models": ["gemini-*"]}))
    listening = Engine(load_settings([write_file(tmp_path, on_tools)]))
    for names in (["x" * 600], ["x" * 200] * 3, [""] * 600):
        declared = {"tools": [{"functionDeclarations": [{"name": name} for name in names]}]}
        assert not listening.plan(BeforeModel("gemini", declared), SESSION).groups
    on_models = one_group(command(when={"models": ["gemini-*"]}))
    selecting = Engine(load_settings([write_file(tmp_path, on_models, "models.json")]))
    for number in range(20):
        assert not selecting.plan(BeforeModel(f"{number}" * 600, {}), SESSION).groups
    on_clients = one_group(command(when={"clients": ["curl"]}))
    for_clients = Engine(load_settings([write_file(tmp_path, on_clients, "clients.json")]))
    assert not for_clients.plan(asking("hi"), SessionContext("s", client="c" * 600)).groups
    for each in (listening, selecting, for_clients):
        assert each._cached_plan.cache_info().currsize == 0


def test_tools_are_matched_again_only_if_their_names_differ(tmp_path: Path) -> None:
    on_tools = one_group(command(when={"tools": ["run_*"]}))
    listening = Engine(load_settings([write_file(tmp_path, on_tools)]))
    for name in ("run_it", "read_it", "run_it"):
        declared = {"tools": [{"functionDeclarations": [{"name": name}]}]}
        assert bool(listening.plan(BeforeModel("gemini", declared), SESSION).groups) is (name == "run_it")
    cached = listening._cached_plan.cache_info()
    assert (cached.hits, cached.currsize) == (1, 2)


def test_plans_do_not_keep_long_triggers(tmp_path: Path) -> None:
    hooks = {"hooks": {"Notification": [{"matcher": "ToolPermission", "hooks": [command()]}]}}
    listening = Engine(load_settings([write_file(tmp_path, hooks)]))
    for number in range(3):
        listening.plan(Notification(f"{number}" * 1000, "m", {}), SESSION)
    assert listening._cached_plan.cache_info().currsize == 0
