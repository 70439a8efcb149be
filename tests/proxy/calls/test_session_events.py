"""Derived events for agents without a shim: the same policy, as far as calls allow."""

import asyncio
import json
from typing import Any

import pytest
from support.conversation import function_call, function_result, model_turn, user_turn
from support.gateway.loopback import (
    gateway_before,
    listens,
    running_gateway,
    running_upstream,
    runs,
    says,
)
from support.wire import KEY, SSE, STREAM, STREAM_HEAD, UNARY, Answer, ok, peer, post, spoken, sse
from support.wire import ask as get

from hookgate.proxy.config import Config, ShimSettings, ToolCallSettings
from hookgate.proxy.sessions import memory
from hookgate.proxy.sessions.sessions import LocalSessions

SESSION = {**KEY, "x-hookgate-session": "s-1"}
EVERY_WAY = pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["whole", "sse", "array"])
Json = dict[str, Any]


def tool_turn(*results: Json, calls: tuple[Json, ...] = ()) -> list[Json]:
    return [user_turn("do it"), model_turn(*calls), {"role": "user", "parts": list(results)}]


TOOL_TURN = tool_turn(function_result("read_file", "a secret"), calls=(function_call("read_file", path="x"),))


async def ask(gateway: Any, said: Any, target: str = UNARY) -> Answer:
    """A call with a whole body, with these turns, or with a text of the user."""
    contents = said if isinstance(said, list) else [user_turn(said)]
    return await post(
        gateway.url, target, said if isinstance(said, dict) else {"contents": contents}, SESSION
    )


def bodies(answer: Answer) -> list[Json]:
    if answer.headers["content-type"].startswith("text/event-stream"):
        return answer.events
    return answer.json if isinstance(answer.json, list) else [answer.json]


def parts(answer: Answer) -> list[Json]:
    return [part for body in bodies(answer) for part in body["candidates"][0]["content"]["parts"]]


def answer_text(answer: Answer) -> str:
    return "".join(part.get("text", "") for part in parts(answer))


def answers(*each: Any) -> Json:
    """A script that gives these answers in turn, the last for ever."""
    rules = [{"times": 1, "answer": answer} for answer in each[:-1]]
    return {"rules": [*rules, {"answer": each[-1]}]}


# ---- what fires, and when


@pytest.mark.parametrize("role", ["user", "model"])  # Antigravity's results have the latter
async def test_a_conversation_fires_its_events_in_order_and_each_once(role: str) -> None:
    fired: list[Json] = []
    names = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent")
    hooks = {name: [listens(fired)] for name in names}
    read = {"chunks": [[function_call("read_file", path="x")]]}
    async with running_gateway(hooks, answers(read, {"text": "It says hello."})) as gateway:
        first = [user_turn("read x")]
        await ask(gateway, first)
        turn = [
            *first,
            model_turn(function_call("read_file", path="x")),
            {"role": role, "parts": [function_result("read_file", "hello")]},
        ]
        await ask(gateway, turn)
        await ask(gateway, [*turn, model_turn("It says hello."), user_turn("thanks")])
    reported = [event["hook_event_name"] for event in fired]
    assert reported == [*names, "BeforeAgent", "AfterAgent"]
    start, agent, before, after, ended, *_ = fired
    assert (start["source"], agent["prompt"], agent["conversation_history"]) == ("startup", "read x", [])
    assert fired[-2]["conversation_history"] == [
        {"role": "user", "content": "read x"},
        {"role": "model", "content": ""},
        {"role": role, "content": ""},
        {"role": "model", "content": "It says hello."},
    ]
    assert (before["tool_name"], before["tool_input"]) == ("read_file", {"path": "x"})
    assert after["tool_input"] == {"path": "x"}
    assert after["tool_response"] == {"llmContent": "hello", "returnDisplay": "hello"}
    assert (ended["prompt"], ended["prompt_response"]) == ("read x", "It says hello.")
    assert {event["session_id"] for event in fired} == {"s-1"}


async def test_a_call_that_is_made_again_is_no_new_turn() -> None:
    fired: list[Json] = []
    async with running_gateway({"BeforeAgent": [listens(fired)]}) as gateway:
        for _ in range(3):
            await ask(gateway, "hi")
    assert len(fired) == 1


PRO = UNARY.replace("flash", "pro")


@pytest.mark.parametrize(
    ("when", "exempt", "guarded"),
    [
        ({"models": "*pro*"}, UNARY, PRO),
        ({"operations": "streamGenerateContent"}, UNARY, STREAM),
    ],
)
async def test_a_turn_is_judged_again_by_hooks_that_a_condition_exempted(
    when: Json, exempt: str, guarded: str
) -> None:
    fired: list[Json] = []
    guard = {**says({"decision": "deny", "reason": "no"}), "when": when}
    body = {"contents": [user_turn("hi")]}
    async with running_gateway({"BeforeAgent": [guard, listens(fired)]}) as gateway:
        answers = [await post(gateway.url, path, body, SESSION) for path in (exempt, guarded, exempt)]
        assert len(gateway.generated) == 2
    assert [answer.status for answer in answers] == [200, 403, 200]


JSON_SETTINGS: list[Json] = [
    {"generationConfig": {"responseMimeType": "application/json"}},
    {"generation_config": {"response_mime_type": "text/x-json"}},
    {"generationConfig": {"responseSchema": {"type": "STRING"}, "responseMimeType": "text/x.enum"}},
    {"generationConfig": {"responseJsonSchema": {"type": "string"}}},
]


