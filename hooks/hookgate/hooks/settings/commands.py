"""Reads the commands of hooks: their words, and the program and script files that they name by a path.

Nothing here runs a command. What only a shell can tell, such as the value of a variable, is left to it.
"""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path, PurePath
from string import Template

from hookgate.hooks.settings.configs import CommandConfig

_PROJECT_VARIABLES = ("GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_LEFT_TO_THE_SHELL = re.compile(r"[$`*?~{\[]")

_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_QUOTED_SIGN = "\ue000"  # stands for a ">" between quotes, which redirects nothing
_REDIRECTION = re.compile(r".*(?<!<)>{1,2}[|&]?")
"""The operators that redirect output to a file, such as `>`, `>>`, `>|` and `&>`, but not `<>`."""
_OPERATOR = re.compile(r"[();<>|&]+")


def expand_project_variables(word: str, root: str) -> str:
    """Return the word with the variables that contain the project folder replaced with `root`."""
    return Template(word).safe_substitute(dict.fromkeys(_PROJECT_VARIABLES, root))


def command_words(command: str | list[str]) -> list[str]:
    """Return a command's words, without the files that a command line redirects output to.

    The operators of a command line are words, too. A line with unbalanced quotes is split at its spaces.
    """
    return command if isinstance(command, list) else _split(command) or command.split()


def _split(line: str) -> list[str]:
    """Return a command line's words and operators, or an empty list if its quotes are unbalanced."""
    hidden = _QUOTED.sub(lambda quoted: quoted[0].replace(">", _QUOTED_SIGN), line)
    lexer = shlex.shlex(hidden, posix=True, punctuation_chars=True)
    lexer.whitespace_split = True
    lexer.commenters = ""  # in a shell, a comment begins at the start of a word, unlike in `run#1.sh`
    try:
        words = list(lexer)
    except ValueError:
        return []
    pairs = zip(["", *words], words, strict=False)
    return [word.replace(_QUOTED_SIGN, ">") for before, word in pairs if not _REDIRECTION.fullmatch(before)]


# ---- files that a command needs


def command_problem(config: CommandConfig, root: Path) -> str | None:
    """Return the reason, with a remedy, why a command cannot work in the folder `root`, or None.

    Checked are the program, if the command names it by a path, and the script that an interpreter such as
    `python3` is to run. Of a command line, only the pipeline at its beginning is checked: what precedes the
    rest may create its files, change the folder, or be a condition.
    """
    if isinstance(config.command, list):
        commands = [config.command]
    else:
        first_line = config.command.strip().replace("\\\n", " ").partition("\n")[0]
        commands = _pipeline([_expanded(word, config, root) for word in _split(first_line)])
    for number, words in enumerate(commands):
        problem = _program_problem(words[0], root) if number == 0 else None
        if problem := problem or _script_problem(words, config, root):
            return problem
    return None


def _expanded(word: str, config: CommandConfig, root: Path) -> str:
    """Return the word as the shell expands it, unless the hook's `env` changes the variables."""
    return word if config.env.keys() & set(_PROJECT_VARIABLES) else expand_project_variables(word, str(root))


def _pipeline(words: Sequence[str]) -> list[list[str]]:
    """Return the commands of the pipeline at the beginning of a line, without assignments and redirections.

    The pipeline ends before a command that begins with a word that only the shell knows.
    """
    commands: list[list[str]] = [[]]
    is_file = False
    for word in words:
        if is_file:
            is_file = False
        elif not _OPERATOR.fullmatch(word):
            if commands[-1] or not _ASSIGNMENT.match(word):
                commands[-1].append(word)
        elif word in ("|", "|&"):
            commands.append([])
        elif not set(word) <= set("<>&|") or not {"<", ">"} & set(word):
            break
        else:  # a redirection, maybe with the number of a descriptor
            if commands[-1] and commands[-1][-1].isdigit():
                commands[-1].pop()
            if "<<" in word:
                break  # what follows is the text of a here-document
            is_file = "<" in word  # the files of other redirections are not among the words
    known = [bool(command) and not _LEFT_TO_THE_SHELL.search(command[0]) for command in commands]
    return commands[: known.index(False)] if False in known else commands


def _program_problem(word: str, root: Path) -> str | None:
    """Return why the program that a word names by its path cannot be started, or None."""
    if "/" not in word:
        return None
    path = root / word
    if not os.path.exists(path):
        return f"{word} does not exist in {root}; check the path"
    if os.path.isdir(path):
        return f"{word} is a folder; use the path of a program"
    if not os.access(path, os.X_OK):
        return f"{word} is not executable; run: chmod +x {shlex.quote(str(path))}"
    return None


def _script_problem(words: Sequence[str], config: CommandConfig, root: Path) -> str | None:
    """Return why the interpreter that the words start cannot read its script, or None."""
    found = _script_of(words)
    if found is None:
        return None
    interpreter, name, script = found
    in_line = isinstance(config.command, str)
    if in_line and _LEFT_TO_THE_SHELL.search(script):
        return None
    if os.path.isdir(root / script) and not interpreter.runs_folders:
        return f"{script}, which {name} is to run, is a folder; use the path of a script"
    searched = interpreter.searches_path and "/" not in script
    if any(os.path.exists(root / f"{script}{suffix}") for suffix in interpreter.suffixes) or (
        searched and shutil.which(script, os.F_OK, config.env.get("PATH"))
    ):
        return None
    remedy = "check the path"
    if not in_line and "$" in script:
        remedy = "variables are expanded in a command line, but not in a list"
    return f"{script}, which {name} is to run, does not exist in {root}; {remedy}"


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """How an interpreter is started: `program [option]... script [argument]...`.

    `inline` are the letters of options after which there is no script file, and `valued` those of options
    with a value. After a long option that is neither in `long_valued` nor matches `switches`, the script is
    unknown.
    """

    programs: re.Pattern[str]
    inline: str
    valued: str
    long_valued: frozenset[str] = frozenset()
    switches: re.Pattern[str] = re.compile(r"(?!)")
    suffixes: tuple[str, ...] = ("",)
    """What the interpreter may append to the script's name."""
    runs_folders: bool = False
    searches_path: bool = False


_INTERPRETERS = (
    _Interpreter(
        re.compile(r"(ba|da|z|k|a)?sh"),
        inline="cs",
        valued="oO",
        long_valued=frozenset({"--rcfile", "--init-file"}),
        switches=re.compile(r"--(login|norc|noprofile|posix|restricted|verbose)"),
        searches_path=True,
    ),
    _Interpreter(
        re.compile(r"(python|pypy)[\d.]*"),
        inline="cmVh?",
        valued="WX",
        long_valued=frozenset({"--check-hash-based-pycs"}),
        runs_folders=True,
    ),
    _Interpreter(
        re.compile(r"node(js)?"),
        inline="epvh",
        valued="rC",
        long_valued=frozenset(
            {"--conditions", "--env-file", "--experimental-loader", "--import", "--require"}
        ),
        switches=re.compile(r"--(enable|experimental|no|preserve|trace)-[a-z-]+(=.*)?|--max-[a-z-]+=\d+"),
        suffixes=("", ".js", ".json", ".node"),
        runs_folders=True,
    ),
)

_UV_RUN = _Interpreter(
    re.compile(r"uv"),
    inline="mVh",
    valued="pw",
    long_valued=frozenset({"--env-file", "--extra", "--group", "--project", "--python", "--with"}),
    switches=re.compile(r"--(frozen|isolated|locked|no-[a-z-]+|offline|quiet|verbose)"),
)
"""`uv run`, whose argument is a script if its name ends with `.py`, and otherwise a command."""

_PREFIXES = ("env", "exec", "nohup")
"""Programs that start the program that their arguments name."""


def _script_of(words: Sequence[str]) -> tuple[_Interpreter, str, str] | None:
    """Return the interpreter that the words start, its name, and the script that it is to run, or None."""
    program, arguments = PurePath(words[0]).name, list(words[1:])
    if program in _PREFIXES:
        started = list(dropwhile(_ASSIGNMENT.match, arguments))
        return _script_of(started) if started else None
    if program == "uv" and arguments[:1] == ["run"]:
        command = _after_options(_UV_RUN, arguments[1:])
        if command and command[0].endswith(".py") and "://" not in command[0]:
            return _UV_RUN, "uv", command[0]
        return _script_of(command) if command else None
    for interpreter in _INTERPRETERS:
        if interpreter.programs.fullmatch(program):
            script = _after_options(interpreter, arguments)
            return (interpreter, program, script[0]) if script else None
    return None


def _after_options(interpreter: _Interpreter, arguments: list[str]) -> list[str]:
    """Return the arguments from the script on. The list is empty if there is no script, or none is known."""
    index = 0
    while index < len(arguments) and (word := arguments[index]).startswith(("-", "+")):
        index += 1
        if word == "--":
            break
        if word == "-":
            return []  # the standard input
        if not word.startswith("--"):
            options = word[1:]
            at = next((at for at, letter in enumerate(options) if letter in interpreter.valued), len(options))
            if set(options[:at]) & set(interpreter.inline):
                return []
            index += at == len(options) - 1  # the value is the next word, not the rest of this one
        elif word in interpreter.long_valued:
            index += 1
        elif (
            not interpreter.switches.fullmatch(word) and word.partition("=")[0] not in interpreter.long_valued
        ):
            return []
    return arguments[index:]
