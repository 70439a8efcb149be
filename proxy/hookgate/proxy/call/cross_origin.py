"""Calls that scripts of web pages make from a browser (CORS)."""

import re
from collections.abc import Collection

from aiohttp import hdrs, web

from hookgate.proxy.errors import not_a_route
from hookgate.proxy.http.connection import Request

_METHODS = "GET, POST, PUT, PATCH, DELETE"
_MAX_AGE = "600"  # seconds; a browser remembers the answer for so long
_NAMES = re.compile(r"[A-Za-z0-9-]{1,64}(?:, ?[A-Za-z0-9-]{1,64}){0,63}")


def allow_origin(request: Request, origins: Collection[str]) -> None:
    """Let the script read the answer if the origin of its page is one of these."""
    origin = request.headers.get(hdrs.ORIGIN, "")
    if origin in origins:
        request.allowed_origin = origin


def is_preflight(request: Request) -> bool:
    """Return whether a browser asks if a script may make a call, which it then makes."""
    return request.method == hdrs.METH_OPTIONS and hdrs.ACCESS_CONTROL_REQUEST_METHOD in request.headers


def answer_preflight(request: Request) -> web.Response:
    """Return the answer that allows the call. Raises ApiError (403) if the origin is not allowed."""
    if not request.allowed_origin:
        raise not_a_route(
            "Scripts of web pages of this origin may not call hookgate. Add the origin to clients.origins in "
            "hookgate.toml, or let a server make the calls."
        )
    headers = {hdrs.ACCESS_CONTROL_ALLOW_METHODS: _METHODS, hdrs.ACCESS_CONTROL_MAX_AGE: _MAX_AGE}
    asked = request.headers.get(hdrs.ACCESS_CONTROL_REQUEST_HEADERS, "")
    if _NAMES.fullmatch(asked):
        headers[hdrs.ACCESS_CONTROL_ALLOW_HEADERS] = asked
    return web.Response(status=204, headers=headers)
