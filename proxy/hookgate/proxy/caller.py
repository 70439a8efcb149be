"""Who makes a request, and in which session. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any
from urllib.parse import parse_qs

from hookgate.hooks import Session
from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import KEY_HEADER, SESSION_HEADER
from hookgate.proxy.keys import Named, short_name
from hookgate.proxy.routes import Route, session_name
from hookgate.translator.strictjson import dumps

_UNKNOWN = (
    "hookgate takes calls with a key that it knows by name; this call has another key, or none. "
    "Ask who runs this gateway to name your key in hookgate.toml."
)


@dataclass(frozen=True, slots=True)
class Caller:
    """A client with a key. `key` is a name for it that does not tell the key; empty without one."""

    client: str
    key: str
    team: str
    _who: bytes = field(repr=False)
    """Key and User-Agent as they came: what a fingerprint rests on."""

    def in_session(self, session_id: str, cwd: str = "", transcript_path: str = "") -> Session:
        """A session of this caller."""
        return Session(session_id, transcript_path, self.client, self.key, cwd, self.team)

    def conversation(self, contents: list[Any]) -> str:
        """The session of a client that names none: one conversation, which keeps its first turn, is one."""
        first_turn = dumps(contents[0]) if contents else b""
        return sha256(self._who + b"\0" + first_turn).hexdigest()[:32]


class Callers:
    """Knows callers by their keys: by name those in `named`, which goes by the keys' hashes."""

    def __init__(self, named: Mapping[str, Named] | None = None, *, refuses_unknown: bool = False) -> None:
        self._named, self._refuses_unknown = named or {}, refuses_unknown

    def of(self, route: Route, headers: Mapping[str, str]) -> Caller:
        """Who calls, by key and User-Agent."""
        sent = _sent(route, headers)
        digest = _digest(sent)
        named = self._named.get(digest) or Named(short_name(digest))
        agent = headers.get("user-agent", "")
        return Caller(
            client=agent.partition("/")[0].strip(),
            key=named.name,
            team=named.team,
            _who="\0".join((sent, agent)).encode(errors="surrogateescape"),
        )

    def admit(self, route: Route, headers: Mapping[str, str]) -> None:
        """Raises ApiError for a call whose key has no name, where such calls are refused."""
        if not self._refuses_unknown:
            return
        sent = _sent(route, headers)
        if _digest(sent) not in self._named and (sent or not _continues_upload(route)):
            raise ApiError(403, _UNKNOWN, "KEY_UNKNOWN")


def named_session(route: Route, headers: Mapping[str, str], inside: str) -> str:
    """The session that a client names: in the path, in a header, or `inside` the body; empty when in none.

    Raises ApiError for a name that is none.
    """
    if route.session:
        return route.session
    if SESSION_HEADER in headers:
        return session_name(headers[SESSION_HEADER])
    return session_name(inside) if inside else ""


def _sent(route: Route, headers: Mapping[str, str]) -> str:
    """The key as it came; empty without one."""
    return headers.get(KEY_HEADER) or route.key or headers.get("authorization", "") or route.access_token


def _digest(sent: str) -> str:
    """The hash of the key; empty without one."""
    scheme, _, token = sent.partition(" ")
    key = token.strip() if scheme.lower() == "bearer" else sent  # a scheme's case is free
    return sha256(key.encode(errors="surrogateescape")).hexdigest() if key else ""


def _continues_upload(route: Route) -> bool:
    """Whether the request brings bytes of an upload: SDKs send them without a key, to an address that only
    who began the upload, with a key, was told."""
    uploads = route.path.startswith("/upload/") and not route.unhooked
    return uploads and "upload_id" in parse_qs(route.query)
