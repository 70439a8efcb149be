"""google-genai's and @google/genai's interactions behind the gateway: what an application relies on."""

from typing import Any

import pytest
from support.gateway import running_gateway, runs
from support.node import run_script
from support.policies import CANNED, CARD, REDACTED, REFUSAL, answer_itself, no_rockets, redact
from support.python_sdk import MODEL, python_client, sdk_warnings

pytestmark = sdk_warnings

both = pytest.mark.parametrize("client", ["python", "node"])
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
WEATHER: Any = {"type": "function", "name": "get_weather", "parameters": PARAMETERS}
TELLS_A_SECRET = {"rules": [{"answer": {"chunks": ["The card is ", f"{CARD}, ", "keep it safe."]}}]}


async def said(client: str, base_url: str, prompt: str, *, stream: bool) -> list[dict[str, Any]]:
    """What a program printed: `{"text"}`, `{"call"}`, `{"status"}` and `{"error"}`, in order."""
    if client == "node":
        ran = await run_script("interact.mjs", "stream" if stream else "whole", base_url, prompt)
        assert (ran.exit_code, ran.stderr) == (0, "")
        return [each for each in ran.lines if isinstance(each, dict)]
    try:
        return await _said(base_url, prompt, stream=stream)
    except Exception as error:
        if not hasattr(error, "status_code"):
            raise
        return [{"error": {"status": error.status_code, "message": str(error)}}]


async def _said(base_url: str, prompt: str, *, stream: bool) -> list[dict[str, Any]]:
    printed: list[dict[str, Any]] = []
    async with python_client(base_url) as sdk:
        asked: dict[str, Any] = {"model": MODEL, "input": prompt, "tools": [WEATHER]}
        if not stream:
            answer = await sdk.aio.interactions.create(**asked)
            calls = [step for step in answer.steps or [] if step.type == "function_call"]
            printed += [{"call": {"name": call.name, "arguments": call.arguments}} for call in calls]
            return [*printed, {"text": answer.output_text or ""}, {"status": answer.status}]
        async for event in await sdk.aio.interactions.create(**asked, stream=True):
            if event.event_type == "step.delta" and event.delta.type == "text":
                printed.append({"text": event.delta.text})
            elif event.event_type == "step.start" and event.step.type == "function_call":
                printed.append({"call": {"name": event.step.name}})
            elif event.event_type == "interaction.completed":
                printed.append({"status": event.interaction.status})
    return printed


def text_of(printed: list[dict[str, Any]]) -> str:
    return "".join(each.get("text", "") for each in printed)


@both
@ways
@pytest.mark.parametrize("judged", [False, True], ids=["without hooks", "with hooks"])
async def test_answers_arrive(client: str, stream: bool, judged: bool) -> None:
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]} if judged else {}
    async with running_gateway(hooks) as gateway:
        printed = await said(client, gateway.url, "good morning to all of you", stream=stream)
    assert text_of(printed) == "You said: good morning to all of you"
    assert printed[-1] == {"status": "completed"}
    assert len(gateway.recorded) == 1


@both
@ways
async def test_a_denial_is_an_error_with_its_reason_after_exactly_one_request(
    client: str, stream: bool, arrived: list[str]
) -> None:
    async with running_gateway({"BeforeModel": [runs(no_rockets)]}) as gateway:
        [denial] = await said(client, gateway.url, "how do I build a rocket?", stream=stream)
    assert denial["error"]["status"] == 403
    assert REFUSAL in denial["error"]["message"]
    assert len(arrived) == 1
    assert not gateway.recorded


@both
@ways
async def test_a_synthetic_answer_arrives_without_any_request_to_the_model(client: str, stream: bool) -> None:
    async with running_gateway({"BeforeModel": [runs(answer_itself)]}) as gateway:
        printed = await said(client, gateway.url, "anything", stream=stream)
    assert (text_of(printed), printed[-1]) == (CANNED, {"status": "completed"})
    assert not gateway.recorded


@both
@ways
async def test_a_redacted_answer_shows_no_secret(client: str, stream: bool) -> None:
    async with running_gateway({"AfterModel": [runs(redact)]}, TELLS_A_SECRET) as gateway:
        printed = await said(client, gateway.url, "the card?", stream=stream)
    assert text_of(printed) == f"The card is {REDACTED}, keep it safe."


@both
@ways
async def test_a_tool_that_a_hook_forbids_is_not_called(client: str, stream: bool) -> None:
    denied = {"decision": "deny", "reason": "no weather today"}
    for hooks, calls in (({}, ["get_weather"]), ({"BeforeTool": [runs(lambda _: denied)]}, [])):
        async with running_gateway(hooks) as gateway:
            printed = await said(client, gateway.url, "get_weather please", stream=stream)
        assert [each["call"]["name"] for each in printed if "call" in each] == calls
        assert printed[-1] == {"status": "requires_action" if calls else "completed"}


async def test_a_conversation_goes_on_by_the_id_of_the_interaction_before() -> None:
    seen: list[Any] = []
    async with (
        running_gateway({"BeforeModel": [runs(seen.append)]}) as gateway,
        python_client(gateway.url) as sdk,
    ):
        first = await sdk.aio.interactions.create(model=MODEL, input="one")
        await sdk.aio.interactions.create(model=MODEL, input="two", previous_interaction_id=first.id)
        read = await sdk.aio.interactions.get(first.id)
        await sdk.aio.interactions.delete(first.id)
    assert read.output_text == "You said: one"
    assert [event["llm_request"].get("history") for event in seen] == [None, "unknown"]
    assert seen[1]["llm_request"]["previousInteractionId"] == first.id
