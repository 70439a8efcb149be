"""Merges the outputs of an event's hooks, in plan order, into one verdict. It does no I/O.

A later hook cannot undo a denial or a stop. For an event that is denied, or asked about, only the reasons of
hooks that denied or asked are reported. A denial with an `llm_response` is answered with that response. Tool
selections are combined, and NONE takes precedence; those of hooks with `"merge": "intersect"` restrict the
union.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from hookgate.hooks.output import Output
from hookgate.translator import (
    apply_tool_config,
    apply_tools,
    keep_selected_tools,
    read_tool_config,
    read_tools,
)
from hookgate.translator.fields import JsonObject, read
from hookgate.translator.strictjson import dumps

_MODES = ("NONE", "ANY", "VALIDATED", "AUTO")  # the earlier one wins


@dataclass(frozen=True, slots=True)
class Verdict:
    """The combined decision of one event's hooks."""

    decision: Literal["allow", "ask", "deny"] = "allow"
    allowed: bool = False
    """Whether a hook has allowed the event, and none has decided otherwise."""
    stop: bool = False
    reason: str = ""
    system_messages: tuple[str, ...] = ()
    suppress_output: bool = False
    additional_context: str | None = None
    llm_response: Any = None
    tool_config: JsonObject | None = None
    tool_filters: tuple[list[str | JsonObject], ...] = ()
    """What each hook that filters tools keeps: names of functions and kinds, and tools with settings."""
    tail_tool_call: JsonObject | None = None
    clear_context: bool = False
    redacted: bool = False
    """Whether a hook has marked the answer as redacted."""

    @property
    def synthetic(self) -> bool:
        """Whether a hook answers in place of the model. A stop takes precedence."""
        return self.llm_response is not None and not self.stop

    @property
    def denied(self) -> bool:
        return self.decision == "deny" and not self.stop and not self.synthetic

    @property
    def selects_tools(self) -> bool:
        """Whether a hook has selected tools."""
        return bool(self.tool_filters) or self.tool_config is not None

    def apply_selection(self, body: JsonObject) -> JsonObject:
        """Return the body of a request with the tool selection applied."""
        for kept in self.tool_filters:
            body = apply_tools(body, kept)
        if self.tool_config is None:
            return body
        return apply_tool_config(keep_selected_tools(body, self.tool_config), self.tool_config)

    @property
    def tools(self) -> list[str | JsonObject] | None:
        """The tools that every hook keeps, or None if no hook filters them.

        A tool with settings is in it only if every hook returns it with these settings.
        """
        if not self.tool_filters:
            return None
        first, *others = self.tool_filters
        known = [frozenset(map(dumps, other)) for other in others]
        return [each for each in first if all(dumps(each) in other for other in known)]

    @property
    def context(self) -> str | None:
        """The additional context for the model, with `<` and `>` escaped so that it cannot mimic markup."""
        context = self.additional_context
        return None if context is None else context.replace("<", "&lt;").replace(">", "&gt;")


NO_VERDICT = Verdict()
"""The verdict of hooks without output."""


def merge(event: str, outputs: Sequence[Output], narrowing: Collection[int] = ()) -> Verdict:
    """Return the verdict of all outputs, given in plan order.

    `narrowing` are the indexes of hooks with `"merge": "intersect"`: no other hook may widen their selection.
    """
    if not outputs:
        return NO_VERDICT
    stops = [output for output in outputs if output.get("continue") is False]
    decision = _decision(outputs)
    specifics = [_specific(output) for output in outputs]
    selection = event == "BeforeToolSelection"
    return Verdict(
        decision=decision,
        allowed=decision == "allow" and any(output.get("decision") == "allow" for output in outputs),
        stop=bool(stops),
        reason=_stop_reason(stops) if stops else _reasons(outputs, decision),
        system_messages=tuple(o["systemMessage"] for o in outputs if o.get("systemMessage")),
        suppress_output=any(output.get("suppressOutput") for output in outputs),
        additional_context=_context(specifics),
        llm_response=_synthetic_response(outputs) if event == "BeforeModel" else None,
        tool_config=_merged_selection(specifics, narrowing) if selection else None,
        tool_filters=_tool_filters(specifics) if selection else (),
        tail_tool_call=_last_value(specifics, "tailToolCallRequest") if event == "AfterTool" else None,
        clear_context=event == "AfterAgent" and any(s.get("clearContext") is True for s in specifics),
        redacted=event == "AfterModel" and any(s.get("redacted") is True for s in specifics),
    )


