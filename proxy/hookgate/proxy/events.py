"""The event service: what never crosses the wire, told by an agent's shim, judged by the same hooks.

`POST /hookgate/v1/events/{event}` takes the event's input as the hook contract has it and answers with one
output that says what all hooks say together. Nothing that the input names is opened: `cwd` and
`transcript_path` are told to hooks and no more.
"""

from collections.abc import Mapping

from aiohttp import web
from pydantic import ValidationError

from hookgate.hooks import BeforeAgent, BeforeTool, Event, Outcome, Session
from hookgate.hooks.answering import output_of
from hookgate.hooks.contract import INPUTS
from hookgate.hooks.events.reading import event_of
from hookgate.hooks.settings import ADVISORY
from hookgate.proxy.bodies import read_request
from hookgate.proxy.call import STOPPED
from hookgate.proxy.caller import Caller, named_session
from hookgate.proxy.errors import ApiError
from hookgate.proxy.house import House
from hookgate.proxy.logs import note_session
from hookgate.proxy.protocol import Request
from hookgate.proxy.records import Firing
from hookgate.proxy.routes import Route
from hookgate.proxy.sessions import Rates
from hookgate.proxy.workshop import SMALL
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

CONTEXT_HEADER = "x-hookgate-context"
"""`deliver`: the agent cannot tell its model the additional context, so the gateway shall."""

_MAX_PATH = 4096
_BASE = dict.fromkeys(("session_id", "transcript_path", "cwd", "timestamp"), "")
"""What an input may leave out: the path or a header may name the session."""

_TOO_MANY = (
    "hookgate takes no more than {:g} events a second of one caller; send fewer, or raise limits.events."
)


class EventService:
    """Answers the events of shims."""

    def __init__(self, house: House) -> None:
        self._house, self._sessions, self._transcripts = house, house.sessions, house.transcripts
        self._callers = house.callers
        self._per_second = house.config.limits.events
        self._rates = Rates(self._per_second)

    async def run(self, request: Request, route: Route, firing: Firing) -> web.Response:
        """Judge one event. Raises ApiError."""
        caller = self._callers.of(route, request.headers)
        if not self._rates.take(caller.key):
            raise ApiError(429, _TOO_MANY.format(self._per_second), "TOO_MANY_EVENTS")
        body = await read_request(request)
        size = firing.record.request_bytes
        event = await request.workshop.do(size, _event, route.verb, body)
        session = self._transcripts.located(_session(caller, route, request.headers, body))
        note_session(session.session_id)
        if size > SMALL:
            session.call.aside = request.workshop.aside
        firing.record.note_call(session)
        firing.record.event = event.name
        outcome: Outcome[Event] = await firing.fire(event, session)
        output = output_of(event, outcome)
        await self._transcripts.append(session, type="event", event=event.name, input=body, output=output)
        self._note(session, outcome, deliver=request.headers.get(CONTEXT_HEADER) == "deliver")
        if firing.record.content is not None:
            firing.record.content.request, firing.record.content.sent = body, output
        await self._house.tell_event(firing.record)
        return web.Response(body=dumps(output), content_type="application/json")

    def _note(self, session: Session, outcome: Outcome[Event], *, deliver: bool) -> None:
        """Remember what goes for the session's model calls."""
        event, verdict = outcome.event.name, outcome.verdict
        if event == "SessionEnd":
            return self._sessions.end(session)
        state = self._sessions.of(session)
        state.hear(event)
        if isinstance(outcome.event, BeforeAgent):
            self._sessions.announce(session, outcome.event.prompt)
        if isinstance(outcome.event, BeforeTool):
            state.announce(outcome.event.tool_name, runs=not (verdict.denied or verdict.stop))
        if event in ("SessionStart", "BeforeAgent"):
            state.begin_turn()
        if verdict.stop and event not in ADVISORY:
            state.stopped = verdict.reason or STOPPED
        if deliver and verdict.context:
            state.add_context(verdict.context)
        return None


def _event(name: str, body: JsonObject) -> Event:
    try:
        INPUTS[name].model_validate({**_BASE, **body, "hook_event_name": name})
        return event_of(name, body)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise ApiError(400, f"This is no input of {name}: {place}: {first['msg']}", "EVENT_REFUSED") from None
    except (ValueError, TypeError, AttributeError) as error:
        raise ApiError(400, f"This is no input of {name}: {error}", "EVENT_REFUSED") from None


def _session(caller: Caller, route: Route, headers: Mapping[str, str], body: JsonObject) -> Session:
    inside = body.get("session_id")
    named = named_session(route, headers, inside if isinstance(inside, str) else "")
    if not named:
        raise ApiError(400, "session_id: an event belongs to a session; name it", "EVENT_REFUSED")
    return caller.in_session(named, cwd=_path(body, "cwd"), transcript_path=_path(body, "transcript_path"))


def _path(body: JsonObject, field: str) -> str:
    value = body.get(field) or ""
    if not isinstance(value, str) or len(value) > _MAX_PATH:
        raise ApiError(400, f"{field}: has to be a path of at most {_MAX_PATH} characters", "EVENT_REFUSED")
    return value
