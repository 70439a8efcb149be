"""Outputs in the dialects of other agents: keys that mean the same are read, and no other key is ignored."""

from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import SESSION, command, engine, one_group, parallel, write_file

from hookgate.hooks import AfterTool, BeforeTool, Engine, load_settings
from hookgate.hooks.engine import combined_output

Json = dict[str, Any]
BEFORE_TOOL = BeforeTool("run_shell_command", {"command": "rm -rf /", "timeout": 1})
AFTER_TOOL = AfterTool("read_file", {}, {"llmContent": "secret", "returnDisplay": "secret"})


async def specific(event: Any, output: Json) -> Json:
    judge = engine(parallel(lambda _: {"hookSpecificOutput": output}), event=event.name)
    combined = combined_output(event, await judge.fire(event, SESSION))
    return {key: combined[key] for key in combined if key != "hookSpecificOutput"} | combined.get(
        "hookSpecificOutput", {}
    )


async def test_updated_input_of_claude_code_edits_arguments() -> None:
    updated = {"command": "echo safe", "timeout": 1}
    output = {"hookEventName": "PreToolUse", "permissionDecision": "allow", "updatedInput": updated}
    assert await specific(BEFORE_TOOL, output) == {
        "decision": "allow",
        "hookEventName": "BeforeTool",
        "tool_input": updated,
    }


@pytest.mark.parametrize("updated", [{"command": "echo safe"}, {}])
async def test_updated_input_that_would_remove_argument_is_failure(updated: Json) -> None:
    judge = engine(
        parallel(lambda _: {"hookSpecificOutput": {"updatedInput": updated}}, on_error="deny"),
        event="BeforeTool",
    )
    outcome = await judge.fire(BEFORE_TOOL, SESSION)
    [run] = outcome.runs
    assert outcome.verdict.denied
    assert run.error.startswith("hookSpecificOutput.updatedInput: lacks the argument '")


@pytest.mark.parametrize("key", ["updatedToolOutput", "updatedMCPToolOutput"])
@pytest.mark.parametrize(
    ("value", "result"),
    [
        ("[MASKED]", {"llmContent": "[MASKED]"}),
        ({"stdout": "[MASKED]"}, {"llmContent": {"stdout": "[MASKED]"}}),
        ([{"type": "text", "text": "x"}], {"llmContent": [{"type": "text", "text": "x"}]}),
        ({"llmContent": "x", "returnDisplay": "y"}, {"llmContent": "x", "returnDisplay": "y"}),
    ],
)
async def test_updated_tool_output_of_claude_code_replaces_result(key: str, value: Any, result: Json) -> None:
    assert (await specific(AFTER_TOOL, {key: value}))["tool_result"] == result


@pytest.mark.parametrize(
    "output",
    [
        {"permission": "deny"},
        {"updatedInput": {"command": "true", "timeout": 1}},
        {"tool_input": {"command": "true"}},
        {"hookSpecificOutput": {"updatedToolOutput": "x"}},
        {"hookSpecificOutput": {"modifiedArgs": {}}},
        {"hookSpecificOutput": {"tool_inptu": {}}},
        {"hookSpecificOutput": {"decision": {"behavior": "deny"}}},
    ],
)
@pytest.mark.parametrize("on_error", ["allow", "deny"])
async def test_key_of_other_dialect_is_never_ignored(on_error: Any, output: Json) -> None:
    judge = engine(parallel(lambda _: output, on_error=on_error), event="BeforeTool")
    outcome = await judge.fire(BEFORE_TOOL, SESSION)
    [run] = outcome.runs
    assert outcome.verdict.denied == (on_error == "deny")
    assert "which is not read; " in (run.error if on_error == "deny" else str(run.warnings))


@pytest.mark.parametrize(
    ("printed", "denied"),
    [
        ('{"hookSpecificOutput": {"additionalContext": "line one\nline two"}}', False),
        ('{"hookSpecificOutput": {"additionalContext": "say "hello""}}', False),
        ('{"decision": "allow", "reason": "line one\nline two"}', True),
        ('{"continue": false, "stopReason": "say "hello""}', True),
        ('{"hookSpecificOutput": {"permissionDecision": "deny",}}', True),
    ],
)
async def test_broken_json_is_failure_only_if_it_has_decision(
    printed: str, denied: bool, tmp_path: Path
) -> None:
    (tmp_path / "printed").write_text(printed)
    path = write_file(tmp_path, one_group(command("cat printed"), event="BeforeTool"))
    judge = Engine(load_settings([path]))
    outcome = await judge.fire(BEFORE_TOOL, SESSION)
    await judge.close()
    [run] = outcome.runs
    assert outcome.verdict.denied == denied
    assert "not one valid JSON object on stdout" in (run.error or run.warning)
