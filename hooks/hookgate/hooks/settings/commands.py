"""Splits the commands of hooks into words, and checks the programs and scripts that they name.

It never runs a command. Words that only a shell can expand, such as other variables, are not checked.
"""

import os
import re
import shlex
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import dropwhile
from pathlib import Path, PurePath
from stat import S_ISREG
from string import Template

from hookgate.hooks.settings.configs import CommandConfig
from hookgate.hooks.settings.files import open_at_once

VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")
"""Matches `$NAME` or `${NAME}` in the `env` of a hook, with the name in one of two groups."""

INHERITED = re.compile(
    "PATH|HOME|USER|LOGNAME|SHELL|LANG|LANGUAGE|LC_[A-Z]+|TZ|TERM|TMPDIR|VIRTUAL_ENV"
    "|XDG_(CACHE|CONFIG|DATA|STATE)_HOME|XDG_RUNTIME_DIR"
    "|SSL_CERT_FILE|SSL_CERT_DIR|REQUESTS_CA_BUNDLE|CURL_CA_BUNDLE|NODE_EXTRA_CA_CERTS"
)
"""The variables of this process that all hooks inherit: paths of programs, homes and certificates, and the
locale. None of them contains a secret, unlike API keys, `HOOKGATE_ADMIN__TOKEN`, `OTEL_EXPORTER_OTLP_HEADERS`
and the URLs of proxies and databases. This is a list of allowed variables because a list of secret ones would
never be complete."""

_CONTRACT_VARIABLES = frozenset(
    {"GEMINI_PROJECT_DIR", "GEMINI_SESSION_ID", "GEMINI_CWD", "GEMINI_PLANS_DIR", "CLAUDE_PROJECT_DIR"}
)
_USED_VARIABLE = re.compile(
    r"""'[^']*' | \\. | \$(?: ([A-Z_][A-Z0-9_]+)\b | \{([A-Z_][A-Z0-9_]+)\} )""", re.VERBOSE | re.DOTALL
)
"""Matches a variable of the environment, by its form, whose absence has no default; or text that has none."""
_ASSIGNED = re.compile(
    r"(?<![\w$])([A-Z_][A-Z0-9_]+)\+?=|\b(?:for|read|select|local|mapfile|readarray)\b((?:[ \t]+[-\w]+)*)"
)
"""Matches the name of an assignment, or the words after a command that sets variables."""
_SETS_ANY = re.compile(r"\b(?:eval|source|getopts|printf[ \t]+-v)\b|(?:^|[;&|(])[ \t]*\.[ \t]")
"""Matches commands that may set any variable."""
_SHELL_VARIABLES = re.compile(
    "BASH.*|COLUMNS|DIRSTACK|EPOCH.*|EUID|FUNCNAME|GROUPS|HOST(NAME|TYPE)|IFS|LINE(NO|S)|MACHTYPE|OLDPWD|OPT.*"
    "|OSTYPE|PIPESTATUS|PPID|PS[0-4]|PWD|RANDOM|REPLY|SECONDS|SHELLOPTS|SHLVL|SRANDOM|UID|_"
)
"""The variables that a shell sets."""
_PROJECT_VARIABLES = ("GEMINI_PROJECT_DIR", "GEMINI_CWD", "CLAUDE_PROJECT_DIR")
_ASSIGNMENT = re.compile(r"[A-Za-z_]\w*=")
_SHELL_EXPANSION = re.compile(r"[$`*?~{\[]")
_PLAIN_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+-]*")
_FUNCTION = re.compile(r"\s*[A-Za-z_]\w*\s*\(")
_SHELL_WORDS = re.compile(
    "alias|bg|bind|break|builtin|caller|case|cd|command|compgen|complete|continue|coproc|declare|dirs|disown|"
    "echo|enable|eval|exec|exit|export|false|fc|fg|for|function|getopts|hash|help|history|if|jobs|kill|let|"
    "local|logout|mapfile|popd|printf|pushd|pwd|read|readarray|readonly|return|select|set|shift|shopt|source|"
    "suspend|test|time|times|trap|true|type|typeset|ulimit|umask|unalias|unset|until|wait|while"
)
"""The reserved words and built-in commands of shells, which are not programs."""
_UNIX_LINES = "save it with Unix line ends"
_MAX_FIRST_LINE = 4096
_MAX_WORDS = 100
"""The number of words of a command that are checked. Programs and scripts are among the first ones."""
_LANGUAGES = {".py": "python3", ".rb": "ruby", ".pl": "perl"} | dict.fromkeys((".js", ".mjs", ".cjs"), "node")
"""The interpreters of scripts that are no shell scripts, by the suffixes of their names."""

