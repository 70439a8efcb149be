"""Antigravity's hooks.json as settings: its hooks run unmodified, with its inputs and outputs."""

import json
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import SESSION

from hookgate.hooks import (
    AfterAgent,
    AfterModel,
    AfterTool,
    BeforeModel,
    BeforeTool,
    Engine,
    Outcome,
    SessionStart,
    SettingsError,
    load_settings,
)
from hookgate.hooks.engine import combined_output
from hookgate.hooks.events.reading import SAMPLES

Json = dict[str, Any]
OWN = BeforeTool("run_command", {"CommandLine": "npm test", "Cwd": "/p"})
"""A call that Antigravity has made, from an answer of the model."""
POSTED = BeforeTool("run_shell_command", {"command": "npm test"})
"""A call of any agent whose hooks post their events."""
BODY = {"contents": [{"role": "user", "parts": [{"text": "Hello."}]}]}


def hooks_json(folder: Path, hooks: Mapping[str, Any]) -> Path:
    path = folder / ".agents" / "hooks.json"
    path.parent.mkdir(exist_ok=True)
    path.write_text(json.dumps(hooks))
    return path


def print_command(output: Any) -> str:
    """A command that writes its input to the file `seen` in its folder, and prints."""
    return f"cat > seen; printf '%s' '{output if isinstance(output, str) else json.dumps(output)}'"


async def fire_event(folder: Path, hooks: Mapping[str, Any], event: Any) -> Outcome[Any]:
    engine = Engine(load_settings([hooks_json(folder, hooks)]))
    outcome = await engine.fire(event, replace(SESSION, session_id="s-1", cwd="/p"))
    await engine.close()
    return outcome


async def run_hook(folder: Path, antigravity: str, event: Any, output: Any) -> tuple[Json, Json, str]:
    """What a hook was given, the combined output, and the hook's failure."""
    entry: Json = {"command": print_command(output)}
    grouped = {"hooks": [entry]} if antigravity in ("PreToolUse", "PostToolUse") else entry
    outcome = await fire_event(folder, {"gate": {antigravity: [grouped]}}, event)
    [run] = outcome.runs
    return json.loads((folder / ".agents" / "seen").read_text()), combined_output(event, outcome), run.error


COMMON = {
    "conversationId": "s-1",
    "workspacePaths": ["/p"],
    "artifactDirectoryPath": "",
    "modelName": "auto",
}


@pytest.mark.parametrize(
    ("event", "call"),
    [
        (OWN, {"name": "run_command", "args": {"CommandLine": "npm test", "Cwd": "/p"}}),
        (POSTED, {"name": "run_command", "args": {"CommandLine": "npm test"}}),
        (BeforeTool("mine", {"a": 1}), {"name": "mine", "args": {"a": 1}}),
    ],
)
async def test_hook_reads_calls_in_antigravity_s_words(tmp_path: Path, event: Any, call: Json) -> None:
    seen, output, error = await run_hook(tmp_path, "PreToolUse", event, {"decision": "allow"})
    assert seen.items() >= {**COMMON, "toolCall": call, "stepIdx": 0}.items()
    assert (output, error) == ({"decision": "allow"}, "")


@pytest.mark.parametrize(
    ("printed", "expected"),
    [
        ({"decision": "deny", "reason": "No."}, {"decision": "deny", "reason": "No."}),
        ({"decision": "force_ask", "reason": "Sure?"}, {"decision": "ask", "reason": "Sure?"}),
        ({"decision": "ask"}, {"decision": "ask"}),
    ],
)
async def test_decisions_are_the_contract_s(tmp_path: Path, printed: Json, expected: Json) -> None:
    _, output, _ = await run_hook(tmp_path, "PreToolUse", OWN, printed)
    assert output == expected


@pytest.mark.parametrize(
    ("event", "changed"),
    [(OWN, {"CommandLine": "ls", "Cwd": "/p"}), (POSTED, {"command": "ls"})],
)
async def test_overwritten_arguments_are_those_of_the_call(tmp_path: Path, event: Any, changed: Json) -> None:
    printed = {"decision": "allow", "overwrite": {"CommandLine": "ls"}}
    _, output, _ = await run_hook(tmp_path, "PreToolUse", event, printed)
    assert output["hookSpecificOutput"]["tool_input"] == changed


@pytest.mark.parametrize(
    "printed", ["", "fine", "[]", "{}", {"decision": "maybe"}, {"decision": "allow", "overwrite": 7}]
)
async def test_output_that_antigravity_would_refuse_denies(tmp_path: Path, printed: Any) -> None:
    _, output, error = await run_hook(tmp_path, "PreToolUse", OWN, printed)
    assert (output["decision"], bool(error)) == ("deny", True)


