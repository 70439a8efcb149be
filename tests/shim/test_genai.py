"""google-genai with the shim: hooks judge its Python tools, with every method of the SDK."""

import asyncio
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from google import genai
from google.genai import types
from support.clients.python_sdk import MODEL, Way, every_way, pieces, python_client, sdk_warnings
from support.gateway.loopback import listens, running_gateway, running_upstream, runs, says, write_settings
from support.gateway.sent import sent_parts

from hookgate.hooks import Engine, load_settings
from hookgate.shim import Shim, ShimError, Stopped
from hookgate.shim.genai import instrument

pytestmark = sdk_warnings

NO = {"decision": "deny", "reason": "Not Oslo."}
DENIED = {"error": "Tool execution blocked: Not Oslo."}
Ask = Any


def calls(*cities: str) -> dict[str, Any]:
    """A script: a call for each city in one answer, then the default answer to the results."""
    parts = [{"functionCall": {"name": "get_weather", "args": {"city": city}}} for city in cities]
    return {"rules": [{"times": 1, "answer": {"chunks": [parts]}}]}


class Weather:
    def __init__(self) -> None:
        self.cities: list[str] = []

    def get_weather(self, city: str) -> str:
        """The weather in a city.

        Args:
            city: The name of the city.
        """
        self.cities.append(city)
        return f"storm in {city}"

    def coroutine(self) -> Any:
        async def get_weather(city: str) -> str:
            """The weather in a city."""
            return self.get_weather(city)

        return get_weather


async def chat_pieces(client: genai.Client, way: Way, prompt: str, **config: Any) -> list[str]:
    """As pieces, in a chat."""
    made: Any = {"model": MODEL, "config": types.GenerateContentConfig(**config)}
    sync, aio = client.chats.create(**made), client.aio.chats.create(**made)
    match way:
        case "sync":
            answers = [await asyncio.to_thread(sync.send_message, prompt)]
        case "async":
            answers = [await aio.send_message(prompt)]
        case "sync stream":
            answers = await asyncio.to_thread(lambda: list(sync.send_message_stream(prompt)))
        case "async stream":
            answers = [each async for each in await aio.send_message_stream(prompt)]
    return [answer.text or "" for answer in answers]


async def ask_instrumented(
    hooks: dict[str, Any], way: Way, ask: Ask, tool: Any, *cities: str
) -> tuple[list[str], list[Any]]:
    """What an instrumented client shows and sends, whose model calls the tool for these cities."""
    async with (
        running_upstream(calls(*cities or ("Oslo",))) as (url, recorded),
        python_client(url) as client,
        engine_shim(hooks) as shim,
    ):
        instrument(client, shim, "s-1")
        shown = await ask(client, way, "the weather?", tools=[tool])
    return shown, [part for content in recorded[-1].body["contents"] for part in content["parts"]]


@asynccontextmanager
async def engine_shim(hooks: dict[str, Any]) -> AsyncIterator[Shim]:
    """Hooks in this process: what a gateway would derive from the wire does not come into it."""
    with tempfile.TemporaryDirectory() as folder:
        async with Shim(Engine(load_settings([write_settings(Path(folder), hooks)]))) as shim:
            yield shim


in_every_way = pytest.mark.parametrize("ask", [pieces, chat_pieces], ids=["models", "chats"])


@every_way
@in_every_way
async def test_arguments_are_rewritten_and_results_extended(way: Way, ask: Ask) -> None:
    seen: list[dict[str, Any]] = []
    weather = Weather()
    hooks = {
        "BeforeTool": [says(tool_input={"city": "Bergen"})],
        "AfterTool": [listens(seen), says(additionalContext="Be brief.")],
    }
    shown, sent = await ask_instrumented(hooks, way, ask, weather.get_weather)
    assert weather.cities == ["Bergen"]
    assert sent[-1]["functionResponse"]["response"] == {"result": "storm in Bergen\n\nBe brief."}
    assert "Be brief" in "".join(shown)
    assert [(each["session_id"], each["tool_input"]) for each in seen] == [("s-1", {"city": "Bergen"})]


@every_way
@in_every_way
async def test_a_denied_tool_is_reported_as_the_contract_has_it(way: Way, ask: Ask) -> None:
    weather = Weather()
    _, sent = await ask_instrumented({"BeforeTool": [says(NO)]}, way, ask, weather.get_weather)
    assert not weather.cities
    assert sent[-1]["functionResponse"]["response"] == DENIED


@pytest.mark.parametrize("way", ["async", "async stream"])
@in_every_way
async def test_coroutines_are_tools_too(way: Way, ask: Ask) -> None:
    def not_oslo(call: dict[str, Any]) -> dict[str, Any] | None:
        return NO if call["tool_input"]["city"] == "Oslo" else None

    weather = Weather()
    hooks = {"BeforeTool": [runs(not_oslo)], "AfterTool": [says({"decision": "deny", "reason": "Hidden."})]}
    _, sent = await ask_instrumented(hooks, way, ask, weather.coroutine(), "Oslo", "Bergen")
    assert weather.cities == ["Bergen"]
    responses = [part["functionResponse"]["response"] for part in sent if "functionResponse" in part]
    assert responses == [DENIED, {"result": "Hidden."}]


