"""Derives events from model calls, and applies to them what a session's earlier events decided."""

import re
from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar

from hookgate.hooks import (
    AfterAgent,
    AfterTool,
    BeforeAgent,
    Outcome,
    SessionStart,
    Verdict,
)
from hookgate.hooks.events.tool import result_of
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.endings import AskAgain, Ended
from hookgate.proxy.calls.judge import NO_REASON, Judge
from hookgate.proxy.observe.hook_tally import denying_hooks
from hookgate.proxy.observe.record import BlockedOutput
from hookgate.proxy.sessions.bypass import bypass_denial, new_results, unannounced_tools
from hookgate.proxy.sessions.memory import (
    ConversationMemory,
    HookEffect,
    Result,
    asked_turn,
    history_of,
    tool_results,
    turn_of,
    user_text,
    user_turns,
)
from hookgate.proxy.sessions.sessions import OpenSession, ReportedKind, SessionState
from hookgate.translator import DeclaredNames, declared_names
from hookgate.translator.conversation.parts import show_parts
from hookgate.translator.fields import (
    JsonObject,
    read,
    read_list,
    read_object,
    same,
    same_items,
    without,
    write,
)
from hookgate.translator.strictjson import json_identity

_RESULTS = ("output", "result")
"""The fields of a functionResponse that contain the result: of Gemini CLI, and of google-genai."""

_WITHHELD = "A hook withheld this result."
_UNKNOWN_TOOL = "unknown_tool"
"""The name of a tool whose call is not in the request."""

_ID = re.compile(r"[A-Za-z0-9._:/=+-]{1,128}")


async def run_session_events(
    judge: Judge,
    open_session: OpenSession,
    body: JsonObject,
    reported: Collection[ReportedKind],
    check_results: Callable[[Sequence[Result]], Awaitable[Ended | None]],
) -> JsonObject | Ended:
    """Return the request after the hooks of session events, with the pending context, or what ends the call.

    Call this only if `Judge.needs_session_events` returns True. `reported` contains the kinds of events that
    a shim reports, which need not be derived. `check_results` is called with the tool results that a shim
    should have reported, and may end the call.
    """
    steps = judge.session.call_state.steps
    if not ("turns" in reported or judge.tool_turn or judge.requires_json):  # a new turn may begin
        turn = (await steps.run(turn_of, read_list(body, "contents")))[0]
        if turn != open_session.state.turn:
            await open_session.change(lambda state: state.update_turn(turn))
    if open_session.state.refusal is not None:
        verdict = Verdict(stop=True, reason=open_session.state.refusal)
        if ended := judge.end_with(verdict):
            return ended
    if "tools" in reported:
        results = await steps.run(tool_results, read_list(body, "contents"))
        if ended := await check_results(results):
            return ended
    if judge.listens_to(*ConversationEvents.EVENTS):
        judged = await ConversationEvents(judge, open_session, reported).run(body)
        if isinstance(judged, Ended):
            return judged
        body = judged
    # Calls that require JSON are the agent's own.
    if not open_session.state.pending_context or judge.requires_json:
        return body
    added = await open_session.change(SessionState.take_context)
    return with_context(body, added) if added else body


async def check_bypass(
    call: Call,
    judge: Judge,
    open_session: OpenSession,
    results: Sequence[Result],
) -> Ended | None:
    """Detect tools that ran without the shim. Returns what ends the call if the configuration denies that."""
    new = new_results(results, open_session.state)
    if not new:
        return None
    services = call.services
    denies = services.config.tools.bypass == "deny"
    unannounced = await open_session.change(lambda state: unannounced_tools(new, state, once=not denies))
    services.bypasses.note(unannounced, judge.session)
    call.record.bypasses += len(unannounced)
    return judge.end_with(bypass_denial(unannounced)) if unannounced and denies else None


def with_context(body: JsonObject, added: str) -> JsonObject:
    """Return the request with added context appended to its last user turn, or as a new one."""
    contents = read_list(body, "contents")
    part = {"text": mark_context(added)}
    if contents and contents[-1].get("role", "user") == "user":
        last = contents[-1]
        contents = [*contents[:-1], write(last, "parts", [*read_list(last, "parts"), part])]
    else:
        contents = [*contents, {"role": "user", "parts": [part]}]
    return write(body, "contents", contents)


