"""Conditions on the arguments of a tool call: a place in the arguments, and what its value must be."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field

from hookgate.hooks.policies.options import Globs, Options, Pattern, compile_pattern, matches_name, pointer
from hookgate.hooks.policies.shell import CommandLine, Word, read_lines
from hookgate.translator.fields import same

_NAME = re.compile(r"[\w.+-]{1,255}")
"""What may be the name of a program in code: file names have at most 255 bytes."""

_SAME_FLAGS: Mapping[str, Mapping[str, str]] = {
    "rm": {"R": "r", "recursive": "r", "force": "f"},
    "cp": {"R": "r", "recursive": "r", "force": "f"},
    "mv": {"force": "f"},
    "ln": {"force": "f", "symbolic": "s"},
    "chmod": {"recursive": "R"},
    "chown": {"recursive": "R"},
    "chgrp": {"recursive": "R"},
}
"""The flags and long options of each program that are equivalent to another flag."""


class Runs(Options):
    """A program in a shell command: `{"program": "rm", "flags": "rf"}` matches `cd x && rm -r -f y`."""

    program: Globs
    """The program's name, without its folder. Case is ignored, as some file systems ignore it."""

    flags: str = ""
    """Single-letter flags that must all be present, in any order and grouping."""

    words: tuple[str, ...] = Field(default=(), strict=False)
    """Words that must all be among its arguments."""

    unreadable: Literal["deny", "allow"] = "deny"
    """The decision about commands if it cannot be determined whether they run the program."""

    def check(self, value: Any) -> "ConditionFinding":
        """Look for the program in a command line, in a list of arguments, or in all texts of an object."""
        findings = [self._check_line(line) for line in read_lines(_lines_in(value))]
        return next(
            (finding for finding in findings if finding.holds and not finding.unreadable),
            next((finding for finding in findings if finding.holds), ConditionFinding(False)),
        )

    def _check_line(self, line: CommandLine) -> "ConditionFinding":
        unreadable = line.unreadable
        for words in line.commands:
            match self._runs_in(words):
                case True:
                    return ConditionFinding(True)
                case None:
                    cause = "an expansion or abbreviation may stand for its arguments"
                    unreadable = unreadable or f"{cause}; write it out, or put -- before it"
        if not unreadable and any(self._is_mentioned_in(code) for code in line.foreign):
            unreadable = "code in another language, or the value of a variable, names the program"
        return ConditionFinding(bool(unreadable) and self.unreadable == "deny", unreadable)

    def _runs_in(self, words: tuple[Word, ...]) -> bool | None:
        """Return whether a command matches. Returns None if that depends on an expansion."""
        program, arguments = words[0].program, words[1:]
        if program is None or not self._is_named(program):
            return False
        operands_only = next((at for at, word in enumerate(arguments) if word.text == "--"), len(arguments))
        before = arguments[:operands_only]
        flags = set(self.flags) <= set().union(*(_flags(program, word) for word in before))
        missing = [word for word in self.words if not any(_is_word(arg, word) for arg in arguments)]
        if flags and not missing:
            return True
        may_have_flags = flags or any(word.text is None and word.may_be_option for word in before)
        if may_have_flags and all(
            any(arg.may_be(word) for arg in arguments) or any(_abbreviates(arg, word) for arg in before)
            for word in missing
        ):
            return None
        return False

    def _is_mentioned_in(self, code: str) -> bool:
        names = (token[0].rstrip(".") for token in _NAME.finditer(code))
        return any(map(self._is_named, names))

    def _is_named(self, program: str) -> bool:
        return matches_name(tuple(glob.casefold() for glob in self.program), program.casefold())


@dataclass(frozen=True, slots=True)
class ConditionFinding:
    """The result of checking a condition."""

    holds: bool
    unreadable: str = ""
    """The reason why the result is not certain, or an empty string."""


def _flags(program: str, word: Word) -> set[str]:
    """Return the single-letter flags in a word, including those that its long options stand for."""
    equivalents = _SAME_FLAGS.get(program.casefold(), {})
    if word.head.startswith("--"):
        name = word.head[2:].partition("=")[0]
        # GNU programs accept every unambiguous prefix of a long option.
        return {
            flag for long, flag in equivalents.items() if name and len(long) > 1 and long.startswith(name)
        }
    if not word.head.startswith("-"):
        return set()
    return {equivalents.get(letter, letter) for letter in word.head[1:]} | set(word.head[1:])


