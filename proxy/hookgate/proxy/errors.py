"""Errors as Google's APIs spell them: `{"error": {"code", "message", "status", "details"}}`."""

from typing import Any

import orjson

_STATUS = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    413: "INVALID_ARGUMENT",
    415: "INVALID_ARGUMENT",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    502: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}

DOMAIN = "hookgate"
"""The `domain` of the ErrorInfo in a refusal: how a client tells the gateway's own answers apart."""


POLICY_DENIED = "POLICY_DENIED"
"""The reason of a hook's denial."""

_QUOTING = (400, 415)
"""Of malformed requests: their messages may quote what the client sent."""


class ApiError(Exception):
    """An answer that is an error. `reason` is the ErrorInfo's machine-readable reason."""

    def __init__(self, code: int, message: str, reason: str = "", **metadata: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason
        self.metadata = metadata

    @property
    def cause(self) -> str:
        """What went wrong, in one word."""
        return self.reason or _STATUS[self.code]

    @property
    def on_record(self) -> str:
        """The same with the message, unless that may hold what was said."""
        return self.cause if not self.reason or self.code in _QUOTING else f"{self.cause}: {self.message}"

    def body(self) -> bytes:
        """The JSON of the error."""
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
        return orjson.dumps({"error": error})


def policy_denied(reason: str, event: str) -> ApiError:
    """A hook's denial. Clients show the message of this one, once, and do not try again."""
    return ApiError(403, reason, POLICY_DENIED, event=event)


def not_a_route(message: str) -> ApiError:
    """A path or verb the gateway does not serve."""
    return ApiError(403, message, "ROUTE_NOT_ALLOWED")