_QUOTED = re.compile(r"""'[^']*'|"(?:\\.|[^"\\])*"|\\.""", re.DOTALL)
_QUOTED_SIGN = "\ue000"  # stands for a ">" between quotes, which redirects nothing
_REDIRECTION = re.compile(r".*(?<!<)>{1,2}[|&]?")
"""The operators that redirect output to a file, such as `>`, `>>`, `>|` and `&>`, but not `<>`."""
_OPERATOR = re.compile(r"[();<>|&]+")


def expand_project_variables(word: str, root: str) -> str:
    """Return the word with the variables that contain the project folder replaced with `root`."""
    return Template(word).safe_substitute(dict.fromkeys(_PROJECT_VARIABLES, root))


def command_words(command: str | list[str]) -> list[str]:
    """Return a command's words, without the files to which a command line redirects output.

    The words include the operators of a command line. A line with unbalanced quotes is split at spaces.
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


def needed_files(config: CommandConfig, root: Path) -> list[tuple[Path, ...]]:
    """Return the paths of the program and the scripts that a command names: of each, one has to exist.

    The same commands are checked as in `command_problem`.
    """
    needed: list[tuple[Path, ...]] = []
    for number, words in enumerate(_commands(config, root)):
        if number == 0 and "/" in words[0]:
            needed.append((root / words[0],))
        if found := _script_of(words):
            needed.append(_script_paths(*found, config, root))
    return [paths for paths in needed if paths]


def command_problem(config: CommandConfig, root: Path) -> str | None:
    """Return the reason why a command cannot work in the folder `root`, with a remedy, or None.

    This checks the program and its `#!` line, and the script that the command passes to an
    interpreter such as `python3`. In a command line, only the first pipeline is checked, because it may
    create files or change the folder for the commands that follow, or be a condition.
    """
    for number, words in enumerate(_commands(config, root)):
        problem = _program_problem(words[0], config, root) if number == 0 else None
        if problem := problem or _script_problem(words, config, root):
            return problem
    return None


def search_problem(config: CommandConfig, root: Path) -> str | None:
    """Return the reason why a command's program cannot be found on the PATH, with a remedy, or None.

    A hook may set another PATH, and a shell finds its own commands and the functions of a line by itself.
    """
    commands = _commands(config, root)
    name = commands[0][0] if commands else ""
    if not _PLAIN_NAME.fullmatch(name) or "PATH" in config.env or shutil.which(name):
        return None
    if isinstance(config.command, str) and (_SHELL_WORDS.fullmatch(name) or _FUNCTION.match(config.command)):
        return None
    return f"there is no program {name} on the PATH; check the name, or use the program's path"


def unset_variables(config: CommandConfig) -> list[tuple[str, str]]:
    """Return each key of the hook's `env` with the name of a variable that it contains which is not set."""
    return [
        (key, match[1] or match[2])
        for key, value in config.env.items()
        for match in VARIABLE.finditer(value)
        if (match[1] or match[2]) not in os.environ
    ]


