"""What hooks decided about an event, read out of the contract's output document."""

from dataclasses import dataclass, field
from typing import Any, Literal

Json = dict[str, Any]
Word = Literal["allow", "ask", "deny"]

_WORDS: dict[object, Word] = {"deny": "deny", "block": "deny", "ask": "ask"}


@dataclass(frozen=True, slots=True)
class Decision:
    """All hooks' decision about one event. `output` is the whole document."""

    event: str
    decision: Word = "allow"
    reason: str = ""
    stopped: bool = False
    context: str = ""
    """What the model should know besides."""
    system_message: str = ""
    suppress_output: bool = False
    tool_input: Json | None = None
    tool_result: Json | None = None
    tail_tool_call: Json | None = None
    clear_context: bool = False
    receipt: str = ""
    """The gateway's name for this decision; empty where the hooks run in this process."""
    output: Json = field(default_factory=dict)

    @property
    def denied(self) -> bool:
        return self.decision == "deny"


@dataclass(frozen=True, slots=True)
class Question:
    """A hook wants the user to be asked whether a tool may run with these arguments."""

    session_id: str
    tool_name: str
    args: Json
    reason: str


def read_decision(event: str, output: Json, receipt: str = "") -> Decision:
    """The decision that a merged output tells of. Keys of another type than the contract's say nothing."""
    specific = _of(dict, output, "hookSpecificOutput") or {}
    stopped = output.get("continue") is False
    reason = _of(str, output, "reason") or ""
    return Decision(
        event=event,
        decision=_WORDS.get(output.get("decision"), "allow"),
        reason=(_of(str, output, "stopReason") or reason) if stopped else reason,
        stopped=stopped,
        context=_of(str, specific, "additionalContext") or "",
        system_message=_of(str, output, "systemMessage") or "",
        suppress_output=output.get("suppressOutput") is True,
        tool_input=_of(dict, specific, "tool_input"),
        tool_result=_of(dict, specific, "tool_result"),
        tail_tool_call=_of(dict, specific, "tailToolCallRequest"),
        clear_context=specific.get("clearContext") is True,
        receipt=receipt,
        output=output,
    )


def _of(kind: type, document: Json, key: str) -> Any:
    value = document.get(key)
    return value if isinstance(value, kind) else None
