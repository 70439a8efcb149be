"""A name for a hook that has none: what it runs, in a word."""

import re
import shlex
from collections.abc import Collection
from pathlib import PurePosixPath
from urllib.parse import urlsplit

_RUNNERS = re.compile(
    r"python[\d.]*|node|deno|bun|bunx|npx|ruby|perl|php|bash|sh|zsh|env|exec|sudo|nohup|uv|uvx|poetry|run|-.*|\w+=.*",
    re.DOTALL,
)
"""What stands before the program that is meant: interpreters, options and variables."""


def program_of(command: str) -> str:
    """`python3 "$CLAUDE_PROJECT_DIR"/.claude/hooks/check_style.py --fix` -> `check_style`."""
    try:
        words = shlex.split(command)
    except ValueError:  # an open quote
        words = command.split()
    meant = next((word for word in words if not _RUNNERS.fullmatch(word)), "")
    whole = meant and not re.search(r"\s", meant)  # `bash -c 'several words'` is best called bash
    return _plain(PurePosixPath(meant).stem if whole else next(iter(words), ""))


def service_of(url: str) -> str:
    """`https://hooks.example.com/pre` -> `hooks.example.com`."""
    try:
        return _plain(urlsplit(url).hostname or url)
    except ValueError:
        return _plain(url)


def unique(name: str, taken: Collection[str]) -> str:
    """The name, with a number where another hook has it already."""
    number = 1
    while (numbered := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return numbered


def _plain(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "hook"
