"""One judged call, from the client's request to the end of its answer, in the order its bytes travel."""

from dataclasses import dataclass, replace

import aiohttp
from aiohttp import hdrs, web

from hookgate.hooks import AfterModel, BeforeModel, Engine, Verdict
from hookgate.hooks.document import Encoded
from hookgate.proxy.bodies import check_cache, read_frames, read_request, read_whole
from hookgate.proxy.call import Answered, Call, call_of, end_with, told
from hookgate.proxy.config import Config
from hookgate.proxy.context import with_context
from hookgate.proxy.envelopes import envelope_of, opened
from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import to_client, to_upstream
from hookgate.proxy.judging import Judge
from hookgate.proxy.logs import note_session
from hookgate.proxy.reply import Reply
from hookgate.proxy.routes import Route
from hookgate.proxy.selection import before_model, before_tool_selection
from hookgate.proxy.sessions import Sessions
from hookgate.proxy.toolgate import AskAgain, Asking, Telling, with_turns
from hookgate.proxy.upstream import UpstreamError, Upstreams
from hookgate.translator import (
    Framing,
    JsonArray,
    ServerSentEvents,
    show_request,
)
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps, loads


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A call as it goes upstream. The parsed body is gone: what waits for the upstream is small."""

    call: Call
    route: Route
    model: str
    payload: bytes
    llm_request: Encoded | None
    """What AfterModel hooks are shown of the request; None when there are no such hooks."""
    allowed: frozenset[str] | None
    """The tools that the answer may call; None when no hook has selected any."""


class Exchange:
    """Carries one judged call: hooks before, the upstream, hooks after, all under one engine."""

    def __init__(self, engine: Engine, upstream: Upstreams, sessions: Sessions, config: Config) -> None:
        self._engine = engine
        self._upstream = upstream
        self._sessions = sessions
        self._config = config

    async def run(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        """Answer the request, whatever happens on the way."""
        reply = Reply(request, _framing(route), envelope_of(route))
        async with reply.kept_alive(self._config.streams):
            try:
                outgoing = await self._before(request, route)
                await self._ask(request, outgoing, reply)
            except Answered as answered:
                await reply.answer(answered.answer)
            except ApiError as error:
                await reply.refuse(error)
        return await reply.finish()

    # ---- read, BeforeModel, BeforeToolSelection

    async def _before(self, request: web.BaseRequest, route: Route) -> Outgoing:
        envelope = envelope_of(route)
        outer = await read_request(request)
        model, body = opened(envelope, route, outer)
        check_cache(body, self._config.routes.unhooked)
        call = call_of(route, request.headers, body, envelope, envelope.session(outer))
        note_session(call.session.session_id)
        body = self._as_told(call, body)
        model, body = await before_model(self._engine, call, model, body)
        body, allowed = await before_tool_selection(self._engine, call, model, body)
        inspected = self._engine.listens_to(AfterModel.name)
        shown = Encoded(show_request(model, body)) if inspected else None
        payload = dumps(envelope.close_request(outer, model, body))
        return Outgoing(call, route.for_model(model), model, payload, shown, allowed)

    def _as_told(self, call: Call, body: JsonObject) -> JsonObject:
        """The request with what a shim told of its session. Raises Answered or ApiError for a stopped one."""
        state = self._sessions.of(call.session)
        if state.stopped is not None:
            end_with(told(Verdict(stop=True, reason=state.stopped), BeforeModel.name, call))
        context = state.take_context()
        return with_context(body, context) if context else body

    # ---- forward

    async def _ask(self, request: web.BaseRequest, outgoing: Outgoing, reply: Reply) -> None:
        """Ask the model, and again where it called a tool that it must not, as often as that is wanted."""
        for gate in self._gates(outgoing.allowed):
            try:
                await self._forward(request, outgoing, reply, gate)
                break
            except AskAgain as again:
                outgoing = _with_turns(outgoing, again)

    def _gates(self, allowed: frozenset[str] | None) -> list[Asking | Telling | None]:
        """One for each time that the model may be asked; the last never asks again."""
        if allowed is None:
            return [None]
        tools = self._config.tools
        times = tools.ask_again_at_most if tools.refused == "ask_again" else 0
        return [*(Asking(allowed) for _ in range(times)), Telling(allowed)]

    async def _forward(
        self, request: web.BaseRequest, outgoing: Outgoing, reply: Reply, gate: Asking | Telling | None
    ) -> None:
        headers = {**to_upstream(request.headers, "identity"), hdrs.CONTENT_TYPE: "application/json"}
        sending = self._upstream.open(
            hdrs.METH_POST, outgoing.route, headers, outgoing.payload, decompress=True
        )
        judge = Judge(self._engine, outgoing.call, outgoing.model, outgoing.llm_request, gate)
        try:
            async with sending as answer:
                await self._after(answer, judge, reply)
        except UpstreamError as error:
            if not reply.started:
                raise error.as_api_error() from None
            reply.cut()

    # ---- AfterModel, answer

    async def _after(self, answer: aiohttp.ClientResponse, judge: Judge, reply: Reply) -> None:
        headers = to_client(answer.headers)
        if not 200 <= answer.status < 300:
            await self._pass_error(answer, reply)
        elif reply.framing is None:
            data = await read_whole(answer)
            if data and judge.has_work:
                data = await judge.whole(data)
            await reply.send(answer.status, headers, data)
        else:
            reply.use_headers(headers)
            if judge.has_work:
                await self._stream(answer, judge, reply, reply.framing)
            else:
                await self._copy(answer, reply)

    async def _stream(
        self, answer: aiohttp.ClientResponse, judge: Judge, reply: Reply, framing: Framing
    ) -> None:
        async for pieces in judge.stream(read_frames(answer, framing)):
            await reply.write(b"".join(framing.encode(piece.frame, piece.data()) for piece in pieces))

    async def _copy(self, answer: aiohttp.ClientResponse, reply: Reply) -> None:
        reply.copy_on()
        async for chunk in answer.content.iter_any():
            await reply.write(chunk)

    async def _pass_error(self, answer: aiohttp.ClientResponse, reply: Reply) -> None:
        """The upstream's error as it came; as text where the stream had to start already."""
        body = await read_whole(answer)
        if reply.started:
            raise ApiError(
                502, f"The upstream answered {answer.status}: {body.decode(errors='replace')[:500]}"
            )
        await reply.send(answer.status, to_client(answer.headers), body)


def _with_turns(outgoing: Outgoing, again: AskAgain) -> Outgoing:
    envelope = outgoing.call.envelope
    outer = loads(outgoing.payload)
    model, body = envelope.open_request(outgoing.route, outer)
    return replace(
        outgoing, payload=dumps(envelope.close_request(outer, model, with_turns(body, again.turns)))
    )


def _framing(route: Route) -> Framing | None:
    if not route.streamed:
        return None
    return ServerSentEvents() if route.alt == "sse" else JsonArray()
