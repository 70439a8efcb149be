"""Real clients with issued keys at Vertex AI, which the gateway calls with a service account."""

import json
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from support.clients.node import GeminiCli
from support.clients.openai_sdk import chat_with, openai_client
from support.clients.python_sdk import MODEL, sdk_warnings
from support.gateway.keys import issue, issuing_gateway, key_header
from support.gateway.loopback import says
from support.upstream.google_cloud import PROJECT_ID, TOKEN, Call, google_cloud, vertex
from support.wire import HI, SSE, post

pytestmark = sdk_warnings

PLACE = f"/v1/projects/{PROJECT_ID}/locations/europe-west4/publishers/google/models/{MODEL}"
HOOKS = pytest.mark.parametrize(
    "hooks", [{}, {"BeforeModel": [says()], "AfterModel": [says()]}], ids=["no hooks", "hooks"]
)
IDENTITY = ("user-agent", "x-goog-api-client")
"""The headers by which Google's clients identify themselves."""


def before_vertex(cloud: Any, state: Path, hooks: Any = None) -> Any:
    credentials = {"cloud": vertex(cloud, state, locations=["europe-west4"])}
    return issuing_gateway(state, hooks, upstream_url=cloud.url, upstream={}, credentials=credentials)


async def talk(url: str, key: str, **options: Any) -> str:
    """Count, ask, and stream; returns what was streamed."""
    http_options = types.HttpOptions(base_url=url)
    client = genai.Client(api_key=key, http_options=http_options, **options)
    try:
        assert (await client.aio.models.count_tokens(model=MODEL, contents="hi")).total_tokens == 1
        assert (await client.aio.models.generate_content(model=MODEL, contents="hi")).text == "ok"
        stream = await client.aio.models.generate_content_stream(model=MODEL, contents="hi")
        return "".join([chunk.text or "" async for chunk in stream])
    finally:
        await client.aio.aclose()
        client.close()


def identity(call: Call) -> list[str]:
    return [call.headers[name] for name in IDENTITY]


@HOOKS
@pytest.mark.parametrize("vertexai", [False, True], ids=["gemini", "vertex"])
async def test_the_python_sdk(vertexai: bool, hooks: Any, tmp_path: Path) -> None:
    async with google_cloud() as cloud, before_vertex(cloud, tmp_path, hooks) as gateway:
        assert await talk(cloud.url, "AIza-direct", vertexai=vertexai) == "okokok"
        direct, cloud.calls = cloud.calls, []
        assert await talk(gateway.url, issue(tmp_path), vertexai=vertexai) == "okokok"
        paths = [call.path.replace("v1beta1", "v1") for call in cloud.calls]
        verbs = ("countTokens", "generateContent", "streamGenerateContent?alt=sse")
        assert paths == [f"{PLACE}:{verb}" for verb in verbs]
        assert cloud.secrets == [f"{TOKEN}-1"] * 3
        assert [identity(call) for call in cloud.calls] == [identity(call) for call in direct]
        assert cloud.asked == 1


async def test_the_python_sdk_gets_an_error_for_what_vertex_ai_lacks(tmp_path: Path) -> None:
    async with google_cloud() as cloud, before_vertex(cloud, tmp_path) as gateway:
        options = types.HttpOptions(base_url=gateway.url)
        client = genai.Client(api_key=issue(tmp_path), http_options=options)
        try:
            with pytest.raises(
                errors.ClientError, match=r"404 .*This gateway sends such calls to Vertex AI, where"
            ):
                await client.aio.models.list()
            with pytest.raises(errors.ClientError, match=r"404 .*has no batchEmbedContents"):
                await client.aio.models.embed_content(model="gemini-embedding-2", contents="hi")
        finally:
            await client.aio.aclose()
            client.close()
        assert not cloud.calls


@HOOKS
@pytest.mark.parametrize("client", ["python", "node"])
async def test_openais_sdks(client: str, hooks: Any, tmp_path: Path) -> None:
    async with google_cloud() as cloud, before_vertex(cloud, tmp_path, hooks) as gateway:
        key = issue(tmp_path, scope={"models": ["gemini-*"]})
        for stream in (False, True):
            printed = await chat_with(client, gateway.url, "hi", stream=stream, key=key)
            assert printed == [{"text": "ok"}, {"status": "stop"}]
        async with openai_client(gateway.url, key) as sdk:
            made = await sdk.embeddings.create(model="gemini-embedding-2", input="hi")
        assert made.data[0].embedding == [0.5]
        place = f"/v1/projects/{PROJECT_ID}/locations/europe-west4/endpoints/openapi"
        chat = f"{place}/chat/completions"
        assert [call.path for call in cloud.calls] == [chat, chat, f"{place}/embeddings"]
        assert [json.loads(call.body)["model"] for call in cloud.calls] == [
            *[f"google/{MODEL}"] * 2,
            "google/gemini-embedding-2",
        ]
        assert cloud.secrets == [f"{TOKEN}-1"] * 3


@HOOKS
async def test_the_headers_by_which_antigravity_is_billed_arrive_byte_for_byte(
    hooks: Any, tmp_path: Path
) -> None:
    headers = {
        "User-Agent": "antigravity/1.2.15 (aidev_client; auth_method=gateway)",
        "X-Goog-Api-Client": "google-genai-sdk/3.4.0  gl-go/1.25",
    }
    async with google_cloud() as cloud, before_vertex(cloud, tmp_path, hooks) as gateway:
        more = {"sessionId": "7", **HI}
        assert (await post(gateway.url, SSE, more, headers | key_header(issue(tmp_path)))).status == 200
        (call,) = cloud.calls
        assert identity(call) == list(headers.values())
        assert b'"sessionId":"7"' in call.body.replace(b": ", b":")


async def test_gemini_cli(tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    async with google_cloud() as cloud, before_vertex(cloud, state) as gateway:
        cli = GeminiCli(tmp_path, "api key")
        works = await cli.ask(gateway.url, "hi", GEMINI_API_KEY=issue(state))
        assert works.exit_code == 0, works.stderr
        assert cloud.calls
        assert {call.secret for call in cloud.calls} == {f"{TOKEN}-1"}
        assert all("/publishers/google/models/" in call.path for call in cloud.calls)
