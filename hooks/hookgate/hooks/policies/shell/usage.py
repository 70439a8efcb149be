"""The command-line syntax of programs, and how arguments are divided by it. It does no I/O."""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from hookgate.hooks.policies.shell.script import UnreadableError
from hookgate.hooks.policies.shell.words import Word, literal

_OPTION = re.compile(r"(-[^:?#^!&%~@=$+.,;]*)([:?#^!&%~@=$+]?)([.,;]?)")
_SIMPLE_WORDS = re.compile(r"[\w ./:=@%+,-]*")
_DIGITS = re.compile(r"[0-9]*")


@dataclass(frozen=True, slots=True)
class Option:
    """An option of a program.

    `kind` says what its value is: "" for none, ":" data, "?" data in the same word or nothing, "#" digits in
    the same word or nothing, "^" data in the next word, "!" shell code, "&" the beginning of a command,
    "%" code in another language, "~" text that is searched like such code, "+" words that replace the option,
    "@" the file of a script, "=" a variable and its value, and "$" the name of a variable.
    """

    name: str
    kind: str = ""
    stops: str = ""
    """"." if the program then runs nothing, and nothing may follow; "," if it runs nothing, whatever follows;
    ";" if all words after the option are the program's own data."""


@dataclass(frozen=True, slots=True)
class ProgramUsage:
    """The arguments of a program, as far as they are understood.

    `options` lists the understood options, each followed by its kind and stop, as in `"-n -u: --help."`.
    None stands for any options, all of which are data.

    `operands` lists what the other arguments are, in order. One argument each: "value" data, "value+" data
    that may be followed by options. Any number: "assignments" such as `A=1`. All others: "values" data, or
    one of the kinds that `commands` reads, such as "command" for a program and its arguments. A "?" at the
    end of these stands for a shell that reads its standard input if there are none.
    """

    options: str | None = ""
    operands: str = "values"
    permutes: bool = False
    """Whether options may follow operands."""
    refused: str = ""
    """A pattern of arguments that are not understood."""


@dataclass(frozen=True, slots=True)
class Subcommands:
    """A program whose first operand says what it does. Other operands than these are not understood."""

    options: str
    plain: str
    """The operands after which all arguments are data."""
    usages: Mapping[str, "ProgramUsage | Subcommands"] = field(default_factory=dict)
    others: str = ""
    """"command" if other operands are programs to run, with their arguments."""


@dataclass(slots=True)
class Arguments:
    """The arguments of a program, divided by its usage."""

    options: list[tuple[Option, Word]] = field(default_factory=list)
    assignments: list[Word] = field(default_factory=list)
    kind: str = "values"
    """What `operands` are."""
    operands: list[Word] = field(default_factory=list)
    runs_nothing: bool = False

    def has(self, *names: str) -> bool:
        """Return whether one of these options is given."""
        return any(option.name in names for option, _ in self.options)


def divide(usage: ProgramUsage, program: str, words: Sequence[Word], plain: set[str]) -> Arguments:
    """Divide the arguments of a program. Raises UnreadableError if that is not possible for certain.

    Adds to `plain` the variables whose values must be no options.
    """
    return _Division(usage, program, words, plain).divide()


