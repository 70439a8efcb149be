"""The event service: events, the combined output, and its effects on the session's calls."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import gateway_before, listens, running_gateway, runs, says
from support.upstream.captured import HOOK_INPUTS
from support.wire import HI, KEY, UNARY, Answer, peer, post

from hookgate.proxy.config import Config, LimitSettings

BASE = {"session_id": "s-1", "cwd": "/home/dev/project", "transcript_path": "/t.jsonl"}
IN_SESSION = {**KEY, "x-hookgate-session": "s-1"}
DELIVER = {**KEY, "x-hookgate-context": "deliver"}


async def tell(
    url: str, event: str, headers: Mapping[str, str] | None = None, prefix: str = "", **fields: Any
) -> Answer:
    target = f"{prefix}/hookgate/v1/events/{event}"
    return await post(url, target, {**BASE, "hook_event_name": event, **fields}, dict(headers or KEY))


def answer_json(answer: Answer) -> Any:
    assert (answer.status, len(answer.headers["x-hookgate-receipt"])) == (200, 32)
    return answer.json


async def test_hooks_see_the_input_as_the_agent_sent_it() -> None:
    seen: list[dict[str, Any]] = []
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeTool": [listens(seen)]}) as url:
        answer = await tell(url, "BeforeTool", tool_name="write_file", tool_input={"a": 1})
    assert answer_json(answer) == {}
    [event] = seen
    assert event.items() >= {**BASE, "tool_name": "write_file", "tool_input": {"a": 1}}.items()
    assert event["hook_event_name"] == "BeforeTool"


@pytest.mark.parametrize(
    ("event", "fields", "output", "expected"),
    [
        pytest.param(
            "BeforeTool",
            {"tool_name": "t", "tool_input": {"a": 1, "b": 2}},
            {"decision": "deny", "reason": "no"},
            {"decision": "deny", "reason": "no"},
            id="denied",
        ),
        pytest.param(
            "BeforeTool",
            {"tool_name": "t", "tool_input": {"a": 1, "b": 2}},
            {"hookSpecificOutput": {"tool_input": {"b": 3}}},
            {"hookSpecificOutput": {"hookEventName": "BeforeTool", "tool_input": {"a": 1, "b": 3}}},
            id="arguments rewritten",
        ),
        pytest.param(
            "AfterTool",
            {"tool_name": "t", "tool_input": {}, "tool_response": {"llmContent": "x"}},
            {"hookSpecificOutput": {"additionalContext": "a <b>"}, "systemMessage": "m"},
            {
                "hookSpecificOutput": {"hookEventName": "AfterTool", "additionalContext": "a &lt;b&gt;"},
                "systemMessage": "m",
            },
            id="context",
        ),
        pytest.param(
            "BeforeAgent",
            {"prompt": "p"},
            {"continue": False, "stopReason": "enough"},
            {"continue": False, "stopReason": "enough"},
            id="stopped",
        ),
        pytest.param("SessionEnd", {"reason": "exit"}, {"decision": "deny"}, {}, id="advisory"),
    ],
)
async def test_one_output_says_what_the_hooks_say(
    event: str, fields: dict[str, Any], output: dict[str, Any], expected: dict[str, Any]
) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {event: [says(output)]}) as url:
        assert answer_json(await tell(url, event, **fields)) == expected


@pytest.mark.usefixtures("shared")
@pytest.mark.parametrize("file", HOOK_INPUTS)
async def test_every_captured_input_is_taken_and_shown_to_hooks_with_its_fields(file: Path) -> None:
    name = file.stem
    seen: list[dict[str, Any]] = []
    inputs = json.loads(file.read_text())  # noqa: ASYNC240  # nothing else waits for this loop
    async with peer() as upstream, gateway_before(upstream.url, {name: [listens(seen)]}) as url:
        for captured in inputs:
            assert (await post(url, f"/hookgate/v1/events/{name}", captured)).status == 200
    for captured, shown in zip(inputs, seen, strict=True):
        assert captured.keys() <= shown.keys()
        same = captured.keys() - {"timestamp", "llm_request", "llm_response"}
        assert {key: shown[key] for key in same} == {key: captured[key] for key in same}


TOOLS = [{"functionDeclarations": [{"name": "glob"}]}]
SELECTION = {"mode": "AUTO", "allowedFunctionNames": ["glob"]}
MINIMAL = [
    ("SessionStart", {}, {"source": "startup"}),
    ("SessionEnd", {}, {"reason": "other"}),
    ("PreCompress", {"context_size": 9, "max_context_size": 10}, {"trigger": "auto", "context_size": 9}),
    (
        "BeforeToolSelection",
        {"available_tools": TOOLS, "tool_config": {"mode": "AUTO", "allowed_function_names": ["glob"]}},
        {
            "available_tools": [{"name": "glob"}],
            "tool_config": {"mode": "AUTO", "allowed_function_names": ["glob"]},
        },
    ),
    (
        "BeforeModel",
        {"llm_request": {"model": "m", "messages": [], "toolConfig": {"functionCallingConfig": SELECTION}}},
        {
            "llm_request": {
                "model": "m",
                "messages": [],
                "config": {},
                "toolConfig": {**SELECTION, "functionCallingConfig": SELECTION},
            }
        },
    ),
]


@pytest.mark.parametrize(("event", "fields", "shown"), MINIMAL)
async def test_the_least_input_that_a_document_shows_is_taken(
    event: str, fields: dict[str, Any], shown: dict[str, Any]
) -> None:
    seen: list[dict[str, Any]] = []
    async with peer() as upstream, gateway_before(upstream.url, {event: [listens(seen)]}) as url:
        assert answer_json(await tell(url, event, **fields)) == {}
    assert seen[0].items() >= shown.items()


@pytest.mark.parametrize(
    ("event", "fields", "place"),
    [
        pytest.param("BeforeTool", {"tool_input": {}}, "tool_name", id="no tool"),
        pytest.param("BeforeTool", {"session_id": ""}, "tool_name", id="nothing"),
        pytest.param("BeforeTool", {"tool_name": ["t"], "tool_input": {}}, "tool_name", id="no name"),
        pytest.param("BeforeTool", {"tool_name": "t", "tool_input": "rm"}, "tool_input", id="no arguments"),
        pytest.param("BeforeAgent", {"prompt": 5}, "prompt", id="no text"),
        pytest.param("SessionStart", {"session_id": "", "source": "startup"}, "session_id", id="no session"),
        pytest.param("SessionStart", {"session_id": "../x", "source": "s"}, "session", id="bad session"),
        pytest.param("SessionStart", {"cwd": 7, "source": "s"}, "cwd", id="bad folder"),
        pytest.param("SessionStart", {"cwd": "x" * 5000, "source": "s"}, "cwd", id="long folder"),
    ],
)
async def test_an_invalid_input_is_refused_by_name(event: str, fields: dict[str, Any], place: str) -> None:
    async with peer() as upstream, gateway_before(upstream.url, {"BeforeModel": [says()]}) as url:
        answer = await tell(url, event, **fields)
    assert (answer.status, place in answer.error["message"]) == (400, True)


async def test_an_event_that_there_is_not_is_no_route() -> None:
    async with peer() as upstream, gateway_before(upstream.url) as url:
        assert (await tell(url, "Never")).status == 403


async def test_one_caller_has_so_many_events_a_second_and_another_has_its_own() -> None:
    config = Config(limits=LimitSettings(events=3))
    async with peer() as upstream, gateway_before(upstream.url, {}, config) as url:
        found = [(await tell(url, "SessionStart", source="startup")).status for _ in range(6)]
        other = await tell(url, "SessionStart", {"x-goog-api-key": "other"}, source="startup")
    assert (found[:3], 429 in found[3:], other.status) == ([200] * 3, True, 200)


# ---- what it means for the session's calls


async def last_parts_sent(gateway: Any, headers: dict[str, str] = IN_SESSION) -> list[Any]:
    """The parts of the last turn of one more call, as they reach the upstream."""
    assert (await post(gateway.url, UNARY, HI, headers)).status == 200
    parts: list[Any] = gateway.generated[-1].body["contents"][-1]["parts"]
    return parts


async def test_context_reaches_the_sessions_next_call_once_when_the_agent_wants_that() -> None:
    def note(event: dict[str, Any]) -> Any:
        reported = {"additionalContext": "on <main>"}
        return {"hookSpecificOutput": reported} if event["prompt"] == "from a shim" else None

    async with running_gateway({"BeforeAgent": [runs(note)]}) as gateway:
        await tell(gateway.url, "BeforeAgent", prompt="from a shim")
        assert await last_parts_sent(gateway) == [{"text": "hi"}]
        await tell(gateway.url, "BeforeAgent", DELIVER, prompt="from a shim")
        assert await last_parts_sent(gateway, {**KEY, "x-hookgate-session": "s-2"}) == [{"text": "hi"}]
        assert await last_parts_sent(gateway, {"x-goog-api-key": "k", "x-hookgate-session": "s-1"}) == [
            {"text": "hi"}
        ]
        reported = {"text": "<hook_context>on &lt;main&gt;</hook_context>"}
        assert await last_parts_sent(gateway) == [{"text": "hi"}, reported]
        assert await last_parts_sent(gateway) == [{"text": "hi"}]


async def test_context_of_a_shim_is_not_used_up_by_an_agents_own_question() -> None:
    question = {**HI, "generationConfig": {"responseMimeType": "application/json"}}
    async with running_gateway({"BeforeAgent": [says(additionalContext="see")]}) as gateway:
        await tell(gateway.url, "BeforeAgent", DELIVER, prompt="from a shim")
        assert (await post(gateway.url, UNARY, question, IN_SESSION)).status == 200
        assert "see" not in str(gateway.generated[-1].body)
        assert await last_parts_sent(gateway) == [
            {"text": "hi"},
            {"text": "<hook_context>see</hook_context>"},
        ]


async def test_a_nameless_call_belongs_to_the_session_that_reported_its_prompt() -> None:
    seen: list[dict[str, Any]] = []
    async with running_gateway({"BeforeModel": [listens(seen)]}) as gateway:
        await tell(gateway.url, "BeforeAgent", prompt="hi")
        first = [{"role": "user", "parts": [{"text": "the surroundings"}, {"text": "hi "}]}]
        answered = [*first, {"role": "model", "parts": [{"text": "yes?"}]}]
        later = [*answered, {"role": "user", "parts": [{"text": "unannounced"}]}]
        for contents in (first, later):
            await post(gateway.url, UNARY, {"contents": contents}, KEY)
        await post(gateway.url, UNARY, {"contents": first}, {"x-goog-api-key": "another"})
        await post(gateway.url, UNARY, {"contents": first}, {**KEY, "x-hookgate-session": "s-9"})
    one, two, other, named = (event["session_id"] for event in seen)
    assert (one, two, named) == ("s-1", "s-1", "s-9")
    assert len(other) == 32


async def test_a_stop_lasts_for_the_session_until_a_new_turn() -> None:
    stop = runs(lambda event: {"continue": False, "stopReason": "enough"})
    hooks = {"AfterTool": [stop]}
    async with running_gateway(hooks) as gateway:
        fields = {"tool_name": "t", "tool_input": {}, "tool_response": {}}
        await post(gateway.url, f"/s/s-1{UNARY}", HI)
        await tell(gateway.url, "AfterTool", prefix="/s/s-1", **fields)
        for _ in range(2):
            answer = await post(gateway.url, f"/s/s-1{UNARY}", HI)
            assert answer.json["candidates"][0]["content"]["parts"] == [{"text": "enough"}]
        result = {"functionResponse": {"name": "t", "response": {"output": "done"}}}
        further = {"contents": [*HI["contents"], {"role": "user", "parts": [result]}]}
        answer = await post(gateway.url, f"/s/s-1{UNARY}", further)  # of the same turn
        assert answer.json["candidates"][0]["content"]["parts"] == [{"text": "enough"}]
        assert (await post(gateway.url, f"/s/s-2{UNARY}", HI)).status == 200
        assert len(gateway.generated) == 2
        await tell(gateway.url, "BeforeAgent", prompt="go on")
        assert await last_parts_sent(gateway) == [{"text": "hi"}]


async def test_a_stop_is_lifted_by_a_turn_that_no_shim_reports() -> None:
    stop = runs(lambda event: {"continue": False, "stopReason": "enough"})
    async with running_gateway({"AfterTool": [stop]}) as gateway:
        fields = {"tool_name": "t", "tool_input": {}, "tool_response": {}}
        for text in ("one", "two"):
            turn = {"contents": [{"role": "user", "parts": [{"text": text}]}]}
            assert "enough" not in str((await post(gateway.url, f"/s/s-1{UNARY}", turn)).json)
            await tell(gateway.url, "AfterTool", prefix="/s/s-1", **fields)
            assert "enough" in str((await post(gateway.url, f"/s/s-1{UNARY}", turn)).json)
        assert len(gateway.generated) == 2


@pytest.mark.parametrize(
    ("event", "fields"),
    [
        ("SessionStart", {"source": "startup"}),
        ("BeforeAgent", {"prompt": "hi"}),
        ("AfterAgent", {"prompt": "hi", "prompt_response": "hello"}),
        ("BeforeTool", {"tool_name": "t", "tool_input": {}}),
        ("AfterTool", {"tool_name": "t", "tool_input": {}, "tool_response": {}}),
    ],
)
async def test_after_any_shim_event_stops_a_session_its_turn_makes_no_more_calls(
    event: str, fields: dict[str, Any]
) -> None:
    outputs: list[dict[str, Any]] = []
    async with running_gateway({event: [runs(lambda _: dict(*outputs))]}) as gateway:
        await post(gateway.url, f"/s/s-1{UNARY}", HI)
        outputs.append({"continue": False, "stopReason": "enough"})
        await tell(gateway.url, event, prefix="/s/s-1", **fields)
        outputs.clear()
        answer = await post(gateway.url, f"/s/s-1{UNARY}", HI)
    assert answer.json["candidates"][0]["content"]["parts"] == [{"text": "enough"}]


@pytest.mark.parametrize(
    "output", [{"decision": "deny", "reason": "enough"}, {"continue": False, "stopReason": "enough"}]
)
@pytest.mark.parametrize("believed", [True, False])
@pytest.mark.parametrize("event", ["SessionStart", "BeforeAgent"])
async def test_calls_are_refused_if_agent_ignores_decision_about_session_or_turn(
    event: str, believed: bool, output: dict[str, Any]
) -> None:
    outputs = [output]
    config = Config.model_validate({"shims": {"believed": believed}})
    hooks = {event: [runs(lambda _: dict(*outputs))]}
    async with running_gateway(hooks, config=config) as gateway:
        await tell(gateway.url, "SessionStart", source="startup")
        await tell(gateway.url, "BeforeAgent", prompt="hi")
        if believed or event == "SessionStart":  # otherwise, the gateway derives the turn and judges it again
            outputs.clear()
        for _ in range(2):
            refused = await post(gateway.url, f"/s/s-1{UNARY}", HI)
            assert "enough" in str(refused.json)
        assert not gateway.generated
        outputs.clear()
        await tell(gateway.url, "SessionStart", source="clear")
        await tell(gateway.url, "BeforeAgent", prompt="hi")
        assert await last_parts_sent(gateway) == [{"text": "hi"}]


async def test_an_agents_own_question_does_not_lift_a_stop() -> None:
    stop = runs(lambda event: {"continue": False, "stopReason": "enough"})
    question = {"contents": [*HI["contents"]], "generationConfig": {"responseMimeType": "application/json"}}
    question["contents"].append({"role": "user", "parts": [{"text": "which model?"}]})
    async with running_gateway({"AfterTool": [stop]}) as gateway:
        await post(gateway.url, f"/s/s-1{UNARY}", HI)
        fields = {"tool_name": "t", "tool_input": {}, "tool_response": {}}
        await tell(gateway.url, "AfterTool", prefix="/s/s-1", **fields)
        assert (await post(gateway.url, f"/s/s-1{UNARY}", question)).status == 403
        assert (await post(gateway.url, f"/s/s-1{UNARY}", HI)).json["candidates"][0]["content"]["parts"] == [
            {"text": "enough"}
        ]


async def test_a_hundred_sessions_keep_what_is_theirs() -> None:
    hooks = {"SessionStart": [runs(lambda e: {"hookSpecificOutput": {"additionalContext": e["session_id"]}})]}
    names = [f"s-{number}" for number in range(100)]
    async with running_gateway(hooks) as gateway:
        for name in names:
            await tell(gateway.url, "SessionStart", DELIVER, session_id=name, source="startup")
        for name in reversed(names):
            parts = await last_parts_sent(gateway, {**KEY, "x-hookgate-session": name})
            assert parts[-1]["text"] == f"<hook_context>{name}</hook_context>"
