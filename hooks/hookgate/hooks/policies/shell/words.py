"""The words of a shell command, as far as they are known before expansion. It does no I/O."""

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
    """One word. A part that is None stands for text that is known only when the command runs."""

    parts: tuple[str | None, ...]

    splits: bool = False
    """Whether the unknown text may expand to several words, or to none."""

    glob: bool = False
    """Whether it has unquoted wildcards, which expand to file names."""

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
        if self.glob or self.splits:
            return None
        if self.text is not None:
            return self.text.rpartition("/")[2]
        return self.tail.rpartition("/")[2] if "/" in self.tail else None

    @property
    def may_be_option(self) -> bool:
        """Whether the word begins, or may begin, with a dash."""
        return self.head.startswith("-") or (self.text is None and (self.splits or not self.head))

    def may_be(self, text: str) -> bool:
        """Return whether the word may expand to this text."""
        if self.text is not None:
            return self.text == text
        return self.splits or (text.startswith(self.head) and text.endswith(self.tail))


UNKNOWN = Word((None,), splits=True)
"""Any number of unknown words."""


def literal(text: str) -> Word:
    """Return a word that is completely known."""
    return Word((text,))


def join_words(words: tuple[Word, ...], between: str = "") -> Word:
    """Join several words into one, with this text between them."""
    parts: list[str | None] = []
    for place, word in enumerate(words):
        for part in ((between,) if place and between else ()) + word.parts:
            if part is not None and parts and parts[-1] is not None:
                parts[-1] += part
            else:
                parts.append(part)
    return Word(tuple(parts), any(word.splits for word in words), any(word.glob for word in words))


def read_word(node: "Node") -> Word:  # noqa: PLR0911  # one return per kind of node
    """Return the word at a node of the syntax tree."""
    match node.type:
        case "word" | "number" | "variable_name" if not node.named_children:
            return _unquoted_word(_source(node))
        case "command_name" | "translated_string" if node.named_child_count == 1:
            return read_word(node.named_children[0])
        case "string":
            return _quoted_word(node)
        case "raw_string":
            return literal(_source(node)[1:-1])
        case "ansi_c_string":
            return _ansi_word(_source(node)[2:-1])
        case "concatenation":
            return _concatenated_word(node)
        case "process_substitution":
            return Word(("/dev/fd/", None))
        case _:
            return UNKNOWN


def read_text(node: "Node", start: int, end: int) -> Word:
    """Return the text between two places of a node in which expansions are active but quotes are not.

    `start` and `end` are byte offsets in the node.
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
    return _ESCAPED_IN_QUOTES.sub(lambda match: match[1].replace("\n", ""), text.decode())


def _unquoted_word(text: str) -> Word:
    if _BRACES.search(text):
        return Word((text.partition("{")[0].replace("\\", ""), None), splits=text.startswith(("{", "}", ",")))
    plain = _ESCAPED.sub(lambda match: match[1].replace("\n", ""), text)
    return Word((plain,), glob=_GLOB.search(text) is not None)


def _quoted_word(node: "Node") -> Word:
    whole = node.text or b""
    if not (whole.startswith(b'"') and whole.endswith(b'"')):
        return UNKNOWN
    word = read_text(node, 1, len(whole) - 1)
    # `"$@"` and `"${list[@]}"` expand to several words despite the quotes.
    return Word(word.parts, splits=any(b"@" in (child.text or b"") for child in node.named_children))


def _ansi_word(text: str) -> Word:
    if any(match not in _ANSI for match in _ANSI_ESCAPE.findall(text)):
        return Word((None,))
    return literal(_ANSI_ESCAPE.sub(lambda match: _ANSI[match[1]], text))


def _concatenated_word(node: "Node") -> Word:
    source = _source(node)
    children = node.children
    if any(left.end_byte != right.start_byte for left, right in itertools.pairwise(children)):
        return UNKNOWN  # the parser included something in the word that it does not show
    if source == "{}":  # the placeholder of `find -exec` and `xargs`
        return literal(source)
    bare = "".join(_source(child) if child.type == "word" else "\0" for child in children)
    if _BRACES.search(bare):
        head = bare.partition("{")[0].partition("\0")[0].replace("\\", "")
        return Word(
            (head, None), splits=source.startswith("{") or any(c.type in _EXPANSIONS for c in children)
        )
    word = join_words(tuple(read_word(child) for child in children))
    return Word(word.parts, word.splits, word.glob or _GLOB.search(bare) is not None)