@pytest.mark.parametrize("settings", [{}, *JSON_SETTINGS])
@pytest.mark.parametrize("event", ["SessionStart", "BeforeAgent"])
@pytest.mark.parametrize("believed", [True, False])
async def test_a_turn_is_judged_whatever_format_it_asks_for(
    settings: Json, event: str, believed: bool
) -> None:
    hooks = {event: [says({"decision": "deny", "reason": "no"})]}
    async with running_gateway(hooks, config=Config(shims=ShimSettings(believed=believed))) as gateway:
        answer = await post(gateway.url, UNARY, {"contents": [user_turn("forbidden")], **settings}, SESSION)
        assert not gateway.generated
    assert (answer.status, answer.error["message"]) == (403, "no")


@pytest.mark.parametrize(
    "body",
    [
        {"systemInstruction": {"parts": [{"text": "forbidden"}]}},
        {"system_instruction": {"parts": {"text": "forbidden"}}, "contents": []},
        {"systemInstruction": {"parts": [{"text": "forbidden"}]}, "contents": [user_turn("")]},
        {"contents": [model_turn("forbidden")]},
    ],
)
async def test_content_outside_of_user_turns_is_judged_if_there_is_no_user_text(
    body: Json,
) -> None:
    fired: list[Json] = []
    async with running_gateway({"BeforeAgent": [listens(fired)]}) as gateway:
        for _ in range(2):
            await post(gateway.url, UNARY, body, SESSION)
    assert [event["prompt"] for event in fired] == ["forbidden"]


async def test_an_agents_own_question_about_a_turn_is_no_second_one() -> None:
    fired: list[Json] = []
    hooks = {"BeforeAgent": [listens(fired)], "AfterAgent": [listens(fired)]}
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, UNARY, {"contents": [user_turn("hi")], **JSON_SETTINGS[0]}, SESSION)
        await ask(gateway, "hi")
        await post(gateway.url, UNARY, {"contents": [user_turn("hi")], **JSON_SETTINGS[0]}, SESSION)
        await ask(gateway, "hi")
    assert [event["hook_event_name"] for event in fired].count("BeforeAgent") == 1


async def test_what_a_hook_adds_to_a_turn_waits_for_the_call_after_a_question_about_it() -> None:
    hooks = {"BeforeAgent": [says(additionalContext="context")]}
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, UNARY, {"contents": [user_turn("hi")], **JSON_SETTINGS[0]}, SESSION)
        await ask(gateway, "hi")
    assert ["context" in str(request.body) for request in gateway.generated] == [False, True]


async def tell(gateway: Any, event: str, **fields: Any) -> None:
    assert (await post(gateway.url, f"/s/s-1/hookgate/v1/events/{event}", fields, KEY)).status == 200


async def test_with_a_shim_nothing_fires_twice() -> None:
    fired: list[Json] = []
    hooks = {name: [listens(fired)] for name in ("SessionStart", "BeforeAgent", "BeforeTool", "AfterAgent")}
    async with running_gateway(hooks, answers({"chunks": [[function_call("t")]]})) as gateway:
        await tell(gateway, "SessionStart", source="startup")
        await tell(gateway, "BeforeAgent", prompt="hi")
        await ask(gateway, "hi")
    assert [event["hook_event_name"] for event in fired] == ["SessionStart", "BeforeAgent"]


async def test_a_launcher_that_tells_of_the_session_alone_leaves_the_rest_to_the_wire() -> None:
    fired: list[Json] = []
    hooks = {name: [listens(fired)] for name in ("SessionStart", "BeforeAgent", "BeforeTool")}
    async with running_gateway(hooks, answers({"chunks": [[function_call("t")]]})) as gateway:
        await tell(gateway, "SessionStart", source="startup")
        await ask(gateway, "hi")
    assert [event["hook_event_name"] for event in fired] == ["SessionStart", "BeforeAgent", "BeforeTool"]


async def test_a_shim_may_announce_what_it_reports() -> None:
    fired: list[Json] = []
    hooks = {name: [listens(fired)] for name in ("BeforeAgent", "BeforeTool")}
    async with running_gateway(hooks, answers({"chunks": [[function_call("t")]]})) as gateway:
        await post(
            gateway.url, UNARY, {"contents": [user_turn("hi")]}, {**SESSION, "x-hookgate-shim": "tools, x"}
        )
    assert [event["hook_event_name"] for event in fired] == ["BeforeAgent"]


# ---- past the shim


@pytest.mark.parametrize(
    "expected", [[], ["other"], ["read_file"]], ids=["of nothing", "of another", "of it"]
)
@pytest.mark.parametrize("bypass", ["flag", "deny"])
async def test_a_tool_that_ran_past_the_shim_is_flagged_or_denied(
    expected: list[str], bypass: Any, caplog: pytest.LogCaptureFixture
) -> None:
    config = Config(tools=ToolCallSettings(bypass=bypass))
    async with running_gateway({}, config=config) as gateway:
        await tell(gateway, "BeforeAgent", prompt="do it")
        for name in expected:
            await tell(gateway, "BeforeTool", tool_name=name, tool_input={})
        answer = await ask(gateway, TOOL_TURN)
        passed = len(gateway.recorded)
    past = "read_file" not in expected
    assert ("ran tools that its shim did not report: read_file" in caplog.text) is past
    assert passed == (0 if past and bypass == "deny" else 1)
    assert ("The tools 'read_file' ran without a BeforeTool event" in answer_text(answer)) is (
        past and bypass == "deny"
    )


