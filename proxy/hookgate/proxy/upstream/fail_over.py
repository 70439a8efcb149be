"""Sends a call with the gateway's credentials, one after another, until an upstream answers it."""

import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from http import HTTPStatus

from aiohttp import hdrs

from hookgate.proxy.errors import NO_TOKEN, ApiError
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.routes.table import Route
from hookgate.proxy.routes.vertex import openai_body_on_vertex
from hookgate.proxy.upstream.client import NoAnswerError, UpstreamAnswer, Upstreams
from hookgate.proxy.upstream.connection import Body
from hookgate.proxy.upstream.credentials import Candidate

RunStep = Callable[[Callable[[bytes], bytes], bytes], Awaitable[bytes]]

_OVERLOADED = (HTTPStatus.TOO_MANY_REQUESTS, HTTPStatus.SERVICE_UNAVAILABLE)


class FailOver:
    """One call that is sent with the gateway's credentials.

    Each credential is tried at most once, and the next one only if there is no connection or no access token,
    or if the answer is 429 or 503. A request that was sent and not answered is not sent again, because it may
    have been processed.
    """

    def __init__(  # noqa: PLR0913  # the parts of a request
        self,
        upstreams: Upstreams,
        record: CallRecord,
        method: str,
        route: Route,
        run_step: RunStep,
        *,
        decompress: bool,
    ) -> None:
        """`run_step` runs a function whose work grows with the body."""
        self._upstreams, self._record, self._run_step = upstreams, record, run_step
        self._method, self._route, self._decompress = method, route, decompress

    @asynccontextmanager
    async def final_answer(self, headers: Mapping[str, str], data: Body) -> AsyncIterator[UpstreamAnswer]:
        """Send the request, and yield the first answer that is final, before its body is read.

        No other credential is tried once `upstream.header_timeout` has passed, or if `data` is an iterable,
        which cannot be sent twice. Raises ApiError like `Upstreams.exchange`.
        """
        candidates = self._upstreams.credentials.candidates(self._route)
        if not (data is None or isinstance(data, bytes)):
            candidates = candidates[:1]
        deadline = time.monotonic() + self._upstreams.header_timeout
        for number, candidate in enumerate(candidates, 1):
            is_last = number == len(candidates)
            async with AsyncExitStack() as stack:
                try:
                    answer = await self._send(stack, candidate, headers, data)
                except ApiError as error:
                    if not _may_try_next(error):
                        raise
                    self._upstreams.credentials.avoid(candidate)
                    if is_last or time.monotonic() >= deadline:
                        raise
                    continue
                if answer.status in _OVERLOADED:
                    self._upstreams.credentials.avoid(candidate, answer.headers.get(hdrs.RETRY_AFTER, ""))
                    if not is_last and time.monotonic() < deadline:
                        continue
                yield answer
                return

    async def _send(
        self, stack: AsyncExitStack, candidate: Candidate, headers: Mapping[str, str], data: Body
    ) -> UpstreamAnswer:
        """Send the request with one credential, as an attempt of the call's record that ends with `stack`."""
        if isinstance(data, bytes) and self._route.is_openai and candidate.route.api != self._route.api:
            data = await self._run_step(openai_body_on_vertex, data)
        attempt = stack.enter_context(self._record.attempt())
        return await stack.enter_async_context(
            self._upstreams.exchange(
                attempt,
                self._method,
                self._route,
                headers,
                data,
                decompress=self._decompress,
                candidate=candidate,
            )
        )


def _may_try_next(error: ApiError) -> bool:
    """Return whether the upstream has certainly not processed the request."""
    return error.reason == NO_TOKEN or (isinstance(error, NoAnswerError) and not error.sent)
