"""The words of a shell command, as far as they are known before expansion. It does no I/O."""

import itertools
import posixpath
import re
from collections.abc import Sequence
from dataclasses import dataclass

_DIGITS = re.compile(r"-?[0-9]+")
_PLAIN = re.compile(r"[^-\s]\S*")
_STREAM = re.compile(r"-$|/dev/(?!null$)|/proc/|(?:.*/)?(?:stdin|fd|\d+)$|\.\./.*(?:dev|proc)/")


@dataclass(frozen=True, slots=True)
class Word:
    """One word. A part that is None stands for text that is known only when the command runs."""

    parts: tuple[str | None, ...]

    splits: bool = False
    """Whether it may expand to several words, or to none."""

    glob: bool = False
    """Whether it has unquoted wildcards, which expand to file names."""

    number: bool = False
    """Whether all of its unknown parts are numbers."""

    variable: str = ""
    """The variable whose value it is, if it is nothing else."""

    @property
    def text(self) -> str | None:
        """The word as text. None if some of it is unknown."""
        return None if None in self.parts else "".join(part for part in self.parts if part is not None)

    @property
    def head(self) -> str:
        """The known text before the first unknown part."""
        return self.parts[0] or "" if self.parts else ""

    @property
    def tail(self) -> str:
        """The known text after the last unknown part."""
        return self.parts[-1] or "" if self.parts else ""

    @property
    def program(self) -> str | None:
        """The name of the program that the word calls, without its folder. None if it is unknown.

        Only the folder may be unknown, as in `"$HOME"/bin/rm`.
        """
        if self.glob or self.splits or self.is_home:
            return None
        if self.text is not None:
            return self.text.rpartition("/")[2]
        return self.tail.rpartition("/")[2] if "/" in self.tail else None

    @property
    def is_home(self) -> bool:
        """Whether the word is `~` or begins with it and has no folder, so that a variable may replace it."""
        return self.head.startswith("~") and "/" not in self.head

    @property
    def is_number(self) -> bool:
        """Whether the word is a number, known or not."""
        known = "".join(part or "" for part in self.parts)
        return (self.number or self.text is not None) and _DIGITS.fullmatch(known or "0") is not None

    @property
    def is_plain(self) -> bool:
        """Whether the word is certainly no option and no stream. Names that match wildcards count as such."""
        text = self.text
        if text is None or self.splits:
            return False
        return _PLAIN.fullmatch(text) is not None and not self.is_stream

    @property
    def is_stream(self) -> bool:
        """Whether the word names standard input, another stream or a device, as far as it is known."""
        path = posixpath.normpath("".join("_" if part is None else part for part in self.parts))
        return _STREAM.match(re.sub("/+", "/", path)) is not None

    @property
    def may_be_option(self) -> bool:
        """Whether the word begins, or may begin, with a dash."""
        return self.head.startswith("-") or (self.text is None and (self.splits or not self.head))

    def may_be(self, text: str) -> bool:
        """Return whether the word may expand to this text."""
        if self.text is not None:
            return self.text == text
        return self.splits or (text.startswith(self.head) and text.endswith(self.tail))

    def after(self, length: int) -> "Word":
        """Return the rest of the word after this number of known characters."""
        return Word((self.head[length:], *self.parts[1:]), self.splits, self.glob, self.number)


UNKNOWN = Word((None,), splits=True)
"""Any number of unknown words."""

NUMBER = Word((None,), number=True)
"""An unknown number."""


def literal(text: str) -> Word:
    """Return a word that is completely known."""
    return Word((text,))


def added_to(value: Word, operator: str) -> Word:
    """Return the value of a variable that this operator sets: `+=` adds to a value that is unknown."""
    return Word((None, *value.parts), number=value.is_number) if operator == "+=" else value


def join_words(words: Sequence[Word], between: str = "") -> Word:
    """Join several words into one, with this text between them."""
    if len(words) == 1:
        return words[0]
    pieces = (part for place, word in enumerate(words) for part in ((between,) * bool(place) + word.parts))
    parts: list[str | None] = []
    for known, run in itertools.groupby(pieces, lambda part: part is not None):
        parts.append("".join(part for part in run if part is not None) if known else None)
    number = all(word.number or word.text is not None for word in words)
    return Word(tuple(parts), any(word.splits for word in words), any(word.glob for word in words), number)
