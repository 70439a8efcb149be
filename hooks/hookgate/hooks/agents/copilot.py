"""The dialect of GitHub Copilot's hooks, with its own event names (camelCase), as GitHub documents them."""

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
from hookgate.hooks.agents.tools import AgentTool, Tools, failed_result, result_text

_TOOLS = Tools(
    {
        "bash": "run_shell_command",
        "powershell": "run_shell_command",
        "view": AgentTool("read_file", {"path": "file_path"}),
        "create": AgentTool("write_file", {"path": "file_path", "file_text": "content"}),
        "edit": AgentTool("replace", {"path": "file_path", "old_str": "old_string", "new_str": "new_string"}),
        "str_replace_editor": AgentTool(
            "replace", {"path": "file_path", "old_str": "old_string", "new_str": "new_string"}
        ),
        "apply_patch": "replace",
        "grep": "grep_search",
        "rg": "grep_search",
        "glob": "glob",
        "web_fetch": "web_fetch",
        "web_search": "google_web_search",
        "task": "invoke_agent",
        "ask_user": "ask_user",
        "update_todo": "write_todos",
    }
)


def _base(document: Json) -> Json:
    return {
        "session_id": text(document, "sessionId"),
        "transcript_path": text(document, "transcriptPath"),
        "cwd": text(document, "cwd"),
    }


def _read_tool(document: Json) -> Json:
    return _TOOLS.read(document.get("toolName"), document.get("toolArgs"))


def _read_result(document: Json) -> Json:
    result = document.get("toolResult")
    content = text(result, "textResultForLlm") if isinstance(result, dict) else ""
    return {**_read_tool(document), "tool_response": {"llmContent": content}}


def _read_failure(document: Json) -> Json:
    return {**_read_tool(document), "tool_response": failed_result(text(document, "error"))}


def _read_final_answer(document: Json) -> Json:
    active = document.get("stop_hook_active") is True
    return {"prompt_response": text(document, "response"), "stop_hook_active": active}


def _read_start(document: Json) -> Json:
    source = text(document, "source")
    return {"source": {"new": "startup"}.get(source, source) or "startup"}


def _write_permission(name: str, document: Json, decided: Decided) -> Json:
    """Return the answer about a tool. It never allows one, which would skip the user's own permission."""
    if decided.ends:
        return {"permissionDecision": "deny", "permissionDecisionReason": decided.reason}
    answer: Json = {}
    if decided.asks:
        answer = {"permissionDecision": "ask", **fields(permissionDecisionReason=decided.reason)}
    if decided.arguments is not None:
        answer["modifiedArgs"] = _TOOLS.agent_arguments(document.get("toolName"), decided.arguments)
    return answer


def _write_result(name: str, document: Json, decided: Decided) -> Json:
    answer = fields(additionalContext=decided.context)
    content = (
        decided.reason if decided.ends else None if decided.result is None else result_text(decided.result)
    )
    if content is not None:
        answer["modifiedResult"] = {"resultType": "success", "textResultForLlm": content}
    return answer


def _write_context(name: str, document: Json, decided: Decided) -> Json:
    return fields(additionalContext=decided.context)


def _write_answer(name: str, document: Json, decided: Decided) -> Json:
    return {"decision": "block", "reason": decided.reason} if decided.denied else {}


_ENDS = aspects("deny", "stop")
_CONTEXT = aspects("context")

COPILOT = AgentDialect(
    "copilot",
    "GitHub Copilot",
    {
        "preToolUse": EventRow(
            "BeforeTool", _read_tool, _write_permission, aspects("deny", "ask", "arguments")
        ),
        "postToolUse": EventRow(
            "AfterTool", _read_result, _write_result, aspects("deny", "result", "context")
        ),
        "postToolUseFailure": EventRow("AfterTool", _read_failure, _write_context, _CONTEXT),
        "userPromptSubmitted": EventRow("BeforeAgent", read_prompt, write_nothing),
        "agentStop": EventRow("AfterAgent", _read_final_answer, _write_answer, _ENDS),
        "subagentStop": EventRow("AfterAgent", _read_final_answer, _write_answer, _ENDS),
        "sessionStart": EventRow("SessionStart", _read_start, _write_context, _CONTEXT),
        "sessionEnd": EventRow("SessionEnd", read_reason, write_nothing),
        "preCompact": EventRow("PreCompress", read_trigger, write_nothing),
        "notification": EventRow("Notification", read_notification, _write_context, _CONTEXT),
        # Of the events with names in camelCase, this one alone is named in its inputs, and in this spelling.
        "Notification": EventRow("Notification", read_notification, _write_context, _CONTEXT),
    },
    _base,
    ("errorOccurred", "permissionRequest", "subagentStart", "userPromptTransformed"),
)