def mark_context(added: str) -> str:
    """Return added context in the markup of Gemini CLI. The context must not contain markup."""
    return f"<hook_context>{added}</hook_context>"


@dataclass(frozen=True, slots=True)
class ConversationEvents:
    """Fires SessionStart, BeforeAgent and AfterTool for one request."""

    EVENTS: ClassVar = (SessionStart.name, BeforeAgent.name, AfterTool.name)

    judge: Judge
    open_session: OpenSession
    reported: Collection[ReportedKind]
    """The kinds of events that a shim reports. For these, only the hooks of policy files run here."""

    @property
    def _memory(self) -> ConversationMemory:
        return self.open_session.state.memory

    def _judge_of(self, kind: ReportedKind) -> Judge:
        return self.judge.of_derived(kind, self.reported)

    async def run(self, body: JsonObject) -> JsonObject | Ended:
        """Return the request after its hooks, or what ends the call."""
        contents = read_list(body, "contents")
        steps = self.judge.session.call_state.steps
        results = await steps.run(tool_results, contents)
        turn, texts = await steps.run(asked_turn, body, contents)
        if not contents and not texts:
            return body
        if ended := await self._judge_session(turn) or await self._judge_turn(turn, texts, body):
            return ended
        effects = await self._effects_on(results, body)
        if isinstance(effects, Ended):
            return effects
        new = await steps.run(self._apply_effects, contents, effects, turn)
        unchanged = same_items(new, contents)
        return body if unchanged else write(body, "contents", new)

    async def _judge_session(self, turn: str) -> Ended | None:
        begins = self._judge_of("session").listens_to(SessionStart.name) and not self._memory.started
        if begins and (ended := await self._fire_session_start()):
            return ended
        if self._memory.waiting and not self.judge.requires_json:  # calls that require JSON are the agent's
            await self.open_session.change(lambda state: state.memory.deliver_waiting(turn))
        return None

    async def _fire_session_start(self) -> Ended | None:
        async with self.open_session.starting() as is_first:
            if not is_first:
                return None
            outcome = await self._judge_of("session").fire(SessionStart())
            if ended := self.judge.ended_by(outcome.verdict, SessionStart.name):
                return ended  # the start is judged again
            contexts = self._context_to_add("session", outcome)
            await self.open_session.change(lambda state: state.memory.start(contexts))
        return None

    async def _judge_turn(self, turn: str, texts: list[str], body: JsonObject) -> Ended | None:
        judge, memory = self._judge_of("turns"), self._memory
        contents = read_list(body, "contents")
        if not texts or not judge.listens_to(BeforeAgent.name):
            return None
        judged_turn = f"{turn}-{judge.fingerprint(BeforeAgent('', []))}"
        if judged_turn in (memory.turn, memory.question):
            return None
        call_state = self.judge.session.call_state
        history = await call_state.steps.run(history_of, contents)
        call_state.user_text = await call_state.steps.run(user_text, body, contents)
        event = BeforeAgent("\n".join(texts), history)
        outcome = await judge.fire(event)
        if ended := self.judge.ended_by(outcome.verdict, BeforeAgent.name):
            return ended
        contexts, requires_json = self._context_to_add("turns", outcome), self.judge.requires_json
        await self.open_session.change(
            lambda state: state.memory.note_turn(turn, judged_turn, contexts, is_question=requires_json)
        )
        return None

    def _context_to_add(
        self, kind: ReportedKind, outcome: Outcome[SessionStart] | Outcome[BeforeAgent]
    ) -> tuple[str, ...]:
        """Return the context that hooks add to the conversation; nothing if the shim adds it."""
        context = outcome.verdict.context
        return (context,) if context and kind not in self.reported else ()

    async def judge_results(self, body: JsonObject) -> JsonObject | Ended:
        """Return a request that is no turn of its session with its tool results after AfterTool hooks.

        If a hook stops the agent, return what ends the call.
        """
        contents = read_list(body, "contents")
        results = await self.judge.session.call_state.steps.run(tool_results, contents)
        effects = await self._effects_on(results, body)
        if isinstance(effects, Ended):
            return effects
        new = [_with_results(content, effects) for content in contents]
        return body if same_items(new, contents) else write(body, "contents", new)

    async def _effects_on(self, results: list[Result], body: JsonObject) -> dict[int, HookEffect] | Ended:
        """Return the effects of hooks on the results, by the `id()` of their parts, or what ends the call.

        They are returned because the memory is bounded: it may forget some of them before they are applied.
        """
        judge = self._judge_of("tools")
        judges = judge.listens_to(AfterTool.name)
        judged_by = judge.fingerprint(AfterTool("", {}, {})) if judges and results else ""
        effects: dict[int, HookEffect] = {}
        judged: dict[str, HookEffect] = {}
        call_state = self.judge.session.call_state
        call_state.tool_names = declared_names(body) if judged_by else ()
        names = DeclaredNames(call_state.tool_names)
        events = ToolResultEvents(judge, adds_context="tools" not in self.reported, names=names)
        try:
            for result in results:
                await call_state.steps.pause()
                effect = self._memory.effect_on(result.identity)
                if judges and (effect is None or effect.judged_by != judged_by):
                    with call_state.steps.judging(result.response):
                        decided = await events.judge_result(result.call, result.part)
                    if isinstance(decided, Ended):
                        return decided
                    effect = judged[result.identity] = replace(decided, judged_by=judged_by)
                if effect is not None:
                    effects[id(result.part)] = effect
        finally:  # a hook may end the call after others were judged
            if judged:
                await self.open_session.change(lambda state: state.memory.remember_results(judged))
        return effects

    def _apply_effects(
        self, contents: list[JsonObject], effects: dict[int, HookEffect], turn: str
    ) -> list[JsonObject]:
        """Return the contents with the effects on results and the added context."""
        new = [_with_results(content, effects) for content in contents]
        for name, at in _turns_with_context(contents, turn, self._memory):
            if name == turn and self.judge.requires_json:
                continue
            texts = (self._memory.effect_on(name) or HookEffect()).contexts
            parts = [*read_list(new[at], "parts"), *({"text": mark_context(text)} for text in texts)]
            new[at] = write(new[at], "parts", parts) if texts else new[at]
        return new


