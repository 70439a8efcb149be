"""Whether the program file that a command hook names can be started."""

import os
import re
import shlex
from pathlib import Path
from string import Template

from hookgate.hooks.settings.configs import CommandConfig

_PROJECT_VARIABLES = ("GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LEFT_TO_THE_SHELL = re.compile(r"[$`*?~{\[]")


def program_problem(config: CommandConfig, root: Path) -> str | None:
    """Return why the program file of a command cannot be started from the folder `root`, with the remedy.

    Returns None for one that can, and for a command that names its program otherwise than by a path.
    """
    word = _program(config.command, root)
    if word is None or "/" not in word:
        return None
    path = root / word
    if not os.path.exists(path):
        return f"{word} does not exist in {root}; check the path"
    if os.path.isdir(path):
        return f"{word} is a folder; name a program"
    if not os.access(path, os.X_OK):
        return f"{word} is not executable; run: chmod +x {shlex.quote(str(path))}"
    return None


def _program(command: str | list[str], root: Path) -> str | None:
    """Return the word that names the program; None if that is the shell's to find out."""
    if isinstance(command, list):
        return command[0]
    try:
        words = shlex.split(command)
    except ValueError:
        return None
    word = next((word for word in words if not _ASSIGNMENT.match(word)), None)
    if word is None:
        return None
    word = Template(word).safe_substitute(dict.fromkeys(_PROJECT_VARIABLES, str(root))).rstrip(";&|)")
    return None if _LEFT_TO_THE_SHELL.search(word) or word.startswith("(") else word
