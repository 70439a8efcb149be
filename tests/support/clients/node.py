"""Clients that run on Node: the scripts beside tests/e2e/node/package.json, and Gemini CLI."""

import json
import os
import shutil
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Literal

from support.clients.script_runner import ScriptRunner
from support.programs.commands import Ran, missing, run_command
from support.programs.terminal import Terminal, in_terminal

from hookgate.proxy.cli.agents.known import find_agent

NODE_DIR = Path(__file__).parents[2] / "e2e" / "node"
FRAMEWORKS_DIR = NODE_DIR.with_name("frameworks_js")
_INSTALLED = NODE_DIR / "node_modules" / "@google"
_GEMINI = str(NODE_DIR / "node_modules" / ".bin" / "gemini")
_NOWHERE = "http://127.0.0.1:9"  # nothing listens there

Login = Literal["api key", "vertex", "code assist"]
_LOGINS: dict[Login, tuple[str, dict[str, str]]] = {
    "api key": ("gemini-cli", {}),
    "vertex": ("gemini-cli-vertex", {}),
    "code assist": (
        "gemini-cli-login",
        {"GOOGLE_GENAI_USE_GCA": "true", "GOOGLE_CLOUD_ACCESS_TOKEN": "any"},  # in place of a browser
    ),
}
"""Each way to log in: the agent whose settings `hookgate agents show` prints, and further variables."""


def need_node(*, packages: bool = True) -> None:
    """Skip the test where Node, or a package of tests/e2e/node, is missing; where CI is set, fail instead."""
    if not shutil.which("node"):
        missing("needs Node: install it, run `make node`")
    elif packages and not _INSTALLED.is_dir():
        missing("needs Node's packages: run `make node`")


def new_user(home: Path) -> dict[str, str]:
    """The variables of a user with this home, who has Gemini CLI and reaches this machine only."""
    need_node()
    return {
        "PATH": f"{Path(_GEMINI).parent}:{os.environ['PATH']}",
        "HOME": str(home),
        "TMPDIR": str(home),
        "HTTPS_PROXY": _NOWHERE,
        "NO_PROXY": "127.0.0.1,localhost",
    }


async def run_script(name: str, *arguments: str) -> Ran:
    """Run one of the scripts of tests/e2e/node, which print JSON lines, in the process for all of them."""
    need_node()
    command = ("node", str(NODE_DIR / "runner.mjs"))
    runner = ScriptRunner(command, NODE_DIR, (("PATH", os.environ["PATH"]),))
    return await runner.run(NODE_DIR / name, *arguments)


def need_frameworks() -> None:
    """Skip the test where the packages of tests/e2e/frameworks_js are missing, which are large."""
    need_node(packages=False)
    if not (FRAMEWORKS_DIR / "node_modules" / ".installed").exists():
        missing("needs frameworks for JavaScript: run `make frameworks`")


async def run_framework(name: str, *arguments: str) -> Ran:
    """Run one of the scripts of tests/e2e/frameworks_js."""
    need_frameworks()
    command = ("node", str(NODE_DIR / "runner.mjs"))
    runner = ScriptRunner(command, FRAMEWORKS_DIR, (("PATH", os.environ["PATH"]),))
    return await runner.run(FRAMEWORKS_DIR / name, *arguments)


async def start_script(name: str, *arguments: str) -> Ran:
    """Run one of these scripts as users do, in a process of its own, to the end of all that it began."""
    need_node()
    return await run_command(["node", str(NODE_DIR / name), *arguments], NODE_DIR)


class GeminiCli:
    """Gemini CLI with a home and a workspace of its own in `folder`."""

    def __init__(self, folder: Path, login: Login = "api key", *, project_settings: bool = False) -> None:
        """With `project_settings`, the settings of the workspace select the login, not the user's."""
        need_node()
        self.workspace = folder / "workspace"
        self._home = folder / "home"
        self.workspace.mkdir()
        (self._home / ".gemini").mkdir(parents=True)
        name, self._credentials = _LOGINS[login]
        self._agent = find_agent(name)
        [(_, printed)] = self._agent.settings_files("", "").items()
        auth = json.loads(printed)
        settings = {
            **({} if project_settings else auth),
            "privacy": {"usageStatisticsEnabled": False},  # or it phones home at its start and end
            # In its terminal it would show news, questions and tips.
            "general": {"enableAutoUpdate": False, "enableAutoUpdateNotification": False},
            "ide": {"hasSeenNudge": True},
            "ui": {"theme": "ANSI", "hideTips": True},
        }
        (self._home / ".gemini" / "settings.json").write_text(json.dumps(settings))
        if project_settings:
            (self.workspace / ".gemini").mkdir()
            (self.workspace / ".gemini" / "settings.json").write_text(json.dumps(auth))

    async def ask(
        self,
        base_url: str,
        prompt: str,
        *arguments: str,
        model: str = "gemini-2.5-flash",
        **environment: str,
    ) -> Ran:
        """One headless prompt. The base URL and a login are all that tells it of the gateway.

        The model "auto" makes it ask the model for the model first.
        """
        command = [_GEMINI, "--model", model, *arguments, "--prompt", prompt]
        return await run_command(command, self.workspace, {**self._variables(base_url), **environment})

    def in_terminal(self, base_url: str) -> AbstractAsyncContextManager[Terminal]:
        """Its terminal UI, for as long as the block runs."""
        command = [_GEMINI, "--model", "gemini-2.5-flash"]
        return in_terminal(command, self.workspace, self._variables(base_url))

    def _variables(self, base_url: str) -> dict[str, str]:
        return {
            **self._credentials,
            **self._agent.variables(base_url, "any"),
            "HOME": str(self._home),
            "TMPDIR": str(self._home),  # it writes a report of a failed call there
            "HTTPS_PROXY": _NOWHERE,  # with a Google login it asks Google who that is, and can do without
            "NO_PROXY": "127.0.0.1,localhost",
            "GEMINI_CLI_TRUST_WORKSPACE": "true",  # else a headless run refuses a new folder
            "GEMINI_CLI_NO_RELAUNCH": "true",  # it starts itself again with more memory, for a second
            "NO_COLOR": "1",
        }
