"""Calls that scripts of web pages make from a browser (CORS)."""

import re
from collections.abc import Collection, Mapping

from hookgate.proxy.errors import not_a_route

_METHODS = "GET, POST, PUT, PATCH, DELETE"
_MAX_AGE = "600"  # seconds; a browser remembers the answer for so long
_NAMES = re.compile(r"[A-Za-z0-9-]{1,64}(?:, ?[A-Za-z0-9-]{1,64}){0,63}")


def allowed_origin(headers: Mapping[str, str], origins: Collection[str]) -> str:
    """Return the origin of the page whose script makes a call if it is one of these, or ""."""
    origin = headers.get("Origin", "")
    return origin if origin in origins else ""


def is_preflight(method: str, headers: Mapping[str, str]) -> bool:
    """Return whether a browser asks if a script may make a call, which it then makes."""
    return method == "OPTIONS" and "Access-Control-Request-Method" in headers


def allow_call(headers: Mapping[str, str], origin: str) -> dict[str, str]:
    """Return the headers that allow the call. Raises ApiError (403) if there is no allowed origin."""
    if not origin:
        raise not_a_route(
            "Scripts of web pages of this origin may not call hookgate. Add the origin to clients.origins in "
            "hookgate.toml, or let a server make the calls."
        )
    allowed = {"Access-Control-Allow-Methods": _METHODS, "Access-Control-Max-Age": _MAX_AGE}
    asked = headers.get("Access-Control-Request-Headers", "")
    return {**allowed, "Access-Control-Allow-Headers": asked} if _NAMES.fullmatch(asked) else allowed


def readable_by(origin: str) -> dict[str, str]:
    """Return the headers of an answer that a script of this origin may read; none if it is empty."""
    if not origin:
        return {}
    return {
        "Access-Control-Allow-Origin": origin,
        "Access-Control-Expose-Headers": "*",
        "Vary": "Origin",
    }
