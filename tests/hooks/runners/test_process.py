"""Programs, well-behaved or not: no process or descriptor is left after them."""

import asyncio
import os
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest
from support.hooks.persistent import mark
from support.programs.processes import MARK_VARIABLE, eventually, marked, run_process

from hookgate.hooks import HookError
from hookgate.hooks.output import ProcessResult
from hookgate.hooks.runners import cleanup
from hookgate.hooks.runners.cleanup import (
    ProcessTree,
    has_mark,
    kill_marked,
    marked_processes,
    read_proc,
)
from hookgate.hooks.runners.process import (
    MAX_STDERR,
    MAX_STDOUT,
    Program,
    end_process,
    spawn,
)

MEGABYTE = b"x" * 1_000_000

pytestmark = pytest.mark.usefixtures("tidy")
ENV = {"PATH": os.environ["PATH"], MARK_VARIABLE: mark}


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


async def run(script: str, stdin: bytes = b"", timeout: float = 10, **more: Any) -> ProcessResult:  # noqa: ASYNC109  # a program's own
    argv = more.pop("argv", ["/bin/sh", "-c", script])
    cwd = more.pop("cwd", Path.cwd())
    return await run_process(Program(argv, more.pop("env", ENV), cwd, timeout, **more), stdin)


async def at_once(script: str, stdin: bytes = b"") -> ProcessResult:
    """Its end, in much less time than any of the sleeps that it leaves behind."""
    begin = time.monotonic()
    ended = await run(script, stdin, timeout=60)
    assert time.monotonic() - begin < 5
    return ended


# ---- how programs end


async def test_a_program_is_known_by_its_code_and_what_it_printed() -> None:
    assert await run("cat; echo oops >&2; exit 3", b"in") == ProcessResult(3, b"in", b"oops\n")


async def test_a_program_that_a_signal_kills_has_the_signal_s_number() -> None:
    assert (await run("kill -SEGV $$")).exit_code == -signal.SIGSEGV


async def test_a_program_and_what_it_starts_have_the_priority_of_this_process() -> None:
    ended = await run("read line; nice; sh -c nice; cat /proc/self/autogroup", b"go\n")
    nice, inner, *group = ended.stdout.split()
    assert nice == inner == b"%d" % os.getpriority(os.PRIO_PROCESS, 0)
    assert group[1:] in ([], [b"nice", b"0"])  # a kernel may have no groups of sessions


async def test_a_missing_program_cannot_be_started() -> None:
    with pytest.raises(HookError, match=r"^cannot be started: No such file or directory \(/no/such\)$"):
        await run("", argv=["/no/such"])


async def test_a_missing_folder_is_named() -> None:
    with pytest.raises(HookError, match=r"^cannot be started: No such file or directory \(/no/folder\)$"):
        await run("true", cwd=Path("/no/folder"))


async def test_a_file_that_is_not_a_program_cannot_be_started(here: Path) -> None:
    (here / "note.txt").write_text("words")
    with pytest.raises(HookError, match="cannot be started: Permission denied"):
        await run("", argv=[str(here / "note.txt")])


@pytest.mark.parametrize("wrong", [{"argv": ["/bin/sh", "-c", "echo \0"]}, {"env": {"A=B": "c"}}])
async def test_what_no_program_can_be_given_fails_like_a_missing_one(wrong: dict[str, Any]) -> None:
    with pytest.raises(HookError, match="cannot be started: "):
        await run("", **wrong)


# ---- the time limit


async def test_a_program_that_ignores_to_be_ended_is_killed_in_time(here: Path) -> None:
    begin = time.monotonic()
    with pytest.raises(HookError, match=r"^timed out after 300 ms$"):
        await run("trap '' TERM INT HUP; echo > ready; while :; do sleep 0.01; done", timeout=0.3)
    assert time.monotonic() - begin < 3
    assert (here / "ready").exists(), "the program did not get as far as ignoring anything"


async def test_what_a_program_printed_before_its_time_ran_out_is_no_verdict() -> None:
    with pytest.raises(HookError, match="timed out"):
        await run('echo \'{"decision": "allow"}\'; sleep 30', timeout=0.1)


async def test_a_cancelled_call_ends_its_program(here: Path) -> None:
    call = asyncio.create_task(run("echo > ready; sleep 30 & sleep 30"))
    await eventually((here / "ready").exists)
    assert marked(mark)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call


# ---- children of the program


async def test_a_grandchild_that_holds_the_pipe_does_not_hold_the_verdict() -> None:
    assert await at_once("sleep 30 & echo done") == ProcessResult(0, b"done\n", b"")


async def test_children_in_the_background_end_with_the_program(here: Path) -> None:
    await at_once(
        "(trap '' TERM HUP; echo > ready; sleep 30) >/dev/null 2>&1 & until [ -e ready ]; do :; done"
    )
    await eventually(lambda: not marked(mark))


async def test_a_child_that_left_the_group_ends_with_the_program_too(here: Path) -> None:
    ended = await at_once("mkfifo f; setsid sh -c 'echo > f; exec sleep 30' & read line < f; echo ok")
    assert (ended.stdout, marked(mark)) == (b"ok\n", set())


# ---- programs that their owner keeps

KEPT = "mkfifo f; setsid sh -c 'echo > f; exec sleep 30' & read line < f; echo; sleep 30"


async def program_with_escapee() -> subprocess.Popen[bytes]:
    """A program that runs, as does an escapee of it."""
    process = spawn(Program(["/bin/sh", "-c", KEPT], ENV, Path.cwd(), timeout=1))
    assert process.stdout
    await eventually(lambda: process.stdout is not None and process.stdout.read() == b"\n")
    return process


