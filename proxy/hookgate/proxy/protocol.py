"""What hookgate makes of aiohttp's requests and connections: ids, errors in Google's shape, a good end."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from aiohttp import HttpVersion10, HttpVersion11, hdrs, web
from aiohttp.http_exceptions import ContentEncodingError
from multidict import CIMultiDict

from hookgate.proxy.config import Limits
from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import RECEIPT_HEADER
from hookgate.proxy.limits import Timed, TooSlow, unread_bytes, unsent_bytes
from hookgate.proxy.logs import log_gateway, request_id
from hookgate.proxy.places import Guest, Stage
from hookgate.proxy.records import CallRecord
from hookgate.proxy.workshop import Room, Workshop

REQUEST_ID = "X-Request-Id"


class Request(web.BaseRequest):
    """A request with an id of its own, the client's if that is sane; it goes upstream and back."""

    ATTRS = web.BaseRequest.ATTRS | frozenset(
        {"answering", "id", "is_call", "is_http1", "record", "room", "workshop"}
    )

    def __init__(
        self, message: Any, payload: Any, protocol: Any, *rest: Any, workshop: Workshop, **limits: Any
    ) -> None:
        headers = CIMultiDict(message.headers)
        self.id = headers[REQUEST_ID] = request_id(headers.getall(REQUEST_ID, ()))
        self.record = CallRecord(request_id=self.id)
        self.workshop, self.room = workshop, Room(workshop)
        self.is_call = True
        """Whether a receipt is kept of it: of what operators ask there is none."""
        self.answering: Callable[[int], Awaitable[None]] | None = None
        """What is to be done before an answer with such a status begins."""
        self.is_http1 = message.version in (HttpVersion10, HttpVersion11)
        # An answer takes its request's version; to one of another version it is HTTP/1.1's.
        version = message.version if self.is_http1 else HttpVersion11
        super().__init__(
            message._replace(headers=headers, version=version), payload, protocol, *rest, **limits
        )

    @property
    def keep_alive(self) -> bool:
        """Whether the connection lives on: not behind a body that broke off, nor when the server stops."""
        connection: Connection = self._protocol  # type: ignore[assignment]  # ours are
        return not (self._message.should_close or self.content.exception() or connection.stopping)

    @property
    def dropped(self) -> bool:
        """Whether the gateway has ended its connection, and no client that left."""
        connection: Connection = self._protocol  # type: ignore[assignment]  # ours are
        return connection.dropped

    async def _prepare_hook(self, response: web.StreamResponse) -> None:
        if self.answering is not None:
            await self.answering(response.status)
        response.headers[REQUEST_ID] = self.id
        if self.is_call:
            response.headers[RECEIPT_HEADER] = self.record.id
        self.record.first_seconds = self.record.elapsed()
        response.headers.pop(hdrs.SERVER, None)  # it would tell versions


class Server(web.Server):
    """What a connection knows of the server that it belongs to."""

    stopping = False
    """Whether it takes no more requests."""

    has_calls = True
    """Whether clients' calls come to it, which are not ended for others."""

    kept_alive: float | None = None
    """Seconds that a connection without a request is kept, where they are not as ever."""

    def moved(self, guest: Guest, stage: Stage) -> None:
        """A connection has come to another stage."""


class Connection(Timed):
    """One connection. What is not HTTP, or does not come in time, is told in Google's error shape."""

    __slots__ = ("_server", "dropped", "guest")

    def __init__(self, server: Server, limits: Limits, loop: asyncio.AbstractEventLoop, guest: Guest) -> None:
        super().__init__(server, limits, loop, server.kept_alive)
        self._server = server
        self.guest = guest
        self.dropped = False  # whether it was ended with its client still there

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.guest.close = self.make_way
        if self._server.stopping:  # its handshake was under way
            self._loop.call_soon(self.stop)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self._move()
        if self.stopping:
            self._close_if_done()

    async def _handle_request(self, *request: Any) -> Any:
        try:
            return await super()._handle_request(*request)
        finally:
            self._move()

    def _refuse_head(self) -> None:
        super()._refuse_head()
        self._move()

    def handle_error(
        self,
        request: web.BaseRequest,
        status: int = 500,
        exc: BaseException | None = None,
        message: str | None = None,
    ) -> web.StreamResponse:
        # aiohttp would log, and answer with, the request line: that may hold a key.
        log_gateway.info("a connection from %s failed: %s", request.remote, type(exc).__name__)
        if request.writer.output_size:
            raise ConnectionError("an answer has begun already")
        code = 415 if isinstance(exc, ContentEncodingError) else 400
        what = str(exc) if isinstance(exc, TooSlow) else type(exc).__name__
        response = error_response(ApiError(code, f"This is not a valid HTTP request ({what})."))
        response.force_close()
        return response

    def log_exception(self, *args: Any, **kw: Any) -> None:
        # A body that broke off after its answer: no failure of the gateway, and no traceback.
        log_gateway.info("a connection ended in the middle of a request")

    def stop(self) -> None:
        """Finish the request that is here or on its way, and take no other."""
        self.stopping = True
        self._heard = self._loop.time()
        self._close_if_done()

    def abort(self) -> None:
        """End now; what the client has not taken is lost."""
        if self._wire is not None:
            self.dropped = True
            self._wire.abort()

    def make_way(self) -> bool:
        """End now, for another connection; False when that would cost its client an answer."""
        if self._wire is None:
            return True  # it has ended already
        stage = self.guest.stage
        if stage is Stage.BODY and self._server.has_calls:
            owes = unread_bytes(self._wire) or not self.has_slow_body()
        else:
            owes = stage is Stage.IDLE and (unread_bytes(self._wire) or unsent_bytes(self._wire))
        if owes:
            return False
        self.abort()
        return True

    def _move(self) -> None:
        if (stage := self.stage) is not self.guest.stage:
            self._server.moved(self.guest, stage)

    def _close_if_done(self) -> None:
        if not self._body.is_eof() or self._head_since is not None:
            return
        if self._waiter is not None and not self._waiter.done():
            self.force_close()
        else:
            self.close()  # after the answer that is under way


def error_response(error: ApiError) -> web.Response:
    """An error as an answer."""
    return web.Response(status=error.code, body=error.body(), content_type="application/json")
