"""Real clients with keys that the gateway has issued: they work, and show a denial after one request."""

from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import errors, types
from openai import PermissionDeniedError
from support.clients.node import GeminiCli
from support.clients.openai_sdk import chat_with, openai_client, respond_with
from support.clients.python_sdk import MODEL, sdk_warnings
from support.gateway.audits import reading
from support.gateway.keys import UPSTREAM_KEY, issue, issuing_gateway

pytestmark = sdk_warnings


def calls_in(state: Path) -> list[str]:
    """The outcomes of all recorded calls, except of listings and the like."""
    with reading(state) as audit:
        return [call.outcome for call in audit.calls(100)]


@pytest.mark.parametrize("vertex", [False, True], ids=["gemini", "vertex"])
async def test_the_python_sdk(vertex: bool, tmp_path: Path) -> None:
    async with issuing_gateway(tmp_path) as gateway:
        for revoked in (None, 1):
            key = issue(tmp_path, revoked=revoked)
            options = types.HttpOptions(base_url=gateway.url)
            client = genai.Client(vertexai=vertex, api_key=key, http_options=options)
            try:
                if revoked is None:
                    answer = await client.aio.models.generate_content(model=MODEL, contents="hi")
                    assert answer.text
                else:
                    with pytest.raises(errors.ClientError, match=r"403 .*The key \w+ of alice was revoked\."):
                        await client.aio.models.generate_content(model=MODEL, contents="hi")
            finally:
                await client.aio.aclose()
                client.close()
        assert [request.headers["x-goog-api-key"] for request in gateway.recorded] == [UPSTREAM_KEY]
    assert calls_in(tmp_path) == ["refused", "answered"]


@pytest.mark.parametrize("login", ["api key", "vertex"])
async def test_gemini_cli(login: str, tmp_path: Path) -> None:
    variable = "GEMINI_API_KEY" if login == "api key" else "GOOGLE_API_KEY"
    state = tmp_path / "state"
    async with issuing_gateway(state) as gateway:
        cli = GeminiCli(tmp_path, login)  # type: ignore[arg-type]  # a literal of the parameters
        limits = {"limits": [{"per": "key", "window": "month", "requests": 1}]}
        limited = issue(state, scope=limits)
        works = await cli.ask(gateway.url, "hi", **{variable: limited})
        assert works.exit_code == 0, works.stderr
        denied = await cli.ask(gateway.url, "hi", **{variable: limited})
        assert denied.exit_code == 1
        assert "of alice has used 1 of 1 requests in this month; it resets at" in denied.stderr
        assert len(gateway.recorded) == 1
    assert calls_in(state) == ["refused", "answered"]


@pytest.mark.parametrize("client", ["python", "node"])
@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("ask", [chat_with, respond_with], ids=["chat", "responses"])
async def test_openais_sdks(client: str, stream: bool, ask: Any, tmp_path: Path) -> None:
    async with issuing_gateway(tmp_path) as gateway:
        for models in ([MODEL], ["gemini-3-*"]):
            key = issue(tmp_path, scope={"models": models})
            *_, last = await ask(client, gateway.url, "hi", stream=stream, key=key)
            if models == [MODEL]:
                assert last in ({"status": "stop"}, {"status": "completed"})
            else:
                assert (last["error"]["name"], last["error"]["status"]) == ("PermissionDeniedError", 403)
                assert f"may not be used for the model '{MODEL}'" in last["error"]["message"]
        assert len(gateway.recorded) == 1
    assert calls_in(tmp_path) == ["refused", "answered"]


async def test_embeddings_of_openais_sdk(tmp_path: Path) -> None:
    async with issuing_gateway(tmp_path) as gateway:
        key = issue(tmp_path, scope={"models": ["gemini-embedding-*"]})
        async with openai_client(gateway.url, key) as sdk:
            made = await sdk.embeddings.create(model="gemini-embedding-001", input="hi")
            with pytest.raises(PermissionDeniedError, match="may not be used for the model 'other'"):
                await sdk.embeddings.create(model="other", input="hi")
    assert len(made.data) == 1
    assert calls_in(tmp_path) == ["refused", "answered"]
