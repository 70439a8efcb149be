"""OpenAI's SDKs for Python and JavaScript behind the gateway: what an application relies on."""

import json
from typing import Any

import pytest
from openai import PermissionDeniedError
from openai.types.responses import ResponseCompletedEvent, ResponseFunctionToolCall
from pydantic import BaseModel
from support.bodies.chat import called, ended, sse, text_chunk
from support.clients.interactions_sdk import text_of
from support.clients.openai_sdk import FLAT_WEATHER, chat_with, openai_client
from support.clients.python_sdk import MODEL
from support.gateway.loopback import gateway_before, listens, running_gateway, runs
from support.hooks.policies import CARD, REDACTED, REFUSAL, no_rockets, redact
from support.wire import STREAM_HEAD, peer

both = pytest.mark.parametrize("client", ["python", "node"])
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

TELLS_A_SECRET = {"rules": [{"answer": {"chunks": ["The card is ", f"{CARD}, ", "keep it safe."]}}]}


@both
async def test_a_denial_in_the_middle_of_a_stream_is_shown_and_ends_it(client: str) -> None:
    def no_secret(event: dict[str, Any]) -> dict[str, Any] | None:
        text = json.dumps(event["llm_response"])
        return {"decision": "deny", "reason": REFUSAL} if "secret" in text else None

    first, last = text_chunk("hello ", role="assistant"), [text_chunk("the secret"), ended()]
    begun = sse([first]).removesuffix(b"data: [DONE]\n\n")
    async with (
        peer(STREAM_HEAD, begun, 0.2, sse(last)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [runs(no_secret, stream="event")]}) as url,
    ):
        printed = await chat_with(client, url, "hi", stream=True)
    assert text_of(printed) == f"hello {REFUSAL}"
    assert printed[-1] == {"status": "stop"}
    assert len(upstream.heard) == 1


@both
async def test_parallel_calls_are_joined_in_the_order_in_which_they_were_sent(client: str) -> None:
    calls = [
        *called(['{"city": "', 'Rome"}'], 0, "get_weather"),
        *called(['{"city": "Bern"}'], 1, "get_weather"),
    ]
    data = sse([text_chunk("look", role="assistant"), *calls, ended("tool_calls")])
    async with (
        peer(STREAM_HEAD, data) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [runs(lambda _: None)]}) as url,
    ):
        printed = await chat_with(client, url, "hi", stream=True)
    assert [each["call"]["name"] for each in printed if "call" in each] == ["get_weather"] * 2


class City(BaseModel):
    name: str


@pytest.mark.parametrize("hooks", [{}, {"AfterModel": [runs(redact)]}], ids=["without hooks", "with hooks"])
async def test_a_response_is_parsed_and_its_events_are_iterated(hooks: dict[str, Any]) -> None:
    script = {"rules": [{"answer": {"chunks": ['{"name": "', CARD, '"}']}}]}
    async with running_gateway(hooks, script) as gateway, openai_client(gateway.url) as sdk:
        parsed = await sdk.responses.parse(model=MODEL, input="where?", text_format=City)
        events = [e async for e in await sdk.responses.create(model=MODEL, input="where?", stream=True)]
        async with sdk.responses.stream(model=MODEL, input="where?", text_format=City) as stream:
            streamed = await stream.get_final_response()
    expected = City(name=REDACTED if hooks else CARD)
    assert parsed.output_parsed == streamed.output_parsed == expected
    assert isinstance(events[-1], ResponseCompletedEvent)
    assert json.loads(events[-1].response.output_text) == expected.model_dump()
    assert [event.sequence_number for event in events] == [*range(len(events))]


async def test_an_answer_is_sent_back_with_the_result_of_its_call() -> None:
    script = {
        "rules": [
            {"when": {"tool_response": "get_weather"}, "answer": {"text": "It rains."}},
            {"answer": {"parts": [{"functionCall": {"name": "get_weather", "args": {"city": "Rome"}}}]}},
        ]
    }
    seen: list[dict[str, Any]] = []
    async with (
        running_gateway({"AfterTool": [listens(seen)]}, script) as gateway,
        openai_client(gateway.url) as sdk,
    ):
        items: list[Any] = [{"role": "user", "content": "the weather?"}]
        first = await sdk.responses.create(model=MODEL, input=items, tools=[FLAT_WEATHER])
        [call] = first.output
        assert isinstance(call, ResponseFunctionToolCall)
        items += [call, {"type": "function_call_output", "call_id": call.call_id, "output": "rain"}]
        last = await sdk.responses.create(model=MODEL, input=items, tools=[FLAT_WEATHER])
    assert last.output_text == "It rains."
    assert [(event["tool_name"], event["tool_input"]) for event in seen] == [
        ("get_weather", {"city": "Rome"})
    ]


async def test_texts_are_embedded() -> None:
    async with (
        running_gateway({"BeforeModel": [runs(no_rockets)]}) as gateway,
        openai_client(gateway.url) as sdk,
    ):
        made = await sdk.embeddings.create(model="gemini-embedding-001", input=["one", "two"], dimensions=3)
        with pytest.raises(PermissionDeniedError, match=REFUSAL):
            await sdk.embeddings.create(model="gemini-embedding-001", input="a rocket")
    assert [len(each.embedding) for each in made.data] == [3, 3]
    assert len(gateway.recorded) == 1


async def test_the_path_of_vertex_ai_is_judged() -> None:
    messages: Any = [{"role": "user", "content": "hi"}]
    denied: Any = [{"role": "user", "content": "a rocket"}]
    path = "/v1/projects/p/locations/l/endpoints/openapi"
    async with (
        running_gateway({"BeforeModel": [runs(no_rockets)]}) as gateway,
        openai_client(gateway.url, path=path) as sdk,
    ):
        answer = await sdk.chat.completions.create(model=f"google/{MODEL}", messages=messages)
        made = await sdk.embeddings.create(model="google/gemini-embedding-001", input="hi")
        with pytest.raises(PermissionDeniedError, match=REFUSAL):
            await sdk.chat.completions.create(model=f"google/{MODEL}", messages=denied)
        with pytest.raises(PermissionDeniedError, match=REFUSAL):
            await sdk.embeddings.create(model="google/gemini-embedding-001", input="a rocket")
    assert answer.choices[0].message.content == "You said: hi"
    assert len(made.data) == 1
    assert len(gateway.recorded) == 2


async def test_models_are_listed() -> None:
    async with (
        running_gateway({"BeforeModel": [runs(no_rockets)]}) as gateway,
        openai_client(gateway.url) as sdk,
    ):
        models = [model.id async for model in await sdk.models.list()]
    assert "models/gemini-3.8-flash" in models
