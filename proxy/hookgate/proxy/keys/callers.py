"""Callers: the caller and the session of a request, named keys, and the share of memory that a caller has."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import TYPE_CHECKING, Any
from urllib.parse import parse_qs

from cachetools import LRUCache

from hookgate.hooks import SessionContext
from hookgate.hooks.session import CallState
from hookgate.proxy.config.models import NamedKey
from hookgate.proxy.config.values import read_secret
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.table import GUARDRAIL, Route, session_name
from hookgate.translator.strictjson import dumps

if TYPE_CHECKING:  # only gateways that issue keys need it
    from hookgate.proxy.keys.scopes import IssuedKey

KEY_HEADER = "x-goog-api-key"
SESSION_HEADER = "x-hookgate-session"


_NAME_DIGITS = 24
"""Hexadecimal digits in a key's name.

Receipts and sessions belong to this name, so no one must be able to construct a key with the name of another.
With 12 digits, that would take hours.
"""


def short_key_name(digest: str) -> str:
    """Return the name for a key without one: the start of its hash."""
    return digest[:_NAME_DIGITS]


@dataclass(frozen=True, slots=True)
class KeyOwner:
    """The name of a key, and its team, which is empty if it has none."""

    name: str
    team: str = ""


class KeysError(ValueError):
    """Raised for named keys that cannot be used. `problems` are pairs of a setting and a message."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(message for _, message in problems))


def load_named_keys(configured: Mapping[str, NamedKey]) -> dict[str, KeyOwner]:
    """Return the named keys by their hashes. Raises KeysError with all problems."""
    keys: dict[str, KeyOwner] = {}
    problems: list[tuple[str, str]] = []
    for name, key in configured.items():
        setting = f"keys.{name}"
        try:
            digest = key.sha256 or "" if key.file is None else read_secret(key.file, hash_single_key)
        except ValueError as error:
            problems.append((setting, f"{setting}.file: {error}"))
            continue
        if other := keys.get(digest):
            problems.append((setting, f"{setting}: is the same key as keys.{other.name}; remove one"))
        else:
            keys[digest] = KeyOwner(name, key.team or "")
    if problems:
        raise KeysError(problems)
    return keys


def hash_single_key(text: str) -> str:
    """Return the SHA-256 of the key that is the whole text, in hex. Raises ValueError if it is not one."""
    if not re.fullmatch(r"[!-~]+", text):
        raise ValueError("contains no key, or more than one; it must contain one key on one line")
    return sha256(text.encode()).hexdigest()


_UNKNOWN = (
    "hookgate accepts only API keys that are named in its configuration; this call has another key, or none. "
    "Ask the operator of this gateway to add your key to hookgate.toml."
)
_NOT_ISSUED = (
    "hookgate accepts only keys that it has issued, or that are named in its configuration; this call has "
    "another key, or none. Ask the operator of this gateway for a key."
)


@dataclass(frozen=True, slots=True)
class Caller:
    """A client with a key. `key` is a name that does not reveal the key, or empty if there is no key."""

    client: str
    key: str
    team: str
    _identity: bytes = field(repr=False)
    """Key and User-Agent as they were sent, for the fingerprints of conversations."""
    issued: "IssuedKey | None" = None
    """The key, if the gateway has issued it."""

    def in_session(
        self, session_id: str, call_state: CallState | None = None, cwd: str = "", transcript_path: str = ""
    ) -> SessionContext:
        """Return a session of this caller. Without `call_state`, the state of its call is new."""
        state = call_state or CallState()
        return SessionContext(session_id, transcript_path, self.client, self.key, cwd, self.team, state)

    def conversation_id(self, contents: list[Any]) -> str:
        """Return the session ID for a client that does not name one: a fingerprint of the first turn."""
        first_turn = dumps(contents[0]) if contents else b""
        return sha256(self._identity + b"\0" + first_turn).hexdigest()[:32]


class Callers:
    """Identifies callers by their keys. `named` are the named keys by their hashes.

    `issues` says whether the gateway issues keys, which affects the message for unknown ones.
    """

    def __init__(
        self,
        named: Mapping[str, KeyOwner] | None = None,
        *,
        refuses_unknown: bool = False,
        issues: bool = False,
    ) -> None:
        self._named, self._refuses_unknown, self._issues = named or {}, refuses_unknown, issues

    def caller_for(
        self, route: Route, headers: Mapping[str, str], issued: "IssuedKey | None" = None
    ) -> Caller:
        """Return the caller of a request, by key and User-Agent. `issued` is its key, if it was issued."""
        sent = identity_seed = sent_credential(route, headers)
        agent = headers.get("user-agent", "")
        if issued is not None:
            named = KeyOwner(issued.owner, issued.team)
            if issued.id:  # a conversation stays the same after a rotation
                identity_seed = f"issued {issued.id} {issued.owner}"
        else:
            digest = hash_of_key(sent)
            named = self._named.get(digest) or KeyOwner(short_key_name(digest))
        return Caller(
            client=_printable(agent.partition("/")[0].strip()),
            key=named.name,
            team=named.team,
            _identity="\0".join((identity_seed, agent)).encode(errors="surrogateescape"),
            issued=issued,
        )

    def has_name(self, route: Route, headers: Mapping[str, str]) -> bool:
        """Return whether the key of a request is named in the configuration."""
        return hash_of_key(sent_credential(route, headers)) in self._named

    def admit(self, route: Route, headers: Mapping[str, str]) -> None:
        """Raise ApiError (403) for a call without a named key, if such calls are refused."""
        if not self._refuses_unknown:
            return
        sent = sent_credential(route, headers)
        if hash_of_key(sent) not in self._named and (sent or not _continues_upload(route)):
            raise ApiError(403, _NOT_ISSUED if self._issues else _UNKNOWN, "KEY_UNKNOWN")


