"""What a request gives away: a session that begins, a new turn of the user, tools that have run."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from hookgate.hooks import AfterTool, BeforeAgent, Engine, Event, SessionStart, Verdict
from hookgate.hooks.events.tool import result_of
from hookgate.proxy.call import Call, end_with, told
from hookgate.proxy.context import marked
from hookgate.proxy.wire.memory import Memory, fingerprint
from hookgate.translator.fields import JsonObject, read, read_list, read_object, write
from hookgate.translator.texts import joined_text

_RESULTS = ("output", "result")
"""Where agents put a tool's result in a functionResponse: Gemini CLI, and google-genai."""


@dataclass(frozen=True, slots=True)
class WireRequests:
    """Fires SessionStart, BeforeAgent and AfterTool for one request."""

    EVENTS: ClassVar = (SessionStart.name, BeforeAgent.name, AfterTool.name)

    engine: Engine
    call: Call
    memory: Memory
    told: Collection[str]
    """What a shim tells of: `session`, `turns`, `tools`."""

    async def judged(self, body: JsonObject) -> JsonObject:
        """The request as hooks leave it. Raises Answered and ApiError."""
        contents = read_list(body, "contents")
        if contents:
            place, last = len(contents) - 1, contents[-1]
            added = await self._session()
            if self.call.tool_turn:
                await self._results(contents)
            else:
                added += await self._turn(place, last)
            self._add(place, last, added)
        return self.memory.applied(body)

    async def _session(self) -> list[str]:
        if self.memory.started or "session" in self.told:
            return []
        self.memory.started = True
        return [*(await self._fired(SessionStart())).contexts]

    async def _turn(self, place: int, last: JsonObject) -> list[str]:
        turn = fingerprint(place, last)
        if turn == self.memory.turn or "turns" in self.told:
            return []
        if self.call.wants_json:  # an agent's own question, such as which model to take
            return []
        self.memory.prompt = joined_text(last)
        fired = await self._fired(BeforeAgent(self.memory.prompt))
        self.memory.turn = turn  # a turn that is denied is judged again when it is tried again
        return [*fired.contexts]

    async def _results(self, contents: list[JsonObject]) -> None:
        if "tools" in self.told:
            return
        place = len(contents) - 1
        calls = _calls(contents[:-1])
        for part in read_list(contents[-1], "parts"):
            response = read(part, "functionResponse")
            if isinstance(response, dict) and not self.memory.knows(place, part):
                call = _taken(calls, response)
                self.memory.keep(place, part, await self._result(part, response, call))

    async def _result(
        self, part: JsonObject, response: JsonObject, call: JsonObject
    ) -> tuple[JsonObject, ...] | None:
        """What the model is shown instead of a tool's result, or None for the result itself."""
        value = read_object(response, "response")
        key = next((key for key in _RESULTS if key in value), None)
        shown = _shown(value, key)
        event = AfterTool(str(response.get("name", "")), read_object(call, "args"), shown)
        fired = await self._fired(event)
        after = result_of(getattr(fired.event, "tool_response", shown))
        new = value
        if fired.verdict.denied:
            new = {key or "output": fired.verdict.reason}
        elif after is not shown:
            new = {**(value if key else {}), key or "output": after["llmContent"]}
        if new is not value:
            part = write(part, "functionResponse", write(response, "response", new))
        contexts = tuple({"text": marked(text)} for text in fired.contexts)
        return (part, *contexts) if contexts or new is not value else None

    def _add(self, place: int, last: JsonObject, contexts: list[str]) -> None:
        parts = read_list(last, "parts")
        if contexts and parts:
            self.memory.keep(place, parts[-1], (parts[-1], *({"text": marked(text)} for text in contexts)))

    async def _fired(self, event: Event) -> "_Fired":
        outcome = await self.engine.fire(event, self.call.session)
        verdict = outcome.verdict
        if not isinstance(event, AfterTool) or verdict.stop:  # a denied result is hidden, no more
            end_with(told(verdict, event.name, self.call))
        return _Fired(outcome.event, verdict)


def _shown(value: JsonObject, key: str | None) -> JsonObject:
    """A tool's response as the contract shows it to hooks."""
    content = value if key is None else value[key]
    shown = {"llmContent": content, "returnDisplay": content if isinstance(content, str) else ""}
    return {**shown, "error": value["error"]} if "error" in value else shown


@dataclass(frozen=True, slots=True)
class _Fired:
    event: Event
    verdict: Verdict

    @property
    def contexts(self) -> tuple[str, ...]:
        return (self.verdict.context,) if self.verdict.context else ()


def _calls(contents: list[JsonObject]) -> list[JsonObject]:
    """The calls of the newest turn that made any, in order."""
    for content in reversed(contents):
        parts = read_list(content, "parts")
        found = [call for part in parts if isinstance(call := read(part, "functionCall"), dict)]
        if found:
            return found
    return []


def _taken(calls: list[JsonObject], response: JsonObject) -> JsonObject:
    """The call that a response answers, by id, else by name in order; each is taken once."""
    for key in ("id", "name"):
        for at, call in enumerate(calls):
            if call.get(key) is not None and call.get(key) == response.get(key):
                return calls.pop(at)
    return {}
