"""Forwards requests that no hook inspects, and their answers; both are streamed without buffering."""

import re
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from dataclasses import dataclass
from urllib.parse import SplitResult, urlsplit

from aiohttp import hdrs, web

from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.reply import close_mid_answer
from hookgate.proxy.errors import ApiError, body_refused, request_refused
from hookgate.proxy.observe.answer_meter import AnswerMeter
from hookgate.proxy.routes.table import Route
from hookgate.proxy.server.bodies import content_coding
from hookgate.proxy.upstream.client import UpstreamAnswer, has_controls, to_client, to_upstream
from hookgate.proxy.upstream.connection import UpstreamError

MAX_UNSEEN = 64 * 1024
"""The maximum size in bytes of a body that is forwarded without hooks: Code Assist's account settings and
metrics, and the empty bodies of requests to cancel or delete.
"""

_PARTS = (hdrs.CONTENT_RANGE, hdrs.RANGE)  # parts of files; judged answers are never partial

_PORTS = {"http": 80, "https": 443}
_UPLOAD_URLS = ("X-Goog-Upload-URL", "X-Goog-Upload-Control-URL")


async def forward_unjudged(
    call: Call, before_answer: Callable[[int], Awaitable[None]] | None = None
) -> web.StreamResponse:
    """Forward the request and stream its answer. Raises ApiError if no answer can be started.

    `before_answer` is called with the status before the client receives it.
    """
    request, route = call.request, call.route
    # Token usage is read from the answer's bytes, so they must not be compressed.
    is_metered, meter = route.kind == "judged", AnswerMeter()
    coding = "identity" if is_metered else request.headers.get(hdrs.ACCEPT_ENCODING, "identity")
    headers = to_upstream(request.headers, coding)
    if not is_metered:
        headers |= {name: request.headers[name] for name in _PARTS if name in request.headers}
    is_small = route.small_body or request.method == hdrs.METH_DELETE
    body = _Body(request, MAX_UNSEEN if is_small else None) if request.body_exists else None
    response = web.StreamResponse() if route.streamed or not is_metered else _WholeAnswer()
    try:
        data = await _data(body, call) if body else None
        headers |= body.headers() if body else {}
        async with call.send(route, headers, data, decompress=False) as answer:
            reason = answer.reason or ""
            response.set_status(answer.status, None if has_controls(reason) else reason)
            upload_urls = UploadUrls.of_call(call, route)
            response.headers.update(_as_sent(answer) | rewrite_upload_urls(answer.headers, upload_urls))
            events = answer.headers.get(hdrs.CONTENT_TYPE, "").startswith("text/event-stream")
            is_stream = is_metered and (events or route.streamed)
            meter = AnswerMeter(streamed=is_stream, note_model=call.record.note_answered_by)
            if before_answer is not None:
                await before_answer(answer.status)
            await response.prepare(request)
            async for chunk in answer.chunks():
                if is_metered:
                    await call.steps.run_in_slices(meter.feed, chunk)
                await response.write(chunk)
    except (UpstreamError, ApiError) as error:
        failure = error.as_api_error() if isinstance(error, UpstreamError) else error
        if not response.prepared:
            raise _failure(body, failure) from None
        call.services.note_error(call.record, failure)
        close_mid_answer(request)
    finally:
        meter.finish()
        call.record.usage += meter.usage
    if meter.failure and response.status < 300:
        call.services.note_upstream_failure(call.record, meter.failure)
    await response.write_eof()
    return response


async def _data(body: "_Body", call: Call) -> bytes | AsyncIterator[bytes] | None:
    """Return the body to send: its bytes if all of them have arrived, or else what yields them."""
    if not _may_have_content(call.request.method, call.route):
        return await _empty_object(body, call)
    if body.has_arrived:
        return await body.read()
    return body.chunks() if call.caller.issued is None else _checked(body, call)


def _may_have_content(method: str, route: Route) -> bool:
    """Return whether the body of a forwarded request may have content, which no hook judges.

    Of small bodies, only Code Assist's have any: those of requests to cancel or delete are empty.
    """
    return method != hdrs.METH_DELETE and (not route.small_body or route.api == "code_assist")


async def _empty_object(body: "_Body", call: Call) -> bytes | None:
    """Return the body of a request to cancel or delete: an empty object or nothing.

    Raises ApiError for any other one.
    """
    data = b"".join((await body.read()).split())
    if data not in (b"", b"{}"):
        raise body_refused("no hook judges the body of this request; send none, or {}")
    if call.caller.issued is not None:
        await call.check_key_again()
    return data or None


async def _checked(body: "_Body", call: Call) -> AsyncIterator[bytes]:
    """Yield the body, but its last chunk only if the caller's key is still valid. It may arrive late."""
    held = b""
    async for chunk in body.chunks():
        if held:
            yield held
        held = chunk
    try:
        await call.check_key_again()
    except ApiError as error:
        body.refuse(error)
        raise
    if held:
        yield held


class _WholeAnswer(web.StreamResponse):
    """An answer that arrives at once, mostly: its headers are sent together with its first bytes."""

    _send_headers_immediately = False  # as in aiohttp's own Response


def _as_sent(answer: UpstreamAnswer) -> dict[str, str]:
    """Return the answer's headers, including length and encoding: its bytes are forwarded unchanged."""
    as_they_are = (hdrs.CONTENT_ENCODING, hdrs.CONTENT_LENGTH)
    described = {name: answer.headers[name] for name in as_they_are if name in answer.headers}
    return to_client(answer.headers) | described


