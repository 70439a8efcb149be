"""Decides on the model's function calls before the agent gets them: each is accepted, edited or blocked.

The reason is reported to the model, which answers again, or shown to the user.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol, TypeAlias

from hookgate.hooks import BeforeTool, BeforeToolSelection, Outcome, Verdict
from hookgate.hooks.session import CallState, Steps
from hookgate.proxy.calls.answer_reading import MAX_ANSWER
from hookgate.proxy.calls.endings import AskAgain, Ended
from hookgate.proxy.calls.judge import NO_REASON, Judge
from hookgate.proxy.observe.record import BlockedOutput, CallRecord
from hookgate.translator import DeclaredNames, ToolCallFilter
from hookgate.translator.fields import JsonObject, parts_of, read, read_list, read_object, same
from hookgate.translator.streaming.events import failed_call_response, only_text
from hookgate.translator.strictjson import dumps

BLOCKED = "Tool execution blocked: {}"
"""The message that the model receives for a blocked call, as in Gemini CLI."""

_SHOWN = "The tool {name!r} was not called: {reason}"
_IN_PIECES = "its arguments are sent in pieces, which cannot be put together for hooks"
_NO_NAME = "it has no name"

_NOT_ALLOWED = "this tool is not allowed here"
_NOT_DECLARED = "the request declares no tool of this name; call one that it declares"
_SAME_ID = "another call of this answer has the same ID"
_NOT_RUN = (
    "not run, because another tool call of this turn was blocked; you may make this call again on its own"
)

_MAX_PARTS = 10_000
"""The maximum number of parts of an answer after which the model can be asked again: all of them are sent."""


@dataclass(frozen=True, slots=True)
class BlockedCall:
    """Why a tool call is kept from the agent: a sentence for the user, and a reason for the model."""

    shown: str
    reason: str
    asks_again: bool
    """Whether the model is to be asked again with the reason, if possible."""


@dataclass(frozen=True, slots=True)
class LeftToPeople:
    """A tool call that hooks leave to people."""

    outcome: Outcome[BeforeTool]
    rule: "ToolCallEvents"


Decision: TypeAlias = BlockedCall | JsonObject
"""What rules decide on a tool call: its arguments, perhaps edited, or why it is blocked."""

_DecidedCall: TypeAlias = tuple[JsonObject, Decision]


class ToolCallRule(Protocol):
    """Decides on one tool call at a time."""

    async def judge_call(self, tool_call: JsonObject) -> Decision | LeftToPeople | Ended:
        """Return the arguments, perhaps edited, or why the call is blocked, or what ends the whole answer.

        Only the last rule may leave the call to people.
        """


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """The names of the tools that an answer may call, and of the hooks that selected them."""

    tools: frozenset[str]
    hooks: tuple[str, ...]


class ToolGate:
    """Lets all rules decide on each function call of one answer."""

    def __init__(self, rules: Sequence[ToolCallRule], state: CallState, *, may_ask_again: bool) -> None:
        """Create the gate for a call of the gateway with this state.

        `may_ask_again`: the model can be asked again, unless the agent has received a tool call of the
        answer.
        """
        self._rules, self._state = rules, state
        self._filter = ToolCallFilter()
        self._so_far = _AnswerSoFar(may_ask_again=may_ask_again)

    @property
    def agent_has_call(self) -> bool:
        """Whether the agent has received a tool call."""
        return self._filter.passed

    def note_if_text(self, body: JsonObject) -> bool:
        """Note a response that is only a text, which passes unjudged; return False for any other one."""
        text = only_text(body)
        if text is None:
            return False
        self._so_far.add_text(text)
        return True

    async def judge_response(self, body: JsonObject) -> JsonObject | Ended | AskAgain:
        """Return the judged response, or the same object if unchanged, or what ends the answer."""
        decided_calls = await self._decide_on_calls(body)
        if isinstance(decided_calls, Ended):
            return decided_calls
        judged = await self._state.steps.run(self._apply, body, decided_calls)
        asks_again = any(isinstance(each, BlockedCall) and each.asks_again for _, each in decided_calls)
        if self._filter.passed and not asks_again:
            self._so_far.drop()  # the agent gets a call: another answer could not take it back
        await self._state.steps.run(self._so_far.add, body, decided_calls)
        if asks_again and self._so_far.may_ask_again:
            return AskAgain(await self._state.steps.run(self._so_far.turns_to_append))
        return judged

    async def judge_without_retry(self, body: JsonObject) -> JsonObject | Ended:
        """Return the judged response, or what ends the answer, where the model cannot be asked again."""
        decided_calls = await self._decide_on_calls(body)
        if isinstance(decided_calls, Ended):
            return decided_calls
        return await self._state.steps.run(self._apply, body, decided_calls)

    async def _decide_on_calls(self, body: JsonObject) -> list[_DecidedCall] | Ended:
        """Return the calls that begin in a response with the decisions on them, or what ends the answer."""
        tool_calls = await self._state.steps.run(self._filter.starting_calls, body)
        together = self._so_far.may_ask_again and not _has_several_candidates(body)
        decisions = await apply_rules(self._rules, tool_calls, self._state.steps, together=together)
        if isinstance(decisions, Ended):
            return decisions
        return [*zip(tool_calls, decisions, strict=True)]

    def _apply(self, body: JsonObject, decided_calls: Sequence[_DecidedCall]) -> JsonObject:
        return self._filter.apply_decisions(body, [_for_filter(*each) for each in decided_calls])


async def apply_rules(
    rules: Sequence[ToolCallRule], tool_calls: Sequence[JsonObject], steps: Steps, *, together: bool
) -> list[Decision] | Ended:
    """Return for each call the arguments with which it may be made, after all rules, or why it may not.

    A rule may also end the whole answer. With `together`, calls that are left to people are blocked if
    another one is: the model is asked again then, and an approval would be used up for a call that is never
    made.
    """
    decisions: list[Decision | LeftToPeople] = []
    for tool_call in tool_calls:
        await steps.pause()
        with steps.judging(tool_call):
            decision = await _apply_rules_in_turn(rules, tool_call)
        if isinstance(decision, Ended):
            return decision
        decisions.append(decision)
    left = [each for each in decisions if isinstance(each, LeftToPeople)]
    decided: list[Decision]
    if together and any(isinstance(each, BlockedCall) and each.asks_again for each in decisions):
        decided = [_blocked(each.outcome.event.tool_name, _NOT_RUN) for each in left]
    else:
        decided = await _ask_people(left, together=together)
    by_people = iter(decided)
    return [next(by_people) if isinstance(each, LeftToPeople) else each for each in decisions]


async def _ask_people(tool_calls: Sequence[LeftToPeople], *, together: bool) -> list[Decision]:
    """Return what people decide on calls that hooks leave to them; if `together`, all pass or none does."""
    if not tool_calls:
        return []
    rule = tool_calls[0].rule
    return await rule.ask_people([each.outcome for each in tool_calls], together=together)


async def _apply_rules_in_turn(
    rules: Sequence[ToolCallRule], tool_call: JsonObject
) -> Decision | LeftToPeople | Ended:
    arguments = read_object(tool_call, "args")
    for rule in rules:
        decision = await rule.judge_call({**tool_call, "args": arguments})
        if isinstance(decision, BlockedCall | LeftToPeople | Ended):
            return decision
        arguments = decision
    return arguments


def _for_filter(tool_call: JsonObject, decision: Decision) -> str | JsonObject | None:
    """Return a decision as the filter of the answer takes it: a text, new arguments, or None."""
    if isinstance(decision, BlockedCall):
        return decision.shown
    return None if same(decision, read_object(tool_call, "args")) else decision


class AllowedTools:
    """Blocks calls of tools that BeforeToolSelection hooks did not select."""

    def __init__(self, selection: ToolSelection, record: CallRecord, *, asks_again: bool) -> None:
        self._selection, self._record, self._asks_again = selection, record, asks_again

    async def judge_call(self, tool_call: JsonObject) -> Decision:
        name = tool_call.get("name")
        if name in self._selection.tools:
            return read_object(tool_call, "args")
        blocked = BlockedOutput(BeforeToolSelection.name, self._selection.hooks, _NOT_ALLOWED, str(name))
        self._record.note_blocked(blocked, read_object(tool_call, "args"))
        shown = f"The tool {name!r} is not allowed here and was not called."
        return BlockedCall(shown, _NOT_ALLOWED, self._asks_again)


@dataclass(frozen=True, slots=True)
class DeclaredTools:
    """Blocks calls of tools that the request does not declare, so that no hook is meant for them.

    Some clients run another tool then, whose name is spelled nearly the same, or which had this name before.
    """

    names: DeclaredNames
    record: CallRecord

    async def judge_call(self, tool_call: JsonObject) -> Decision:
        name, arguments = str(tool_call.get("name") or ""), read_object(tool_call, "args")
        if self.names.include(name):
            return arguments
        self.record.note_blocked(BlockedOutput(BeforeTool.name, (), _NOT_DECLARED, name), arguments)
        return _blocked(name, _NOT_DECLARED)


@dataclass(frozen=True, slots=True)
class DistinctCalls:
    """Blocks a call that has the ID of an earlier one in the same answer.

    Some clients send a result with the ID alone: that of one call would pass for that of the other.
    """

    record: CallRecord
    ids: set[str] = field(default_factory=set)

    async def judge_call(self, tool_call: JsonObject) -> Decision:
        id_, arguments = str(read(tool_call, "id") or ""), read_object(tool_call, "args")
        if not id_ or id_ not in self.ids:
            self.ids.add(id_)
            return arguments
        name = str(tool_call.get("name") or "")
        self.record.note_blocked(BlockedOutput(BeforeTool.name, (), _SAME_ID, name), arguments)
        return _blocked(name, _SAME_ID)


class ToolCallEvents:
    """Fires BeforeTool for each tool call in an answer."""

    def __init__(self, judge: Judge, descriptions: Mapping[str, str], *, may_wait: bool = False) -> None:
        """`descriptions` are those of the tools that the request declares, by name.

        `may_wait`: a call may wait for people to decide about it.
        """
        self._judge, self._descriptions, self._may_wait = judge, descriptions, may_wait
        self._names = DeclaredNames(descriptions)

    async def judge_call(self, tool_call: JsonObject) -> Decision | LeftToPeople | Ended:
        """Return the arguments after hooks, or why the call is blocked, or what ends the answer."""
        name, arguments = str(tool_call.get("name") or ""), read_object(tool_call, "args")
        tool = self._names.meant_by(name)
        event = BeforeTool(tool, arguments, self._descriptions.get(tool) or None)
        plan = self._judge.plan(event)
        if name and not plan.groups:
            return arguments
        if not name or read(tool_call, "willContinue") or read(tool_call, "partialArgs") is not None:
            reason = _IN_PIECES if name else _NO_NAME
            self._judge.record.note_blocked(BlockedOutput(BeforeTool.name, (), reason, name), arguments)
            return _blocked(name, reason, asks_again=False)
        outcome = await self._judge.fire(event, plan=plan)
        verdict = outcome.verdict
        if verdict.stop and (ended := self._judge.ended_by(verdict, BeforeTool.name)):
            return ended
        if self._judge.leaves_to_people(verdict):
            return LeftToPeople(outcome, self)
        return _decision(outcome.event, verdict)

    async def ask_people(self, outcomes: Sequence[Outcome[BeforeTool]], *, together: bool) -> list[Decision]:
        """Return what people decide on calls; if `together`, all pass or none does."""
        verdicts = await self._judge.ask_people(outcomes, may_wait=self._may_wait, together=together)
        return [_decision(each.event, verdict) for each, verdict in zip(outcomes, verdicts, strict=True)]


def _decision(event: BeforeTool, verdict: Verdict) -> Decision:
    return _blocked(event.tool_name, verdict.reason or NO_REASON) if verdict.denied else event.tool_input


def _blocked(name: str, reason: str, *, asks_again: bool = True) -> BlockedCall:
    return BlockedCall(_SHOWN.format(name=name, reason=reason), reason, asks_again)


def _has_several_candidates(body: JsonObject) -> bool:
    return any(read(candidate, "index") for candidate in read_list(body, "candidates"))


class _AnswerSoFar:
    """The answer up to now, as long as the model can be asked again with it. Successive texts are one part.

    The texts are kept without the events that contained them: while a stream lasts, a text takes a tenth of
    the memory of its event.
    """

    def __init__(self, *, may_ask_again: bool) -> None:
        self.may_ask_again = may_ask_again
        """Whether the model can be asked again. If not, nothing is kept."""
        self._decided_calls: list[_DecidedCall] = []
        self._parts: list[JsonObject] = []
        self._texts: list[str] = []
        self._count = 0
        self._size = 0

    def drop(self) -> None:
        """Keep nothing from now on, because the model must not be asked again."""
        self.may_ask_again = False
        self._decided_calls, self._parts, self._texts = [], [], []

    def add(self, body: JsonObject, decided_calls: Sequence[_DecidedCall]) -> None:
        """Add an event, and the decisions on its calls. An answer with several candidates is dropped."""
        if _has_several_candidates(body):
            self.drop()
        if not self.may_ask_again:
            return
        self._decided_calls += decided_calls
        for candidate in read_list(body, "candidates"):
            for part in parts_of(candidate):
                if len(part) == 1 and type(part.get("text")) is str:
                    self.add_text(part["text"])
                else:
                    self._join_texts()
                    self._parts.append(part)
                    self._note_size(len(dumps(part)))

    def add_text(self, text: str) -> None:
        """Add a text."""
        if self.may_ask_again:
            self._texts.append(text)
            self._note_size(len(text))

    def _note_size(self, size: int) -> None:
        """Count a part of this size. An answer that becomes too long to be repeated is dropped."""
        self._count += 1
        self._size += size
        if self._count > _MAX_PARTS or self._size > MAX_ANSWER:
            self.drop()

    def turns_to_append(self) -> list[JsonObject]:
        """Return the model's turn, and a response to each of its calls."""
        self._join_texts()
        parts = []
        for tool_call, decision in self._decided_calls:
            error = BLOCKED.format(decision.reason if isinstance(decision, BlockedCall) else _NOT_RUN)
            parts.append({"functionResponse": failed_call_response(tool_call, error)})
        return [{"role": "model", "parts": self._parts}, {"role": "user", "parts": parts}]

    def _join_texts(self) -> None:
        if self._texts:
            self._parts.append({"text": "".join(self._texts)})
            self._texts = []
