"""Who makes a request, and in which session. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

from hookgate.hooks import Session
from hookgate.proxy.headers import KEY_HEADER, SESSION_HEADER
from hookgate.proxy.routes import Route, session_name
from hookgate.translator.strictjson import dumps


@dataclass(frozen=True, slots=True)
class Caller:
    """A client with a key. `key` is a name for it that does not tell the key; empty without one."""

    client: str
    key: str
    _who: bytes
    """Key and User-Agent as they came: what a fingerprint rests on."""

    def in_session(self, session_id: str, cwd: str = "", transcript_path: str = "") -> Session:
        """A session of this caller."""
        return Session(session_id, transcript_path, self.client, self.key, cwd)

    def conversation(self, contents: list[Any]) -> str:
        """The session of a client that names none: one conversation, which keeps its first turn, is one."""
        first_turn = dumps(contents[0]) if contents else b""
        return sha256(self._who + b"\0" + first_turn).hexdigest()[:32]


def caller_of(route: Route, headers: Mapping[str, str]) -> Caller:
    """Who calls, by key and User-Agent."""
    key = headers.get(KEY_HEADER) or route.key or headers.get("authorization", "")
    agent = headers.get("user-agent", "")
    return Caller(
        client=agent.partition("/")[0].strip(),
        key=_name_of(key.removeprefix("Bearer ")),
        _who="\0".join((key, agent)).encode(errors="surrogateescape"),
    )


def named_session(route: Route, headers: Mapping[str, str], inside: str) -> str:
    """The session that a client names: in the path, in a header, or `inside` the body; empty when in none.

    Raises ApiError for a name that is none.
    """
    if route.session:
        return route.session
    if SESSION_HEADER in headers:
        return session_name(headers[SESSION_HEADER])
    return session_name(inside) if inside else ""


def _name_of(key: str) -> str:
    return sha256(key.encode(errors="surrogateescape")).hexdigest()[:12] if key else ""
