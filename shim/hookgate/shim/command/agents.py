"""The agents with command hooks of their own: their settings files, and the hooks that tell the gateway."""

import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

from hookgate.shim.command import naming

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Agent:
    """An agent that runs commands at its events."""

    folder: str
    """Where its settings.json is, in a home or a project."""
    home: str
    """The variable that says where the user's is, if it is elsewhere."""
    events: tuple[str, ...]
    """What happens inside it and crosses no wire, in its own names."""
    flags: str
    """What `hookgate event` has to know of it."""
    named: bool
    """Whether its hooks have names."""
    timeout: int
    """A minute, in its unit: longer than `hookgate event` waits."""

    def settings(self, project: Path | None) -> Path:
        """The settings file of a project, or the user's."""
        if project is not None:
            return project / self.folder / "settings.json"
        moved = os.environ.get(self.home)
        if moved and self.home == "CLAUDE_CONFIG_DIR":
            return Path(moved) / "settings.json"
        return Path(moved or Path.home()) / self.folder / "settings.json"

    def groups(self, program: str, gateway: str | None) -> dict[str, list[Json]]:
        """The `hooks` of settings: for each event one group with one hook, which runs the program."""
        flags = f"{self.flags}{f' --gateway {shlex.quote(gateway)}' if gateway else ''}"
        name = {"name": "hookgate"} if self.named else {}
        return {
            event: [
                {
                    "hooks": [
                        {
                            **name,
                            "type": "command",
                            "command": f"{shlex.quote(program)} event {event}{flags}",
                            "timeout": self.timeout,
                        }
                    ]
                }
            ]
            for event in self.events
        }


AGENTS: Mapping[str, Agent] = {
    "gemini-cli": Agent(
        folder=".gemini",
        home="GEMINI_CLI_HOME",
        events=(
            "SessionStart",
            "SessionEnd",
            "BeforeAgent",
            "AfterAgent",
            "BeforeTool",
            "AfterTool",
            "PreCompress",
            "Notification",
        ),
        flags="",
        named=True,
        timeout=60_000,
    ),
    "claude-code": Agent(
        folder=".claude",
        home="CLAUDE_CONFIG_DIR",
        events=tuple(naming.EVENTS),
        flags=" --from claude-code",
        named=False,
        timeout=60,
    ),
}


def tells_gateway(hook: Any, event: str) -> bool:
    """Whether a hook of settings is one that `install` writes, whichever program and gateway it names."""
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # an open quote
        return False
    return len(words) > 2 and PurePath(words[0]).name == "hookgate" and words[1:3] == ["event", event]
