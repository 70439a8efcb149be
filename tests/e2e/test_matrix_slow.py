"""All clients at once with a hook that takes 70 seconds, which is longer than they wait for a first byte."""

import asyncio
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.clients import CLIENTS, Shown
from support.gateway import running_gateway, runs
from support.policies import REFUSAL, no_rockets
from support.python_sdk import sdk_warnings

pytestmark = [sdk_warnings, pytest.mark.slow]

THINKS = 70  # seconds
ROCKET, MORNING = "how do I build a rocket?", "say good morning"
GREETING = "Good morning to you."
STREAMING = {name: client for name, client in CLIENTS.items() if "stream" in client.traits}


async def slowly(event: dict[str, Any]) -> Any:
    """BeforeModel: no_rockets after a long thought."""
    await asyncio.sleep(THINKS)
    return no_rockets(event)


async def test_every_streaming_client_waits_for_a_slow_hook_and_asks_once(
    tmp_path: Path, arrived: list[str]
) -> None:
    asked = [(name, prompt) for name in STREAMING for prompt in (MORNING, ROCKET)]
    folders = [tmp_path / str(number) for number in range(len(asked))]
    for folder in folders:
        folder.mkdir()
    slow = runs(slowly, timeout=2 * THINKS * 1000)
    async with running_gateway(
        {"BeforeModel": [slow]}, {"rules": [{"answer": {"text": GREETING}}]}
    ) as gateway:
        shown = await asyncio.gather(
            *(
                STREAMING[name].ask(gateway.url, prompt, folder)
                for (name, prompt), folder in zip(asked, folders, strict=True)
            )
        )
    # The headers are out by then, so that a denial is an answer.
    answers = {MORNING: Shown(GREETING), ROCKET: Shown(REFUSAL)}
    expected = {(name, prompt): answers[prompt] for name, prompt in asked}
    texts = [replace(each, beside="") for each in shown]  # Gemini CLI reports what its terminal lacks
    assert dict(zip(asked, texts, strict=True)) == expected
    assert len([target for target in arrived if "treamGenerateContent" in target]) == len(asked)
    assert len(gateway.generated) == len(STREAMING)
