"""`hookgate event --from claude-code`: Claude Code's words in, the contract's at the gateway, and back."""

import json
from typing import Any

import pytest
from support.gateway.event_service import NOWHERE, event_service, hookgate

from hookgate.hooks.settings import claude_names as names
from hookgate.shim.command import naming

BASE = {"session_id": "s-1", "transcript_path": "/t.jsonl", "cwd": "/", "permission_mode": "default"}
SHELL = {
    **BASE,
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "a", "timeout": 1},
}


async def exchanged(event: str, given: Any, output: Any = None) -> tuple[str, Any, int, Any]:
    """The path and the document that reached the gateway, the exit code and what was printed."""
    async with event_service() as service:
        service.answers[names.EVENTS.get(event, event)] = output or {}
        words = ("event", event, "--gateway", service.url, "--from", "claude-code")
        ended = await hookgate(*words, given=given)
    [(path, _, reported)] = service.reported
    return path.rpartition("/")[2], reported, ended.code, json.loads(ended.out)


@pytest.mark.parametrize(
    ("event", "fields", "expected"),
    [
        pytest.param("PreToolUse", {"tool_name": "Bash"}, {"tool_name": "run_shell_command"}, id="a tool"),
        pytest.param("PreToolUse", {"tool_name": "mcp__a__b_c"}, {"tool_name": "mcp_a_b_c"}, id="MCP"),
        pytest.param("PreToolUse", {"tool_name": "Mine"}, {"tool_name": "Mine"}, id="an unknown tool"),
        pytest.param(
            "PostToolUse",
            {"tool_name": "Read", "tool_response": {"stdout": "x"}},
            {"tool_name": "read_file", "tool_response": {"llmContent": "x", "stdout": "x"}},
            id="a result",
        ),
        pytest.param(
            "PostToolUse", {"tool_response": "x"}, {"tool_response": {"llmContent": "x"}}, id="a text"
        ),
        pytest.param(
            "PostToolUseFailure",
            {"tool_name": "Bash", "error": "exit code 1"},
            {
                "tool_name": "run_shell_command",
                "tool_response": {"llmContent": "exit code 1", "error": "exit code 1"},
            },
            id="a failed tool",
        ),
        pytest.param("UserPromptSubmit", {"prompt": "p"}, {"prompt": "p"}, id="a prompt"),
        pytest.param(
            "Stop",
            {"stop_hook_active": True, "last_assistant_message": "m"},
            {"stop_hook_active": True, "prompt_response": "m"},
            id="a final answer",
        ),
        pytest.param("Stop", {}, {"prompt_response": ""}, id="an older version's final answer"),
        pytest.param("SessionStart", {"source": "compact"}, {"source": "compress"}, id="a source"),
        pytest.param("SessionEnd", {"reason": "other"}, {"reason": "other"}, id="a reason"),
        pytest.param("PreCompact", {"trigger": "auto"}, {"trigger": "auto"}, id="a trigger"),
        pytest.param(
            "Notification",
            {"message": "m", "notification_type": "permission_prompt"},
            {"message": "m", "notification_type": "ToolPermission"},
            id="a notification",
        ),
        pytest.param("BeforeTool", {"tool_name": "Bash"}, {"tool_name": "run_shell_command"}, id="our name"),
    ],
)
async def test_its_events_and_names_become_the_contract_s(event: str, fields: Any, expected: Any) -> None:
    path, arrived, code, printed = await exchanged(event, {**BASE, "hook_event_name": event, **fields})
    assert (path, code, printed) == (names.EVENTS.get(event, event), 0, {})
    assert arrived.items() >= {**BASE, "hook_event_name": path, **expected}.items()


