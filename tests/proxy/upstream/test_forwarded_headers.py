"""The headers that are forwarded in each direction."""

from typing import Any

import pytest
from multidict import CIMultiDict

from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys.callers import check_credentials
from hookgate.proxy.upstream.client import (
    in_utf8,
    to_client,
    to_upstream,
    with_judged_body,
    with_key,
)

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
    "X-Goog-Upload-Command": "upload, finalize",
    "traceparent": "00-1-2-01",
    "tracestate": "a=b",
    "X-Request-Id": "r1",
    "X-Server-Timeout": "60",
    "Referer": "https://app.example/",
    "X-Android-Package": "com.example.app",
    "X-Android-Cert": "AB12",
    "X-Ios-Bundle-Identifier": "com.example.app",
    "X-Vertex-AI-LLM-Request-Type": "dedicated",
    "X-Vertex-AI-LLM-Shared-Request-Type": "priority",
}
HOP_BY_HOP = ["Host", "Content-Length", "Transfer-Encoding", "Connection", "Keep-Alive", "TE", "Upgrade"]
MISLEADING = [
    "Expect",
    "Cookie",
    "Content-Encoding",
    "X-HTTP-Method-Override",
    "Forwarded",
    "Proxy-Authorization",
    "Range",
    "X-Goog-FieldMask",
    "X-Goog-Encode-Response-If-Executable",
]


def test_credentials_and_facts_about_the_call_reach_the_upstream_as_they_are() -> None:
    assert to_upstream(PASSING, "identity") == {**PASSING, "Accept-Encoding": "identity"}


@pytest.mark.parametrize("name", [*HOP_BY_HOP, *MISLEADING, "X-Hookgate-Session", "x-hookgate-anything"])
def test_hop_by_hop_headers_and_the_gateways_own_stop_here(name: str) -> None:
    assert to_upstream({name: "value"}, "identity") == {"Accept-Encoding": "identity"}


def test_a_header_is_sent_once_whatever_its_case() -> None:
    headers = CIMultiDict([("content-type", "text/plain"), ("Content-Type", "text/html")])
    assert to_upstream(headers, "identity") == {"Content-Type": "text/html", "Accept-Encoding": "identity"}
    assert with_judged_body(headers) == {"Content-Type": "text/html"}


def test_the_upstream_compresses_only_as_the_gateway_says() -> None:
    assert to_upstream({"Accept-Encoding": "br"}, "gzip") == {"Accept-Encoding": "gzip"}
    assert to_upstream({"accept-encoding": "br"}, "gzip") == {"Accept-Encoding": "gzip"}


def test_headers_that_a_client_needs_are_returned() -> None:
    headers = {
        "Content-Type": "text/event-stream",
        "Retry-After": "7",
        "Server-Timing": "gfet4t7; dur=1",
        "X-Goog-Trace": "t",
        "X-Gemini-Service-Tier": "standard",
        "X-Goog-Upload-Status": "active",
        "Content-Disposition": "attachment",
        "Content-Range": "bytes 0-2/3",
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
        "X-Goog-Upload-URL",
        "X-Goog-Upload-Control-URL",
        "Alt-Svc",
    ],
)
def test_headers_about_the_upstreams_connection_are_removed(name: str) -> None:
    assert to_client({name: "value"}) == {}


@pytest.mark.parametrize(
    ("sent", "received"),
    [
        ("application/json", "application/json"),
        ("application/json; charset=UTF-8", "application/json; charset=UTF-8"),
        ('text/event-stream;charset="utf-8"', 'text/event-stream;charset="utf-8"'),
        ("application/json; charset=utf-7", "application/json; charset=utf-8"),
        ("application/json;charset=utf-8;charset=utf-7", "application/json; charset=utf-8"),
        ("text/html; CharSet = 'utf-16'", "text/html; charset=utf-8"),
        ("text/event-stream; x=y; charset=unicode_escape", "text/event-stream; charset=utf-8"),
        ("application/json; charset*=utf-8''utf-7", "application/json; charset=utf-8"),
    ],
)
def test_a_judged_body_is_in_utf8_whatever_its_sender_says(sent: str, received: str) -> None:
    assert with_judged_body({"content-type": sent, "Date": "now"}) == {
        "content-type": received,
        "Date": "now",
    }
    assert in_utf8({"X-Goog-Upload-Header-Content-Type": sent}) == {
        "X-Goog-Upload-Header-Content-Type": received
    }


# ---- keys


def test_a_key_of_the_query_becomes_a_header_unless_there_is_one() -> None:
    assert with_key({"a": "b"}, "k") == {"a": "b", "x-goog-api-key": "k"}
    assert with_key({"X-Goog-Api-Key": "k"}, "k") == {"X-Goog-Api-Key": "k"}
    assert with_key({"a": "b"}, "") == {"a": "b"}


BEARER = {"authorization": "Bearer canary"}


@pytest.mark.parametrize(
    ("headers", "in_query"),
    [
        ({}, ()),
        ({"x-goog-api-key": "canary"}, ("canary", "")),
        ({"x-goog-api-key": "canary"}, ("", "")),
        ({}, ("canary", "")),
        (BEARER, ("", "")),
        ({**BEARER, "x-goog-api-key": "canary"}, ("canary", "canary")),
        ({"authorization": "Token canary", "x-goog-api-key": "canary"}, ()),
    ],
)
def test_one_credential_may_be_given_in_several_places(headers: Any, in_query: Any) -> None:
    check_credentials(headers, *in_query)


@pytest.mark.parametrize(
    ("headers", "in_query"),
    [
        ({"x-goog-api-key": "canary"}, ("other-canary", "")),
        ({"x-goog-api-key": "other-canary", **BEARER}, ("", "")),
        ({"x-goog-api-key": "other-canary", "authorization": "canary"}, ("", "")),
        ({"x-goog-api-key": "other-canary", "authorization": "bearer  canary"}, ("", "")),
        (BEARER, ("other-canary", "")),
        (BEARER, ("", "other-canary")),
        ({}, ("canary", "other-canary")),
    ],
)
def test_two_different_credentials_are_refused_without_being_shown(headers: Any, in_query: Any) -> None:
    with pytest.raises(ApiError) as refusal:
        check_credentials(headers, *in_query)
    assert (refusal.value.code, "canary" in refusal.value.message) == (400, False)
