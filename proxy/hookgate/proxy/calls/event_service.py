"""The event service: runs hooks for events that a shim reports, or an agent (see `agent_events.py`).

`POST /hookgate/v1/events/{event}` takes the event's input and returns the combined output of all hooks. `cwd`
and `transcript_path` are passed to hooks but never opened.
"""

import time
from dataclasses import dataclass, field, replace
from typing import cast

from aiohttp import hdrs, web
from cachetools import LRUCache
from pydantic import ValidationError

from hookgate.hooks import BeforeAgent, BeforeTool, Engine, Event, Outcome, SessionContext, SessionStart
from hookgate.hooks.engine import combined_output
from hookgate.hooks.errors import first_mistake
from hookgate.hooks.events import INPUTS
from hookgate.hooks.events.reading import read_event
from hookgate.hooks.output import Output
from hookgate.hooks.session import CallState
from hookgate.hooks.settings import ADVISORY
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.judge import DENIED, STOPPED, Judge
from hookgate.proxy.calls.services import GatewayServices
from hookgate.proxy.errors import ApiError, not_a_route
from hookgate.proxy.routes.cross_origin import allowed_origin
from hookgate.proxy.routes.table import session_name
from hookgate.proxy.sessions.sessions import Sessions, SessionState
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import encode_answer

CONTEXT_HEADER = "x-hookgate-context"
"""`deliver`: the agent cannot pass the context to its model, so the gateway adds it."""

_MAX_PATH = 4096
_BASE = dict.fromkeys(("session_id", "transcript_path", "cwd", "timestamp"), "")
"""The fields that an input may omit. The session may be in the path or a header instead."""

_TOO_MANY = (
    "hookgate accepts at most {} events per second from one caller; send fewer, or raise limits.events."
)

_NOT_FOR_PAGES = (
    "Scripts of web pages of this origin may not report events. Add the origin to clients.origins in "
    "hookgate.toml, or let a program report them."
)


KEPT_BUCKETS = 10_000
"""Callers whose rates are remembered."""


class EventService:
    """Answers the event requests of shims."""

    def __init__(self, services: GatewayServices) -> None:
        self._sessions = services.sessions
        self._origins = services.config.clients.origins
        self._per_second = services.config.limits.events
        self._rates = Rates(self._per_second)

    async def run(self, call: Call, engine: Engine) -> web.Response:
        """Judge one event. Raises ApiError if the input is invalid, or if the caller may not send it."""
        self.admit(call)
        body = await call.read_body()
        for observer in call.observers:
            observer.on_request(body)
        deliver = call.request.headers.get(CONTEXT_HEADER) == "deliver"
        event, session = await self.read(call, call.route.verb, body)
        output = await self.judge(call, engine, event, session, body, deliver=deliver)
        await call.services.record_event(call.record)
        return web.Response(body=encode_answer(output), content_type="application/json")

    def admit(self, call: Call) -> None:
        """Check whether the caller may send an event now.

        Raises ApiError if it sends too many, or if a web page sends it: browsers send some requests of any
        page, which then cannot read the answer, but hooks would have run.
        """
        self.refuse_pages(call)
        self.count(call)

    def refuse_pages(self, call: Call) -> None:
        """Raise ApiError if a script of a web page sends the event."""
        if hdrs.ORIGIN in call.request.headers and not allowed_origin(call.request.headers, self._origins):
            raise not_a_route(_NOT_FOR_PAGES)

    def count(self, call: Call) -> None:
        """Count an event of the caller. Raises ApiError if there are too many."""
        if not self._rates.try_acquire(call.caller.key):
            raise ApiError(429, _TOO_MANY.format(self._per_second), "TOO_MANY_EVENTS")

    async def read(self, call: Call, name: str, body: JsonObject) -> tuple[Event, SessionContext]:
        """Return the event `name`, whose input is `body`, and its session. Raises ApiError (400)."""
        event = await call.steps.run(_event, name, body)
        session = session_of_event(call, body)
        call.record.event = event.name
        return event, session

    async def judge(  # noqa: PLR0913  # of one event, everything that its hooks and its effects need
        self,
        call: Call,
        engine: Engine,
        event: Event,
        session: SessionContext,
        body: JsonObject,
        *,
        deliver: bool = False,
        from_hooks: bool = False,
        asks_people: bool = False,
    ) -> Output:
        """Run the hooks of an event, whose input is `body`, and return their combined output.

        `deliver`: the gateway adds the hooks' context to the session's next call. `from_hooks`:
        the event comes from the agent's own hooks. `asks_people`: the agent cannot ask its user, so
        people are asked, if that is configured. Raises ApiError.
        """
        record, services = call.record, call.services
        judge = Judge(engine, record, session, approvals=services.approvals)
        outcome: Outcome[Event] = await judge.fire(event)
        if asks_people and isinstance(event, BeforeTool) and judge.leaves_to_people(outcome.verdict):
            asked = cast("Outcome[BeforeTool]", outcome)
            [outcome.verdict] = await judge.ask_people([asked])
        output = combined_output(event, outcome)
        if services.transcripts is not None:
            line = {
                "type": "event",
                "event": event.name,
                "input": body,
                "output": _output_for_transcript(output),
            }
            await services.transcripts.append(session, **line)
        await apply_outcome(self._sessions, session, outcome, deliver=deliver, from_hooks=from_hooks)
        for observer in call.observers:
            observer.on_event_output(output)
        return output


