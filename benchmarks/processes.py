"""Starts servers on a core of their own, and measures their processor time and memory."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

HOOKGATE = (sys.executable, "-m", "hookgate.proxy")
"""The command that starts hookgate in this environment, as a list of words."""

_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 180  # callgrind on a busy machine takes more than a minute


@cache
def cores() -> tuple[int, int]:
    """Return the core for the load and the upstream, and the core for the measured proxy.

    The first call decides, because a benchmark later restricts itself to the core of the load.
    """
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


@dataclass(frozen=True)
class Server:
    """A running server: its base URL and its first process."""

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """Return the processor time of the server and of its child processes, in seconds.

        Children that have ended are included once the server has waited for them.
        """
        return sum(_cpu_seconds(pid) for pid in _family(self.pid))

    def resident_bytes(self) -> int:
        """Return the resident memory of the server and of its child processes, in bytes."""
        return sum(_status(pid, "VmRSS") for pid in _family(self.pid))

    def peak_bytes(self) -> int:
        """Return the peak resident memory of the first process since `reset_peak`, in bytes."""
        return _status(self.pid, "VmHWM")

    def reset_peak(self) -> None:
        """Reset the peak to the current memory."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")

    def wait_until_idle(self) -> None:
        """Wait until the server and its child processes use less than a tenth of a core."""
        before = -1.0
        while (now := self.cpu_seconds()) - before > 0.05:
            before = now
            time.sleep(0.5)

    def use_cores(self, usable: Collection[int]) -> None:
        """Allow the threads of the server and of its child processes to run on these cores."""
        for pid in _family(self.pid):
            for thread in Path(f"/proc/{pid}/task").iterdir():
                with contextlib.suppress(ProcessLookupError):
                    os.sched_setaffinity(int(thread.name), usable)


@contextlib.contextmanager
def hookgate(
    command: Sequence[str], origin: str, settings: Sequence[Path], environment: Mapping[str, str]
) -> Iterator[Server]:
    """Start the gateway with its default settings.

    Args:
        command: The command that starts hookgate, as a list of words.
        origin: The URL of the upstream.
        settings: Settings files with hooks.
        environment: Environment variables to add or replace.
    """
    port = free_port()
    serve = ["serve", "--listen", f"127.0.0.1:{port}", "--upstream", origin]
    hooks = ["--hooks", *map(str, settings)] if settings else []
    with tempfile.TemporaryDirectory() as state:
        own = {
            "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0",
            "HOOKGATE_CONFIG": "/dev/null",
            "HOOKGATE_STATE": state,
            **environment,
        }
        with running([*command, *serve, *hooks], port, own) as server:
            yield server


@contextlib.contextmanager
def running(argv: Sequence[str], port: int, environment: Mapping[str, str] | None = None) -> Iterator[Server]:
    """Start a program on the core of the proxy, and wait until it listens on the port.

    Raises:
        RuntimeError: The program exits or does not listen in time. The message ends with its output.
    """
    with on_core(argv, port, cores()[1], environment) as server:
        yield server


@contextlib.contextmanager
def on_core(
    argv: Sequence[str], port: int, core: int, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Start a program on a core, and wait until it listens on the port.

    Raises:
        RuntimeError: The program exits or does not listen in time. The message ends with its output.
    """
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen(
            ["taskset", "-c", str(core), *argv],
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            env={**_bytecode(os.environ), **(environment or {})},
        )
        try:
            if not _listens(process, port):
                output.seek(0)
                raise RuntimeError(f"{' '.join(argv)} does not listen: {output.read()[-2000:].decode()}")
            yield Server(f"http://127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def free_port() -> int:
    """Return a free port."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with bytecode files enabled, as in an installation."""
    return {name: value for name, value in environment.items() if name != "PYTHONDONTWRITEBYTECODE"}


def _listens(process: subprocess.Popen[bytes], port: int) -> bool:
    end = time.monotonic() + _START_SECONDS
    while process.poll() is None and time.monotonic() < end:
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return True
        time.sleep(0.005)
    return False


def _family(pid: int) -> Iterator[int]:
    yield pid
    with contextlib.suppress(OSError):
        for task in Path(f"/proc/{pid}/task").iterdir():
            for child in (task / "children").read_text().split():
                yield from _family(int(child))


def _cpu_seconds(pid: int) -> float:
    """Return the processor time of a process (to the nanosecond) and of its ended children (to the tick)."""
    try:
        own = time.clock_gettime(~pid << 3 | 2)  # the clock ID of another process's CPU time
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended, so the parent's figure includes it
    return own + (int(fields[13]) + int(fields[14])) / _TICKS


def _status(pid: int, name: str) -> int:
    try:
        line = next(
            each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith(name)
        )
    except OSError:
        return 0
    return int(line.split()[1]) * 1024
