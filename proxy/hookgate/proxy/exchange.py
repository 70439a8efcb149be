"""One judged call, from the client's request to the end of its answer, in the order its bytes travel."""

from collections.abc import AsyncIterator
from dataclasses import replace

import aiohttp
from aiohttp import hdrs, web

from hookgate.hooks import AfterAgent, AfterModel, BeforeTool
from hookgate.hooks.document import Encoded
from hookgate.proxy.bodies import read_frames, read_request, read_whole
from hookgate.proxy.call import Answered, Call, call_of, last_texts
from hookgate.proxy.caller import named_session
from hookgate.proxy.conversation import Conversation, believed
from hookgate.proxy.envelopes import envelope_of, opened
from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import SHIM_HEADER, to_client, to_upstream
from hookgate.proxy.house import House
from hookgate.proxy.judging import Judge
from hookgate.proxy.logs import note_session
from hookgate.proxy.naming import check_model, with_model
from hookgate.proxy.outgoing import Outgoing
from hookgate.proxy.pieces import restored
from hookgate.proxy.protocol import Request
from hookgate.proxy.records import Firing, UsageMeter, no_bytes
from hookgate.proxy.records.content import Kept
from hookgate.proxy.references import check_references
from hookgate.proxy.reply import Reply
from hookgate.proxy.routes import Route
from hookgate.proxy.selection import before_tool_selection, before_wrapped_model
from hookgate.proxy.sessions import fingerprint
from hookgate.proxy.toolgate import Allowed, AskAgain, CallJudge, ToolGate
from hookgate.proxy.upstream import UpstreamError
from hookgate.proxy.wire import WireAnswers, WireCalls
from hookgate.proxy.wire.memory import prompt_of
from hookgate.proxy.workshop import SMALL, Workshop
from hookgate.translator import Framing, JsonArray, ServerSentEvents, show_request
from hookgate.translator.fields import JsonObject, read_list
from hookgate.translator.strictjson import dumps