async def test_a_failure_is_reported_as_hooks_left_it() -> None:
    def get_weather(city: str) -> str:
        """The weather in a city."""
        raise OSError(f"no way to {city}, with key k-123")

    redacted = says(tool_result={"llmContent": "no way, with key [key]"})
    _, sent = await ask_instrumented({"AfterTool": [redacted]}, "async", pieces, get_weather)
    assert sent[-1]["functionResponse"]["response"] == {"error": "no way, with key [key]"}
    _, sent = await ask_instrumented({}, "async", pieces, get_weather)
    assert "with key k-123" in sent[-1]["functionResponse"]["response"]["error"]


@every_way
@in_every_way
async def test_a_stop_ends_the_call_and_the_next_one_is_free(way: Way, ask: Ask) -> None:
    weather = Weather()
    said = [{"continue": False, "stopReason": "Enough."}]
    hooks = {"BeforeTool": [runs(lambda _: said.pop() if said else None)]}
    async with (
        running_upstream(calls("Oslo", "Bergen")) as (url, recorded),
        python_client(url) as client,
        engine_shim(hooks) as shim,
    ):
        instrument(client, shim)
        with pytest.raises(Stopped, match="Enough"):
            await ask(client, way, "the weather?", tools=[weather.get_weather])
        assert not weather.cities
        assert len(recorded) == 1
        await ask(client, way, "hello", tools=[weather.get_weather])


@every_way
@in_every_way
async def test_at_a_gateway_every_event_of_a_tool_fires_once(way: Way, ask: Ask) -> None:
    seen: list[dict[str, Any]] = []
    weather = Weather()
    hooks = {
        "BeforeTool": [listens(seen), says(tool_input={"city": "Bergen"})],
        "AfterTool": [listens(seen), says(additionalContext="Be brief.")],
    }
    async with (
        running_gateway(hooks, calls("Oslo")) as gateway,
        python_client(gateway.upstream_url) as client,
        Shim(gateway.url, "any") as shim,
    ):
        instrument(client, shim, "s-1")
        await ask(client, way, "the weather?", tools=[weather.get_weather])
    assert weather.cities == ["Bergen"]
    assert sent_parts(gateway)[-1]["functionResponse"]["response"] == {
        "result": "storm in Bergen\n\nBe brief."
    }
    assert [(each["hook_event_name"], each["session_id"]) for each in seen] == [
        ("BeforeTool", "s-1"),
        ("AfterTool", "s-1"),
    ]


async def test_at_a_gateway_the_next_call_after_a_stop_is_free() -> None:
    said = [{"continue": False, "stopReason": "Enough."}]
    hooks = {"BeforeTool": [runs(lambda _: said.pop() if said else None)]}
    async with (
        running_gateway(hooks, calls("Oslo")) as gateway,
        python_client(gateway.upstream_url) as client,
        Shim(gateway.url, "any") as shim,
    ):
        instrument(client, shim)
        with pytest.raises(Stopped, match="Enough"):
            await pieces(client, "async", "the weather?", tools=[Weather().get_weather])
        assert await pieces(client, "async", "hello") == ["You said: hello"]


async def test_a_declaration_is_what_it_was() -> None:
    async def declared(instrumented: bool) -> Any:
        async with running_gateway() as gateway, python_client(gateway.url) as client:
            with Shim(gateway.url, "any") as shim:
                if instrumented:
                    instrument(client, shim)
                await pieces(client, "async", "hello", tools=[Weather().get_weather])
        return gateway.generated[0].body["tools"]

    assert await declared(instrumented=True) == await declared(instrumented=False)


async def test_a_url_is_enough_and_the_session_can_be_entered() -> None:
    seen: list[dict[str, Any]] = []
    hooks = {
        "SessionStart": [says(additionalContext="Speak Norwegian."), listens(seen)],
        "SessionEnd": [listens(seen)],
    }
    async with running_gateway(hooks) as gateway, python_client(gateway.upstream_url) as client:

        def script() -> None:
            with instrument(client, f"{gateway.url}/s/own"):
                client.models.generate_content(model=MODEL, contents="hello")

        await asyncio.to_thread(script)
    assert [each["hook_event_name"] for each in seen] == ["SessionStart", "SessionEnd"]
    assert {each["session_id"] for each in seen} == {"own"}
    assert "Speak Norwegian." in str(gateway.generated[0].body)


async def test_other_clients_and_the_callers_configuration_stay_as_they_are() -> None:
    weather = Weather()
    config: Any = {"tools": [weather.get_weather]}
    async with (
        running_upstream(calls("Oslo")) as (url, _),
        python_client(url) as instrumented,
        python_client(url) as other,
        engine_shim({"BeforeTool": [says(NO)]}) as shim,
    ):
        instrument(instrumented, shim)
        await other.aio.models.generate_content(model=MODEL, contents="weather?", config=config)
    assert weather.cities == ["Oslo"]
    assert config == {"tools": [weather.get_weather]}


def test_an_sdk_that_does_not_fit_is_reported() -> None:
    client = genai.Client(api_key="any")
    del client._api_client
    with pytest.raises(ShimError, match=r"no Client\._api_client"):
        instrument(client, "http://127.0.0.1:9")