def _is_word(word: Word, wanted: str) -> bool:
    """Return whether an argument is this word, or this long option with a value."""
    return word.text == wanted or (wanted.startswith("--") and word.head.startswith(f"{wanted}="))


def _abbreviates(word: Word, option: str) -> bool:
    """Return whether an argument may be a long option that is abbreviated, as many programs accept."""
    name = word.head.partition("=")[0]
    return len(name) > 2 and name.startswith("--") and option.startswith(name)


def _lines_in(value: Any) -> Iterator[str | list[str]]:
    """Yield the command lines in a tool's argument: a string, a list of words, or an object with these."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, list) and value and all(isinstance(item, str | int | float) for item in value):
        yield [str(item) for item in value]
    elif isinstance(value, list | dict):
        for item in value.values() if isinstance(value, dict) else value:
            yield from _lines_in(item)


class Condition(Options):
    """A condition on the value at a place in the arguments. All keys that are set must match."""

    equals: Any = None
    """The value is this one. As everywhere, 1 is 1.0, but not true or "1"."""

    one_of: tuple[Any, ...] | None = Field(default=None, strict=False)
    """The value is one of these."""

    glob: Globs | None = None
    """The value as text matches one of these, with wildcards. A value that is no text is read as JSON."""

    matches: Pattern | None = None
    """The value as text contains a match of this pattern. A value that is no text is read as JSON."""

    above: float | None = Field(default=None, strict=False)
    """The value is a number greater than this one, or a text that tools may read as such a number."""

    below: float | None = Field(default=None, strict=False)
    """The value is a number less than this one, or a text that tools may read as such a number."""

    runs: Runs | None = None
    """The value is a shell command that runs this program."""

    def check(self, value: Any) -> ConditionFinding:
        """Return whether all keys that are set match the value."""
        text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        number = _number_in(value)
        checks: dict[str, Callable[[], bool]] = {
            "equals": lambda: same(value, self.equals),
            "one_of": lambda: any(same(value, each) for each in self.one_of or ()),
            "glob": lambda: matches_name(self.glob or (), text),
            "matches": lambda: compile_pattern(self.matches or "").search(text) is not None,
            "above": lambda: number is not None and number > (self.above or 0),
            "below": lambda: number is not None and number < (self.below or 0),
        }
        if not all(checks[name]() for name in self.model_fields_set if name != "runs"):
            return ConditionFinding(False)
        return ConditionFinding(True) if self.runs is None else self.runs.check(value)


def _number_in(value: Any) -> float | None:
    """Return the number that a value is, or None. A model may write one as text, which tools convert."""
    if isinstance(value, str):
        try:
            return float(value)
        except ValueError:
            return None
    return value if isinstance(value, int | float) and not isinstance(value, bool) else None


PlaceOrAll = Annotated[str, AfterValidator(lambda value: value and pointer(value))]
"""A JSON Pointer; the empty string stands for all arguments."""

Conditions = Mapping[PlaceOrAll, Condition]
"""Conditions by JSON Pointer (RFC 6901), such as `/command` or `/files/0/path`."""


def check_all(conditions: Conditions, arguments: Any) -> ConditionFinding:
    """Return whether there is a value at each place, and its condition holds."""
    unreadable = ""
    for place, condition in conditions.items():
        findings = [found for value in at(arguments, place) if (found := condition.check(value)).holds]
        if not findings:
            return ConditionFinding(False)
        finding = min(findings, key=lambda found: bool(found.unreadable))
        unreadable = unreadable or finding.unreadable
    return ConditionFinding(True, unreadable)


def at(value: Any, pointer: str) -> Iterator[Any]:
    """Yield the values at a JSON Pointer.

    Keys are compared without regard to case: some agents read arguments so, and a model could write
    `commandline` in place of `CommandLine`.
    """
    values = [value]
    for step in pointer.split("/")[1:]:
        key = step.replace("~1", "/").replace("~0", "~")
        values = [member for each in values for member in _members(each, key)]
    yield from values


def _members(value: Any, key: str) -> Iterator[Any]:
    if isinstance(value, dict):
        folded = key.casefold()
        yield from (member for name, member in value.items() if name == key or name.casefold() == folded)
    elif isinstance(value, list) and key.isdigit() and int(key) < len(value):
        yield value[int(key)]