class _Division:
    """One pass over the arguments of a program."""

    def __init__(self, usage: ProgramUsage, program: str, words: Sequence[Word], plain: set[str]) -> None:
        self._usage = usage
        self._plain = plain
        self._program = program
        self._words = list(words)
        self._at = 0
        self._only_operands = usage.options is None
        self._known = {option.name: option for option in _listed(usage.options or "")}
        self._arguments = Arguments()

    def divide(self) -> Arguments:
        arguments = self._arguments
        *leading, arguments.kind = self._usage.operands.split()
        self._read_options()
        for kind in leading:
            if arguments.runs_nothing:
                break
            if kind == "assignments":
                while self._at < len(self._words) and "=" in self._words[self._at].head:
                    arguments.assignments.append(self._take_word())
            elif self._at < len(self._words):
                self._take_word()
                if kind.endswith("+"):
                    self._read_options()
        while self._at < len(self._words) and not arguments.runs_nothing:
            if self._usage.permutes:
                self._read_options()
            arguments.operands += self._words[self._at : self._at + 1]
            self._at += 1
        self._check_refused()
        return arguments

    def _check_refused(self) -> None:
        if not self._usage.refused:
            return
        for word in self._words:
            if word.variable:
                self._plain.add(word.variable)
            elif word.splits or (word.text is None and not word.head):
                raise self._ambiguity()
            if re.match(self._usage.refused, word.head):
                raise UnreadableError(f"the argument {word.head} of {self._program} is not understood")

    def _read_options(self) -> None:
        while not self._only_operands and self._at < len(self._words):
            word = self._words[self._at]
            if word.variable:
                self._plain.add(word.variable)
                return
            if word.text == "" or not word.may_be_option or (word.text == "-" and "-" not in self._known):
                if word.text is None and word.splits and self._usage.permutes:
                    raise self._ambiguity()
                return
            self._at += 1
            if word.text == "--":
                self._only_operands = True
            elif word.text == "-":
                continue
            elif not word.head.startswith("-"):
                raise self._ambiguity()
            else:
                self._read_option(word)

    def _read_option(self, word: Word) -> None:
        """Read one word of options, and the value after it."""
        for option, attached in self._options_in(word):
            value = attached
            if value is None and option.kind and option.kind not in "?#":
                value = self._take_word()
            if value is not None and value.splits:
                raise self._ambiguity()
            if option.kind == "+" and value is not None:
                self._insert(value)
            self._arguments.options.append((option, value or literal("")))
            if option.stops == "." and self._at < len(self._words):
                raise UnreadableError(f"what follows {option.name} of {self._program} is not understood")
            if option.stops in {".", ","}:
                self._arguments.runs_nothing = True
            if option.stops:
                self._only_operands = True

    def _options_in(self, word: Word) -> Iterator[tuple[Option, Word | None]]:
        """Yield the options in one word, each with its value in the same word, if any."""
        name, equals, _ = word.head.partition("=")
        if name in self._known and (equals or word.text is not None):
            option = self._known[name]
            if equals and not (option.kind and name.startswith("--")):
                raise self._unknown(word)
            yield option, word.after(len(name) + 1) if equals else None
            return
        if name.startswith("--"):
            raise self._unknown(word)
        yield from self._letters_in(word)

    def _letters_in(self, word: Word) -> Iterator[tuple[Option, Word | None]]:
        """Yield the options in a word such as `-xzf`."""
        at = 1
        while at < len(word.head):
            option = self._known.get(f"-{word.head[at]}")
            at += 1
            if option is None or (option.kind == "^" and at < len(word.head)):
                raise self._unknown(word)
            if option.kind == "#":
                at = _DIGITS.match(word.head, at).end()  # type: ignore[union-attr]  # it matches any text
                if at == len(word.head) and word.number:
                    yield option, None
                    return
            elif option.kind and option.kind != "^":
                rest = word.after(at)
                yield option, None if rest.text is not None and not rest.text else rest
                return
            yield option, None
        if word.text is None:
            raise self._ambiguity()

    def _insert(self, value: Word) -> None:
        """Insert words that are given in one argument, such as those of `env -S`."""
        if value.text is None or not _SIMPLE_WORDS.fullmatch(value.text):
            raise UnreadableError(
                f"words in one argument of {self._program} are not understood; write them out"
            )
        self._words[self._at : self._at] = [literal(text) for text in value.text.split()]

    def _take_word(self) -> Word:
        if self._at >= len(self._words):
            raise UnreadableError(f"an argument of {self._program} is missing")
        word = self._words[self._at]
        if word.splits or word.glob:
            raise self._ambiguity()
        self._at += 1
        return word

    def _unknown(self, word: Word) -> UnreadableError:
        return UnreadableError(f"the option {word.head} of {self._program} is not understood")

    def _ambiguity(self) -> UnreadableError:
        return UnreadableError(
            f"an expansion among the arguments of {self._program} may name another program; quote it"
        )


def _listed(options: str) -> Iterator[Option]:
    for listed in options.split():
        yield Option(*_OPTION.findall(listed)[0])
