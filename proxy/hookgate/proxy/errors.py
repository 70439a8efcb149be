"""Errors in the format of Google's APIs, and helpers for messages."""

import logging
import os
import socket
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hookgate.translator.fields import BodyError
from hookgate.translator.strictjson import encode_answer

log = logging.getLogger("hookgate.store")


def pluralize(count: int, one: str, many: str | None = None) -> str:
    """Return a count with its noun: `1 call`, `2 calls`. `many` is the plural if it is not regular."""
    return f"{count} {one if count == 1 else many or f'{one}s'}"


def describe_os_error(error: OSError) -> str:
    """Return the system's message for an error, without its number, address or path."""
    if isinstance(error, socket.gaierror) or error.errno is None:
        return error.strerror or str(error)
    return os.strerror(error.errno)


class StoreError(ValueError):
    """Raised if the store cannot be used. The message contains no password."""


_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

DOMAIN = "hookgate"
"""The `domain` of the gateway's ErrorInfo: it distinguishes the gateway's errors from the upstream's."""


NO_TOKEN = "TOKEN_UNAVAILABLE"  # noqa: S105  # no password
"""The `reason` if there is no access token for one of the gateway's credentials."""

UPSTREAM_BROKE = "UPSTREAM_BROKE"
"""The `reason` if an answer of the upstream ends before it is complete, or ends with an error."""

UPSTREAM_FAILED = frozenset(
    {
        NO_TOKEN,
        UPSTREAM_BROKE,
        "UPSTREAM_ELSEWHERE",
        "UPSTREAM_REFUSED",
        "UPSTREAM_TIMEOUT",
        "UPSTREAM_UNREACHABLE",
        "UPSTREAM_UNREADABLE",
    }
)
"""The reasons of errors for which the upstream is responsible."""

POLICY_DENIED = "POLICY_DENIED"
"""The `reason` of a hook's denial."""

_QUOTING = (400, 415)
"""The codes for malformed requests, whose messages may quote what the client sent."""


class ApiError(Exception):
    """Raised to answer a request with an error. `reason` is the machine-readable reason in the ErrorInfo."""

    def __init__(self, code: int, message: str, reason: str = "", **metadata: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = metadata

    @property
    def cause(self) -> str:
        """The reason, or else the status, as one word."""
        return self.reason or _STATUS[self.code]

    @property
    def audit_text(self) -> str:
        """The cause with the message, unless the message may quote content of the call."""
        return self.cause if not self.reason or self.code in _QUOTING else f"{self.cause}: {self.message}"

    def body(self) -> bytes:
        """Return the error as JSON."""
        error: dict[str, Any] = {"code": self.code, "message": self.message, "status": _STATUS[self.code]}
        if self.reason:
            error["details"] = [
                {
                    "@type": "type.googleapis.com/google.rpc.ErrorInfo",
                    "reason": self.reason,
                    "domain": DOMAIN,
                    "metadata": self.metadata,
                }
            ]
        return encode_answer({"error": error})

    def at(self, path: str) -> "ApiError":
        """Return the error with the path of the affected part of the body; "" is the whole body."""
        message = f"{path}: {self.message}" if path else self.message
        return ApiError(self.code, message, self.reason, **self.metadata)


class StoreUse:
    """Uses of one store. Clients get the same error for each failure, which does not say why.

    A cause names the database and its host. It is logged, once until the store can be used again.
    """

    def __init__(self, refusal: Callable[[], ApiError]) -> None:
        """`refusal` returns the error for clients."""
        self._refusal = refusal
        self.failing = False
        """Whether the last use has failed."""

    @contextmanager
    def trying(self) -> Iterator[None]:
        """Use the store in the block. Raises ApiError in place of StoreError."""
        try:
            yield
        except StoreError as error:
            if not self.failing:
                log.error("%s", error)
            self.failing = True
            raise self._refusal() from None
        self.failing = False


def body_refused(problem: BodyError | str, code: int = 400) -> ApiError:
    """Return the error for a request body that cannot be judged; `problem` describes the reason.

    A BodyError has a code of its own.
    """
    code = problem.status if isinstance(problem, BodyError) else code
    reason = "BODY_TOO_LARGE" if code == 413 else "BODY_REFUSED"
    return ApiError(code, f"hookgate refuses the request body: {problem}", reason)


def policy_denied(reason: str, event: str) -> ApiError:
    """Return the error for a hook's denial. Clients show its message and do not retry."""
    return ApiError(403, reason, POLICY_DENIED, event=event)


def request_refused(problem: str) -> ApiError:
    """Return the error for a malformed request line, query or header; `problem` describes the reason."""
    return ApiError(400, problem, "REQUEST_REFUSED")


def only_get() -> ApiError:
    """Return the error of the admin listener for other methods, which agents send that use its address."""
    return ApiError(
        403,
        "This path accepts only GET. This is the admin listener; agents must use the address of the gateway, "
        "by default http://127.0.0.1:8787.",
    )


def not_a_route(message: str) -> ApiError:
    """Return the error for a path or method that the gateway does not serve."""
    return ApiError(403, message, "ROUTE_NOT_ALLOWED")
