"""Environments of agents whose dependencies are not ours: google-adk, google-antigravity, frameworks.

To import one of these takes seconds, to ask an agent a few milliseconds. So one process imports it for all
tests of a worker (support/environment_runner.py), and runs one script after the other. What a start itself
does is seen where tests/shim/test_examples.py runs an example as users do.
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

from support.commands import LIMIT, Ran, missing
from support.places import PROJECT


@dataclass(frozen=True)
class Environment:
    """A virtual environment that a target of the Makefile makes."""

    package: str
    target: str
    variables: tuple[tuple[str, str], ...] = ()
    """Further variables of its process."""

    def python(self) -> str:
        """The interpreter that has the package; skips the test, or fails it in CI, if it is missing."""
        folder = PROJECT / f".venv-{self.target}"
        if not (folder / ".installed").exists():
            missing(f"needs {self.package}: run `make {self.target}`")
        return str(folder / "bin" / "python")

    async def run(self, script: Path, *words: str) -> Ran:
        """Run the `main` of a script with these words."""
        loop = asyncio.get_running_loop()
        async with _locks.setdefault(loop, {}).setdefault(self, asyncio.Lock()):
            runner = _runner(self)
            try:
                async with asyncio.timeout(LIMIT):
                    code, out, err = await asyncio.to_thread(_ask, runner, json.dumps([str(script), *words]))
            except BaseException:  # what is left of its answer must be no other test's
                runner.kill()
                _runner.cache_clear()
                raise
            return Ran(code, out, err)


_locks: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Environment, asyncio.Lock]] = WeakKeyDictionary()
"""One for each environment: its process runs one script at a time."""


ADK = Environment("google-adk", "adk")
ANTIGRAVITY = Environment("google-antigravity", "antigravity")
FRAMEWORKS = Environment(
    "LangChain and LiteLLM",
    "frameworks",
    (("LITELLM_LOCAL_MODEL_COST_MAP", "True"),),  # or it downloads prices when it is imported
)


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
def _runner(environment: Environment) -> subprocess.Popen[str]:
    """The process that runs the scripts, which ends when this one does."""
    home = tempfile.TemporaryDirectory()
    sources = ":".join(str(PROJECT / part) for part in ("shim", "hooks", "translator"))
    keys = dict.fromkeys(("GEMINI_API_KEY", "GOOGLE_API_KEY"), "any")
    variables = {**keys, "HOME": home.name, "PYTHONPATH": sources, **dict(environment.variables)}
    pipe = subprocess.PIPE
    code = Path(__file__).with_name("environment_runner.py").read_text()  # it imports nothing of this folder
    runner = subprocess.Popen(
        [environment.python(), "-c", code],
        cwd="/",  # it reads settings from its folder
        env=variables,
        stdin=pipe,
        stdout=pipe,
        stderr=subprocess.DEVNULL,
        text=True,
        start_new_session=True,
    )

    def end() -> None:
        with home, runner:
            runner.kill()

    atexit.register(end)
    return runner
