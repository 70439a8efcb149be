"""All clients at once with slow hooks.

One takes 20 seconds within a stream, which is longer than the interval of keep-alives. The other takes 70
seconds before the first byte, which is longer than clients wait for it.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from support.clients.interface import CLIENTS, Shown
from support.clients.matrix import MATRIX
from support.clients.python_sdk import sdk_warnings
from support.gateway.loopback import running_gateway, runs
from support.hooks.policies import CARD, REDACTED, REFUSAL, no_rockets, redact

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


PAUSE = 20  # seconds
SECRET = {"rules": [{"answer": {"chunks": ["The card is ", f"{CARD}, ", "keep it safe."]}}]}
Outcome = tuple[Shown, int] | BaseException
"""What a person sees, and how many requests reached the upstream; or what the test would have raised."""


async def redact_slowly(event: dict[str, Any]) -> Any:
    """AfterModel: redact after a long thought."""
    if CARD in str(event["llm_response"]):
        await asyncio.sleep(PAUSE)
    return redact(event)


async def ask_behind_a_slow_hook(name: str, folder: Path) -> tuple[Shown, int]:
    hooks = {"AfterModel": [runs(redact_slowly, stream="event")]}  # so that the first event is sent before
    async with running_gateway(hooks, SECRET) as gateway:
        shown = await MATRIX[name].ask(gateway.url, "what is my card?", folder)
        return shown, len(gateway.generated)


async def ask_at_once(folders: Mapping[str, Path]) -> dict[str, Outcome]:
    asked = [ask_behind_a_slow_hook(name, folder) for name, folder in folders.items()]
    return dict(zip(folders, await asyncio.gather(*asked, return_exceptions=True), strict=True))


@pytest.fixture(scope="module")
def outcomes(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Outcome]:
    """By client, of those that this run selected."""
    selected = [each for each in request.session.items if "outcomes" in getattr(each, "fixturenames", ())]
    names = [item.callspec.params["name"] for item in selected]
    return asyncio.run(ask_at_once({name: tmp_path_factory.mktemp(name) for name in names}))


@pytest.mark.parametrize("name", MATRIX)
def test_a_pause_in_an_answer_is_bridged(
    name: str, outcomes: dict[str, Outcome], cell: Callable[..., None]
) -> None:
    cell(name, MATRIX[name], "pause of 20 s")
    outcome = outcomes[name]
    if isinstance(outcome, BaseException):
        raise outcome
    shown, requests = outcome
    assert replace(shown, beside="") == Shown(f"The card is {REDACTED}, keep it safe.")
    assert requests == 1
