"""Which headers pass, each way."""

import pytest

from hookgate.proxy.headers import to_client, to_upstream

PASSING = {
    "x-goog-api-key": "k",
    "Authorization": "Bearer t",
    "X-Goog-User-Project": "p",
    "x-goog-api-client": "google-genai-sdk/3.4",
    "X-Gemini-Api-Privileged-User-Id": "u",
    "User-Agent": "GeminiCLI/0.61",
    "Accept": "*/*",
    "Accept-Language": "de",
    "Content-Type": "application/json",
    "traceparent": "00-1-2-01",
    "tracestate": "a=b",
    "X-Request-Id": "r1",
    "X-Server-Timeout": "60",
}
HOP_BY_HOP = ["Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Upgrade"]
MISLEADING = [
    "Expect",
    "Cookie",
    "Content-Encoding",
    "X-HTTP-Method-Override",
    "Forwarded",
    "Proxy-Authorization",
]


def test_credentials_and_facts_about_the_call_reach_the_upstream_as_they_are() -> None:
    assert to_upstream(PASSING, "identity") == {**PASSING, "Accept-Encoding": "identity"}


@pytest.mark.parametrize("name", [*HOP_BY_HOP, *MISLEADING, "X-Hookgate-Session", "x-hookgate-anything"])
def test_hop_by_hop_headers_and_the_gateways_own_stop_here(name: str) -> None:
    assert to_upstream({name: "value"}, "identity") == {"Accept-Encoding": "identity"}


def test_the_upstream_compresses_only_as_the_gateway_says() -> None:
    assert to_upstream({"Accept-Encoding": "br"}, "gzip") == {"Accept-Encoding": "gzip"}
    assert to_upstream({"accept-encoding": "br"}, "gzip") == {"Accept-Encoding": "gzip"}


def test_what_a_client_acts_on_comes_back() -> None:
    headers = {
        "Content-Type": "text/event-stream",
        "Retry-After": "7",
        "Server-Timing": "gfet4t7; dur=1",
        "X-Goog-Trace": "t",
        "X-Gemini-Service-Tier": "standard",
        "X-Request-Id": "r1",
        "Date": "now",
    }
    assert to_client(headers) == headers


@pytest.mark.parametrize(
    "name",
    [
        "Content-Length",
        "Content-Encoding",
        "Transfer-Encoding",
        "Connection",
        "Set-Cookie",
        "Location",
        "Alt-Svc",
    ],
)
def test_what_describes_the_upstreams_connection_stays_behind(name: str) -> None:
    assert to_client({name: "value"}) == {}
