"""What receivers have in common: how they are reached, and what they answer."""

import os
import re
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from hookgate.proxy.config.models import ExportSettings
from hookgate.proxy.config.values import read_secret
from hookgate.proxy.exports.documents import SentDocument
from hookgate.proxy.webhooks import SECRET_PREFIX, signing_key

DELIVERY_SECONDS = 10.0
"""Seconds that a receiver has for a batch."""


@dataclass(frozen=True, slots=True)
class Accepted:
    """The receiver has the documents, except those that it refuses: their indices, with the reasons.

    It may also refuse some without saying which: `unnamed` is their number, and `why` the reason.
    """

    refused: Mapping[int, str] = field(default_factory=dict)
    unnamed: int = 0
    why: str = ""


@dataclass(frozen=True, slots=True)
class Rejected:
    """The receiver has refused the batch as a whole, for what it contains or for its size."""

    reason: str


@dataclass(frozen=True, slots=True)
class Unavailable:
    """The receiver could not be reached, or takes no documents now. It may want a pause of some seconds."""

    reason: str
    pause: float = 0.0


Delivery = Accepted | Rejected | Unavailable


class RecordReceiver(Protocol):
    """A receiver of documents."""

    async def deliver(self, batch: Sequence[SentDocument]) -> Delivery:
        """Send documents of one writer, in their order. May raise OSError or TimeoutError."""

    async def close(self) -> None:
        """Close its connections."""


class ExportsError(ValueError):
    """Raised for exports that cannot be used. `problems` are pairs of a setting and a message."""

    def __init__(self, problems: list[tuple[str, str]]) -> None:
        self.problems = problems
        super().__init__("\n".join(message for _, message in problems))


@dataclass(frozen=True, slots=True)
class ReceiverAccess:
    """How a receiver is reached: the settings, the secret, and the context for TLS."""

    settings: ExportSettings
    secret: str
    tls: ssl.SSLContext | None

    def mask(self, text: str) -> str:
        """Return a text of the receiver in one short line, without the secret."""
        parts = [self.secret, *self.secret.split(":")] if self.secret else []
        for part in parts:
            text = text.replace(part, "***") if len(part) >= _SHORTEST_SECRET else text
        line = " ".join(text.split())
        return line if len(line) <= _LONGEST_REASON else f"{line[:_LONGEST_REASON]}…"


_NO_BOTOCORE = (
    "S3 needs botocore, which is not installed; install the extra s3: pip install '.[s3]' in a checkout of "
    "hookgate"
)
_SHORTEST_SECRET = 4
_LONGEST_REASON = 300


def read_access(configured: Mapping[str, ExportSettings]) -> dict[str, ReceiverAccess]:
    """Read the secrets and certificates of exports. Raises ExportsError with all problems."""
    found: dict[str, ReceiverAccess] = {}
    problems: list[tuple[str, str]] = []
    for name, settings in configured.items():
        if settings.destination.kind == "s3" and find_spec("botocore") is None:
            problems.append((f"exports.{name}", f"exports.{name}.to: {_NO_BOTOCORE}"))
            continue
        try:
            found[name] = ReceiverAccess(settings, _secret(settings), _tls(settings))
        except ValueError as error:
            problems.append((f"exports.{name}", f"exports.{name}.{error}"))
    if problems:
        raise ExportsError(problems)
    return found


def _secret(settings: ExportSettings) -> str:
    check = {"s3": _pair, "webhook": _signing_secret}.get(settings.destination.kind, _word)
    if settings.secret_file is not None:
        try:
            return read_secret(settings.secret_file, check)
        except ValueError as error:
            raise ValueError(f"secret_file: {error}") from None
    if settings.secret_variable is None:
        return ""
    try:
        return check(os.environ.get(settings.secret_variable, "").strip())
    except ValueError as error:
        raise ValueError(f"secret_variable: {settings.secret_variable}: {error}") from None


def _word(text: str) -> str:
    if not re.fullmatch(r"[!-~]{1,4096}", text):
        raise ValueError("must contain the secret, and nothing else")
    return text


def _signing_secret(text: str) -> str:
    if text.startswith(SECRET_PREFIX):
        signing_key(text)
    return _word(text)


def _pair(text: str) -> str:
    if not re.fullmatch(r"[!-9;-~]{1,256}:[!-~]{1,4096}", text):
        raise ValueError("must contain ACCESS_KEY:SECRET_KEY, and nothing else")
    return text


def _tls(settings: ExportSettings) -> ssl.SSLContext | None:
    """Return the context for TLS; S3's library makes its own."""
    if not settings.destination.secure or settings.destination.kind == "s3":
        return None
    context = _trusting(settings.ca_bundle)
    if settings.certificate is not None:
        try:
            context.load_cert_chain(settings.certificate, settings.key)
        except (OSError, ssl.SSLError) as error:
            raise ValueError(
                f"certificate: {settings.certificate}: cannot be used: {error}; check both files"
            ) from None
    return context


def _trusting(bundle: Path | None) -> ssl.SSLContext:
    try:
        return ssl.create_default_context(cafile=bundle)
    except (OSError, ssl.SSLError) as error:
        raise ValueError(
            f"ca_bundle: {bundle}: cannot be used: {error}; name a PEM file with certificates"
        ) from None
