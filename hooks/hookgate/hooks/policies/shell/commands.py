"""What a shell command line would run: its commands, and those that its commands run in turn."""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import takewhile

from hookgate.hooks.policies.shell.parsing import SimpleCommand, parse_script
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
"""Scripts within scripts."""

_MAX_WORDS = 3_000
"""Words that are looked at for one line, however often each."""

_PLACEHOLDER = "${_}"
"""What stands in a nested script for text that is known only when the command runs."""

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
    """What is known of a command line."""

    commands: list[tuple[Word, ...]] = field(default_factory=list)
    """Every command that may be run, each as its words, the program first."""
    foreign: list[str] = field(default_factory=list)
    """Code in other languages that it hands to their interpreters."""
    unreadable: str = ""
    """Why a part of it cannot be known, such as `a variable names the program`; empty if all of it is."""


def read_line(text: str) -> CommandLine:
    """Read a command line as a shell would. The time is bounded; what is beyond it counts as unreadable."""
    reader = _Reader()
    reader.read_script(text, 0)
    return reader.found


def read_arguments(arguments: Iterable[str]) -> CommandLine:
    """Read a program and its arguments, which no shell takes apart."""
    reader = _Reader()
    reader.read_command(SimpleCommand(tuple(literal(each) for each in arguments)), 0)
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
            self._refuse("commands are nested too deeply in each other")
            return
        script = parse_script(text)
        for command in script.commands:
            self.read_command(command, depth)
        for nested in script.nested:
            self.read_script(nested, depth + 1)
        if script.unreadable:
            self._refuse(script.unreadable)

    def read_command(self, command: SimpleCommand, depth: int) -> None:
        """Add a command, and what it runs."""
        words = command.words
        self._words += len(words) + 1
        if depth > _MAX_DEPTH or self._words > _MAX_WORDS:
            self._refuse("commands are nested too deeply in each other")
            return
        if not words:
            return
        self.found.commands.append(words)
        name = words[0].program
        if name is None:
            self._refuse("an expansion or wildcard names the program; write its name, or quote the expansion")
            return
        self._unwrap(name, command, depth)

    def _unwrap(self, name: str, command: SimpleCommand, depth: int) -> None:
        if name in _RESERVED:
            self._refuse(f"the word {name} stands where no program does")
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
            taken = take_apart(wrapper, command.words[1:])
        except UnknownOptionError:
            if name != "command":  # `command -v` runs nothing
                self._read_any(command, depth)
            return
        except DynamicWordError:
            self._refuse_expansion(name)
            self._read_any(command, depth)
            return
        for script in taken.scripts:
            self._read_code((script, *taken.command), depth)
        shell = wrapper.starts_shell or taken.value("i", "s", "login", "shell") is not None
        if not taken.command and shell and name != "xargs":
            self._read_stdin(name, command, depth)
        elif wrapper.joined and taken.command:
            self._read_code(taken.command, depth)
        elif taken.command:
            run = _with_input(taken) if name == "xargs" else taken.command
            self.read_command(SimpleCommand(run, command.stdin), depth + 1)

    def _read_container(self, command: SimpleCommand, depth: int) -> None:
        words = command.words
        at = next((at for at, word in enumerate(words) if word.text in {"exec", "run"}), None)
        if at is None:
            if any(word.splits for word in words[1:3]):
                self._refuse_expansion(str(words[0].program))
            return
        behind = [place for place, word in enumerate(words) if word.text == "--" and place > at]
        try:
            taken = take_apart(CONTAINER, words[at + 1 :])
        except (DynamicWordError, UnknownOptionError):
            self._refuse_expansion(str(words[0].program))
            self._read_any(command, depth)
            return
        entry = taken.value("entrypoint")
        run = ((entry,) if entry is not None else ()) + taken.command
        if behind:
            self.read_command(SimpleCommand(words[behind[0] + 1 :], command.stdin), depth + 1)
        if run and run[0].text != "--":
            self.read_command(SimpleCommand(run, command.stdin), depth + 1)

    def _read_any(self, command: SimpleCommand, depth: int) -> None:
        """Take each word for the program that is run, since nobody knows which of them it is."""
        words, option = command.words, False
        for at, word in enumerate(words[1:], 1):
            is_option = word.head.startswith("-")
            if word.splits or (word.text is None and not option and not is_option):
                self._refuse_expansion(str(words[0].program))
            elif word.text is not None and not is_option:
                self.read_command(SimpleCommand(words[at:], command.stdin), depth + 1)
                if _CODE.search(word.text):
                    self._read_code((word,), depth)
            option = is_option

    def _read_find(self, command: SimpleCommand, depth: int) -> None:
        words = command.words
        if any(word.splits for word in words):
            self._refuse_expansion("find")
        for at, word in enumerate(words):
            if word.text in {"-exec", "-execdir", "-ok", "-okdir"}:
                run = tuple(takewhile(lambda each: each.text not in {";", "+"}, words[at + 1 :]))
                self.read_command(SimpleCommand(run), depth + 1)

    # ---- shells, and what is code to them

    def _read_shell(self, command: SimpleCommand, depth: int) -> None:
        words, at = command.words, 1
        code = stdin = False
        while at < len(words) and (words[at].may_be_option or words[at].head.startswith("+")):
            text = words[at].text
            at += 1
            if text is None:
                self._refuse_expansion("a shell")
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
            self._refuse_expansion("a shell")
        elif code:
            self._read_code(operands[:1], depth)
        elif stdin or not operands or operands[0].text in _STDIN_FILES:
            self._read_stdin("a shell", command, depth)
        elif operands[0].text is None:
            self._refuse("a shell runs a file whose name is known only when it runs")

    def _read_eval(self, command: SimpleCommand, depth: int) -> None:
        self._read_code(command.words[1:], depth)

    def _read_source(self, command: SimpleCommand, depth: int) -> None:
        for word in command.words[1:2]:
            if word.text in _STDIN_FILES:
                self._read_stdin("source", command, depth)
            elif word.text is None:
                self._refuse("a shell runs a file whose name is known only when it runs")

    def _read_trap(self, command: SimpleCommand, depth: int) -> None:
        operands = [word for word in command.words[1:] if word.text not in {"--", "-", "-l", "-p"}]
        self._read_code(operands[:1], depth)

    def _read_alias(self, command: SimpleCommand, depth: int) -> None:
        for word in command.words[1:]:
            if word.text is None:
                self._refuse_expansion("alias")
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
        """Read words that are joined by blanks and then parsed by a shell."""
        joined = join_words(tuple(words), " ")
        text = "".join(_PLACEHOLDER if part is None else part for part in joined.parts)
        self.read_script(text, depth + 1)
        if joined.text is None:
            self._refuse("an expansion is part of a command that another shell reads; write it out")

    def _read_stdin(self, name: str, command: SimpleCommand, depth: int) -> None:
        if command.stdin is None:
            self._refuse(f"{name} reads its commands from somewhere else")
        else:
            self._read_code((command.stdin,), depth)

    def _read_foreign(self, command: SimpleCommand) -> None:
        """Code in another language: it is not understood, only searched for names of programs."""
        words = command.words
        arguments = words[1:]
        for before, word in zip(words, arguments, strict=False):
            text = "\0".join(part or "" for part in word.parts)
            is_code = re.match(r"-[A-Za-z]*[ceErp]", before.head) is not None
            if is_code or _CODE.search(text):
                self.found.foreign.append(text)
            if is_code and word.text is None:
                self._refuse(f"an expansion is part of code that {words[0].program} runs")
        if command.stdin is not None:
            self.found.foreign.append("\0".join(part or "" for part in command.stdin.parts))
        elif all(word.text in _STDIN_FILES for word in arguments):
            self._refuse(f"{words[0].program} reads its code from somewhere else")

    # ---- what cannot be read

    def _refuse_expansion(self, program: str) -> None:
        self._refuse(f"an expansion among the arguments of {program} may name another program; quote it")

    def _refuse(self, why: str) -> None:
        self.found.unreadable = self.found.unreadable or why


def _with_input(taken: Arguments) -> tuple[Word, ...]:
    """The command of `xargs` with what it reads: unknown words at the end, or in the place of a text."""
    replaced = taken.value("I", "i", "replace")
    if replaced is None:
        return (*taken.command, UNKNOWN)
    mark = replaced.text or "{}"
    return tuple(Word((None,)) if mark in (word.text or mark) else word for word in taken.command)


_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "mksh", "ash", "rbash", "fish")

_SPECIAL: Mapping[str, Callable[[_Reader, SimpleCommand, int], None]] = {
    **dict.fromkeys(_SHELLS, _Reader._read_shell),  # of this module's own class
    "eval": _Reader._read_eval,
    ".": _Reader._read_source,
    "source": _Reader._read_source,
    "trap": _Reader._read_trap,
    "alias": _Reader._read_alias,
    "find": _Reader._read_find,
}
