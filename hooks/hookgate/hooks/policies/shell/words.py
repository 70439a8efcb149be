"""The words of a shell command, with what is known of them before the shell expands them. Pure."""

import itertools
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tree_sitter import Node

_EXPANSIONS = frozenset({"simple_expansion", "expansion", "command_substitution", "arithmetic_expansion"})
_GLOB = re.compile(r"(?<!\\)(?:\\\\)*[*?\[]|[@!+?*]\(")
_BRACES = re.compile(r"\{[^{}]*(?:,|\.\.)|\{.*\{|\{$|^\}|^,")
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED_IN_QUOTES = re.compile(r'\\([$`"\\\n])')
_ANSI_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ANSI = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", "'": "'", '"': '"', "?": "?"}


@dataclass(frozen=True, slots=True)
class Word:
    """One word. Each `None` among its parts stands for text that is known only when the command runs."""

    parts: tuple[str | None, ...]

    splits: bool = False
    """Whether the unknown text may turn the word into several words, or into none."""

    glob: bool = False
    """Whether it has unquoted wildcards, which stand for the names of files."""

    @property
    def text(self) -> str | None:
        """The word itself; None unless all of it is known."""
        return None if None in self.parts else "".join(part for part in self.parts if part is not None)

    @property
    def head(self) -> str:
        """What is known to stand before everything unknown."""
        return self.parts[0] or "" if self.parts else ""

    @property
    def tail(self) -> str:
        """What is known to stand behind everything unknown."""
        return self.parts[-1] or "" if self.parts else ""

    @property
    def program(self) -> str | None:
        """The name of the program that it calls, without its folder; None if that is not known.

        A folder may be unknown, as in `"$HOME"/bin/rm`, as long as it stays within this word.
        """
        if self.glob or self.splits:
            return None
        if self.text is not None:
            return self.text.rpartition("/")[2]
        return self.tail.rpartition("/")[2] if "/" in self.tail else None

    @property
    def may_be_option(self) -> bool:
        """Whether it begins with a dash, or may do so."""
        return self.head.startswith("-") or (self.text is None and (self.splits or not self.head))

    def may_be(self, text: str) -> bool:
        """Whether it may turn out to be this text."""
        if self.text is not None:
            return self.text == text
        return self.splits or (text.startswith(self.head) and text.endswith(self.tail))


UNKNOWN = Word((None,), splits=True)
"""Any number of words of which nothing is known."""


def literal(text: str) -> Word:
    """A word that is known as a whole."""
    return Word((text,))


def join_words(words: tuple[Word, ...], between: str = "") -> Word:
    """One word made of several, with this text between them."""
    parts: list[str | None] = []
    for place, word in enumerate(words):
        for part in ((between,) if place and between else ()) + word.parts:
            if part is not None and parts and parts[-1] is not None:
                parts[-1] += part
            else:
                parts.append(part)
    return Word(tuple(parts), any(word.splits for word in words), any(word.glob for word in words))


def read_word(node: "Node") -> Word:  # noqa: PLR0911  # one for each kind of node
    """The word that a node of the syntax tree stands for."""
    match node.type:
        case "word" | "number" | "variable_name" if not node.named_children:
            return _bare(_source(node))
        case "command_name" | "translated_string" if node.named_child_count == 1:
            return read_word(node.named_children[0])
        case "string":
            return _quoted(node)
        case "raw_string":
            return literal(_source(node)[1:-1])
        case "ansi_c_string":
            return _ansi(_source(node)[2:-1])
        case "concatenation":
            return _concatenated(node)
        case "process_substitution":
            return Word(("/dev/fd/", None))
        case _:
            return UNKNOWN


def read_text(node: "Node", start: int, end: int) -> Word:
    """The text between two places of a node in which expansions count and quotes do not.

    `start` and `end` are bytes from the node's begin.
    """
    whole = node.text or b""
    parts: list[str | None] = []
    at = start
    for child in node.named_children:
        if child.type in _EXPANSIONS:
            begin = child.start_byte - node.start_byte
            parts += [_unescape_quoted(whole[at:begin]), None]
            at = child.end_byte - node.start_byte
    parts.append(_unescape_quoted(whole[at:end]))
    return join_words(tuple(Word((part,)) for part in parts))


def _source(node: "Node") -> str:
    return (node.text or b"").decode()


def _unescape_quoted(text: bytes) -> str:
    return _ESCAPED_IN_QUOTES.sub(lambda found: found[1].replace("\n", ""), text.decode())


def _bare(text: str) -> Word:
    if _BRACES.search(text):
        return Word((text.partition("{")[0].replace("\\", ""), None), splits=text.startswith(("{", "}", ",")))
    plain = _ESCAPED.sub(lambda found: found[1].replace("\n", ""), text)
    return Word((plain,), glob=_GLOB.search(text) is not None)


def _quoted(node: "Node") -> Word:
    whole = node.text or b""
    if not (whole.startswith(b'"') and whole.endswith(b'"')):
        return UNKNOWN
    word = read_text(node, 1, len(whole) - 1)
    # `"$@"` and `"${list[@]}"` are the expansions that quotes do not hold together.
    return Word(word.parts, splits=any(b"@" in (each.text or b"") for each in node.named_children))


def _ansi(text: str) -> Word:
    if any(found not in _ANSI for found in _ANSI_ESCAPE.findall(text)):
        return Word((None,))
    return literal(_ANSI_ESCAPE.sub(lambda found: _ANSI[found[1]], text))


def _concatenated(node: "Node") -> Word:
    source = _source(node)
    children = node.children
    if any(left.end_byte != right.start_byte for left, right in itertools.pairwise(children)):
        return UNKNOWN  # the parser took something into the word that it does not show
    if source == "{}":  # what `find -exec` and `xargs` put file names in place of
        return literal(source)
    bare = "".join(_source(child) if child.type == "word" else "\0" for child in children)
    if _BRACES.search(bare):
        head = bare.partition("{")[0].partition("\0")[0].replace("\\", "")
        return Word(
            (head, None), splits=source.startswith("{") or any(c.type in _EXPANSIONS for c in children)
        )
    word = join_words(tuple(read_word(child) for child in children))
    return Word(word.parts, word.splits, word.glob or _GLOB.search(bare) is not None)
