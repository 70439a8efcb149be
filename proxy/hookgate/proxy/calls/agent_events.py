"""The events that agents post in the dialects of their own hooks, one path for each agent.

`POST /hookgate/v1/agents/{agent}` takes an input as the agent sends it to its hooks, and returns an answer as
the agent reads it. An agent whose inputs do not name their events appends `?event=NAME`.

Many agents continue after an answer with an error status. So an event that cannot be judged is answered with
a denial in the agent's dialect, if the event can be denied.
"""

import logging
from urllib.parse import parse_qs, urlsplit

from aiohttp import web

from hookgate.hooks import AfterTool, BeforeTool, Engine, Event, SessionContext, Verdict
from hookgate.hooks.agents import AGENT_DIALECTS, AgentDialect
from hookgate.hooks.agents.dialect import AgentAnswer
from hookgate.hooks.output import Output
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.event_service import EventService, session_of_event
from hookgate.proxy.calls.services import GatewayServices
from hookgate.proxy.config.values import host_and_port, is_loopback
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.record import BlockedOutput, CallRecord
from hookgate.proxy.server.connection import internal_error
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import encode_answer

log = logging.getLogger("hookgate.events")

NOT_APPLIED_HEADER = "x-hookgate-not-applied"
"""What of the hooks' decision the agent cannot apply."""

_NO_KEY = (
    "hookgate accepts the events of agents only with a key that it knows, unless it listens on this machine "
    "only, because no API checks the key of an event. Send a key from `hookgate keys create`, or one that is "
    "named in the gateway's configuration, as x-goog-api-key or as a bearer token."
)


class AgentEvents:
    """Answers the events of agents in their dialects."""

    def __init__(self, events: EventService, services: GatewayServices) -> None:
        self._events, self._services = events, services
        listen = services.config.listen
        hosts = (
            host_and_port(listen.address)[0],
            urlsplit(listen.url).hostname if listen.url else "localhost",
        )
        self._is_local = all(is_loopback(host or "") for host in hosts)

    async def run(self, call: Call, engine: Engine) -> web.Response:
        """Judge one event and return the agent's answer.

        Raises ApiError if a web page sends it, its key is unknown, or it is refused and cannot be denied.
        """
        self._events.refuse_pages(call)
        self._check_key(call)
        dialect = AGENT_DIALECTS[call.route.agent]
        document: JsonObject = {}
        name = parse_qs(call.route.query).get("event", [""])[-1]
        try:
            self._events.count(call)
            document = await call.read_body()
            dialect = _sender(dialect, document)
            name = _event_of(dialect, document, name)
            answer = await self._answer(call, engine, dialect, name, document)
            if answer.not_applied:
                log.warning("%s cannot apply to %s: %s", dialect.title, name, ", ".join(answer.not_applied))
        except ConnectionError:
            raise  # the agent has disconnected
        except Exception as error:
            api_error = _as_api_error(error)
            denial = dialect.denial(name, document, api_error.message)
            if denial is None:
                raise
            self._services.note_error(call.record, api_error)
            return _response(AgentAnswer(denial))
        return _response(answer)

    def _check_key(self, call: Call) -> None:
        """Raise ApiError (403) for a key that the gateway does not know."""
        if self._is_local or call.caller.issued is not None:
            return
        if not self._services.callers.has_name(call.route, call.request.headers):
            raise ApiError(403, _NO_KEY, "KEY_UNKNOWN")

    async def _answer(
        self, call: Call, engine: Engine, dialect: AgentDialect, name: str, document: JsonObject
    ) -> AgentAnswer:
        """Return the answer to a posted event. Raises ApiError."""
        try:
            body = await call.steps.run(dialect.read, name, document)
        except ValueError as error:
            raise ApiError(400, f"Invalid {name} input: {error}", "EVENT_REFUSED") from None
        for observer in call.observers:
            observer.on_request(body)
        event_name = dialect.contract_event(name, document)
        if event_name is None:
            reason = await self._reason_of_refusal(session_of_event(call, body))
            output: Output = {} if reason is None else {"continue": False, "stopReason": reason}
            return await call.steps.run(dialect.answer, name, document, output)
        event, session = await self._events.read(call, event_name, body)
        reason = await self._reason_of_refusal(session) if isinstance(event, BeforeTool) else None
        if reason is None:
            output = await self._events.judge(
                call,
                engine,
                event,
                session,
                body,
                from_hooks=True,
                asks_people=not dialect.can_ask(name, document),
            )
        else:  # the agent may not have been able to apply the decision about its session or turn
            call.record.note_verdict(event_name, Verdict("deny", reason=reason))
            output = {"decision": "deny", "reason": reason}
        answer = await call.steps.run(dialect.answer, name, document, output)
        _note_answer(call.record, event, answer)
        await self._services.record_event(call.record)
        return answer

    async def _reason_of_refusal(self, session: SessionContext) -> str | None:
        """Return why hooks have stopped the session or refused it, or None. Raises ApiError."""
        return (await self._services.sessions.open(session)).state.refusal


def _sender(dialect: AgentDialect, document: JsonObject) -> AgentDialect:
    """Return the dialect of an input. Cursor runs the hooks of Claude Code's settings with its own inputs."""
    cursor = AGENT_DIALECTS["cursor"]
    is_from_cursor = "cursor_version" in document and document.get("hook_event_name") in cursor.rows
    return cursor if dialect.name == "claude-code" and is_from_cursor else dialect


def _event_of(dialect: AgentDialect, document: JsonObject, named: str) -> str:
    """Return the name of an input's event. Raises ApiError (400)."""
    try:
        return dialect.event_of(document, named)
    except ValueError as error:
        raise ApiError(400, f"{error}.", "EVENT_REFUSED") from None


def _as_api_error(error: Exception) -> ApiError:
    if isinstance(error, ApiError):
        return error
    log.exception("an event failed inside hookgate; please report this")
    return internal_error()


def _note_answer(record: CallRecord, event: Event, answer: AgentAnswer) -> None:
    """Record what the agent is told, if that differs from what hooks have decided."""
    record.not_applied = answer.not_applied
    if (reason := answer.denied_instead) is None:
        return
    record.note_verdict(event.name, Verdict("deny", reason=reason))
    if isinstance(event, BeforeTool | AfterTool):
        record.note_blocked(BlockedOutput(event.name, (), reason, event.tool_name), event.tool_input)


def _response(answer: AgentAnswer) -> web.Response:
    headers = {NOT_APPLIED_HEADER: ", ".join(answer.not_applied)} if answer.not_applied else {}
    return web.Response(body=encode_answer(answer.document), content_type="application/json", headers=headers)
