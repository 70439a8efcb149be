"""Derives events from model calls, for sessions whose agent has no shim."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from hookgate.hooks import (
    AfterAgent,
    AfterTool,
    BeforeAgent,
    BeforeModel,
    BeforeTool,
    Outcome,
    SessionStart,
    Verdict,
)
from hookgate.hooks.events.tool import result_of
from hookgate.proxy.call.context import CallContext, JudgedCall, RecordingEngine
from hookgate.proxy.call.tool_gate import Refusal, RetryModel
from hookgate.proxy.call.verdicts import enforce
from hookgate.proxy.identity.bypass import bypass_denial, new_results, unannounced_tools
from hookgate.proxy.identity.memory import (
    ConversationMemory,
    HookEffect,
    Result,
    asked_turn,
    history_of,
    tool_results,
    turn_of,
)
from hookgate.proxy.identity.sessions import OpenSession, ReportedKind, SessionState
from hookgate.proxy.observe.blocked import BlockedOutput, denying_hooks
from hookgate.translator.fields import JsonObject, read, read_list, read_object, same_items, without, write


def mark_context(context: str) -> str:
    """Return the context in the markup of Gemini CLI. The context must not contain markup."""
    return f"<hook_context>{context}</hook_context>"


def with_context(body: JsonObject, context: str) -> JsonObject:
    """Append a text to the last turn."""
    contents = read_list(body, "contents")
    part = {"text": mark_context(context)}
    if contents and contents[-1].get("role", "user") == "user":
        last = contents[-1]
        contents = [*contents[:-1], write(last, "parts", [*read_list(last, "parts"), part])]
    else:
        contents = [*contents, {"role": "user", "parts": [part]}]
    return write(body, "contents", contents)


_RESULTS = ("output", "result")
"""The fields of a functionResponse that contain the result: of Gemini CLI, and of google-genai."""

_WITHHELD = "A hook withheld this result."


def engine_for_derived(
    engine: RecordingEngine, kind: ReportedKind, reported: Collection[str]
) -> RecordingEngine:
    """Return the engine for derived events of a kind.

    If a shim reports such events, only the hooks of policy files run on derived ones. They still run because
    any client can claim to be a shim.
    """
    return engine.with_policy_hooks_only() if kind in reported else engine


@dataclass(frozen=True, slots=True)
class RequestEvents:
    """Fires SessionStart, BeforeAgent and AfterTool for one request."""

    EVENTS: ClassVar = (SessionStart.name, BeforeAgent.name, AfterTool.name)

    engine: RecordingEngine
    call: JudgedCall
    known: OpenSession
    reported: Collection[str]
    """The kinds of events that a shim reports. For these, only the hooks of policy files run here."""

    @property
    def _memory(self) -> ConversationMemory:
        return self.known.state.memory

    async def run(self, body: JsonObject) -> JsonObject:
        """Return the request after its hooks.

        Raises ReplacementAnswer or ApiError if a hook ends the call.
        """
        contents = read_list(body, "contents")
        run_step = self.call.session.call_state.run_step
        results = await run_step(tool_results, contents)
        turn, texts = await run_step(asked_turn, body, contents)
        if not contents and not texts:
            return body
        await self._session(turn)
        await self._turn(turn, texts, contents)
        effects = await self._effects(results)
        new = await run_step(self._applied, contents, effects, turn)
        unchanged = same_items(new, contents)
        return body if unchanged else write(body, "contents", new)

    async def _effects(self, results: list[Result]) -> dict[int, HookEffect]:
        """Return what hooks did to the results, by the ids of their parts.

        The memory is bounded and may not hold all results of a request, so it is not read here.
        """
        judges = self._engine("tools").listens_to(AfterTool.name)
        effects: dict[int, HookEffect] = {}
        judged: dict[str, HookEffect] = {}
        try:
            for result in results:
                effect = self._memory.effect_on(result.identity)
                if effect is None and judges:
                    effect = judged[result.identity] = await self._result(result)
                if effect is not None:
                    effects[id(result.part)] = effect
        finally:  # a hook may end the call after others were judged
            if judged:
                await self.known.change(lambda state: state.memory.remember_results(judged))
        return effects

    def _engine(self, kind: ReportedKind) -> RecordingEngine:
        return engine_for_derived(self.engine, kind, self.reported)

    def _added(
        self, kind: ReportedKind, outcome: Outcome[SessionStart] | Outcome[BeforeAgent] | Outcome[AfterTool]
    ) -> tuple[str, ...]:
        """Return the context that hooks add to the conversation; nothing if the shim adds it."""
        context = outcome.verdict.context
        return (context,) if context and kind not in self.reported else ()

    async def _session(self, turn: str) -> None:
        if self._engine("session").listens_to(SessionStart.name) and not self._memory.started:
            await self._start()
        if self._memory.waiting and not self.call.wants_json:  # the agent's own questions get no context
            await self.known.change(lambda state: state.memory.deliver_waiting(turn))

    async def _start(self) -> None:
        async with self.known.starting() as is_first:
            if not is_first:
                return
            outcome = await self._engine("session").fire(SessionStart(), self.call.session)
            enforce(outcome.verdict, SessionStart.name, self.call)  # a refused start is judged again
            contexts = self._added("session", outcome)
            await self.known.change(lambda state: state.memory.start(contexts))

    async def _turn(self, turn: str, texts: list[str], contents: list[JsonObject]) -> None:
        engine, memory = self._engine("turns"), self._memory
        judged = not texts or turn in (memory.turn, memory.question)
        if judged or not engine.listens_to(BeforeAgent.name):
            return
        history = await self.call.session.call_state.run_step(history_of, contents)
        event = BeforeAgent("\n".join(texts), history)
        outcome = await engine.fire(event, self.call.session)
        enforce(outcome.verdict, BeforeAgent.name, self.call)
        contexts, wants_json = self._added("turns", outcome), self.call.wants_json
        await self.known.change(lambda state: state.memory.note_turn(turn, contexts, is_question=wants_json))

    async def _result(self, result: Result) -> HookEffect:
        """Return what hooks did to a tool result. Raises ReplacementAnswer or ApiError on a stop."""
        value = read_object(result.response, "response")
        key = _key_of(value)
        name = result.response.get("name") or result.call.get("name") or ""
        event = AfterTool(str(name), read_object(result.call, "args"), _shown(value, key))
        outcome = await self._engine("tools").fire(event, self.call.session)
        if outcome.verdict.stop:
            enforce(outcome.verdict, AfterTool.name, self.call)
        added = self._added("tools", outcome)
        if outcome.verdict.denied:
            reason = {key or "output": outcome.verdict.reason or _WITHHELD}
            hidden = without(write(result.response, "response", reason), "parts")
            return HookEffect(hidden, added)
        if outcome.event is event:
            return HookEffect(None, added)
        new = _edited(value, key, result_of(outcome.event.tool_response))
        return HookEffect(write(result.response, "response", new), added)

    def _applied(
        self, contents: list[JsonObject], effects: dict[int, HookEffect], turn: str
    ) -> list[JsonObject]:
        """Return the turns with all effects of results and all added context."""
        new = [_with_results(content, effects) for content in contents]
        for name, at in _turns(contents, turn, self._memory):
            if name == turn and self.call.wants_json:
                continue
            texts = (self._memory.effect_on(name) or HookEffect()).contexts
            parts = [*read_list(new[at], "parts"), *({"text": mark_context(text)} for text in texts)]
            new[at] = write(new[at], "parts", parts) if texts else new[at]
        return new


def _turns(contents: list[JsonObject], turn: str, memory: ConversationMemory) -> list[tuple[str, int]]:
    """Return the user turns that have added context, each with the index of its end."""
    found = []
    for at, content in enumerate(contents):
        ends = at + 1 == len(contents) or contents[at + 1].get("role") == "model"
        if ends and content.get("role") != "model":
            name = turn_of(contents, at + 1)[0]
            if name == turn or memory.effect_on(name) is not None:
                found.append((name, at))
    return found


def _with_results(content: JsonObject, effects: dict[int, HookEffect]) -> JsonObject:
    parts = read_list(content, "parts")
    new: list[JsonObject] = []
    for part in parts:
        effect = effects.get(id(part)) or HookEffect()
        response = effect.response
        new.append(part if response is None else write(part, "functionResponse", response))
        new += ({"text": mark_context(text)} for text in effect.contexts)
    unchanged = same_items(new, parts)
    return content if unchanged else write(content, "parts", new)


def _key_of(value: JsonObject) -> str | None:
    """Return the field that contains the whole result besides an error; None if it is the whole object."""
    keys = [key for key in value if key != "error"]
    return keys[0] if len(keys) == 1 and keys[0] in _RESULTS else None


def _shown(value: JsonObject, key: str | None) -> JsonObject:
    """Return a tool's response as shown to hooks."""
    content = value if key is None else value[key]
    shown = {"llmContent": content, "returnDisplay": content if isinstance(content, str) else ""}
    error = read(value, "error")
    return shown if error is None else {**shown, "error": error}


