"""Which headers pass through the gateway, each way. Pure.

Allow-lists: what is not known to be needed does not pass, so neither hop-by-hop headers nor anything
meant for the gateway itself can leak to the other side.
"""

from collections.abc import Iterable, Mapping

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
_TO_CLIENT = frozenset({"content-type", "date", "retry-after", "server-timing", "x-request-id"})
_BOTH_WAYS = ("x-goog-", "x-gemini-")

SESSION_HEADER = "x-hookgate-session"
KEY_HEADER = "x-goog-api-key"


def to_upstream(headers: Mapping[str, str], accept_encoding: str) -> dict[str, str]:
    """The client's headers for the upstream, which may compress with `accept_encoding` only."""
    return {**_passing(headers.items(), _TO_UPSTREAM), "Accept-Encoding": accept_encoding}


def to_client(headers: Mapping[str, str]) -> dict[str, str]:
    """The upstream's headers for the client; those that describe the body's length are made anew."""
    return _passing(headers.items(), _TO_CLIENT)


def _passing(headers: Iterable[tuple[str, str]], allowed: frozenset[str]) -> dict[str, str]:
    return {
        name: value
        for name, value in headers
        if (low := name.lower()) in allowed or low.startswith(_BOTH_WAYS)
    }
