"""The life cycle of persistent hooks: how processes end, are replaced and are closed."""

import asyncio
import os
import time
from pathlib import Path

import pytest
from support.hooks.kinds import ask
from support.hooks.persistent import ECHO, SLOW_ONCE, Starting, alive, dead, reason
from support.programs.processes import children, eventually

from hookgate.hooks import HookError

pytestmark = pytest.mark.usefixtures("tidy")


# ---- a process that ends


@pytest.mark.parametrize(
    ("ending", "output"),
    [
        pytest.param(
            "sys.exit('no keys') if 0 else sys.stderr.write('no keys'); sys.exit(2)", "no keys", id="stderr"
        ),
        pytest.param("print('not that', flush=True, end=''); sys.exit(2)", "not that", id="stdout"),
        pytest.param("os._exit(2)", "Blocked by the hook 'guard'.", id="silent"),
    ],
)
async def test_exit_code_2_during_a_call_denies_it(ending: str, output: str, program: Starting) -> None:
    async with program(f"for event in events(): {ending}") as runner:
        for _ in range(2):
            assert await ask(runner) == {"decision": "deny", "reason": output}


async def test_exit_code_2_outranks_a_line_that_is_seen_with_it(program: Starting) -> None:
    async with program("next(events()); print('be nice', flush=True); os._exit(2)") as runner:
        before = children()
        call = asyncio.create_task(ask(runner))
        await eventually(lambda: children() != before)
        [pid] = children() - before
        dead(pid)
        assert await call == {"decision": "deny", "reason": "be nice"}


@pytest.mark.parametrize(
    ("ending", "error"),
    [
        pytest.param("sys.exit('oops')", "exited with code 1: oops", id="code 1"),
        pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", "was killed by signal 11", id="signal"),
        pytest.param("sys.exit()", "exited without an answer; ", id="code 0"),
        pytest.param("print('{}', end='', flush=True); sys.exit()", "exited without an answer; ", id="half"),
    ],
)
async def test_another_exit_during_a_call_fails_it_and_the_next_call_starts_a_new_process(
    ending: str, error: str, program: Starting, tmp_path: Path
) -> None:
    body = f"""
for event in events():
    if os.path.exists("mended"): answer(reason="ok")
    else: {ending}
"""
    async with program(body) as runner:
        with pytest.raises(HookError) as raised:
            await ask(runner)
        assert str(raised.value).startswith(error)
        (tmp_path / "mended").touch()
        assert await reason(ask(runner)) == "ok"


async def test_a_program_that_dies_at_once_is_started_once_a_call(program: Starting, tmp_path: Path) -> None:
    async with program(command="echo >> starts; exit 7") as runner:
        for _ in range(3):
            with pytest.raises(HookError, match=r"^exited with code 7$"):
                await ask(runner)
    assert (tmp_path / "starts").read_text() == "\n" * 3


@pytest.mark.parametrize("seen", [True, False], ids=["seen by the loop", "not seen yet"])
async def test_a_process_that_died_idle_is_replaced_silently(seen: bool, program: Starting) -> None:
    async with program("answer(reason=next(events())['n'], systemMessage=str(os.getpid()))") as runner:
        pids = set()
        for n in "abc":
            output = await ask(runner, n=n)
            assert output["reason"] == n
            pids.add(pid := int(output["systemMessage"]))
            if seen:
                await eventually(lambda: pid not in children())
            else:
                dead(pid)
        assert len(pids) == 3


async def test_a_process_that_was_about_to_end_does_not_fail_a_call(program: Starting) -> None:
    body = "answer(reason=next(events())['n']); time.sleep(0.02); sys.exit({code})"
    for code in (0, 2):
        async with program(body.format(code=code), workers=4) as runner:
            outputs = await asyncio.gather(*(ask(runner, n=str(n)) for n in range(40)))
        assert [output["reason"] for output in outputs] == [str(n) for n in range(40)]


