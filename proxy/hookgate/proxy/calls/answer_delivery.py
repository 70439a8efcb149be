"""Asks the upstream for the answers of one call, and sends them: judged, copied, or as an error."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial

from hookgate.proxy.calls.answer_pipeline import AnswerPipeline
from hookgate.proxy.calls.answer_reading import (
    MAX_ANSWER,
    MAX_ERROR,
    answer_too_large,
    is_error,
    read_whole,
    stream_slices,
)
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.endings import Ended, Instead
from hookgate.proxy.calls.pieces import EarlyEnd, Passed, Piece
from hookgate.proxy.calls.reply import Reply
from hookgate.proxy.errors import UPSTREAM_BROKE, ApiError
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.observe.record import no_bytes
from hookgate.proxy.observe.usage import NO_USAGE, Usage
from hookgate.proxy.routes.table import Route
from hookgate.proxy.server.bodies import SMALL_BODY, work_of
from hookgate.proxy.upstream.client import UpstreamAnswer, with_judged_body
from hookgate.proxy.upstream.connection import UpstreamError
from hookgate.translator import Framing
from hookgate.translator.streaming.edits import LONG_EDIT
from hookgate.translator.strictjson import encode_answer, loads, with_escaped_line_ends

_MAX_REPEATED = MAX_ANSWER // 8
"""The bytes of texts that later events may repeat, up to five times, each byte perhaps as `\\u0001`."""

_SENT_AT_ONCE = 100
"""If more pieces of a stream are sent at once, other calls run in between."""


class AnswerDelivery:
    """Asks the upstream and delivers its answers for one call: several if the model is asked again."""

    def __init__(self, call: Call, reply: Reply, *, counts_usage: bool = True) -> None:
        """`counts_usage`: what the upstream reports is used by this call, and not by an earlier one."""
        self._call, self._record = call, call.record
        self._reply, self._counts_usage = reply, counts_usage
        self._is_delivered = False  # whether the current answer has been sent to its end
        self._meter: AnswerMeter
        """The meter of the current answer."""

    @asynccontextmanager
    async def ask_upstream(
        self, route: Route, headers: Mapping[str, str], payload: bytes | None
    ) -> AsyncIterator[UpstreamAnswer]:
        """Send a request upstream and yield its answer, which `deliver` sends to the client.

        An answer that is cut off after its beginning was sent ends the connection of the client as well, and
        the block quietly. Raises ApiError if no answer arrives.
        """
        self._meter = AnswerMeter(
            streamed=self._reply.framing is not None, note_model=self._record.note_answered_by
        )
        status, attempts = 0, len(self._record.attempts)
        self._is_delivered = was_left = False
        for observer in self._call.observers:
            observer.begin_answer()
        try:
            async with self._call.send(route, headers, payload) as answer:
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
            self._call.services.note_error(self._record, error.as_api_error())
            self._reply.cut_off()
        finally:
            if 200 <= status < 300:
                self._note_end(was_left=was_left)
            self._record.held_bytes = no_bytes

    # ---- the answer

    async def deliver(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Instead | None:
        """Send the answer: judged, copied, or as an error. Returns what comes instead of the rest of it."""
        framing = self._reply.framing
        instead: Instead | None = None
        self._record.held_bytes = pipeline.held_bytes
        if not 200 <= answer.status < 300:
            instead = await self._pass_error(answer, pipeline)
        elif framing is None:
            instead = await self._send_whole(answer, pipeline)
        else:
            self._reply.set_headers(with_judged_body(answer.headers))
            if pipeline.needs_parsing or framing.changes_frames:
                instead = await self._stream(answer, pipeline, framing)
            else:
                await self._copy_stream(answer)
        self._is_delivered = instead is None
        return instead

    async def _pass_error(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Ended | None:
        """Send the upstream's error, redacted like an answer."""
        self._record.outcome = "failed"
        body = await pipeline.redact_error(await read_whole(answer.chunks(), MAX_ERROR))
        if not isinstance(body, bytes):
            return body
        if await self._reply.send_whole(answer.status, with_judged_body(answer.headers), body):
            return None
        problem = f"the upstream answered {answer.status} after the answer to the client had begun"
        self._call.services.note_upstream_failure(self._record, problem)
        error = ApiError(502, f"The upstream answered {answer.status}.", UPSTREAM_BROKE).body()
        await self._reply.fail(encode_answer(loads(body)) if is_error(body) else error)
        return None

    async def _send_whole(self, answer: UpstreamAnswer, pipeline: AnswerPipeline) -> Instead | None:
        data = await read_whole(self._chunks(answer), memory=self._call.answer_memory)
        if pipeline.needs_parsing:
            judged = await pipeline.judge_whole(data, self._meter)
            if not isinstance(judged, bytes):
                return judged
            data = judged
            await self._show_answer(pipeline)
        else:
            await self._call.steps.run_for(work_of(data), self._meter.note_whole, data)
        await self._reply.send_whole(answer.status, with_judged_body(answer.headers), data)
        return None

    async def _stream(
        self, answer: UpstreamAnswer, pipeline: AnswerPipeline, framing: Framing
    ) -> Instead | None:
        """Send the answer as hooks release it. If the answer is cut off, send the part before that, too."""
        # Other framings convert events, so that the pipeline does not parse what was received.
        shares_events = pipeline.needs_parsing and not framing.parses_events
        pipeline.begin_stream(framing, self._meter if shares_events else None)
        observers = self._call.observers
        try:
            while chunk := await answer.read():
                for observer in observers:
                    observer.on_upstream_bytes(chunk)
                slices = stream_slices(chunk)
                for each in slices:
                    if len(slices) > 1:
                        await self._call.steps.pause()
                    if not shares_events:
                        self._meter.feed(each)
                    if instead := await self._send_passed(await pipeline.feed(each), framing):
                        return instead
                self._call.answer_memory.resize(pipeline.buffered_bytes())
            return await self._send_passed(await pipeline.feed(b"", last=True), framing)
        except UpstreamError:
            if instead := await self._send_passed(await pipeline.abandon(), framing):
                return instead
            raise
        finally:  # after an error, too: the client has received this part
            await self._show_answer(pipeline)

    async def _send_passed(self, passed: Passed, framing: Framing) -> Instead | None:
        """Send what has passed the pipeline. Returns what comes instead of the rest, if anything."""
        pieces, instead = (passed.pieces, passed.instead) if isinstance(passed, EarlyEnd) else (passed, None)
        for start in range(0, len(pieces), _SENT_AT_ONCE):
            if start:
                await self._call.steps.pause()
            encoded: list[bytes] = []
            for piece in pieces[start : start + _SENT_AT_ONCE]:
                if piece.response is piece.body and piece.frame.is_plain and not framing.lacks_blank_line:
                    encoded.append(with_escaped_line_ends(piece.frame.raw))
                    continue
                grows = piece.body is not None and framing.may_grow(piece.body)
                if grows and framing.kept_bytes > _MAX_REPEATED:
                    raise answer_too_large()
                work = piece.work + framing.kept_bytes if grows else piece.work
                if work <= SMALL_BODY and (len(piece.frame.raw) <= LONG_EDIT or not piece.may_be_edited):
                    encoded.append(framing.encode(piece.frame, piece.data()))
                else:
                    encoded.append(await self._encode_large(piece, framing, work))
            await self._reply.write(b"".join(encoded))
        return instead

    async def _encode_large(self, piece: Piece, framing: Framing, work: int) -> bytes:
        """Return the bytes of a large piece, or of one with a long edit, made in a thread."""
        steps = self._call.steps
        run = partial(steps.run_for, work) if work > SMALL_BODY else steps.run_long
        data = await run(piece.data)
        if not framing.parses_events:
            return framing.encode(piece.frame, data)
        return await run(framing.encode, piece.frame, data)

    async def _show_answer(self, pipeline: AnswerPipeline) -> None:
        """Pass the answer after all hooks to the observers that need it, with pseudonyms still in place."""
        if (answer := pipeline.answer) is None:
            return
        for observer in self._call.observers:
            if observer.wants_answer:
                observer.on_answer(answer)
                await observer.save()

    async def _copy_stream(self, answer: UpstreamAnswer) -> None:
        self._reply.stop_keep_alives()
        async for chunk in self._chunks(answer):
            await self._reply.write(chunk)

    async def _chunks(self, answer: UpstreamAnswer) -> AsyncIterator[bytes]:
        """Yield the answer's bytes, and show them to the meter of tokens and to observers."""
        while chunk := await answer.read():
            for observer in self._call.observers:
                observer.on_upstream_bytes(chunk)
            await self._call.steps.run_in_slices(self._meter.feed, chunk)
            yield chunk

    # ---- what it used

    def _note_end(self, *, was_left: bool) -> None:
        """Note how the answer ended and what it used. An estimate is added for what it does not report.

        `was_left` says that the client left before its end.
        """
        record, reported = self._record, self.usage
        self._call.services.note_cached(self._call.cached_content, reported.cached_tokens)
        if self._counts_usage:
            record.usage += reported
            expected = record.expected_use()
            if record.in_background and record.usage == NO_USAGE:
                record.expected_in_background = Usage(expected.input_tokens, expected.output_tokens)
            else:
                record.estimated_usage += self._meter.unreported(expected, was_left=was_left)
        if self._is_delivered and self._meter.failure and record.outcome is None:
            self._call.services.note_upstream_failure(record, self._meter.failure)

    @property
    def usage(self) -> Usage:
        """The tokens that the current answer reports, after its last byte."""
        self._meter.finish()
        return self._meter.usage

    def count_usage(self) -> None:
        """Count what the current answer uses for this call."""
        self._counts_usage = True
