"""Claude Code's names, and what each is called in the hook contract: events, tools, triggers. Pure.

`hookgate hooks migrate` knows more of them (hookgate.hooks.managing.claude), for matchers; a test holds the
two together. That module is not imported here for the time it would take.
"""

Json = dict[str, object]

EVENTS = {
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
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
"""The name of Gemini CLI 0.61, where it has had two."""

_TRIGGERS = {
    "SessionStart": ("source", {"compact": "compress"}),
    "Notification": ("notification_type", {"permission_prompt": "ToolPermission"}),
}
"""By event, the field whose words differ, and the words."""

_COMMON = ("continue", "stopReason", "systemMessage", "suppressOutput")


def input_of(event: str, given: Json) -> Json:
    """Claude Code's input in the contract's words. `event` is the contract's."""
    told = {**given, "hook_event_name": event}
    if isinstance(name := given.get("tool_name"), str):
        told["tool_name"] = _tool(name)
    if event in _TRIGGERS:
        field, words = _TRIGGERS[event]
        word = given.get(field, "")
        told[field] = words.get(word, word) if isinstance(word, str) else word
    if event == "AfterAgent":
        told.setdefault("prompt_response", given.get("last_assistant_message") or "")
    if event == "AfterTool":
        told["tool_response"] = _result(given.get("tool_response"))
    return told


def output_for(event: str, given: Json, output: Json) -> Json:
    """The contract's output in Claude Code's words, for its event `event` whose input was `given`.

    Nothing becomes `permissionDecision: allow`: that would spare the user's own permission, which no policy
    means by allowing. So arguments that were rewritten are shown to the user.
    """
    told: Json = {key: output[key] for key in _COMMON if key in output}
    specific = output.get("hookSpecificOutput")
    said: Json = specific if isinstance(specific, dict) else {}
    decision, reason = output.get("decision"), output.get("reason")
    if output.get("continue") is False:
        decision, reason = "deny", output.get("stopReason")
    own: Json = {}
    if event == "PreToolUse":
        own = _permission(given, said, decision, reason)
    elif decision in ("deny", "block"):
        told |= {"decision": "block", "reason": reason or ""}
    if "additionalContext" in said:
        own["additionalContext"] = said["additionalContext"]
    return {**told, "hookSpecificOutput": {"hookEventName": event, **own}} if own else told


def _permission(given: Json, said: Json, decision: object, reason: object) -> Json:
    if decision in ("deny", "block"):
        return {"permissionDecision": "deny", "permissionDecisionReason": reason or ""}
    arguments, changed = given.get("tool_input"), said.get("tool_input")
    if isinstance(changed, dict):
        whole = {**arguments, **changed} if isinstance(arguments, dict) else changed
        told = reason or "The gateway's hooks changed the arguments."
        return {"permissionDecision": "ask", "permissionDecisionReason": told, "updatedInput": whole}
    if decision == "ask":
        return {"permissionDecision": "ask", "permissionDecisionReason": reason or ""}
    return {}


def _tool(name: str) -> str:
    """`Bash` -> `run_shell_command`, `mcp__server__tool` -> `mcp_server_tool`; others keep their name."""
    server, separator, tool = name.removeprefix("mcp__").partition("__")
    if name.startswith("mcp__") and separator:
        return f"mcp_{server}_{tool}"
    return TOOLS.get(name, name)


def _result(response: object) -> Json:
    """A tool's result as an object with the text that the model reads, where hooks look for it."""
    from hookgate.shim.command.quickjson import dumps  # noqa: PLC0415  # only this event needs it

    if isinstance(response, dict):
        shown = response.get("stdout") or response.get("content")
        text = shown if isinstance(shown, str) else dumps(response).decode()
        return {"llmContent": text, **response}
    return {"llmContent": response if isinstance(response, str) else dumps(response).decode()}
