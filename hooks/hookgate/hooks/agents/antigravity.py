"""The dialect of Antigravity's hooks, as the harness of google-antigravity 0.1.22 documents it.

Its inputs do not name their events.
"""

from collections.abc import Mapping

from hookgate.hooks.agents.dialect import (
    AgentDialect,
    Decided,
    EventRow,
    Json,
    aspects,
    fields,
    first_path,
    read_nothing,
    text,
    write_nothing,
)
from hookgate.hooks.agents.tools import AgentTool, Tools, as_object
from hookgate.hooks.settings.antigravity import TOOLS as TOOL_NAMES

_ARGUMENTS: Mapping[str, Mapping[str, str]] = {
    "run_command": {"CommandLine": "command", "Cwd": "dir_path"},
    "view_file": {"AbsolutePath": "file_path"},
    "write_to_file": {"TargetFile": "file_path", "CodeContent": "content"},
    "replace_file_content": {
        "TargetFile": "file_path",
        "TargetContent": "old_string",
        "ReplacementContent": "new_string",
    },
    "multi_replace_file_content": {"TargetFile": "file_path"},
    "list_dir": {"DirectoryPath": "dir_path"},
    "grep_search": {"Query": "pattern", "SearchPath": "dir_path"},
    "find_by_name": {"Pattern": "pattern", "SearchDirectory": "dir_path"},
}

TOOLS = Tools({name: AgentTool(ours, _ARGUMENTS.get(name, {})) for name, ours in TOOL_NAMES.items()})


def _base(document: Json) -> Json:
    name = text(document, "conversationId")
    return {
        # Names of sessions begin with a letter or digit. In bodies of calls, too, negative IDs are prefixed.
        "session_id": f"session{name}" if name.startswith("-") else name,
        "transcript_path": text(document, "transcriptPath"),
        "cwd": first_path(document, "workspacePaths"),
    }


def _call(document: Json) -> Json:
    call = document.get("toolCall")
    return call if isinstance(call, dict) else {}


def _read_tool(document: Json) -> Json:
    return TOOLS.read(_call(document).get("name"), _call(document).get("args"))


def _read_result(document: Json) -> Json:
    """Return the fields of a tool that has run. Antigravity does not send its result, only its error."""
    error = text(document, "error")
    return {**_read_tool(document), "tool_response": {"llmContent": error, **fields(error=error)}}


def _write_permission(name: str, document: Json, decided: Decided) -> Json:
    """Return the answer about a tool, which must have a decision: without one, Antigravity denies the tool.

    `ask` lets Antigravity's own settings decide. `allow` would skip the user's own permission: a hook that
    allows a tool does not mean that.
    """
    if decided.ends:
        return {"decision": "deny", "reason": decided.reason}
    answer = {"decision": "force_ask" if decided.asks else "ask", **fields(reason=decided.reason)}
    if decided.arguments is not None:
        sent = as_object(_call(document).get("args")) or {}
        changed = TOOLS.agent_arguments(_call(document).get("name"), decided.arguments)
        answer["overwrite"] = {key: value for key, value in changed.items() if sent.get(key) != value}
    return answer


def _write_steps(name: str, document: Json, decided: Decided) -> Json:
    return {"injectSteps": [{"ephemeralMessage": decided.context}]} if decided.context else {}


def _write_start(name: str, document: Json, decided: Decided) -> Json:
    step = {"systemMessage": {"systemMessage": decided.context}}
    return {"injectSteps": [step]} if decided.context else {}


def _write_termination(name: str, document: Json, decided: Decided) -> Json:
    return {"terminationBehavior": "terminate"} if decided.ends else {}


def _write_stop(name: str, document: Json, decided: Decided) -> Json:
    return {"decision": "continue", "reason": decided.reason} if decided.denied else {}


_CONTEXT = aspects("context")

ANTIGRAVITY = AgentDialect(
    "antigravity",
    "Antigravity",
    {
        "PreToolUse": EventRow(
            "BeforeTool", _read_tool, _write_permission, aspects("deny", "ask", "arguments")
        ),
        "PostToolUse": EventRow("AfterTool", _read_result, write_nothing),
        # The first invocation of a turn begins the turn; its input has no prompt.
        "PreInvocation": EventRow(
            "BeforeAgent",
            lambda d: {"prompt": ""},
            _write_steps,
            _CONTEXT,
            lambda d: d.get("invocationNum", 0) == 0,
        ),
        "PostInvocation": EventRow(None, read_nothing, _write_termination, aspects("stop")),
        "Stop": EventRow(
            "AfterAgent", lambda d: {"prompt_response": ""}, _write_stop, aspects("deny", "stop")
        ),
        "SessionStart": EventRow("SessionStart", read_nothing, _write_start, _CONTEXT),
    },
    _base,
)