def _edited(value: JsonObject, key: str | None, after: JsonObject) -> JsonObject:
    """Return the response with the result that a hook has put in its place."""
    content = after.get("llmContent")
    if key is None:
        return content if isinstance(content, dict) else {"output": content}
    error = {"error": after["error"]} if "error" in after else {}
    return {**without(value, "error"), key: content, **error}


_SHOWN = "The tool {name!r} was not called: {reason}"
_NO_REASON = "a hook denied it"
_IN_PIECES = "its arguments are sent in pieces, which hooks cannot judge"


@dataclass(frozen=True, slots=True)
class ToolCallEvents:
    """Fires BeforeTool for each call in an answer."""

    engine: RecordingEngine
    call: JudgedCall
    descriptions: Mapping[str, str]
    """The descriptions of the tools that the request declares, by name."""

    async def judge(self, call: JsonObject) -> Refusal | JsonObject:
        """Return the arguments after hooks, or the refusal.

        Raises ReplacementAnswer or ApiError if a hook stops the agent.
        """
        name, arguments = str(call.get("name") or ""), read_object(call, "args")
        if not name or read(call, "willContinue") or read(call, "partialArgs") is not None:
            self.engine.record.note_blocked(BlockedOutput(BeforeTool.name, (), _IN_PIECES, name), arguments)
            return Refusal(_SHOWN.format(name=name, reason=_IN_PIECES), _IN_PIECES, retries=True)
        event = BeforeTool(name, arguments, self.descriptions.get(name))
        outcome = await self.engine.fire(event, self.call.session)
        self.engine.note_blocked_tool(outcome.event, outcome)
        verdict = outcome.verdict
        if verdict.stop:
            enforce(verdict, BeforeTool.name, self.call)
        if verdict.denied:
            reason = verdict.reason or _NO_REASON
            return Refusal(_SHOWN.format(name=name, reason=reason), reason, retries=True)
        return outcome.event.tool_input