@pytest.mark.parametrize(
    ("event", "output", "code", "printed"),
    [
        pytest.param(
            "PreToolUse",
            {"decision": "deny", "reason": "No."},
            2,
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "No.",
                }
            },
            id="a denied tool",
        ),
        pytest.param(
            "PreToolUse",
            {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": {"command": "b"}}},
            0,
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "ask",
                    "permissionDecisionReason": "The gateway's hooks changed the arguments.",
                    "updatedInput": {"command": "b", "timeout": 1},
                }
            },
            id="rewritten arguments, which the user sees",
        ),
        pytest.param(
            "PreToolUse", {"decision": "allow", "reason": "Fine."}, 0, {}, id="allowing spares no permission"
        ),
        pytest.param(
            "PreToolUse",
            {"decision": "ask", "reason": "Sure?"},
            0,
            {
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "ask",
                    "permissionDecisionReason": "Sure?",
                }
            },
            id="a question",
        ),
        pytest.param(
            "PreToolUse",
            {"continue": False, "stopReason": "Enough."},
            0,
            {
                "continue": False,
                "stopReason": "Enough.",
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "Enough.",
                },
            },
            id="a stop, which it reads with exit code 0 alone",
        ),
        pytest.param(
            "PostToolUse",
            {"decision": "deny", "reason": "No.", "systemMessage": "m"},
            0,
            {
                "decision": "block",
                "reason": "No.",
                "systemMessage": "m",
                "hookSpecificOutput": {"hookEventName": "PostToolUse", "updatedToolOutput": "No."},
            },
            id="a denied result, which the model does not see",
        ),
        pytest.param(
            "UserPromptSubmit",
            {"hookSpecificOutput": {"hookEventName": "BeforeAgent", "additionalContext": "c"}},
            0,
            {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "c"}},
            id="context",
        ),
        pytest.param(
            "Stop",
            {"decision": "deny", "reason": "Again."},
            2,
            {"decision": "block", "reason": "Again."},
            id="retry",
        ),
    ],
)
async def test_what_the_gateway_says_becomes_claude_code_s(
    event: str, output: Any, code: int, printed: Any
) -> None:
    given = SHELL if event == "PreToolUse" else {**BASE, "hook_event_name": event}
    assert (await exchanged(event, given, output))[2:] == (code, printed)


READ = {"type": "text", "file": {"content": "secret", "lines": 1}}


@pytest.mark.parametrize(
    ("response", "output", "updated"),
    [
        ("secret", {"tool_result": {"llmContent": "***"}}, "***"),
        (
            {"stdout": "secret", "stderr": "secret", "interrupted": False},
            {"tool_result": {"llmContent": "***"}},
            {"stdout": "***", "stderr": "", "interrupted": False},
        ),
        (
            {"stdout": "out", "stderr": "secret", "interrupted": False},
            {"tool_result": {"llmContent": "out", "stdout": "out", "stderr": "***", "interrupted": False}},
            {"stdout": "out", "stderr": "***", "interrupted": False},
        ),
        (
            {"stdout": "secret", "stderr": ""},
            {"tool_result": {"llmContent": "secret", "stdout": "***", "stderr": ""}},
            {"stdout": "***", "stderr": ""},
        ),
        (READ, {"tool_result": {"llmContent": json.dumps({"type": "text"})}}, {"type": "text"}),
        (READ, {"tool_result": {"llmContent": "***"}}, "***"),
    ],
)
async def test_edited_result_has_form_of_tools_own(response: Any, output: Any, updated: Any) -> None:
    given = {**BASE, "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": response}
    _, _, code, printed = await exchanged("PostToolUse", given, {"hookSpecificOutput": output})
    specific = {"hookEventName": "PostToolUse", "updatedToolOutput": updated}
    assert (code, printed) == (0, {"hookSpecificOutput": specific})


async def test_denied_result_is_hidden_with_its_other_fields() -> None:
    response = {"stdout": "secret", "stderr": "secret", "interrupted": False}
    given = {**BASE, "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": response}
    _, _, code, printed = await exchanged("PostToolUse", given, {"decision": "deny", "reason": "No."})
    assert (code, printed["decision"]) == (0, "block")
    updated = printed["hookSpecificOutput"]["updatedToolOutput"]
    assert updated == {"stdout": "No.", "stderr": "", "interrupted": False}


async def test_an_answer_that_could_not_be_judged_ends_the_turn() -> None:
    words = ("event", "Stop", "--gateway", NOWHERE, "--from", "claude-code", "--on-unreachable", "deny")
    ended = await hookgate(*words, given=BASE)
    assert (ended.code, json.loads(ended.out)["continue"]) == (0, False)


def test_the_names_are_those_that_hooks_are_migrated_with() -> None:
    assert naming.EVENTS == names.EVENTS
    latest = {name: new[-1] for name, new in names.TOOLS.items() if new}
    assert latest == naming.TOOLS
    for event, (_, words) in naming._TRIGGERS.items():
        known = names.TRIGGERS[event]
        assert words == {name: new[0] for name, new in known.items() if new and new[0] != name}
