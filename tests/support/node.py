"""Clients that run on Node: the scripts beside tests/e2e/node/package.json, and Gemini CLI."""

import asyncio
import contextlib
import json
import os
import shutil
import signal
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

NODE_DIR = Path(__file__).parents[1] / "e2e" / "node"
_INSTALLED = NODE_DIR / "node_modules" / "@google"
_LIMIT = 60.0  # seconds; far more than any of these programs takes


@dataclass(frozen=True)
class Ran:
    """How a program ended, and what it printed."""

    exit_code: int
    stdout: str
    stderr: str

    @property
    def lines(self) -> list[Any]:
        """stdout as JSON lines."""
        return [json.loads(line) for line in self.stdout.splitlines()]


def need_node(*, packages: bool = True) -> None:
    """Skip the test where Node, or a package of tests/e2e/node, is missing; where CI is set, fail instead."""
    if shutil.which("node") and (_INSTALLED.is_dir() or not packages):
        return
    reason = (
        "needs Node: run `make node`" if shutil.which("node") else "needs Node: install it, run `make node`"
    )
    if os.environ.get("CI"):
        pytest.fail(reason)
    pytest.skip(reason)


async def run_script(name: str, *arguments: str) -> Ran:
    """Run one of the scripts of tests/e2e/node, which print JSON lines."""
    need_node()
    return await _run(["node", str(NODE_DIR / name), *arguments], _environment(), NODE_DIR)


class GeminiCli:
    """Gemini CLI with a home and a workspace of its own in `folder`."""

    def __init__(self, folder: Path) -> None:
        need_node()
        self.workspace = folder / "workspace"
        self._home = folder / "home"
        self.workspace.mkdir()
        (self._home / ".gemini").mkdir(parents=True)
        settings = {
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "privacy": {"usageStatisticsEnabled": False},  # or it phones home at its start and end
        }
        (self._home / ".gemini" / "settings.json").write_text(json.dumps(settings))

    async def ask(
        self,
        base_url: str,
        prompt: str,
        *arguments: str,
        model: str = "gemini-2.5-flash",
        **environment: str,
    ) -> Ran:
        """One headless prompt. The base URL and a key are all that tells it of the gateway.

        The model "auto" makes it ask the model for the model first.
        """
        program = str(NODE_DIR / "node_modules" / ".bin" / "gemini")
        variables = {
            "HOME": str(self._home),
            "TMPDIR": str(self._home),  # it writes a report of a failed call there
            "GEMINI_API_KEY": "any",
            "GOOGLE_GEMINI_BASE_URL": base_url,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",  # else a headless run refuses a new folder
            "GEMINI_CLI_NO_RELAUNCH": "true",  # it starts itself again with more memory, for a second
            "NO_COLOR": "1",
            **environment,
        }
        command = [program, "--model", model, *arguments, "--prompt", prompt]
        return await _run(command, _environment() | variables, self.workspace)


def _environment() -> dict[str, str]:
    """The least a program needs: neither a key nor a proxy of the machine's own."""
    return {"PATH": os.environ["PATH"]}


async def _run(command: list[str], environment: dict[str, str], folder: Path) -> Ran:
    process = await asyncio.create_subprocess_exec(
        *command,
        env=environment,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(_LIMIT):
            stdout, stderr = await process.communicate()
    finally:
        if process.returncode is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
    return Ran(process.returncode or 0, stdout.decode(), stderr.decode())