def _turns_with_context(
    contents: list[JsonObject], turn: str, memory: ConversationMemory
) -> list[tuple[str, int]]:
    """Return this user turn and those with added context, each with the index of its last content."""
    return [
        (name, at) for name, at in user_turns(contents) if name == turn or memory.effect_on(name) is not None
    ]


def _with_results(content: JsonObject, effects: dict[int, HookEffect]) -> JsonObject:
    parts = read_list(content, "parts")
    new: list[JsonObject] = []
    for part in parts:
        effect = effects.get(id(part)) or HookEffect()
        response = effect.response
        if effect.withheld:
            # Some dialects have other fields of a result in its turn, which then has no other part.
            content = {key: value for key, value in content.items() if key in ("role", "parts")}
            part = {}  # noqa: PLW2901  # its other fields belong to the result
        new.append(part if response is None else write(part, "functionResponse", response))
        new += ({"text": mark_context(text)} for text in effect.contexts)
    unchanged = same_items(new, parts)
    return content if unchanged else write(content, "parts", new)


@dataclass(frozen=True, slots=True)
class ToolResultEvents:
    """Fires AfterTool for each tool result."""

    judge: Judge
    adds_context: bool
    """Whether the context that hooks add is added here; otherwise, the shim adds it."""
    names: DeclaredNames = field(default_factory=DeclaredNames)
    """The names of the tools that the request declares."""

    async def judge_result(self, tool_call: JsonObject, part: JsonObject) -> HookEffect | Ended:
        """Return the effect of hooks on a part with a functionResponse; `tool_call` is its call, or empty.

        If a hook stops the agent, return what ends the call.
        """
        result = read_object(part, "functionResponse")
        value = read_object(result, "response")
        key = _result_field(value)
        name = result.get("name") or tool_call.get("name") or ""
        steps = self.judge.session.call_state.steps
        shown = await steps.run(_shown_response, part, key)
        event = AfterTool(self.names.meant_by(str(name)), read_object(tool_call, "args"), shown)
        outcome = await self.judge.fire(event)
        verdict = outcome.verdict
        if verdict.stop and (ended := self.judge.ended_by(verdict, AfterTool.name)):
            return ended
        added = (verdict.context,) if verdict.context and self.adds_context else ()
        if verdict.denied:
            reason = {key or "output": verdict.reason or _WITHHELD}
            return HookEffect(_withheld_result(result, tool_call, reason), added, withheld=True)
        if outcome.event is event:
            return HookEffect(None, added)
        after = result_of(outcome.event.tool_response)
        new = write(result, "response", _replace_result(value, key, after))
        return HookEffect(await steps.run(_with_kept, new, shown, after), added)


