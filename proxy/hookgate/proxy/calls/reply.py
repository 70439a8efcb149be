"""The answer to one client: of the gateway itself, or what its hooks have let pass."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager, nullcontext

from aiohttp import web
from multidict import CIMultiDict

from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.endings import Ended, as_value
from hookgate.proxy.errors import UPSTREAM_FAILED, ApiError
from hookgate.proxy.observe.usage import Usage
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.translator import Framing
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import encode_answer

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

    def __init__(self, call: Call, framing: Framing | None, adapter: DialectAdapter) -> None:
        self.framing = framing
        """The framing of a stream; None for a call with one whole answer."""
        self._call, self._request, self._adapter = call, call.request, adapter
        self._headers: Mapping[str, str] = {}
        self._starting = asyncio.Lock()
        self._quiet_since = 0.0
        self._keep_alives_stopped = False
        self._response: web.StreamResponse | None = None

    @property
    def started(self) -> bool:
        return self._response is not None

    @asynccontextmanager
    async def answering(self) -> AsyncIterator[None]:
        """Send keep-alives while the block makes the answer, and the error that it raises, if any."""
        async with nullcontext() if self.framing is None else self._keeping_alive(self.framing):
            try:
                yield
            except ApiError as error:
                await self.end(as_value(error))

    @asynccontextmanager
    async def _keeping_alive(self, framing: Framing) -> AsyncIterator[None]:
        """Start a stream when its headers are due, and send keep-alives during long silences."""
        self._quiet_since = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._send_keep_alives(framing))
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

    async def _send_keep_alives(self, framing: Framing) -> None:
        loop, settings = asyncio.get_running_loop(), self._call.services.config.streams
        while not self._keep_alives_stopped:
            limit = settings.keep_alive if self.started else settings.header_timeout
            quiet = loop.time() - self._quiet_since
            if quiet >= limit:
                await self._write_keep_alive(framing)
            else:
                # Not longer than the shorter limit, which applies as soon as the stream has started.
                await asyncio.sleep(min(limit - quiet, settings.keep_alive))

    async def _write_keep_alive(self, framing: Framing) -> None:
        response = self._response or await self._start_stream()
        if not self._keep_alives_stopped:
            await self._write_to(response, framing.keep_alive())

    def stop_keep_alives(self) -> None:
        """Switch to unmodified copying: no keep-alives from now on."""
        self._keep_alives_stopped = True

    # ---- an answer of the upstream

    async def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """Send a body. Returns False, and sends nothing, if a stream has started."""
        async with self._starting:
            if self._response is not None:
                return False
            for observer in self._call.observers:
                observer.on_client_bytes(body)
            response = web.Response(status=status, headers=headers, body=body)
            await response.prepare(self._request)
            self._response = response
            return True

    def set_headers(self, headers: Mapping[str, str]) -> None:
        """Set headers of the stream, which has not started."""
        self._headers = headers

    async def write(self, data: bytes) -> None:
        """Write stream bytes; starts the stream."""
        if not data:
            return
        response = self._response or await self._start_stream()
        await self._write_to(response, self.framing.after_keep_alive(data) if self.framing else data)

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

    async def _write_to(self, response: web.StreamResponse, data: bytes) -> None:
        if not data:
            return
        self._quiet_since = asyncio.get_running_loop().time()
        for observer in self._call.observers:
            observer.on_client_bytes(data)
        await response.write(data)

    # ---- the end

    async def end(self, ended: Ended) -> None:
        """Send a hook's answer or an error, which ends the call."""
        if isinstance(ended, ApiError):
            self._call.services.note_error(self._call.record, ended)
            await self._send_error(ended)
            return
        answer, record = ended.answer, self._call.record
        if record.session is not None:  # the hook's answer may contain pseudonyms
            answer = record.session.call_state.restore_pseudonyms(answer)
        if not ended.is_complete:
            answer = {**answer, "modelVersion": record.model}
            answer = answer if self.framing is not None else _with_usage(answer, record.usage)
        await self._send_last(self._adapter.answer(answer))

    async def _send_error(self, error: ApiError) -> None:
        """Send an error, as the last event if the stream has started."""
        if await self.send_whole(error.code, _JSON, error.body()):
            return
        if error.reason in UPSTREAM_FAILED:
            await self.fail(error.body())
        else:
            await self._send_last(self._adapter.failure(error.message))

    async def _send_last(self, body: JsonObject) -> None:
        data = encode_answer(body)
        if self.framing is None:
            await self.send_whole(200, _JSON, data)
        else:
            await self.write(self.framing.event(data) + self.framing.end())

    async def fail(self, error: bytes) -> None:
        """End the stream with an error, JSON on one line. The connection is closed: clients ignore some."""
        if self.framing is not None:
            await self.write(self.framing.error(error))
        self.cut_off()

    def cut_off(self) -> None:
        """Close the connection after what has been written, so that the client detects the missing end."""
        close_mid_answer(self._request)

    async def finish(self) -> web.StreamResponse:
        """End the answer; a stream without events ends as an empty one."""
        response = self._response or await self._start_stream()
        if self.framing is not None:
            await self._write_to(response, self.framing.after_keep_alive(b""))
        await response.write_eof()
        return response


def _with_usage(answer: JsonObject, usage: Usage) -> JsonObject:
    """Return a hook's answer with the tokens that the call used. Without them, LiteLLM rejects it."""
    counts = {
        "promptTokenCount": usage.input_tokens,
        "candidatesTokenCount": usage.output_tokens,
        "totalTokenCount": usage.input_tokens + usage.output_tokens,
    }
    return {"usageMetadata": counts, **answer}
