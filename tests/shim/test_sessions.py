"""Sessions and turns of the shim, and the effects of hooks, in both modes and for both kinds of agents."""

import asyncio
from contextlib import nullcontext
from typing import Any

import pytest
from support.clients.shims import Opened
from support.gateway.loopback import listens, runs, says

from hookgate.shim import Denied, Shim, Stopped, ToolDenied


async def test_a_session_is_reported_from_its_start_to_its_end(opened: Opened) -> None:
    seen: list[dict[str, Any]] = []
    events = ("SessionStart", "BeforeAgent", "PreCompress", "BeforeTool", "Notification", "AfterTool")
    hooks = {event: [listens(seen)] for event in (*events, "AfterAgent", "SessionEnd")}
    async with (
        opened(hooks) as shim,
        shim.session("s-1", cwd="/work") as session,
        session.turn("Fix it.") as turn,
    ):
        await session.compress("manual", size=10, max_size=20)
        async with session.tool("read_file", {"path": "a"}) as call:
            await session.notify("ToolPermission", "May it?", {"type": "exec"})
            assert await call.result("hello") == "hello"
        assert not (await turn.answer("Done.")).denied
    assert [each["hook_event_name"] for each in seen] == [*events, "AfterAgent", "SessionEnd"]
    assert {each["session_id"] for each in seen} == {"s-1"}
    assert {each["cwd"] for each in seen} == {"/work"}
    start, before, compress, tool, notification, after, answer, end = seen
    assert start["source"] == "startup"
    assert before["prompt"] == answer["prompt"] == "Fix it."
    assert (compress["trigger"], compress["context_size"], compress["max_context_size"]) == ("manual", 10, 20)
    assert (tool["tool_name"], tool["tool_input"]) == ("read_file", {"path": "a"})
    assert (notification["notification_type"], notification["details"]) == (
        "ToolPermission",
        {"type": "exec"},
    )
    assert after["tool_response"] == {"llmContent": "hello", "returnDisplay": ""}
    assert (answer["prompt_response"], answer["stop_hook_active"]) == ("Done.", False)
    assert end["reason"] == "exit"


async def test_the_same_events_are_reported_synchronously(opened: Opened) -> None:
    seen: list[dict[str, Any]] = []
    events = ("SessionStart", "BeforeAgent", "BeforeTool", "AfterTool", "AfterAgent", "SessionEnd")

    def agent() -> None:
        with shim.sync_session() as session:
            for attempt in session.attempts("Fix it."):
                with session.tool("read_file", {"path": "a"}) as call:
                    attempt.answer(call.result("hello"))

    async with opened({event: [listens(seen)] for event in events}) as shim:
        await asyncio.to_thread(agent)
    assert [each["hook_event_name"] for each in seen] == list(events)
    assert seen[4]["prompt_response"] == "hello"


async def test_a_session_that_fails_ends_for_another_reason(opened: Opened) -> None:
    seen: list[dict[str, Any]] = []
    async with opened({"SessionEnd": [listens(seen)]}) as shim:
        with pytest.raises(ZeroDivisionError):
            async with shim.session():
                raise ZeroDivisionError
    assert [each["reason"] for each in seen] == ["other"]


async def test_contexts_are_the_sessions_and_the_turns(opened: Opened) -> None:
    hooks = {
        "SessionStart": [says(additionalContext="Tests run with <make>.")],
        "BeforeAgent": [says(additionalContext="On branch main.")],
    }
    async with opened(hooks) as shim, shim.session() as session, session.turn("Fix it.") as turn:
        assert session.context == "Tests run with &lt;make&gt;."
        assert turn.context == "On branch main."


@pytest.mark.parametrize(
    ("event", "output", "error"),
    [
        ("SessionStart", {"decision": "deny", "reason": "Not today."}, Denied),
        ("SessionStart", {"continue": False, "stopReason": "Not today."}, Stopped),
        ("BeforeAgent", {"decision": "block", "reason": "Not today."}, Denied),
        ("BeforeAgent", {"continue": False, "stopReason": "Not today."}, Stopped),
    ],
)
async def test_what_hooks_refuse_does_not_begin(
    opened: Opened, event: str, output: dict[str, Any], error: type[Denied] | type[Stopped]
) -> None:
    begun = False
    async with opened({event: [says(output)]}) as shim:
        with pytest.raises(error, match=r"^Not today\.$") as caught:
            async with shim.session() as session, session.turn("Fix it."):
                begun = True
    assert not begun
    assert caught.value.decision.event == event


async def test_advice_is_never_a_refusal(opened: Opened) -> None:
    no = says({"decision": "deny", "reason": "No.", "continue": False, "systemMessage": "Saved."})
    async with (
        opened({event: [no] for event in ("SessionEnd", "PreCompress", "Notification")}) as shim,
        shim.session() as session,
    ):
        reported = await session.notify("info", "Hello.")
        await session.compress()
        assert session.stopped is None
    assert reported.system_message == "Saved."


async def test_a_stop_lasts_until_the_next_turn(opened: Opened) -> None:
    ran: list[str] = []

    def once(call: dict[str, Any]) -> dict[str, Any] | None:
        ran.append(call["tool_name"])
        return {"continue": False, "stopReason": "Enough."} if len(ran) == 1 else None

    async with opened({"BeforeTool": [runs(once)]}) as shim, shim.session() as session:
        for _ in range(2):
            with pytest.raises(Stopped, match="Enough"):
                async with session.tool("glob", {}):
                    pass
        assert (ran, session.stopped) == (["glob"], "Enough.")
        async with session.turn("Go on."), session.tool("ls", {}):
            assert session.stopped is None
    assert ran == ["glob", "ls"]


