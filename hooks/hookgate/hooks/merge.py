"""One output out of those of all hooks of an event, in plan order. Pure.

A denial or a stop is sticky: no later hook lifts it, and the reasons told are those of the hooks that
denied or asked. Tool selections are united, and NONE wins.
"""

from collections.abc import Collection, Iterable, Sequence
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
    suppress_output: bool = False
    additional_context: str | None = None
    llm_response: Any = None
    tool_config: JsonObject | None = None
    tools: list[str] | None = None
    tail_tool_call: JsonObject | None = None
    clear_context: bool = False

    @property
    def synthetic(self) -> bool:
        """Whether a hook answers in the model's place; a stop outranks that."""
        return self.llm_response is not None and not self.stop

    @property
    def denied(self) -> bool:
        return self.decision == "deny" and not self.stop and not self.synthetic

    @property
    def context(self) -> str | None:
        """The additional context as it may go to a model: no hook's words pass for markup of the agent's."""
        context = self.additional_context
        return None if context is None else context.replace("<", "&lt;").replace(">", "&gt;")


def merge(event: str, outputs: Sequence[Output], narrowing: Collection[int] = ()) -> Verdict:
    """The verdict of all outputs, in plan order.

    `narrowing` are the positions of those whose tool selection no other may widen (`"merge": "intersect"`).
    """
    stops = [output for output in outputs if output.get("continue") is False]
    decision = _decision(outputs)
    specifics = [_specific(output) for output in outputs]
    selects = event == "BeforeToolSelection"
    return Verdict(
        decision=decision,
        stop=bool(stops),
        reason=_stop_reason(stops) if stops else _reasons(outputs, decision),
        system_messages=tuple(o["systemMessage"] for o in outputs if o.get("systemMessage")),
        suppress_output=any(output.get("suppressOutput") for output in outputs),
        additional_context=_context(specifics),
        llm_response=_synthetic(outputs) if event == "BeforeModel" else None,
        tool_config=_selected(specifics, narrowing) if selects else None,
        tools=_common([s.get("tools") for s in specifics]) if selects else None,
        tail_tool_call=_last(specifics, "tailToolCallRequest") if event == "AfterTool" else None,
        clear_context=event == "AfterAgent" and any(s.get("clearContext") is True for s in specifics),
    )


def _context(specifics: Sequence[JsonObject]) -> str | None:
    """All contexts, one a line; one that is no text has no say."""
    texts = [text for s in specifics if isinstance(text := s.get("additionalContext"), str)]
    return "\n".join(texts) if texts else None


def _last(specifics: Sequence[JsonObject], key: str) -> Any:
    return next((value for s in reversed(specifics) if (value := s.get(key)) is not None), None)


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


def _selected(specifics: Sequence[JsonObject], narrowing: Collection[int]) -> JsonObject | None:
    """The hooks' selections as one: united, then cut down to what each narrowing one allows."""
    given = {
        position: read_tool_config(selection)
        for position, specific in enumerate(specifics)
        if (selection := read(specific, "toolConfig")) is not None
    }
    united = _united([selection for at, selection in given.items() if selection and at not in narrowing])
    for at, selection in given.items():
        if selection and at in narrowing:
            united = selection if united is None else _narrowed(united, selection)
    return united


def _united(given: Sequence[JsonObject]) -> JsonObject | None:
    """The union of selections; NONE wins, for the documents."""
    if not given:
        return None
    mode = min((selection.get("mode", "AUTO") for selection in given), key=_MODES.index)
    if mode == "NONE":
        return _NOTHING
    lists = [selection["allowedFunctionNames"] for selection in given if "allowedFunctionNames" in selection]
    if not lists:
        return {"mode": mode}
    return {"mode": mode, "allowedFunctionNames": _sorted({name for names in lists for name in names})}


def _narrowed(selection: JsonObject, limit: JsonObject) -> JsonObject:
    """A selection within the limit of a hook that no other may widen."""
    mode = min(selection.get("mode", "AUTO"), limit.get("mode", "AUTO"), key=_MODES.index)
    lists = [each["allowedFunctionNames"] for each in (selection, limit) if "allowedFunctionNames" in each]
    names = set.intersection(*map(set, lists)) if lists else set()
    if mode == "NONE" or (lists and not names):
        return _NOTHING
    return {"mode": mode, "allowedFunctionNames": _sorted(names)} if lists else {"mode": mode}


_NOTHING: JsonObject = {"mode": "NONE", "allowedFunctionNames": []}


def _sorted(names: Iterable[str]) -> list[str]:
    """By UTF-16 code units, as Gemini CLI sorts: caches of prompts depend on the order."""
    return sorted(names, key=lambda name: name.encode("utf-16-be"))


def _common(filters: Sequence[Any]) -> list[str] | None:
    """The tools that every filter keeps; None when no hook filters."""
    kept: list[str] | None = None
    for names in (read_tools(tools) for tools in filters if tools is not None):
        kept = names if kept is None else [name for name in kept if name in names]
    return kept


def aggregate(event: str, outputs: Sequence[Output]) -> Output | None:
    """One output that says what all of them say together; None when nobody said anything.

    Edits lie over one another key by key, later ones on top.
    """
    if not outputs:
        return None
    verdict = merge(event, outputs)
    specific = {key: value for output in outputs for key, value in _specific(output).items()}
    for key in ("llm_request", "llm_response", "tool_input", "tool_result"):
        edits = [edit for output in outputs if isinstance(edit := _specific(output).get(key), dict)]
        if edits:
            specific[key] = _laid_over(edits)
    specific.pop("additionalContext", None)
    if verdict.additional_context is not None:
        specific["additionalContext"] = verdict.additional_context
    if verdict.tool_config is not None:
        specific["toolConfig"] = verdict.tool_config
    told: Output = {"decision": verdict.decision, "continue": not verdict.stop}
    told |= {"stopReason": verdict.reason} if verdict.stop else {"reason": verdict.reason or None}
    told |= {"systemMessage": "\n".join(verdict.system_messages) or None}
    told |= {"suppressOutput": verdict.suppress_output, "hookSpecificOutput": specific or None}
    return {key: value for key, value in told.items() if value is not None}


def _specific(output: Output) -> JsonObject:
    return output.get("hookSpecificOutput") or {}


def _laid_over(edits: Sequence[JsonObject]) -> JsonObject:
    """Objects laid over one another; of their own objects, `config` is too."""
    over: JsonObject = {}
    for edit in edits:
        config = (
            {**over.get("config", {}), **edit["config"]} if isinstance(edit.get("config"), dict) else None
        )
        over |= edit if config is None else {**edit, "config": config}
    return over
