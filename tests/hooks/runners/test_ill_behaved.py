"""Ill-behaved command hooks, from a settings file: each has its documented outcome, in time.

Nothing of them is left once the verdict is there, whether this process adopts orphans or not.
"""

import asyncio
import logging
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from uuid import uuid4

import pytest
from support.hooks.settings import SESSION, asking, command, texts_of, write_file
from support.programs.processes import MARK_VARIABLE, children, descriptors, eventually, marked

from hookgate.hooks import BeforeModel, BeforeToolSelection, Engine, Outcome
from hookgate.hooks.runners import cleanup
from hookgate.hooks.runners.cleanup import adopting_orphans
from hookgate.hooks.settings import SettingsSource, load_sources

DONE = """echo '{"systemMessage": "done"}'"""
DENY = """echo '{"decision": "deny", "reason": "no"}'"""
HUGE = '{"decision": "deny", "a": ' + "1" * 5000 + "}"
BOUND = 30_000
"""The timeout in ms of hooks that end by themselves: what hangs for a minute all the same fails."""


@dataclass(frozen=True)
class Ill:
    """A hook and its documented outcome: an error, a denial's reason, or a message; else it says nothing."""

    id: str
    line: str | list[str]
    error: str = ""
    denied: str | None = None
    message: str | None = None
    timeout: int = BOUND
    asked: str = "hi"


def python(code: str) -> list[str]:
    return [sys.executable, "-S", "-c", code]


AFTER_ITS_END = "while kill -0 $$; do sleep 0.01; done 2>/dev/null"
"""In a background child: wait until the program is reaped."""

SETSID = """
import os, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    os.write(write, b"x")
    time.sleep(60)
    os._exit(0)
os.read(read, 1)
print('{"systemMessage": "done"}')
"""

DAEMON = """
import os, time
read, write = os.pipe()
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        os.write(write, b"x")
        os.closerange(0, 64)
        time.sleep(60)
    os._exit(0)
os.wait()
os.read(read, 1)
print('{"systemMessage": "done"}')
"""

FORK_BOMB = """
import os, time
read, write = os.pipe()
def bomb(depth):
    for _ in range(6 if depth else 0):
        if os.fork() == 0:
            os.setsid()
            os.write(write, b"x")
            bomb(depth - 1)
            time.sleep(60)
            os._exit(0)
bomb(3)
os.read(read, 1)
print('{"systemMessage": "done"}', flush=True)
"""

CHAIN = """
import os, sys, time
read, write = os.pipe()
if os.fork() == 0:
    os.write(write, b"x")
    for _ in range(3000):
        if os.fork():
            os._exit(0)
        os.setsid()
    time.sleep(60)
os.read(read, 1)
print('{"systemMessage": "done"}', flush=True)
"""

ILL = [
    Ill("missing-program", ["/no/such/program"], error="cannot be started: No such file or directory"),
    Ill("missing-in-the-shell", "/no/such/program", error="exited with code 127: "),
    Ill("a-folder", ["/"], error="cannot be started: Permission denied"),
    Ill("not-executable", ": > note; ./note", error="exited with code 126: "),
    Ill("exit-1", f"{DONE}; exit 1", error="exited with code 1"),
    Ill("exit-3", f"{DENY}; echo oops >&2; exit 3", error="exited with code 3: oops"),
    Ill("exit-2-without-output", "exit 2", denied="Blocked by the hook 'ill'."),
    Ill("exit-2-as-an-orphan-s-parent", "sleep 60 & exit 2", denied="Blocked by the hook 'ill'."),
    Ill("sigsegv", f"{DONE}; kill -SEGV $$", error="was killed by signal 11"),
    Ill("kills-its-own-group", f"{DONE}; kill -KILL 0", error="was killed by signal 9"),
    Ill("ignores-term", "trap '' TERM INT HUP; while :; do sleep 0.01; done", error="timed out", timeout=300),
    Ill("orphan-holds-the-pipe", f"sleep 60 & {DONE}", message="done"),
    Ill("setsid", python(SETSID), message="done"),
    Ill("double-fork-and-setsid", python(DAEMON), message="done"),
    Ill("setsid-and-hangs", python(SETSID + "time.sleep(60)"), error="timed out", timeout=500),
    Ill("gigabyte-on-stdout", "head -c 1000000000 /dev/zero", error="printed more than 1048576 bytes"),
    Ill("gigabyte-on-stderr", f"head -c 1000000000 /dev/zero >&2; {DONE}", message="done", timeout=60_000),
    Ill("never-reads-stdin", DONE, message="done", asked="x" * 5_000_000),
    Ill("never-reads-stdin-and-hangs", "sleep 60", error="timed out", timeout=300, asked="x" * 5_000_000),
    Ill("closes-stdout-and-hangs", f"{DENY}; exec >&-; sleep 60", error="timed out", timeout=300),
    Ill("half-a-json", """printf '{"decision": "de'""", message='{"decision": "de'),
    Ill("json-encoded-twice", r"""echo '"{\"decision\": \"deny\", \"reason\": \"no\"}"'""", denied="no"),
    Ill("bom-before-json", r"""printf '\xef\xbb\xbf{"decision": "deny", "reason": "no"}'""", denied="no"),
    Ill("invalid-utf-8", r"""printf '{"systemMessage": "a\xff"}'""", message="a\N{REPLACEMENT CHARACTER}"),
    Ill("nan", """echo '{"a": NaN}'""", message='{"a": NaN}'),
    Ill("huge-integer", f"echo {shlex.quote(HUGE)}", denied=""),
    Ill("list", "echo '[1, 2]'"),
    Ill("fork-bomb", python(FORK_BOMB), message="done"),
    Ill("fork-bomb-and-hangs", python(FORK_BOMB + "time.sleep(60)"), error="timed out", timeout=700),
    Ill("chain-of-forks", python(CHAIN), message="done"),
    Ill("stops-itself", "kill -STOP $$", error="timed out", timeout=300),
    Ill("writes-for-ever-slowly", "while :; do echo x; sleep 0.01; done", error="timed out", timeout=300),
    Ill("child-writes-on", f"({AFTER_ITS_END}; yes) & {DONE}", message="done"),
    Ill("child-writes-a-verdict", f"({AFTER_ITS_END}; {DENY}) & exit 0"),
    Ill("exec", f"exec bash -c {shlex.quote(DENY)}", denied="no"),
    Ill("exec-without-environment", 'exec env -i /bin/echo \'{"systemMessage": "done"}\'', message="done"),
    Ill("closes-all", "exec 0<&- 1>&- 2>&-; sleep 60", error="timed out", timeout=300),
    Ill("closes-all-and-ends", "exec 0<&- 1>&- 2>&-"),
]


