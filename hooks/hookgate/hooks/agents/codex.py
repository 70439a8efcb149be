"""The dialect of Codex's hooks: Claude Code's inputs, and fewer answers. The schemas are those of 0.171.

Codex ignores the whole output of a hook if it has a key that its schema lacks, so no other key is written.
"""

from hookgate.hooks.agents.claude_code import (
    base,
    read_final_answer,
    read_start,
    with_specific,
)
from hookgate.hooks.agents.dialect import (
    AgentDialect,
    Decided,
    EventRow,
    Json,
    aspects,
    fields,
    read_prompt,
    read_reason,
    read_trigger,
    write_nothing,
)
from hookgate.hooks.agents.tools import Tools, result_text
from hookgate.translator.strictjson import dumps

_TOOLS = Tools({"Bash": "run_shell_command", "apply_patch": "replace"})


def _read_tool(document: Json) -> Json:
    return _TOOLS.read(document.get("tool_name"), document.get("tool_input"))


def _read_result(document: Json) -> Json:
    response = document.get("tool_response")
    content = response if isinstance(response, str) else dumps(response).decode()
    return {**_read_tool(document), "tool_response": {"llmContent": content}}


def _write_permission(name: str, document: Json, decided: Decided) -> Json:
    specific = fields(additionalContext=decided.context)
    if decided.ends:
        specific |= {"permissionDecision": "deny", "permissionDecisionReason": decided.reason}
    elif decided.arguments is not None:
        # Codex reads changed arguments only with this decision. It still asks the user where it would.
        changed = _TOOLS.agent_arguments(document.get("tool_name"), decided.arguments)
        specific |= {"permissionDecision": "allow", "updatedInput": changed}
    return with_specific(fields(systemMessage=decided.message), name, specific)


def _write_block(name: str, document: Json, decided: Decided) -> Json:
    answer = fields(systemMessage=decided.message)
    if decided.stopped:
        answer |= {"continue": False, "stopReason": decided.reason}
    elif decided.denied:
        answer |= {"decision": "block", "reason": decided.reason}
    return with_specific(answer, name, fields(additionalContext=decided.context))


def _write_result(name: str, document: Json, decided: Decided) -> Json:
    if decided.result is None or decided.ends:
        return _write_block(name, document, decided)
    # Codex replaces a result only with the reason of a block.
    content = result_text(decided.result) or "A hook of the gateway withheld this result."
    answer = {"decision": "block", "reason": content, **fields(systemMessage=decided.message)}
    return with_specific(answer, name, fields(additionalContext=decided.context))


_ENDS = aspects("deny", "stop", "message")

CODEX = AgentDialect(
    "codex",
    "Codex",
    {
        "PreToolUse": EventRow(
            "BeforeTool", _read_tool, _write_permission, aspects("deny", "arguments", "context", "message")
        ),
        "PostToolUse": EventRow(
            "AfterTool", _read_result, _write_result, _ENDS | aspects("result", "context")
        ),
        "UserPromptSubmit": EventRow("BeforeAgent", read_prompt, _write_block, _ENDS | aspects("context")),
        "Stop": EventRow("AfterAgent", read_final_answer, _write_block, _ENDS),
        "SubagentStop": EventRow("AfterAgent", read_final_answer, _write_block, _ENDS),
        "SessionStart": EventRow(
            "SessionStart", read_start, _write_block, aspects("stop", "context", "message")
        ),
        "SessionEnd": EventRow("SessionEnd", read_reason, write_nothing),
        "PreCompact": EventRow("PreCompress", read_trigger, _write_block, aspects("message")),
    },
    base,
    ("PermissionRequest", "PostCompact", "SubagentStart", "Interrupt", "StopFailure"),
)
