"""Matching of raw request targets against the table of routes. Pure."""

import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import replace
from typing import Literal
from urllib.parse import parse_qsl, unquote_plus

from hookgate.proxy.errors import ApiError, not_a_route
from hookgate.proxy.routing.table import TABLE, Route, Row


def with_query(route: Route, row: Row, query: str) -> Route:
    """Return the route with its query. Raises ApiError for a parameter that the row does not allow."""
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
    """Return the query without its key, and otherwise unchanged."""
    return "&".join(piece for piece in query.split("&") if unquote_plus(piece.partition("=")[0]) != "key")


_NO_FILES = (
    "hookgate takes no files: no hook sees what is in them. Send their contents in the request itself, or "
    'set routes.files = "forward" in hookgate.toml to let them through unjudged.'
)
_SESSION_NAME = r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}"
_SESSION = re.compile(rf"/s/(?P<session>{_SESSION_NAME})(?=/)")
_NOT_CANONICAL = re.compile(r"%|//|\\|;|/\.{1,2}(?=[/:]|$)")


def match(
    method: str,
    target: str,
    unhooked: Collection[str] = (),
    files: Literal["refuse", "forward"] = "refuse",
) -> Route:
    """Return the route of a raw request target (path and query). Raises ApiError if it is not in the table.

    `unhooked` names the groups of generative routes that are forwarded although hooks cannot judge them.
    `files` says whether routes that write files, which hooks do not see, are forwarded.
    """
    path, _, query = target.partition("?")
    prefix = _SESSION.match(path)
    session = prefix["session"] if prefix else ""
    path = path[prefix.end() :] if prefix else path
    row, found = _row(method, path)
    if row.unhooked and row.unhooked not in unhooked:
        raise not_a_route(_remedy(row.unhooked))
    if row.writes_files and files == "refuse":
        raise not_a_route(_NO_FILES)
    parts = found.groupdict()
    verb = parts.get("verb") or (row.verbs[0] if row.verbs else "")
    route = Route(
        row.kind,
        path,
        session=session,
        model=parts.get("model") or "",
        verb=verb,
        api=row.api,
        small_body=row.kind == "forwarded" and not (row.unhooked or row.writes_files),
        unhooked=row.unhooked,
    )
    return with_query(route, row, query)


def session_name(text: str) -> str:
    """Check and return the name of a session. Raises ApiError if it is invalid.

    Hooks use it in file names, so `.` and `..` are not allowed.
    """
    if not re.fullmatch(_SESSION_NAME, text):
        raise ApiError(400, "A session name is a letter or digit, then up to 127 of letters, digits, . _ ~ -")
    return text


def _row(method: str, path: str) -> tuple[Row, re.Match[str]]:
    takes: list[str] = []
    for row in TABLE:
        if found := row.pattern.fullmatch(path):
            if method in row.methods:
                return row, found
            takes.extend(row.methods)
    if takes:
        raise not_a_route(f"This path takes {', '.join(dict.fromkeys(takes))}, not {method}.")
    raise not_a_route(_explain(path))


def _remedy(group: str) -> str:
    return (
        f"hookgate cannot judge what the {group} routes generate: "
        f'set routes.unhooked = ["{group}"] in hookgate.toml to let it through unjudged'
    )


def _explain(path: str) -> str:
    if path.startswith("/s/"):
        return (
            "hookgate does not take such a session name: a letter or digit, then letters, digits, . _ ~ or -."
        )
    if _NOT_CANONICAL.search(path):
        return (
            "hookgate serves canonical paths only: no encoded characters, dot segments, doubled slashes or "
            "path parameters. Send the path as the API documents it."
        )
    if verb := re.search(r":([A-Za-z]{1,64})$", path):
        return f"hookgate does not serve the method {verb[1]!r} here: its answers would pass unjudged."
    return (
        "hookgate does not serve this path: what it answers would pass unjudged. Served are the Gemini API, "
        "Vertex AI and Code Assist, each also under /s/{session}; docs/gateway.md lists their paths."
    )


log = logging.getLogger("hookgate.unhooked")


class UnhookedRoutes:
    """The groups of unhooked routes that are forwarded, with counts of their calls."""

    def __init__(self, groups: Iterable[str] = ()) -> None:
        self.groups = frozenset(groups)
        self.counts: Counter[str] = Counter()
        """The number of forwarded calls by group."""

    def note(self, method: str, route: Route) -> None:
        """Count and log a call."""
        if not self.counts[route.unhooked]:
            log.warning(
                "routes.unhooked lists %r: such calls pass without any hook, unhooked", route.unhooked
            )
        self.counts[route.unhooked] += 1
        log.info("unhooked %s call: %s %s", route.unhooked, method, route.path)
