"""The dialect of Cursor's hooks. It follows Cursor's documentation; no package shows it."""

from typing import Any

from hookgate.hooks.agents.dialect import (
    AgentDialect,
    Decided,
    EventRow,
    Json,
    aspects,
    fields,
    first_path,
    read_nothing,
    read_prompt,
    read_reason,
    text,
    write_nothing,
)
from hookgate.hooks.agents.tools import AgentTool, Tools, failed_result, result_text

_TOOLS = Tools(
    {
        "Shell": "run_shell_command",
        "Read": AgentTool("read_file", {"path": "file_path"}),
        "Write": AgentTool("write_file", {"path": "file_path", "contents": "content"}),
        "StrReplace": AgentTool("replace", {"path": "file_path"}),
        "Grep": "grep_search",
        "Glob": "glob",
        "WebFetch": "web_fetch",
        "WebSearch": "google_web_search",
        "Task": "invoke_agent",
        "TodoWrite": "write_todos",
    },
    mcp=("MCP:", ":"),
)


def _base(document: Json) -> Json:
    return {
        "session_id": text(document, "conversation_id", "session_id"),
        "transcript_path": text(document, "transcript_path"),
        "cwd": text(document, "cwd") or first_path(document, "workspace_roots"),
    }


def _read_tool(document: Json) -> Json:
    return _TOOLS.read(document.get("tool_name"), document.get("tool_input"))


def _read_command(document: Json) -> Json:
    if not isinstance(document.get("command"), str):
        raise ValueError("command: must be a string")
    return _TOOLS.read("Shell", {"command": document["command"]})


def _read_mcp_tool(document: Json) -> Json:
    name = text(document, "tool_name")
    return _TOOLS.read(
        name if name.startswith("MCP:") or not name else f"MCP:{name}", document.get("tool_input")
    )


def _read_file(document: Json) -> Json:
    content = {"llmContent": text(document, "content")}
    return {"tool_name": "read_file", "tool_input": _path(document), "tool_response": content}


def _path(document: Json) -> Json:
    return {"file_path": text(document, "file_path")}


def _read_result(document: Json) -> Json:
    return {
        **_read_tool(document),
        "tool_response": {"llmContent": text(document, "tool_output", "result_json")},
    }


def _read_failure(document: Json) -> Json:
    return {**_read_tool(document), "tool_response": failed_result(text(document, "error_message"))}


def _read_compaction(document: Json) -> Json:
    return fields(
        trigger=text(document, "trigger"),
        context_size=_number(document.get("context_tokens")),
        max_context_size=_number(document.get("context_window_size")),
    )


def _number(value: Any) -> int | None:
    return value if type(value) is int else None


def _write_permission(name: str, document: Json, decided: Decided) -> Json:
    """Return the answer about a tool. It never allows one, which would skip the user's own permission."""
    if decided.ends:
        shown = decided.message or decided.reason
        return {"permission": "deny", "user_message": shown, "agent_message": decided.reason}
    if decided.asks:
        return {"permission": "ask", **fields(user_message=decided.message or decided.reason)}
    answer = fields(user_message=decided.message)
    if decided.arguments is not None:
        answer["updated_input"] = _TOOLS.agent_arguments(document.get("tool_name"), decided.arguments)
    return answer


def _write_file(name: str, document: Json, decided: Decided) -> Json:
    return {"permission": "deny", "user_message": decided.reason} if decided.ends else {}


def _write_prompt(name: str, document: Json, decided: Decided) -> Json:
    if decided.ends:
        return {"continue": False, "user_message": decided.reason}
    return fields(additional_context=decided.context, user_message=decided.message)


def _is_mcp(document: Json) -> bool:
    return text(document, "tool_name").startswith("MCP:")


def _write_result(name: str, document: Json, decided: Decided) -> Json:
    answer = fields(additional_context=decided.context)
    if not _is_mcp(document):
        return answer
    if decided.ends:
        return {**answer, "updated_mcp_tool_output": decided.reason}
    if decided.result is not None:
        answer["updated_mcp_tool_output"] = result_text(decided.result)
    return answer


def _write_context(name: str, document: Json, decided: Decided) -> Json:
    return fields(additional_context=decided.context)


def _write_stop(name: str, document: Json, decided: Decided) -> Json:
    return {"followup_message": decided.reason} if decided.denied else {}


def _write_message(name: str, document: Json, decided: Decided) -> Json:
    return fields(user_message=decided.message)


_TOOL = aspects("deny", "message")

CURSOR = AgentDialect(
    "cursor",
    "Cursor",
    {
        "preToolUse": EventRow("BeforeTool", _read_tool, _write_permission, _TOOL | aspects("arguments")),
        "beforeShellExecution": EventRow(
            "BeforeTool", _read_command, _write_permission, _TOOL | aspects("ask")
        ),
        "beforeMCPExecution": EventRow(
            "BeforeTool", _read_mcp_tool, _write_permission, _TOOL | aspects("ask")
        ),
        # The content of a file before the model sees it: the result of the tool that reads it.
        "beforeReadFile": EventRow("AfterTool", _read_file, _write_file, aspects("deny")),
        "postToolUse": EventRow(
            "AfterTool",
            _read_result,
            _write_result,
            aspects("context"),
            also_expressible=aspects("deny", "result"),
            has_more=_is_mcp,
        ),
        "postToolUseFailure": EventRow("AfterTool", _read_failure, _write_context, aspects("context")),
        "beforeSubmitPrompt": EventRow(
            "BeforeAgent", read_prompt, _write_prompt, aspects("deny", "context", "message")
        ),
        "stop": EventRow(
            "AfterAgent", lambda d: {"prompt_response": ""}, _write_stop, aspects("deny", "stop")
        ),
        "sessionStart": EventRow("SessionStart", read_nothing, _write_context, aspects("context")),
        "sessionEnd": EventRow("SessionEnd", read_reason, write_nothing),
        "preCompact": EventRow("PreCompress", _read_compaction, _write_message, aspects("message")),
    },
    _base,
    (
        "afterShellExecution",
        "afterMCPExecution",
        "afterFileEdit",
        "afterAgentResponse",
        "afterAgentThought",
        "beforeTabFileRead",
        "afterTabFileEdit",
        "subagentStart",
        "subagentStop",
        "workspaceOpen",
    ),
)
