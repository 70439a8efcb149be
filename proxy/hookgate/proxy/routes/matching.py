"""The table applied to a raw request target. Pure.

Paths are matched exactly as they came: exact case, no encoded characters, no dot segments, no doubled
slashes. Whatever is not in the table is refused, because a path that two parsers read differently is a way
around every hook.
"""

import re
from collections.abc import Collection
from typing import Literal

from hookgate.proxy.errors import ApiError, not_a_route
from hookgate.proxy.routes.query import with_query
from hookgate.proxy.routes.route import Route
from hookgate.proxy.routes.table import TABLE, Row

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
    """The route of a raw request target (path and query). Raises ApiError for anything not in the table.

    `unhooked` names the groups of generative routes that pass although no hook can judge them; `files` says
    whether those pass that write files, which no hook sees.
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
    """A session's name as a client gives it. Hooks make file names of it, so dots alone are none.

    Raises ApiError for anything else.
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
