"""Real clients with base URLs that have no version, at a root or below the prefix of an ingress."""

import io
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import aiohttp
import pytest
from aiohttp import web
from openai import PermissionDeniedError
from support.clients.node import GeminiCli, run_script
from support.clients.openai_sdk import openai_client
from support.clients.python_sdk import MODEL, python_client, sdk_warnings
from support.gateway.loopback import RunningGateway, running_gateway, runs
from support.hooks.policies import REFUSAL, no_rockets

from hookgate.proxy.config import Config

pytestmark = [
    sdk_warnings,
    pytest.mark.filterwarnings("ignore:Sending a large body directly with raw bytes:ResourceWarning"),
]

PREFIX = "/gemini"
bases = pytest.mark.parametrize("base", ["/", "ingress", "ingress that removes the prefix"])


class Ingress:
    """A proxy that serves a gateway under a prefix. It removes the prefix if `removes` is true."""

    def __init__(self, *, removes: bool) -> None:
        self.gateway, self._removes = "", removes

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if not request.raw_path.startswith(f"{PREFIX}/"):
            return web.Response(status=404, text="not at this ingress")
        path = request.raw_path.removeprefix(PREFIX) if self._removes else request.raw_path
        headers = {**request.headers, "X-Forwarded-Prefix": PREFIX}
        async with (
            aiohttp.ClientSession(auto_decompress=False) as http,
            http.request(
                request.method, self.gateway + path, headers=headers, data=await request.read()
            ) as got,
        ):
            kept = {n: v for n, v in got.headers.items() if n.lower() not in ("transfer-encoding", "date")}
            return web.Response(status=got.status, headers=kept, body=await got.read())


@asynccontextmanager
async def reached_at(base: str) -> AsyncIterator[tuple[str, RunningGateway]]:
    """A base URL for clients, and the gateway there."""
    hooks = {"BeforeModel": [runs(no_rockets)]}
    if base == "/":
        config = Config.model_validate({"routes": {"files": "forward"}})
        async with running_gateway(hooks, config=config) as gateway:
            yield f"{gateway.url}/", gateway
        return
    ingress = Ingress(removes=base.endswith("removes the prefix"))
    runner = web.ServerRunner(web.Server(ingress.handle))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    url = "http://{}:{}".format(*runner.addresses[0][:2]) + PREFIX
    config = Config.model_validate({"routes": {"files": "forward"}, "listen": {"url": url}})
    try:
        async with running_gateway(hooks, config=config) as gateway:
            ingress.gateway = gateway.url
            yield url, gateway
    finally:
        await runner.cleanup()


@bases
async def test_google_genai_generates_and_uploads(base: str, arrived: list[str]) -> None:
    async with reached_at(base) as (url, gateway), python_client(url) as client:
        sdk = client.aio
        file = await sdk.files.upload(file=io.BytesIO(b"hi"), config={"mime_type": "text/plain"})
        assert (await sdk.files.get(name=file.name)).size_bytes == 2
        answer = await sdk.models.generate_content(model=MODEL, contents="good morning")
        interaction = await sdk.interactions.create(model=MODEL, input="good morning")
        sent = len(gateway.recorded)
    assert answer.text == "You said: good morning"
    assert interaction.output_text == "You said: good morning"
    assert len(arrived) == sent == 5


@bases
async def test_google_genai_for_javascript_generates_and_uploads(base: str, arrived: list[str]) -> None:
    async with reached_at(base) as (url, gateway):
        ran = await run_script("upload.mjs", url, "good morning")
        sent = len(gateway.recorded)
    assert (ran.exit_code, ran.stderr) == (0, "")
    assert ran.lines == [{"size": "2"}, *[{"text": "You said: good morning"}] * 2]
    assert len(arrived) == sent == 5


@bases
async def test_gemini_cli_is_answered(base: str, tmp_path: Path) -> None:
    async with reached_at(base) as (url, _):
        ran = await GeminiCli(tmp_path).ask(url, "good morning")
    assert (ran.exit_code, ran.stdout.strip()) == (0, "You said: good morning"), ran.stderr


@bases
@pytest.mark.parametrize("path", ["", "v1/"])
async def test_openais_client_chats_and_is_judged(base: str, path: str) -> None:
    async with (
        reached_at(base) as (url, gateway),
        openai_client(url.rstrip("/"), path=f"/{path}") as sdk,
    ):
        chat = sdk.chat.completions
        answer = await chat.create(model=MODEL, messages=[{"role": "user", "content": "good morning"}])
        response = await sdk.responses.create(model=MODEL, input="good morning")
        with pytest.raises(PermissionDeniedError, match=REFUSAL):
            await chat.create(model=MODEL, messages=[{"role": "user", "content": "a rocket"}])
        sent = [request.path_qs for request in gateway.recorded]
    assert answer.choices[0].message.content == response.output_text == "You said: good morning"
    assert sent == ["/v1beta/openai/chat/completions", "/v1beta/openai/responses"]
