"""The one table of what the gateway serves, matched on the raw request target. Pure.

Paths are matched exactly as they came: exact case, no encoded characters, no dot segments, no doubled
slashes. Whatever is not in the table is refused, because a path that two parsers read differently is a way
around every hook.
"""

import re
from dataclasses import dataclass, replace
from typing import Literal
from urllib.parse import parse_qsl

from hookgate.proxy.errors import ApiError, not_a_route
from hookgate.translator import MODEL_NAME

Kind = Literal["judged", "forwarded", "health"]

_JUDGED = ("generateContent", "streamGenerateContent")
_FORWARDED = ("countTokens", "embedContent", "batchEmbedContents")
_SESSION_NAME = r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}"
_SESSION = re.compile(rf"/s/(?P<session>{_SESSION_NAME})(?=/)")
_CALL = re.compile(rf"/(?:v1|v1beta|v1alpha)/models/(?P<model>{MODEL_NAME}):(?P<verb>[A-Za-z]+)")
_MODELS = re.compile(rf"/(?:v1|v1beta|v1alpha)/models(?:/{MODEL_NAME})?")
_PARAMETERS = {
    "judged": {"alt", "key"},
    "forwarded": {"alt", "key", "pageSize", "pageToken"},
    "health": set(),
}


@dataclass(frozen=True, slots=True)
class Route:
    """Where a request goes. `path` is the upstream's, without a session prefix; `query` is as it came."""

    kind: Kind
    path: str
    query: str = ""
    session: str = ""
    model: str = ""
    verb: str = ""
    alt: str = ""
    key: str = ""

    @property
    def streamed(self) -> bool:
        return self.verb == "streamGenerateContent"

    def for_model(self, model: str) -> "Route":
        """The same call to another model."""
        version = self.path.split("/", 2)[1]
        return replace(self, model=model, path=f"/{version}/models/{model}:{self.verb}")


def match(method: str, target: str) -> Route:
    """The route of a raw request target (path and query). Raises ApiError for anything not in the table."""
    path, _, query = target.partition("?")
    if method == "GET" and path == "/healthz":
        return Route("health", path)
    prefix = _SESSION.match(path)
    session = prefix["session"] if prefix else ""
    path = path[prefix.end() :] if prefix else path
    if method == "GET" and _MODELS.fullmatch(path):
        return _with_query(Route("forwarded", path, query, session))
    call = _CALL.fullmatch(path)
    if call is None:
        raise not_a_route(_explain(path))
    return _with_query(
        _call_route(method, Route("judged", path, query, session, call["model"], call["verb"]))
    )


def session_name(text: str) -> str:
    """A session's name as a client gives it. Hooks make file names of it, so dots alone are none.

    Raises ApiError for anything else.
    """
    if not re.fullmatch(_SESSION_NAME, text):
        raise ApiError(400, "A session name is a letter or digit, then up to 127 of letters, digits, . _ ~ -")
    return text


def _call_route(method: str, route: Route) -> Route:
    if route.verb not in _JUDGED + _FORWARDED:
        raise not_a_route(
            f"hookgate does not serve the method {route.verb!r}: its answers would pass unjudged. "
            f"Served are {', '.join(_JUDGED + _FORWARDED)}."
        )
    if method != "POST":
        raise not_a_route(f"{route.verb} takes POST, not {method}.")
    return route if route.verb in _JUDGED else replace(route, kind="forwarded")


def _with_query(route: Route) -> Route:
    if "#" in route.query:
        raise ApiError(400, "A request target has no fragment; send '#' as %23.")
    given = parse_qsl(route.query, keep_blank_values=True)
    parameters = dict(given)
    unknown = sorted(parameters.keys() - _PARAMETERS[route.kind])
    if unknown:
        raise ApiError(400, f"hookgate does not know the query parameter {unknown[0]!r} here; leave it out.")
    if len(parameters) != len(given):
        raise ApiError(400, "A query parameter is given twice; send it once.")
    alt = parameters.get("alt", "")
    if alt not in ("", "json", *(("sse",) if route.streamed else ())):
        raise ApiError(400, f"hookgate does not know alt={alt} here; leave it out.")
    return replace(route, alt=alt, key=parameters.get("key", ""))


def _explain(path: str) -> str:
    if path.startswith("/s/"):
        return (
            "hookgate does not take such a session name: a letter or digit, then letters, digits, . _ ~ or -."
        )
    if "%" in path or "//" in path or "/./" in path or "/../" in path or "\\" in path or ";" in path:
        return (
            "hookgate serves canonical paths only: no encoded characters, dot segments, doubled slashes or "
            "path parameters. Send the path as the API documents it."
        )
    return (
        "hookgate does not serve this path: what it answers would pass unjudged. Served are "
        "/{v1,v1beta,v1alpha}/models, /models/{model} and /models/{model}:{method}, "
        "each also under /s/{session}."
    )