@pytest.mark.parametrize("bypass", ["flag", "deny"])
async def test_a_tool_that_ran_past_the_shim_is_flagged_once_and_denied_in_every_call(bypass: Any) -> None:
    config = Config(tools=ToolCallSettings(bypass=bypass))
    receipts = []
    async with running_gateway({}, config=config) as gateway:
        await tell(gateway, "BeforeAgent", prompt="do it")
        for _ in range(2):
            answer = await ask(gateway, TOOL_TURN)
            place = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
            receipts.append((await get(gateway.url, "GET", place, headers=SESSION)).json)
    seen = [(receipt["outcome"], receipt["bypasses"]) for receipt in receipts]
    assert seen == ([("answered", 1), ("answered", 0)] if bypass == "flag" else [("denied", 1)] * 2)


async def test_a_result_beside_the_error_of_a_blocked_call_is_flagged() -> None:
    response = {"error": "Tool execution blocked: no", "output": "what the tool returned"}
    result = {"functionResponse": {"name": "t", "response": response}}
    config = Config(tools=ToolCallSettings(bypass="deny"))
    async with running_gateway({"BeforeTool": [says({"decision": "deny"})]}, config=config) as gateway:
        await tell(gateway, "BeforeAgent", prompt="do it")
        await tell(gateway, "BeforeTool", tool_name="t", tool_input={})
        answer = await ask(gateway, tool_turn(result, calls=(function_call("t"),)))
    assert "'t' ran without" in answer_text(answer)


async def test_a_tool_that_was_denied_and_so_did_not_run_is_not_flagged(
    caplog: pytest.LogCaptureFixture,
) -> None:
    blocked = {"functionResponse": {"name": "t", "response": {"error": "Tool execution blocked: no"}}}
    async with running_gateway({"BeforeTool": [says({"decision": "deny"})]}) as gateway:
        await tell(gateway, "BeforeAgent", prompt="do it")
        await tell(gateway, "BeforeTool", tool_name="t", tool_input={})
        await ask(gateway, tool_turn(blocked, calls=(function_call("t"),)))
    assert "without its shim" not in caplog.text


async def test_small_results_of_a_large_request_take_no_thread_each(steps_in_threads: list[Any]) -> None:
    fired: list[Any] = []
    results = [function_result(f"t{number}", "a" * 1_000) for number in range(300)]
    calls = tuple(function_call(f"t{number}") for number in range(300))
    async with running_gateway({"AfterTool": [listens(fired)]}) as gateway:
        answer = await ask(gateway, tool_turn(*results, calls=calls))
    assert answer.status == 200
    assert len(fired) == len(results)
    assert len(steps_in_threads) < 30


# ---- prompts


@EVERY_WAY
async def test_a_denied_prompt_is_refused_with_its_reason(target: str) -> None:
    async with running_gateway({"BeforeAgent": [says({"decision": "deny", "reason": "no"})]}) as gateway:
        for _ in range(2):  # also when it is tried again
            answer = await ask(gateway, "hi", target)
            assert (answer.status, answer.error["message"]) == (403, "no")
        assert not gateway.recorded


async def test_context_of_session_and_prompt_is_reported_now_and_in_later_calls() -> None:
    hooks = {
        "SessionStart": [says(additionalContext="in <a>")],
        "BeforeAgent": [says(additionalContext="on b")],
    }
    async with running_gateway(hooks) as gateway:
        await ask(gateway, "hi")
        await ask(gateway, [user_turn("hi"), model_turn("yes?"), user_turn("go on")])
    first, second = (request.body["contents"] for request in gateway.generated)
    hi = [{"text": "hi"}] + [
        {"text": f"<hook_context>{text}</hook_context>"} for text in ("in &lt;a&gt;", "on b")
    ]
    assert first[0]["parts"] == second[0]["parts"] == hi
    assert second[2]["parts"] == [{"text": "go on"}, hi[2]]


async def test_added_context_does_not_change_earlier_turns() -> None:
    turns = [user_turn("hi"), model_turn("yes?"), user_turn("go on")]
    async with running_gateway({"SessionStart": [says(additionalContext="c")]}) as gateway:
        await ask(gateway, turns)
    contents = gateway.generated[0].body["contents"]
    assert contents[:-1] == turns[:-1]
    assert contents[-1]["parts"] == [{"text": "go on"}, {"text": "<hook_context>c</hook_context>"}]


# ---- tools


def no_rm(event: Json) -> Any:
    """Deny a shell command that removes."""
    bad = "rm -rf" in event["tool_input"].get("command", "")
    return {"decision": "deny", "reason": "nothing is removed here"} if bad else None


NO_RM = {"BeforeTool": [runs(no_rm)]}


@pytest.mark.parametrize("models", ["gemini-*", "gemini-3.8-flash", "gemini-2.5-*"])
async def test_conditions_on_models_apply_to_all_events_of_a_call(models: str) -> None:
    """The model is the one that BeforeModel hooks have chosen, for the events after them."""
    fired: list[Json] = []
    names = ("SessionStart", "BeforeAgent", "AfterTool", "BeforeModel", "BeforeTool", "AfterModel")
    hooks = {name: [{**listens(fired), "when": {"models": models}}] for name in names}
    hooks["BeforeModel"].append(says(llm_request={"model": "gemini-3.8-flash"}))
    script = answers({"chunks": [[function_call("read_file", path="x")]]})
    async with running_gateway(hooks, script) as gateway:
        for contents in (TOOL_TURN[:1], TOOL_TURN):
            await ask(gateway, contents)
    before, after = names[:4], names[4:]
    expected = {"gemini-*": {*names}, "gemini-3.8-flash": {*after}, "gemini-2.5-*": {*before}}
    assert {event["hook_event_name"] for event in fired} == expected[models]


