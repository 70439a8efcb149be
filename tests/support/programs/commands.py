"""Programs that tests run to their end, in their own session and with a clean environment."""

import asyncio
import contextlib
import json
import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

LIMIT = 150.0  # seconds; far more than any of these programs takes, even behind a hook of 70


@dataclass(frozen=True)
class Ran:
    """How a program ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[Any]:
        """stdout as JSON lines, in whose strings there may be other line ends of Unicode."""
        return [json.loads(line) for line in self.stdout.split("\n") if line]


def missing(reason: str) -> None:
    """Skip the test for want of a program; where CI is set, fail instead."""
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


async def run_command(command: list[str], folder: Path, environment: Mapping[str, str] | None = None) -> Ran:
    """Run a program; beside PATH it gets these variables only: neither a key nor a proxy of the machine's."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={"PATH": os.environ["PATH"], **(environment or {})},
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(LIMIT):
            stdout, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.communicate()
    return Ran(process.returncode or 0, stdout.decode(), stderr.decode())