async def test_hooks_for_invocations_stops_and_sessions(tmp_path: Path) -> None:
    steps = {
        "injectSteps": [
            {"ephemeralMessage": "Be brief."},
            {"systemMessage": {"systemMessage": "Be kind."}},
        ]
    }
    seen, output, _ = await run_hook(tmp_path, "PreInvocation", BeforeModel("gemini-3.8-flash", BODY), steps)
    assert (seen["modelName"], seen["invocationNum"], seen["initialNumSteps"]) == ("gemini-3.8-flash", 0, 1)
    contents = [message["content"] for message in output["hookSpecificOutput"]["llm_request"]["messages"]]
    assert contents == ["Hello.", "Be brief.", "Be kind."]
    _, output, _ = await run_hook(tmp_path, "SessionStart", SessionStart(), steps)
    assert output["hookSpecificOutput"]["additionalContext"] == "Be brief.\nBe kind."
    again = {"decision": "continue", "reason": "Tests run."}
    seen, output, _ = await run_hook(tmp_path, "Stop", AfterAgent("p", "a"), again)
    assert (seen["terminationReason"], output) == (
        "NO_TOOL_CALL",
        {"decision": "deny", "reason": "Tests run."},
    )
    _, output, _ = await run_hook(tmp_path, "Stop", AfterAgent("p", "a"), {"decision": "stop"})
    assert output == {}
    failed = AfterTool("run_command", {"CommandLine": "x"}, {"llmContent": "", "error": "exit status 1"})
    seen, output, _ = await run_hook(tmp_path, "PostToolUse", failed, {})
    assert (seen["error"], output) == ("exit status 1", {})
    event = SAMPLES["AfterModel"]
    assert isinstance(event, AfterModel)
    _, output, _ = await run_hook(tmp_path, "PostInvocation", event, {"terminationBehavior": "terminate"})
    assert output["continue"] is False


@pytest.mark.parametrize(
    ("antigravity", "event", "printed"),
    [
        ("PostInvocation", SAMPLES["AfterModel"], {"terminationBehavior": "force_continue"}),
        ("PostInvocation", SAMPLES["AfterModel"], {"injectSteps": [{"userMessage": "x"}]}),
        ("PreInvocation", BeforeModel("m", BODY), {"injectSteps": [{"toolCall": {"name": "x"}}]}),
        ("PreInvocation", BeforeModel("m", BODY), {"injectSteps": "x"}),
    ],
)
async def test_what_has_no_counterpart_fails(
    tmp_path: Path, antigravity: str, event: Any, printed: Json
) -> None:
    _, output, error = await run_hook(tmp_path, antigravity, event, printed)
    assert (output["decision"], error.startswith("output")) == ("deny", True)


async def test_matcher_also_matches_tools_of_other_agents(tmp_path: Path) -> None:
    gate = {
        "PreToolUse": [
            {"matcher": "run_command", "hooks": [{"command": print_command({"decision": "deny"})}]}
        ]
    }
    for event, denied in ((OWN, True), (POSTED, True), (BeforeTool("view_file", {}), False)):
        assert (await fire_event(tmp_path, {"gate": gate}, event)).verdict.denied == denied


async def test_disabled_hooks_do_not_run_and_timeouts_are_seconds(tmp_path: Path) -> None:
    gate = {"PreToolUse": [{"hooks": [{"command": print_command({"decision": "deny"}), "timeout": 7}]}]}
    [group] = load_settings([hooks_json(tmp_path, {"gate": gate})]).groups["BeforeTool"]
    assert [(hook.name, hook.timeout) for hook in group.hooks] == [("gate", 7)]
    disabled = await fire_event(tmp_path, {"gate": {**gate, "enabled": False}}, OWN)
    assert disabled.runs == ()


@pytest.mark.parametrize(
    ("hooks", "expected"),
    [
        ({"a": {"PreToolUse": []}, "b": 7}, "b: must be an object of events"),
        ({"a": {"PreToolUse": 7}}, "a.PreToolUse: must be a list"),
        (
            {"a": {"PreToolUse": [], "PreTolUse": []}},
            "Antigravity has no such event; did you mean PreToolUse?",
        ),
        ({"a": {"PreToolUse": [{"command": "x"}]}}, "a.PreToolUse[0]: must be an object such as"),
        ({"a": {"Stop": ["x"]}}, "a.Stop[0]: must be an object such as"),
        ({"a": {"Stop": [{"type": "command"}]}}, "command"),
        ({"a": {"Stop": [{"command": "x", "timeout": "5"}]}}, "timeout"),
        ({"a": {"Stop": [], "enabled": "no"}}, "a.enabled: must be true or false"),
    ],
)
def test_mistakes_are_named_by_their_place(tmp_path: Path, hooks: Json, expected: str) -> None:
    with pytest.raises(SettingsError) as raised:
        load_settings([hooks_json(tmp_path, hooks)])
    assert expected in str(raised.value)


def test_persistent_program_has_no_dialect(tmp_path: Path) -> None:
    hook = {"type": "command", "command": "x", "persistent": True, "dialect": "antigravity"}
    path = tmp_path / "settings.json"
    path.write_text(json.dumps({"hooks": {"BeforeTool": [{"hooks": [hook]}]}}))
    with pytest.raises(SettingsError, match="a persistent program cannot have one"):
        load_settings([path])
