"""Finds the commands that a shell command line would run, including those run by other commands."""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from hookgate.hooks.policies.shell.parsing import (
    MAX_BYTES,
    MAX_CONTROLS,
    SimpleCommand,
    count_controls,
    parse_script,
)
from hookgate.hooks.policies.shell.words import UNKNOWN, Word, join_words, literal
from hookgate.hooks.policies.shell.wrappers import (
    CODE_OPTIONS,
    CONTAINER,
    CONTAINER_PROGRAMS,
    LOOSE,
    WRAPPERS,
    Arguments,
    DynamicWordError,
    UnknownOptionError,
    take_apart,
)

_MAX_DEPTH = 12
"""The maximum nesting of scripts."""

_MAX_WORDS = 3_000
"""The maximum number of words that are read for one line, counting repeated reads."""

_PLACEHOLDER = "${_}"
"""The placeholder in nested scripts for text that is known only when the command runs."""

_STDIN_FILES = frozenset({"-", "/dev/stdin", "/dev/fd/0", "/proc/self/fd/0"})
_INTERPRETER = re.compile(
    r"(?:python|pypy|perl|ruby|node|nodejs|deno|bun|php|lua|tclsh|Rscript|osascript|pwsh|powershell"
    r"|[gmn]?awk)[\d.]*"
)
_RESERVED = frozenset(
    {"{", "}", "if", "then", "elif", "else", "fi", "for", "while", "until", "do", "done", "case", "esac"}
    | {"select", "function", "in", "[[", "]]", "((", "))"}
)
_CODE = re.compile(r"[^\w@%+=:,./-]")


@dataclass(slots=True)
class CommandLine:
    """The commands in a command line, as far as they can be determined."""

    commands: list[tuple[Word, ...]] = field(default_factory=list)
    """Every command that may be run, each as its words, the program first."""
    foreign: list[str] = field(default_factory=list)
    """Code in other languages that is passed to their interpreters."""
    unreadable: str = ""
    """The reason why a part of it is unknown, or an empty string."""


def read_line(text: str) -> CommandLine:
    """Read a command line as a shell would. A line that exceeds the limits is reported as unreadable."""
    reader = _Reader()
    reader.read_script(text, 0)
    return reader.found


def read_lines(lines: Iterable[str | Sequence[str]]) -> Iterator[CommandLine]:
    """Read several command lines, each a text or a program and its arguments.

    Together they have the limits of one line, beyond which the rest is reported as unreadable.
    """
    size = controls = 0
    for number, line in enumerate(lines):
        text = line if isinstance(line, str) else " ".join(line)
        source = text.encode(errors="surrogatepass")
        size, controls = size + len(source), controls + count_controls(source) + 1
        # The first line has its own limits, in which here-documents do not count.
        if number and (size > MAX_BYTES or controls > MAX_CONTROLS):
            limits = f"{MAX_BYTES} bytes or {MAX_CONTROLS} control characters"
            yield CommandLine(unreadable=f"it has more than {limits} in several texts")
            return
        yield read_line(line) if isinstance(line, str) else read_arguments(line)


def read_arguments(arguments: Iterable[str]) -> CommandLine:
    """Read a program and its arguments, which are not parsed by a shell."""
    reader = _Reader()
    reader.read_command(SimpleCommand(tuple(literal(argument) for argument in arguments)), 0)
    return reader.found


