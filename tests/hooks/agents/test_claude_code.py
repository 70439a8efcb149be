"""The dialect of Claude Code: its inputs become the contract's, and what hooks decide becomes its answers."""

import json
from typing import Any

import pytest

from hookgate.hooks.agents import AGENT_DIALECTS
from hookgate.hooks.settings import claude_names as names

BASE = {"session_id": "s-1", "transcript_path": "/t.jsonl", "cwd": "/"}
SHELL = {
    **BASE,
    "hook_event_name": "PreToolUse",
    "tool_name": "Bash",
    "tool_input": {"command": "a", "timeout": 1},
}
DIALECT = AGENT_DIALECTS["claude-code"]


def write_answer(event: str, given: Any, output: Any) -> Any:
    answer = DIALECT.answer(event, given, output)
    assert answer.not_applied == ()
    return answer.document


@pytest.mark.parametrize(
    ("event", "fields", "expected"),
    [
        pytest.param(
            "PreToolUse",
            {"tool_name": "Bash"},
            {"tool_name": "run_shell_command", "tool_input": {}},
            id="a tool",
        ),
        pytest.param("PreToolUse", {"tool_name": "mcp__a__b_c"}, {"tool_name": "mcp_a_b_c"}, id="MCP"),
        pytest.param("PreToolUse", {"tool_name": "Mine"}, {"tool_name": "Mine"}, id="an unknown tool"),
        pytest.param(
            "PostToolUse",
            {"tool_name": "Read", "tool_response": {"stdout": "x"}},
            {"tool_name": "read_file", "tool_response": {"llmContent": "x", "stdout": "x"}},
            id="a result",
        ),
        pytest.param(
            "PostToolUse",
            {"tool_name": "Bash", "tool_response": "x"},
            {"tool_response": {"llmContent": "x"}},
            id="a text",
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
    ],
)
def test_its_events_and_names_become_the_contract_s(event: str, fields: Any, expected: Any) -> None:
    given = {**BASE, "hook_event_name": event, **fields}
    assert DIALECT.event_of(given, "") == event
    assert DIALECT.contract_event(event, given) == names.EVENTS[event]
    assert DIALECT.read(event, given).items() >= {**BASE, **expected}.items()


@pytest.mark.parametrize(
    ("event", "output", "printed"),
    [
        pytest.param(
            "PreToolUse",
            {"decision": "deny", "reason": "No."},
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
            {"hookSpecificOutput": {"tool_input": {"command": "b", "timeout": 1}}},
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
            "PreToolUse", {"decision": "allow", "reason": "Fine."}, {}, id="allowing spares no permission"
        ),
        pytest.param(
            "PreToolUse",
            {"decision": "ask", "reason": "Sure?"},
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
            {
                "continue": False,
                "stopReason": "Enough.",
                "hookSpecificOutput": {
                    "hookEventName": "PreToolUse",
                    "permissionDecision": "deny",
                    "permissionDecisionReason": "Enough.",
                },
            },
            id="a stop",
        ),
        pytest.param(
            "PostToolUse",
            {"decision": "deny", "reason": "No.", "systemMessage": "m"},
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
            {"hookSpecificOutput": {"hookEventName": "UserPromptSubmit", "additionalContext": "c"}},
            id="context",
        ),
        pytest.param(
            "Stop",
            {"decision": "deny", "reason": "Again."},
            {"decision": "block", "reason": "Again."},
            id="retry",
        ),
    ],
)
def test_what_hooks_decide_becomes_claude_code_s(event: str, output: Any, printed: Any) -> None:
    given = SHELL if event == "PreToolUse" else {**BASE, "hook_event_name": event}
    assert write_answer(event, given, output) == printed


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
def test_edited_result_has_form_of_tools_own(response: Any, output: Any, updated: Any) -> None:
    given = {**BASE, "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": response}
    specific = {"hookEventName": "PostToolUse", "updatedToolOutput": updated}
    assert write_answer("PostToolUse", given, {"hookSpecificOutput": output}) == {
        "hookSpecificOutput": specific
    }


def test_denied_result_is_hidden_with_its_other_fields() -> None:
    response = {"stdout": "secret", "stderr": "secret", "interrupted": False}
    given = {**BASE, "hook_event_name": "PostToolUse", "tool_name": "Bash", "tool_response": response}
    printed = write_answer("PostToolUse", given, {"decision": "deny", "reason": "No."})
    assert printed["decision"] == "block"
    updated = printed["hookSpecificOutput"]["updatedToolOutput"]
    assert updated == {"stdout": "No.", "stderr": "", "interrupted": False}


def test_answer_that_could_not_be_judged_ends_the_turn() -> None:
    denial = DIALECT.denial("Stop", BASE, "Unreachable.")
    assert denial == {
        "continue": False,
        "stopReason": "Unreachable.",
        "decision": "block",
        "reason": "Unreachable.",
    }


def test_events_of_its_settings_are_known() -> None:
    assert {*DIALECT.rows} <= {*names.KNOWN_EVENTS}
