"""The model's calls before they reach the agent: each passes, is rewritten, or is refused.

A refused call is told to the model, which answers anew, or to the person, in the call's place.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from hookgate.translator import CallGate
from hookgate.translator.fields import JsonObject, read, read_list, read_object

BLOCKED = "Tool execution blocked: {}"
"""What a model is told of a call that was refused: Gemini CLI's own words."""

_NOT_RUN = "another tool of this turn was blocked; call this one again without it"


_MAX_PARTS = 10_000
"""Parts of an answer after which the model is not asked again: they would have to be sent once more."""


@dataclass(frozen=True, slots=True)
class Refusal:
    """Why a call is refused: in a sentence for the person, and as a reason for the model."""

    shown: str
    reason: str
    asks: bool
    """Whether the model shall be told and asked again, where that is possible."""


class CallJudge(Protocol):
    """Decides on single calls."""

    async def judge(self, call: JsonObject) -> Refusal | JsonObject:
        """The call's arguments as they may go on, or why the call must not. May end the whole answer."""


class AllowedTools:
    """Refuses tools that no BeforeToolSelection hook allowed."""

    def __init__(self, names: frozenset[str], *, asks: bool) -> None:
        self._names, self._asks = names, asks

    async def judge(self, call: JsonObject) -> Refusal | JsonObject:
        name = call.get("name")
        if name in self._names:
            return read_object(call, "args")
        shown = f"The tool {name!r} was not allowed here, so it was not called."
        return Refusal(shown, "this tool is not allowed here", self._asks)


class RetryModel(Exception):  # noqa: N818  # a turn of the conversation, not an error
    """Raised to ask the model again with further turns that the client does not see."""

    def __init__(self, turns: list[JsonObject], *, final: bool = False) -> None:
        self.turns = turns
        """What the model said and what it is told, to be added to the contents."""
        self.final = final
        """Whether it is the last word of a turn that was refused."""


class ToolGate:
    """Runs all judges on each function call of one answer."""

    def __init__(self, judges: Sequence[CallJudge], *, asks: bool) -> None:
        """`asks`: the model may be asked again, as long as the agent knows of no call of the answer."""
        self._judges = judges
        self._asks = asks
        self._gate = CallGate()
        self._said: list[JsonObject] = []
        self._found: list[tuple[JsonObject, Refusal | JsonObject]] = []

    @property
    def passed(self) -> bool:
        """Whether the agent has been given a call."""
        return self._gate.passed

    async def judged(self, body: JsonObject) -> JsonObject:
        """The response, or event of one; the same object when all its calls pass. Raises RetryModel."""
        seen = self._gate.passed
        found = [(call, await self._decide(call)) for call in self._gate.starting_calls(body)]
        decisions = [_decision(call, decided) for call, decided in found]
        judged = self._gate.apply_decisions(body, decisions)
        self._note(body, found)
        must_retry = any(isinstance(decided, Refusal) and decided.asks for _, decided in found)
        if must_retry and self._asks and not seen:
            raise RetryModel(_retry_turns(self._said, self._found))
        return judged

    def _note(self, body: JsonObject, found: list[tuple[JsonObject, Refusal | JsonObject]]) -> None:
        """Collect the model's parts for a retry. Answers with several candidates are not retried."""
        for candidate in read_list(body, "candidates") if self._asks else ():
            self._said += read_list(read_object(candidate, "content"), "parts")
            self._asks = self._asks and not read(candidate, "index") and len(self._said) <= _MAX_PARTS
        self._found += found
        if not self._asks:
            self._said.clear()
            self._found.clear()

    async def _decide(self, call: JsonObject) -> Refusal | JsonObject:
        arguments = read_object(call, "args")
        for judge in self._judges:
            decided = await judge.judge({**call, "args": arguments})
            if isinstance(decided, Refusal):
                return decided
            arguments = decided
        return arguments


def _decision(call: JsonObject, decided: Refusal | JsonObject) -> str | JsonObject | None:
    if isinstance(decided, Refusal):
        return decided.shown
    return None if decided == read_object(call, "args") else decided


def _retry_turns(
    said: list[JsonObject], found: Sequence[tuple[JsonObject, Refusal | JsonObject]]
) -> list[JsonObject]:
    """The model's turn, and an answer to each of its calls."""
    answers = []
    for call, decided in found:
        error = BLOCKED.format(decided.reason if isinstance(decided, Refusal) else _NOT_RUN)
        identified = {"id": call["id"]} if read(call, "id") is not None else {}
        answers.append({**identified, "name": call.get("name"), "response": {"error": error}})
    parts = [{"functionResponse": answer} for answer in answers]
    return [{"role": "model", "parts": said}, {"role": "user", "parts": parts}]
