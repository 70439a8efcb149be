"""What is found in a shell script: commands, variables, and the reason why some of it is unreadable."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from hookgate.hooks.policies.shell.words import UNKNOWN, Word, literal

MAX_PARTS = 5_000
"""The maximum number of parts that are read for one request, such as words, operators and expansions."""

MAX_LENGTH = 512 * 1024
"""The maximum number of characters that are read for one request, counting repeated reads."""

_MAX_DEPTH = 40
"""The maximum nesting of commands and expansions."""


FOLDERS = frozenset({"HOME", "PWD"})
"""Variables that contain a folder unless the script sets them."""

_SET_BY_SHELL = re.compile(
    r"_|REPLY|MAPFILE|OPTARG|OLDPWD|DIRSTACK|FUNCNAME|COPROC|GROUPS|(?:BASH|COMP|READLINE).*"
)


class UnreadableError(Exception):
    """A script, or some of it, that is not understood. Its text says why."""


@dataclass(slots=True)
class ReadingBudget:
    """The limits of what is read for one request, which may have several scripts."""

    parts: int = MAX_PARTS
    length: int = MAX_LENGTH

    def spend(self, parts: int = 1, length: int = 0) -> None:
        """Count what is read. Raises UnreadableError if it exceeds the limits."""
        self.parts, self.length = self.parts - parts, self.length - length
        if self.is_spent:
            raise UnreadableError(f"it has more than {MAX_PARTS} parts or {MAX_LENGTH} characters")

    @property
    def is_spent(self) -> bool:
        """Whether what was read exceeds the limits."""
        return self.parts < 0 or self.length < 0


@dataclass(slots=True)
class SimpleCommand:
    """A command as its words, the program first. It has no words if it only sets variables."""

    words: list[Word] = field(default_factory=list)
    assignments: list[tuple[str, Word]] = field(default_factory=list)
    """The variables that are set before the program, and their values."""
    stdin: Word | None = None
    """Its standard input: known if the script contains it, None if it is that of the script."""


@dataclass(slots=True)
class Variables:
    """The variables of a script, without regard to the order of its commands.

    Some uses of a variable are understood only if all of its values in the script are of a certain kind. For
    example, bash evaluates the value of a variable in arithmetic, and runs commands that it contains.
    """

    values: dict[str, list[Word]] = field(default_factory=dict)
    """The values that variables are set to."""
    arrays: set[str] = field(default_factory=set)
    numbers: set[str] = field(default_factory=set)
    """Variables that are used as numbers."""
    plain: set[str] = field(default_factory=set)
    """Variables that are used where an option would have an effect."""
    declared: set[str] = field(default_factory=set)
    """Variables that `declare` sets to a value that would be evaluated if they were arrays."""
    unread: list[tuple[str, Word]] = field(default_factory=list)
    """Variables that are set to a value that has not been read yet."""

    def set(self, name: str, value: Word) -> None:
        """Note that a variable is set."""
        self.values.setdefault(name, []).append(value)
        self.unread.append((name, value))

    def unreadable(self) -> str:
        """Return the reason why the use of a variable is not understood, or an empty string."""
        for name in sorted(self.numbers):
            values = self.values.get(name, [UNKNOWN])
            if _SET_BY_SHELL.fullmatch(name) or not all(value.is_number for value in values):
                return f"the value of {name} may be evaluated; set it to a number first, or quote it"
        for name in sorted(self.plain):
            values = self.values.get(name, [literal("/")] if name in FOLDERS else [UNKNOWN])
            if _SET_BY_SHELL.fullmatch(name) or not all(value.is_plain for value in values):
                return f"the value of {name} may be an option; put -- before it, or write it out"
        arrays = sorted(self.declared & self.arrays)
        return f"the value of the array {arrays[0]} may be evaluated; write its elements" if arrays else ""


@dataclass(slots=True)
class ShellScript:
    """What is found in a script and in the scripts within it."""

    budget: ReadingBudget
    commands: list[SimpleCommand] = field(default_factory=list)
    variables: Variables = field(default_factory=Variables)
    functions: set[str] = field(default_factory=set)
    """The names of its functions and aliases."""
    counters: set[str] = field(default_factory=set)
    """Programs whose output it uses as a number."""
    unreadable: str = ""
    """The first reason why some of it is not understood, or an empty string."""
    _depth: int = 0

    def mark(self, reason: str) -> None:
        """Note that some of the script is not understood."""
        self.unreadable = self.unreadable or reason

    @contextmanager
    def nested(self) -> Iterator[None]:
        """Count a level of nesting. Raises UnreadableError if there are too many."""
        if self._depth >= _MAX_DEPTH:
            raise UnreadableError("it is nested too deeply")
        self._depth += 1
        try:
            yield
        finally:
            self._depth -= 1