class Exchange:
    """Carries one judged call: hooks before, the upstream, hooks after, all under one engine."""

    def __init__(self, firing: Firing, house: House) -> None:
        self._firing, self._record, self._trace = firing, firing.record, firing.record.trace
        self._house = house
        self._config = house.config
        self._meter = UsageMeter()

    async def run(self, request: Request, route: Route) -> web.StreamResponse:
        """Answer the request, whatever happens on the way."""
        reply = Reply(request, _framing(route), envelope_of(route), self._record.content)
        async with reply.kept_alive(self._config.streams):
            try:
                outgoing = await self._before(request, route)
                await self._ask(request, outgoing, reply)
            except Answered as answered:
                await reply.answer(self._as_the_client_said(answered.answer))
            except ApiError as error:
                self._house.note_error(self._record, error)
                await reply.refuse(error)
        return await reply.finish()

    # ---- read, BeforeModel, BeforeToolSelection

    async def _before(self, request: Request, route: Route) -> Outgoing:
        envelope = envelope_of(route)
        outer = await read_request(request)
        do, size = request.workshop.do, self._record.request_bytes
        if self._record.content is not None:
            self._record.content.request = outer
        model, body = await do(size, opened, envelope, route, outer)
        check_model(route, model, body)
        await do(size, check_references, body, self._config.routes)
        call = await self._call(request, route, outer, body)
        contents = read_list(body, "contents")
        state = self._house.sessions.of(call.session)
        told = believed(self._house, state, request.headers.get(SHIM_HEADER, ""))
        conversation = Conversation(self._firing, self._house, call, told)
        body = await conversation.joined(body)
        model, body, sent = await before_wrapped_model(self._firing, call, model, body, outer)
        body, allowed = await before_tool_selection(self._firing, call, model, body)
        await conversation.keep(model, body)
        inspected = self._firing.listens_to(AfterModel.name)
        shown = await do(size, _shown, model, body) if inspected else None
        body = with_model(route, model, body)
        closed = envelope.close_request(sent, model, body)
        payload = await do(size, dumps, closed)
        if self._record.content is not None:
            self._record.content.sent = closed
        if self._trace is not None:
            await do(size, self._trace.asks, body)
        prompt = prompt_of(contents) if self._firing.listens_to(AfterAgent.name) else ""
        self._record.model = model
        if self._record.content is None:  # else the parsed request is kept
            request.room.resize(len(payload) + (len(shown.json) if shown else 0))
        return Outgoing(call, route.for_model(model), model, payload, shown, allowed, told, prompt)

    async def _call(self, request: Request, route: Route, outer: JsonObject, body: JsonObject) -> Call:
        """Who makes the call, in which session."""
        envelope = envelope_of(route)
        do, size = request.workshop.do, self._record.request_bytes
        caller = self._house.callers.of(route, request.headers)
        named = named_session(route, request.headers, envelope.session(outer))
        call = await do(size, call_of, caller, route, body, envelope, named)
        session = call.session
        if not call.named:
            said = await do(size, _fingerprints, body)
            session = self._house.sessions.linked(session, said)
        call = replace(call, session=self._house.transcripts.located(session))
        if size > SMALL:
            call.session.call.aside = request.workshop.aside
        self._record.note_call(call.session)
        note_session(call.session.session_id)
        return call

    # ---- forward

    async def _ask(self, request: Request, outgoing: Outgoing, reply: Reply) -> None:
        """Ask the model, and again where it called a tool that it must not, as often as that is wanted."""
        times = self._config.tools.ask_again_at_most
        again = False
        await self._house.begin(self._record)
        self._record.before_seconds = self._record.elapsed()
        for time in range(times + 1):
            judge = self._judge(outgoing, request.workshop, again=again, asks=time < times)
            try:
                await self._forward(request, outgoing, reply, judge)
                break
            except AskAgain as asked:
                size = len(outgoing.payload)
                outgoing = await request.workshop.do(size, outgoing.with_turns, asked.turns)
                again = again or asked.final
                if reply.framing is not None:
                    reply.framing.begin_anew()
            finally:
                judge.close()

    def _judge(self, outgoing: Outgoing, workshop: Workshop, *, again: bool, asks: bool) -> Judge:
        """Who judges the answer: AfterAgent may have asked for it `again`, and may do so once more."""
        call, told, firing = outgoing.call, outgoing.believed, self._firing
        judges: list[CallJudge] = []
        if outgoing.allowed is not None:
            judges.append(Allowed(outgoing.allowed, asks=self._config.tools.refused == "ask_again"))
        if "tools" not in told and firing.listens_to(BeforeTool.name):
            judges.append(WireCalls(firing, call))
        end = None
        if "turns" not in told and firing.listens_to(AfterAgent.name) and not call.wants_json:
            end = WireAnswers(firing, call, outgoing.prompt, again, asks)
        gate = ToolGate(judges, asks=asks) if judges or end else None
        keeps = self._house.transcripts.kept or bool(self._trace and self._trace.keeps_content)
        return Judge(firing, outgoing, workshop, gate, end, keeps=keeps)

    async def _forward(self, request: Request, outgoing: Outgoing, reply: Reply, judge: Judge) -> None:
        headers = {**to_upstream(request.headers, "identity"), hdrs.CONTENT_TYPE: "application/json"}
        self._meter = UsageMeter()
        if self._record.content is not None:
            self._record.content.answer = Kept()
        self._record.holding = judge.held
        try:
            with self._record.asking() as asked:
                sending = self._house.upstreams.open(
                    hdrs.METH_POST, outgoing.route, asked.headers(headers), outgoing.payload, decompress=True
                )
                async with sending as answer:
                    asked.begun(answer.status)
                    await self._after(answer, judge, reply)
        except UpstreamError as error:
            self._record.outcome = "failed"
            if not reply.started:
                raise error.as_api_error() from None
            self._house.note_error(self._record, error.as_api_error())
            reply.cut()
        finally:
            self._record.usage += self._meter.usage()
            self._record.holding = no_bytes

    # ---- AfterModel, answer

    async def _after(self, answer: aiohttp.ClientResponse, judge: Judge, reply: Reply) -> None:
        headers = to_client(answer.headers)
        if not 200 <= answer.status < 300:
            await self._pass_error(answer, judge, reply)
        elif reply.framing is None:
            data = await read_whole(self._chunks(answer))
            if data and judge.has_work:
                data = await judge.whole(data)
                await self._keep_answer(judge)
            await reply.send(answer.status, headers, data)
        else:
            reply.use_headers(headers)
            if judge.has_work:
                await self._stream(answer, judge, reply, reply.framing)
            else:
                await self._copy(answer, reply)

    async def _chunks(self, answer: aiohttp.ClientResponse) -> AsyncIterator[bytes]:
        """The answer's bytes as they come; what the call has used is read off them."""
        async for chunk in answer.content.iter_any():
            self._meter.feed(chunk)
            if self._trace is not None:
                self._trace.feed(chunk)
            if self._record.content is not None:
                self._record.content.answer.add(chunk)
            yield chunk

    async def _stream(
        self, answer: aiohttp.ClientResponse, judge: Judge, reply: Reply, framing: Framing
    ) -> None:
        try:
            async for pieces in judge.stream(read_frames(self._chunks(answer), framing), framing):
                await reply.write(b"".join(framing.encode(piece.frame, piece.data()) for piece in pieces))
        finally:  # what was sent was said, whatever ended it
            await self._keep_answer(judge)

    async def _keep_answer(self, judge: Judge) -> None:
        if self._trace is not None and self._trace.keeps_content:
            self._trace.answers(judge.answer)
        if judge.answer is not None and self._house.transcripts.kept:
            await self._house.transcripts.append(judge.call.session, type="answer", answer=judge.answer)

    async def _copy(self, answer: aiohttp.ClientResponse, reply: Reply) -> None:
        reply.copy_on()
        async for chunk in self._chunks(answer):
            await reply.write(chunk)

    async def _pass_error(self, answer: aiohttp.ClientResponse, judge: Judge, reply: Reply) -> None:
        """The upstream's error, redacted like an answer; as text where the stream had to start already."""
        self._record.outcome = "failed"
        body = await judge.error(await read_whole(answer.content.iter_any()))
        if reply.started:
            raise ApiError(
                502, f"The upstream answered {answer.status}: {body.decode(errors='replace')[:500]}"
            )
        await reply.send(answer.status, to_client(answer.headers), body)

    def _as_the_client_said(self, answer: JsonObject) -> JsonObject:
        """An answer that hooks gave, with what they had been shown instead of the client's own words."""
        session = self._record.session
        return restored(answer, session.call) if session else answer


def _fingerprints(body: JsonObject) -> list[str]:
    """Of the texts of a request's last turn."""
    return [fingerprint(text) for text in last_texts(body)]


def _shown(model: str, body: JsonObject) -> Encoded:
    """What AfterModel hooks are shown of a request."""
    return Encoded(show_request(model, body))


def _framing(route: Route) -> Framing | None:
    if not route.streamed:
        return None
    return ServerSentEvents() if route.alt == "sse" else JsonArray()
