"""Persistent hooks that answer late, unasked or too much: no call gets the output for another call."""

import asyncio
import time
from pathlib import Path

import pytest
from support.hooks.kinds import ask
from support.hooks.persistent import ECHO, SLOW_ONCE, Starting, alive, reason
from support.programs.processes import eventually

from hookgate.hooks import HookError
from hookgate.hooks.errors import HookUnavailableError
from hookgate.hooks.events.base import Document
from hookgate.hooks.runners.persistent import LINE_BY_LINE
from hookgate.hooks.runners.process import MAX_STDERR, MAX_STDOUT
from hookgate.hooks.session import SessionContext

pytestmark = pytest.mark.usefixtures("tidy")


# ---- answers never reach another call


async def test_a_call_that_takes_too_long_ends_its_process(program: Starting, tmp_path: Path) -> None:
    async with program(SLOW_ONCE, workers=1, timeout=2000) as runner:
        with pytest.raises(
            HookError, match=r"^timed out after 2000 ms; because it is persistent, it must print"
        ):
            await ask(runner, n="first")
        assert (tmp_path / "begun").exists()
        (tmp_path / "late").touch()
        assert await reason(ask(runner, n="second")) == "second"


async def test_a_program_that_has_answered_before_is_only_slow(program: Starting) -> None:
    body = "for n, event in enumerate(events()):\n if n: time.sleep(60)\n answer(reason='x')"
    async with program(body, workers=1, timeout=2000) as runner:
        await ask(runner)
        with pytest.raises(HookError, match=r"^timed out after 2000 ms$"):
            await ask(runner)


async def test_a_process_finishes_the_event_of_a_caller_that_has_left(
    program: Starting, tmp_path: Path
) -> None:
    async with program(SLOW_ONCE, workers=1) as runner:
        call = asyncio.create_task(ask(runner, n="first"))
        await eventually((tmp_path / "begun").exists)
        [pid] = alive()
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        waiting = [asyncio.create_task(ask(runner, n=n)) for n in ("second", "third")]
        await asyncio.sleep(0)
        (tmp_path / "late").touch()
        assert [await reason(each) for each in waiting] == ["second", "third"]
        assert alive() == {pid}


async def test_callers_that_leave_start_no_more_processes(program: Starting, tmp_path: Path) -> None:
    async with program("open('started', 'a').write('.')\n" + SLOW_ONCE, workers=1) as runner:
        for n in range(10):
            call = asyncio.create_task(ask(runner, n=n))
            await eventually((tmp_path / "begun").exists)
            await asyncio.sleep(0)
            call.cancel()
        (tmp_path / "late").touch()
        assert await reason(ask(runner, n="last")) == "last"
    assert (tmp_path / "started").read_text() == "."


async def test_a_process_that_takes_too_long_is_ended_although_its_caller_has_left(
    program: Starting, tmp_path: Path
) -> None:
    async with program(SLOW_ONCE, workers=1, timeout=2000) as runner:
        call = asyncio.create_task(ask(runner, n="first"))
        await eventually((tmp_path / "begun").exists)
        [pid] = alive()
        call.cancel()
        await eventually(lambda: pid not in alive())
        assert await reason(ask(runner, n="second")) == "second"


async def test_a_broken_answer_for_a_caller_that_has_left_ends_its_process(
    program: Starting, tmp_path: Path
) -> None:
    body = """
for event in events():
    if event["n"] == "first":
        open("begun", "w").close()
        wait_for("late")
        os.write(1, b"{}\\n{}\\n")
    else:
        answer(reason=event["n"])
"""
    async with program(body, workers=1) as runner:
        call = asyncio.create_task(ask(runner, n="first"))
        await eventually((tmp_path / "begun").exists)
        [pid] = alive()
        call.cancel()
        (tmp_path / "late").touch()
        assert await reason(ask(runner, n="second")) == "second"
        assert pid not in alive()


async def test_keys_take_turns_and_so_do_the_sessions_of_each(program: Starting, tmp_path: Path) -> None:
    async with program(SLOW_ONCE, workers=1) as runner:

        async def call(n: str) -> None:
            session = SessionContext(n[:2], key=n[0])
            await runner.run("BeforeModel", session, Document({"n": n}))
            order.append(n)

        order: list[str] = []
        names = ["a1-1", "a1-2", "a1-3", "a2-1", "b1-1", "b1-2"]
        first = asyncio.create_task(call("a1-0"))
        await eventually((tmp_path / "begun").exists)
        calls = [first, *(asyncio.create_task(call(name)) for name in names)]
        await asyncio.sleep(0)
        (tmp_path / "late").touch()
        await asyncio.gather(*calls)
    assert order == ["a1-0", "a1-1", "b1-1", "a2-1", "b1-2", "a1-2", "a1-3"]


