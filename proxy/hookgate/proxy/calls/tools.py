"""Decides on the model's function calls before the agent gets them: each is accepted, edited or blocked.

The reason is reported to the model, which answers again, or shown to the user.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from hookgate.hooks import BeforeTool, BeforeToolSelection
from hookgate.hooks.session import CallState
from hookgate.proxy.calls.endings import AskAgain, Ended
from hookgate.proxy.calls.judge import NO_REASON, Judge
from hookgate.proxy.observe.record import BlockedOutput, CallRecord
from hookgate.proxy.server.bodies import MAX_ANSWER
from hookgate.translator import ToolCallFilter
from hookgate.translator.fields import JsonObject, parts_of, read, read_list, read_object, same
from hookgate.translator.streaming.events import failed_call_response, only_text
from hookgate.translator.strictjson import dumps

BLOCKED = "Tool execution blocked: {}"
"""The message that the model receives for a blocked call, as in Gemini CLI."""

_SHOWN = "The tool {name!r} was not called: {reason}"
_IN_PIECES = "its arguments are sent in pieces, which cannot be put together for hooks"

_NOT_ALLOWED = "this tool is not allowed here"
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


_DecidedCall = tuple[JsonObject, BlockedCall | JsonObject]

"""A function call with its arguments after all rules, or why it is blocked."""


class ToolCallRule(Protocol):
    """Decides on one tool call at a time."""

    async def judge_call(self, tool_call: JsonObject) -> BlockedCall | JsonObject | Ended:
        """Return the arguments, perhaps edited, or why the call is blocked, or what ends the whole answer."""


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
        self._so_far = _AnswerSoFar() if may_ask_again else None

    @property
    def agent_has_call(self) -> bool:
        """Whether the agent has received a tool call."""
        return self._filter.passed

    def note_if_text(self, body: JsonObject) -> bool:
        """Note a response that is only a text, which passes unjudged; return False for any other one."""
        text = only_text(body)
        if text is None:
            return False
        if self._so_far is not None and not self._so_far.add_text(text):
            self._so_far = None
        return True

    async def judge_response(self, body: JsonObject) -> JsonObject | Ended | AskAgain:
        """Return the judged response, or the same object if unchanged, or what ends the answer."""
        applied = await self._judge_calls(body)
        if isinstance(applied, Ended):
            return applied
        judged, decided_calls = applied
        asks_again = any(isinstance(each, BlockedCall) and each.asks_again for _, each in decided_calls)
        if self._filter.passed and not asks_again:
            self._so_far = None  # the agent gets a call: another answer could not take it back
        if self._so_far is not None and not self._so_far.add(body, decided_calls):
            self._so_far = None
        if self._so_far is not None and asks_again:
            return AskAgain(await self._state.steps.run(self._so_far.turns_to_append))
        return judged

    async def judge_without_retry(self, body: JsonObject) -> JsonObject | Ended:
        """Return the judged response, or what ends the answer, where the model cannot be asked again."""
        applied = await self._judge_calls(body)
        return applied if isinstance(applied, Ended) else applied[0]

    async def _judge_calls(self, body: JsonObject) -> tuple[JsonObject, list[_DecidedCall]] | Ended:
        """Return the judged response, and its calls with the decisions on them, or what ends the answer."""
        decided: list[_DecidedCall] = []
        for tool_call in self._filter.starting_calls(body):
            await self._state.steps.pause()
            with self._state.steps.judging(tool_call):
                decision = await apply_rules(self._rules, tool_call)
            if isinstance(decision, Ended):
                return decision
            decided.append((tool_call, decision))
        decisions = [_decision(tool_call, decision) for tool_call, decision in decided]
        return self._filter.apply_decisions(body, decisions), decided


async def apply_rules(
    rules: Sequence[ToolCallRule], tool_call: JsonObject
) -> BlockedCall | JsonObject | Ended:
    """Return the arguments with which a call may be made, after all rules in turn, or why it may not.

    A rule may also end the whole answer.
    """
    arguments = read_object(tool_call, "args")
    for rule in rules:
        decided = await rule.judge_call({**tool_call, "args": arguments})
        if isinstance(decided, BlockedCall | Ended):
            return decided
        arguments = decided
    return arguments


def _decision(tool_call: JsonObject, decided: BlockedCall | JsonObject) -> str | JsonObject | None:
    if isinstance(decided, BlockedCall):
        return decided.shown
    return None if same(decided, read_object(tool_call, "args")) else decided


class AllowedTools:
    """Blocks calls of tools that BeforeToolSelection hooks did not select."""

    def __init__(self, selection: ToolSelection, record: CallRecord, *, asks_again: bool) -> None:
        self._selection, self._record, self._asks_again = selection, record, asks_again

    async def judge_call(self, tool_call: JsonObject) -> BlockedCall | JsonObject:
        name = tool_call.get("name")
        if name in self._selection.tools:
            return read_object(tool_call, "args")
        blocked = BlockedOutput(BeforeToolSelection.name, self._selection.hooks, _NOT_ALLOWED, str(name))
        self._record.note_blocked(blocked, read_object(tool_call, "args"))
        shown = f"The tool {name!r} is not allowed here and was not called."
        return BlockedCall(shown, _NOT_ALLOWED, self._asks_again)


@dataclass(frozen=True, slots=True)
class ToolCallEvents:
    """Fires BeforeTool for each tool call in an answer."""

    judge: Judge
    descriptions: Mapping[str, str]
    """The descriptions of the tools that the request declares, by name."""

    async def judge_call(self, tool_call: JsonObject) -> BlockedCall | JsonObject | Ended:
        """Return the arguments after hooks, or why the call is blocked, or what ends the answer."""
        name, arguments = str(tool_call.get("name") or ""), read_object(tool_call, "args")
        event = BeforeTool(name, arguments, self.descriptions.get(name))
        plan = self.judge.plan(event)
        if name and not plan.groups:
            return arguments
        if not name or read(tool_call, "willContinue") or read(tool_call, "partialArgs") is not None:
            self.judge.record.note_blocked(BlockedOutput(BeforeTool.name, (), _IN_PIECES, name), arguments)
            return BlockedCall(_SHOWN.format(name=name, reason=_IN_PIECES), _IN_PIECES, asks_again=False)
        outcome = await self.judge.fire(event, plan=plan)
        verdict = outcome.verdict
        if verdict.stop and (ended := self.judge.ended_by(verdict, BeforeTool.name)):
            return ended
        if verdict.denied:
            reason = verdict.reason or NO_REASON
            return BlockedCall(_SHOWN.format(name=name, reason=reason), reason, asks_again=True)
        return outcome.event.tool_input


class _AnswerSoFar:
    """The answer up to now, with which the model can be asked again. Successive texts are one part.

    The texts are kept without the events that contained them: while a stream lasts, a text takes a tenth of
    the memory of its event.
    """

    def __init__(self) -> None:
        self._decided: list[_DecidedCall] = []
        self._parts: list[JsonObject] = []
        self._texts: list[str] = []
        self._count = 0
        self._size = 0

    def add(self, body: JsonObject, decided: Sequence[_DecidedCall]) -> bool:
        """Add an event, and the decisions on its calls.

        Returns False if the answer cannot be repeated, because it is too long or has several candidates.
        """
        self._decided += decided
        for candidate in read_list(body, "candidates"):
            if read(candidate, "index"):
                return False
            for part in parts_of(candidate):
                if len(part) == 1 and type(part.get("text")) is str:
                    self.add_text(part["text"])
                else:
                    self._join_texts()
                    self._parts.append(part)
                    self._count += 1
                    self._size += len(dumps(part))
        return self._fits()

    def add_text(self, text: str) -> bool:
        """Add an event that is only a text. Returns False if the answer is too long to be repeated."""
        self._texts.append(text)
        self._count += 1
        self._size += len(text)
        return self._fits()

    def _fits(self) -> bool:
        return self._count <= _MAX_PARTS and self._size <= MAX_ANSWER

    def turns_to_append(self) -> list[JsonObject]:
        """Return the model's turn, and a response to each of its calls."""
        self._join_texts()
        parts = []
        for tool_call, decided in self._decided:
            error = BLOCKED.format(decided.reason if isinstance(decided, BlockedCall) else _NOT_RUN)
            parts.append({"functionResponse": failed_call_response(tool_call, error)})
        return [{"role": "model", "parts": self._parts}, {"role": "user", "parts": parts}]

    def _join_texts(self) -> None:
        if self._texts:
            self._parts.append({"text": "".join(self._texts)})
            self._texts = []
