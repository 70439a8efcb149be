"""Exchanges with an upstream of which the client receives the whole answer, judged, or the redacted error."""

from collections.abc import Awaitable, Callable

from aiohttp import hdrs, web

from hookgate.hooks import AfterModel, Withheld
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.calls.answer_reading import MAX_ANSWER, MAX_ERROR, read_whole
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.screen_stage import error_after_screens
from hookgate.proxy.errors import policy_denied
from hookgate.proxy.routes.table import Route
from hookgate.proxy.upstream.client import to_upstream, with_judged_body
from hookgate.proxy.upstream.connection import UpstreamError


async def exchange_whole(
    call: Call,
    judge: Judge,
    route: Route,
    payload: bytes | None,
    handle_answer: Callable[[bytes], Awaitable[bytes]],
) -> web.Response:
    """Send a request upstream, and return its answer, which is not streamed. Raises ApiError.

    `payload` is the JSON to send, if any. `handle_answer` returns the body of a successful answer as the
    client receives it. Errors are redacted.
    """
    headers = to_upstream(call.request.headers, "identity")
    if payload is not None:
        headers |= {hdrs.CONTENT_TYPE: "application/json"}
    try:
        async with call.send(route, headers, payload) as answer:
            succeeded = 200 <= answer.status < 300
            most = MAX_ANSWER if succeeded else MAX_ERROR
            body = await read_whole(answer.chunks(), most, call.answer_memory)
            for observer in call.observers:
                observer.on_upstream_bytes(body)
            if succeeded:
                body = await handle_answer(body)
            else:
                body = await error_for_client(judge, call.route.model, body)
            for observer in call.observers:
                observer.on_client_bytes(body)
            return web.Response(status=answer.status, headers=with_judged_body(answer.headers), body=body)
    except UpstreamError as error:
        raise error.as_api_error() from None


async def error_for_client(judge: Judge, model: str, data: bytes) -> bytes:
    """Return an error of the upstream, redacted like an answer. Raises ApiError if denied or unreadable."""
    try:
        return await error_after_screens(judge, judge.plan(AfterModel(SharedValue({}), {}, model)), data)
    except Withheld as withheld:
        raise policy_denied(str(withheld), AfterModel.name) from None