@EVERY_WAY
async def test_a_denied_call_is_answered_to_the_model_which_continues(target: str) -> None:
    bad = {
        "chunks": [[{"text": "I clean up."}], [function_call("run_shell_command", "c-1", command="rm -rf /")]]
    }
    script = {"rules": [{"when": {"tool_response": "run_shell_command"}, "answer": {"text": "Then not."}}]}
    script["rules"].append({"answer": bad})
    async with running_gateway(NO_RM, script) as gateway:
        answer = await ask(gateway, "clean up", target)
        _, again = gateway.generated
    assert all("functionCall" not in part for part in parts(answer))
    assert answer_text(answer).endswith("Then not.")
    assert bodies(answer)[-1]["candidates"][0]["finishReason"] == "STOP"
    assert again.body["contents"][-1]["parts"] == [
        {
            "functionResponse": {
                "id": "c-1",
                "name": "run_shell_command",
                "response": {"error": "Tool execution blocked: nothing is removed here"},
            }
        }
    ]


async def test_a_model_that_insists_is_asked_a_limited_number_of_times() -> None:
    bad = {"chunks": [[function_call("run_shell_command", command="rm -rf /")]]}
    config = Config(tools=ToolCallSettings(ask_again_at_most=1))
    async with running_gateway(NO_RM, answers(bad), config=config) as gateway:
        answer = await ask(gateway, "clean up", SSE)
        assert len(gateway.generated) == 2
    assert answer_text(answer) == "The tool 'run_shell_command' was not called: nothing is removed here"


@EVERY_WAY
async def test_rewritten_arguments_reach_the_agent(target: str) -> None:
    hooks = {"BeforeTool": [says(tool_input={"path": "y"})]}
    script = answers({"chunks": [[function_call("read_file", "c-1", path="x", limit=1)]]})
    async with running_gateway(hooks, script) as gateway:
        answer = await ask(gateway, "read", target)
    [found] = [part for part in parts(answer) if "functionCall" in part]
    assert found["functionCall"] == {"name": "read_file", "args": {"path": "y", "limit": 1}, "id": "c-1"}


async def test_a_hook_is_shown_what_the_request_says_of_the_tool() -> None:
    seen: list[Json] = []
    script = answers({"chunks": [[function_call("read_file"), function_call("glob")]]})
    declarations = [{"name": "read_file", "description": "Reads a file."}, {"name": "glob"}]
    body = {"contents": [user_turn("read")], "tools": [{"functionDeclarations": declarations}]}
    async with running_gateway({"BeforeTool": [listens(seen)]}, script) as gateway:
        await ask(gateway, body)
    assert [event.get("tool_description") for event in seen] == ["Reads a file.", None]


async def test_a_stop_before_a_tool_ends_the_answer_with_its_reason() -> None:
    hooks = {"BeforeTool": [says({"continue": False, "stopReason": "enough"})]}
    async with running_gateway(hooks, answers({"chunks": [[function_call("t")]]})) as gateway:
        answer = await ask(gateway, "go", SSE)
    assert answer_text(answer) == "enough"


@pytest.mark.parametrize(
    ("output", "shown"),
    [
        pytest.param(
            {"decision": "deny", "reason": "hidden"}, [function_result("read_file", "hidden")], id="hidden"
        ),
        pytest.param(
            {"hookSpecificOutput": {"tool_result": {"llmContent": "masked"}}},
            [function_result("read_file", "masked")],
            id="replaced",
        ),
        pytest.param(
            {"hookSpecificOutput": {"additionalContext": "note"}},
            [function_result("read_file", "a secret"), {"text": "<hook_context>note</hook_context>"}],
            id="extended",
        ),
        pytest.param({}, [function_result("read_file", "a secret")], id="as it was"),
    ],
)
async def test_a_tools_result_is_shown_as_hooks_leave_it_now_and_later(output: Json, shown: Any) -> None:
    fired: list[Json] = []
    hooks = {"AfterTool": [runs(lambda event: fired.append(event) or output)]}
    async with running_gateway(hooks) as gateway:
        await ask(gateway, TOOL_TURN)
        await ask(gateway, [*TOOL_TURN, model_turn("so"), user_turn("and?")])
    for request in gateway.generated:
        assert request.body["contents"][2]["parts"] == shown
    assert len(fired) == 1


async def test_a_hooks_result_also_replaces_the_error_beside_the_tools() -> None:
    response = {"output": "half of it", "error": "a secret"}
    failed = {"functionResponse": {"name": "read_file", "response": response}}
    hooks = {"AfterTool": [says({"hookSpecificOutput": {"tool_result": {"llmContent": "masked"}}})]}
    async with running_gateway(hooks) as gateway:
        await ask(gateway, [*TOOL_TURN[:2], result_turn(failed)])
    [request] = gateway.generated
    [part] = request.body["contents"][2]["parts"]
    assert part["functionResponse"]["response"] == {"output": "masked"}


