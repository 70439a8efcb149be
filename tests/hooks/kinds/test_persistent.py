"""Programs that stay: one line in, one line out, well-behaved or not; in the end nothing is left behind."""

import asyncio
import contextlib
import os
import shutil
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from support.kinds import GREETING, KEPT_HERE, KEY, ask, documented, hook_of, running
from support.programs import MARK, children, eventually, marked, nothing_left_behind

from hookgate.hooks import HookError
from hookgate.hooks.kinds import Runner
from hookgate.hooks.kinds.process import MAX_STDERR, MAX_STDOUT
from hookgate.hooks.settings import CommandConfig

mark = uuid4().hex


@pytest.fixture(autouse=True)
async def _clean() -> AsyncIterator[None]:
    """Nothing is left behind, and nothing went wrong where only the loop would tell."""
    troubles: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, trouble: troubles.append(trouble))
    async with nothing_left_behind(mark):
        yield
    assert troubles == []


PROLOGUE = """
import json, os, signal, sys, time
def events():
    for line in sys.stdin:
        yield json.loads(line)
def answer(**fields):
    print(json.dumps({"decision": "allow", **fields}), flush=True)
def wait_for(path):
    while not os.path.exists(path):
        time.sleep(0.002)
"""

PID = "for event in events(): answer(reason=str(os.getpid()))"
ECHO = "for event in events(): answer(reason=str(event['n']))"

Starting = Callable[..., AbstractAsyncContextManager[Runner]]


@pytest.fixture
def program(tmp_path: Path) -> Starting:
    """A hook in Python, or what `command` says, in an empty project folder."""

    def start(
        body: str = "", command: str | list[str] | None = None, **more: Any
    ) -> AbstractAsyncContextManager[Runner]:
        argv = command or [sys.executable, "-S", "-c", PROLOGUE + body]
        env = {MARK: mark, **more.pop("env", {})}
        config = CommandConfig(type="command", command=argv, persistent=True, env=env, **more)
        return running(hook_of(config, tmp_path))

    return start


async def reason(call: Awaitable[Any]) -> str:
    return str((await call)["reason"])


# ---- one line in, one line out


needs_node = pytest.mark.skipif(not shutil.which("node"), reason="no node here")

NODE = """
const lines = require('readline').createInterface({input: process.stdin});
lines.on('line', line => console.log(JSON.stringify({decision: 'allow', reason: JSON.parse(line).n})));
"""
BASH = 'while read -r line; do [[ $line =~ [0-9]+ ]] && echo "{\\"reason\\": \\"${BASH_REMATCH[0]}\\"}"; done'


@pytest.mark.parametrize(
    "command",
    [
        pytest.param([sys.executable, "-S", "-c", PROLOGUE + ECHO], id="python"),
        pytest.param(BASH, id="shell"),
        pytest.param(["node", "-e", NODE], id="node", marks=needs_node),
    ],
)
async def test_a_program_of_any_language_answers_line_by_line(command: Any, program: Starting) -> None:
    async with program(command=command) as runner:
        for n in ("1", "22", "333"):
            assert await reason(ask(runner, n=n)) == n


async def test_a_program_starts_with_the_first_event_and_serves_them_all(program: Starting) -> None:
    before = children()
    async with program(PID) as runner:
        assert children() == before
        pids = {await reason(ask(runner, session=f"s-{n}")) for n in range(5)}
        assert {str(pid) for pid in children() - before} == pids
        assert len(pids) == 1


async def test_two_hundred_calls_at_once_get_their_own_answers_from_four_processes(program: Starting) -> None:
    body = """
import select
while line := os.read(0, 65536):
    alone = line.count(b"\\n") == 1 and not select.select([0], [], [], 0.001)[0]
    answer(reason=str(json.loads(line)["n"]), systemMessage=f"{os.getpid()} {alone}")
"""
    async with program(body, workers=4) as runner:
        outputs = await asyncio.gather(*(ask(runner, n=n) for n in range(200)))
    assert [output["reason"] for output in outputs] == [str(n) for n in range(200)]
    served = {output["systemMessage"] for output in outputs}
    assert {each.split()[1] for each in served} == {"True"}, "a process was given a call during another"
    assert len(served) == 4


async def test_callers_are_served_in_the_order_they_came(program: Starting, tmp_path: Path) -> None:
    body = "wait_for('go')\nfor number, _ in enumerate(events()): answer(reason=str(number))"
    async with program(body, workers=1) as runner:
        calls = [asyncio.create_task(ask(runner)) for _ in range(20)]
        await eventually(lambda: bool(marked(mark)))
        (tmp_path / "go").touch()
        assert [await reason(call) for call in calls] == [str(number) for number in range(20)]


async def test_input_and_answer_may_be_larger_than_any_pipe(program: Starting) -> None:
    async with program("for event in events(): answer(reason=event['text'][:1_000_000])") as runner:
        for _ in range(2):
            assert await reason(ask(runner, text="x" * 3_000_000)) == "x" * 1_000_000


