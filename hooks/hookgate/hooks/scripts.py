"""The files that decide what a hook does: what trust rests on, and what a reload watches.

They are the files that a hook names itself. What a script loads in turn is not followed. Nothing that a
command line holds is an error here: a word may be longer than a file's name, or hold what no name can.
"""

import hashlib
import json
import os
import re
import shlex
from collections.abc import Iterator
from pathlib import Path
from stat import S_ISREG
from string import Template

from hookgate.hooks.exhaustion import is_exhaustion
from hookgate.hooks.settings import CommandConfig, Hook, RuntimeConfig
from hookgate.hooks.settings.reading import open_at_once

_SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/opt", "/nix", "/dev", "/proc", "/sys")
"""Programs and devices of the machine: they change with its updates, not with a project."""

_LARGEST = 16 * 1024 * 1024  # bytes of a file whose content is looked at

_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_QUOTED_SIGN = "\ue000"  # stands for a ">" between quotes, which redirects nothing
_REDIRECTION = re.compile(r".*(?<!<)>{1,2}[|&]?")
"""The operators before a file that is written: `>`, `>>`, `>|`, `&>` and their like, but not `<>`."""


def scripts_of(hook: Hook) -> tuple[Path, ...]:
    """The files that the hook's command line or callable names, the machine's programs aside.

    What a command line only redirects output to is written by the hook, so it decides nothing.
    """
    root = os.path.realpath(hook.root)
    found = dict.fromkeys(path for word in _words(hook) if (path := _file_named(root, word)))
    return tuple(path for path in found if not _of_the_machine(path))


def digest_of(path: Path) -> str | None:
    """A hash of a file's content; None when it is no file, or cannot be read.

    Of a file above 16 MiB the hash is of its size and times: whoever wrote it must not choose what a look at
    it costs. A pipe or a device is not read, since that may never end. Raises OSError when the machine has
    run out of something, such as descriptors: the file may be what it was.
    """
    try:
        with open(path, "rb", opener=open_at_once) as file:
            stat = os.fstat(file.fileno())
            if not S_ISREG(stat.st_mode):
                return None
            if stat.st_size <= _LARGEST:
                return hashlib.file_digest(file, "sha256").hexdigest()
            times = stat.st_ino, stat.st_size, stat.st_mtime_ns, stat.st_ctime_ns
            return hashlib.sha256(repr(times).encode()).hexdigest()
    except OSError as error:
        if is_exhaustion(error):
            raise
        return None


def fingerprint(hook: Hook) -> str:
    """A hash of the hook's name, of what it runs with which variables, and of its scripts' content.

    Raises OSError as `digest_of` does.
    """
    scripts = [(os.path.relpath(path, hook.root), digest_of(path)) for path in scripts_of(hook)]
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
    """A command line's words, without the files it redirects to; open quotes leave it at its spaces."""
    lexer = shlex.shlex(_QUOTED.sub(_hide_signs, line), posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""  # a shell's comments begin with a word, so `run#1.sh` is none
    try:
        words = list(lexer)
    except ValueError:
        return line.split()
    pairs = zip(["", *words], words, strict=False)
    return [word.replace(_QUOTED_SIGN, ">") for before, word in pairs if not _REDIRECTION.fullmatch(before)]


def _hide_signs(quoted: re.Match[str]) -> str:
    return quoted[0].replace(">", _QUOTED_SIGN)


def _file_named(root: str, word: str) -> Path | None:
    """The file that a word stands for, seen from the project's folder."""
    try:
        path = os.path.realpath(os.path.join(root, word))
    except ValueError:  # a null character, or half of a surrogate pair
        return None
    return Path(path) if os.path.isfile(path) else None


def _of_the_machine(path: Path) -> bool:
    return any(path.is_relative_to(folder) for folder in _SYSTEM)
