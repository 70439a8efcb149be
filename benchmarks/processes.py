"""Servers under measurement, each in a process of its own on a core of its own."""

import contextlib
import os
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Server:
    """A running server: its base URL and its process."""

    url: str
    pid: int


def peer(kind: str, core: int, *arguments: str) -> contextlib.AbstractContextManager[Server]:
    """One of benchmarks/peers.py."""
    port = free_port()
    return _running([sys.executable, "-m", "benchmarks.peers", kind, str(port), *arguments], port, core)


def hookgate(core: int, origin: str, *settings: Path) -> contextlib.AbstractContextManager[Server]:
    """The gateway, as somebody starts it."""
    port = free_port()
    serve = ["-m", "hookgate.proxy", "serve", "--listen", f"127.0.0.1:{port}", "--upstream", origin]
    hooks = ["--hooks", *map(str, settings)] if settings else []
    return _running([sys.executable, *serve, *hooks], port, core)


@contextlib.contextmanager
def _running(argv: list[str], port: int, core: int) -> Iterator[Server]:
    with tempfile.TemporaryDirectory() as state:  # what it remembers must be no other's
        own = {"HOOKGATE_ADMIN__ADDRESS": "off", "HOOKGATE_STATE": state}
        process = subprocess.Popen(argv, stderr=subprocess.DEVNULL, env={**own, **os.environ})
        os.sched_setaffinity(process.pid, {core})
        try:
            _wait_for(port)
            yield Server(f"http://127.0.0.1:{port}", process.pid)
        finally:
            process.terminate()
            process.wait()


def free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")