def unset_in_command(config: CommandConfig) -> list[str]:
    """Return the names of the variables in a command line that are empty in the hook's environment.

    The names of variables that the line itself may set are not among them.
    """
    if not isinstance(config.command, str) or _SETS_ANY.search(config.command):
        return []
    used = dict.fromkeys(found[1] or found[2] for found in _USED_VARIABLE.finditer(config.command))
    assigned = {
        name for found in _ASSIGNED.finditer(config.command) for name in (found[1] or found[2]).split()
    }
    set_here = {name for name in os.environ if INHERITED.fullmatch(name)} | _CONTRACT_VARIABLES | assigned
    known = set_here | config.env.keys()
    return [name for name in used if name and name not in known and not _SHELL_VARIABLES.fullmatch(name)]


def _commands(config: CommandConfig, root: Path) -> list[list[str]]:
    """Return the words of a command given as a list, or of the commands of a line's first pipeline."""
    if isinstance(config.command, list):
        return [config.command[:_MAX_WORDS]]
    first_line = config.command.strip().replace("\\\n", " ").partition("\n")[0]
    return _pipeline([_expanded(word, config, root) for word in _split(first_line)[:_MAX_WORDS]])


def _expanded(word: str, config: CommandConfig, root: Path) -> str:
    """Return the word with the project's variables expanded, unless the hook's `env` replaces them."""
    return word if config.env.keys() & set(_PROJECT_VARIABLES) else expand_project_variables(word, str(root))