async def test_parallel_calls_are_matched_by_id_and_by_order() -> None:
    fired: list[Json] = []
    calls = (
        function_call("a", "1", n=1),
        function_call("a", "2", n=2),
        function_call("b", n=3),
        function_call("b", n=4),
    )
    results = (
        function_result("a", "two", "2"),
        function_result("b", "three"),
        function_result("a", "one", "1"),
        function_result("b", "four"),
    )
    async with running_gateway({"AfterTool": [listens(fired)]}) as gateway:
        await ask(gateway, tool_turn(*results, calls=calls))
    seen = [(event["tool_input"]["n"], event["tool_response"]["llmContent"]) for event in fired]
    assert seen == [(2, "two"), (3, "three"), (1, "one"), (4, "four")]


# ---- the end of a turn


@EVERY_WAY
async def test_a_refused_final_answer_is_asked_for_again_with_the_reason(target: str) -> None:
    def curt(event: Json) -> Any:
        long = len(event["prompt_response"]) > 20
        return {"decision": "deny", "reason": "Be brief."} if long else None

    script = answers({"chunks": ["a very long ", "answer indeed"]}, {"text": "Short."})
    async with running_gateway({"AfterAgent": [runs(curt)]}, script) as gateway:
        answer = await ask(gateway, "tell me", target)
        _, again = gateway.generated
    assert again.body["contents"][-2:] == [
        model_turn("a very long answer indeed"),
        user_turn("Be brief."),
    ]
    assert answer_text(answer).endswith("Short.")
    reasons = [body["candidates"][0].get("finishReason") for body in bodies(answer)]
    assert [reason for reason in reasons if reason] == ["STOP"]
    assert reasons[-1] == "STOP"


async def test_a_hook_that_is_never_content_is_asked_so_often() -> None:
    fired: list[Json] = []
    never = runs(lambda event: fired.append(event) or {"decision": "deny", "reason": "again"})
    async with running_gateway({"AfterAgent": [never]}, answers({"text": "no"})) as gateway:
        answer = await ask(gateway, "tell me")
        assert len(gateway.generated) == 3
    assert answer_text(answer) == "no"
    assert [event["stop_hook_active"] for event in fired] == [False, True, True]


async def test_a_hook_that_refused_an_answer_sees_this_after_a_refused_call_as_well() -> None:
    fired: list[bool] = []

    def judge(event: Json) -> Json | None:
        fired.append(event["stop_hook_active"])
        return None if event["prompt_response"] == "done" else {"decision": "deny", "reason": "again"}

    denied = runs(lambda _: {"decision": "deny", "reason": "no shell"})
    shell = {"parts": [{"functionCall": {"name": "shell", "args": {}}}]}
    script = answers({"text": "no"}, shell, {"text": "done"})
    async with running_gateway({"AfterAgent": [runs(judge)], "BeforeTool": [denied]}, script) as gateway:
        assert answer_text(await ask(gateway, "tell me")) == "done"
        assert len(gateway.generated) == 3
    assert fired == [False, True]


# ---- what a conversation may look like


async def test_a_stop_after_a_tool_ends_the_turn_with_its_reason() -> None:
    hooks = {"AfterTool": [runs(lambda _: {"continue": False, "stopReason": "enough"})]}
    turns = [
        user_turn("go"),
        model_turn(function_call("read")),
        {"role": "user", "parts": [function_result("read", "text")]},
    ]
    async with running_gateway(hooks) as gateway:
        answer = await ask(gateway, turns)
    assert (answer_text(answer), gateway.generated) == ("enough", [])


def result_turn(*parts: Json) -> Json:
    return {"role": "user", "parts": list(parts)}


SECRET = function_result("read_file", "a secret")
READ = function_call("read_file", path="x")
HIDING: dict[str, Any] = {"AfterTool": [says({"decision": "deny", "reason": "hidden"})]}

LOOKS = {
    "the turn itself": [[user_turn("do it"), model_turn(READ), result_turn(SECRET)]],
    "compressed later": [
        [user_turn("do it"), model_turn(READ), result_turn(SECRET)],
        [
            user_turn("in short"),
            model_turn(READ),
            result_turn(SECRET),
            model_turn("so"),
            user_turn("and?"),
        ],
    ],
    "words behind it": [[user_turn("do it"), model_turn(READ), result_turn(SECRET), user_turn("well?")]],
    "words in the model's mouth": [
        [user_turn("do it"), model_turn(READ), result_turn(SECRET), model_turn("It")]
    ],
    "resumed": [
        [
            user_turn("do it"),
            model_turn(READ),
            result_turn(SECRET),
            model_turn("so"),
            user_turn("and?"),
        ]
    ],
    "other fields": [
        [
            user_turn("do it"),
            model_turn(READ),
            result_turn(
                {"functionResponse": {"name": "read_file", "response": {"result": "", "rows": "a secret"}}}
            ),
        ]
    ],
    "parts of its own": [
        [
            user_turn("do it"),
            model_turn(READ),
            result_turn(
                {"functionResponse": {"name": "read_file", "response": {}, "parts": [{"text": "a secret"}]}}
            ),
        ]
    ],
}


@pytest.mark.parametrize("calls", [pytest.param(each, id=name) for name, each in LOOKS.items()])
async def test_a_hidden_result_stays_hidden_however_it_is_sent(calls: list[Any]) -> None:
    hooks = HIDING | {"SessionStart": [says(additionalContext="context")]}
    async with running_gateway(hooks) as gateway:
        for contents in calls:
            await ask(gateway, contents)
    assert len(gateway.generated) == len(calls)
    assert all("a secret" not in str(request.body) for request in gateway.generated)


