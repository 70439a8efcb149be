"""An agent of Antigravity's Python SDK with the shim's hooks: at a gateway, and with hooks in its process."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.clients.environments import ANTIGRAVITY
from support.gateway.loopback import RunningGateway, listens, running_gateway, runs, says, write_settings

pytestmark = pytest.mark.e2e

Json = dict[str, Any]

AGENT = Path(__file__).parent / "antigravity" / "agent.py"
NO = {"decision": "deny", "reason": "No."}
WEATHER = {"name": "get_weather", "args": {"city": "Oslo"}}


def model_that_calls(call: Json) -> Json:
    return {"rules": [{"times": 1, "answer": {"chunks": [[{"functionCall": call}]]}}]}


async def at_a_gateway(
    folder: Path, hooks: Json, *prompts: str, call: Json = WEATHER
) -> tuple[list[Json], RunningGateway]:
    """What the agent shows, its model calling a tool first, and what reached the upstream."""
    async with running_gateway(hooks, model_that_calls(call)) as gateway:
        agent = await ANTIGRAVITY.run(AGENT, str(folder), gateway.url, "", *(prompts or ("the weather?",)))
    assert agent.exit_code == 0, agent.stderr
    return agent.lines, gateway


def program(folder: Path, output: Json) -> Json:
    """A hook for a process of its own, which notes its inputs in `folder/seen` and answers with an output."""
    script = f"cat >> {folder}/seen; echo >> {folder}/seen; echo '{json.dumps(output)}'"
    return {"type": "command", "command": script}


async def in_process(
    folder: Path, outputs: dict[str, Json], *prompts: str, city: str = "Oslo"
) -> tuple[list[Json], list[Json], list[str]]:
    """What the agent shows, the inputs of its hooks, and the last turn of each of its calls."""
    hooks = {event: [program(folder, output)] for event, output in outputs.items()}
    settings = str(write_settings(folder, hooks))
    call = {"name": "get_weather", "args": {"city": city}}
    async with running_gateway({}, model_that_calls(call)) as gateway:
        words = (str(folder), gateway.url, settings, *(prompts or ("the weather?",)))
        agent = await ANTIGRAVITY.run(AGENT, *words)
    assert agent.exit_code == 0, agent.stderr
    seen = folder / "seen"
    inputs = [json.loads(line) for line in seen.read_text().splitlines() if line] if seen.exists() else []
    return agent.lines, inputs, [json.dumps(call.body["contents"][-1]) for call in gateway.generated]


# ---- at a gateway


async def test_every_event_fires_once_and_in_order(tmp_path: Path) -> None:
    seen: list[Json] = []
    tools = ["BeforeModel", "AfterModel", "BeforeTool", "AfterTool"]
    events = ["SessionStart", "BeforeAgent", *tools, "AfterAgent", "SessionEnd"]
    hooks = {event: [listens(seen)] for event in events}
    await at_a_gateway(tmp_path, hooks)
    names = [name for each in seen if (name := each["hook_event_name"]) != "AfterModel"]
    assert names == [
        *("SessionStart", "BeforeAgent", "BeforeModel", "BeforeTool"),
        *("AfterTool", "BeforeModel", "AfterAgent", "SessionEnd"),
    ]
    assert {each["session_id"] for each in seen} == {"s-1"}


async def test_hooks_change_arguments_and_results_also_of_built_in_tools(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("nothing")
    (tmp_path / "b.txt").write_text("the secret is 42")
    view = {"AbsolutePath": str(tmp_path / "a.txt"), "toolAction": "A", "toolSummary": "B"}
    hooks = {
        "BeforeTool": [says(tool_input={"AbsolutePath": str(tmp_path / "b.txt")})],
        "AfterTool": [
            runs(lambda call: {"decision": "deny", "reason": str("42" in str(call["tool_response"]))})
        ],
    }
    _, gateway = await at_a_gateway(tmp_path, hooks, call={"name": "view_file", "args": view})
    [response] = gateway.generated[-1].body["contents"][-1]["parts"]
    assert response["functionResponse"]["response"] == {"output": "True"}


async def test_context_of_the_start_and_of_a_turn_reaches_the_model(tmp_path: Path) -> None:
    hooks = {
        "SessionStart": [says(additionalContext="Tests run with make.")],
        "BeforeAgent": [says(additionalContext="On main.")],
    }
    _, gateway = await at_a_gateway(tmp_path, hooks, "one")
    first = json.dumps(gateway.generated[0].body["contents"])
    assert "<hook_context>Tests run with make.</hook_context>" in first
    assert "<hook_context>On main.</hook_context>" in first


async def test_a_stop_answers_the_next_model_call_with_its_reason(tmp_path: Path) -> None:
    stop = {"continue": False, "stopReason": "Enough."}
    shown, gateway = await at_a_gateway(tmp_path, {"AfterTool": [says(stop)]})
    assert shown == [{"ran": "Oslo"}, {"text": "Enough."}]
    assert len(gateway.generated) == 1


async def test_compactions_and_questions_are_reported() -> None:
    seen: list[Json] = []
    events = ("SessionStart", "PreCompress", "Notification", "SessionEnd")
    async with running_gateway({event: [listens(seen)] for event in events}) as gateway:
        ran = await ANTIGRAVITY.run(AGENT.with_name("dispatch.py"), gateway.url)
    assert ran.exit_code == 0, ran.stderr
    assert [each["hook_event_name"] for each in seen] == [*events]
    assert seen[1]["trigger"] == "auto"
    assert (seen[2]["notification_type"], seen[2]["message"]) == ("AskQuestion", "Which color?")
    assert [option["text"] for option in seen[2]["details"]["questions"][0]["options"]] == ["red", "blue"]


# ---- in both


@pytest.mark.parametrize("mode", ["engine", "gateway"])
async def test_a_refused_session_has_no_turns(mode: str, tmp_path: Path) -> None:
    if mode == "engine":
        shown, _, sent = await in_process(tmp_path, {"SessionStart": NO}, "hello", "hello?")
        assert not sent
    else:
        shown, gateway = await at_a_gateway(tmp_path, {"SessionStart": [says(NO)]}, "hello", "hello?")
        assert not gateway.generated
    assert [line["error"] for line in shown] == ["No.", "No."]


# ---- with hooks in the process


async def test_every_event_is_reported_in_order(tmp_path: Path) -> None:
    events = ["SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd"]
    shown, inputs, _ = await in_process(tmp_path, {event: {} for event in events})
    assert [each["hook_event_name"] for each in inputs] == events
    assert {each["session_id"] for each in inputs} == {"s-1"}
    assert inputs[1]["prompt"] == "the weather?"
    assert inputs[3]["tool_input"] == {"city": "Oslo"}
    assert "storm in Oslo" in inputs[3]["tool_response"]["llmContent"]
    assert inputs[4]["prompt_response"] == shown[-1]["text"]


async def test_a_denied_tool_does_not_run(tmp_path: Path) -> None:
    shown, _, sent = await in_process(tmp_path, {"BeforeTool": NO})
    assert not [line for line in shown if "ran" in line]
    assert "Tool execution blocked: No." in sent[-1]


async def test_arguments_are_the_hooks(tmp_path: Path) -> None:
    outputs = {"BeforeTool": {"hookSpecificOutput": {"tool_input": {"city": "Bergen"}}}}
    shown, _, sent = await in_process(tmp_path, outputs)
    assert shown[0] == {"ran": "Bergen"}
    assert "storm in Bergen" in sent[-1]


async def test_the_error_of_a_failed_tool_is_the_hooks(tmp_path: Path) -> None:
    outputs = {"AfterTool": {"hookSpecificOutput": {"tool_result": {"llmContent": "no way, with [key]"}}}}
    _, _, sent = await in_process(tmp_path, outputs, city="Nowhere")
    assert "failed with error message: no way, with [key]" in sent[-1]
    assert "k-123" not in sent[-1]


async def test_a_denied_prompt_goes_nowhere(tmp_path: Path) -> None:
    shown, _, sent = await in_process(tmp_path, {"BeforeAgent": NO})
    assert shown == [{"error": "No."}]
    assert not sent


async def test_a_stop_denies_the_tool_with_its_reason(tmp_path: Path) -> None:
    shown, _, sent = await in_process(tmp_path, {"BeforeTool": {"continue": False, "stopReason": "Enough."}})
    assert not [line for line in shown if "ran" in line]
    assert "Tool execution blocked: Enough." in sent[-1]


async def test_a_denied_answer_is_asked_for_again_as_often_as_the_shim_allows(tmp_path: Path) -> None:
    _, inputs, sent = await in_process(tmp_path, {"AfterAgent": NO}, "hello")
    assert [each["stop_hook_active"] for each in inputs] == [False, True, True]
    assert [("No." in call) for call in sent[-2:]] == [True, True]
