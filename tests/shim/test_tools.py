"""Tools between BeforeTool and AfterTool: edited, denied, replaced, hidden, extended."""

import asyncio
import dataclasses
import inspect
from typing import Any

import pytest
from pydantic import BaseModel
from support.clients.shims import Opened
from support.gateway.loopback import listens, runs, says

from hookgate.shim import Question, Stopped, ToolDenied, ToolFailed

NO = {"decision": "deny", "reason": "No removals."}


async def test_arguments_are_rewritten_one_by_one(opened: Opened) -> None:
    class City(BaseModel):
        name: str

    far = object()
    async with (
        opened({"BeforeTool": [says(tool_input={"city": {"name": "Bergen"}, "days": 3})]}) as shim,
        shim.session() as session,
    ):
        args = {"city": City(name="Oslo"), "days": 3, "far": far}
        async with session.tool("weather", args) as call:
            assert call.args == {"city": City(name="Bergen"), "days": 3, "far": far}
            assert call.args["far"] is far


async def test_a_denied_tool_does_not_run(opened: Opened) -> None:
    async with opened({"BeforeTool": [says(NO)]}) as shim, shim.session() as session:
        with pytest.raises(ToolDenied, match=r"^Tool execution blocked: No removals\.$") as denied:
            async with session.tool("shell", {"command": "rm -rf /"}):
                pytest.fail("it ran")
    assert denied.value.reason == "No removals."


@dataclasses.dataclass
class Weather:
    sky: str


@pytest.mark.parametrize(
    ("output", "value", "seen"),
    [
        ({}, "storm", "storm"),
        ({}, {"sky": ["storm"]}, {"sky": ["storm"]}),
        ({"decision": "deny", "reason": "Hidden."}, {"sky": "storm"}, "Hidden."),
        ({"hookSpecificOutput": {"tool_result": {"llmContent": "calm"}}}, "storm", "calm"),
        ({"hookSpecificOutput": {"tool_result": {"llmContent": '{"sky":1}'}}}, {"sky": 2}, {"sky": 1}),
        ({"hookSpecificOutput": {"tool_result": {"llmContent": "calm"}}}, {"sky": 2}, "calm"),
        ({"hookSpecificOutput": {"additionalContext": "Be brief."}}, "storm", "storm\n\nBe brief."),
        ({"hookSpecificOutput": {"additionalContext": "Be brief."}}, "", "Be brief."),
        (
            {"hookSpecificOutput": {"additionalContext": "Be brief."}},
            {"sky": 2},
            {"sky": 2, "additionalContext": "Be brief."},
        ),
        ({"hookSpecificOutput": {"additionalContext": "Be brief."}}, [1], "[1]\n\nBe brief."),
    ],
)
async def test_what_the_model_sees_of_a_result(
    opened: Opened, output: dict[str, Any], value: Any, seen: Any
) -> None:
    async with (
        opened({"AfterTool": [says(output)]}) as shim,
        shim.session() as session,
        session.tool("weather", {}) as call,
    ):
        assert await call.result(value) == seen


async def test_an_untouched_result_is_the_very_object(opened: Opened) -> None:
    seen: list[dict[str, Any]] = []
    weather = Weather("storm")
    async with (
        opened({"AfterTool": [listens(seen)]}) as shim,
        shim.session() as session,
        session.tool("weather", {}) as call,
    ):
        assert await call.result(weather) is weather
    assert seen[0]["tool_response"]["llmContent"] == '{"sky": "storm"}'


async def test_a_tail_call_is_reported(opened: Opened) -> None:
    tail = {"name": "format", "args": {"width": 80}}
    async with (
        opened({"AfterTool": [says(tailToolCallRequest=tail)]}) as shim,
        shim.session() as session,
        session.tool("weather", {}) as call,
    ):
        await call.result("storm")
        assert call.tail_tool_call == tail


async def test_a_stop_after_a_tool_ends_the_turn(opened: Opened) -> None:
    async with (
        opened({"AfterTool": [says({"continue": False, "stopReason": "Enough."})]}) as shim,
        shim.session() as session,
    ):
        with pytest.raises(Stopped, match="Enough"):
            async with session.tool("weather", {}) as call:
                await call.result("storm")
        assert session.stopped == "Enough."


# ---- asking the user


async def test_a_tool_that_the_user_should_be_asked_about_is_denied_without_one(opened: Opened) -> None:
    async with (
        opened({"BeforeTool": [says({"decision": "ask", "reason": "Costly."})]}) as shim,
        shim.session() as session,
    ):
        with pytest.raises(ToolDenied, match=r"Costly\..*cannot ask the user"):
            async with session.tool("launch", {}):
                pass


