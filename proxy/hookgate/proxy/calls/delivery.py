"""Delivers one answer to a client: a reply of the gateway's own, or the judged answer of the upstream."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from multidict import CIMultiDict

from hookgate.proxy.calls.answer import AnswerPipeline
from hookgate.proxy.calls.answer_stages import Cut, Passed, Piece
from hookgate.proxy.calls.context import CallContext
from hookgate.proxy.calls.outcomes import AskAgain, Ended, as_value
from hookgate.proxy.config import StreamSettings
from hookgate.proxy.errors import UPSTREAM_BROKE, UPSTREAM_FAILED, ApiError
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.observe.content import CallObserver
from hookgate.proxy.observe.record import no_bytes
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.routes.table import Route
from hookgate.proxy.server.bodies import (
    MAX_ERROR,
    SMALL_BODY,
    is_error,
    read_whole,
    stream_slices,
    work_of,
)
from hookgate.proxy.upstream.client import UpstreamAnswer, to_client
from hookgate.proxy.upstream.connection import UpstreamError
from hookgate.translator import Framing
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import encode_answer, loads

_PIECES_AT_ONCE = 100
"""If more pieces of a stream are sent at once, other calls run in between."""

_JSON = {"Content-Type": "application/json; charset=UTF-8"}


def close_mid_answer(request: web.BaseRequest) -> None:
    """Close the connection during an answer, so that the client detects that it is incomplete."""
    if request.transport is not None:
        request.transport.close()  # not abort(): what has been written is still sent


class Reply:
    """One answer to one client.

    After a stream has started (`started`), denials are sent in the form that the adapter defines. For
    generateContent, this is a text with finishReason STOP: clients ignore or retry an error inside a stream.
    If the upstream fails, the stream ends with an error, and its connection is closed.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        framing: Framing | None,
        adapter: DialectAdapter,
        observers: Sequence[CallObserver] = (),
    ) -> None:
        """Everything that is sent to the client is passed to `observers`."""
        self.framing = framing
        """The framing of a stream; None for a call with one whole answer."""
        self._request = request
        self._adapter, self._observers = adapter, observers
        self._headers: Mapping[str, str] = {}
        self._starting = asyncio.Lock()
        self._quiet_since = 0.0
        self._keep_alives_stopped = False
        self._response: web.StreamResponse | None = None

    @property
    def started(self) -> bool:
        return self._response is not None

    # ---- whole answers

    async def send_answer(self, body: JsonObject) -> None:
        """Send `body` as the whole answer, or as the last event of the stream."""
        await self._send_last(self._adapter.answer(body))

    async def _send_last(self, body: JsonObject) -> None:
        data = encode_answer(body)
        if self.framing is None:
            await self.send_whole(200, _JSON, data)
        else:
            await self.write(self.framing.event(data) + self.framing.end())

    async def send_error(self, error: ApiError) -> None:
        """Send an error, as the last event if the stream has started."""
        if await self.send_whole(error.code, _JSON, error.body()):
            return
        if error.reason in UPSTREAM_FAILED:
            await self.fail(error.body())
        else:
            await self._send_last(self._adapter.failure(error.message))

    async def fail(self, error: bytes) -> None:
        """End the stream with an error, JSON on one line. The connection is closed: clients ignore some."""
        if self.framing is not None:
            await self.write(self.framing.error(error))
        self.cut_off()

    async def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """Send a body. Returns False, and sends nothing, if a stream has started."""
        async with self._starting:
            if self._response is not None:
                return False
            for observer in self._observers:
                observer.on_client_bytes(body)
            response = web.Response(status=status, headers=headers, body=body)
            await response.prepare(self._request)
            self._response = response
            return True

    # ---- streams

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Set headers of the stream, which has not started."""
        self._headers = headers

    def stop_keep_alives(self) -> None:
        """Switch to unmodified copying: no keep-alives from now on."""
        self._keep_alives_stopped = True

    async def write(self, data: bytes) -> None:
        """Write stream bytes; starts the stream."""
        if not data:
            return
        response = self._response or await self._start_stream()
        await self._write_to(response, self.framing.after_keep_alive(data) if self.framing else data)

    async def _write_keep_alive(self, framing: Framing) -> None:
        response = self._response or await self._start_stream()
        if not self._keep_alives_stopped:
            await self._write_to(response, framing.keep_alive())

    async def _write_to(self, response: web.StreamResponse, data: bytes) -> None:
        if not data:
            return
        self._quiet_since = asyncio.get_running_loop().time()
        for observer in self._observers:
            observer.on_client_bytes(data)
        await response.write(data)

    async def _start_stream(self) -> web.StreamResponse:
        async with self._starting:  # the keep-alive may start it at the same moment
            if self._response is None:
                content_type = self.framing.content_type if self.framing else "application/json"
                # Proxies must not buffer the events of a stream.
                headers = CIMultiDict({"Content-Type": content_type, "X-Accel-Buffering": "no"})
                headers.update(self._headers)
                response = web.StreamResponse(headers=headers)
                await response.prepare(self._request)
                self._response = response  # only now: others may write to it at once
        return self._response

    async def finish(self) -> web.StreamResponse:
        """End the answer; a stream without events ends as an empty one."""
        response = await self._start_stream()
        if self.framing is not None:
            await self._write_to(response, self.framing.after_keep_alive(b""))
        await response.write_eof()
        return response

    def cut_off(self) -> None:
        """Close the connection after what has been written, so that the client detects the missing end."""
        close_mid_answer(self._request)

    @asynccontextmanager
    async def sending_keep_alives(self, settings: StreamSettings) -> AsyncIterator[None]:
        """Start a pending stream when its headers are due, and send keep-alives during long silences."""
        if self.framing is None:
            yield
            return
        self._quiet_since = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._send_keep_alives(self.framing, settings))
        try:
            yield
        finally:
            try:
                async with self._starting:
                    pass  # headers that are being sent are sent to their end
            finally:
                task.cancel()
            await asyncio.wait([task])
            if not task.cancelled():
                task.exception()  # the client may have disconnected; the next write reports it

    async def _send_keep_alives(self, framing: Framing, settings: StreamSettings) -> None:
        loop = asyncio.get_running_loop()
        while not self._keep_alives_stopped:
            limit = settings.keep_alive if self.started else settings.header_timeout
            quiet = loop.time() - self._quiet_since
            if quiet >= limit:
                await self._write_keep_alive(framing)
            else:
                # Not longer than the shorter limit, which applies as soon as the stream has started.
                await asyncio.sleep(min(limit - quiet, settings.keep_alive))


# ---- answers of the upstream


@asynccontextmanager
async def answering(context: CallContext, reply: Reply) -> AsyncIterator[None]:
    """Send keep-alives to the client while the block runs, and the error that it raises, if any."""
    async with reply.sending_keep_alives(context.services.config.streams):
        try:
            yield
        except ApiError as error:
            await end_call(context, reply, as_value(error))


async def end_call(context: CallContext, reply: Reply, ended: Ended) -> None:
    """Send the client a hook's answer or an error, which ends the call."""
    record = context.record
    if isinstance(ended, ApiError):
        context.services.note_error(record, ended)
        await reply.send_error(ended)
        return
    answer, session = ended.answer, record.session
    if session is not None:  # the hook's answer may contain pseudonyms
        answer = session.call_state.restore_pseudonyms(answer)
    if not ended.is_complete:
        answer = {**answer, "modelVersion": record.model}
        answer = answer if reply.framing is not None else _with_usage(answer, record.usage)
    await reply.send_answer(answer)


