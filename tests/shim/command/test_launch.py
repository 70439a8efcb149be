"""`hookgate run`: the variables, the session's events, signals and exit codes of the program inside."""

import asyncio
import contextlib
import json
import os
import pty
import select
import signal
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateway.event_service import NOWHERE, event_service, hookgate, variables
from support.gateway.loopback import listens, running_gateway, says
from support.programs.program import COMMAND

SHOW = "import json, os; print(json.dumps(dict(os.environ)))"
READY = "import signal, sys, time\n{}\nprint('ready', flush=True)\nfor _ in range(600): time.sleep(0.05)"
ASKS = """
import json, os, urllib.request
body = json.dumps({"contents": [{"role": "user", "parts": [{"text": "hi"}]}]}).encode()
url = os.environ["GOOGLE_GEMINI_BASE_URL"] + "/v1beta/models/gemini-2.5-flash:generateContent"
headers = {"content-type": "application/json", "x-goog-api-key": os.environ["GEMINI_API_KEY"]}
urllib.request.urlopen(urllib.request.Request(url, body, headers)).read()
"""


def python(code: str) -> tuple[str, ...]:
    return ("--", sys.executable, "-c", code)


async def test_every_client_s_variable_points_at_the_session() -> None:
    async with event_service() as service:
        env = {"HOOKGATE_URL": service.url, "GEMINI_CLI_CUSTOM_HEADERS": "X-Mine: 1", "https_proxy": NOWHERE}
        ended = await hookgate("run", "--session", "abc", *python(SHOW), env=env)
    assert ended.code == 0, ended.err
    inside = json.loads(ended.out)
    assert {
        inside[name] for name in ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT")
    } == {f"{service.url}/s/abc"}
    assert inside["GEMINI_CLI_CUSTOM_HEADERS"] == "X-Mine: 1, X-Hookgate-Session: abc"
    assert (inside["HOOKGATE_URL"], inside["HOOKGATE_SESSION"]) == (service.url, "abc")
    assert inside["NO_PROXY"] == inside["no_proxy"] == "127.0.0.1"


async def test_the_session_s_beginning_and_end_are_reported(tmp_path: Path) -> None:
    async with event_service() as service:
        env = {"GEMINI_API_KEY": "k"}
        await hookgate("run", "--gateway", service.url, *python("pass"), env=env, folder=tmp_path)
    (start, headers, begun), (end, _, ended) = service.reported
    session = begun["session_id"]
    assert start == f"/s/{session}/hookgate/v1/events/SessionStart"
    assert end == f"/s/{session}/hookgate/v1/events/SessionEnd"
    assert (headers["x-goog-api-key"], headers["x-hookgate-context"]) == ("k", "deliver")
    assert begun.keys() == {"session_id", "transcript_path", "cwd", "hook_event_name", "timestamp", "source"}
    assert (begun["source"], begun["cwd"], ended["reason"]) == ("startup", str(tmp_path), "exit")


@pytest.mark.parametrize(
    "output", [{"decision": "deny", "reason": "Not today."}, {"continue": False, "stopReason": "Not today."}]
)
async def test_a_refused_session_never_starts_the_program(output: Any, tmp_path: Path) -> None:
    async with event_service() as service:
        service.answers["SessionStart"] = output
        words = ("--gateway", service.url, *python(f"open({str(tmp_path / 'ran')!r}, 'w')"))
        ended = await hookgate("run", *words)
    assert (ended.code, ended.complaint) == (2, "hookgate run: Not today.")
    assert len(service.reported) == 1
    assert not (tmp_path / "ran").exists()


async def test_streams_and_exit_code_are_the_program_s() -> None:
    code = "import sys; sys.stdout.write(sys.stdin.read()); sys.stderr.write('e'); sys.exit(7)"
    async with event_service() as service:
        ended = await hookgate("run", "--gateway", service.url, *python(code), given=b"\x00in")
        assert (ended.code, ended.out, ended.err) == (7, "\x00in", "e")
        code = "import os; os.kill(os.getpid(), 9)"
        assert (await hookgate("run", "--gateway", service.url, *python(code))).code == 128 + 9
        words = ("sh", "-c", 'printf %s "$1$2"', "sh", "--", "-x")
        assert (await hookgate("run", "--gateway", service.url, "--", *words)).out == "---x"


