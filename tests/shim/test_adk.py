"""An agent of google-adk with the plugin, at a whole gateway."""

from pathlib import Path
from typing import Any

import pytest
from support.clients.environments import ADK
from support.gateway.loopback import RunningGateway, listens, running_gateway, runs, says

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

AGENT = Path(__file__).parent / "adk" / "agent.py"
NO = {"decision": "deny", "reason": "No."}


async def ran(hooks: Json, *prompts: str, city: str = "Oslo") -> tuple[list[Json], RunningGateway]:
    """What the agent shows, its model calling the tool for the city first, and what reached the upstream."""
    call = {"functionCall": {"name": "get_weather", "args": {"city": city}}}
    script = {"rules": [{"times": 1, "answer": {"chunks": [[call]]}}]}
    async with running_gateway(hooks, script) as gateway:
        agent = await ADK.run(AGENT, gateway.url, *(prompts or ("the weather?",)))
    assert agent.exit_code == 0, agent.stderr
    return agent.lines, gateway


async def test_every_event_is_reported_once_and_in_order() -> None:
    seen: list[Json] = []
    events = ["SessionStart", "BeforeAgent", "BeforeModel", "AfterModel", "BeforeTool", "AfterTool"]
    hooks = {event: [listens(seen)] for event in (*events, "AfterAgent", "SessionEnd")}
    shown, _ = await ran(hooks)
    assert [each["hook_event_name"] for each in seen] == [
        *events,
        "BeforeModel",
        "AfterModel",
        "AfterAgent",
        "SessionEnd",
    ]
    assert {each["session_id"] for each in seen} == {"s-1"}
    assert seen[1]["prompt"] == "the weather?"
    assert seen[-2]["prompt_response"] == shown[-1]["text"]
    assert "storm in Oslo" in shown[-1]["text"]


async def test_a_later_result_of_a_tool_is_no_prompt() -> None:
    seen: list[Json] = []
    _, gateway = await ran({"BeforeAgent": [listens(seen)]}, "the weather?", "(result)")
    assert [each["prompt"] for each in seen] == ["the weather?"]
    assert "no storm" in str(gateway.generated[-1].body)


async def test_arguments_and_results_are_the_hooks() -> None:
    hooks = {
        "BeforeTool": [says(tool_input={"city": "Bergen"})],
        "AfterTool": [says(additionalContext="Be brief.")],
    }
    shown, _ = await ran(hooks)
    assert {"ran": "Bergen"} in shown
    assert {"result": {"result": "storm in Bergen\n\nBe brief."}} in shown


async def test_a_denied_tool_is_reported_as_the_contract_has_it() -> None:
    shown, _ = await ran({"BeforeTool": [says(NO)]})
    assert not [each for each in shown if "ran" in each]
    assert {"result": {"error": "Tool execution blocked: No."}} in shown


async def test_a_failed_tool_is_reported_as_hooks_left_it() -> None:
    hooks = {"AfterTool": [says(tool_result={"llmContent": "no way, with key [key]"})]}
    shown, _ = await ran(hooks, city="Nowhere")
    assert {"result": {"error": "no way, with key [key]"}} in shown


async def test_context_reaches_the_model() -> None:
    hooks = {
        "SessionStart": [says(additionalContext="Tests run with make.")],
        "BeforeAgent": [says(additionalContext="On main.")],
    }
    _, gateway = await ran(hooks, "one", "two")
    contents = gateway.generated[-1].body["contents"]
    added = [
        text for each in contents for part in each["parts"] if "context>" in (text := part.get("text", ""))
    ]
    assert added == [
        "<hook_context>Tests run with make.\nOn main.</hook_context>",
        "<hook_context>On main.</hook_context>",
    ]


async def test_a_refused_prompt_goes_nowhere() -> None:
    def refuse(call: Json) -> Json | None:
        return NO if "secret" in call["prompt"] else None

    shown, gateway = await ran({"BeforeAgent": [runs(refuse)]}, "a secret", "hello")
    assert shown[0] == {"text": "No."}
    assert "secret" not in str([request.body for request in gateway.generated])
    assert len(shown) > 1


@pytest.mark.parametrize("event", ["BeforeTool", "AfterTool"])
async def test_a_stop_ends_the_turn_with_its_reason(event: str) -> None:
    stop = {"continue": False, "stopReason": "Enough."}
    shown, gateway = await ran({event: [says(stop)]})
    assert shown[-1] == {"text": "Enough."}
    assert len(gateway.generated) == 1


async def test_a_denied_model_call_is_shown_as_text() -> None:
    shown, gateway = await ran({"BeforeModel": [says(NO)]})
    assert shown == [{"text": "No."}]
    assert not gateway.generated


async def test_a_denied_answer_ends_with_the_reason() -> None:
    shown, _ = await ran({"AfterAgent": [says(NO)]})
    assert shown[-1] == {"text": "No."}