async def test_hooks_of_new_settings_judge_results_that_others_have_judged() -> None:
    def redacting(word: str) -> Json:
        redact = {"type": "builtin", "builtin": "redact", "options": {"words": {"WORD": [word]}}}
        return {"AfterTool": [redact]}

    contents, sessions = tool_turn(function_result("read_file", "blue, red")), LocalSessions()
    async with running_upstream() as (upstream, recorded):
        for word in ("blue", "red"):
            async with gateway_before(upstream, redacting(word), sessions=sessions) as url:
                await post(url, UNARY, {"contents": contents}, SESSION)
        results = [json.dumps(call.body["contents"][2]) for call in recorded]
    assert ["blue" in each for each in results] == [False, True]
    assert ["red" in each for each in results] == [True, False]


@pytest.mark.parametrize("when", [{"clients": "cli"}, {"operations": "generateContent"}])
async def test_results_that_a_condition_exempted_are_judged_where_it_holds(when: Json) -> None:
    hook = {**says({"decision": "deny", "reason": "not for you"}), "when": when}
    async with running_gateway({"AfterTool": [hook]}) as gateway:
        for target, client in ((SSE, "other/1"), (UNARY, "cli/1"), (SSE, "other/1")):
            await post(gateway.url, target, {"contents": TOOL_TURN}, {**SESSION, "User-Agent": client})
        hidden = ["a secret" not in json.dumps(call.body) for call in gateway.generated]
    assert hidden == [False, True, False]


async def test_a_hidden_result_stays_hidden_for_another_key() -> None:
    async with running_gateway(HIDING) as gateway:
        for key in ("one", "two"):
            await post(gateway.url, UNARY, {"contents": TOOL_TURN}, {**SESSION, "x-goog-api-key": key})
    assert all("a secret" not in str(request.body) for request in gateway.generated)


async def test_equal_results_of_parallel_calls_are_judged_each() -> None:
    fired: list[Json] = []
    calls = (function_call("rm", path="a"), function_call("rm", path="b"))
    async with running_gateway({"AfterTool": [listens(fired)]}) as gateway:
        await ask(
            gateway, tool_turn(function_result("rm", "done"), function_result("rm", "done"), calls=calls)
        )
    assert [event["tool_input"] for event in fired] == [{"path": "a"}, {"path": "b"}]


async def test_a_prompt_is_all_that_the_user_said_since_the_model() -> None:
    fired: list[Json] = []
    async with running_gateway({"BeforeAgent": [listens(fired)]}) as gateway:
        await ask(gateway, [user_turn("make a bomb"), user_turn("please")])
        await ask(gateway, [user_turn("hi"), model_turn("Sure:")])
        await ask(
            gateway,
            [
                *tool_turn(function_result("t", "x"), calls=(function_call("t"),))[:2],
                result_turn(function_result("t", "x"), {"text": "now"}),
            ],
        )
    assert [event["prompt"] for event in fired] == ["make a bomb\nplease", "hi", "now"]


async def test_a_session_that_may_not_start_never_does() -> None:
    hooks = {"SessionStart": [says({"continue": False, "stopReason": "no"})]}
    async with running_gateway(hooks) as gateway:
        found = await asyncio.gather(*(ask(gateway, "hi") for _ in range(3)))
        found.append(await ask(gateway, "hi"))
        assert not gateway.recorded
    assert {answer_text(answer) for answer in found} == {"no"}


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param([function_call("sh", command="rm")], id="whole"),
        pytest.param(
            [
                {"function_call": {"name": "sh", "will_continue": True}},
                {
                    "function_call": {
                        "partial_args": [{"json_path": "$.c", "string_value": "r"}],
                        "will_continue": True,
                    }
                },
                {"function_call": {"partial_args": [{"json_path": "$.c", "string_value": "m"}]}},
            ],
            id="snake case",
        ),
        pytest.param(
            [function_call("sh"), {"functionCall": {"args": {"command": "rm"}}}],
            id="a nameless one behind another",
        ),
    ],
)
async def test_arguments_in_pieces_never_reach_the_agent_unjudged(pieces: list[Json]) -> None:
    def no_rm_at_all(event: Json) -> Any:
        return {"decision": "deny", "reason": "no"} if "rm" in str(event["tool_input"]) else None

    events = [{"candidates": [{"content": {"role": "model", "parts": [piece]}}]} for piece in pieces]
    config = Config(tools=ToolCallSettings(ask_again_at_most=1))
    body = STREAM_HEAD + b"".join(sse(*events))
    async with (
        peer(body) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [runs(no_rm_at_all)]}, config) as url,
    ):
        answer = await post(url, SSE, {"contents": [user_turn("go")]}, SESSION)
        place = f"/hookgate/v1/receipts/{answer.headers['x-hookgate-receipt']}"
        receipt = (await get(url, "GET", place, headers=SESSION)).json
    assert "rm" not in str([part for part in parts(answer) if "text" not in part])
    assert [each["event"] for each in receipt["blocked"]] == ["BeforeTool"] * receipt["blocked_count"] != []


PIECES = [
    {"functionCall": {"name": "sh", "id": "7", "willContinue": True}, "thoughtSignature": "c2ln"},
    {"functionCall": {"partialArgs": [{"jsonPath": "$.run[0]", "stringValue": "ec"}], "willContinue": True}},
    {"functionCall": {"partialArgs": [{"jsonPath": "$.run[0]", "stringValue": "ho"}], "willContinue": True}},
    {"functionCall": {}},
]


