"""Servers under measurement: processes on a core of their own, with their processor time and memory."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

HOOKGATE = (sys.executable, "-m", "hookgate.proxy")
"""The words that start hookgate, of this environment."""

_TICKS = os.sysconf("SC_CLK_TCK")
_START_SECONDS = 60


def cores() -> tuple[int, int]:
    """Return the core of load and upstream, and the core of the proxy under measurement."""
    usable = sorted(os.sched_getaffinity(0))
    return usable[0], usable[-1]


@dataclass(frozen=True)
class Server:
    """A running server: its base URL and its first process."""

    url: str
    pid: int

    def cpu_seconds(self) -> float:
        """Return the processor time of the server and of everything that it has started.

        Programs that it started and that have ended count once it has waited for them.
        """
        return sum(_cpu_seconds(pid) for pid in _family(self.pid))

    def resident_bytes(self) -> int:
        """Return the memory of the server and of everything that runs for it."""
        return sum(_status(pid, "VmRSS") for pid in _family(self.pid))

    def peak_bytes(self) -> int:
        """Return the most memory that the first process has held since `forget_peak`."""
        return _status(self.pid, "VmHWM")

    def forget_peak(self) -> None:
        """Begin to observe the peak anew."""
        Path(f"/proc/{self.pid}/clear_refs").write_text("5")


@contextlib.contextmanager
def hookgate(
    command: Sequence[str], origin: str, settings: Sequence[Path], environment: Mapping[str, str]
) -> Iterator[Server]:
    """Start the gateway with its defaults, as a user does.

    Args:
        command: The words that start hookgate.
        origin: The URL of the upstream.
        settings: Settings files with hooks.
        environment: Variables that differ from the defaults.
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
        RuntimeError: It has ended, or does not listen in time. The message ends with what it printed.
    """
    with on_core(argv, port, cores()[1], environment) as server:
        yield server


@contextlib.contextmanager
def on_core(
    argv: Sequence[str], port: int, core: int, environment: Mapping[str, str] | None = None
) -> Iterator[Server]:
    """Start a program on a core, and wait until it listens on the port.

    Raises:
        RuntimeError: It has ended, or does not listen in time. The message ends with what it printed.
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
    """Return a port that nothing listens on."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _bytecode(environment: Mapping[str, str]) -> dict[str, str]:
    """Return the environment with bytecode on disk, as it is where something is installed."""
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
    """Return the time of a process, to the nanosecond, and of its children that have ended, to the tick."""
    try:
        own = time.clock_gettime(~pid << 3 | 2)  # the kernel's number of the clock of another process
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # ended meanwhile, so it counts with its parent
    return own + (int(fields[13]) + int(fields[14])) / _TICKS


def _status(pid: int, name: str) -> int:
    try:
        line = next(
            each for each in Path(f"/proc/{pid}/status").read_text().splitlines() if each.startswith(name)
        )
    except OSError:
        return 0
    return int(line.split()[1]) * 1024