def _pipeline(words: Sequence[str]) -> list[list[str]]:
    """Return the commands of the first pipeline of a line, without assignments and redirections.

    It ends before a command whose program only the shell can determine.
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
        else:  # a redirection, possibly after the number of a descriptor
            if commands[-1] and commands[-1][-1].isdigit():
                commands[-1].pop()
            if "<<" in word:
                break  # the text of a here-document follows
            is_file = "<" in word  # the files of other redirections are not among the words
    known = [bool(command) and not _SHELL_EXPANSION.search(command[0]) for command in commands]
    return commands[: known.index(False)] if False in known else commands


def _program_problem(word: str, config: CommandConfig, root: Path) -> str | None:
    """Return the reason why a program cannot be started, or None."""
    if "/" not in word:
        return None
    path = root / word
    if not os.path.exists(path):
        return f"{word} does not exist in {root}; {_path_remedy(word, root)}"
    if os.path.isdir(path):
        return f"{word} is a folder; use the path of a program"
    if not os.access(path, os.X_OK):
        return f"{word} is not executable; run: chmod +x {shlex.quote(str(path))}"
    return _first_line_problem(word, path, config)


def _first_line_problem(word: str, path: Path, config: CommandConfig) -> str | None:
    """Return the reason why a script cannot be started by its `#!` line, or without one, or None."""
    line = _first_line(path)
    if not line.startswith("#!"):
        return _missing_line_problem(word, path, line, in_line=isinstance(config.command, str))
    if line.endswith("\r"):
        return f"{word} has Windows line ends; {_UNIX_LINES}"
    interpreter, *arguments = line[2:].split() or [""]
    if PurePath(interpreter).is_absolute() and not os.path.exists(interpreter):
        return f"{word} cannot be started: {interpreter!r} of its #! line does not exist; correct the line"
    if PurePath(interpreter).name != "env" or not arguments or not _PLAIN_NAME.fullmatch(arguments[0]):
        return None
    if "PATH" in config.env or shutil.which(arguments[0]):
        return None
    return f"{word} cannot be started: {arguments[0]} of its #! line is not on the PATH; correct the line"


def _missing_line_problem(word: str, path: Path, line: str, *, in_line: bool) -> str | None:
    """Return the reason why a file that begins with `line` needs a `#!` line, or None.

    The kernel starts only binaries without one. A shell, which runs command lines, reads the text itself.
    """
    if "\0" in line or not path.is_file() or not os.access(path, os.R_OK):
        return None
    language = _LANGUAGES.get(path.suffix)
    if in_line and language is None:
        return None
    effect = "a shell would read it as its own commands" if in_line else "it cannot be started"
    interpreter = f"#!/usr/bin/env {language}" if language else "#!/bin/sh"
    return f"{word} does not begin with a #! line, so {effect}; begin it with a line such as {interpreter}"


def _first_line(path: Path) -> str:
    """Return the first line of a file without its line feed, or an empty string if it cannot be read."""
    try:
        with open(path, "rb", opener=open_at_once) as file:
            if not S_ISREG(os.fstat(file.fileno()).st_mode):  # reading a pipe might never end
                return ""
            return file.readline(_MAX_FIRST_LINE).removesuffix(b"\n").decode(errors="replace")
    except OSError:
        return ""


def _script_problem(words: Sequence[str], config: CommandConfig, root: Path) -> str | None:
    """Return the reason why the script of an interpreter cannot be read, or None."""
    found = _script_of(words)
    if found is None:
        return None
    interpreter, name, script = found
    in_line = isinstance(config.command, str)
    if in_line and _SHELL_EXPANSION.search(script):
        return None
    if os.path.isdir(root / script) and not interpreter.runs_folders:
        return f"{script}, which {name} would run, is a folder; use the path of a script"
    if interpreter.needs_unix_lines and _first_line(root / script).endswith("\r"):
        return f"{script}, which {name} would run, has Windows line ends; {_UNIX_LINES}"
    paths = _script_paths(interpreter, name, script, config, root)
    if not paths or any(map(os.path.exists, paths)):
        return None
    remedy = _path_remedy(script, root)
    if not in_line and "$" in script:
        remedy = "variables are expanded in a command line, but not in a list"
    return f"{script}, which {name} would run, does not exist in {root}; {remedy}"


def _script_paths(
    interpreter: "_Interpreter", name: str, script: str, config: CommandConfig, root: Path
) -> tuple[Path, ...]:
    """Return where the interpreter `name` looks for its script; nothing if only a shell can tell."""
    if isinstance(config.command, str) and _SHELL_EXPANSION.search(script):
        return ()
    if interpreter.searches_path and "/" not in script:
        found = shutil.which(script, os.F_OK, config.env.get("PATH"))
        return (root / script, *([Path(found)] if found else []))
    return tuple(root / f"{script}{suffix}" for suffix in interpreter.suffixes)


def _path_remedy(path: str, root: Path) -> str:
    """Return what to do about a missing file. A pushed policy has no folder: its hooks run in `/`."""
    no_folder = root == Path(root.anchor) and not os.path.isabs(path)
    return f"the hook runs in {root}, so use an absolute path" if no_folder else "check the path"


@dataclass(frozen=True, slots=True)
class _Interpreter:
    """The command line of an interpreter: `program [option]... script [argument]...`.

    `inline` contains the letters of the options after which there is no script file, and `valued` the letters
    of the options with a value. After a long option that is neither in `long_valued` nor matches `switches`,
    the script is unknown.
    """

    programs: re.Pattern[str]
    inline: str
    valued: str
    long_valued: frozenset[str] = frozenset()
    switches: re.Pattern[str] = re.compile(r"(?!)")
    suffixes: tuple[str, ...] = ("",)
    """The suffixes that the interpreter tries to append to the script's name."""
    runs_folders: bool = False
    searches_path: bool = False
    needs_unix_lines: bool = False


_INTERPRETERS = (
    _Interpreter(
        re.compile(r"(ba|da|z|k|a)?sh"),
        inline="cs",
        valued="oO",
        long_valued=frozenset({"--rcfile", "--init-file"}),
        switches=re.compile(r"--(login|norc|noprofile|posix|restricted|verbose)"),
        searches_path=True,
        needs_unix_lines=True,
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
"""`uv run`. Its argument is a script if the name ends with `.py`, and a command otherwise."""

_PREFIXES = ("env", "exec", "nohup")
"""Programs that run the command in their arguments."""


def _script_of(words: Sequence[str]) -> tuple[_Interpreter, str, str] | None:
    """Return the interpreter that a command starts, its name, and the script that it would run, or None."""
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
    """Return the script and the arguments that follow it. The list is empty if the script is unknown."""
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
