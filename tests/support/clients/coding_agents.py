"""aider and opencode, headless, with the settings that `hookgate agents show` prints."""

from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from support.clients.environments import Environment
from support.clients.interface import TOOL_SAYS, Client, Json, Shown
from support.clients.versions import node_version
from support.places import PROJECT
from support.programs.commands import Ran, missing, run_command

from hookgate.proxy.cli.agents.known import find_agent

AIDER = Environment("aider", "aider")
OPENCODE_DIR = PROJECT / "tests" / "e2e" / "opencode"
_OFFLINE = {
    "HTTPS_PROXY": "http://127.0.0.1:9",  # nothing listens there
    "NO_PROXY": "127.0.0.1,localhost",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "COLUMNS": "10000",  # or aider breaks lines
}
_QUIET = (
    *("--no-git", "--no-check-update", "--no-analytics", "--no-show-model-warnings"),
    *("--no-show-release-notes", "--no-pretty", "--yes-always", "--chat-mode", "ask"),
)


async def _run(name: str, command: list[str], base_url: str, folder: Path) -> Ran:
    """Run an agent in a workspace of its own, for a user who has the printed settings."""
    agent, home, workspace = find_agent(name), folder / "home", folder / "workspace"
    workspace.mkdir()
    (workspace / "weather.txt").write_text(TOOL_SAYS)
    for path, text in agent.settings_files(base_url, "any").items():
        file = home / path.removeprefix("~/")
        file.parent.mkdir(parents=True)
        file.write_text(text)
    variables = {**agent.variables(base_url, "any"), **_OFFLINE, "HOME": str(home), "TMPDIR": str(folder)}
    return await run_command(command, workspace, variables)


@dataclass(frozen=True)
class Aider:
    """aider, which reports a failed call in its output and exits with 0. It offers the model no tools."""

    denial: ClassVar[str] = "BadRequestError"
    traits: ClassVar[set[str]] = {"stream"}
    call: ClassVar[Json] = {}

    @property
    def version(self) -> str:
        return AIDER.version("aider-chat")

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        program = Path(AIDER.python()).with_name("aider")
        command = [str(program), "--model", "gemini/gemini-2.5-flash", *_QUIET, "--message", prompt]
        ran = await _run("aider", command, base_url, folder)
        assert ran.exit_code == 0, ran.stderr
        said = ran.stdout.partition("Repo-map: disabled\n\n")[2]
        if said.startswith("litellm."):
            return Shown(said, said.removeprefix("litellm.").partition(":")[0])
        return Shown(said.partition("\nTokens: ")[0].rstrip("\n"), beside=ran.stderr)


@dataclass(frozen=True)
class Opencode:
    """opencode. With a title it does not ask the model for one."""

    denial: ClassVar[str] = "exit 1"
    traits: ClassVar[set[str]] = {"stream", "tools"}
    call: ClassVar[Json] = {"name": "read", "args": {"filePath": "weather.txt"}}

    @property
    def version(self) -> str:
        return node_version("opencode-ai", OPENCODE_DIR)

    async def ask(self, base_url: str, prompt: str, folder: Path, *, json: bool = False) -> Shown:
        program = OPENCODE_DIR / "node_modules" / ".bin" / "opencode"
        if not program.exists():
            missing("needs opencode: run `make opencode`")
        command = [str(program), "run", "--model", "google/gemini-2.5-flash", "--title", "t", prompt]
        ran = await _run("opencode", command, base_url, folder)
        if ran.exit_code:
            return Shown(ran.stderr, f"exit {ran.exit_code}")
        return Shown(ran.stdout.removesuffix("\n"), beside=ran.stderr)


CODING_AGENTS: dict[str, Client] = {"aider": Aider(), "opencode": Opencode()}
"""Agents that edit code, by the name they have in a test's ID."""
