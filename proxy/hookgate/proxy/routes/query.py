"""The query of a request target: what of it passes, and the key taken out of it. Pure."""

import re
from dataclasses import replace
from urllib.parse import parse_qsl, unquote_plus

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.route import Route
from hookgate.proxy.routes.table import Row


def with_query(route: Route, row: Row, query: str) -> Route:
    """The route with its query. Raises ApiError for a parameter that the row does not take."""
    if "#" in query:
        raise ApiError(400, "A request target has no fragment; send '#' as %23.")
    if re.search(r"[^!-~]", query):
        raise ApiError(400, "A query is printable ASCII; send other characters percent-encoded.")
    parameters = _parameters(query, row)
    alt = parameters.get("alt", "")
    if alt not in ("", *row.alts, *(("sse",) if route.streamed else ())):
        raise ApiError(400, f"hookgate does not know alt={alt} here; leave it out.")
    key = parameters.get("key", "")
    if re.search(r"[^!-~]", key):
        raise ApiError(400, "The key is no API key: it holds more than printable ASCII.")
    token = parameters.get("access_token", "")
    return replace(route, query=_without_key(query), alt=alt, key=key, access_token=token)


def _parameters(query: str, row: Row) -> dict[str, str]:
    given = parse_qsl(query, keep_blank_values=True)
    parameters = dict(given)
    unknown = sorted(parameters.keys() - row.taken)
    if unknown:
        raise ApiError(400, f"hookgate does not know the query parameter {unknown[0]!r} here; leave it out.")
    if len(parameters) != len(given):
        raise ApiError(400, "A query parameter is given twice; send it once.")
    return parameters


def _without_key(query: str) -> str:
    """The query but its key, every other character as it came."""
    return "&".join(piece for piece in query.split("&") if unquote_plus(piece.partition("=")[0]) != "key")
