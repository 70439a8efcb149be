"""google-genai's automatic function calling works at the gateway, within the policies."""

from typing import Any

import pytest
from support.clients.python_sdk import Way, every_way, pieces, python_client, sdk_warnings
from support.gateway.loopback import running_gateway, runs
from support.gateway.sent import sent_parts
from support.hooks.policies import CARD, REDACTED, REFUSAL, no_rockets, only_weather, redact

pytestmark = sdk_warnings

SIGNATURE = "c2lnbmVkIGJ5IHRoZSBtb2RlbA=="
WEATHER_CALL = {
    "functionCall": {"name": "get_weather", "args": {"city": "Oslo"}},
    "thoughtSignature": SIGNATURE,
}


class Weather:
    """A tool that remembers where it was asked for."""

    def __init__(self) -> None:
        self.cities: list[str] = []

    def tool(self) -> Any:
        def get_weather(city: str) -> str:
            """The weather in a city."""
            self.cities.append(city)
            return f"storm in {city}"

        return get_weather


def calls_weather(text: str) -> Any:
    """A script: text and a signed call first, then the default answer to the tool's result."""
    call = {"chunks": [[{"text": text}], [WEATHER_CALL]]}
    return {"rules": [{"times": 1, "answer": call}]}


@every_way
@pytest.mark.parametrize("judged", [False, True], ids=["without hooks", "redacting"])
async def test_a_called_tool_runs_and_its_result_reaches_the_answer(way: Way, judged: bool) -> None:
    weather = Weather()
    hooks = {"AfterModel": [runs(redact)]} if judged else {}
    async with (
        running_gateway(hooks, calls_weather(f"With {CARD} I look.")) as gateway,
        python_client(gateway.url) as client,
    ):
        answer = await pieces(client, way, "the weather in Oslo?", tools=[weather.tool()])
    assert weather.cities == ["Oslo"]
    assert "storm in Oslo" in "".join(answer)
    # What the client gives back: the text as it was shown, the call and its signature as they were.
    question, text, call, result = sent_parts(gateway)
    assert question == {"text": "the weather in Oslo?"}
    assert text == {"text": f"With {REDACTED if judged else CARD} I look."}
    assert call == WEATHER_CALL
    assert result["functionResponse"]["response"] == {"result": "storm in Oslo"}


async def test_tools_that_a_hook_does_not_offer_are_never_called() -> None:
    launched = []

    def launch(target: str) -> str:
        """Launch something at a target."""
        launched.append(target)
        return "gone"

    weather = Weather()
    hooks = {"BeforeToolSelection": [runs(only_weather)]}
    async with running_gateway(hooks) as gateway, python_client(gateway.url) as client:
        # The upstream calls a tool that the text names, if it was offered.
        refused = await pieces(client, "async", "please launch it", tools=[launch, weather.tool()])
        offered = await pieces(client, "async", "please get_weather", tools=[launch, weather.tool()])
    assert not launched
    assert refused == ["You said: please launch it"]
    assert weather.cities == ["example"]
    assert "storm in example" in offered[0]


async def test_a_denied_tool_result_ends_the_turn_with_the_reason_as_its_answer(arrived: list[str]) -> None:
    weather = Weather()
    hooks = {"BeforeModel": [runs(no_rockets)]}
    script = calls_weather("For the rockets I look at the weather.")
    async with running_gateway(hooks, script) as gateway, python_client(gateway.url) as client:
        answer = await pieces(client, "async", "the weather in Oslo?", tools=[weather.tool()])
    assert weather.cities == ["Oslo"]
    assert answer == [REFUSAL]
    assert len(arrived) == 2
    assert len(gateway.recorded) == 1