async def test_an_answer_may_come_in_pieces(program: Starting) -> None:
    body = """
for event in events():
    for character in '{"reason": "é"}\\n'.encode():
        os.write(1, bytes([character])); time.sleep(0.001)
"""
    async with program(body) as runner:
        assert await ask(runner) == {"reason": "é"}


@pytest.mark.parametrize(
    ("line", "output"),
    [
        pytest.param("", None, id="empty"),
        pytest.param("  ", None, id="blank"),
        pytest.param("{}", {}, id="empty object"),
        pytest.param('{"decision": "block"}', {"decision": "deny"}, id="alias"),
        pytest.param("be nice", {"decision": "allow", "systemMessage": "be nice"}, id="prose"),
    ],
)
async def test_a_line_means_what_it_means_on_a_command_s_stdout(
    line: str, output: Any, program: Starting
) -> None:
    async with program(f"for event in events(): print({line!r}, flush=True)") as runner:
        assert await ask(runner) == output
        assert await ask(runner) == output


async def test_tool_names_select_tools_as_a_command_s_do(program: Starting) -> None:
    async with program("for event in events(): print('read_file,ls', flush=True)") as runner:
        output = await ask(runner, "BeforeToolSelection")
    assert output["hookSpecificOutput"]["toolConfig"]["allowedFunctionNames"] == ["read_file", "ls"]


async def test_an_answer_of_the_wrong_type_fails_the_call_and_keeps_the_process(program: Starting) -> None:
    body = "for n, _ in enumerate(events()): answer(reason=str(os.getpid()) if n else 5)"
    async with program(body) as runner:
        with pytest.raises(HookError, match=r"^output\.reason: "):
            await ask(runner)
        assert {int(await reason(ask(runner)))} == marked(mark)


# ---- environment


async def test_the_environment_is_a_command_s_but_for_the_session(
    program: Starting, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GEMINI_SESSION_ID", "of the gateway's own parent")
    monkeypatch.setenv("GEMINI_API_KEY", "canary")
    body = "for event in events(): answer(reason=json.dumps([dict(os.environ), os.getcwd()]))"
    async with program(body, env={"MINE": "yes"}) as runner:
        told = await reason(ask(runner))
    assert "GEMINI_SESSION_ID" not in told
    assert "canary" not in told
    assert f'"GEMINI_PROJECT_DIR": "{tmp_path}"' in told
    assert '"MINE": "yes"' in told
    assert told.endswith(f'"{tmp_path}"]')


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
        pytest.param("os.kill(os.getpid(), signal.SIGSEGV)", "died of signal 11", id="signal"),
        pytest.param("sys.exit()", "ended without an answer; ", id="code 0"),
        pytest.param("print('{}', end='', flush=True); sys.exit()", "ended without an answer; ", id="half"),
    ],
)
async def test_another_end_during_a_call_fails_it_and_the_next_call_starts_anew(
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


ONCE = "answer(reason=str(os.getpid()) + next(events())['n'])"


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


async def test_a_process_that_was_about_to_end_does_not_take_a_call_along(program: Starting) -> None:
    body = "answer(reason=next(events())['n']); time.sleep(0.02); sys.exit({code})"
    for code in (0, 2):
        async with program(body.format(code=code), workers=4) as runner:
            outputs = await asyncio.gather(*(ask(runner, n=str(n)) for n in range(40)))
        assert [output["reason"] for output in outputs] == [str(n) for n in range(40)]


async def test_a_process_that_ends_after_it_read_some_of_a_call_takes_it_along(program: Starting) -> None:
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


def dead(pid: int) -> None:
    """Wait for the end of a child without letting the loop see it."""
    with contextlib.suppress(ChildProcessError):  # it has ended so fast that the loop has seen it
        os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)


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


# ---- answers never reach another call


SLOW_ONCE = """
for event in events():
    if not os.path.exists("begun"):
        open("begun", "w").close()
        wait_for("late")
    answer(reason=event["n"])
"""


async def test_a_call_that_takes_too_long_takes_its_process_along(program: Starting, tmp_path: Path) -> None:
    async with program(SLOW_ONCE, workers=1, timeout=400) as runner:
        with pytest.raises(HookError, match=r"^timed out after 400 ms$"):
            await ask(runner, n="first")
        assert (tmp_path / "begun").exists()
        (tmp_path / "late").touch()
        assert await reason(ask(runner, n="second")) == "second"


async def test_a_cancelled_call_takes_its_process_along(program: Starting, tmp_path: Path) -> None:
    async with program(SLOW_ONCE, workers=1) as runner:
        call = asyncio.create_task(ask(runner, n="first"))
        await eventually((tmp_path / "begun").exists)
        call.cancel()
        with pytest.raises(asyncio.CancelledError):
            await call
        await eventually(lambda: not marked(mark))
        (tmp_path / "late").touch()
        assert await reason(ask(runner, n="second")) == "second"


