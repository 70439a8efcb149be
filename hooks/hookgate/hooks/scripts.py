"""The files that decide what a hook does: what trust rests on, and what a reload watches.

They are the files that a hook names itself. What a script loads in turn is not followed.
"""

import hashlib
import json
import os
import shlex
from collections.abc import Iterator
from pathlib import Path
from string import Template

from hookgate.hooks.settings import CommandConfig, Hook, RuntimeConfig

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix")
"""Programs of the machine: they change with its updates, not with a project."""


def scripts_of(hook: Hook) -> tuple[Path, ...]:
    """The files that the hook's command line or callable names, the machine's programs aside."""
    root = hook.root.resolve()
    found = dict.fromkeys((root / word).resolve() for word in _words(hook))
    return tuple(path for path in found if path.is_file() and not _of_the_machine(path))


def fingerprint(hook: Hook) -> str:
    """A hash of the hook's name, of what it runs with which variables, and of its scripts' content."""
    scripts = [(os.path.relpath(path, hook.root), _content(path)) for path in scripts_of(hook)]
    config = hook.config.model_dump(
        include={"type", "env", "command", "action", "url", "headers", "persistent"}
    )
    return hashlib.sha256(json.dumps([hook.name, config, scripts], sort_keys=True).encode()).hexdigest()


def _words(hook: Hook) -> Iterator[str]:
    config = hook.config
    if isinstance(config, RuntimeConfig):
        target = config.action.rpartition(":")[0]
        yield from [target] if target.endswith(".py") else []
    if isinstance(config, CommandConfig):
        words = _split(config.command) if isinstance(config.command, str) else config.command
        root = str(hook.root)
        names = dict.fromkeys(("GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR"), root)
        for word in words:
            yield Template(word).safe_substitute(names)


def _split(line: str) -> list[str]:
    """A command line's words; quotes that never close leave it at its spaces."""
    lexer = shlex.shlex(line, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    try:
        return list(lexer)
    except ValueError:
        return line.split()


def _of_the_machine(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _SYSTEM)


def _content(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        return f"unreadable: {error.strerror}"
