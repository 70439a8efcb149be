"""The headers of requests and answers that are forwarded. It does no I/O."""

import re
from collections.abc import Iterable, Mapping

# The headers that are forwarded in each direction. These are allow-lists: a header that is not known to be
# needed is not forwarded, so neither hop-by-hop headers nor headers meant for the gateway itself can leak to
# the other side.
_TO_UPSTREAM = frozenset(
    {
        "accept",
        "accept-language",
        "api-revision",
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
# They change the form of the answer, like the query parameters that are refused, or hold the URL of an
# upload: uploads must go through the gateway, so passthrough.py rewrites that URL.
_NEVER_FORWARDED = frozenset(
    {
        "x-goog-encode-response-if-executable",
        "x-goog-fieldmask",
        "x-goog-upload-control-url",
        "x-goog-upload-url",
    }
)

# Includes lone surrogates: they stand for bytes that are not UTF-8 and could not be encoded again.
_CONTROLS = re.compile(r"[\x00-\x08\x0a-\x1f\x7f-\x9f\ud800-\udfff]")


def to_upstream(headers: Mapping[str, str], accept_encoding: str) -> dict[str, str]:
    """Return the client's headers to forward upstream, with `Accept-Encoding` set to `accept_encoding`."""
    return {**_forwarded(headers.items(), _TO_UPSTREAM), "Accept-Encoding": accept_encoding}


def to_client(headers: Mapping[str, str]) -> dict[str, str]:
    """Return the upstream's headers to forward to the client.

    Headers that describe the body's length are not included: the gateway sets them. Neither are values with
    control characters, which no header may contain.
    """
    forwarded = _forwarded(headers.items(), _TO_CLIENT)
    return {name: value for name, value in forwarded.items() if not has_controls(value)}


def has_controls(value: str) -> bool:
    """Return True if a header's value or a reason phrase contains control characters."""
    return _CONTROLS.search(value) is not None


def _forwarded(headers: Iterable[tuple[str, str]], allowed: frozenset[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers
        if (low := name.lower()) in allowed or (low.startswith(_BOTH_WAYS) and low not in _NEVER_FORWARDED)
    }
