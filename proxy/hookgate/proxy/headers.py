"""Which headers pass through the gateway, each way. Pure.

Allow-lists: what is not known to be needed does not pass, so neither hop-by-hop headers nor anything
meant for the gateway itself can leak to the other side.
"""

import re
from collections.abc import Iterable, Mapping

from hookgate.proxy.errors import ApiError

_TO_UPSTREAM = frozenset(
    {
        "accept",
        "accept-language",
        "authorization",
        "content-type",
        "traceparent",
        "tracestate",
        "user-agent",
        "x-request-id",
        "x-server-timeout",
    }
)
_TO_CLIENT = frozenset(
    {
        "content-disposition",
        "content-range",
        "content-type",
        "date",
        "retry-after",
        "server-timing",
        "x-request-id",
    }
)
_BOTH_WAYS = ("x-goog-", "x-gemini-")
# They change what an answer looks like, as the query parameters do that are refused, or tell where an
# upload goes: that has to lead through the gateway, so passthrough.py writes it anew.
_NEITHER_WAY = frozenset(
    {
        "x-goog-encode-response-if-executable",
        "x-goog-fieldmask",
        "x-goog-upload-control-url",
        "x-goog-upload-url",
    }
)

# Also halves of surrogate pairs: bytes that are not UTF-8, which could not be written again.
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")

SESSION_HEADER = "x-hookgate-session"
KEY_HEADER = "x-goog-api-key"
RECEIPT_HEADER = "x-hookgate-receipt"
SHIM_HEADER = "x-hookgate-shim"


def to_upstream(headers: Mapping[str, str], accept_encoding: str) -> dict[str, str]:
    """The client's headers for the upstream, which may compress with `accept_encoding` only."""
    return {**_passing(headers.items(), _TO_UPSTREAM), "Accept-Encoding": accept_encoding}


def with_key(headers: Mapping[str, str], key: str) -> Mapping[str, str]:
    """The upstream's headers with a key that came in the query, if there is one and none came as a header."""
    if not key or any(name.lower() == KEY_HEADER for name in headers):
        return headers
    return {**headers, KEY_HEADER: key}


def check_credentials(headers: Mapping[str, str], *in_query: str) -> None:
    """Compare what a request names as its credential: in two headers, and `in_query` as key or access token.

    Raises ApiError (400) for two that differ: limits could go by one, and the upstream by the other.
    """
    _, _, token = headers.get("authorization", "").strip().rpartition(" ")  # whatever its scheme
    given = {headers.get(KEY_HEADER, ""), token, *in_query} - {""}
    if len(given) > 1:
        raise ApiError(
            400,
            "The request names two different credentials (x-goog-api-key, Authorization, ?key= or "
            "?access_token=); send one.",
            "CREDENTIALS_DIFFER",
        )


def to_client(headers: Mapping[str, str]) -> dict[str, str]:
    """The upstream's headers for the client; those that describe the body's length are made anew.

    Values with control characters are left out: no header may hold them, and no client has to be sent them.
    """
    passing = _passing(headers.items(), _TO_CLIENT)
    return {name: value for name, value in passing.items() if not has_controls(value)}


def has_controls(value: str) -> bool:
    """Whether a header's value, or a reason phrase, has bytes in it that neither may have."""
    return _CONTROLS.search(value) is not None


def _passing(headers: Iterable[tuple[str, str]], allowed: frozenset[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers
        if (low := name.lower()) in allowed or (low.startswith(_BOTH_WAYS) and low not in _NEITHER_WAY)
    }
