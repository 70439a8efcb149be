"""Translates Claude Code's events, tools and triggers to the names of the hook contract, and back.

It does no I/O.

`hookgate.hooks.settings.claude_names` contains more names, for matchers, but takes too long to import here. A
test checks that the two modules agree.
"""

Json = dict[str, object]

EVENTS = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "PostToolUseFailure": "AfterTool",
    "UserPromptSubmit": "BeforeAgent",
    "Stop": "AfterAgent",
    "Notification": "Notification",
    "SessionStart": "SessionStart",
    "SessionEnd": "SessionEnd",
    "PreCompact": "PreCompress",
}

TOOLS = {
    "Bash": "run_shell_command",
    "Edit": "replace",
    "MultiEdit": "replace",
    "Read": "read_file",
    "Write": "write_file",
    "Glob": "glob",
    "Grep": "grep_search",
    "LS": "list_directory",
    "WebFetch": "web_fetch",
    "WebSearch": "google_web_search",
    "TodoWrite": "write_todos",
    "Task": "invoke_agent",
    "Agent": "invoke_agent",
    "Skill": "activate_skill",
    "AskUserQuestion": "ask_user",
    "EnterPlanMode": "enter_plan_mode",
    "ExitPlanMode": "exit_plan_mode",
}
"""Gemini CLI's tools by Claude Code's names; for a renamed tool, the name in Gemini CLI 0.61."""

_TRIGGERS = {
    "SessionStart": ("source", {"compact": "compress"}),
    "Notification": ("notification_type", {"permission_prompt": "ToolPermission"}),
}
"""By event, the field whose values differ, and the contract's value by Claude Code's."""

_WITHHELD = "A hook withheld this result."

_COMMON = ("continue", "stopReason", "systemMessage", "suppressOutput")


def input_of(event: str, document: Json) -> Json:
    """Translate Claude Code's input to the contract's. `event` is the contract's name."""
    translated = {**document, "hook_event_name": event}
    if isinstance(name := document.get("tool_name"), str):
        translated["tool_name"] = _contract_tool(name)
    if event in _TRIGGERS:
        field, translations = _TRIGGERS[event]
        value = document.get(field, "")
        translated[field] = translations.get(value, value) if isinstance(value, str) else value
    if event == "AfterAgent":
        translated.setdefault("prompt_response", document.get("last_assistant_message") or "")
    if event == "AfterTool":
        error = {"error": document["error"]} if "error" in document else {}
        response = document.get("tool_response", document.get("error"))
        translated["tool_response"] = {**_contract_result(response), **error}
    return translated


def output_for(event: str, document: Json, output: Json) -> Json:
    """Translate the contract's output to Claude Code's. `event` is Claude Code's name, `document` its input.

    The result is never `permissionDecision: allow`, which would skip the user's own permission: a hook that
    allows a tool does not mean that. Rewritten arguments are therefore shown to the user.
    """
    translated: Json = {key: output[key] for key in _COMMON if key in output}
    specific = output.get("hookSpecificOutput")
    specific_output: Json = specific if isinstance(specific, dict) else {}
    decision, reason = output.get("decision"), output.get("reason")
    if output.get("continue") is False:
        decision, reason = "deny", output.get("stopReason")
    event_output: Json = {}
    if event == "PreToolUse":
        event_output = _permission(document, specific_output, decision, reason)
    elif decision in ("deny", "block"):
        translated |= {"decision": "block", "reason": reason or ""}
    if event == "PostToolUse":
        denied = {"llmContent": reason or _WITHHELD} if "decision" in translated else None
        result = denied or specific_output.get("tool_result")
        if isinstance(result, dict):
            event_output["updatedToolOutput"] = _own_result(document.get("tool_response"), result)
    if "additionalContext" in specific_output:
        event_output["additionalContext"] = specific_output["additionalContext"]
    return (
        {**translated, "hookSpecificOutput": {"hookEventName": event, **event_output}}
        if event_output
        else translated
    )


def _permission(document: Json, specific_output: Json, decision: object, reason: object) -> Json:
    if decision in ("deny", "block"):
        return {"permissionDecision": "deny", "permissionDecisionReason": reason or ""}
    arguments, changed = document.get("tool_input"), specific_output.get("tool_input")
    if isinstance(changed, dict):
        merged = {**arguments, **changed} if isinstance(arguments, dict) else changed
        message = reason or "The gateway's hooks changed the arguments."
        return {"permissionDecision": "ask", "permissionDecisionReason": message, "updatedInput": merged}
    if decision == "ask":
        return {"permissionDecision": "ask", "permissionDecisionReason": reason or ""}
    return {}


def _contract_tool(name: str) -> str:
    """Translate `Bash` to `run_shell_command` and `mcp__server__tool` to `mcp_server_tool`, for example."""
    server, separator, tool = name.removeprefix("mcp__").partition("__")
    if name.startswith("mcp__") and separator:
        return f"mcp_{server}_{tool}"
    return TOOLS.get(name, name)


def _own_result(response: object, result: Json) -> object:
    """Return a result of the contract in the form of the tool's own, which Claude Code ignores in any other.

    `response` is the tool's own result. Nothing of it is kept that `result` does not have.
    """
    from hookgate.shim.command.asking import from_json, to_json  # noqa: PLC0415  # only this event needs it

    content = result.get("llmContent", "")
    text = content if isinstance(content, str) else to_json(content).decode()
    if not isinstance(response, dict):
        return text
    fields = {key: result.get(key, _emptied(value)) for key, value in response.items()}
    shown = _shown_field(response)
    if shown is None:  # hooks have seen the whole result as JSON
        try:
            value = from_json(text.encode())
        except ValueError:
            return text
        return value if isinstance(value, dict) else text
    return {**fields, shown: text} if fields[shown] in ("", response[shown]) else fields


def _emptied(value: object) -> object:
    """Return an empty value of the same type; a number, a boolean or null itself."""
    return type(value)() if isinstance(value, str | list | dict) else value


def _shown_field(response: Json) -> str | None:
    """Return the field of a tool's result that is the model's text; None if it is the whole result."""
    return next(
        (key for key in ("stdout", "content") if response.get(key) and isinstance(response[key], str)), None
    )


def _contract_result(response: object) -> Json:
    """Return a tool's result as an object that has the model's text in `llmContent`, as hooks expect."""
    from hookgate.shim.command.asking import to_json  # noqa: PLC0415  # only this event needs it

    if isinstance(response, dict):
        shown = _shown_field(response)
        text = response[shown] if shown else to_json(response).decode()
        return {"llmContent": text, **response}
    return {"llmContent": response if isinstance(response, str) else to_json(response).decode()}
