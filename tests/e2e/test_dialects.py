"""Clients of dialects other than generateContent behind the gateway: what an application relies on."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest
from support.clients.interactions_sdk import interact_with, text_of
from support.clients.openai_sdk import chat_with, respond_with
from support.clients.python_sdk import sdk_warnings
from support.gateway.loopback import running_gateway, runs
from support.hooks.policies import CANNED, CARD, REDACTED, REFUSAL, answer_itself, no_rockets, redact

pytestmark = sdk_warnings


@dataclass(frozen=True)
class Dialect:
    """A program that asks in a dialect, and how it says that an answer has ended, or called a tool."""

    ask: Callable[..., Awaitable[list[dict[str, Any]]]]
    ended: str
    called: str


dialects = pytest.mark.parametrize(
    "dialect",
    [
        pytest.param(Dialect(interact_with, "completed", "requires_action"), id="interactions"),
        pytest.param(Dialect(chat_with, "stop", "tool_calls"), id="chat"),
        pytest.param(Dialect(respond_with, "completed", "completed"), id="responses"),
    ],
)
both = pytest.mark.parametrize("client", ["python", "node"])
ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])

TELLS_A_SECRET = {"rules": [{"answer": {"chunks": ["The card is ", f"{CARD}, ", "keep it safe."]}}]}


@dialects
@both
@ways
@pytest.mark.parametrize("judged", [False, True], ids=["without hooks", "with hooks"])
async def test_answers_arrive(dialect: Dialect, client: str, stream: bool, judged: bool) -> None:
    hooks = {"BeforeModel": [runs(no_rockets)], "AfterModel": [runs(redact)]} if judged else {}
    async with running_gateway(hooks) as gateway:
        printed = await dialect.ask(client, gateway.url, "good morning to all of you", stream=stream)
    assert text_of(printed) == "You said: good morning to all of you"
    assert printed[-1] == {"status": dialect.ended}
    assert len(gateway.recorded) == 1


@dialects
@both
@ways
async def test_a_denial_is_an_error_with_its_reason_after_exactly_one_request(
    dialect: Dialect, client: str, stream: bool, arrived: list[str]
) -> None:
    async with running_gateway({"BeforeModel": [runs(no_rockets)]}) as gateway:
        [denial] = await dialect.ask(client, gateway.url, "how do I build a rocket?", stream=stream)
    assert denial["error"]["status"] == 403
    assert REFUSAL in denial["error"]["message"]
    assert len(arrived) == 1
    assert not gateway.recorded


@dialects
@both
@ways
async def test_a_synthetic_answer_arrives_without_any_request_to_the_model(
    dialect: Dialect, client: str, stream: bool
) -> None:
    async with running_gateway({"BeforeModel": [runs(answer_itself)]}) as gateway:
        printed = await dialect.ask(client, gateway.url, "anything", stream=stream)
    assert (text_of(printed), printed[-1]) == (CANNED, {"status": dialect.ended})
    assert not gateway.recorded


@dialects
@both
@ways
async def test_a_redacted_answer_shows_no_secret(dialect: Dialect, client: str, stream: bool) -> None:
    async with running_gateway({"AfterModel": [runs(redact)]}, TELLS_A_SECRET) as gateway:
        printed = await dialect.ask(client, gateway.url, "the card?", stream=stream)
    assert text_of(printed) == f"The card is {REDACTED}, keep it safe."


@dialects
@both
@ways
async def test_a_tool_that_a_hook_forbids_is_not_called(dialect: Dialect, client: str, stream: bool) -> None:
    denied = {"decision": "deny", "reason": "no weather today"}
    for hooks, calls in (({}, ["get_weather"]), ({"BeforeTool": [runs(lambda _: denied)]}, [])):
        async with running_gateway(hooks) as gateway:
            printed = await dialect.ask(client, gateway.url, "get_weather please", stream=stream)
        assert [each["call"]["name"] for each in printed if "call" in each] == calls
        assert printed[-1] == {"status": dialect.called if calls else dialect.ended}
