"""One judged call, from the client's request to the end of its answer, in the order its bytes travel."""

from collections.abc import Collection
from dataclasses import replace

import aiohttp
from aiohttp import hdrs, web

from hookgate.hooks import AfterAgent, AfterModel, BeforeModel, BeforeTool, Engine, Verdict
from hookgate.hooks.document import Encoded
from hookgate.proxy.bodies import check_cache, read_frames, read_request, read_whole
from hookgate.proxy.bypass import denial_of, unannounced
from hookgate.proxy.call import Answered, Call, call_of, end_with, last_texts, told
from hookgate.proxy.context import with_context
from hookgate.proxy.envelopes import envelope_of, opened
from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import SHIM_HEADER, to_client, to_upstream
from hookgate.proxy.house import House
from hookgate.proxy.judging import Judge
from hookgate.proxy.logs import note_session
from hookgate.proxy.outgoing import Outgoing
from hookgate.proxy.reply import Reply
from hookgate.proxy.routes import Route
from hookgate.proxy.selection import before_model, before_tool_selection
from hookgate.proxy.sessions import SessionState
from hookgate.proxy.toolgate import Allowed, AskAgain, CallJudge, ToolGate
from hookgate.proxy.transcripts import new_contents
from hookgate.proxy.upstream import UpstreamError
from hookgate.proxy.wire import WireAnswers, WireCalls, WireRequests
from hookgate.proxy.wire.memory import prompt_of, turn_of
from hookgate.translator import (
    Framing,
    JsonArray,
    ServerSentEvents,
    show_request,
)
from hookgate.translator.fields import JsonObject, read_list
from hookgate.translator.strictjson import dumps


class Exchange:
    """Carries one judged call: hooks before, the upstream, hooks after, all under one engine."""

    def __init__(self, engine: Engine, house: House) -> None:
        self._engine = engine
        self._upstream = house.upstreams
        self._sessions = house.sessions
        self._bypasses = house.bypasses
        self._transcripts = house.transcripts
        self._config = house.config

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
        session = call.session if call.named else self._sessions.linked(call.session, last_texts(body))
        call = replace(call, session=self._transcripts.located(session))
        note_session(call.session.session_id)
        state = self._sessions.of(call.session)
        contents = read_list(body, "contents")
        believed = state.believed(request.headers.get(SHIM_HEADER, "")) if self._config.shims.believed else ()
        body = await self._as_told(call, body, state, believed)
        model, body = await before_model(self._engine, call, model, body)
        body, allowed = await before_tool_selection(self._engine, call, model, body)
        await self._record(call, model, body, state)
        inspected = self._engine.listens_to(AfterModel.name)
        shown = Encoded(show_request(model, body)) if inspected else None
        payload = dumps(envelope.close_request(outer, model, body))
        prompt = prompt_of(contents) if self._engine.listens_to(AfterAgent.name) else ""
        return Outgoing(call, route.for_model(model), model, payload, shown, allowed, believed, prompt)

    async def _record(self, call: Call, model: str, body: JsonObject, state: SessionState) -> None:
        """Put what is new in the conversation into its transcript."""
        if self._transcripts.kept:
            contents = read_list(body, "contents")
            new = new_contents(contents, state.recorded)
            state.recorded = len(contents)
            await self._transcripts.append(call.session, type="request", model=model, contents=new)

    async def _as_told(
        self, call: Call, body: JsonObject, state: SessionState, believed: Collection[str]
    ) -> JsonObject:
        """The request as the hooks of its session's events have it. Raises Answered and ApiError."""
        if not ("turns" in believed or call.tool_turn or call.wants_json):
            state.take_turn(turn_of(read_list(body, "contents"))[0])
        if state.stopped is not None:
            end_with(told(Verdict(stop=True, reason=state.stopped), BeforeModel.name, call))
        if "tools" in believed:
            self._check_bypass(call, body, state)
        if any(map(self._engine.listens_to, WireRequests.EVENTS)):
            body = await WireRequests(self._engine, call, state.memory, believed).judged(body)
        context = "" if call.wants_json else state.take_context()  # JSON is for an agent's own questions
        return with_context(body, context) if context else body

    def _check_bypass(self, call: Call, body: JsonObject, state: SessionState) -> None:
        """Notice tools that ran past the shim. Raises Answered or ApiError where that is denied."""
        passed_by = unannounced(body, state, forgives=self._config.tools.bypass == "flag")
        self._bypasses.note(passed_by, call.session)
        if passed_by and self._config.tools.bypass == "deny":
            end_with(told(denial_of(passed_by), BeforeModel.name, call))

    # ---- forward

    async def _ask(self, request: web.BaseRequest, outgoing: Outgoing, reply: Reply) -> None:
        """Ask the model, and again where it called a tool that it must not, as often as that is wanted."""
        times = self._config.tools.ask_again_at_most
        again = False
        for time in range(times + 1):
            judge = self._judge(outgoing, again=again, asks=time < times)
            try:
                await self._forward(request, outgoing, reply, judge)
                break
            except AskAgain as asked:
                outgoing, again = outgoing.with_turns(asked.turns), again or asked.final
                if reply.framing is not None:
                    reply.framing.begin_anew()

    def _judge(self, outgoing: Outgoing, *, again: bool, asks: bool) -> Judge:
        """Who judges the answer: AfterAgent may have asked for it `again`, and may do so once more."""
        call, believed, engine = outgoing.call, outgoing.believed, self._engine
        judges: list[CallJudge] = []
        if outgoing.allowed is not None:
            judges.append(Allowed(outgoing.allowed, asks=self._config.tools.refused == "ask_again"))
        if "tools" not in believed and engine.listens_to(BeforeTool.name):
            judges.append(WireCalls(engine, call))
        end = None
        if "turns" not in believed and engine.listens_to(AfterAgent.name) and not call.wants_json:
            end = WireAnswers(engine, call, outgoing.prompt, again, asks)
        gate = ToolGate(judges, asks=asks) if judges or end else None
        return Judge(engine, outgoing, gate, end, keeps=self._transcripts.kept)

    async def _forward(
        self, request: web.BaseRequest, outgoing: Outgoing, reply: Reply, judge: Judge
    ) -> None:
        headers = {**to_upstream(request.headers, "identity"), hdrs.CONTENT_TYPE: "application/json"}
        sending = self._upstream.open(
            hdrs.METH_POST, outgoing.route, headers, outgoing.payload, decompress=True
        )
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
                await self._record_answer(judge)
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
        try:
            async for pieces in judge.stream(read_frames(answer, framing)):
                await reply.write(b"".join(framing.encode(piece.frame, piece.data()) for piece in pieces))
        finally:  # what was sent was said, whatever ended it
            await self._record_answer(judge)

    async def _record_answer(self, judge: Judge) -> None:
        if judge.answer is not None and self._transcripts.kept:
            await self._transcripts.append(judge.call.session, type="answer", answer=judge.answer)

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


def _framing(route: Route) -> Framing | None:
    if not route.streamed:
        return None
    return ServerSentEvents() if route.alt == "sse" else JsonArray()
