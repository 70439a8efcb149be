"""The answer to one client: an error, a whole answer, or a stream whose headers may be sent early."""

import asyncio
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager

from aiohttp import web
from multidict import CIMultiDict

from hookgate.proxy.config import StreamSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.observe.content import CallObserver
from hookgate.proxy.routing.envelopes import Envelope
from hookgate.translator import Framing
from hookgate.translator.fields import JsonObject
from hookgate.translator.streaming.framing import KEEP_ALIVE
from hookgate.translator.strictjson import dumps

_JSON = {"Content-Type": "application/json; charset=UTF-8"}


def abort_connection(request: web.BaseRequest) -> None:
    """Abort the connection during an answer, so that the client detects that it is incomplete."""
    if request.transport is not None:
        request.transport.close()


class Reply:
    """One answer to one client.

    After a stream has started (`started`), errors are sent in the form that the envelope defines. For
    generateContent, this is a text with finishReason STOP: clients ignore or retry an error inside a stream.
    """

    def __init__(
        self,
        request: web.BaseRequest,
        framing: Framing | None,
        envelope: Envelope,
        observers: Sequence[CallObserver] = (),
    ) -> None:
        """Pass everything that is sent to the client to `observers`."""
        self.framing = framing
        """The framing of a stream; None for a call with one whole answer."""
        self._request = request
        self._envelope, self._observers = envelope, observers
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
        await self._send_last(self._envelope.answer(body))

    async def _send_last(self, body: JsonObject) -> None:
        data = dumps(body)
        if self.framing is None:
            await self.send_whole(200, _JSON, data)
        else:
            await self.write(self.framing.event(data) + self.framing.end())

    async def send_error(self, error: ApiError) -> None:
        """Send an error, as the last event if the stream has started."""
        if not await self.send_whole(error.code, _JSON, error.body()):
            await self._send_last(self._envelope.failure(error.message))

    async def send_whole(self, status: int, headers: Mapping[str, str], body: bytes) -> bool:
        """Send a body. Returns False, and sends nothing, if a stream has started."""
        async with self._starting:
            if self._response is not None:
                return False
            for observer in self._observers:
                observer.see_client_bytes(body)
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
        self._quiet_since = asyncio.get_running_loop().time()
        for observer in self._observers:
            observer.see_client_bytes(data)
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
        await response.write_eof()
        return response

    def abort(self) -> None:
        """Abort the connection."""
        abort_connection(self._request)

    @asynccontextmanager
    async def keeping_alive(self, settings: StreamSettings) -> AsyncIterator[None]:
        """Start a pending stream when its headers are due, and send keep-alives during long silences."""
        if self.framing is None:
            yield
            return
        self._quiet_since = asyncio.get_running_loop().time()
        task = asyncio.create_task(self._keep_alive(settings))
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

    async def _keep_alive(self, settings: StreamSettings) -> None:
        loop = asyncio.get_running_loop()
        while not self._keep_alives_stopped:
            limit = settings.keep_alive if self.started else settings.header_timeout
            quiet = loop.time() - self._quiet_since
            if quiet >= limit:
                await self.write(KEEP_ALIVE)
            else:
                # Not longer than the shorter limit, which applies as soon as the stream has started.
                await asyncio.sleep(min(limit - quiet, settings.keep_alive))
