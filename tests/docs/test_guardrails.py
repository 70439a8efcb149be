"""The examples of docs/guardrails.md, with stand-ins in place of the services that they name."""

import json
import re
import textwrap
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.gateway.loopback import upstreams_at
from support.hooks.guardrails import Tokens, guardrail
from support.pages import ALL_BLOCKS
from support.places import DOCS
from support.wire import HI, UNARY, ok, peer, post, prompt, spoken

from hookgate.hooks import Engine
from hookgate.hooks.policies.services.payloads import OVERLAP
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.settings import SettingsSource, load_sources
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config

PAGE = "docs/guardrails.md"


def settings_of(policy: str) -> Any:
    """The first settings file of the page that uses a policy."""
    blocks = (block.text for block in ALL_BLOCKS if block.page == PAGE and block.kind == "json")
    return next(json.loads(text) for text in blocks if f'"builtin": "{policy}"' in text)


@asynccontextmanager
async def gateway(folder: Path, settings: Any, upstream_url: str) -> AsyncIterator[str]:
    file = folder / "policy.json"
    file.write_text(json.dumps(settings))
    configuration = load_sources([SettingsSource(file, "policy")])
    targets = configuration.http_targets
    runners = make_runners(configuration.hooks(), http_targets=targets, access_tokens=Tokens())
    engine = Engine(configuration, runners)
    async with (
        upstreams_at(upstream_url) as upstreams,
        serve_on(Gateway(engine, upstreams).handle, "127.0.0.1", 0, Config().limits) as url,
    ):
        try:
            yield url
        finally:
            await engine.close()


@pytest.mark.parametrize("policy", ["model_armor", "guardrail"])
async def test_the_settings_deny_and_edit(policy: str, tmp_path: Path) -> None:
    settings = settings_of(policy)
    answer = ok(json.dumps(spoken("Write to anna@example.com.")).encode())
    async with guardrail(policy) as stand_in, peer(answer) as upstream:
        for groups in settings["hooks"].values():
            options = groups[0]["hooks"][0]["options"]
            options["url" if policy == "guardrail" else "endpoint"] = stand_in.url
        settings["hooksConfig"] = {"http_targets": [f"{stand_in.url}/"]}
        async with gateway(tmp_path, settings, upstream.url) as url:
            denied = await post(url, UNARY, prompt("of a rocket"))
            edited = await post(url, UNARY, HI)
    assert denied.status == 403
    assert "Write to [EMAIL_ADDRESS]." in edited.body.decode()


async def test_the_service_of_the_page_answers_the_policy_of_the_page(tmp_path: Path) -> None:
    page = (DOCS / "guardrails.md").read_text()
    [block] = re.findall(r"^ {4}# guard\.py\n(?:(?: {4}.*)?\n)+", page, re.MULTILINE)
    module = types.ModuleType("guard")
    exec(textwrap.dedent(block), module.__dict__)  # noqa: S102  # the example
    runner = web.AppRunner(module.app)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    settings = settings_of("guardrail")
    try:
        async with peer(ok(json.dumps(spoken("Good morning.")).encode())) as upstream:
            for groups in settings["hooks"].values():
                groups[0]["hooks"][0]["options"]["url"] = f"http://127.0.0.1:{runner.addresses[0][1]}"
            async with gateway(tmp_path, settings, upstream.url) as url:
                denied = await post(url, UNARY, prompt("of a rocket"))
                passed = await post(url, UNARY, HI)
    finally:
        await runner.cleanup()
    assert "Rockets are not discussed here." in denied.error["message"]
    assert "Good morning." in passed.body.decode()


def test_the_limits_of_the_page_are_those_of_the_program() -> None:
    page = (DOCS / "guardrails.md").read_text()
    assert f"the last {OVERLAP} characters" in " ".join(page.split())
