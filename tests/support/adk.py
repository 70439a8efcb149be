"""Agents of google-adk, which has an environment of its own (`make adk`).

To import google-adk takes seconds, to ask an agent a few milliseconds. So one process imports it for all
tests of a worker (support/adk_runner.py), and runs one script after the other. What a start itself does is
seen where tests/shim/test_examples.py runs an example as users do.
"""

import asyncio
import atexit
import functools
import json
import subprocess
from pathlib import Path

from support.commands import LIMIT, Ran, missing
from support.places import PROJECT

_PYTHON = PROJECT / ".venv-adk" / "bin" / "python"


def adk_python() -> str:
    """The interpreter that has google-adk; skips the test, or fails it where CI is set, if it is missing."""
    if not _PYTHON.exists():
        missing("needs google-adk: run `make adk`")
    return str(_PYTHON)


async def run_agent(script: Path, *words: str) -> Ran:
    """Run the `main` of a script with these words."""
    runner = _runner(adk_python())
    try:
        async with asyncio.timeout(LIMIT):
            code, out, err = await asyncio.to_thread(_ask, runner, json.dumps([str(script), *words]))
    except BaseException:  # what is left of its answer must be no other test's
        runner.kill()
        _runner.cache_clear()
        raise
    return Ran(code, out, err)


def _ask(runner: subprocess.Popen[str], line: str) -> tuple[int, str, str]:
    assert runner.stdin
    assert runner.stdout
    runner.stdin.write(f"{line}\n")
    runner.stdin.flush()
    answer = runner.stdout.readline()
    assert answer, "what runs agents has ended"
    code, out, err = json.loads(answer)
    return code, out, err


@functools.cache
def _runner(python: str) -> subprocess.Popen[str]:
    """The process that runs the scripts, which ends when this one does."""
    environment = {"GOOGLE_API_KEY": "any", "PYTHONPATH": str(PROJECT / "shim")}
    pipe = subprocess.PIPE
    code = Path(__file__).with_name("adk_runner.py").read_text()  # run so, it imports nothing of this folder
    runner = subprocess.Popen(
        [python, "-c", code],
        cwd="/",  # it reads settings from its folder
        env=environment,
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )

    def end() -> None:
        with runner:
            runner.kill()

    atexit.register(end)
    return runner
