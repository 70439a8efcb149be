"""What a request gives away: a session that begins, a new turn of the user, tools that have run."""

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar

from hookgate.hooks import AfterTool, BeforeAgent, Outcome, SessionStart
from hookgate.hooks.events.tool import result_of
from hookgate.proxy.call import Call, end_with, told
from hookgate.proxy.context import marked
from hookgate.proxy.records import Firing
from hookgate.proxy.wire.memory import Memory, Result, Treatment, asked_in, history_of, results_of, turn_of
from hookgate.translator.fields import JsonObject, read, read_list, read_object, without, write

_RESULTS = ("output", "result")
"""Where agents put a tool's result in a functionResponse: Gemini CLI, and google-genai."""

_WITHHELD = "A hook withheld this result."


@dataclass(frozen=True, slots=True)
class WireRequests:
    """Fires SessionStart, BeforeAgent and AfterTool for one request."""

    EVENTS: ClassVar = (SessionStart.name, BeforeAgent.name, AfterTool.name)

    firing: Firing
    call: Call
    memory: Memory
    told: Collection[str]
    """What a shim tells of: `session`, `turns`, `tools`."""

    async def judged(self, body: JsonObject) -> JsonObject:
        """The request as hooks leave it. Raises Answered and ApiError."""
        contents = read_list(body, "contents")
        take = self.call.session.call.take
        results = await take(results_of, contents)
        turn, texts = await take(asked_in, body, contents)
        if not contents and not texts:
            return body
        await self._session(turn)
        await self._turn(turn, texts, contents)
        if "tools" not in self.told:
            for result in results:
                if self.memory.of(result.identity) is None:
                    self.memory.keep(result.identity, await self._result(result))
        new = await take(self._applied, contents, results, turn)
        unchanged = all(a is b for a, b in zip(new, contents, strict=True))
        return body if unchanged else write(body, "contents", new)

    async def _session(self, turn: str) -> None:
        await self._start()
        if not self.call.wants_json:  # JSON is for an agent's own question, which takes no context
            self.memory.keep(turn, self.memory.waiting)
            self.memory.waiting = Treatment()

    async def _start(self) -> None:
        async with self.memory.starting:
            if self.memory.started or "session" in self.told:
                return
            outcome = await self.firing.fire(SessionStart(), self.call.session)
            self._end_if_refused(outcome, SessionStart.name)
            self.memory.started = True  # a start that is refused is judged again with the next call
            self.memory.waiting = _added(outcome)

    async def _turn(self, turn: str, texts: list[str], contents: list[JsonObject]) -> None:
        if not texts or turn in (self.memory.turn, self.memory.question) or "turns" in self.told:
            return
        history = await self.call.session.call.take(history_of, contents)
        event = BeforeAgent("\n".join(texts), history)
        outcome = await self.firing.fire(event, self.call.session)
        self._end_if_refused(outcome, BeforeAgent.name)
        if self.call.wants_json:
            self.memory.question = turn
        else:
            self.memory.turn = turn
        self.memory.keep(turn, _added(outcome))

    def _end_if_refused(self, outcome: Outcome[SessionStart] | Outcome[BeforeAgent], event: str) -> None:
        end_with(told(outcome.verdict, event, self.call))

    async def _result(self, result: Result) -> Treatment:
        """What hooks make of a result. Raises Answered and ApiError for a stop."""
        value = read_object(result.response, "response")
        key = _key_of(value)
        name = result.response.get("name") or result.call.get("name") or ""
        event = AfterTool(str(name), read_object(result.call, "args"), _shown(value, key))
        outcome = await self.firing.fire(event, self.call.session)
        if outcome.verdict.stop:
            end_with(told(outcome.verdict, AfterTool.name, self.call))
        added = _added(outcome).contexts
        if outcome.verdict.denied:
            reason = {key or "output": outcome.verdict.reason or _WITHHELD}
            hidden = without(write(result.response, "response", reason), "parts")
            return Treatment(hidden, added)
        if outcome.event is event:
            return Treatment(None, added)
        new = _edited(value, key, result_of(outcome.event.tool_response))
        return Treatment(write(result.response, "response", new), added)

    def _applied(self, contents: list[JsonObject], results: list[Result], turn: str) -> list[JsonObject]:
        """The turns with all that is remembered in force."""
        known = {id(result.part): self.memory.of(result.identity) for result in results}
        new = [_with_results(content, known) for content in contents]
        for name, at in _turns(contents, turn, self.memory):
            if name == turn and self.call.wants_json:
                continue
            texts = (self.memory.of(name) or Treatment()).contexts
            parts = [*read_list(new[at], "parts"), *({"text": marked(text)} for text in texts)]
            new[at] = write(new[at], "parts", parts) if texts else new[at]
        return new


def _turns(contents: list[JsonObject], turn: str, memory: Memory) -> list[tuple[str, int]]:
    """The user's turns that something was added to, each with the place where it ends."""
    found = []
    for at, content in enumerate(contents):
        ends = at + 1 == len(contents) or contents[at + 1].get("role") == "model"
        if ends and content.get("role") != "model":
            name = turn_of(contents, at + 1)[0]
            if name == turn or memory.of(name) is not None:
                found.append((name, at))
    return found


def _with_results(content: JsonObject, known: dict[int, Treatment | None]) -> JsonObject:
    parts = read_list(content, "parts")
    new: list[JsonObject] = []
    for part in parts:
        treatment = known.get(id(part)) or Treatment()
        response = treatment.response
        new.append(part if response is None else write(part, "functionResponse", response))
        new += ({"text": marked(text)} for text in treatment.contexts)
    unchanged = len(new) == len(parts) and all(a is b for a, b in zip(new, parts, strict=True))
    return content if unchanged else write(content, "parts", new)


def _key_of(value: JsonObject) -> str | None:
    """The field that is all of the result beside an error; None when the whole object is."""
    keys = [key for key in value if key != "error"]
    return keys[0] if len(keys) == 1 and keys[0] in _RESULTS else None


def _shown(value: JsonObject, key: str | None) -> JsonObject:
    """A tool's response as the contract shows it to hooks."""
    content = value if key is None else value[key]
    shown = {"llmContent": content, "returnDisplay": content if isinstance(content, str) else ""}
    error = read(value, "error")
    return shown if error is None else {**shown, "error": error}


def _edited(value: JsonObject, key: str | None, after: JsonObject) -> JsonObject:
    """The response after a hook's edit of what it was shown."""
    content = after.get("llmContent")
    if key is None:
        return content if isinstance(content, dict) else {"output": content}
    return {**value, key: content, **({"error": after["error"]} if "error" in after else {})}


def _added(outcome: Outcome[SessionStart] | Outcome[BeforeAgent] | Outcome[AfterTool]) -> Treatment:
    context = outcome.verdict.context
    return Treatment(None, (context,) if context else ())
