"""What a hook that was written for Antigravity reads, and what its output means in the contract."""

from typing import Any

from hookgate.hooks.agents.antigravity import TOOLS
from hookgate.hooks.agents.dialect import Json, fields
from hookgate.hooks.errors import InvalidOutputError
from hookgate.hooks.settings.antigravity import TOOLS as TOOL_NAMES

_OWN_NAMES = {ours: own for own, ours in reversed(TOOL_NAMES.items())}
_DECISIONS = {
    "allow": "allow",
    "deny": "deny",
    "deny_unless_prior_grant": "deny",
    "ask": "ask",
    "force_ask": "ask",
}


def hook_input(event: str, document: Json) -> Json:
    """Return the input of an Antigravity hook for the contract's."""
    request = document.get("llm_request") or {}
    common = {
        "conversationId": document["session_id"],
        "workspacePaths": [document["cwd"]] if document.get("cwd") else [],
        "transcriptPath": document.get("transcript_path") or "",
        "artifactDirectoryPath": "",
        "modelName": request.get("model") or "auto",
    }
    match event:
        case "BeforeTool":
            return {**common, "toolCall": _call(document), "stepIdx": 0}
        case "AfterTool":
            error = (document.get("tool_response") or {}).get("error")
            shown = fields(error=error if isinstance(error, str | None) else str(error))
            return {**common, "toolCall": _call(document), "stepIdx": 0, **shown}
        case "BeforeModel" | "AfterModel":
            messages = request.get("messages") or []
            answers = sum(message.get("role") == "model" for message in messages)
            return {**common, "invocationNum": answers, "initialNumSteps": len(messages)}
        case "AfterAgent":
            done = {"executionNum": 0, "terminationReason": "NO_TOOL_CALL", "error": "", "fullyIdle": True}
            return {**common, **done}
        case _:
            return common


def _call(document: Json) -> Json:
    """Return the call by Antigravity's names, which it already has if Antigravity has made it."""
    name, arguments = document["tool_name"], document.get("tool_input") or {}
    own = name if name in TOOL_NAMES else _OWN_NAMES.get(name, name)
    return {"name": own, "args": arguments if own == name else TOOLS.agent_arguments(own, arguments)}


def hook_output(event: str, document: Json, output: Any) -> Json:
    """Return the contract's output for that of an Antigravity hook.

    Raises HookError for an output that Antigravity would not accept, or that has no counterpart.
    """
    if not isinstance(output, dict):
        raise InvalidOutputError("printed no JSON object, which Antigravity's hooks must print")
    match event:
        case "BeforeTool":
            return _permission(document, output)
        case "AfterAgent":
            again = output.get("decision") == "continue"
            return {"decision": "deny", **fields(reason=output.get("reason"))} if again else {}
        case "BeforeModel":
            added = [{"role": "user", "content": step} for step in _steps(output)]
            messages = (document.get("llm_request") or {}).get("messages") or []
            return _specific(event, {"llm_request": {"messages": [*messages, *added]}} if added else {})
        case "SessionStart":
            return _specific(event, fields(additionalContext="\n".join(_steps(output))))
        case "AfterModel":
            return _termination(output)
        case _:
            return {}


def _permission(document: Json, output: Json) -> Json:
    decision = _DECISIONS.get(str(output.get("decision")))
    if decision is None:
        raise InvalidOutputError(
            f"output.decision: must be one of {', '.join(_DECISIONS)}, as Antigravity requires"
        )
    overwrite = output.get("overwrite") or {}
    if not isinstance(overwrite, dict):
        raise InvalidOutputError("output.overwrite: must be an object")
    call = _call(document)
    if call["name"] != document["tool_name"]:
        try:
            overwrite = TOOLS.read(call["name"], overwrite)["tool_input"]
        except ValueError as error:
            raise InvalidOutputError(f"output.overwrite: {error}") from None
    edit = {"tool_input": overwrite} if overwrite else {}
    return {"decision": decision, **fields(reason=output.get("reason")), **_specific("BeforeTool", edit)}


def _termination(output: Json) -> Json:
    behavior = output.get("terminationBehavior") or ""
    if _steps(output) or behavior not in ("", "terminate"):
        raise InvalidOutputError(
            "output: after the model, a hook can only end the loop: no steps, no force_continue"
        )
    return {"continue": False, "stopReason": "A hook terminated the agent."} if behavior else {}


def _steps(output: Json) -> list[str]:
    """Return the texts of the steps to inject. Raises HookError for a step that is not a text."""
    steps = output.get("injectSteps") or []
    texts = [_step(step) for step in steps] if isinstance(steps, list) else [None]
    if not all(isinstance(each, str) for each in texts):
        raise InvalidOutputError(
            "output.injectSteps: hookgate can add messages only: ephemeralMessage, userMessage, systemMessage"
        )
    return [each for each in texts if each]


def _step(step: Any) -> Any:
    if not isinstance(step, dict) or len(step) != 1:
        return None
    [(kind, value)] = step.items()
    if kind == "systemMessage":
        return value.get("systemMessage") if isinstance(value, dict) else None
    return value if kind in ("ephemeralMessage", "userMessage") else None


def _specific(event: str, edit: Json) -> Json:
    return {"hookSpecificOutput": {"hookEventName": event, **edit}} if edit else {}
