"""google-genai with recorded answers: a program that calls tools runs as before, without a model."""

from pathlib import Path
from typing import Any

from support.clients.python_sdk import Way, every_way, pieces, python_client, sdk_warnings
from support.gateway.loopback import gateway_before, running_gateway

pytestmark = sdk_warnings

CALL = {"functionCall": {"name": "get_weather", "args": {"city": "Oslo"}}, "thoughtSignature": "c2ln"}
SCRIPT = {"rules": [{"times": 1, "answer": {"chunks": ["I look. ", [CALL]]}}]}


def cassette(folder: Path, mode: str) -> dict[str, Any]:
    options = {"folder": str(folder), "mode": mode}
    hook = {"type": "builtin", "builtin": "cassette", "options": options}
    return {"BeforeModel": [hook], "AfterModel": [hook]}


@every_way
async def test_a_program_that_calls_tools_runs_on_a_recording(tmp_path: Path, way: Way) -> None:
    cities: list[str] = []

    def get_weather(city: str) -> str:
        """The weather in a city."""
        cities.append(city)
        return f"storm in {city}"

    async def answer_text(url: str) -> str:
        async with python_client(url) as client:
            return "".join(await pieces(client, way, "the weather in Oslo?", tools=[get_weather]))

    async with running_gateway(cassette(tmp_path, "record"), SCRIPT) as gateway:
        recorded = await answer_text(gateway.url)
        assert len(gateway.generated) == 2
    async with gateway_before("http://127.0.0.1:9", cassette(tmp_path, "replay")) as url:
        replayed = await answer_text(url)
    assert "storm in Oslo" in recorded
    assert (replayed, cities) == (recorded, ["Oslo", "Oslo"])