@dataclass(frozen=True, slots=True)
class TurnEndEvents:
    """Fires AfterAgent for an answer that ends the turn."""

    engine: RecordingEngine
    call: JudgedCall
    prompt: str
    """The user turn that the answer responds to."""
    again: bool
    """Whether an AfterAgent hook has already rejected an answer of this turn."""
    retries: bool
    """Whether the model can be asked again."""

    async def ended(self, text: str) -> None:
        """Fire the event for the complete answer. Raises RetryModel with the reason if a hook rejects it."""
        event = AfterAgent(self.prompt, text, self.again)
        outcome = await self.engine.fire(event, self.call.session)
        verdict = outcome.verdict
        if outcome.failed_closed:  # a retry would not make the hook judge this answer
            enforce(verdict, AfterAgent.name, self.call)
        if verdict.denied and self.retries:
            reason = {"role": "user", "parts": [{"text": verdict.reason or _NO_REASON}]}
            said = [{"role": "model", "parts": [{"text": text}]}] if text else []
            blocked = BlockedOutput(
                AfterAgent.name, denying_hooks(outcome.runs), verdict.reason or _NO_REASON
            )
            self.engine.record.note_blocked(blocked)
            raise RetryModel([*said, reason], final=True)


SESSION_EVENTS = (SessionStart.name, BeforeAgent.name, AfterAgent.name, BeforeTool.name, AfterTool.name)
"""Events that may stop a session until its next turn, so its turn must be known."""