def _failure(body: "_Body | None", error: ApiError) -> Exception:
    """Return the error to report. If reading the client's body failed, that caused the upstream's error."""
    return (body and body.failure()) or error


class _Body:
    """The client's request body, which also reports whether reading it failed."""

    def __init__(self, request: web.BaseRequest, max_bytes: int | None = None) -> None:
        """At most `max_bytes` bytes are accepted, uncompressed; any number if `max_bytes` is None."""
        self._request, self._max_bytes = request, max_bytes
        self._coding = content_coding(request)
        if max_bytes is not None and (
            (request.content_length or 0) > max_bytes or self._coding != "identity"
        ):
            raise _body_too_large(max_bytes)
        self._failure: Exception | None = None

    def headers(self) -> dict[str, str]:
        """Return the headers for its encoding, and for its length if it is streamed and that is known."""
        length = None if self.has_arrived else self._request.headers.get(hdrs.CONTENT_LENGTH)
        described: dict[str, str] = {hdrs.CONTENT_LENGTH: length} if length else {}
        coded: dict[str, str] = {hdrs.CONTENT_ENCODING: self._coding} if self._coding != "identity" else {}
        return described | coded

    @property
    def has_arrived(self) -> bool:
        """Whether the whole body has arrived, as for most small bodies. It is then sent at once."""
        return self._request.content.is_eof() and 0 < (self._request.content_length or 0) <= MAX_UNSEEN

    async def read(self) -> bytes:
        """Return the whole body. Raises `failure()` if it cannot be read."""
        try:
            return b"".join([chunk async for chunk in self.chunks()])
        except Exception:
            if (failure := self.failure()) is not None:
                raise failure from None
            raise

    async def chunks(self) -> AsyncIterator[bytes]:
        """Yield the body as it is received."""
        try:
            size = 0
            async for chunk in self._request.content.iter_any():
                size += len(chunk)
                if self._max_bytes is not None and size > self._max_bytes:
                    raise _body_too_large(self._max_bytes)
                yield chunk
        except Exception as error:
            self._failure = error
            raise

    def refuse(self, error: ApiError) -> None:
        """Note that the body must not be sent to its end."""
        self._failure = error

    def failure(self) -> Exception | None:
        """Return the error of reading the body, if any: a lost connection or invalid content."""
        if isinstance(self._failure, ConnectionError):
            return ConnectionError("the client left")
        if isinstance(self._failure, ApiError):
            return self._failure
        return self._failure and ApiError(400, "The request body cannot be read.", "BODY_REFUSED")


def _body_too_large(max_bytes: int) -> ApiError:
    return ApiError(
        413,
        f"The request body is too large: this path accepts at most {max_bytes} uncompressed bytes.",
        "BODY_TOO_LARGE",
    )


@dataclass(frozen=True, slots=True)
class UploadUrls:
    """The URL by which a client reached the gateway, and the upstream's origin."""

    scheme: str
    host: str
    session: str
    origin: str
    uploads: bool
    """Whether the request is part of an upload; if so, Location is the URL of the next part."""
    listen_url: str = ""
    """The URL at which clients reach the gateway according to `listen.url`; empty if it is not set."""

    @classmethod
    def of_call(cls, call: Call, route: Route) -> "UploadUrls":
        """Return the URLs of a call that was sent to a route."""
        request, services = call.request, call.services
        host = request.headers.get(hdrs.HOST, "")
        origin, listen_url = services.upstreams.origins[route.api], services.config.listen.url or ""
        is_upload = route.path.startswith("/upload/")
        return cls(request.scheme, host, route.session, origin, is_upload, listen_url)

    def gateway_url_for(self, url: str) -> str:
        """Return the gateway's URL for an upstream URL. Raises ApiError (502) if its origin differs."""
        origin = urlsplit(self.origin)
        parts = _split(url)
        if (
            parts is None
            or _address(parts) != _address(origin)
            or not parts.path.startswith(f"{origin.path}/")
        ):
            raise ApiError(502, "The upstream's upload URL has a different origin.", "UPSTREAM_ELSEWHERE")
        if not (self.listen_url or self.host):  # any other one is valid, as `check_head` has seen
            raise request_refused("The Host header is missing, so the upload URL cannot be rewritten.")
        session = f"/s/{self.session}" if self.session else ""
        path = parts.path.removeprefix(origin.path)
        query = f"?{parts.query}" if parts.query else ""
        return f"{self.listen_url or f'{self.scheme}://{self.host}'}{session}{path}{query}"


def rewrite_upload_urls(headers: Mapping[str, str], upload_urls: UploadUrls) -> dict[str, str]:
    """Return the headers of an answer that contain upload URLs, rewritten to the gateway's URL."""
    names = (*_UPLOAD_URLS, hdrs.LOCATION) if upload_urls.uploads else _UPLOAD_URLS
    return {name: upload_urls.gateway_url_for(headers[name]) for name in names if name in headers}


def _split(url: str) -> SplitResult | None:
    """Return the parts of a URL, or None if it is invalid."""
    try:
        parts = urlsplit(url)
        return parts if parts.port != 0 and re.fullmatch(r"[!-~]*", url) else None
    except ValueError:
        return None


def _address(url: SplitResult) -> tuple[str, str | None, int | None, bool]:
    """Return the scheme, the host, the port, and whether the URL contains credentials."""
    return url.scheme, url.hostname, url.port or _PORTS.get(url.scheme), "@" in url.netloc