def _printable(name: str) -> str:
    """Return a name with U+FFFD in place of bytes that are not UTF-8: it is shown, and sent as JSON."""
    return name if name.isascii() else name.encode("utf-8", "surrogateescape").decode("utf-8", "replace")


def named_session(route: Route, headers: Mapping[str, str]) -> str:
    """Return the session in the path or in a header, or "". Raises ApiError (400) if it is invalid."""
    if route.session:
        return route.session
    return session_name(headers[SESSION_HEADER]) if SESSION_HEADER in headers else ""


def sent_credential(route: Route, headers: Mapping[str, str]) -> str:
    """Return the key as it was sent, in a header with its scheme, or an empty string."""
    return headers.get(KEY_HEADER) or route.api_key or headers.get("authorization", "") or route.access_token


def with_guardrail_key(route: Route, headers: Mapping[str, str]) -> Route:
    """Return the route with the key as LiteLLM sends it to a guardrail, in a header of its own."""
    key = headers.get("x-api-key") if route.verb == GUARDRAIL else None
    return replace(route, api_key=key) if key else route


def hash_of_key(sent: str) -> str:
    """Return the hash of a key as it was sent, or an empty string if there is no key."""
    key = _without_scheme(sent)
    return sha256(key.encode(errors="surrogateescape")).hexdigest() if key else ""


def _without_scheme(sent: str) -> str:
    """Return a credential without the scheme of an Authorization header, whatever that is.

    A key must have one name only, and an upstream may accept it with several schemes.
    """
    words = sent.split()
    is_empty = not words or (len(words) == 1 and words[0].lower() == "bearer")
    return "" if is_empty else words[-1]


def is_ephemeral(route: Route, headers: Mapping[str, str]) -> bool:
    """Return whether the credential of a request is an ephemeral token, which only Live sessions accept."""
    scheme = headers.get("authorization", "").split()[:1]
    key = _without_scheme(sent_credential(route, headers))
    return key.lower().startswith("auth_tokens/") or [each.lower() for each in scheme] == ["token"]


def _continues_upload(route: Route) -> bool:
    """Return True if the request continues an upload.

    SDKs send these requests without a key, to a URL that only the client that started the upload, with a key,
    has received.
    """
    is_upload = route.path.startswith("/upload/") and not route.unhooked
    return is_upload and "upload_id" in parse_qs(route.query)


def check_credentials(headers: Mapping[str, str], *in_query: str) -> None:
    """Check that a request has only one credential, in two headers and in the query (`in_query`).

    Raises ApiError (400) if two differ: the gateway's limits could count one, and the upstream use another.
    """
    token = _without_scheme(headers.get("authorization", ""))
    credentials = {headers.get(KEY_HEADER, ""), token, *in_query} - {""}
    if len(credentials) > 1:
        raise ApiError(
            400,
            "The request has two different credentials (x-goog-api-key, Authorization, ?key= or "
            "?access_token=); send one.",
            "CREDENTIALS_DIFFER",
        )


KEPT_KEYS = 10_000
"""Accepted keys that are remembered; the least recently used one is forgotten first."""

_UNPROVEN = ""
"""The one share of all callers without an accepted key."""


class AcceptedKeys:
    """Distinguishes keys that work from invented ones.

    The gateway accepts any key and cannot check it. If each had a share of its own, a client could invent
    enough keys to crowd out all others. So a key gets its own share once the model has answered a call with
    it; until then all unproven keys use one share.
    """

    def __init__(self) -> None:
        self._accepted: LRUCache[str, None] = LRUCache(KEPT_KEYS)

    def accept(self, key: str) -> None:
        """Note that the model has answered a call with this key."""
        self._accepted[key] = None

    def shares(self, key: str) -> tuple[str, ...]:
        """Return the current share of a key, then the one that may contain its older values."""
        return (key, _UNPROVEN) if key in self._accepted else (_UNPROVEN, key)