def _event(name: str, body: JsonObject) -> Event:
    try:
        INPUTS[name].model_validate({**_BASE, **body, "hook_event_name": name})
        return read_event(name, body)
    except ValidationError as error:
        problem = f"Invalid {name} input: {first_mistake(error, 'the input')}"
        raise ApiError(400, problem, "EVENT_REFUSED") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ApiError(400, f"Invalid {name} input: {error}", "EVENT_REFUSED") from None


def session_of_event(call: Call, body: JsonObject) -> SessionContext:
    """Return the session of an event, and note it. Raises ApiError (400) if it has none."""
    in_body = body.get("session_id")
    name = call.named_session or (session_name(in_body) if isinstance(in_body, str) and in_body else "")
    if not name:
        raise ApiError(400, "session_id: missing; an event requires a session", "EVENT_REFUSED")
    cwd, transcript_path = _path(body, "cwd"), _path(body, "transcript_path")
    session = call.caller.in_session(name, CallState(steps=call.steps), cwd, transcript_path)
    session = replace(session, notes=call.services.sessions)
    if call.services.transcripts is not None:
        session = call.services.transcripts.located(session)
    call.note_session(session)
    return session


def _path(body: JsonObject, field: str) -> str:
    value = body.get(field) or ""
    if not isinstance(value, str) or len(value) > _MAX_PATH:
        raise ApiError(400, f"{field}: must be a string of at most {_MAX_PATH} characters", "EVENT_REFUSED")
    return value


def _output_for_transcript(output: Output) -> Output:
    """Return the output for the transcript: without the message, if a hook suppresses its output."""
    hidden = output.get("suppressOutput") is True
    return {key: value for key, value in output.items() if not (hidden and key == "systemMessage")}


async def apply_outcome(
    sessions: Sessions,
    session: SessionContext,
    outcome: Outcome[Event],
    *,
    deliver: bool,
    from_hooks: bool = False,
) -> None:
    """Store the effects of a shim's event on the session's model calls.

    See `EventService.judge` for the flags. Raises ApiError (403) if the effects cannot be stored.
    """
    if outcome.event.name == "SessionEnd":
        return await sessions.end(session)
    if isinstance(outcome.event, BeforeAgent) and outcome.event.prompt:
        await sessions.link_prompt(session, outcome.event.prompt)
    await sessions.change(
        session, lambda state: _note_outcome(state, outcome, deliver=deliver, from_hooks=from_hooks)
    )
    return None


def _note_outcome(state: SessionState, outcome: Outcome[Event], *, deliver: bool, from_hooks: bool) -> None:
    event, verdict = outcome.event.name, outcome.verdict
    if not from_hooks:  # they may report less than a shim, so that events are still derived
        state.note_event(event)
    if isinstance(outcome.event, BeforeTool) and not from_hooks:
        state.count_announcement(outcome.event.tool_name, runs=not (verdict.denied or verdict.stop))
    reason = verdict.reason or (STOPPED if verdict.stop else DENIED)
    match outcome.event:
        # Agents may ignore these decisions, so the session's next calls are refused.
        case SessionStart():
            stopped = state.stopped if from_hooks else None  # Copilot reports the start after a prompt
            state.begin_session()
            state.stopped = stopped
            state.refused = reason if verdict.stop or verdict.denied else None
        case BeforeAgent():
            state.begin_turn()
            state.stopped = reason if verdict.stop or verdict.denied else None
        case _ if verdict.stop and event not in ADVISORY:
            state.stopped = reason
    if deliver and verdict.context:
        state.add_context(verdict.context)


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float = field(default_factory=time.monotonic)


class Rates:
    """A token bucket for each caller: `per_second` events per second, and as many in one burst.

    When there are too many callers, the least recently used bucket is dropped; its caller gets a full one.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._buckets: LRUCache[str, _Bucket] = LRUCache(KEPT_BUCKETS)

    def try_acquire(self, caller: str) -> bool:
        """Take a token. Returns False if the caller has none left."""
        now = time.monotonic()
        bucket = self._buckets.setdefault(caller, _Bucket(self._per_second, now))
        bucket.left = min(self._per_second, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True