@pytest.fixture(params=["adopting-orphans", "by-mark"])
def _finding(request: pytest.FixtureRequest) -> Iterator[None]:
    """Both ways to find what escaped."""
    with adopting_orphans() if request.param == "adopting-orphans" else nullcontext():
        yield


@pytest.fixture
def mark(monkeypatch: pytest.MonkeyPatch) -> str:
    """What all processes of a test's hooks carry."""
    mark = uuid4().hex
    monkeypatch.setenv(MARK_VARIABLE, mark)
    return mark


@pytest.fixture
async def clean(mark: str) -> AsyncIterator[None]:
    """Nothing is left, not even for a moment."""
    before = children(), descriptors()
    yield
    assert marked(mark) == set()
    assert (children(), descriptors()) == before


def load(folder: Path, line: str | list[str], timeout: int = BOUND) -> Engine:
    """An engine with the hook, and a good one on another event."""
    hook = {
        "type": "command",
        "name": "ill",
        "command": line,
        "timeout": timeout,
        "env": {MARK_VARIABLE: f"${MARK_VARIABLE}"},
    }
    events = {"BeforeModel": [{"hooks": [hook]}], "BeforeToolSelection": [{"hooks": [command(DENY)]}]}
    file = write_file(folder, {"hooks": events}, ".gemini/settings.json")
    return Engine(load_sources([SettingsSource(file, "user")]))  # where a failed hook is a warning


async def fire(engine: Engine, asked: str = "hi") -> Outcome[BeforeModel]:
    return await engine.fire(asking(asked), SESSION)


async def other_call_works(engine: Engine) -> bool:
    outcome = await engine.fire(BeforeToolSelection("gemini-2.5-flash", asking("hi").body), SESSION)
    return outcome.verdict.denied


@pytest.mark.usefixtures("_finding", "clean")
@pytest.mark.parametrize("ill", ILL, ids=lambda ill: ill.id)
async def test_an_ill_behaved_hook_has_its_outcome_in_time_and_leaves_nothing(
    ill: Ill, tmp_path: Path
) -> None:
    engine = load(tmp_path, ill.line, ill.timeout)
    begin = time.monotonic()
    outcome = await fire(engine, ill.asked)
    # On a busy machine an end takes its time, but nobody waits for a `sleep 60`.
    assert time.monotonic() - begin < ill.timeout / 1000 + 20
    [run] = outcome.runs
    assert run.error.startswith(ill.error) if ill.error else run.error == ""
    assert outcome.verdict.denied == (ill.denied is not None)
    assert ill.denied is None or outcome.verdict.reason == ill.denied
    assert outcome.verdict.system_messages == ((ill.message,) if ill.message else ())
    assert texts_of(outcome.event) == [ill.asked]
    assert await other_call_works(engine)