async def test_the_owner_of_a_program_ends_it_with_everything_it_started(here: Path) -> None:
    process = await program_with_escapee()
    assert len(marked(mark)) >= 2
    await end_process(process)
    assert (process.returncode, marked(mark)) == (-signal.SIGKILL, set())
    await end_process(process)


async def test_a_cancellation_while_a_program_is_killed_leaves_no_process(here: Path) -> None:
    process = await program_with_escapee()
    end = asyncio.create_task(end_process(process))
    await asyncio.sleep(0)  # it has killed, and waits
    end.cancel()
    with pytest.raises(asyncio.CancelledError):
        await end
    assert (process.returncode, marked(mark)) == (-signal.SIGKILL, set())


async def test_process_ids_that_wrapped_around_hide_no_process() -> None:
    tree = ProcessTree(begin=time.monotonic() - 24 * 3600)
    escapee = subprocess.Popen(["sleep", "30"], env={**ENV, "HOOKGATE_RUN": tree.mark})  # noqa: ASYNC220  # a millisecond
    with escapee:
        await eventually(lambda: has_mark(escapee.pid, [tree.mark]))  # Popen returns just before
        assert marked_processes(escapee.pid + 1, tree) == {escapee.pid}
        kill_marked(escapee.pid, tree)
    assert escapee.returncode == -signal.SIGKILL


@pytest.mark.parametrize("shown_since", [False, True], ids=["not loaded", "loaded meanwhile"])
async def test_a_process_that_just_begins_to_run_a_program_is_not_overlooked(
    shown_since: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its environment is empty for a moment."""
    tree = ProcessTree()
    begun = subprocess.Popen(["sleep", "30"], env={**ENV, "HOOKGATE_RUN": tree.mark})  # noqa: ASYNC220  # a millisecond
    with begun:
        await eventually(lambda: has_mark(begun.pid, [tree.mark]))
        hidden = {f"/proc/{begun.pid}/environ", *([] if shown_since else [f"/proc/{begun.pid}/cmdline"])}

        def read(path: str) -> bytes:
            if path in hidden:
                hidden.remove(path)
                return b""
            return read_proc(path)

        monkeypatch.setattr(cleanup, "read_proc", read)
        assert marked_processes(begun.pid - 1, tree) == {begun.pid}
        kill_marked(begun.pid, tree)
    assert begun.returncode == -signal.SIGKILL


# ---- stdin


@pytest.mark.parametrize("script", ["echo ok", "exec <&-; echo ok", "head -c 1 >/dev/null; echo ok"])
async def test_a_program_need_not_read_its_input(script: str) -> None:
    assert await run(script, MEGABYTE) == ProcessResult(0, b"ok\n", b"")


async def test_a_program_that_reads_gets_all_of_it_and_then_the_end() -> None:
    assert int((await run("wc -c", MEGABYTE)).stdout) == len(MEGABYTE)


async def test_a_program_may_print_while_it_reads() -> None:
    assert (await run("cat", MEGABYTE)).stdout == MEGABYTE


# ---- stdout and stderr


async def test_a_program_that_closes_its_outputs_has_not_ended_yet(here: Path) -> None:
    assert await run("exec >&- 2>&-; sleep 0.05; exit 3") == ProcessResult(3, b"", b"")


async def test_what_is_still_in_a_large_pipe_when_the_program_ends_is_not_lost() -> None:
    lines = "import fcntl, os; fcntl.fcntl(1, fcntl.F_SETPIPE_SZ, 1 << 20); os.write(1, b'x' * 500_000)"
    # The loop gets to read only after the program has ended; it is not reaped by that.
    asyncio.get_running_loop().call_soon(os.waitid, os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
    assert len((await run("", argv=["python3", "-c", lines])).stdout) == 500_000


async def test_a_program_that_prints_without_end_is_stopped() -> None:
    with pytest.raises(HookError, match=rf"^printed more than {MAX_STDOUT} bytes$"):
        await run("yes", timeout=60)


async def test_the_limit_of_stdout_itself_may_be_printed() -> None:
    assert len((await run("head -c 5000 /dev/zero", max_stdout=5000)).stdout) == 5000
    with pytest.raises(HookError, match="printed more than 5000 bytes"):
        await run("head -c 5001 /dev/zero", max_stdout=5000)


async def test_stderr_beyond_its_limit_is_dropped_and_holds_nothing_up() -> None:
    ended = await run("head -c 3000000 /dev/zero >&2; echo ok")
    assert (ended.stdout, len(ended.stderr)) == (b"ok\n", MAX_STDERR)


async def test_a_character_may_come_in_two_pieces() -> None:
    assert (await run("printf '\\303'; sleep 0.02; printf '\\251'")).stdout.decode() == "é"


# ---- many at once


async def test_sixty_four_at_once_lose_nothing() -> None:
    inputs = [f"{i} ".encode() * 20_000 for i in range(64)]
    ended = await asyncio.gather(*(run("cat", each) for each in inputs))
    assert [each.stdout for each in ended] == inputs


async def test_one_that_fails_leaves_the_others_alone() -> None:
    ends = await asyncio.gather(
        run("echo ok"), run("sleep 30", timeout=0.05), run("yes"), run("echo ok"), return_exceptions=True
    )
    expected = [ProcessResult, HookError, HookError, ProcessResult]
    assert [isinstance(end, each) for end, each in zip(ends, expected, strict=True)] == [True] * 4


async def test_a_program_that_cannot_be_watched_is_not_left_running(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_descriptor_left(_: int) -> int:
        raise OSError(24, "Too many open files")

    monkeypatch.setattr(os, "pidfd_open", no_descriptor_left)
    with pytest.raises(HookError, match="cannot be watched: Too many open files"):
        await run("sleep 60")
