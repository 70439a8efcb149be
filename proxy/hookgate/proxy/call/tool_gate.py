"""Decides on the model's function calls before the agent gets them: each is accepted, edited or refused.

The refusal is reported to the model, which answers again, or shown to the user.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hookgate.hooks import BeforeToolSelection
from hookgate.proxy.observe.blocked import BlockedOutput
from hookgate.proxy.observe.record import CallRecord
from hookgate.translator import ToolCallFilter
from hookgate.translator.fields import JsonObject, parts_of, read, read_list, read_object
from hookgate.translator.streaming.events import failed_call_response, has_calls, only_text

BLOCKED = "Tool execution blocked: {}"
"""The message that the model receives for a refused call, as in Gemini CLI."""

_NOT_ALLOWED = "this tool is not allowed here"
_NOT_RUN = "another tool call of this turn was blocked; make this call again without it"


_MAX_PARTS = 10_000
"""The maximum number of parts of an answer to retry: a retry sends all of them upstream again."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """The refusal of a tool call: a sentence for the user, and a reason for the model."""

    shown: str
    reason: str
    retries: bool
    """Whether to retry with the reason, if possible."""


class ToolCallJudge(Protocol):
    """Decides on one tool call at a time."""

    async def judge(self, tool_call: JsonObject) -> Refusal | JsonObject:
        """Return the call's arguments, possibly edited, or a refusal. May raise to end the whole answer."""


@dataclass(frozen=True, slots=True)
class ToolSelection:
    """The names of the tools that an answer may call, and of the hooks that selected them."""

    tools: frozenset[str]
    hooks: tuple[str, ...]


class AllowedTools:
    """Refuses tools that BeforeToolSelection hooks did not select."""

    def __init__(self, selection: ToolSelection, record: CallRecord, *, retries: bool) -> None:
        self._selection, self._record, self._retries = selection, record, retries

    async def judge(self, tool_call: JsonObject) -> Refusal | JsonObject:
        name = tool_call.get("name")
        if name in self._selection.tools:
            return read_object(tool_call, "args")
        blocked = BlockedOutput(BeforeToolSelection.name, self._selection.hooks, _NOT_ALLOWED, str(name))
        self._record.note_blocked(blocked, read_object(tool_call, "args"))
        shown = f"The tool {name!r} is not allowed here and was not called."
        return Refusal(shown, _NOT_ALLOWED, self._retries)


class RetryModel(Exception):  # noqa: N818  # a turn of the conversation, not an error
    """Raised to call the model again with further turns that the client does not see."""

    def __init__(self, turns: list[JsonObject], *, answer_rejected: bool = False) -> None:
        self.turns = turns
        """The turns to append: the model's turn, and the responses to its calls."""
        self.answer_rejected = answer_rejected
        """Whether an AfterAgent hook rejected the final answer, rather than a tool call."""


class ToolGate:
    """Lets all judges decide on each function call of one answer."""

    def __init__(self, judges: Sequence[ToolCallJudge], *, retries: bool) -> None:
        """`retries`: the model can be asked again, unless the agent has received a call of the answer."""
        self._judges = judges
        self._retries = retries
        self._filter = ToolCallFilter()
        self._turn = _ModelTurn()
        self._decided_calls: list[tuple[JsonObject, Refusal | JsonObject]] = []

    @property
    def agent_has_call(self) -> bool:
        """Whether the agent has received a call."""
        return self._filter.passed

    def pass_if_no_calls(self, body: JsonObject) -> bool:
        """Note a response without function calls, which passes unjudged; return False if it has some."""
        text = only_text(body)
        if text is None:
            if has_calls(body):
                return False
            self._collect_for_retry(body, [])
        elif self._retries:
            self._retries = self._turn.add_text(text)
        return True

    async def judge(self, body: JsonObject) -> JsonObject:
        """Return the judged response, or the same object if unchanged. Raises RetryModel to ask again."""
        return body if self.pass_if_no_calls(body) else await self.judge_calls(body)

    async def judge_calls(self, body: JsonObject) -> JsonObject:
        """Judge a response that has function calls, like `judge`."""
        had_call = self._filter.passed
        starting = self._filter.starting_calls(body)
        found = [(each, await decide_tool_call(self._judges, each)) for each in starting]
        decisions = [_decision(tool_call, decided) for tool_call, decided in found]
        judged = self._filter.apply_decisions(body, decisions)
        self._collect_for_retry(body, found)
        must_retry = any(isinstance(decided, Refusal) and decided.retries for _, decided in found)
        if must_retry and self._retries and not had_call and (parts := self._turn.parts()):
            raise RetryModel(_retry_turns(parts, self._decided_calls))
        return judged

    def _collect_for_retry(
        self, body: JsonObject, found: list[tuple[JsonObject, Refusal | JsonObject]]
    ) -> None:
        """Collect the parts and calls of the answer, unless it cannot be repeated."""
        if self._retries:
            self._retries = self._turn.add(body)
            self._decided_calls += found


class _ModelTurn:
    """The parts of an answer up to now, as a turn of the model. Successive texts are one part.

    The texts are kept without the events that contained them: while a stream lasts, a text takes a tenth of
    the memory of its event.
    """

    def __init__(self) -> None:
        self._parts: list[JsonObject] = []
        self._texts: list[str] = []
        self._count = 0

    def add(self, body: JsonObject) -> bool:
        """Add an event. Returns False if the answer cannot be repeated: too long, or several candidates."""
        for candidate in read_list(body, "candidates"):
            if read(candidate, "index"):
                return False
            for part in parts_of(candidate):
                if len(part) == 1 and type(part.get("text")) is str:
                    self._texts.append(part["text"])
                else:
                    self.parts().append(part)
                self._count += 1
        return self._count <= _MAX_PARTS

    def add_text(self, text: str) -> bool:
        """Add an event that is only a text. Returns False if the answer is too long to be repeated."""
        self._texts.append(text)
        self._count += 1
        return self._count <= _MAX_PARTS

    def parts(self) -> list[JsonObject]:
        """Return the parts; the texts since the last other part are one part."""
        if self._texts:
            self._parts.append({"text": "".join(self._texts)})
            self._texts = []
        return self._parts


async def decide_tool_call(judges: Sequence[ToolCallJudge], tool_call: JsonObject) -> Refusal | JsonObject:
    """Return the arguments with which a call may be made, after all judges in turn, or why it may not."""
    arguments = read_object(tool_call, "args")
    for judge in judges:
        decided = await judge.judge({**tool_call, "args": arguments})
        if isinstance(decided, Refusal):
            return decided
        arguments = decided
    return arguments


def _decision(tool_call: JsonObject, decided: Refusal | JsonObject) -> str | JsonObject | None:
    if isinstance(decided, Refusal):
        return decided.shown
    return None if decided == read_object(tool_call, "args") else decided


def _retry_turns(
    model_parts: list[JsonObject], found: Sequence[tuple[JsonObject, Refusal | JsonObject]]
) -> list[JsonObject]:
    """Return the model's turn, and a response to each of its calls."""
    parts = []
    for tool_call, decided in found:
        error = BLOCKED.format(decided.reason if isinstance(decided, Refusal) else _NOT_RUN)
        parts.append({"functionResponse": failed_call_response(tool_call, error)})
    return [{"role": "model", "parts": model_parts}, {"role": "user", "parts": parts}]