@pytest.mark.usefixtures("_finding", "clean")
async def test_a_call_cancelled_in_the_middle_leaves_nothing(tmp_path: Path, mark: str) -> None:
    (tmp_path / "daemon.py").write_text(DAEMON)
    line = f"{sys.executable} -S daemon.py >/dev/null; sleep 60 & echo > ready; wait"
    engine = load(tmp_path, line)
    call = asyncio.create_task(fire(engine))
    await eventually((tmp_path / "ready").exists)
    await eventually(lambda: len(marked(mark)) == 3)  # the shell, its child, the daemon
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert await other_call_works(engine)


# ---- what adopting adds, and what it leaves alone

CLEARED = "env -i setsid bash -c 'echo $$ > escaped; exec sleep 60' & until [ -s escaped ]; do :; done"
"""An escapee without a mark, and its number in a file."""


@pytest.mark.usefixtures("clean")
async def test_an_escapee_that_clears_its_environment_is_caught_by_adopting(tmp_path: Path) -> None:
    with adopting_orphans():
        await fire(load(tmp_path, CLEARED))
        with pytest.raises(ProcessLookupError):
            os.kill(int((tmp_path / "escaped").read_text()), 0)


@pytest.mark.usefixtures("mark")
async def test_without_adopting_it_is_out_of_reach(tmp_path: Path) -> None:
    await fire(load(tmp_path, CLEARED))
    os.kill(int((tmp_path / "escaped").read_text()), signal.SIGKILL)


@pytest.mark.parametrize("new_session", [False, True], ids=["own-session", "new-session"])
@pytest.mark.parametrize("begun", ["before", "meanwhile"])
async def test_what_the_program_itself_started_is_left_alone(
    begun: str, new_session: bool, tmp_path: Path
) -> None:
    def start() -> subprocess.Popen[bytes]:
        return subprocess.Popen(["cat"], stdin=subprocess.PIPE, start_new_session=new_session)

    own = start() if begun == "before" else None
    with adopting_orphans():
        own = own or start()
        await fire(load(tmp_path, python(DAEMON)))
        with own:
            assert own.poll() is None
    assert own.returncode == 0


@pytest.mark.usefixtures("_finding", "clean")
@pytest.mark.parametrize(
    "line",
    [
        "exec env -i bash -c 'echo > ready; read line < go; echo ok'",
        "setsid bash -c 'read line < go; echo ok > answer' & echo > ready; read line < answer; echo ok",
    ],
    ids=["without-environment", "with-a-session-of-its-own"],
)
async def test_the_end_of_one_hook_does_not_affect_another_that_runs(line: str, tmp_path: Path) -> None:
    for fifo in ("go", "answer"):
        os.mkfifo(tmp_path / fifo)
    waiting = asyncio.create_task(fire(load(tmp_path, line)))
    await eventually((tmp_path / "ready").exists)
    await fire(load(tmp_path / "other", python(DAEMON)))
    go = os.open(tmp_path / "go", os.O_RDWR)  # which waits for no reader
    os.write(go, b"\n")
    assert (await waiting).verdict.system_messages == ("ok",)
    os.close(go)


async def test_a_hook_carries_no_mark_but_its_own(tmp_path: Path) -> None:
    with adopting_orphans():
        outcome = await fire(load(tmp_path, "echo $HOOKGATE_RUN"))
        [marked_as] = outcome.verdict.system_messages
        assert marked_as not in ("", os.environ["HOOKGATE_RUN"])


async def test_a_process_that_cannot_be_killed_is_reported_once_and_does_not_delay_later_calls(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    engine = load(tmp_path, CLEARED)
    caplog.clear()  # warnings about its settings
    caplog.set_level(logging.WARNING, "hookgate")
    with adopting_orphans():
        with monkeypatch.context() as context:
            context.setattr(cleanup.os, "kill", lambda *_: None)
            context.setattr(cleanup, "_PATIENCE", 0.05)
            await fire(engine)
            escaped = (tmp_path / "escaped").read_text().strip()
            assert caplog.messages == [f"A hook's processes cannot be ended: {escaped}"]
            assert await other_call_works(engine)
            assert len(caplog.messages) == 1
        assert await other_call_works(engine)  # kills it, and need not wait
    await eventually(lambda: int(escaped) not in children() or os.waitpid(int(escaped), os.WNOHANG) != (0, 0))


def test_adopting_ends_with_its_block() -> None:
    with adopting_orphans():
        assert "HOOKGATE_RUN" in os.environ
    assert "HOOKGATE_RUN" not in os.environ
    orphan = subprocess.run(["sh", "-c", "sleep 60 >/dev/null & echo $!"], stdout=subprocess.PIPE, check=True)
    try:
        assert int(orphan.stdout) not in children()
    finally:
        os.kill(int(orphan.stdout), signal.SIGKILL)