def _context(specifics: Sequence[JsonObject]) -> str | None:
    """Return all additional contexts, joined by newlines. Values that are not strings are ignored."""
    texts = [text for s in specifics if isinstance(text := s.get("additionalContext"), str)]
    return "\n".join(texts) if texts else None


def _last_value(specifics: Sequence[JsonObject], key: str) -> Any:
    return next((value for s in reversed(specifics) if (value := s.get(key)) is not None), None)


def _synthetic_response(outputs: Sequence[Output]) -> Any:
    """Return the last synthetic response, or None if a hook denied without providing one.

    If a hook denies and provides a response, the response is used.
    """
    answers = [(output.get("hookSpecificOutput") or {}).get("llm_response") for output in outputs]
    denials = (
        answer for answer, output in zip(answers, outputs, strict=True) if output.get("decision") == "deny"
    )
    if any(answer is None for answer in denials):
        return None
    return next((answer for answer in reversed(answers) if answer is not None), None)


def _decision(outputs: Sequence[Output]) -> Literal["allow", "ask", "deny"]:
    decisions = {output.get("decision") for output in outputs}
    return "deny" if "deny" in decisions else "ask" if "ask" in decisions else "allow"


def _reasons(outputs: Sequence[Output], decision: str) -> str:
    """Return the reasons for the decision. Reasons of hooks that allowed a denied event are omitted."""
    relevant = ("allow", None) if decision == "allow" else ("deny", "ask")
    return _join_lines(output.get("reason") for output in outputs if output.get("decision") in relevant)


def _stop_reason(stops: Sequence[Output]) -> str:
    return _join_lines(output.get("stopReason") or output.get("reason") for output in stops)


def _join_lines(texts: Iterable[str | None]) -> str:
    return "\n".join(text for text in texts if text)


def _merged_selection(specifics: Sequence[JsonObject], narrowing: Collection[int]) -> JsonObject | None:
    """Unite the hooks' tool selections, then restrict the union to what each narrowing hook allows."""
    selections = {
        index: read_tool_config(selection)
        for index, specific in enumerate(specifics)
        if (selection := read(specific, "toolConfig")) is not None
    }
    merged = _union([selection for i, selection in selections.items() if selection and i not in narrowing])
    for index, selection in selections.items():
        if selection and index in narrowing:
            merged = selection if merged is None else _restrict(merged, selection)
    return merged


def _union(selections: Sequence[JsonObject]) -> JsonObject | None:
    """Return the union of selections. NONE takes precedence, as Gemini CLI documents."""
    if not selections:
        return None
    mode = min((selection.get("mode", "AUTO") for selection in selections), key=_MODES.index)
    if mode == "NONE":
        return _NO_TOOLS
    lists = [
        selection["allowedFunctionNames"] for selection in selections if "allowedFunctionNames" in selection
    ]
    if not lists:
        return {"mode": mode}
    return {"mode": mode, "allowedFunctionNames": _sorted({name for names in lists for name in names})}


def _restrict(selection: JsonObject, limit: JsonObject) -> JsonObject:
    """Return the intersection of a selection and a limit."""
    mode = min(selection.get("mode", "AUTO"), limit.get("mode", "AUTO"), key=_MODES.index)
    lists = [s["allowedFunctionNames"] for s in (selection, limit) if "allowedFunctionNames" in s]
    names = set.intersection(*map(set, lists)) if lists else set()
    if mode == "NONE" or (lists and not names):
        return _NO_TOOLS
    return {"mode": mode, "allowedFunctionNames": _sorted(names)} if lists else {"mode": mode}


_NO_TOOLS: JsonObject = {"mode": "NONE", "allowedFunctionNames": []}


def _sorted(names: Iterable[str]) -> list[str]:
    """Sort by UTF-16 code units, as Gemini CLI does: prompt caches depend on the order."""
    return sorted(names, key=lambda name: name.encode("utf-16-be"))


def _tool_filters(specifics: Sequence[JsonObject]) -> tuple[list[str | JsonObject], ...]:
    """Return what each hook keeps that filters tools."""
    return tuple(read_tools(tools) for s in specifics if (tools := s.get("tools")) is not None)


def _specific(output: Output) -> JsonObject:
    return output.get("hookSpecificOutput") or {}
