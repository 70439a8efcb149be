"""The hooks' decision about an event, and the exceptions that the shim raises."""

from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Word = Literal["allow", "ask", "deny"]

_WORDS: dict[object, Word] = {"deny": "deny", "block": "deny", "ask": "ask"}


@dataclass(frozen=True, slots=True)
class Decision:
    """The merged decision of all hooks about one event. `output` is their whole output document."""

    event: str
    decision: Word = "allow"
    reason: str = ""
    stopped: bool = False
    context: str = ""
    """Additional context for the model."""
    system_message: str = ""
    suppress_output: bool = False
    tool_input: Json | None = None
    tool_result: Json | None = None
    tail_tool_call: Json | None = None
    clear_context: bool = False
    receipt: str = ""
    """The gateway's receipt for this decision; empty if the hooks run in this process."""
    output: Json = field(default_factory=dict)

    @property
    def denied(self) -> bool:
        return self.decision == "deny"


@dataclass(frozen=True, slots=True)
class Question:
    """A hook's request to ask the user whether a tool may run with these arguments."""

    session_id: str
    tool_name: str
    args: Json
    reason: str


def read_decision(event: str, output: Json, receipt: str = "") -> Decision:
    """Return the decision in a merged output. Values of an unexpected type are ignored."""
    specific = _typed(dict, output, "hookSpecificOutput") or {}
    stopped = output.get("continue") is False
    reason = _typed(str, output, "reason") or ""
    return Decision(
        event=event,
        decision=_WORDS.get(output.get("decision"), "allow"),
        reason=(_typed(str, output, "stopReason") or reason) if stopped else reason,
        stopped=stopped,
        context=_typed(str, specific, "additionalContext") or "",
        system_message=_typed(str, output, "systemMessage") or "",
        suppress_output=output.get("suppressOutput") is True,
        tool_input=_typed(dict, specific, "tool_input"),
        tool_result=_typed(dict, specific, "tool_result"),
        tail_tool_call=_typed(dict, specific, "tailToolCallRequest"),
        clear_context=specific.get("clearContext") is True,
        receipt=receipt,
        output=output,
    )


def _typed(kind: type, document: Json, key: str) -> Any:
    value = document.get(key)
    return value if isinstance(value, kind) else None


class ShimError(Exception):
    """The base class of the shim's exceptions."""


class EventRefused(ShimError):  # noqa: N818  # named for what happened
    """The gateway rejected an event. `status` is the HTTP status, such as 403 for an unknown key."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(f"the gateway answered {status}: {message}")
        self.status, self.message = status, message


class Blocked(ShimError):  # noqa: N818  # a decision
    """A hook blocked an action. The message is the reason; `decision` is the whole decision."""

    def __init__(self, reason: str, decision: Decision) -> None:
        super().__init__(reason)
        self.reason, self.decision = reason, decision


class Denied(Blocked):
    """A hook denied the session, the prompt, or the answer of the last attempt."""


class ToolDenied(Denied):
    """A tool must not run. The message is what the model receives instead of a result."""

    def __init__(self, reason: str, decision: Decision) -> None:
        super().__init__(reason, decision)
        self.args = (tool_error(reason),)


class Stopped(Blocked):
    """A hook answered `continue: false`: the agent must stop until its next turn."""


class ToolFailed(ShimError):  # noqa: N818  # named for what happened
    """A tool failed, and hooks changed its error message. The message is what the model may see."""


def tool_error(reason: str) -> str:
    """Return the message that the model receives for a denied tool, in Gemini CLI's words."""
    return f"Tool execution blocked: {reason}"