async def test_the_wait_for_a_process_counts_against_the_hook_s_time(
    program: Starting, tmp_path: Path
) -> None:
    async with program(SLOW_ONCE, workers=1, timeout=2000) as runner:
        ends = await asyncio.gather(*(ask(runner, n=n) for n in "abcd"), return_exceptions=True)
        late = "timed out after 2000 ms"
        assert [str(end) for end in ends] == [
            f"{late}; {LINE_BY_LINE}",
            *[f"{late}: all its workers were busy"] * 3,
        ]
        assert [isinstance(end, HookUnavailableError) for end in ends] == [False, True, True, True]
        (tmp_path / "late").touch()
        assert await reason(ask(runner, n="e")) == "e"


async def test_a_caller_that_gives_up_waiting_leaves_the_others_their_turn(
    program: Starting, tmp_path: Path
) -> None:
    async with program(SLOW_ONCE, workers=1) as runner:
        first, second, third = (asyncio.create_task(ask(runner, n=n)) for n in "abc")
        await eventually((tmp_path / "begun").exists)
        second.cancel()
        (tmp_path / "late").touch()
        assert [await reason(first), await reason(third)] == ["a", "c"]


@pytest.mark.parametrize("seen", [True, False], ids=["seen by the loop", "not seen yet"])
async def test_a_process_that_prints_unasked_is_replaced(
    seen: bool, program: Starting, tmp_path: Path
) -> None:
    body = """
for event in events():
    answer(reason=event["n"])
    if event["n"] == "first":
        wait_for("go")
        answer(reason="stale")
        open("printed", "w").close()
"""
    async with program(body) as runner:
        assert await reason(ask(runner, n="first")) == "first"
        [stray] = alive()
        (tmp_path / "go").touch()
        if seen:
            await eventually(lambda: stray not in alive())
        else:
            while not (tmp_path / "printed").exists():
                time.sleep(0.002)  # noqa: ASYNC251  # the loop must not get to see it
        assert await reason(ask(runner, n="second")) == "second"
        assert stray not in alive()


@pytest.mark.parametrize("text", ["{\\n}\\n", "banner\\n{}\\n", "{}\\n\\n", "{}\\n{"])
async def test_more_than_a_line_for_one_event_is_no_answer(text: str, program: Starting) -> None:
    async with program(f"for event in events(): os.write(1, b'{text}')") as runner:
        with pytest.raises(HookError, match=r"^printed more than one line for an event; "):
            await ask(runner)
        await eventually(lambda: not alive())


async def test_a_process_that_answers_before_it_has_read_is_not_asked_again(program: Starting) -> None:
    body = "answer(reason=str(os.getpid())); wait_for('never')"
    async with program(body) as runner:
        pids = {await reason(ask(runner, text="x" * 1_000_000)) for _ in range(2)}
    assert len(pids) == 2


async def test_a_line_may_have_a_megabyte_and_no_more(program: Starting) -> None:
    body = "for event in events(): os.write(1, b' ' * event['size'] + b'\\n')"
    async with program(body) as runner:
        assert await ask(runner, size=MAX_STDOUT) is None
        with pytest.raises(HookError, match=rf"^printed more than {MAX_STDOUT} bytes$"):
            await ask(runner, size=MAX_STDOUT + 1)


async def test_a_process_that_prints_without_end_is_killed(program: Starting) -> None:
    async with program("while True: os.write(1, b' ' * 65536)") as runner:
        with pytest.raises(HookError, match=rf"^printed more than {MAX_STDOUT} bytes$"):
            await ask(runner)
        await eventually(lambda: not alive())


# ---- stderr


async def test_the_last_of_a_long_stderr_is_kept_and_holds_nothing_up(program: Starting) -> None:
    body = "for event in events(): sys.stderr.write('x' * 3_000_000 + 'the end'); sys.exit(2)"
    async with program(body) as runner:
        reported = await reason(ask(runner))
    assert reported == "x" * (MAX_STDERR - 7) + "the end"


async def test_an_error_of_one_call_is_not_reported_in_the_next(program: Starting) -> None:
    body = """
for n, event in enumerate(events()):
    sys.stderr.write(f"call {n}"); sys.stderr.flush()
    if n: sys.exit(2)
    answer()
"""
    async with program(body) as runner:
        await ask(runner)
        assert await reason(ask(runner)) == "call 1"


async def test_a_program_may_close_its_stderr(program: Starting) -> None:
    async with program("os.close(2)\n" + ECHO) as runner:
        assert [await reason(ask(runner, n=n)) for n in "ab"] == ["a", "b"]
