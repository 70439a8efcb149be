"""The access tokens of the gateway's credentials, for policies that call Google's services."""

import json
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.gateway.loopback import upstreams_at
from support.hooks.guardrails import TEMPLATE, armor_answer
from support.upstream.google_cloud import TOKEN, Call, google_cloud, vertex
from support.wire import HI, UNARY, post, prompt

from hookgate.hooks import HookError, SettingsError
from hookgate.hooks.settings import SettingsSource
from hookgate.proxy import policy
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.upstream.access_tokens import PolicyTokens


def configured(cloud: Any, folder: Path) -> Config:
    tables = {"cloud": vertex(cloud, folder), "key": {"api": "gemini", "key": "AIza-canary"}}
    return Config.model_validate({"credentials": tables, "upstream": {"connect_timeout": 1}})


def sources(folder: Path, url: str, credential: str = "cloud") -> Sources:
    options = {"template": TEMPLATE, "credential": credential, "endpoint": url}
    hook = {"name": "armor", "type": "builtin", "builtin": "model_armor", "options": options}
    settings = {
        "hooks": {"BeforeModel": [{"hooks": [hook]}]},
        "hooksConfig": {"http_targets": [f"{url}/v1/projects/my-project/"]},
    }
    file = folder / "policy.json"
    file.write_text(json.dumps(settings))
    return Sources(state=folder, added=lambda: [SettingsSource(file, "policy")])


def armor(call: Call) -> web.Response | None:
    """Model Armor at the place of Google Cloud."""
    return web.json_response(armor_answer(json.loads(call.body))) if ":sanitize" in call.path else None


async def test_a_policy_calls_model_armor_with_a_token_of_the_gateway(tmp_path: Path) -> None:
    async with google_cloud() as cloud:
        cloud.answer = armor
        config = configured(cloud, tmp_path)
        tokens = PolicyTokens(config.credentials)
        reloader = policy.load_policy(sources(tmp_path, cloud.url), access_tokens=tokens)
        try:
            async with upstreams_at(cloud.url, config.upstream, config.credentials) as upstreams:
                tokens.upstreams = upstreams
                handle = Gateway(reloader, upstreams, config).handle
                async with serve_on(handle, "127.0.0.1", 0, config.limits) as url:
                    denied = await post(url, UNARY, prompt("of a rocket"))
                    passed = await post(url, UNARY, HI)
        finally:
            await reloader.close()
        assert (denied.status, passed.status) == (403, 200)
        asked = [call for call in cloud.calls if ":sanitize" in call.path]
        assert [call.secret for call in asked] == [f"{TOKEN}-1"] * 2
        assert TOKEN not in denied.body.decode()


async def test_a_token_that_google_refuses_is_a_failure_of_the_hook(tmp_path: Path) -> None:
    async with google_cloud() as cloud:
        cloud.refuses = True
        config = configured(cloud, tmp_path)
        tokens = PolicyTokens(config.credentials)
        with pytest.raises(HookError, match="the gateway is not running"):
            await tokens.get("cloud")
        async with upstreams_at(cloud.url, config.upstream, config.credentials) as upstreams:
            tokens.upstreams = upstreams
            with pytest.raises(HookError, match="no access token of the credential 'cloud'") as failure:
                await tokens.get("cloud")
        assert "canary" not in str(failure.value)


@pytest.mark.parametrize("credential", ["clowd", "key"])
async def test_a_credential_without_tokens_is_an_error_of_the_settings(
    credential: str, tmp_path: Path
) -> None:
    async with google_cloud() as cloud:
        tokens = PolicyTokens(configured(cloud, tmp_path).credentials)
        with pytest.raises(SettingsError, match=rf"credential: .*'{credential}'.*known are cloud: add"):
            policy.load_policy(sources(tmp_path, cloud.url, credential), access_tokens=tokens)
