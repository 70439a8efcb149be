"""The functions on the page about migrating are hooks that do what it says."""

from pathlib import Path
from typing import Any

from support.hooks.settings import one_group, write_file
from support.pages import block_of

from hookgate.hooks import AfterModel, BeforeModel, Engine, Outcome, SessionContext
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.settings import load_settings


def before_model(text: str) -> BeforeModel:
    return BeforeModel("m", {"contents": [{"role": "user", "parts": [{"text": text}]}]})


async def fired(folder: Path, settings: Any, event: Any) -> Outcome[Any]:
    engine = Engine(load_settings([write_file(folder, settings)]))
    try:
        return await engine.fire(event, SessionContext("s"))
    finally:
        await engine.close()


async def test_a_custom_guardrail_of_litellm_becomes_a_runtime_hook(tmp_path: Path) -> None:
    page = "docs/migrating.md"
    write_file(tmp_path, block_of(page, "def apply").text, "style.py")
    settings = block_of(page, '{"hooks": {"BeforeModel"').value
    denied = await fired(tmp_path, settings, before_model("A rocket?"))
    assert (denied.verdict.denied, denied.verdict.reason) == (True, "Rockets are not discussed here.")
    edited = await fired(tmp_path, settings, before_model("What is Project Falcon?"))
    assert edited.event.body["contents"][0]["parts"] == [{"text": "What is the project?"}]
    same = await fired(tmp_path, settings, before_model("hi"))
    assert same.event.body["contents"][0]["parts"] == [{"text": "hi"}]


async def test_an_addon_of_mitmproxy_becomes_two_functions(tmp_path: Path) -> None:
    write_file(tmp_path, block_of("docs/migrating.md", "import re").text, "rules.py")
    before = one_group({"type": "runtime", "action": "./rules.py:before"})
    denied = await fired(tmp_path, before, before_model("A rocket?"))
    assert denied.verdict.reason == "Rockets are not discussed here."
    after = one_group({"type": "runtime", "action": "./rules.py:after"}, event="AfterModel")
    answer = {"candidates": [{"content": {"role": "model", "parts": [{"text": "Falcon flies."}]}}]}
    masked = await fired(
        tmp_path, after, AfterModel(SharedValue({"model": "m", "messages": []}), answer, "m")
    )
    assert masked.event.body["candidates"][0]["content"]["parts"] == [{"text": "[project] flies."}]
