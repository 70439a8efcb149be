"""Conditions on the arguments of a tool's call: a place in them, and what has to be there."""

import json
import shlex
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any

from pydantic import AfterValidator, Field

from hookgate.hooks.policies.options import Globs, Options, Pattern, compiled, named, pointer

_OPERATORS = frozenset("();<>|&\n")


class Runs(Options):
    """A program in a shell command: `{"program": "rm", "flags": "rf"}` holds for `cd x && rm -r -f y`."""

    program: Globs
    """The program's name, whatever folder it is called from."""

    flags: str = ""
    """Single-letter flags that have to be there, in any order and grouping."""

    words: tuple[str, ...] = Field(default=(), strict=False)
    """Words that have to be among its arguments."""

    def holds(self, line: str) -> bool:
        return any(self._is(words) for words in commands_in(line))

    def _is(self, words: list[str]) -> bool:
        program, *arguments = words
        if not named(self.program, program.rpartition("/")[2]):
            return False
        short = (word[1:] for word in arguments if word.startswith("-") and not word.startswith("--"))
        given = set("".join(short))
        return set(self.flags) <= given and set(self.words) <= set(arguments)


class Condition(Options):
    """What has to be at a place in the arguments. Of several keys all have to hold."""

    equals: Any = None
    """This very value."""

    one_of: tuple[Any, ...] | None = Field(default=None, strict=False)
    """One of these values."""

    glob: Globs | None = None
    """A text that one of these stands for, with wildcards."""

    matches: Pattern | None = None
    """A text in which this pattern is found."""

    above: float | None = Field(default=None, strict=False)
    """A number above this one."""

    below: float | None = Field(default=None, strict=False)
    """A number below this one."""

    runs: Runs | None = None
    """A shell command that runs this program."""

    def holds(self, value: Any) -> bool:
        """Whether all keys that are given hold for the value."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        number = value if isinstance(value, int | float) and not isinstance(value, bool) else None
        checks: dict[str, Callable[[], bool]] = {
            "equals": lambda: value == self.equals and type(value) is type(self.equals),
            "one_of": lambda: value in (self.one_of or ()),
            "glob": lambda: named(self.glob or (), text),
            "matches": lambda: compiled(self.matches or "").search(text) is not None,
            "above": lambda: number is not None and number > (self.above or 0),
            "below": lambda: number is not None and number < (self.below or 0),
            "runs": lambda: self.runs is not None and self.runs.holds(text),
        }
        return all(checks[name]() for name in self.model_fields_set)


PlaceOrAll = Annotated[str, AfterValidator(lambda value: value and pointer(value))]
"""A JSON Pointer, or an empty text for all arguments."""

Conditions = Mapping[PlaceOrAll, Condition]
"""Conditions by JSON Pointer (RFC 6901): `/command`, `/files/0/path`; an empty one is all arguments."""


def all_hold(conditions: Conditions, arguments: Any) -> bool:
    """Whether there is a value at each place, and its condition holds."""
    return all(
        any(condition.holds(value) for value in at(arguments, pointer))
        for pointer, condition in conditions.items()
    )


def at(value: Any, pointer: str) -> Iterator[Any]:
    """The value at a JSON Pointer, or nothing where there is none."""
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        if isinstance(value, dict) and key in value:
            value = value[key]
        elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
            value = value[int(key)]
        else:
            return
    yield value


def commands_in(line: str) -> Iterator[list[str]]:
    """The simple commands of a shell line, each as its words, those in substitutions and of `sh -c` too.

    Of a program that runs another one, such as `sudo` or `find -exec`, every word may be that other one. A
    line that cannot be read is taken word by word, so that nothing hides behind an open quote. What a
    variable holds is not known.
    """
    for found in _split(line):
        assigned = (at for at, word in enumerate(found) if "=" not in word.partition("/")[0])
        words = found[next(assigned, len(found)) :]
        if not words:
            continue
        program = words[0].rpartition("/")[2]
        yield from (words[at:] for at in range(len(words))) if program in _RUNNERS else (words,)
        if program in _SHELLS:
            yield from commands_in(" ".join(word for word in words[1:] if not word.startswith("-")))


_SHELLS = frozenset({"sh", "bash", "dash", "zsh", "ksh", "eval"})
_RUNNERS = frozenset(
    {
        "sudo",
        "doas",
        "env",
        "nohup",
        "time",
        "exec",
        "command",
        "builtin",
        "xargs",
        "nice",
        "ionice",
        "timeout",
    }
    | {"stdbuf", "find", "busybox", "watch", "parallel", "then", "do", "else", "elif", "if", "while", "until"}
    | {"{", "!"}
)


def _split(line: str) -> Iterator[list[str]]:
    lexer = shlex.shlex(
        line.replace("`", " ; ").replace("$(", " ; "), posix=True, punctuation_chars="();<>|&\n"
    )
    lexer.whitespace = " \t\r"
    lexer.whitespace_split = True
    lexer.commenters = ""
    words: list[str] = []
    try:
        for word in lexer:
            if set(word) <= _OPERATORS:
                yield words
                words = []
            else:
                words.append(word)
    except ValueError:
        plain = line.translate(dict.fromkeys(map(ord, "\"'`();|&<>"), " ")).split()
        yield from (plain[at:] for at in range(len(plain)))
    yield words