def _with_usage(answer: JsonObject, usage: Usage) -> JsonObject:
    """Return a hook's answer with the tokens that the call used. Without them, LiteLLM rejects it."""
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }
    return {"usageMetadata": counts, **answer}


async def meter_chunk(context: CallContext, meter: AnswerMeter, chunk: bytes) -> None:
    """Show a chunk of an answer to the meter, and let other calls run if that takes long."""
    slices = stream_slices(chunk)
    for each in slices:
        if len(slices) > 1:
            await context.pause()
        meter.feed(each)


class AnswerDelivery:
    """Delivers the answers of one call: one, or several if the model is asked again."""

    def __init__(self, context: CallContext, reply: Reply) -> None:
        self._context, self._record = context, context.record
        self._reply = reply
        self.counts_usage = True
        """Whether the tokens that the upstream reports are used by this call, and not by an earlier one."""
        self._is_delivered = False  # whether the current answer has been sent to its end
        self._meter: AnswerMeter
        """The meter of the current attempt."""

    @property
    def usage(self) -> Usage:
        """The tokens that the current answer reports, after its last byte."""
        self._meter.finish()
        return self._meter.usage

    @asynccontextmanager
    async def ask_upstream(
        self, route: Route, headers: Mapping[str, str], payload: bytes | None
    ) -> AsyncIterator[UpstreamAnswer]:
        """Send a request upstream and yield its answer, which `deliver` sends to the client.

        An answer that is cut off ends the connection of the client as well. Raises ApiError if no answer
        arrives.
        """
        self._meter = AnswerMeter(streamed=self._reply.framing is not None)
        status, attempts = 0, len(self._record.attempts)
        self._is_delivered = was_left = False
        for observer in self._context.observers:
            observer.begin_answer()
        try:
            async with self._context.send(route, headers, payload) as answer:
                status = answer.status
                yield answer
        except (asyncio.CancelledError, ConnectionError):  # the client has left
            was_left = True
            if not status and len(self._record.attempts) > attempts:
                status = 200  # the upstream may have begun to answer
            raise
        except UpstreamError as error:
            self._record.outcome = "failed"
            if not self._reply.started:
                raise error.as_api_error() from None
            self._context.services.note_error(self._record, error.as_api_error())
            self._reply.cut_off()
        finally:
            if 200 <= status < 300:
                self._settle(was_left=was_left)
            self._record.held_bytes = no_bytes

    def _settle(self, *, was_left: bool) -> None:
        """Note how the answer ended and what it used. An estimate is added for what it does not report.

        `was_left` says that the client left before its end.
        """
        record, reported = self._record, self.usage
        if self.counts_usage:
            record.usage += reported
        if self.counts_usage and not record.continues_in_background:
            record.estimated_usage += self._meter.unreported(record.expected_use(), was_left=was_left)
        if self._is_delivered and self._meter.failure and record.outcome is None:
            self._context.services.note_upstream_failure(record, self._meter.failure)

    async def deliver(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | AskAgain | None:
        """Send the answer: judged, copied, or as an error. Returns what comes instead of the rest of it."""
        outcome = await self._send(answer, pipeline)
        self._is_delivered = outcome is None
        return outcome

    async def _send(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | AskAgain | None:
        reply = self._reply
        self._record.held_bytes = pipeline.held_bytes
        if not 200 <= answer.status < 300:
            return await self._pass_error(answer, pipeline)
        if reply.framing is None:
            return await self._send_whole(answer, pipeline)
        reply.set_headers(to_client(answer.headers))
        if pipeline.needs_parsing or reply.framing.needs_parsing:
            return await self._stream(answer, pipeline, reply.framing)
        await self._copy_stream(answer)
        return None

    async def _send_whole(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | AskAgain | None:
        data = await read_whole(self._chunks(answer))
        if pipeline.needs_parsing:
            judged = await pipeline.judge_whole(data)
            if not isinstance(judged, bytes):
                return judged
            data = judged
            await self._show_answer(pipeline)
        await self._reply.send_whole(answer.status, to_client(answer.headers), data)
        return None

    async def _copy_stream(self, answer: UpstreamAnswer) -> None:
        self._reply.stop_keep_alives()
        async for chunk in self._chunks(answer):
            await self._reply.write(chunk)

    async def _chunks(self, answer: UpstreamAnswer) -> AsyncIterator[bytes]:
        """Yield the answer's bytes, and show them to the meter of tokens and to observers."""
        while chunk := await answer.read():
            for observer in self._context.observers:
                observer.on_upstream_bytes(chunk)
            await meter_chunk(self._context, self._meter, chunk)
            yield chunk

    async def _stream(
        self, answer: UpstreamAnswer, pipeline: AnswerPipeline, framing: Framing
    ) -> Ended | AskAgain | None:
        """Send the answer as hooks release it. If the answer is cut off, send the part before that, too."""
        pipeline.begin_stream(framing)
        observers = self._context.observers
        try:
            while chunk := await answer.read():
                for observer in observers:
                    observer.on_upstream_bytes(chunk)
                slices = stream_slices(chunk)
                for each in slices:
                    if len(slices) > 1:
                        await self._context.pause()
                    self._meter.feed(each)
                    if outcome := await self._send_passed(await pipeline.feed(each), framing):
                        return outcome
            return await self._send_passed(await pipeline.feed(b"", last=True), framing)
        except UpstreamError:
            if outcome := await self._send_passed(await pipeline.abandon(), framing):
                return outcome
            raise
        finally:  # after an error, too: the client has received this part
            await self._show_answer(pipeline)

    async def _send_passed(self, passed: Passed, framing: Framing) -> Ended | AskAgain | None:
        """Send what has passed the pipeline. Returns what comes next if this is the end of the answer."""
        pieces, outcome = (passed.pieces, passed.outcome) if isinstance(passed, Cut) else (passed, None)
        for start in range(0, len(pieces), _PIECES_AT_ONCE):
            if start:
                await self._context.pause()
            encoded: list[bytes] = []
            for piece in pieces[start : start + _PIECES_AT_ONCE]:
                if piece.response is piece.body and piece.frame.is_plain and not framing.is_open:
                    encoded.append(piece.frame.raw)
                elif (work := work_of(piece.frame.raw)) <= SMALL_BODY:
                    encoded.append(framing.encode(piece.frame, piece.data()))
                else:
                    encoded.append(await self._encode_large(piece, framing, work))
            await self._reply.write(b"".join(encoded))
        return outcome

    async def _encode_large(self, piece: Piece, framing: Framing, work: int) -> bytes:
        """Return the bytes of a piece with this work, made in a thread."""
        worker = self._context.request.body_worker
        data = await worker.run(work, piece.data)
        return await worker.run(work if framing.parses_events else 0, framing.encode, piece.frame, data)

    async def _show_answer(self, pipeline: AnswerPipeline) -> None:
        """Pass the answer after all hooks to the observers that need it, with pseudonyms still in place."""
        if (answer := pipeline.answer) is None:
            return
        for observer in self._context.observers:
            if observer.wants_answer:
                observer.on_answer(answer)
                await observer.save()

    async def _pass_error(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | None:
        """Send the upstream's error, redacted like an answer."""
        self._record.outcome = "failed"
        body = await pipeline.redact_error(await read_whole(answer.chunks(), MAX_ERROR))
        if not isinstance(body, bytes):
            return body
        if await self._reply.send_whole(answer.status, to_client(answer.headers), body):
            return None
        problem = f"the upstream answered {answer.status} after the answer to the client had begun"
        self._context.services.note_upstream_failure(self._record, problem)
        error = ApiError(502, f"The upstream answered {answer.status}.", UPSTREAM_BROKE).body()
        await self._reply.fail(encode_answer(loads(body)) if is_error(body) else error)
        return None
