"""Scripts of web pages in a real browser: which may call the gateway, with the real SDK and without."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
import pytest_asyncio
from aiohttp import web
from playwright.async_api import Browser, Page
from support.clients.node import NODE_DIR, need_node
from support.gateway.browser import running_browser
from support.gateway.loopback import RunningGateway, running_gateway, runs
from support.hooks.policies import REFUSAL, no_rockets
from support.wire import UNARY

from hookgate.proxy.config import ClientSettings, Config

pytestmark = pytest.mark.asyncio(loop_scope="module")  # in which the browser runs

# In place of a bundler: the SDK imports one package by its name.
RETRY = "data:text/javascript,const retry = (run) => run(); retry.AbortError = Error; export default retry;"
PAGE = f"""<!doctype html><title>app</title>
<script type="importmap">{{"imports": {{"p-retry": "{RETRY}", "@google/genai": "/genai.mjs"}}}}</script>
<h1>app</h1>"""
SDK = """async ([baseUrl, prompt]) => {
  const { GoogleGenAI } = await import("@google/genai");
  const ai = new GoogleGenAI({ apiKey: "any", httpOptions: { baseUrl } });
  const asked = { model: "gemini-2.5-flash", contents: prompt };
  const found = [];
  try {
    found.push((await ai.models.generateContent(asked)).text);
    let streamed = "";
    for await (const answer of await ai.models.generateContentStream(asked)) streamed += answer.text;
    found.push(streamed);
    const file = await ai.files.upload({ file: new Blob(["hi"]), config: { mimeType: "text/plain" } });
    found.push((await ai.files.get({ name: file.name })).sizeBytes);
    await ai.files.delete({ name: file.name });
  } catch (error) {
    found.push({ status: error.status ?? null, message: error.message });
  }
  return found;
}"""
FETCH = """async ([url, options]) => {
  try {
    const answer = await fetch(url, options);
    return { status: answer.status, receipt: answer.headers.get("x-hookgate-receipt") };
  } catch (error) {
    return { error: error.name };
  }
}"""


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    need_node()
    async with running_browser() as running:
        yield running


@asynccontextmanager
async def page_of(browser: Browser) -> AsyncIterator[tuple[Page, str]]:
    """A page of a web server of its own, and its origin."""

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/genai.mjs":
            return web.FileResponse(NODE_DIR / "node_modules/@google/genai/dist/web/index.mjs")
        return web.Response(text=PAGE, content_type="text/html")

    runner = web.ServerRunner(web.Server(serve))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    origin = "http://{}:{}".format(*runner.addresses[0][:2])
    [context] = browser.contexts
    try:
        async with await context.new_page() as page:
            await page.goto(origin)
            yield page, origin
    finally:
        await runner.cleanup()


@asynccontextmanager
async def gateway_for(*origins: str) -> AsyncIterator[RunningGateway]:
    config = Config.model_validate({"routes": {"files": "forward"}, "clients": {"origins": origins}})
    assert config.clients == ClientSettings(origins=origins)
    async with running_gateway({"BeforeModel": [runs(no_rockets)]}, config=config) as gateway:
        yield gateway


async def test_a_page_of_a_listed_origin_uses_the_sdk(browser: Browser) -> None:
    async with page_of(browser) as (page, origin), gateway_for(origin) as gateway:
        found = await page.evaluate(SDK, [gateway.url, "good morning"])
        denied = await page.evaluate(SDK, [gateway.url, "a rocket"])
    assert found == [*["You said: good morning"] * 2, "2"]
    assert denied[0]["status"] == 403
    assert REFUSAL in denied[0]["message"]


async def test_a_page_of_a_listed_origin_reads_the_receipt_of_its_call(browser: Browser) -> None:
    async with page_of(browser) as (page, origin), gateway_for("https://app.example", origin) as gateway:
        options = {"headers": {"x-goog-api-key": "any"}}
        listed = await page.evaluate(FETCH, [f"{gateway.url}/v1beta/models", options])
        receipt = f"{gateway.url}/hookgate/v1/receipts/{listed['receipt']}"
        assert (listed["status"], (await page.evaluate(FETCH, [receipt, options]))["status"]) == (200, 200)


@pytest.mark.parametrize("origins", [(), ("https://app.example",)], ids=["none", "another"])
async def test_a_page_of_another_origin_sends_no_call_and_reads_no_answer(
    browser: Browser, origins: tuple[str, ...]
) -> None:
    async with page_of(browser) as (page, _), gateway_for(*origins) as gateway:
        [refused] = await page.evaluate(SDK, [gateway.url, "good morning"])
        assert refused["status"] is None
        assert not gateway.recorded  # the browser has asked, and not called
        with_cookies: dict[str, Any] = {"credentials": "include"}
        for options in ({}, with_cookies, {"method": "POST", "body": "{}"}):
            target = UNARY if "body" in options else "/v1beta/models"
            assert await page.evaluate(FETCH, [gateway.url + target, options]) == {"error": "TypeError"}


async def test_cookies_of_a_browser_are_never_allowed(browser: Browser) -> None:
    async with page_of(browser) as (page, origin), gateway_for(origin) as gateway:
        options = {"credentials": "include", "headers": {"x-goog-api-key": "any"}}
        found = await page.evaluate(FETCH, [f"{gateway.url}/v1beta/models", options])
        assert (found, len(gateway.recorded)) == ({"error": "TypeError"}, 0)