# ---- answers that hooks deny


def wants(*answers: str) -> Any:
    """A hook that denies every answer but these."""

    def judge(call: dict[str, Any]) -> dict[str, Any] | None:
        if call["prompt_response"] in answers:
            return None
        specific = {"clearContext": True}
        return {
            "decision": "deny",
            "reason": f"not {call['prompt_response']}",
            "hookSpecificOutput": specific,
        }

    return runs(judge)


async def test_a_denied_answer_is_asked_for_again(opened: Opened) -> None:
    seen: list[dict[str, Any]] = []
    tries = []
    async with opened({"AfterAgent": [wants("3"), listens(seen)]}) as shim, shim.session() as session:
        async for attempt in session.attempts("Count."):
            tries.append((attempt.number, attempt.prompt, attempt.feedback, attempt.clear_context))
            attempt.answer(str(attempt.number))
    assert tries == [(1, "Count.", "", False), (2, "not 1", "not 1", True), (3, "not 2", "not 2", True)]
    assert [each["stop_hook_active"] for each in seen] == [False, True, True]
    assert {each["prompt"] for each in seen} == {"Count."}
    assert attempt.decision
    assert not attempt.decision.denied


async def test_the_last_denial_is_an_error(opened: Opened) -> None:
    tries = 0
    async with opened({"AfterAgent": [wants()]}, attempts=2) as shim, shim.session() as session:
        with pytest.raises(Denied, match="not x"):  # noqa: PT012  # the loop raises
            async for attempt in session.attempts("Count."):
                tries += 1
                attempt.answer("x")
    assert tries == 2


async def test_hooks_are_asked_about_nothing_when_no_answer_was_given(opened: Opened) -> None:
    seen: list[dict[str, Any]] = []
    async with opened({"AfterAgent": [listens(seen)]}) as shim, shim.session() as session:
        assert [attempt.number async for attempt in session.attempts("Count.")] == [1]
    assert not seen


async def test_a_turn_tells_what_hooks_say_to_each_of_its_answers(opened: Opened) -> None:
    async with (
        opened({"AfterAgent": [wants("b")]}) as shim,
        shim.session() as session,
        session.turn("Go.") as turn,
    ):
        said = [await turn.answer(text) for text in ("a", "b")]
    assert [(each.denied, each.clear_context) for each in said] == [(True, True), (False, False)]


async def test_a_denied_answer_is_asked_for_again_synchronously(opened: Opened) -> None:
    def agent() -> list[tuple[int, str]]:
        with shim.sync_session() as session:
            tries = []
            for attempt in session.attempts("Count."):
                tries.append((attempt.number, attempt.prompt))
                attempt.answer(str(attempt.number))
            with session.turn("Count.") as turn:
                assert turn.answer("x").reason == "not x"
            with pytest.raises(Denied, match="not y"):  # noqa: PT012  # the loop raises
                for attempt in session.attempts("Count."):
                    attempt.answer("y")
            assert not session.notify("info", "Counted.").denied
            assert not session.compress().denied
            return tries

    async with opened({"AfterAgent": [wants("2")]}) as shim:
        assert await asyncio.to_thread(agent) == [(1, "Count."), (2, "not 1")]


# ---- many at once


async def test_a_hundred_sessions_at_once_keep_to_themselves(opened: Opened) -> None:
    def start(call: dict[str, Any]) -> dict[str, Any]:
        return {"hookSpecificOutput": {"additionalContext": f"for {call['session_id']}"}}

    def tool(call: dict[str, Any]) -> dict[str, Any] | None:
        odd = int(call["session_id"].removeprefix("s-")) % 2
        return {"continue": False, "stopReason": call["session_id"]} if odd else None

    async def agent(number: int) -> None:
        async with shim.session(f"s-{number}") as session:
            for _ in range(3):
                await asyncio.sleep(0)
                with pytest.raises(Stopped, match=session.session_id) if number % 2 else nullcontext():
                    async with session.tool("glob", {"n": number}) as call:
                        assert await call.result(number) == number
            assert session.context == f"for s-{number}"
            assert session.stopped == (f"s-{number}" if number % 2 else None)

    async with opened({"SessionStart": [runs(start)], "BeforeTool": [runs(tool)]}, timeout=60) as shim:
        await asyncio.gather(*map(agent, range(100)))


async def test_threads_and_loops_of_any_kind_share_a_shim(opened: Opened) -> None:
    async def tool() -> str:
        async with shim.session() as session, session.tool("glob", {}) as call:
            return str(await call.result("a"))

    async with opened({"AfterTool": [says(additionalContext="b")]}) as shim:
        own_loops = [asyncio.to_thread(asyncio.run, tool()) for _ in range(3)]
        assert await asyncio.gather(tool(), *own_loops) == ["a\n\nb"] * 4


def test_a_session_has_a_name_that_a_gateway_takes() -> None:
    with Shim("http://127.0.0.1:9/s/abc") as shim:
        assert shim.session().session_id == "abc"
        assert shim.session("other").session_id == "other"
        with pytest.raises(ValueError, match="invalid session id"):
            shim.session("../x")
    with pytest.raises(ValueError, match="URL"):
        Shim("ftp://example.com")
    with pytest.raises(ValueError, match="key"):
        Shim("http://127.0.0.1:9", "a\r\nb")


def test_denials_of_tools_are_denials() -> None:
    assert issubclass(ToolDenied, Denied)
