"""Callers: named keys, and the caller and the session of a request."""

import re
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from getpass import getpass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, Literal
from urllib.parse import parse_qs

from hookgate.hooks import SessionContext
from hookgate.proxy.config.models import NamedKey
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routing.table import Route, session_name
from hookgate.translator.strictjson import dumps

if TYPE_CHECKING:  # only gateways that issue keys need it
    from hookgate.proxy.identity.key_scopes import KeyScope

KEY_HEADER = "x-goog-api-key"
SESSION_HEADER = "x-hookgate-session"


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
            digest = _configured_hash(key)
        except ValueError as error:
            problems.append((setting, f"{setting}.file: {key.file}: {error}"))
            continue
        if other := keys.get(digest):
            problems.append((setting, f"{setting}: is the same key as keys.{other.name}; remove one"))
        else:
            keys[digest] = KeyOwner(name, key.team or "")
    if problems:
        raise KeysError(problems)
    return keys


_NAME_DIGITS = 24
"""Hexadecimal digits in a key's name.

Receipts and sessions belong to this name, so no one must be able to construct a key with the name of another.
With 12 digits, that would take hours.
"""


def short_key_name(digest: str) -> str:
    """Return the name for a key without one: the start of its hash."""
    return digest[:_NAME_DIGITS]


def hash_of_key_file(text: bytes) -> str:
    """Return the SHA-256 of the key that is the whole text, in hex. Raises ValueError if it is not one."""
    key = text.rstrip(b"\r\n")
    if not re.fullmatch(rb"[!-~]+", key):
        raise ValueError("contains no key, or more than one; it must contain one key on one line")
    return sha256(key).hexdigest()


async def print_hash() -> int:
    """Run `hookgate key-hash`: print the hash of the key on stdin. On a terminal the input is not shown."""
    text = getpass("API key: ").encode() if sys.stdin.isatty() else sys.stdin.buffer.read()
    try:
        print(hash_of_key_file(text))
    except ValueError as error:
        raise ValueError(f"stdin {error}") from None
    return 0


def _configured_hash(key: NamedKey) -> str:
    if key.file is None:
        return key.sha256 or ""
    try:
        return hash_of_key_file(key.file.read_bytes())
    except OSError as error:
        raise ValueError(f"cannot be read: {error.strerror}; check the path") from None


_UNKNOWN = (
    "hookgate accepts only API keys that are named in its configuration; this call has another key, or none. "
    "Ask the operator of this gateway to add your key to hookgate.toml."
)
_NOT_ISSUED = (
    "hookgate accepts only keys that it has issued, or that are named in its configuration; this call has "
    "another key, or none. Ask the operator of this gateway for a key."
)

TOKEN = "token"  # noqa: S105  # not a secret
"""The ID of a caller with a token. IDs of issued keys are longer."""

KeyState = Literal["valid", "revoked", "expired", "replaced", "unknown", "unavailable"]


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key that the gateway has issued, as a request presented it."""

    id: str
    """Its public ID; empty if it is unknown or cannot be looked up."""
    owner: str
    """The name of its owner; for an unknown key the start of its hash."""
    team: str
    state: KeyState
    digest: bytes = field(default=b"", repr=False)
    """Its keyed hash."""
    scope: "KeyScope | None" = None
    expires: int | None = None
    """When it expires, in seconds since 1970."""

    @property
    def is_token(self) -> bool:
        """Whether it is a token of an identity provider, which is treated like an issued key."""
        return self.id == TOKEN

    @property
    def restricts_models(self) -> bool:
        """Whether only certain models may be called with it."""
        return self.scope is not None and self.scope.restricts_models

    @property
    def name(self) -> str:
        """The name of the key in messages."""
        return f"{self.id} of {self.owner}"


@dataclass(frozen=True, slots=True)
class Caller:
    """A client with a key. `key` is a name that does not reveal the key, or empty if there is no key."""

    client: str
    key: str
    team: str
    _identity: bytes = field(repr=False)
    """Key and User-Agent as they were sent, for the fingerprints of conversations."""
    issued: IssuedKey | None = None
    """The key, if the gateway has issued it."""

    def in_session(self, session_id: str, cwd: str = "", transcript_path: str = "") -> SessionContext:
        """Return a session of this caller."""
        return SessionContext(session_id, transcript_path, self.client, self.key, cwd, self.team)

    def conversation_id(self, contents: list[Any]) -> str:
        """Return the session id for a client that does not name one: a fingerprint of the first turn."""
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

    def caller_for(self, route: Route, headers: Mapping[str, str], issued: IssuedKey | None = None) -> Caller:
        """Return the caller of a request, by key and User-Agent. `issued` is its key, if it was issued."""
        key = sent_credential(route, headers)
        agent = headers.get("user-agent", "")
        if issued is not None:
            named = KeyOwner(issued.owner, issued.team)
            if issued.id:  # a conversation stays the same after a rotation
                key = f"issued {issued.id} {issued.owner}"
        else:
            digest = hash_of_key(key)
            named = self._named.get(digest) or KeyOwner(short_key_name(digest))
        return Caller(
            client=agent.partition("/")[0].strip(),
            key=named.name,
            team=named.team,
            _identity="\0".join((key, agent)).encode(errors="surrogateescape"),
            issued=issued,
        )

    def admit(self, route: Route, headers: Mapping[str, str]) -> None:
        """Raise ApiError (403) for a call without a named key, if such calls are refused."""
        if not self._refuses_unknown:
            return
        key = sent_credential(route, headers)
        if hash_of_key(key) not in self._named and (key or not _continues_upload(route)):
            raise ApiError(403, _NOT_ISSUED if self._issues else _UNKNOWN, "KEY_UNKNOWN")


def named_session(route: Route, headers: Mapping[str, str]) -> str:
    """Return the session in the path or in a header, or "". Raises ApiError (400) if it is invalid."""
    if route.session:
        return route.session
    return session_name(headers[SESSION_HEADER]) if SESSION_HEADER in headers else ""


def sent_credential(route: Route, headers: Mapping[str, str]) -> str:
    """Return the key as it was sent, in a header with its scheme, or an empty string."""
    return headers.get(KEY_HEADER) or route.key or headers.get("authorization", "") or route.access_token


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
