"""One judged call that generates content, from its request to the end of its answer, in processing order."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Collection

from aiohttp import hdrs, web

from hookgate.hooks import AfterAgent, AfterModel, BeforeModel, BeforeTool
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.call.answer import AnswerPipeline
from hookgate.proxy.call.context import CallContext, OutgoingCall, RecordingEngine
from hookgate.proxy.call.derived_events import (
    SESSION_EVENTS,
    ToolCallEvents,
    TurnEndEvents,
    before_session_events,
    engine_for_derived,
)
from hookgate.proxy.call.reply import Reply
from hookgate.proxy.call.stages import Piece
from hookgate.proxy.call.tool_gate import AllowedTools, CallJudge, RetryModel, ToolGate
from hookgate.proxy.call.verdicts import ReplacementAnswer, before_tool_selection, before_wrapped_model
from hookgate.proxy.errors import ApiError
from hookgate.proxy.http.bodies import SLICE, read_request, read_whole
from hookgate.proxy.http.client import UpstreamAnswer
from hookgate.proxy.http.upstream_connection import UpstreamError
from hookgate.proxy.identity.memory import prompt_of
from hookgate.proxy.identity.sessions import SHIM_HEADER, OpenSession
from hookgate.proxy.observe.content import SessionTranscript
from hookgate.proxy.observe.record import no_bytes
from hookgate.proxy.observe.usage import UsageMeter, make_meter
from hookgate.proxy.routing.envelopes import (
    check_model,
    check_references,
    envelope_of,
    open_request_body,
    with_model,
)
from hookgate.proxy.routing.headers import to_client, to_upstream
from hookgate.translator import Framing, declared_descriptions, show_request
from hookgate.translator.fields import JsonObject, read_list
from hookgate.translator.strictjson import dumps


class GenerationCall:
    """Processes one call that generates content: hooks before the model, the upstream, hooks after it.

    All hooks of the call run with one engine.
    """

    def __init__(self, context: CallContext, engine: RecordingEngine, body: JsonObject | None = None) -> None:
        """`body` is the body of the request, if it has been read."""
        self._body = body
        self._context, self._engine, self._record = context, engine, context.record
        self._envelope = envelope_of(context.route)
        self._config = context.services.config
        self._meter: UsageMeter
        """The meter of the current attempt."""

    async def run(self) -> web.StreamResponse:
        """Answer the request; denials and upstream errors are answers, too."""
        context, envelope = self._context, self._envelope
        reply = Reply(context.request, envelope.framing(context.route), envelope, context.observers)
        async with reply.keeping_alive(self._config.streams):
            try:
                outgoing = await self._prepare_request()
                await self._ask_model(outgoing, reply)
            except ReplacementAnswer as synthetic:
                await reply.send_answer(self._with_originals(synthetic.answer))
            except ApiError as error:
                context.services.note_error(self._record, error)
                await reply.send_error(error)
        return await reply.finish()

    # ---- read, BeforeModel, BeforeToolSelection

    async def _prepare_request(self) -> OutgoingCall:
        """Read the request and run its hooks. Raises ReplacementAnswer or ApiError if the call ends here."""
        context, engine, route = self._context, self._engine, self._context.route
        run_step, envelope = context.run_step, self._envelope
        outer = await read_request(context.request) if self._body is None else self._body
        self._body = None
        for observer in context.observers:
            observer.see_request(outer)
        model, body = await run_step(open_request_body, envelope, route, outer)
        check_model(route, model, body)
        self._record.model = model
        await run_step(check_references, body, self._config.routes)
        call, known = await context.begin_judged_call(body, envelope, envelope.session(outer))
        contents = read_list(body, "contents")
        reported = self._reported(known)
        if known.is_kept or reported or engine.listens_to(*SESSION_EVENTS):
            body = await before_session_events(context, engine, call, known, body, reported)
        event, outer = await before_wrapped_model(engine, call, model, body, outer)
        model = event.model
        body, allowed = await before_tool_selection(engine, call, model, event.body)
        self._observe_transcript(known)
        after_model = engine.plan(AfterModel(SharedValue({}), {}, model), call.session)
        shown = await run_step(_shown_request, event, body) if after_model.groups else None
        prompt, descriptions = "", {}
        if engine.listens_to(BeforeTool.name, AfterAgent.name):
            prompt, descriptions = prompt_of(contents), declared_descriptions(body)
        payload = await self._payload(outer, model, with_model(route, model, body))
        self._record.model = model
        if self._record.content is None:  # otherwise the parsed request is needed later
            memory = context.request.memory_lease
            memory.resize(len(payload) + (memory.size if shown else 0))
        routed = route.for_model(model)
        return OutgoingCall(
            call, routed, model, payload, after_model, shown, allowed, reported, prompt, descriptions
        )

    async def _payload(self, outer: JsonObject, model: str, body: JsonObject) -> bytes:
        """Return the request as it is sent upstream, and show it to the observers."""
        run_step = self._context.run_step
        closed = await run_step(self._envelope.close_request, outer, model, body)
        payload = await run_step(dumps, closed)
        for observer in self._context.observers:
            await run_step(observer.see_upstream_request, model, closed, body)
            await observer.save()
        return payload

    def _reported(self, known: OpenSession) -> Collection[str]:
        """Return the kinds of events that a shim reports, by its events so far or its claim in this call."""
        if not self._config.shims.believed:
            return ()
        claimed = self._context.request.headers.get(SHIM_HEADER, "")
        return known.state.reported_kinds(claimed)

    def _observe_transcript(self, known: OpenSession) -> None:
        if (transcripts := self._context.services.transcripts) is not None:
            self._context.observers.append(SessionTranscript(transcripts, known))

    # ---- record, forward

    async def _ask_model(self, outgoing: OutgoingCall, reply: Reply) -> None:
        """Call the model, and call it again if a hook refuses a tool call or the final answer.

        The configuration limits how often.
        """
        times = self._config.tools.ask_again_at_most
        again = False
        for attempt in range(times + 1):
            pipeline = self._pipeline(outgoing, again=again, may_retry=attempt < times)
            try:
                await self._forward(outgoing, reply, pipeline)
                break
            except RetryModel as retry:
                size, worker = len(outgoing.payload), self._context.request.body_worker
                outgoing = await worker.run(size, outgoing.with_turns, retry.turns)
                again = again or retry.final
                if reply.framing is not None:
                    reply.framing.begin_anew()
            finally:
                pipeline.close()

    def _pipeline(self, outgoing: OutgoingCall, *, again: bool, may_retry: bool) -> AnswerPipeline:
        """Return the pipeline for the answer of one attempt.

        `again`: a hook has rejected an earlier answer. `may_retry`: the model can be asked again.
        """
        call, engine = outgoing.call, self._engine
        judges: list[CallJudge] = []
        if outgoing.allowed is not None:
            retries = self._config.tools.refused == "ask_again"
            judges.append(AllowedTools(outgoing.allowed, self._record, retries=retries))
        end = None
        if engine.listens_to(BeforeTool.name, AfterAgent.name):
            of_tools = engine_for_derived(engine, "tools", outgoing.reported)
            if of_tools.listens_to(BeforeTool.name):
                judges.append(ToolCallEvents(of_tools, call, outgoing.descriptions))
            of_turns = engine_for_derived(engine, "turns", outgoing.reported)
            if of_turns.listens_to(AfterAgent.name) and not call.wants_json:
                end = TurnEndEvents(of_turns, call, outgoing.prompt, again, may_retry)
        gate = ToolGate(judges, retries=may_retry) if judges or end else None
        keeps = any(observer.wants_answer for observer in self._context.observers)
        return AnswerPipeline(
            engine, outgoing, self._context.request.body_worker, gate, end, keep_answer=keeps
        )

    async def _forward(self, outgoing: OutgoingCall, reply: Reply, pipeline: AnswerPipeline) -> None:
        context = self._context
        headers = to_upstream(context.request.headers, "identity") | {hdrs.CONTENT_TYPE: "application/json"}
        self._meter = make_meter(self._envelope.usage_name)
        for observer in context.observers:
            observer.begin_answer()
        self._record.holding = pipeline.held_bytes
        try:
            async with context.send(outgoing.route, headers, outgoing.payload) as answer:
                await self._delivery_of(answer, pipeline, reply)
        except UpstreamError as error:
            self._record.outcome = "failed"
            if not reply.started:
                raise error.as_api_error() from None
            context.services.note_error(self._record, error.as_api_error())
            reply.abort()
        finally:
            self._record.usage += self._meter.usage()
            self._record.holding = no_bytes

    # ---- AfterModel, answer

    def _delivery_of(self, answer: UpstreamAnswer, pipeline: AnswerPipeline, reply: Reply) -> Awaitable[None]:
        """Return the coroutine or task that sends the answer: judged, copied, or as an error.

        This is not a coroutine itself, because each chunk would resume it, too.
        """
        if not 200 <= answer.status < 300:
            return self._pass_error(answer, pipeline, reply)
        if reply.framing is None:
            return self._send_whole(answer, pipeline, reply)
        reply.set_headers(to_client(answer.headers))
        if pipeline.needs_parsing:
            # In a task of its own, so that an event resumes this coroutine alone, and not those around it.
            return asyncio.create_task(self._stream(answer, pipeline, reply, reply.framing))
        return self._copy_stream(answer, reply)

    async def _send_whole(self, answer: UpstreamAnswer, pipeline: AnswerPipeline, reply: Reply) -> None:
        data = await read_whole(self._chunks(answer))
        if data and pipeline.needs_parsing:
            data = await pipeline.judge_whole(data)
            await self._show_answer(pipeline)
        await reply.send_whole(answer.status, to_client(answer.headers), data)

    async def _copy_stream(self, answer: UpstreamAnswer, reply: Reply) -> None:
        reply.stop_keep_alives()
        async for chunk in self._chunks(answer):
            await reply.write(chunk)

    async def _chunks(self, answer: UpstreamAnswer) -> AsyncIterator[bytes]:
        """Yield the answer's bytes, and show them to the meter of tokens and to observers."""
        while chunk := await answer.read():
            self._meter.feed(chunk)
            for observer in self._context.observers:
                observer.see_upstream_bytes(chunk)
            yield chunk

    async def _stream(
        self, answer: UpstreamAnswer, pipeline: AnswerPipeline, reply: Reply, framing: Framing
    ) -> None:
        """Send the answer as hooks release it. If the answer is cut off, send the part before that, too."""
        pipeline.begin_stream(framing)
        observers = self._context.observers
        try:
            while chunk := await answer.read():
                self._meter.feed(chunk)
                for observer in observers:
                    observer.see_upstream_bytes(chunk)
                for start in range(0, len(chunk), SLICE):
                    if start:
                        await asyncio.sleep(0)
                    pieces = await pipeline.feed(chunk[start : start + SLICE])
                    await _send_pieces(pieces, pipeline, reply, framing)
            await _send_pieces(await pipeline.feed(b"", last=True), pipeline, reply, framing)
        except UpstreamError:
            await _send_pieces(await pipeline.abandon(), pipeline, reply, framing)
            raise
        finally:  # after an error, too: the client has received this part
            await self._show_answer(pipeline)

    async def _show_answer(self, pipeline: AnswerPipeline) -> None:
        """Pass the answer after all hooks to the observers that need it, with pseudonyms still in place."""
        if (answer := pipeline.answer) is None:
            return
        for observer in self._context.observers:
            if observer.wants_answer:
                observer.see_answer(answer)
                await observer.save()

    async def _pass_error(self, answer: UpstreamAnswer, pipeline: AnswerPipeline, reply: Reply) -> None:
        """Send the upstream's error, redacted like an answer.

        Raises ApiError if the stream has started; `run` sends it as text.
        """
        self._record.outcome = "failed"
        body = await pipeline.redact_error(await read_whole(answer.chunks()))
        if not await reply.send_whole(answer.status, to_client(answer.headers), body):
            raise ApiError(
                502, f"The upstream answered {answer.status}: {body.decode(errors='replace')[:500]}"
            )

    def _with_originals(self, answer: JsonObject) -> JsonObject:
        """Return a hook's answer with pseudonyms restored."""
        session = self._record.session
        return session.call_state.restore_pseudonyms(answer) if session else answer


def _shown_request(event: BeforeModel, body: JsonObject) -> SharedValue:
    """Return the request as shown to AfterModel hooks: `body`, which may be that of the event."""
    same = body is event.body
    return SharedValue(event.shown_request() if same else show_request(event.model, body))


async def _send_pieces(pieces: list[Piece], pipeline: AnswerPipeline, reply: Reply, framing: Framing) -> None:
    """Send pieces, then raise the pending error of the pipeline, if there is one."""
    encoded: list[bytes] = []
    for piece in pieces:
        if piece.response is piece.body and piece.frame.is_plain and not framing.is_open:
            encoded.append(piece.frame.raw)
        else:
            encoded.append(framing.encode(piece.frame, piece.data()))
    await reply.write(b"".join(encoded))
    if pipeline.pending_error is not None:
        raise pipeline.pending_error