def _result_field(value: JsonObject) -> str | None:
    """Return the field that contains the whole result besides an error; None if it is the whole object."""
    keys = [key for key in value if key != "error"]
    return keys[0] if len(keys) == 1 and keys[0] in _RESULTS else None


def _shown_response(part: JsonObject, key: str | None) -> JsonObject:
    """Return a tool's response as shown to hooks. `key` is the field that contains the result."""
    [typed] = show_parts({"parts": [part]})
    value = typed.get("response", {})
    content = value if key is None else value[key]
    shown = {"llmContent": content, "returnDisplay": content if isinstance(content, str) else ""}
    if (error := read(value, "error")) is not None:
        shown["error"] = error
    return {**shown, **{name: typed[name] for name in ("parts", "fields") if name in typed}}


def _withheld_result(result: JsonObject, tool_call: JsonObject, response: JsonObject) -> JsonObject:
    """Return the functionResponse for a result that a hook denied. Nothing of the result itself is left.

    Its name and ID are those of the call that it answers. If that call is not in the request, an ID of the
    usual form is kept, by which the API may find it.
    """
    new: JsonObject = {}
    id_ = read(tool_call, "id") or read(result, "id")
    if isinstance(id_, str) and (id_ == read(tool_call, "id") or _ID.fullmatch(id_)):
        new["id"] = id_
    if "name" in result or "name" in tool_call:
        new["name"] = tool_call.get("name") or _UNKNOWN_TOOL
    return {**new, "response": response}


def _replace_result(value: JsonObject, key: str | None, after: JsonObject) -> JsonObject:
    """Return the response with its result replaced by that of a hook."""
    content = after.get("llmContent")
    if key is None:
        return content if isinstance(content, dict) else {"output": content}
    error = {"error": after["error"]} if "error" in after else {}
    return {**without(value, "error"), key: content, **error}


def _with_kept(result: JsonObject, shown: JsonObject, after: JsonObject) -> JsonObject:
    """Return a functionResponse with only the parts and other fields that a hook has returned unchanged."""
    if not same(after.get("fields"), shown.get("fields")):
        result = {key: value for key, value in result.items() if key in ("id", "name", "response", "parts")}
    returned = after.get("parts")
    identities = set(map(json_identity, returned if isinstance(returned, list) else ()))
    typed = zip(read_list(result, "parts"), shown.get("parts", ()), strict=False)
    kept = [part for part, each in typed if json_identity(each) in identities]
    return write(result, "parts", kept) if kept else without(result, "parts")


@dataclass(frozen=True, slots=True)
class TurnEndEvents:
    """Fires AfterAgent for an answer that ends the turn."""

    judge: Judge
    prompt: str
    """The user turn that the answer responds to."""
    answer_rejected: bool
    """Whether an AfterAgent hook has already rejected an answer of this turn."""
    may_ask_again: bool
    """Whether the model can be asked again."""

    async def turn_ended(self, text: str) -> Ended | AskAgain | None:
        """Fire the event for the complete answer, and return what comes instead of it.

        If a hook rejects the answer, that is a further request to the model, if it can be asked again; if a
        hook that fails closed has failed, it is the denial. Otherwise, returns None.
        """
        event = AfterAgent(self.prompt, text, self.answer_rejected)
        self.judge.session.call_state.steps.note_size(len(text))
        outcome = await self.judge.fire(event)
        verdict = outcome.verdict
        if outcome.failed_closed:  # a retry would not make the hook judge this answer
            return self.judge.ended_by(verdict, AfterAgent.name)
        if verdict.denied and self.may_ask_again:
            reason = {"role": "user", "parts": [{"text": verdict.reason or NO_REASON}]}
            spoken = [{"role": "model", "parts": [{"text": text}]}] if text else []
            blocked = BlockedOutput(AfterAgent.name, denying_hooks(outcome.runs), verdict.reason or NO_REASON)
            self.judge.record.note_blocked(blocked)
            return AskAgain([*spoken, reason], answer_rejected=True)
        return None
