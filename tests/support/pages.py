"""The pages that users read, and the blocks of code in them."""

import ast
import re
import shlex
import subprocess
import textwrap
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from support.places import DOCS, PROJECT

from hookgate.hooks.agents import AGENT_DIALECTS
from hookgate.hooks.settings import EVENTS, files

EVENTS_OF_OTHERS = {event for dialect in AGENT_DIALECTS.values() for event in dialect.rows} - set(EVENTS)
"""Events in the settings of other agents, which are no settings of hookgate."""

PAGES = [PROJECT / "README.md", *sorted(DOCS.rglob("*.md"))]

Kind = Literal["json", "members", "toml", "javascript", "python", "shell", "other"]

_PROGRAMS = {
    "cat",
    "curl",
    "docker",
    "echo",
    "export",
    "gemini",
    "helm",
    "hookgate",
    "install",
    "jq",
    "make",
    "mkdir",
    "pip",
    "pipx",
    "psql",
    "python",
    "python3",
    "runuser",
    "sed",
    "sh",
    "uv",
}
_FENCED = re.compile(r"^```\w*\n(.*?)^```", re.DOTALL | re.MULTILINE)
_INDENTED = re.compile(r"(?:^(?: {4}.*)?\n)+", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A block of code, fenced or indented, and the line of its page on which it begins."""

    page: str
    line: int
    text: str

    @property
    def place(self) -> str:
        return f"{self.page}:{self.line}"

    @property
    def first_line(self) -> str:
        return self.text.splitlines()[0]

    @property
    def value(self) -> Any:
        """Its JSON, with comments as in settings files. Raises ValueError."""
        return files.parse_jsonc(self.text)

    @property
    def members(self) -> dict[str, Any]:
        """Its members, if it is a part of a JSON object. Raises ValueError."""
        found = files.parse_jsonc(f"{{{self.text}}}")
        assert isinstance(found, dict)
        return found

    @property
    def kind(self) -> Kind:
        """What reads it."""
        for kind, reads in _READERS.items():
            try:
                if reads(self):
                    return kind
            except (ValueError, SyntaxError):
                continue
        return "other"

    @property
    def commands(self) -> list[list[str]]:
        """The words of each `hookgate` command in it; options that are shown in brackets are given."""
        return list(_hookgate_commands(self.text)) if self.kind == "shell" else []


def _hookgate_commands(text: str) -> Iterator[list[str]]:
    lines = text.splitlines()
    if any(line.startswith("$ ") for line in lines):  # the other lines are output
        text = "\n".join(line for line in lines if line.startswith("$ "))
    text = re.sub(r"\\\n|[\[\]…]|(?:^|\s)#.*$", " ", text, flags=re.MULTILINE)
    lexer = shlex.shlex(text, posix=True, punctuation_chars="|&;<>()\n")
    lexer.whitespace_split, lexer.whitespace, lexer.commenters = True, " \t", ""
    command: list[str] = []
    for word in [*lexer, ";"]:
        if not set(word) <= set("|&;<>()\n"):
            command.append(word)
            continue
        while command and (command[0] == "$" or re.fullmatch(r"\w+=.*", command[0])):
            command = command[1:]
        if command[:1] == ["runuser"]:  # runuser -u USER -- env NAME=VALUE hookgate …
            command = command[command.index("--") + 3 :]
        if command and Path(command[0]).name == "hookgate":
            yield command[1:]
        command = [">"] if {"<", ">"} & set(word) else []  # what follows is a file


def _is_python(block: Block) -> bool:
    ast.parse(block.text)
    return any(sign in block.text for sign in ("=", "def ", "print("))


def _is_shell(block: Block) -> bool:
    words = (line.removeprefix("$ ").split() for line in block.text.splitlines())
    starts = {line[0] for line in words if line}
    return bool(starts & _PROGRAMS) or block.text.startswith("#!/usr/bin/env bash")


_READERS: dict[Kind, Any] = {
    "json": lambda block: block.value is not None,
    "members": lambda block: block.members,
    "toml": lambda block: block.text.lstrip().startswith("[") and tomllib.loads(block.text),
    "javascript": lambda block: block.text.startswith(("#!/usr/bin/env node", "import {", "import OpenAI ")),
    "shell": _is_shell,
    "python": _is_python,
}


def blocks(page: Path) -> Iterator[Block]:
    """The blocks of a page, in their order."""
    text = page.read_text(encoding="utf-8")
    found = [(match.start(1), match[1]) for match in _FENCED.finditer(text)]
    plain = _FENCED.sub(lambda match: re.sub(r".", "x", match[0]), text)
    found += [(match.start(), match[0]) for match in _INDENTED.finditer(plain) if match[0].strip()]
    name = str(page.relative_to(PROJECT))
    for start, block in sorted(found):
        blank = len(block) - len(block.lstrip("\n"))
        yield Block(name, text.count("\n", 0, start + blank) + 1, textwrap.dedent(block).strip("\n") + "\n")


ALL_BLOCKS = [block for page in PAGES for block in blocks(page)]


def write_guard(folder: Path) -> Path:
    """The guard of the README, as its block writes it: into a folder `guard`; gives its settings file."""
    assert folder.name == "guard"
    text = block_of("README.md", "mkdir -p guard").text
    subprocess.run(["bash", "-ec", text], cwd=folder.parent, check=True)
    return folder / "settings.json"


def block_of(page: str, start: str) -> Block:
    """The one block of a page, such as `README.md`, with a line that begins with `start`."""
    [found] = [
        block
        for block in ALL_BLOCKS
        if block.page == page and any(line.startswith(start) for line in block.text.splitlines())
    ]
    return found
