"""Processes that import packages once, and then run one script after the other.

To import what a client needs takes seconds, to ask with it a few milliseconds.
"""

import asyncio
import atexit
import functools
import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from weakref import WeakKeyDictionary

from support.programs.commands import LIMIT, Ran


@dataclass(frozen=True)
class ScriptRunner:
    """A program that runs scripts, in one process for all tests of a worker.

    A line of its stdin is a JSON list: a script, and the words to call it with. A line of its stdout answers:
    exit code, stdout, stderr.
    """

    command: tuple[str, ...]
    folder: Path
    variables: tuple[tuple[str, str], ...]
    """Its environment, beside an empty home."""

    async def run(self, script: Path, *words: str) -> Ran:
        """Run a script with these words."""
        loop = asyncio.get_running_loop()
        async with _locks.setdefault(loop, {}).setdefault(self, asyncio.Lock()):
            process = _process(self)
            try:
                async with asyncio.timeout(LIMIT):
                    code, out, err = await asyncio.to_thread(_ask, process, json.dumps([str(script), *words]))
            except BaseException:  # what is left of its answer must be no other test's
                process.kill()
                _process.cache_clear()
                raise
            return Ran(code, out, err)


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[ScriptRunner, asyncio.Lock]] = WeakKeyDictionary()
"""One for each runner: its process runs one script at a time."""


def _ask(process: subprocess.Popen[str], line: str) -> tuple[int, str, str]:
    assert process.stdin
    assert process.stdout
    process.stdin.write(f"{line}\n")
    process.stdin.flush()
    answer = process.stdout.readline()
    assert answer, "what runs scripts has ended"
    code, out, err = json.loads(answer)
    return code, out, err


@functools.cache
def _process(runner: ScriptRunner) -> subprocess.Popen[str]:
    """The process that runs the scripts, which ends when this one does."""
    home = tempfile.TemporaryDirectory()
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        runner.command,
        cwd=runner.folder,
        env={**dict(runner.variables), "HOME": home.name},
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )

    def end() -> None:
        with home, process:
            process.kill()

    atexit.register(end)
    return process
