"""The dialect of Claude Code's hooks, of the types command and http. The names are those of 2.1.332."""

from typing import Any

from hookgate.hooks.agents.dialect import (
    AgentDialect,
    Decided,
    EventRow,
    Json,
    aspects,
    fields,
    read_notification,
    read_prompt,
    read_reason,
    read_trigger,
    text,
    write_nothing,
)
from hookgate.hooks.agents.tools import Tools, as_object, failed_result, result_text
from hookgate.hooks.settings import claude_names
from hookgate.translator.strictjson import dumps

TOOLS = Tools({name: new[-1] for name, new in claude_names.TOOLS.items() if new})
"""For a tool that Gemini CLI has renamed, the latest name."""

_CHANGED = "The gateway's hooks changed the arguments."
_SMALLEST_SECRET = 10_000_000


def base(document: Json) -> Json:
    """Return the fields that every input has."""
    return {key: text(document, key) for key in ("session_id", "transcript_path", "cwd")}


def read_tool(document: Json) -> Json:
    """Return the fields of a tool's call."""
    return TOOLS.read(document.get("tool_name"), document.get("tool_input"))


def read_result(document: Json) -> Json:
    """Return the fields of a tool's result."""
    return {**read_tool(document), "tool_response": _contract_result(document.get("tool_response"))}


def read_failure(document: Json) -> Json:
    """Return the fields of a failed tool's result."""
    return {**read_tool(document), "tool_response": failed_result(text(document, "error"))}


def read_final_answer(document: Json) -> Json:
    """Return the fields of a final answer, whose text older versions do not send."""
    active = document.get("stop_hook_active") is True
    return {"prompt_response": text(document, "last_assistant_message"), "stop_hook_active": active}


def read_start(document: Json) -> Json:
    """Return the source of a session."""
    return {"source": {"compact": "compress"}.get(source := text(document, "source"), source) or "startup"}


def _common_fields(decided: Decided) -> Json:
    stop = {"continue": False, "stopReason": decided.reason} if decided.stopped else {}
    return {**stop, **fields(systemMessage=decided.message, suppressOutput=decided.quiet or None)}


def with_specific(answer: Json, name: str, specific: Json) -> Json:
    """Return an answer with the part that is specific to the event."""
    return {**answer, "hookSpecificOutput": {"hookEventName": name, **specific}} if specific else answer


def _write_permission(name: str, document: Json, decided: Decided) -> Json:
    """Return the answer about a tool.

    It never allows one, which would skip the user's own permission: a hook that allows a tool does not mean
    that. Changed arguments are therefore shown to the user.
    """
    specific = fields(additionalContext=decided.context)
    if decided.ends:
        specific |= {"permissionDecision": "deny", "permissionDecisionReason": decided.reason}
    elif decided.arguments is not None:
        changed = TOOLS.agent_arguments(document.get("tool_name"), decided.arguments)
        reason = decided.reason or _CHANGED
        specific |= {
            "permissionDecision": "ask",
            "permissionDecisionReason": reason,
            "updatedInput": changed,
        }
    elif decided.asks:
        specific |= {"permissionDecision": "ask", "permissionDecisionReason": decided.reason}
    return with_specific(_common_fields(decided), name, specific)


def _write_result(name: str, document: Json, decided: Decided) -> Json:
    specific: Json = {}
    result = {"llmContent": decided.reason} if decided.ends else decided.result
    if result is not None:
        specific["updatedToolOutput"] = _own_result(document.get("tool_response"), result)
    specific |= fields(additionalContext=decided.context)
    return with_specific({**_common_fields(decided), **_block_fields(decided)}, name, specific)


def _write_block(name: str, document: Json, decided: Decided) -> Json:
    answer = {**_common_fields(decided), **_block_fields(decided)}
    return with_specific(answer, name, fields(additionalContext=decided.context))


def _block_fields(decided: Decided) -> Json:
    return {"decision": "block", "reason": decided.reason} if decided.ends else {}


def _own_result(response: Any, result: Json) -> Any:
    """Return a result of the contract in the form of the tool's own, which Claude Code ignores in any other.

    `response` is the tool's own result. Nothing of it is kept that `result` does not have.
    """
    content = result_text(result)
    if not isinstance(response, dict):
        return content
    own = {key: result.get(key, _empty_like(value)) for key, value in response.items()}
    shown = _shown_field(response)
    if shown is None:  # hooks have seen the whole result as JSON
        try:
            value = as_object(content)
        except ValueError:
            return content
        return content if value is None else value
    return {**own, shown: content} if own[shown] in ("", response[shown]) else own


def _empty_like(value: Any) -> Any:
    """Return an empty value of the same type; null, a boolean or a number too short to be a secret itself."""
    if isinstance(value, bool) or value is None:
        return value
    if isinstance(value, int | float) and abs(value) < _SMALLEST_SECRET:
        return value
    return type(value)()


def _shown_field(response: Json) -> str | None:
    """Return the field of a tool's result that is the model's text; None if it is the whole result."""
    return next(
        (key for key in ("stdout", "content") if response.get(key) and isinstance(response[key], str)), None
    )


def _contract_result(response: Any) -> Json:
    """Return a tool's result as an object that has the model's text in `llmContent`, as hooks expect."""
    if isinstance(response, dict):
        shown = _shown_field(response)
        return {"llmContent": response[shown] if shown else dumps(response).decode(), **response}
    return {"llmContent": response if isinstance(response, str) else dumps(response).decode()}


_TOOL = aspects("deny", "stop", "ask", "arguments", "context", "message")
_BLOCK = aspects("deny", "stop", "context", "message")
_ANSWER = aspects("deny", "stop", "message")
_ADVICE = aspects("message")

CLAUDE_CODE = AgentDialect(
    "claude-code",
    "Claude Code",
    {
        "PreToolUse": EventRow("BeforeTool", read_tool, _write_permission, _TOOL),
        # Commands in the text of a skill. Claude Code does not run one whose arguments are changed.
        "PreSkillShellCommand": EventRow(
            "BeforeTool", read_tool, _write_permission, _TOOL - aspects("arguments", "context", "ask")
        ),
        "PostToolUse": EventRow("AfterTool", read_result, _write_result, _BLOCK | aspects("result")),
        "PostToolUseFailure": EventRow("AfterTool", read_failure, _write_block, _BLOCK - aspects("deny")),
        "UserPromptSubmit": EventRow("BeforeAgent", read_prompt, _write_block, _BLOCK),
        "UserPromptExpansion": EventRow("BeforeAgent", read_prompt, _write_block, _BLOCK),
        "Stop": EventRow("AfterAgent", read_final_answer, _write_block, _ANSWER),
        "SubagentStop": EventRow("AfterAgent", read_final_answer, _write_block, _ANSWER),
        "SessionStart": EventRow("SessionStart", read_start, _write_block, _BLOCK),
        "SessionEnd": EventRow("SessionEnd", read_reason, write_nothing),
        "PreCompact": EventRow("PreCompress", read_trigger, _write_block, _ADVICE),
        "Notification": EventRow(
            "Notification", read_notification, _write_block, _ADVICE | aspects("context")
        ),
    },
    base,
    claude_names.KNOWN_EVENTS,
)
