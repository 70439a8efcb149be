"""Conditions on the arguments of a tool's call: a place in them, and what has to be there."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator

from hookgate.hooks.policies.options import Globs, Options, Pattern, compiled, named, pointer
from hookgate.hooks.policies.shell import CommandLine, Word, read_arguments, read_line, require_parser

_SAME_FLAGS: Mapping[str, Mapping[str, str]] = {
    "rm": {"R": "r", "recursive": "r", "force": "f"},
    "cp": {"R": "r", "recursive": "r", "force": "f"},
    "mv": {"force": "f"},
    "ln": {"force": "f", "symbolic": "s"},
    "chmod": {"recursive": "R"},
    "chown": {"recursive": "R"},
    "chgrp": {"recursive": "R"},
}
"""Flags and long options that mean the same as another flag, by program."""


class Runs(Options):
    """A program in a shell command: `{"program": "rm", "flags": "rf"}` holds for `cd x && rm -r -f y`."""

    program: Globs
    """The program's name, whatever folder it is called from."""

    flags: str = ""
    """Single-letter flags that have to be there, in any order and grouping."""

    words: tuple[str, ...] = Field(default=(), strict=False)
    """Words that have to be among its arguments."""

    unreadable: Literal["deny", "allow"] = "deny"
    """What becomes of commands of which it cannot be known whether they run the program."""

    @field_validator("program")
    @classmethod
    def _check_parser(cls, value: Globs) -> Globs:
        require_parser()
        return value

    def check(self, value: Any) -> "Finding":
        """Look for the program in a command line, in a list of arguments, or in all texts of an object."""
        findings = [self._check_line(line) for line in _lines_in(value)]
        return next(
            (each for each in findings if each.holds and not each.unreadable),
            next((each for each in findings if each.holds), Finding(False)),
        )

    def _check_line(self, line: CommandLine) -> "Finding":
        unreadable = line.unreadable
        for words in line.commands:
            match self._runs_in(words):
                case True:
                    return Finding(True)
                case None:
                    unreadable = unreadable or "an expansion may stand for its arguments; put -- before it"
        if not unreadable and any(self._is_named_in(code) for code in line.foreign):
            unreadable = "the program is named in code of another language"
        return Finding(bool(unreadable) and self.unreadable == "deny", unreadable)

    def _runs_in(self, words: tuple[Word, ...]) -> bool | None:
        """Whether a command is the one that is looked for; None if that depends on what is not known."""
        program, arguments = words[0].program, words[1:]
        if program is None or not named(self.program, program):
            return False
        operands_only = next((at for at, word in enumerate(arguments) if word.text == "--"), len(arguments))
        before = arguments[:operands_only]
        flags = set(self.flags) <= set().union(*(_flags(program, word) for word in before))
        wanted = [word for word in self.words if not any(_is_word(each, word) for each in arguments)]
        if flags and not wanted:
            return True
        may_have_flags = flags or any(word.text is None and word.may_be_option for word in before)
        if may_have_flags and all(any(each.may_be(word) for each in arguments) for word in wanted):
            return None
        return False

    def _is_named_in(self, code: str) -> bool:
        return any(named(self.program, token) for token in re.split(r"[^\w.+-]+|[.](?=\W)", code) if token)


@dataclass(frozen=True, slots=True)
class Finding:
    """Whether a condition holds for a value."""

    holds: bool
    unreadable: str = ""
    """Why that is not certain, if it is not."""


def _flags(program: str, word: Word) -> set[str]:
    """The single-letter flags in a word, long and equal ones by the letter that means the same."""
    same = _SAME_FLAGS.get(program, {})
    if word.head.startswith("--"):
        name = word.head[2:].partition("=")[0]
        # GNU's programs take every beginning of a long option that is not one of another option as well.
        return {flag for long, flag in same.items() if name and len(long) > 1 and long.startswith(name)}
    if not word.head.startswith("-"):
        return set()
    return {same.get(letter, letter) for letter in word.head[1:]} | set(word.head[1:])


def _is_word(word: Word, wanted: str) -> bool:
    """Whether an argument is this word, or this long option with a value."""
    return word.text == wanted or (wanted.startswith("--") and word.head.startswith(f"{wanted}="))


def _lines_in(value: Any) -> Iterator[CommandLine]:
    """The command lines in an argument of a tool: a text, a list of words, or whatever holds some."""
    if isinstance(value, str):
        yield read_line(value)
    elif isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        yield read_arguments(value)
    elif isinstance(value, list | dict):
        for each in value.values() if isinstance(value, dict) else value:
            yield from _lines_in(each)


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

    def check(self, value: Any) -> Finding:
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
        }
        if not all(checks[name]() for name in self.model_fields_set if name != "runs"):
            return Finding(False)
        return Finding(True) if self.runs is None else self.runs.check(value)


PlaceOrAll = Annotated[str, AfterValidator(lambda value: value and pointer(value))]
"""A JSON Pointer, or an empty text for all arguments."""

Conditions = Mapping[PlaceOrAll, Condition]
"""Conditions by JSON Pointer (RFC 6901): `/command`, `/files/0/path`; an empty one is all arguments."""


def check_all(conditions: Conditions, arguments: Any) -> Finding:
    """Whether there is a value at each place, and its condition holds."""
    unreadable = ""
    for place, condition in conditions.items():
        finding = next((condition.check(value) for value in at(arguments, place)), Finding(False))
        if not finding.holds:
            return Finding(False)
        unreadable = unreadable or finding.unreadable
    return Finding(True, unreadable)


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
