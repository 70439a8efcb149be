"""Text from clients, upstreams and hooks, made safe for terminals and for readers of logs.

Escape sequences can rewrite what a terminal shows, and bidirectional controls the order in which it reads.
"""

import logging
import re
from typing import TextIO

_OTHERS = re.compile(r"[^\n\t\x20-\x7e]+")


def escape_controls(text: str, *, keep_lines: bool = True) -> str:
    """Write characters that are not printable as JSON does: ESC becomes `\\u001b`.

    These are controls, also those of C1 and for bidirectional text, line separators, blanks other than the
    space, invisible characters, and halves of surrogate pairs. Line ends and tabs stay, if `keep_lines`.
    JSON stays the JSON that it was.
    """
    if text.isprintable():
        return text
    if not keep_lines:
        return "".join(map(_escaped, text))
    return _OTHERS.sub(lambda found: "".join(map(_escaped, found[0])), text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class EscapingFormatter(logging.Formatter):
    """Formats records as the pattern says, with all controls but line ends escaped."""

    def format(self, record: logging.LogRecord) -> str:
        return escape_controls(super().format(record))


class EscapingStream:
    """A text stream that escapes what is written to it; all else is the stream's own."""

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str) -> int:
        return self.unescaped.write(escape_controls(text))

    def __getattr__(self, name: str) -> object:
        return getattr(self.unescaped, name)
