"""The base URLs of clients: without a version, and with the prefix of an ingress."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from support.gateway.loopback import gateway_before, running_gateway, runs
from support.gateway.routes import refused
from support.hooks.policies import REFUSAL, no_rockets
from support.wire import KEY, UNARY, connected, ok, peer, post, prompt, request_bytes

from hookgate.proxy.config import Config, ListenSettings
from hookgate.proxy.routes.table import TABLE, Row, match, without_prefix

URL = "https://llm.example/gemini"
BEHIND = Config(listen=ListenSettings(url=URL))
FORWARDS_UPLOADS = Config.model_validate({"listen": {"url": URL}, "routes": {"files": "forward"}})
UPLOAD = "/upload/v1beta/files"
MISLEADING = {
    "Forwarded": "host=evil.example;proto=http",
    "X-Forwarded-Host": "evil.example",
    "X-Forwarded-Path": "/v1beta/files",
    "X-Forwarded-Prefix": "/other",
    "X-Forwarded-Proto": "ftp",
    "X-HTTP-Method-Override": "GET",
    "X-Original-URL": "/v1beta/models",
    "X-Rewrite-URL": "/v1beta/models",
}


@pytest.mark.parametrize("prefix", ["", "/s/abc"])
@pytest.mark.parametrize(
    ("path", "beginning"),
    [
        ("/models/m:generateContent", "/v1beta"),
        ("/models/m:countTokens", "/v1beta"),
        ("/tunedModels/m:streamGenerateContent", "/v1beta"),
        ("/interactions", "/v1beta"),
        ("/interactions/i/cancel", "/v1beta"),
        ("/chat/completions", "/v1beta/openai"),
        ("/responses", "/v1beta/openai"),
        ("/embeddings", "/v1beta/openai"),
    ],
)
def test_a_path_without_a_version_is_that_of_v1beta(path: str, beginning: str, prefix: str) -> None:
    route = match("POST", prefix + path)
    expected = match("POST", f"{prefix}{beginning}{path}")
    assert (route, route.kind) == (expected, "judged")


@pytest.mark.parametrize("path", ["/chat/completions", "/responses", "/embeddings"])
def test_the_base_url_of_openais_clients_may_end_with_v1(path: str) -> None:
    assert match("POST", f"/v1{path}") == match("POST", f"/v1beta/openai{path}")


@pytest.mark.parametrize(
    "path",
    [
        *("/models", "/models/m", "/files", "/batches", "/cachedContents"),
        *("/publishers/google/models/m:generateContent", "/v1/chat/completions/c", "/v2/chat/completions"),
        *("/chat/completions/", "//chat/completions", "/models/m%3AgenerateContent"),
        *("/models/m:predict", "/interactions/live", "/interactions/i/auth_tokens"),
    ],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_other_paths_without_a_version_are_refused(path: str, method: str) -> None:
    assert refused(path, method).reason == "ROUTE_NOT_ALLOWED"


@given(st.sampled_from(TABLE), st.data())
def test_a_prefix_changes_no_path(row: Row, data: st.DataObject) -> None:
    path = data.draw(st.from_regex(row.pattern, fullmatch=True))
    for target in (path, f"/s/abc{path}", f"{path}?alt=json"):
        assert without_prefix(target, "/gemini") == target
        assert without_prefix(f"/gemini{target}", "/gemini") == target


@pytest.mark.parametrize(
    "target",
    [
        *("/gemini", "/gemini2/v1beta/models", "/GEMINI/v1beta/models", "/%67emini/v1beta/models"),
        *("/gemini/gemini/v1beta/models", "/s/abc/gemini/v1beta/models", "/gemini//v1beta/models"),
        *("/gemini/../v1beta/models", "/other/v1beta/models"),
    ],
)
def test_the_prefix_is_whole_first_and_once(target: str) -> None:
    assert refused(without_prefix(target, "/gemini"), "GET").reason == "ROUTE_NOT_ALLOWED"


async def test_calls_with_and_without_the_prefix_are_judged_alike() -> None:
    async with running_gateway({"BeforeModel": [runs(no_rockets)]}, config=BEHIND) as gateway:
        for path in (UNARY, f"/gemini{UNARY}", f"/gemini/s/abc{UNARY}", "/gemini/models/m:generateContent"):
            denied = await post(gateway.url, path, prompt("a rocket"), KEY)
            assert (denied.status, denied.error["message"]) == (403, REFUSAL)
            assert (await post(gateway.url, path, prompt("hi"), KEY)).status == 200
        sent = [request.path_qs for request in gateway.recorded]
    assert sent == [UNARY, UNARY, UNARY, "/v1beta/models/m:generateContent"]


async def test_no_header_of_a_request_chooses_a_route_or_a_prefix() -> None:
    headers = {**KEY, **MISLEADING}
    async with (
        peer(ok(b"{}")) as upstream,
        gateway_before(upstream.url, {"BeforeModel": [runs(no_rockets)]}, BEHIND) as url,
    ):
        for path in (UNARY, f"/gemini{UNARY}"):
            assert (await post(url, path, prompt("a rocket"), headers)).error["message"] == REFUSAL
        assert (await post(url, f"/other{UNARY}", prompt("hi"), headers)).status == 403
        assert not upstream.heard
        assert (await post(url, UNARY, prompt("hi"), headers)).status == 200
    [sent] = upstream.heard
    assert not re.search(rb"(?im)^(forwarded|x-forwarded|x-http|x-original|x-rewrite)", sent)


@pytest.mark.parametrize("came_with", ["", "/gemini", "/s/abc", "/gemini/s/abc"])
async def test_an_upload_continues_at_the_gateways_own_url(came_with: str) -> None:
    async with (
        running_gateway(config=FORWARDS_UPLOADS) as gateway,
        connected(gateway.url) as wire,
    ):
        start = {**KEY, **MISLEADING, "X-Goog-Upload-Protocol": "resumable", "X-Goog-Upload-Command": "start"}
        await wire.write(request_bytes("POST", came_with + UPLOAD, b"{}", start))
        answer = await wire.answer()
    session = came_with.removeprefix("/gemini")
    assert answer.headers["x-goog-upload-url"].startswith(f"{URL}{session}{UPLOAD}?upload_id=")


def test_a_prefix_that_begins_like_a_path_of_calls_is_refused_with_the_remedy() -> None:
    beginnings = {row.template.split("/")[1].partition("{verb}")[0] for row in TABLE}
    paths = {each.replace("{v}", "v1beta").replace("{models}", "models").split(":")[0] for each in beginnings}
    for path in {*paths, "s", "v1", "v1internal", "chat", "responses", "interactions", "models"}:
        with pytest.raises(ValidationError, match="let the ingress use another prefix"):
            ListenSettings(url=f"https://llm.example/{path}/x")


@pytest.mark.parametrize(
    "url", ["/gemini", "llm.example", "https://h/a?b", "https://h/a//b", "https://h/%61"]
)
def test_a_url_that_is_none_is_refused(url: str) -> None:
    with pytest.raises(ValidationError):
        ListenSettings(url=url)


@pytest.mark.parametrize("url", ["https://llm.example", "https://llm.example/", "HTTPS://llm.example:8443"])
def test_a_url_may_have_no_path(url: str) -> None:
    assert ListenSettings(url=url).path_prefix == ""
    assert ListenSettings(url=f"{url.rstrip('/')}/a/b/").path_prefix == "/a/b"
