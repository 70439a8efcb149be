"""The combined output of all hooks, as the event service returns it and shims apply it."""

from typing import Any

import pytest
from support.hooks.settings import SESSION, Json, asking, engine, parallel

from hookgate.hooks import (
    AfterAgent,
    AfterModel,
    AfterTool,
    BeforeTool,
    BeforeToolSelection,
    Notification,
)
from hookgate.hooks.engine import combined_output
from hookgate.hooks.events.base import SharedValue

BODY: Json = {"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}
ANSWER: Json = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "index": 0}]}
BEFORE_MODEL = asking("hi")
AFTER_MODEL = AfterModel(SharedValue({}), ANSWER, "m")
BEFORE_TOOL = BeforeTool("t", {"a": 1, "b": 2})
AFTER_TOOL = AfterTool("t", {}, {"llmContent": "x"})
SELECTION = BeforeToolSelection("m", {**BODY, "tools": [{"functionDeclarations": [{"name": "f"}]}]})
AFTER_AGENT = AfterAgent("hi", "ok", False)
SAID = {"candidates": [{"content": {"role": "model", "parts": ["no"]}, "finishReason": "STOP"}]}
TAIL = {"name": "u", "args": {"c": 3}}


async def combined(event: Any, *outputs: Json) -> Json:
    hooks = parallel(*(lambda _, output=output: output for output in outputs))
    return combined_output(event, await engine(hooks, event=event.name).fire(event, SESSION))


@pytest.mark.parametrize(
    ("event", "outputs", "expected"),
    [
        pytest.param(BEFORE_MODEL, [{}], {}, id="nothing"),
        pytest.param(BEFORE_MODEL, [{"decision": "allow"}, {}], {"decision": "allow"}, id="allowed"),
        pytest.param(
            BEFORE_MODEL,
            [{"decision": "allow", "reason": "fine"}],
            {"decision": "allow", "reason": "fine"},
            id="allowed with a reason",
        ),
        pytest.param(
            BEFORE_MODEL,
            [{"decision": "deny", "reason": "no", "systemMessage": "a"}, {"systemMessage": "b"}],
            {"decision": "deny", "reason": "no", "systemMessage": "a\nb"},
            id="denied with messages",
        ),
        pytest.param(
            BEFORE_TOOL,
            [{"continue": False, "stopReason": "enough"}, {"decision": "deny", "reason": "no"}],
            {"continue": False, "stopReason": "enough"},
            id="stopped",
        ),
        pytest.param(
            Notification("ToolPermission", "may it?", {}),
            [{"systemMessage": "m", "suppressOutput": True}],
            {"systemMessage": "m", "suppressOutput": True},
            id="suppressed",
        ),
    ],
)
async def test_decisions_and_messages(event: Any, outputs: list[Json], expected: Json) -> None:
    assert await combined(event, *outputs) == expected


@pytest.mark.parametrize(
    ("event", "said", "expected"),
    [
        pytest.param(BEFORE_TOOL, {"tool_input": {"b": 3}}, {"tool_input": {"a": 1, "b": 3}}, id="arguments"),
        pytest.param(BEFORE_TOOL, {"tool_input": {"b": 2}}, None, id="the same arguments"),
        pytest.param(
            AFTER_TOOL,
            {"additionalContext": "see", "tailToolCallRequest": TAIL},
            {"additionalContext": "see", "tailToolCallRequest": TAIL},
            id="context and a further call",
        ),
        pytest.param(
            AFTER_TOOL,
            {"tool_result": {"llmContent": "y"}},
            {"tool_result": {"llmContent": "y"}},
            id="result",
        ),
        pytest.param(BEFORE_MODEL, {"llm_response": SAID}, {"llm_response": SAID}, id="answer of a hook"),
        pytest.param(
            SELECTION,
            {"tools": ["f"], "toolConfig": {"mode": "ANY"}},
            {"tools": ["f"], "toolConfig": {"mode": "ANY"}},
            id="selection",
        ),
        pytest.param(AFTER_AGENT, {"clearContext": True}, {"clearContext": True}, id="context cleared"),
        pytest.param(AFTER_AGENT, {"clearContext": False}, None, id="context kept"),
    ],
)
async def test_what_is_specific_to_an_event(event: Any, said: Json, expected: Json | None) -> None:
    specific = {"hookEventName": event.name, **(expected or {})}
    assert await combined(event, {"hookSpecificOutput": said}) == (
        {} if expected is None else {"hookSpecificOutput": specific}
    )


async def test_an_edited_request_and_an_edited_answer_are_given_as_they_are_now() -> None:
    messages = [{"role": "user", "content": "ho"}]
    asked = await combined(BEFORE_MODEL, {"hookSpecificOutput": {"llm_request": {"messages": messages}}})
    answered = await combined(AFTER_MODEL, {"hookSpecificOutput": {"llm_response": {"text": "no"}}})
    request, response = asked["hookSpecificOutput"], answered["hookSpecificOutput"]
    assert request["llm_request"]["messages"] == messages
    assert request["llm_request"]["model"] == BEFORE_MODEL.model
    assert (response["hookEventName"], response["llm_response"]["text"]) == ("AfterModel", "no")
    assert request.keys() == {"hookEventName", "llm_request"}
    assert response.keys() == {"hookEventName", "llm_response"}