@asynccontextmanager
async def ready(url: str, code: str) -> AsyncIterator[asyncio.subprocess.Process]:
    """A launcher whose program waits for a signal."""
    process = await asyncio.create_subprocess_exec(
        *(*COMMAND, "run", "--gateway", url, *python(READY.format(code))),
        env=variables({}),
        stdout=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    assert process.stdout
    try:
        async with asyncio.timeout(20):
            assert await process.stdout.readline() == b"ready\n"
            yield process
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        async with asyncio.timeout(20):
            await process.communicate()


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP", "SIGWINCH", "SIGUSR1"])
async def test_a_signal_to_the_launcher_reaches_the_program(name: str) -> None:
    number = signal.Signals[name]
    async with (
        event_service() as service,
        ready(service.url, f"signal.signal({number:d}, lambda n, _: sys.exit(40 + n))") as process,
    ):
        process.send_signal(number)
        assert await process.wait() == 40 + number
    assert service.paths[-1].endswith("SessionEnd")


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP"])
async def test_a_program_that_a_signal_ended_gives_its_number(name: str) -> None:
    number = signal.Signals[name]
    code = (
        f"signal.signal(signal.{name}, signal.SIG_DFL)"  # the tests may run under nohup, which ignores SIGHUP
    )
    async with event_service() as service, ready(service.url, code) as process:
        process.send_signal(number)
        assert await process.wait() == 128 + number


async def test_a_program_that_stops_stops_the_launcher_until_both_continue() -> None:
    code = "signal.signal(signal.SIGCONT, lambda *_: sys.exit(5))\nimport os, threading\n"
    code += "threading.Timer(0.2, os.kill, (os.getpid(), signal.SIGSTOP)).start()"
    async with event_service() as service, ready(service.url, code) as process:
        await asyncio.to_thread(_wait_until_stopped, process.pid)
        os.killpg(process.pid, signal.SIGCONT)  # as a shell's fg
        assert await process.wait() == 5


def _wait_until_stopped(pid: int) -> None:
    while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "T":
        time.sleep(0.02)


async def test_at_a_terminal_the_program_is_in_the_foreground_and_hears_each_key_once() -> None:
    code = "import os\nheard = []\n"
    code += (
        "signal.signal(signal.SIGINT, lambda *_: (heard.append(1), print('heard', len(heard), flush=True)))\n"
    )
    code += "print(os.isatty(0), os.tcgetpgrp(0) == os.getpgrp(), flush=True)"
    async with event_service() as service:
        command = [*COMMAND, "run", "--gateway", service.url, *python(READY.format(code))]
        pid, terminal = await asyncio.to_thread(_at_terminal, command)
        try:
            seen = await asyncio.to_thread(_read_until, terminal, b"ready")
            assert b"True True" in seen
            os.write(terminal, b"\x03")
            assert b"heard 1" in await asyncio.to_thread(_read_until, terminal, b"heard 1")
            assert b"heard 2" not in await asyncio.to_thread(_read_until, terminal, b"heard 2", 0.5)
        finally:
            os.killpg(pid, signal.SIGKILL)
            await asyncio.to_thread(os.waitpid, pid, 0)
            os.close(terminal)


def _at_terminal(command: list[str]) -> tuple[int, int]:
    """Start a program as a shell on a terminal of its own would; its process and the terminal's other end."""
    controlling, terminal = pty.openpty()
    starter = "import fcntl, os, sys, termios\nfcntl.ioctl(0, termios.TIOCSCTTY, 0)\n"
    starter += "os.execv(sys.argv[1], sys.argv[1:])"
    pid = os.posix_spawn(
        sys.executable,
        [sys.executable, "-c", starter, *command],
        variables({}),
        setsid=True,
        file_actions=[(os.POSIX_SPAWN_DUP2, terminal, descriptor) for descriptor in (0, 1, 2)],
    )
    os.close(terminal)
    return pid, controlling


def _read_until(terminal: int, mark: bytes, seconds: float = 15) -> bytes:
    """What the terminal shows up to a mark, or until the time is over."""
    shown, deadline = b"", time.monotonic() + seconds
    while mark not in shown and (left := deadline - time.monotonic()) > 0:
        if select.select([terminal], [], [], left)[0]:
            shown += os.read(terminal, 4096)
    return shown


@pytest.mark.parametrize(
    ("words", "code", "expected"),
    [
        pytest.param(["--gateway", NOWHERE, "--", "true"], 1, "is not reachable", id="no gateway"),
        pytest.param(
            ["--session", "a/b", "--", "true"], 1, "'a/b' is not a valid session id", id="a bad name"
        ),
        pytest.param(["--", "no-such-agent"], 127, "not found", id="no program"),
        pytest.param(["--", "/etc/passwd"], 126, "cannot be executed", id="no executable"),
    ],
)
async def test_what_is_wrong_is_reported_on_one_line(words: list[str], code: int, expected: str) -> None:
    ended = await hookgate("run", *words)
    assert (ended.code, expected in ended.complaint) == (code, True), ended.err


async def test_a_program_and_its_hooks_are_in_one_session_at_a_real_gateway() -> None:
    seen: list[dict[str, Any]] = []
    hooks = {
        "SessionStart": [says(additionalContext="Be brief."), listens(seen)],
        "BeforeModel": [listens(seen)],
        "BeforeTool": [listens(seen)],
        "SessionEnd": [listens(seen)],
    }
    inside = f"""{ASKS}
import subprocess
words = {[*COMMAND, "event", "BeforeTool"]!r}
subprocess.run(words, input=b'{{"tool_name": "t", "tool_input": {{}}}}', check=True)
"""
    async with running_gateway(hooks) as gateway:
        env = {"GEMINI_API_KEY": "k", "HOOKGATE_URL": gateway.url}
        ended = await hookgate("run", "--session", "abc", *python(inside), env=env)
    assert ended.code == 0, ended.err
    events = ["SessionStart", "BeforeModel", "BeforeTool", "SessionEnd"]
    assert [each["hook_event_name"] for each in seen] == events
    assert {each["session_id"] for each in seen} == {"abc"}
    [request] = gateway.generated
    assert "Be brief." in json.dumps(request.body)