async def before_session_events(  # noqa: PLR0913, PLR0917  # the call, and what is known of its session
    context: CallContext,
    engine: RecordingEngine,
    call: JudgedCall,
    known: OpenSession,
    body: JsonObject,
    reported: Collection[str],
) -> JsonObject:
    """Return the request after the hooks of session events, with the pending context of its session.

    `reported` contains the kinds of events that a shim reports, which need not be derived. Raises
    ReplacementAnswer or ApiError if a hook ends the call.
    """

    async def check(results: Sequence[Result]) -> None:
        await _check_bypass(context, engine, call, known, results)

    return await run_session_events(engine, call, known, body, reported, check)


async def run_session_events(  # noqa: PLR0913, PLR0917  # the call, and what is known of its session
    engine: RecordingEngine,
    call: JudgedCall,
    known: OpenSession,
    body: JsonObject,
    reported: Collection[str],
    check_results: Callable[[Sequence[Result]], Awaitable[None]],
) -> JsonObject:
    """Return the request after the hooks of session events, for a call in the session `known`.

    `check_results` is called with the results of tools that a shim should have reported. Raises what it
    raises, and ReplacementAnswer or ApiError if a hook ends the call.
    """
    run_step = call.session.call_state.run_step
    may_begin_turn = not ("turns" in reported or call.tool_turn or call.wants_json)
    if may_begin_turn and (known.is_kept or reported or engine.listens_to(*SESSION_EVENTS)):
        turn = (await run_step(turn_of, read_list(body, "contents")))[0]
        if turn != known.state.turn:
            await known.change(lambda state: state.observe_turn(turn))
    if known.state.stopped is not None:
        _end(engine, call, Verdict(stop=True, reason=known.state.stopped))
    if "tools" in reported:
        await check_results(await run_step(tool_results, read_list(body, "contents")))
    if engine.listens_to(*RequestEvents.EVENTS):
        body = await RequestEvents(engine, call, known, reported).run(body)
    if not known.state.context or call.wants_json:  # the agent's own questions require JSON
        return body
    waiting = await known.change(SessionState.take_context)
    return with_context(body, waiting) if waiting else body


async def _check_bypass(
    context: CallContext,
    engine: RecordingEngine,
    call: JudgedCall,
    known: OpenSession,
    results: Sequence[Result],
) -> None:
    """Detect tools that ran without the shim. Raises ReplacementAnswer or ApiError if a hook denies that."""
    new = new_results(results, known.state)
    if not new:
        return
    services = context.services
    denies = services.config.tools.bypass == "deny"
    unannounced = await known.change(lambda state: unannounced_tools(new, state, once=not denies))
    services.bypasses.note(unannounced, call.session)
    context.record.bypasses += len(unannounced)
    if unannounced and denies:
        _end(engine, call, bypass_denial(unannounced))


def _end(engine: RecordingEngine, call: JudgedCall, verdict: Verdict) -> None:
    engine.record.note_verdict(BeforeModel.name, verdict)
    enforce(verdict, BeforeModel.name, call)