async def test_the_wait_for_a_process_counts_against_the_hook_s_time(
    program: Starting, tmp_path: Path
) -> None:
    async with program(SLOW_ONCE, workers=1, timeout=400) as runner:
        ends = await asyncio.gather(*(ask(runner, n=n) for n in "abcd"), return_exceptions=True)
        assert {str(end) for end in ends} == {"timed out after 400 ms"}
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
        [stray] = marked(mark)
        (tmp_path / "go").touch()
        if seen:
            await eventually(lambda: stray not in marked(mark))
        else:
            while not (tmp_path / "printed").exists():
                time.sleep(0.002)  # noqa: ASYNC251  # the loop must not get to see it
        assert await reason(ask(runner, n="second")) == "second"
        assert stray not in marked(mark)


@pytest.mark.parametrize("text", ["{\\n}\\n", "banner\\n{}\\n", "{}\\n\\n", "{}\\n{"])
async def test_more_than_a_line_for_one_event_is_no_answer(text: str, program: Starting) -> None:
    async with program(f"for event in events(): os.write(1, b'{text}')") as runner:
        with pytest.raises(HookError, match=r"^printed more than one line for one event; "):
            await ask(runner)
        await eventually(lambda: not marked(mark))


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
        await eventually(lambda: not marked(mark))


# ---- stderr


async def test_the_last_of_a_long_stderr_is_kept_and_holds_nothing_up(program: Starting) -> None:
    body = "for event in events(): sys.stderr.write('x' * 3_000_000 + 'the end'); sys.exit(2)"
    async with program(body) as runner:
        told = await reason(ask(runner))
    assert told == "x" * (MAX_STDERR - 7) + "the end"


async def test_what_was_complained_of_in_one_call_is_not_told_in_the_next(program: Starting) -> None:
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


# ---- closing


async def test_a_program_may_finish_its_work_at_the_end_of_its_input(
    program: Starting, tmp_path: Path
) -> None:
    async with program(ECHO + "\nopen('finished', 'w').close()") as runner:
        await ask(runner, n=1)
    assert (tmp_path / "finished").exists()
    assert not marked(mark)


async def test_programs_that_refuse_to_end_are_killed_with_their_children(program: Starting) -> None:
    line = "trap '' TERM HUP INT; sleep 60 & while :; do read -r l && echo '{}'; sleep 0.01; done"
    async with program(command=line, workers=2) as runner:
        await asyncio.gather(ask(runner), ask(runner))
        assert len(marked(mark)) >= 4
        begin = time.monotonic()
    assert time.monotonic() - begin < 3
    await eventually(lambda: not marked(mark))


@pytest.mark.parametrize(
    "ending", ["exit 3", "read -r other", "sleep 60"], ids=["dies", "never answers", "hangs"]
)
async def test_what_left_the_program_s_group_ends_with_it(ending: str, program: Starting) -> None:
    line = f"setsid sleep 60 & read -r line; {ending}"
    async with program(command=line, timeout=300) as runner:
        with pytest.raises(HookError):
            await ask(runner)
    assert not marked(mark)


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
        assert not marked(mark)


async def test_closing_ends_a_call_that_does_not(program: Starting, tmp_path: Path) -> None:
    async with program(SLOW_ONCE) as runner:
        call = asyncio.create_task(ask(runner, n="a"))
        await eventually((tmp_path / "begun").exists)
        await runner.close()
        with pytest.raises(HookError, match=r"^is closed$"):
            await call


async def test_a_hook_that_never_ran_closes_and_runs_no_more(program: Starting) -> None:
    async with program(ECHO) as runner:
        await runner.close()
        with pytest.raises(HookError, match=r"^is closed$"):
            await ask(runner, n=1)


# ---- what it is for


@pytest.mark.parametrize("name", ["guard.py", pytest.param("guard.mjs", marks=needs_node)])
async def test_the_documented_hooks_run_as_they_are_shown(
    name: str, program: Starting, tmp_path: Path
) -> None:
    file = tmp_path / name
    file.write_text(documented(name))
    file.chmod(0o755)
    async with program(command=[f"./{name}"]) as runner:
        for _ in range(2):
            assert await ask(runner, llm_request=KEY) == KEPT_HERE
            assert await ask(runner, llm_request=GREETING) == {}


async def test_a_kept_process_is_at_least_fifteen_times_faster_than_a_new_one(
    program: Starting, tmp_path: Path
) -> None:
    spawned = CommandConfig(type="command", command=[sys.executable, "-c", "import json; print('{}')"])
    async with program(ECHO) as kept, running(hook_of(spawned, tmp_path)) as new:
        await ask(kept, n=0)
        assert await _fastest(kept, 50) * 15 < await _fastest(new, 5)


async def _fastest(runner: Runner, calls: int) -> float:
    """Seconds of the quickest of some calls: what the machine does beside matters least to it."""
    times = []
    for _ in range(calls):
        begin = time.perf_counter()
        await ask(runner, n=0)
        times.append(time.perf_counter() - begin)
    return min(times)
