"""The policy `flows` itself: notes what the user says and what results contain, and judges calls of sinks."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

from hookgate.hooks.errors import HookError
from hookgate.hooks.policies.conditions import at
from hookgate.hooks.policies.flows import state as flow_state
from hookgate.hooks.policies.flows.options import FlowRule, FlowsOptions, Sink, Source, Trusted
from hookgate.hooks.policies.flows.orders import asked_for, numbered, ordered, orders_in, said_by_user
from hookgate.hooks.policies.flows.pieces import pieces_of, readings_of
from hookgate.hooks.policies.flows.results import field_values, structure_of, texts_in
from hookgate.hooks.policies.flows.state import ASKED, TOOL, USER, FlowState, FlowStates, Mark, note_of
from hookgate.hooks.policies.flows.words import (
    Part,
    addresses_as_parts,
    addresses_given_by,
    fact_of_whole,
    given_as_whole,
    given_by,
    value_parts,
)
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policies.tool_results import without_display
from hookgate.hooks.policy_environment import Policy, PolicyEnvironment
from hookgate.hooks.session import CallState, SessionContext
from hookgate.translator.fields import is_larger

_NO_NOTES = "the policy flows needs a session whose notes are kept, as in a gateway"

_MAX_FACTS = 20_000
"""Facts of one result or prompt that are noted. After a larger one, a label may contain anything,
and what it gives beyond that is not given."""

_MAX_PIECED = 256 * 1024
"""Characters of which pieces are made. Of a longer result, anything may be a piece; a longer call may carry
anything."""

_LONG_ARGUMENTS = 200
"""Calls with larger arguments are judged in a thread if commands in them are read, as in `tools`."""

_LONGEST_SHOWN = 80

_REASONS = {
    "after": "the session has read what is labelled {label!r}",
    "carrying": "its arguments contain a piece of what is labelled {label!r}",
    "chosen_by": "neither the user nor a trusted tool gave {value!r}",
    "ordered_by": "a text labelled {label!r} asks for it with {value!r}, and the user did not",
}
_DENIED = "The tool {tool!r} is not called here: {why}."
_REMEDY = " If the user wants it, the user has to say so, with that value."
_FULL = " The session has more data than can be tracked; a new session can make the call."


def flows_policy(options: Mapping[str, Any], environment: PolicyEnvironment) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    return _Flows(read_options(FlowsOptions, options)).judge


class _Flows:
    def __init__(self, options: FlowsOptions) -> None:
        self._options, self._states = options, FlowStates()
        uses = [use for group in options.sinks.values() for use in group]
        self._reads_commands = any(each.runs for use in uses for each in use.when.values())

    async def judge(self, event: dict[str, Any], session: SessionContext) -> dict[str, Any] | None:
        """Note what an event says, or judge the call in it. Raises HookError if there are no notes."""
        notes, steps = session.notes, session.call_state.steps
        if notes is None:
            raise HookError(_NO_NOTES)
        name, arguments = str(event.get("tool_name")), event.get("tool_input")
        match event["hook_event_name"]:
            case "BeforeAgent":
                said = session.call_state.user_text
                text = str(event.get("prompt") or "") if said is None else said
                if text:
                    facts, orders = await steps.run_on_texts(text, _facts_of_prompt, text)
                    await self._states.add(session, notes, note_of((), facts, orders, begins_turn=True))
            case "AfterTool":
                if not (labels := self._labels(name, arguments)):
                    return None
                state = await self._states.get(session, notes)
                response = event.get("tool_response")
                read = [arguments, response]
                marks, facts, orders = await steps.run_on_texts(
                    read, _read_result, labels, arguments, response, state
                )
                if state.adds(marks, facts, orders):
                    note = note_of(marks, facts - state.facts, orders - state.orders)
                    await self._states.add(session, notes, note)
            case "BeforeTool":
                long = self._reads_commands and is_larger(arguments, _LONG_ARGUMENTS)
                run = steps.run_long if long else steps.run
                sinks = await run(self._sinks, name, arguments)
                if sinks:
                    state = await self._states.get(session, notes)
                    call = _Call(name, _with_originals(arguments, session.call_state), state)
                    return await steps.run_on_texts(arguments, self._decide, call, sinks)
        return None

    def _labels(self, name: str, arguments: Any) -> "_Labels | None":
        sources = {
            label: [use for use in uses if use.check(name, arguments).holds]
            for label, uses in self._options.sources.items()
        }
        trusted = [use for use in self._options.trusted if use.check(name, arguments).holds]
        found = {label: uses for label, uses in sources.items() if uses}
        return _Labels(found, trusted) if found or trusted else None

    def _sinks(self, name: str, arguments: Any) -> dict[str, list[Sink]]:
        found = {
            group: [sink for sink in sinks if sink.check(name, arguments).holds]
            for group, sinks in self._options.sinks.items()
        }
        return {group: sinks for group, sinks in found.items() if sinks}

    def _decide(self, call: "_Call", sinks: dict[str, list[Sink]]) -> dict[str, Any] | None:
        """Return the decision of the first rule that denies or asks, with all findings up to it."""
        findings: dict[str, int] = {}
        for rule in self._options.rules:
            why = call.violates(rule, sinks[rule.to]) if rule.to in sinks else None
            if why is None:
                continue
            findings[rule.name] = 1
            if rule.then != "observe":
                reason = f"{rule.reason.rstrip()} ({why})" if rule.reason else why
                return {
                    "decision": rule.then,
                    "reason": reason,
                    "hookSpecificOutput": {"findings": findings},
                }
        return {"hookSpecificOutput": {"findings": findings}} if findings else None


def _with_originals(arguments: Any, call_state: CallState) -> Any:
    """Return the arguments with the values for which pseudonyms stand, as the agent will get them."""
    if not call_state.client_filters:
        return arguments
    called = {"functionCall": {"name": "", "args": arguments}}
    answer = {"candidates": [{"content": {"role": "model", "parts": [called]}}]}
    restored = call_state.restore_pseudonyms(answer)
    return restored["candidates"][0]["content"]["parts"][0]["functionCall"]["args"]


def _facts_of_prompt(text: str) -> tuple[set[int], set[int]]:
    given, orders = said_by_user(USER, text)
    return _bounded(given), _bounded(orders)


def _bounded(facts: set[int]) -> set[int]:
    """Return at most _MAX_FACTS of facts that give something. What is left out is not given."""
    return facts if len(facts) <= _MAX_FACTS else set(sorted(facts)[:_MAX_FACTS])


@dataclass(frozen=True, slots=True)
class _Labels:
    """What the options say of a tool's result."""

    sources: Mapping[str, Sequence[Source]]
    trusted: list[Trusted]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields whose whole values are given."""
        uses: list[Trusted | Source] = [*self.trusted, *chain.from_iterable(self.sources.values())]
        return tuple(name for use in uses for name in use.fields or ())


def _read_result(
    labels: _Labels, arguments: Any, response: Any, state: FlowState
) -> tuple[list[Mark], set[int], set[int]]:
    """Return what a result says: the labels that it has, facts, and what its texts ask for."""
    result = without_display(response)
    structure = structure_of(result) if labels.fields else result
    texts = list(texts_in(structure))
    facts: set[int] = set()
    orders: set[int] = set()
    marks = []
    for label, sources in labels.sources.items():
        mark, pieces, ordered_here = _read_texts(label, texts, keeps=any(each.pieces for each in sources))
        marks.append(mark)
        facts, orders = facts | pieces, orders | ordered_here
    if given := _facts_given_by_result(labels, structure, texts):
        given -= _facts_repeated_from(TOOL, arguments, state)
    is_asked = any(source.asked for sources in labels.sources.values() for source in sources)
    if is_asked and _user_wrote_all(arguments, state):
        asked = {fact for text in texts for fact in addresses_given_by(ASKED, text)}
        given |= _bounded(asked) - _facts_repeated_from(ASKED, arguments, state)
    return marks, facts | given, orders


def _read_texts(label: str, texts: list[str], *, keeps: bool) -> tuple[Mark, set[int], set[int]]:
    """Return what the texts of a result with a label say: pieces if these are kept, and orders."""
    orders: set[int] = set()
    for text in texts:
        found = orders_in(flow_state.ordered_by(label), text)
        if found is None:
            return Mark(label, without_pieces=not keeps, boundless=True), set(), set()
        orders |= found
    is_boundless = keeps and sum(map(len, texts)) > _MAX_PIECED
    pieces = (
        pieces_of(flow_state.piece_of(label), texts, is_source=True) if keeps and not is_boundless else set()
    )
    if is_boundless or len(pieces) + len(orders) > _MAX_FACTS:
        return Mark(label, without_pieces=not keeps, boundless=True), set(), set()
    return Mark(label, without_pieces=not keeps), pieces, orders


def _user_wrote_all(arguments: Any, state: FlowState) -> bool:
    """Return whether the user wrote all arguments of a call."""
    parts = [
        part for value in (arguments or {}).values() for text in texts_in(value) for part in value_parts(text)
    ]
    return bool(parts) and all(not state.facts.isdisjoint(part.facts(USER)) for part in parts)


def _facts_given_by_result(labels: _Labels, structure: Any, texts: list[str]) -> set[int]:
    """Return the facts that a result gives, as a trusted one or in its fields."""
    facts: set[int] = set()
    for value in field_values(structure, labels.fields) if labels.fields else ():
        facts |= given_as_whole(TOOL, value)
    if any(use.fields is None for use in labels.trusted):
        for text in texts:
            facts |= given_by(TOOL, text)
    return _bounded(facts)


def _facts_repeated_from(kind: str, arguments: Any, state: FlowState) -> set[int]:
    """Return the facts that the call itself gives. A tool that repeats a value has not given it."""
    echoed: set[int] = set()
    for text in texts_in(arguments):
        echoed |= {*given_by(kind, text), fact_of_whole(kind, text)}
        for address in addresses_as_parts(text):
            echoed |= set(address.facts(kind))
    return echoed - state.facts


@dataclass(frozen=True, slots=True)
class _Call:
    """A call of a sink in a session."""

    tool: str
    arguments: Any
    state: FlowState

    def violates(self, rule: FlowRule, sinks: list[Sink]) -> str | None:
        """Return why a rule applies to the call, or None if it does not."""
        if rule.unless_asked and not self.state.facts.isdisjoint(asked_for(USER, self.tool)):
            return None
        reasons: list[tuple[str, str, str]] = []
        if rule.after:
            if not self.state.came(rule.after, this_turn=rule.within == "turn"):
                return None
            reasons.append(("after", rule.after, ""))
        if rule.carrying:
            if not self._carries(rule.carrying):
                return None
            reasons.append(("carrying", rule.carrying, ""))
        if rule.chosen_by:
            value = self._not_given(rule.chosen_by, sinks) if self.state.came(rule.chosen_by) else None
            if value is None:
                return None
            reasons.append(("chosen_by", rule.chosen_by, value))
        if rule.ordered_by:
            value = self._ordered(rule.ordered_by, sinks) if self.state.came(rule.ordered_by) else None
            if value is None:
                return None
            reasons.append(("ordered_by", rule.ordered_by, value))
        return self._explain(reasons)

    def _explain(self, reasons: list[tuple[str, str, str]]) -> str:
        why = ", and ".join(
            _REASONS[key].format(label=label, value=value[:_LONGEST_SHOWN]) for key, label, value in reasons
        )
        remedy = _REMEDY if any(value for _, _, value in reasons) else ""
        text = _DENIED.format(tool=self.tool, why=why or "a rule forbids it") + remedy
        return text + (_FULL if self.state.is_full else "")

    def _targets(self, sinks: list[Sink]) -> Iterator[tuple[str, bool]]:
        """Yield the values that choose whom the call affects, and whether only addresses in them do."""
        for sink in sinks:
            yield from ((text, False) for text in self._texts_at(sink.targets))
            texts = sink.texts if sink.texts or sink.targets else ("",)
            yield from ((text, True) for text in self._texts_at(texts))

    def _texts_at(self, pointers: Iterable[str]) -> Iterator[str]:
        for pointer in pointers:
            for value in at(self.arguments, pointer):
                yield from texts_in(value)

    def _not_given(self, label: str, sinks: list[Sink]) -> str | None:
        """Return a target that no user, trusted tool or field gave, or None if all were given."""
        for text, only_addresses in self._targets(sinks):
            if not only_addresses and fact_of_whole(TOOL, text) in self.state.facts:
                continue
            parts = addresses_as_parts(text) if only_addresses else value_parts(text)
            if not (parts or only_addresses) and text.strip():
                return text  # signs alone, such as `*`, may mean everybody
            for part in parts:
                if not self._is_given(label, part):
                    return part.shown
        return None

    def _is_given(self, label: str, part: Part) -> bool:
        known = self.state.facts
        if not known.isdisjoint({*part.facts(USER), *part.facts(TOOL)}):
            return True
        return not known.isdisjoint(part.facts(ASKED)) and not self._may_be_ordered(label, part.shown)

    def _may_be_ordered(self, label: str, value: str) -> bool:
        """Return whether a labelled text may ask for an action of the tool with a value."""
        return self.state.may_order(label, ordered(flow_state.ordered_by(label), self.tool, value))

    def _ordered(self, label: str, sinks: list[Sink]) -> str | None:
        """Return a target that the user did not give, and that a labelled text names near an action."""
        targets = [text for text, only_addresses in self._targets(sinks) if not only_addresses]
        targets += [text for sink in sinks for text in self._texts_at(sink.named)]
        for text in targets:
            if self._user_wrote(text):
                continue
            if text.strip() and self._may_be_ordered(label, text):
                return text
        return None

    def _user_wrote(self, text: str) -> bool:
        """Return whether the user wrote a value. A short number has to be called an ID, or as the tool is."""
        parts = value_parts(text)
        words = bool(parts) and all(not self.state.facts.isdisjoint(part.facts(USER)) for part in parts)
        numbers = numbered(USER, self.tool, text)
        return words and all(not self.state.orders.isdisjoint(each) for each in numbers)

    def _carries(self, label: str) -> bool:
        kind = flow_state.piece_of(label)
        texts = list(texts_in(self.arguments))
        if sum(map(len, texts)) > _MAX_PIECED:
            return self.state.came(label)
        pieces = {piece for reading in readings_of(texts) for piece in pieces_of(kind, reading)}
        return self.state.may_carry(label, pieces)
