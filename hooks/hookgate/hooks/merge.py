"""One output out of those of all hooks of an event, in plan order. Pure.

A denial or a stop is sticky: no later hook lifts it, and the reasons told are those of the hooks that
denied or asked. Tool selections are united, and NONE wins.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hookgate.hooks.output import Output
from hookgate.translator import read_tool_config, read_tools
from hookgate.translator.fields import JsonObject, read

_MODES = ("NONE", "ANY", "VALIDATED", "AUTO")  # the earlier one wins


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the hooks of one event decided together."""

    decision: Literal["allow", "ask", "deny"] = "allow"
    stop: bool = False
    reason: str = ""
    system_messages: tuple[str, ...] = ()
    llm_response: Any = None
    tool_config: JsonObject | None = None
    tools: list[str] | None = None

    @property
    def synthetic(self) -> bool:
        """Whether a hook answers in the model's place; a stop outranks that."""
        return self.llm_response is not None and not self.stop

    @property
    def denied(self) -> bool:
        return self.decision == "deny" and not self.stop and not self.synthetic


def merge(event: str, outputs: Sequence[Output]) -> Verdict:
    """The verdict of all outputs, in plan order."""
    stops = [output for output in outputs if output.get("continue") is False]
    decision = _decision(outputs)
    specifics = [output.get("hookSpecificOutput") or {} for output in outputs]
    selects = event == "BeforeToolSelection"
    return Verdict(
        decision=decision,
        stop=bool(stops),
        reason=_stop_reason(stops) if stops else _reasons(outputs, decision),
        system_messages=tuple(o["systemMessage"] for o in outputs if o.get("systemMessage")),
        llm_response=_synthetic(outputs) if event == "BeforeModel" else None,
        tool_config=_united([read(s, "toolConfig") for s in specifics]) if selects else None,
        tools=_common([s.get("tools") for s in specifics]) if selects else None,
    )


def _synthetic(outputs: Sequence[Output]) -> Any:
    """The last answer in the model's place; a denial by a hook that gives none outranks it.

    A hook that denies and answers in one output means the answer.
    """
    answers = [(output.get("hookSpecificOutput") or {}).get("llm_response") for output in outputs]
    denials = (
        answer for answer, output in zip(answers, outputs, strict=True) if output.get("decision") == "deny"
    )
    if any(answer is None for answer in denials):
        return None
    return next((answer for answer in reversed(answers) if answer is not None), None)


def _decision(outputs: Sequence[Output]) -> Literal["allow", "ask", "deny"]:
    said = {output.get("decision") for output in outputs}
    return "deny" if "deny" in said else "ask" if "ask" in said else "allow"


def _reasons(outputs: Sequence[Output], decision: str) -> str:
    """Why it was denied (or asked about), not why some other hook agreed."""
    telling = ("allow", None) if decision == "allow" else ("deny", "ask")
    return _lines(output.get("reason") for output in outputs if output.get("decision") in telling)


def _stop_reason(stops: Sequence[Output]) -> str:
    return _lines(output.get("stopReason") or output.get("reason") for output in stops)


def _lines(texts: Iterable[str | None]) -> str:
    return "\n".join(text for text in texts if text)


def _united(selections: Sequence[Any]) -> JsonObject | None:
    """The union of the hooks' selections; a hook without one has no say."""
    given = [read_tool_config(selection) for selection in selections if selection is not None]
    given = [selection for selection in given if selection]
    if not given:
        return None
    mode = min((selection.get("mode", "AUTO") for selection in given), key=_MODES.index)
    if mode == "NONE":
        return {"mode": mode, "allowedFunctionNames": []}
    lists = [selection["allowedFunctionNames"] for selection in given if "allowedFunctionNames" in selection]
    if not lists:
        return {"mode": mode}
    names = {name for names in lists for name in names}
    return {"mode": mode, "allowedFunctionNames": sorted(names, key=lambda name: name.encode("utf-16-be"))}


def _common(filters: Sequence[Any]) -> list[str] | None:
    """The tools that every filter keeps; None when no hook filters."""
    kept: list[str] | None = None
    for names in (read_tools(tools) for tools in filters if tools is not None):
        kept = names if kept is None else [name for name in kept if name in names]
    return kept