@pytest.mark.parametrize(
    ("hook", "call"),
    [
        (says(), {"name": "sh", "id": "7", "args": {"run": ["echo"]}}),
        (
            says({"hookSpecificOutput": {"tool_input": {"run": ["ls"]}}}),
            {"name": "sh", "id": "7", "args": {"run": ["ls"]}},
        ),
        (says({"decision": "deny", "reason": "no"}), None),
    ],
    ids=["allow", "edit", "deny"],
)
async def test_a_call_in_pieces_is_judged_once_and_sent_whole(hook: Any, call: Json | None) -> None:
    seen: list[Json] = []
    events = [{"candidates": [{"content": {"role": "model", "parts": [piece]}}]} for piece in PIECES]
    events[-1]["candidates"][0]["finishReason"] = "STOP"
    config = Config(tools=ToolCallSettings(ask_again_at_most=1))
    async with (
        peer(STREAM_HEAD + b"".join(sse(spoken("Now. "), *events))) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [listens(seen), hook]}, config) as url,
    ):
        answer = await post(url, SSE, {"contents": [user_turn("go")]}, SESSION)
    calls_upstream = 1 if call else 2  # a denial is told to the model
    assert len(upstream.heard) == calls_upstream
    assert [event["tool_input"] for event in seen] == [{"run": ["echo"]}] * calls_upstream
    assert b"willContinue" not in upstream.heard[-1]
    calls = [part for part in parts(answer) if "functionCall" in part]
    expected = {"functionCall": call, "thoughtSignature": "c2ln"}
    assert calls == ([] if call is None else [expected])
    assert "Now. " in str(parts(answer))


async def test_a_call_that_is_cut_off_does_not_reach_the_agent() -> None:
    events = [{"candidates": [{"content": {"role": "model", "parts": [piece]}}]} for piece in PIECES[:-1]]
    async with (
        peer(STREAM_HEAD + b"".join(sse(*events))) as upstream,
        gateway_before(upstream.url, {"BeforeTool": [says()]}) as url,
    ):
        answer = await post(url, SSE, {"contents": [user_turn("go")]}, SESSION)
    assert answer.status == 502
    assert len(upstream.heard) == 1


async def test_a_call_in_pieces_of_a_tool_that_no_hook_selects_arrives_whole() -> None:
    pieces = [{"partialArgs": [{"jsonPath": "$.file", "stringValue": text}]} for text in ("a", ".txt")]
    begun, rest = {"name": "read", **pieces[0], "willContinue": True}, pieces[1]
    hooks = {"BeforeTool": [{**listens([]), "when": {"tools": "sh"}}]}
    answer = await answered_in_pieces(hooks, begun, rest)
    calls = [part["functionCall"] for part in parts(answer) if "functionCall" in part]
    assert calls == [{"name": "read", "args": {"file": "a.txt"}}]


async def test_a_call_in_pieces_that_cannot_be_put_together_is_refused() -> None:
    call = {"name": "sh", "partialArgs": [{"stringValue": "rm"}]}
    answer = await answered_in_pieces({"BeforeTool": [listens([])]}, call)
    assert (answer.status, b'"rm"' in answer.body) == (502, False)


async def answered_in_pieces(hooks: Json, *pieces: Json) -> Answer:
    """What the client gets of a stream whose events have a function call each."""
    events = [{"candidates": [{"content": {"parts": [{"functionCall": piece}]}}]} for piece in pieces]
    body = STREAM_HEAD + b"".join(sse(*events))
    async with peer(body) as upstream, gateway_before(upstream.url, hooks) as url:
        return await post(url, SSE, {"contents": [user_turn("go")]}, SESSION)


@pytest.mark.parametrize("believed", [True, False])
async def test_a_claim_to_be_a_shim_is_believed_where_that_is_wanted(believed: bool) -> None:
    fired: list[Json] = []
    config = Config(shims=ShimSettings(believed=believed))
    headers = {**SESSION, "x-hookgate-shim": "tools, turns"}
    async with running_gateway({"BeforeAgent": [listens(fired)]}, config=config) as gateway:
        await post(gateway.url, UNARY, {"contents": [user_turn("hi")]}, headers)
    assert len(fired) == (0 if believed else 1)


CLAIM = {**SESSION, "x-hookgate-shim": "session, turns, tools"}
"""What a client sends that claims to be a shim."""
DENY = says({"decision": "deny", "reason": "no"})


@pytest.mark.parametrize("event", ["SessionStart", "BeforeAgent"])
async def test_a_client_that_claims_a_shim_does_not_bypass_the_turn_hooks_of_a_policy_file(
    event: str,
) -> None:
    async with running_gateway({event: [DENY]}, layer="policy") as gateway:
        answer = await post(gateway.url, UNARY, {"contents": [user_turn("hi")]}, CLAIM)
        assert not gateway.generated
    assert (answer.status, answer.error["message"]) == (403, "no")


@EVERY_WAY
async def test_a_client_that_claims_a_shim_does_not_bypass_the_tool_hooks_of_a_policy_file(
    target: str,
) -> None:
    script = answers({"chunks": [[function_call("rm", path="/")]]})
    config = Config(tools=ToolCallSettings(ask_again_at_most=1))
    async with running_gateway({"BeforeTool": [DENY]}, script, config, layer="policy") as gateway:
        answer = await post(gateway.url, target, {"contents": [user_turn("go")]}, CLAIM)
    assert "functionCall" not in str(bodies(answer))