class _Reader:
    """Reads one command line."""

    def __init__(self) -> None:
        self.found = CommandLine()
        self._words = 0

    def read_script(self, text: str, depth: int) -> None:
        """Add all commands of a script."""
        self._words += len(text) // 8 if depth else 0
        if depth > _MAX_DEPTH or self._words > _MAX_WORDS:
            self._mark_unreadable("commands are nested too deeply")
            return
        script = parse_script(text)
        for command in script.commands:
            self.read_command(command, depth)
        for nested in script.nested:
            self.read_script(nested, depth + 1)
        if script.unreadable:
            self._mark_unreadable(script.unreadable)

    def read_command(self, command: SimpleCommand, depth: int) -> None:
        """Add a command, and what it runs."""
        words = command.words
        self._words += len(words) + 1
        if depth > _MAX_DEPTH or self._words > _MAX_WORDS:
            self._mark_unreadable("commands are nested too deeply")
            return
        if not words:
            return
        self.found.commands.append(words)
        name = words[0].program
        if name is None:
            self._mark_unreadable(
                "an expansion or wildcard names the program; write its name, or quote the expansion"
            )
            return
        self._unwrap(name, command, depth)

    def _unwrap(self, name: str, command: SimpleCommand, depth: int) -> None:
        if name in _RESERVED:
            self._mark_unreadable(f"the reserved word {name} is used as a program")
        if name in CODE_OPTIONS:
            self._read_code_options(CODE_OPTIONS[name], command, depth)
        if name in WRAPPERS:
            self._read_wrapper(name, command, depth)
        elif name in CONTAINER_PROGRAMS:
            self._read_container(command, depth)
        elif name in LOOSE:
            self._read_any(command, depth)
        elif name in _SPECIAL:
            _SPECIAL[name](self, command, depth)
        elif _INTERPRETER.fullmatch(name):
            self._read_foreign(command)

    # ---- programs that run others

    def _read_wrapper(self, name: str, command: SimpleCommand, depth: int) -> None:
        wrapper = WRAPPERS[name]
        try:
            arguments = take_apart(wrapper, command.words[1:])
        except UnknownOptionError:
            if name != "command":  # `command -v` runs nothing
                self._read_any(command, depth)
            return
        except DynamicWordError:
            self._mark_expansion(name)
            self._read_any(command, depth)
            return
        for script in arguments.scripts:
            self._read_code((script, *arguments.command), depth)
        shell = wrapper.starts_shell or arguments.value("i", "s", "login", "shell") is not None
        if not arguments.command and shell and name != "xargs":
            self._read_stdin(name, command, depth)
        elif wrapper.joined and arguments.command:
            self._read_code(arguments.command, depth)
        elif arguments.command:
            run = _with_input(arguments) if name == "xargs" else arguments.command
            self.read_command(SimpleCommand(run, command.stdin), depth + 1)

    def _read_container(self, command: SimpleCommand, depth: int) -> None:
        words = command.words
        at = next((at for at, word in enumerate(words) if word.text in {"exec", "run"}), None)
        if at is None:
            if any(word.splits for word in words[1:3]):
                self._mark_expansion(str(words[0].program))
            return
        separators = [place for place, word in enumerate(words) if word.text == "--" and place > at]
        try:
            arguments = take_apart(CONTAINER, words[at + 1 :])
        except (DynamicWordError, UnknownOptionError):
            self._mark_expansion(str(words[0].program))
            self._read_any(command, depth)
            return
        entry = arguments.value("entrypoint")
        run = ((entry,) if entry is not None else ()) + arguments.command
        if separators:
            self.read_command(SimpleCommand(words[separators[0] + 1 :], command.stdin), depth + 1)
        if run and run[0].text != "--":
            self.read_command(SimpleCommand(run, command.stdin), depth + 1)

    def _read_any(self, command: SimpleCommand, depth: int) -> None:
        """Read each word as the program that is run, since it is unknown which of them it is."""
        words, option = command.words, False
        for at, word in enumerate(words[1:], 1):
            is_option = word.head.startswith("-")
            if word.splits or (word.text is None and not option and not is_option):
                self._mark_expansion(str(words[0].program))
            elif word.text is not None and not is_option:
                self.read_command(SimpleCommand(words[at:], command.stdin), depth + 1)
                if _CODE.search(word.text):
                    self._read_code((word,), depth)
            option = is_option

    def _read_find(self, command: SimpleCommand, depth: int) -> None:
        words = command.words
        if any(word.splits for word in words):
            self._mark_expansion("find")
        for at, word in enumerate(words):
            if word.text in {"-exec", "-execdir", "-ok", "-okdir"}:
                run = tuple(takewhile(lambda word: word.text not in {";", "+"}, words[at + 1 :]))
                self.read_command(SimpleCommand(run), depth + 1)

    # ---- shells and their code

    def _read_shell(self, command: SimpleCommand, depth: int) -> None:
        words, at = command.words, 1
        code = stdin = False
        while at < len(words) and (words[at].may_be_option or words[at].head.startswith("+")):
            text = words[at].text
            at += 1
            if text is None:
                self._mark_expansion("a shell")
                return
            if text in {"--", "-"}:
                break
            if text in {"--version", "--help"}:
                return
            if text.startswith("--"):
                at += text in {"--rcfile", "--init-file"}
                continue
            code |= text.startswith("-") and "c" in text
            stdin |= text.startswith("-") and "s" in text
            at += sum(text.count(letter) for letter in "oO")
        operands = words[at:]
        if any(word.splits for word in operands[:1]):
            self._mark_expansion("a shell")
        elif code:
            self._read_code(operands[:1], depth)
        elif stdin or not operands or operands[0].text in _STDIN_FILES:
            self._read_stdin("a shell", command, depth)
        elif operands[0].text is None:
            self._mark_unreadable("a shell runs a file whose name is known only when it runs")

    def _read_eval(self, command: SimpleCommand, depth: int) -> None:
        self._read_code(command.words[1:], depth)

    def _read_source(self, command: SimpleCommand, depth: int) -> None:
        for word in command.words[1:2]:
            if word.text in _STDIN_FILES:
                self._read_stdin("source", command, depth)
            elif word.text is None:
                self._mark_unreadable("a shell runs a file whose name is known only when it runs")

    def _read_at(self, command: SimpleCommand, depth: int) -> None:
        if not any(re.match(r"-[A-Za-z]*[cdflrV]", word.head) for word in command.words[1:]):
            self._read_stdin("at", command, depth)

    def _read_trap(self, command: SimpleCommand, depth: int) -> None:
        operands = [word for word in command.words[1:] if word.text not in {"--", "-", "-l", "-p"}]
        self._read_code(operands[:1], depth)

    def _read_alias(self, command: SimpleCommand, depth: int) -> None:
        for word in command.words[1:]:
            if word.text is None:
                self._mark_expansion("alias")
            elif "=" in word.text:
                self.read_script(f"{word.text.partition('=')[2]} {_PLACEHOLDER}", depth + 1)

    def _read_code_options(self, names: frozenset[str], command: SimpleCommand, depth: int) -> None:
        words = command.words
        for at, word in enumerate(words[1:], 1):
            name, equals, value = word.head.partition("=")
            if equals and name in names:
                self._read_code((Word((value, *word.parts[1:]), word.splits),), depth)
            elif word.text in names or (
                "-c" in names and re.fullmatch(r"-[A-Za-z]*c", word.text or "") is not None
            ):
                self._read_code(words[at + 1 : at + 2], depth)
            elif "-c" in names and word.head.startswith("-c"):
                self._read_code((Word((word.head[2:], *word.parts[1:]), word.splits),), depth)

    def _read_code(self, words: Sequence[Word], depth: int) -> None:
        """Read words that a shell joins with blanks and then parses."""
        joined = join_words(tuple(words), " ")
        text = "".join(_PLACEHOLDER if part is None else part for part in joined.parts)
        self.read_script(text, depth + 1)
        if joined.text is None:
            self._mark_unreadable("an expansion is part of a command that another shell reads; write it out")

    def _read_stdin(self, name: str, command: SimpleCommand, depth: int) -> None:
        if command.stdin is None:
            self._mark_unreadable(f"{name} reads its commands from elsewhere")
        else:
            self._read_code((command.stdin,), depth)

    def _read_foreign(self, command: SimpleCommand) -> None:
        """Add code in another language, which is not parsed, only searched for names of programs."""
        words = command.words
        arguments = words[1:]
        for before, word in zip(words, arguments, strict=False):
            text = "\0".join(part or "" for part in word.parts)
            is_code = re.match(r"-[A-Za-z]*[ceErp]", before.head) is not None
            if is_code or _CODE.search(text):
                self.found.foreign.append(text)
            if is_code and word.text is None:
                self._mark_unreadable(f"an expansion is part of code that {words[0].program} runs")
        if command.stdin is not None:
            self.found.foreign.append("\0".join(part or "" for part in command.stdin.parts))
        elif all(word.text in _STDIN_FILES for word in arguments):
            self._mark_unreadable(f"{words[0].program} reads its code from elsewhere")

    # ---- unreadable commands

    def _mark_expansion(self, program: str) -> None:
        self._mark_unreadable(
            f"an expansion among the arguments of {program} may name another program; quote it"
        )

    def _mark_unreadable(self, reason: str) -> None:
        self.found.unreadable = self.found.unreadable or reason


def _with_input(arguments: Arguments) -> tuple[Word, ...]:
    """Return the command of `xargs` with its input: unknown words at the end, or in place of a mark."""
    replaced = arguments.value("I", "i", "replace")
    if replaced is None:
        return (*arguments.command, UNKNOWN)
    mark = replaced.text or "{}"
    return tuple(Word((None,)) if mark in (word.text or mark) else word for word in arguments.command)


_SHELLS = (
    *("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish"),
    *("csh", "tcsh", "yash", "posh", "ksh93", "rksh", "lksh", "oksh", "nu", "xonsh", "elvish"),
)

_SPECIAL: Mapping[str, Callable[[_Reader, SimpleCommand, int], None]] = {
    **dict.fromkeys(_SHELLS, _Reader._read_shell),  # methods of the class above
    "eval": _Reader._read_eval,
    ".": _Reader._read_source,
    "source": _Reader._read_source,
    "trap": _Reader._read_trap,
    "alias": _Reader._read_alias,
    **dict.fromkeys(("find", "gfind"), _Reader._read_find),
    **dict.fromkeys(("at", "batch"), _Reader._read_at),
}
