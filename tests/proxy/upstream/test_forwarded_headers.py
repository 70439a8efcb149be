"""The headers that are forwarded in each direction."""

import json
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from multidict import CIMultiDict
from pydantic import ValidationError
from support.gateway.live import LIVE, live
from support.gateway.loopback import gateway_before, listens
from support.wire import KEY, connected, ok, peer, prompt, request_bytes

from hookgate.proxy.config import Config, UpstreamSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.keys.callers import check_credentials
from hookgate.proxy.upstream.client import (
    Upstreams,
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
    "X-Goog-Request-Params",
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


def test_headers_that_no_client_reads_are_not_sent_with_a_judged_answer() -> None:
    kept = {"X-Gemini-Service-Tier": "standard", "X-Goog-Upload-Status": "active", "Retry-After": "1"}
    names = ("x-goog-evil", "X-Gemini-Evil", "x-vertex-ai-evil", "Server-Timing", "Content-Disposition")
    unread = dict.fromkeys(names, "secret")
    assert with_judged_body({**kept, **unread}) == kept


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


# ---- headers that the operator names


def named(*names: str) -> Upstreams:
    return Upstreams(UpstreamSettings(request_headers=names))


def test_headers_that_the_operator_names_are_passed_on_whatever_their_case() -> None:
    headers = {"x-tenant": "a", "X-Other": "b", "Cookie": "c", "Authorization": "Bearer t"}
    assert named("X-Tenant").named_headers(headers) == {"x-tenant": "a"}
    assert named().named_headers(headers) == {}


ALREADY = ["Referer", "User-Agent", "X-Goog-User-Project", "X-Android-Package", "X-Ios-Bundle-Identifier"]
CREDENTIALS = ["Authorization", "Cookie", "Proxy-Authorization", "X-Api-Key", "Api-Key", "X-Auth-Token"]
CONTENT = ["Content-Type", "Content-Encoding", "Content-Length", "Accept", "Accept-Encoding", "If-Match"]
ROUTE = ["X-Forwarded-For", "X-Original-URL", "X-Rewrite-URL", "X-Method-Override", "Sec-WebSocket-Key"]


@pytest.mark.parametrize(
    "name",
    [*PASSING, *HOP_BY_HOP, *MISLEADING, *ALREADY, *CREDENTIALS, *CONTENT, *ROUTE, "x-hookgate-session"],
)
def test_other_headers_cannot_be_named(name: str) -> None:
    for spelled in (name, name.lower(), name.upper()):
        with pytest.raises(ValidationError, match=r"must not be named here: it .*; remove it"):
            UpstreamSettings(request_headers=(spelled,))


@pytest.mark.parametrize(
    "name", ["", "X Tenant", "X-Tenant: a", "X-Tenant\r\nHost", "x" * 65, "X_Tenant", "*"]
)
def test_what_is_no_name_of_a_header_cannot_be_named(name: str) -> None:
    with pytest.raises(ValidationError, match="must be the name of a header"):
        UpstreamSettings(request_headers=(name,))


FILES = {"routes": {"files": "judge", "live": "judge"}, "upstream": {"request_headers": ["X-Tenant"]}}


@pytest.mark.parametrize(
    ("method", "target", "body"),
    [
        ("POST", "/v1beta/models/m:generateContent", prompt("hi")),
        ("POST", "/v1beta/models/m:countTokens", prompt("hi")),
        ("POST", "/v1beta/interactions", {"model": "m", "input": "hi"}),
        ("GET", "/v1beta/interactions/i", None),
        ("GET", "/v1beta/batches/b", None),
        ("GET", "/v1beta/models", None),
        ("POST", "/upload/v1beta/files", {}),
    ],
)
@pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [listens([])], "AfterModel": [listens([])]}])
async def test_named_headers_reach_the_upstream_in_calls_of_all_kinds(
    method: str, target: str, body: Any, hooks: Any
) -> None:
    upload = {"X-Goog-Upload-Protocol": "resumable", "X-Goog-Upload-Command": "start"}
    headers = {**KEY, **upload, "Content-Type": "application/json", "X-TENANT": "team-a", "X-Other": "no"}
    config = Config.model_validate(FILES)
    data = b"" if body is None else json.dumps(body).encode()
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, hooks, config) as url,
        connected(url) as wire,
    ):
        await wire.write(request_bytes(method, target, data, headers))
        await wire.answer()
    [sent] = upstream.heard
    assert b"\r\nX-TENANT: team-a\r\n" in sent
    assert b"X-Other" not in sent


async def test_named_headers_reach_the_upstream_of_a_live_session() -> None:
    seen: list[web.BaseRequest] = []
    config = Config.model_validate(FILES)
    async with (
        live(lambda socket: socket.close(), seen) as upstream,
        gateway_before(upstream, {}, config) as url,
        aiohttp.ClientSession(headers={**KEY, "X-Tenant": "team-a", "X-Other": "no"}) as http,
        http.ws_connect(url + LIVE) as socket,
    ):
        await socket.receive()
    assert (seen[0].headers["X-Tenant"], "X-Other" in seen[0].headers) == ("team-a", False)


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