async def test_one_reported_event_does_not_switch_off_the_tools_of_a_policy_file() -> None:
    script = answers({"chunks": [[function_call("rm", path="/")]]})
    config = Config(tools=ToolCallSettings(ask_again_at_most=1))
    guard = runs(lambda event: {"decision": "deny"} if event["tool_name"] == "rm" else None)
    async with running_gateway({"BeforeTool": [guard]}, script, config, layer="policy") as gateway:
        fields = {"tool_name": "harmless", "tool_input": {}}
        await post(gateway.url, "/s/s-1/hookgate/v1/events/BeforeTool", fields, KEY)
        answer = await ask(gateway, "go")
    assert "functionCall" not in str(bodies(answer))


async def test_a_client_that_claims_a_shim_does_not_hide_results_from_a_policy_file() -> None:
    async with running_gateway({"AfterTool": [DENY]}, layer="policy") as gateway:
        for _ in range(2):
            await post(gateway.url, UNARY, {"contents": TOOL_TURN}, CLAIM)
    assert len(gateway.generated) == 2
    assert not [request for request in gateway.generated if "a secret" in str(request.body)]


async def test_a_client_that_claims_a_shim_does_not_bypass_the_final_answer_hooks_of_a_policy_file() -> None:
    guard = runs(lambda event: {"decision": "deny"} if "secret" in event["prompt_response"] else None)
    script = answers({"text": "a secret"}, {"text": "nothing"})
    async with running_gateway({"AfterAgent": [guard]}, script, layer="policy") as gateway:
        answer = await post(gateway.url, UNARY, {"contents": [user_turn("go")]}, CLAIM)
    assert answer_text(answer) == "nothing"


@pytest.mark.parametrize("event", ["SessionStart", "BeforeAgent", "AfterTool"])
async def test_context_that_a_shim_adds_is_not_added_to_the_call_as_well(event: str) -> None:
    hooks = {event: [says(additionalContext="from the policy")]}
    async with running_gateway(hooks, layer="policy") as gateway:
        await post(gateway.url, UNARY, {"contents": TOOL_TURN}, CLAIM)
    assert "from the policy" not in str(gateway.generated[0].body)


async def test_more_hidden_results_than_are_remembered_stay_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(memory, "KEPT_RESULTS", 5)
    results = [function_result("read_file", f"secret {number}", f"c{number}") for number in range(20)]
    calls = tuple(function_call("read_file", f"c{number}") for number in range(20))
    async with running_gateway({"AfterTool": [DENY]}) as gateway:
        await ask(gateway, tool_turn(*results, calls=calls))
    assert "secret" not in str(gateway.generated[0].body)


async def test_context_waits_for_the_user_s_own_call() -> None:
    hooks = {"SessionStart": [says(additionalContext="context")]}
    question = {
        "contents": [user_turn("which?")],
        "generationConfig": {"responseMimeType": "application/json"},
    }
    async with running_gateway(hooks) as gateway:
        await post(gateway.url, UNARY, question, SESSION)
        await ask(gateway, "hi")
    assert ["context" in str(request.body) for request in gateway.generated] == [False, True]


async def test_a_refused_answer_without_a_reason_to_end_leaves_an_array_whole() -> None:
    refuse = [{"decision": "deny", "reason": "again"}]
    hooks = {"AfterAgent": [runs(lambda _: refuse.pop() if refuse else None)]}
    element = b'{"candidates":[{"content":{"role":"model","parts":[{"text":"a"}]}}]}'
    async with peer(ok(b"[" + element + b"\n]")) as upstream, gateway_before(upstream.url, hooks) as url:
        answer = await post(url, STREAM, {"contents": [user_turn("go")]}, SESSION)
    assert answer_text(answer) == "aa"


async def test_a_hundred_concurrent_sessions_have_separate_context_stops_and_history() -> None:
    histories: dict[str, Any] = {}

    def note(event: Json) -> Any:
        histories[event["session_id"]] = event["conversation_history"]
        return {"hookSpecificOutput": {"additionalContext": f"for {event['session_id']}"}}

    def stop_the_odd(event: Json) -> Any:
        odd = int(event["session_id"].removeprefix("s-")) % 2
        return {"continue": False, "stopReason": f"no {event['session_id']}"} if odd else None

    hooks = {"BeforeAgent": [runs(note)], "Notification": [], "AfterTool": [runs(stop_the_odd)]}
    config = Config(shims=ShimSettings(believed=False))

    async def converse(gateway: Any, number: int) -> Answer:
        name = f"s-{number}"
        said = [user_turn(f"mine {number}"), model_turn(f"yours {number}"), user_turn("go on")]
        headers = {**KEY, "x-hookgate-session": name}
        await post(gateway.url, UNARY, {"contents": said[:1]}, headers)
        await post(gateway.url, UNARY, {"contents": said}, headers)
        fields = {"tool_name": "t", "tool_input": {}, "tool_response": {}}
        await post(gateway.url, f"/s/{name}/hookgate/v1/events/AfterTool", fields, KEY)
        return await post(gateway.url, UNARY, {"contents": said}, headers)

    async with running_gateway(hooks, config=config) as gateway:
        found = await asyncio.gather(*(converse(gateway, number) for number in range(100)))
        sent = [str(request.body["contents"]) for request in gateway.generated]
    for number, answer in enumerate(found):
        assert (f"no s-{number}" == answer_text(answer)) is bool(number % 2)
        assert histories[f"s-{number}"][0] == {"role": "user", "content": f"mine {number}"}
        mine = [text for text in sent if f"'mine {number}'" in text]
        assert len(mine) == (2 if number % 2 else 3)
        assert all(f"for s-{number}<" in text and text.count("for s-") <= 2 for text in mine)
