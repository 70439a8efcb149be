"""Requests that nobody looks at, carried both ways as they are and never held in memory."""

from collections.abc import AsyncIterator

import aiohttp
from aiohttp import hdrs, web

from hookgate.proxy.bodies import content_coding
from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import has_controls, to_client, to_upstream
from hookgate.proxy.protocol import Request
from hookgate.proxy.records import UsageMeter
from hookgate.proxy.reply import cut
from hookgate.proxy.routes import Route
from hookgate.proxy.uploads import Way, led_back
from hookgate.proxy.upstream import UpstreamError, Upstreams

MAX_UNSEEN = 64 * 1024
"""Bytes of a body that is forwarded although no hook sees it: Code Assist's account settings and metrics, and
the empty bodies that cancel something."""

_PARTS = (hdrs.CONTENT_RANGE, hdrs.RANGE)  # of files, up and down; no judged answer is had in parts


async def copy_through(request: Request, route: Route, upstreams: Upstreams) -> web.StreamResponse:
    """Send the request on and its answer back. Raises ApiError while there is no answer yet."""
    # What a model's answer has used is read off its bytes as they pass, so they must not be compressed.
    generates, meter = route.kind == "judged", UsageMeter()
    coding = "identity" if generates else request.headers.get(hdrs.ACCEPT_ENCODING, "identity")
    headers = to_upstream(request.headers, coding)
    if not generates:
        headers |= {name: request.headers[name] for name in _PARTS if name in request.headers}
    body = _Body(request, MAX_UNSEEN if route.small_body else None) if request.body_exists else None
    response = web.StreamResponse()
    try:
        with request.record.asking() as asked:
            sending = upstreams.open(
                request.method,
                route,
                asked.headers(headers | (body.described() if body else {})),
                body.chunks() if body else None,
                decompress=False,
            )
            async with sending as answer:
                asked.begun(answer.status)
                reason = answer.reason or ""
                response.set_status(answer.status, None if has_controls(reason) else reason)
                way = Way.of(request, route, upstreams.origins[route.api])
                response.headers.update(_as_sent(answer) | led_back(answer.headers, way))
                await response.prepare(request)
                async for chunk in answer.content.iter_any():
                    if generates:
                        meter.feed(chunk)
                    await response.write(chunk)
    except UpstreamError as error:
        if not response.prepared:
            raise _failure(body, error.as_api_error()) from None
        cut(request)
    except ApiError as error:
        raise _failure(body, error) from None
    finally:
        request.record.usage += meter.usage()
    await response.write_eof()
    return response


class _Body:
    """The client's body on its way, and whether it broke off there: that is not the upstream's failure."""

    def __init__(self, request: web.BaseRequest, most: int | None = None) -> None:
        """`most` bytes are taken of it, not compressed; any number without."""
        self._request, self._most = request, most
        self._coding = content_coding(request)
        if most is not None and ((request.content_length or 0) > most or self._coding != "identity"):
            raise _too_large(most)
        self._failure: Exception | None = None

    def described(self) -> dict[str, str]:
        """The headers that tell its length, if that is known, and its coding: its bytes stay compressed."""
        length = self._request.headers.get(hdrs.CONTENT_LENGTH)
        described: dict[str, str] = {hdrs.CONTENT_LENGTH: length} if length else {}
        coded: dict[str, str] = {hdrs.CONTENT_ENCODING: self._coding} if self._coding != "identity" else {}
        return described | coded

    async def chunks(self) -> AsyncIterator[bytes]:
        """The body as it comes."""
        try:
            size = 0
            async for chunk in self._request.content.iter_any():
                size += len(chunk)
                if self._most is not None and size > self._most:
                    raise _too_large(self._most)
                yield chunk
        except Exception as error:
            self._failure = error
            raise

    def failure(self) -> Exception | None:
        """How it broke off, if it did: with its connection, or by what stands in it."""
        if isinstance(self._failure, ConnectionError):
            return ConnectionError("the client left")
        if isinstance(self._failure, ApiError):
            return self._failure
        return self._failure and ApiError(400, "The request body cannot be read.", "BODY_REFUSED")


def _too_large(most: int) -> ApiError:
    return ApiError(
        413, f"The request body is too large: this path takes at most {most} bytes unseen, not compressed."
    )


def _failure(body: _Body | None, error: ApiError) -> Exception:
    """Why there is no answer: a body that broke off on our side looks like the upstream's failure."""
    return (body and body.failure()) or error


def _as_sent(answer: aiohttp.ClientResponse) -> dict[str, str]:
    """The answer's headers; its bytes stay compressed, and as many, as they came."""
    as_they_are = (hdrs.CONTENT_ENCODING, hdrs.CONTENT_LENGTH)
    described = {name: answer.headers[name] for name in as_they_are if name in answer.headers}
    return to_client(answer.headers) | described