@pytest.mark.parametrize("agrees", [True, False])
@pytest.mark.parametrize("awaited", [True, False])
async def test_the_user_decides_when_asked(opened: Opened, agrees: bool, awaited: bool) -> None:
    asked: list[Question] = []

    def ask(question: Question) -> bool:
        asked.append(question)
        return agrees

    async def ask_slowly(question: Question) -> bool:
        return ask(question)

    hooks = {"BeforeTool": [says({"decision": "ask", "reason": "Costly."}, tool_input={"speed": 1})]}
    ran = 0
    async with opened(hooks, ask=ask_slowly if awaited else ask) as shim, shim.session("s-1") as session:

        @session.guard
        async def launch(speed: int) -> int:
            nonlocal ran
            ran += speed
            return ran

        @session.guard(name="launch")
        def waits(speed: int) -> int:
            return speed

        calls = [launch(9), asyncio.to_thread(waits, 9)]
        reported = await asyncio.gather(*calls, return_exceptions=True)
    assert asked == [Question("s-1", "launch", {"speed": 1}, "Costly.")] * 2
    assert ran == agrees
    assert reported == [1, 1] if agrees else all(isinstance(each, ToolDenied) for each in reported)


# ---- failures


async def test_hooks_hear_of_a_failure(opened: Opened) -> None:
    seen: list[dict[str, Any]] = []
    async with opened({"AfterTool": [listens(seen)]}) as shim, shim.session() as session:
        with pytest.raises(ZeroDivisionError, match="by nought"):
            async with session.tool("divide", {}):
                raise ZeroDivisionError("by nought")
    response = {"llmContent": "by nought", "returnDisplay": "", "error": {"message": "by nought"}}
    assert seen[0]["tool_response"] == response


@pytest.mark.parametrize(
    ("output", "expected"),
    [
        ({"decision": "deny", "reason": "Hidden."}, "Hidden."),
        ({"hookSpecificOutput": {"tool_result": {"llmContent": "by [x]"}}}, r"by \[x\]"),
        ({"hookSpecificOutput": {"additionalContext": "Try 1."}}, "by nought\n\nTry 1."),
    ],
)
async def test_hooks_change_what_is_reported_of_a_failure(
    opened: Opened, output: dict[str, Any], expected: str
) -> None:
    async with opened({"AfterTool": [says(output)]}) as shim, shim.session() as session:
        with pytest.raises(ToolFailed, match=f"^{expected}$") as failed:
            async with session.tool("divide", {}):
                raise ZeroDivisionError("by nought")
    assert isinstance(failed.value.__cause__, ZeroDivisionError)


async def test_tools_are_denied_failed_and_stopped_synchronously(opened: Opened) -> None:
    def before(call: dict[str, Any]) -> dict[str, Any] | None:
        return NO if call["tool_name"] == "shell" else None

    def after(call: dict[str, Any]) -> dict[str, Any]:
        if call["tool_name"] == "stop":
            return {"continue": False, "stopReason": "Enough."}
        return {"hookSpecificOutput": {"additionalContext": "Try 1."}}

    def agent() -> None:
        with shim.sync_session() as session:
            with pytest.raises(ToolDenied, match="No removals"), session.tool("shell", {}):
                pytest.fail("it ran")
            with pytest.raises(ToolFailed, match=r"by nought\n\nTry 1\."), session.tool("divide", {}):
                raise ZeroDivisionError("by nought")
            with pytest.raises(Stopped, match="Enough"), session.tool("stop", {}) as call:
                call.result("done")
            assert session.stopped == "Enough."

    async with opened({"BeforeTool": [runs(before)], "AfterTool": [runs(after)]}) as shim:
        await asyncio.to_thread(agent)


# ---- decorated functions


async def test_guarded_functions_of_every_kind(opened: Opened) -> None:
    seen: list[dict[str, Any]] = []

    def louder(call: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"tool_input": {"text": call["tool_input"]["text"].upper()}}}

    hooks = {"BeforeTool": [runs(louder)], "AfterTool": [listens(seen)]}
    async with opened(hooks) as shim, shim.session() as session:

        @session.guard
        def plain(text: str, *rest: int, end: str = ".", **more: int) -> str:
            """Say it."""
            return f"{text}{rest}{end}{more}"

        @session.guard(name="say")
        async def awaited(text: str) -> str:
            return text

        class Speaker:
            name = "Jo"

            @session.guard
            def speak(self, text: str) -> str:
                return f"{self.name}: {text}"

        assert (plain.__name__, plain.__doc__) == ("plain", "Say it.")
        assert list(inspect.signature(plain).parameters) == ["text", "rest", "end", "more"]
        assert inspect.iscoroutinefunction(awaited)
        assert await asyncio.to_thread(plain, "a", 1, 2, end="!", more=3) == "A(1, 2)!{'more': 3}"
        assert await awaited(text="b") == "B"
        assert await asyncio.to_thread(Speaker().speak, "c") == "Jo: C"
        assert await asyncio.to_thread(session.guard(Speaker().speak, name="nested"), "d") == "Jo: D"
    assert [each["tool_name"] for each in seen] == ["plain", "say", "speak", "speak", "nested"]
    assert seen[0]["tool_input"] == {"text": "A", "rest": [1, 2], "end": "!", "more": 3}
    assert seen[2]["tool_input"] == {"text": "C"}


async def test_an_argument_that_a_function_does_not_take_is_reported(opened: Opened) -> None:
    async with (
        opened({"BeforeTool": [says(tool_input={"color": "red"})]}) as shim,
        shim.session() as session,
    ):

        @session.guard
        async def say(text: str) -> str:
            return text

        with pytest.raises(TypeError, match="'color', which a hook added"):
            await say("a")