async def test_a_process_that_ends_after_it_read_a_part_of_a_call_fails_it(program: Starting) -> None:
    body = "answer() if os.read(0, 65536) else 0; os.read(0, 1); os._exit(3)"
    async with program(body) as runner:
        await ask(runner)
        with pytest.raises(HookError, match=r"^exited with code 3$"):
            await ask(runner)


async def test_a_leader_that_died_idle_is_replaced_though_its_child_holds_the_pipe(program: Starting) -> None:
    line = 'sleep 60 & read -r line; echo "{\\"reason\\": \\"$$\\"}"'
    async with program(command=line) as runner:
        first = await reason(ask(runner))
        dead(int(first))
        assert await reason(ask(runner)) != first


async def test_a_missing_program_cannot_be_started(program: Starting) -> None:
    async with program(command=["/no/such"]) as runner:
        with pytest.raises(HookError, match=r"^cannot be started: No such file or directory \(/no/such\)$"):
            await ask(runner)


async def test_a_process_that_cannot_be_watched_is_not_left_running(
    program: Starting, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_descriptor_left(_: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", no_descriptor_left)
    async with program(ECHO) as runner:
        with pytest.raises(HookError, match="cannot be watched: Too many open files"):
            await ask(runner)


# ---- closing


async def test_a_program_may_finish_its_work_at_the_end_of_its_input(
    program: Starting, tmp_path: Path
) -> None:
    async with program(ECHO + "\nopen('finished', 'w').close()") as runner:
        await ask(runner, n=1)
    assert (tmp_path / "finished").exists()
    assert not alive()


async def test_programs_that_refuse_to_end_are_killed_with_their_children(program: Starting) -> None:
    line = "trap '' TERM HUP INT; sleep 60 & while :; do read -r l && echo '{}'; sleep 0.01; done"
    async with program(command=line, workers=2) as runner:
        await asyncio.gather(ask(runner), ask(runner))
        assert len(alive()) >= 4
        begin = time.monotonic()
    assert time.monotonic() - begin < 3
    await eventually(lambda: not alive())


@pytest.mark.parametrize(
    "ending", ["exit 3", "read -r other", "sleep 60"], ids=["dies", "never answers", "hangs"]
)
async def test_what_left_the_program_s_group_ends_with_it(ending: str, program: Starting) -> None:
    line = f"setsid sleep 60 & read -r line; {ending}"
    async with program(command=line, timeout=300) as runner:
        with pytest.raises(HookError):
            await ask(runner)
    assert not alive()


async def test_closing_lets_a_call_in_flight_end_and_starts_no_other(
    program: Starting, tmp_path: Path
) -> None:
    async with program(SLOW_ONCE, workers=1) as runner:
        first, second = (asyncio.create_task(ask(runner, n=n)) for n in "ab")
        await eventually((tmp_path / "begun").exists)
        closing = asyncio.create_task(runner.close())
        (tmp_path / "late").touch()
        assert await reason(first) == "a"
        with pytest.raises(HookError, match=r"^is closed$"):
            await second
        await closing
        assert not alive()


async def test_closing_ends_a_call_that_does_not(program: Starting, tmp_path: Path) -> None:
    async with program(SLOW_ONCE) as runner:
        call = asyncio.create_task(ask(runner, n="a"))
        await eventually((tmp_path / "begun").exists)
        await runner.close()
        with pytest.raises(HookError, match=r"^is closed$"):
            await call


async def test_closing_ends_a_call_whose_caller_has_left(program: Starting, tmp_path: Path) -> None:
    async with program(SLOW_ONCE) as runner:
        call = asyncio.create_task(ask(runner, n="a"))
        await eventually((tmp_path / "begun").exists)
        call.cancel()
        await runner.close()
        assert not alive()


async def test_a_hook_that_never_ran_closes_and_runs_no_more(program: Starting) -> None:
    async with program(ECHO) as runner:
        await runner.close()
        with pytest.raises(HookError, match=r"^is closed$"):
            await ask(runner, n=1)
