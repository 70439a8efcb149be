"""OpenAI's SDKs for Python and JavaScript behind the gateway: what an application relies on."""

import json
from typing import Any

import pytest
from openai import PermissionDeniedError
from support.chat import called, ended, said, sse
from support.gateway import gateway_before, running_gateway, runs
from support.interactions_sdk import text_of
from support.openai_sdk import chat_with, openai_client
from support.policies import CARD, REFUSAL, no_rockets
from support.wire import STREAM_HEAD, peer

both = pytest.mark.parametrize("client", ["python", "node"])
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

TELLS_A_SECRET = {"rules": [{"answer": {"chunks": ["The card is ", f"{CARD}, ", "keep it safe."]}}]}


@both
async def test_a_denial_in_the_middle_of_a_stream_is_shown_and_ends_it(client: str) -> None:
    def no_secret(event: dict[str, Any]) -> dict[str, Any] | None:
        text = json.dumps(event["llm_response"])
        return {"decision": "deny", "reason": REFUSAL} if "secret" in text else None

    first, last = said("hello ", role="assistant"), [said("the secret"), ended()]
    begun = sse([first]).removesuffix(b"data: [DONE]\n\n")
    async with (
        peer(STREAM_HEAD, begun, 0.2, sse(last)) as upstream,
        gateway_before(upstream.url, {"AfterModel": [runs(no_secret)]}) as url,
    ):
        printed = await chat_with(client, url, "hi", stream=True)
    assert text_of(printed) == f"hello {REFUSAL}"
    assert printed[-1] == {"status": "stop"}
    assert len(upstream.heard) == 1


@both
async def test_parallel_calls_are_joined_as_they_were_sent(client: str) -> None:
    calls = [
        *called(['{"city": "', 'Rome"}'], 0, "get_weather"),
        *called(['{"city": "Bern"}'], 1, "get_weather"),
    ]
    data = sse([said("look", role="assistant"), *calls, ended("tool_calls")])
    async with (
        peer(STREAM_HEAD, data) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [runs(lambda _: None)]}) as url,
    ):
        printed = await chat_with(client, url, "hi", stream=True)
    assert [each["call"]["name"] for each in printed if "call" in each] == ["get_weather"] * 2


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


async def test_models_are_listed() -> None:
    async with (
        running_gateway({"BeforeModel": [runs(no_rockets)]}) as gateway,
        openai_client(gateway.url) as sdk,
    ):
        models = [model.id async for model in await sdk.models.list()]
    assert "models/gemini-2.5-flash" in models
