"""Parses shell scripts into their simple commands, at any depth. Nothing is run or expanded."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from itertools import takewhile
from typing import TYPE_CHECKING

from hookgate.hooks.policies.shell.words import UNKNOWN, Word, join_words, literal, read_text, read_word

if TYPE_CHECKING:
    from tree_sitter import Node, Parser

MAX_BYTES = 32 * 1024
"""The maximum length in bytes of a script; of a longer one, without its quoted here-documents."""

MAX_CONTROLS = 1_000
"""The maximum number of control characters: in crafted text, parsing time grows with their square (65 ms)."""

_MAX_NODES = 8_000
_CONTROLS = frozenset(b"|&;()<>{}$`[]=!*?~#")
_HEREDOC = re.compile(rb"<<-?[ \t]*(?:'(\w+)'|\"(\w+)\")")
_UNQUOTED = re.compile(rb"(?<!\\)(?:\\\\)*[\s;|&<>()]")
_WITH_TEXT = frozenset({"string", "heredoc_body", "heredoc_redirect", "ERROR"})
_ONE_LINE = frozenset(
    {"command", "declaration_command", "unset_command", "variable_assignment", "file_redirect"}
    | {"herestring_redirect", "concatenation", "redirected_statement", "simple_expansion"}
)
_QUOTES = frozenset(b"'\"\\")


@dataclass(frozen=True, slots=True)
class SimpleCommand:
    """A command as its words, the program's name first."""

    words: tuple[Word, ...]
    stdin: Word | None = None
    """Its standard input, if the script contains it: a here-document or here-string."""


@dataclass(frozen=True, slots=True)
class ParsedScript:
    """The commands of a script, and the reason why some of it is unreadable, if it is."""

    commands: tuple[SimpleCommand, ...]
    nested: tuple[str, ...]
    """Scripts that must be parsed separately: the text between backquotes."""
    unreadable: str = ""


def require_parser() -> None:
    """Load the parser. Raises ValueError if it is not installed."""
    _parser()


def parse_script(text: str) -> ParsedScript:
    """Parse a script. If some of it is unreadable, the commands in the rest of it are still returned."""
    try:
        source = text.encode()
    except UnicodeEncodeError:
        return ParsedScript((), (), "it contains characters that cannot be passed to a shell")
    if b"\0" in source:
        return ParsedScript((), (), "it contains a NUL, which shells ignore")
    bodies: dict[bytes, bytes] = {}
    if _is_too_long(source):
        source, bodies = _without_heredocs(source)
        if _is_too_long(source):
            return ParsedScript(
                (), (), f"it has more than {MAX_BYTES} bytes or {MAX_CONTROLS} control characters"
            )
    return _Walk(source, bodies).script()


def _is_too_long(source: bytes) -> bool:
    return len(source) > MAX_BYTES or count_controls(source) > MAX_CONTROLS


def count_controls(source: bytes) -> int:
    """Return the number of characters that may be control characters of a shell."""
    return sum(map(source.count, _CONTROLS))


def _without_heredocs(source: bytes) -> tuple[bytes, dict[bytes, bytes]]:
    """Replace each quoted here-document with a mark. Returns the script, and the bodies by their marks.

    Here-documents are recognized by their lines only, so the parser must confirm each mark afterwards.
    """
    bodies: dict[bytes, bytes] = {}
    kept: list[bytes] = []
    lines = iter(source.split(b"\n"))
    for line in lines:
        kept.append(line)
        starts = _HEREDOC.findall(line)
        if len(starts) != 1:
            continue
        end = starts[0][0] or starts[0][1]
        body = list(takewhile(lambda body_line, end=end: body_line.strip(b"\t") != end, lines))  # type: ignore[misc]  # mypy does not support defaults in lambdas
        mark = b"hookgate_heredoc_%d" % len(bodies)
        bodies[mark] = b"\n".join(body)
        kept += [mark, end]
    if any(source.count(mark) for mark in bodies):
        return source, {}
    return b"\n".join(kept), bodies


@cache
def _parser() -> "Parser":
    try:
        binding, grammar = import_module("tree_sitter"), import_module("tree_sitter_bash")
    except ImportError:
        remedy = "in a checkout of hookgate, run: pip install '.[shell]'"
        raise ValueError(f"`runs` requires the shell parser; {remedy}") from None
    parser: Parser = binding.Parser(binding.Language(grammar.language()))
    return parser


class _Walk:
    """One walk over the syntax tree of a script."""

    def __init__(self, source: bytes, bodies: Mapping[bytes, bytes]) -> None:
        self._root = _parser().parse(source).root_node
        self._bodies = bodies
        self._confirmed: set[bytes] = set()
        self._commands: list[SimpleCommand] = []
        self._nested: list[str] = []
        self._unreadable = ""

    def script(self) -> ParsedScript:
        waiting, seen = [self._root], 0
        while waiting:
            node = waiting.pop()
            seen += 1 + node.child_count
            if seen > _MAX_NODES:
                self._unreadable = "it has too many parts"
                break
            self._read(node)
            waiting += reversed(node.children)
        if self._confirmed != self._bodies.keys():
            self._unreadable = "it is too long, and has here-documents that are not understood"
        return ParsedScript(tuple(self._commands), tuple(self._nested), self._unreadable)

    def _read(self, node: "Node") -> None:
        if node.is_error or node.is_missing:
            self._mark_unreadable(node, "it has a syntax error, or a construct that is not understood,")
        match node.type:
            case "command" | "declaration_command" | "unset_command":
                self._commands.append(_command(node, self._bodies))
            case "command_substitution" if (node.text or b"").startswith(b"`"):
                self._nest(node)
            case "word" | "regex" | "extglob_pattern" | "string_content":
                # The parser reads some substitutions as plain text, such as the one in ${x/a/`rm`}.
                if not node.named_children and _has_substitution(node.text or b""):
                    self._mark_unreadable(node, "it has a substitution that is not understood")
                # The parser includes a line end before a backslash in the word, for example.
                elif node.type == "word" and _UNQUOTED.search(node.text or b""):
                    self._mark_unreadable(node, "it has words that different shells read differently")
            case "heredoc_body":
                self._check_heredoc(node)
        if _skips_text(node):
            self._mark_unreadable(node, "it has text that different shells read differently")

    def _nest(self, node: "Node") -> None:
        inner = (node.text or b"").decode()[1:-1]
        for escaped in ("`", "$", "\\"):
            if f"\\{escaped}" in inner:
                self._nested.append(inner.replace("\\`", "`").replace("\\$", "$").replace("\\\\", "\\"))
                return

    def _check_heredoc(self, node: "Node") -> None:
        start = next((child for child in _siblings(node) if child.type == "heredoc_start"), None)
        quoted = start is not None and _QUOTES & set(start.text or b"")
        mark = (node.text or b"").strip()
        if quoted and mark in self._bodies:
            self._confirmed.add(mark)
        covered = {child.type for child in node.named_children} & {"command_substitution"}
        if not quoted and not covered and _has_substitution(node.text or b""):
            self._mark_unreadable(node, "it has a substitution in a here-document that is not understood")

    def _mark_unreadable(self, node: "Node", reason: str) -> None:
        line = node.start_point[0] + 1
        self._unreadable = self._unreadable or f"{reason} in line {line}"


def _skips_text(node: "Node") -> bool:
    """Return whether the parser skipped anything but blanks between the parts of a node.

    In a command, a line end is not a blank, unless it follows a backslash.
    """
    if node.type in _WITH_TEXT or not node.children:
        return False
    text, at = node.text or b"", 0
    blanks = b" \t" if node.type in _ONE_LINE else b" \t\r\n"
    for child in node.children:
        gap = text[at : child.start_byte - node.start_byte].replace(b"\\\n", b"")
        if node.type == "redirected_statement" and gap.strip(blanks) == b"-":
            gap = b""  # the parser omits a lone dash before a here-document, as in `python3 - <<END`
        if gap.strip(blanks) or (gap and node.type == "simple_expansion"):
            return True
        at = child.end_byte - node.start_byte
    return False


def _has_substitution(text: bytes) -> bool:
    plain = text.replace(b"\\\\", b"").replace(b"\\`", b"").replace(b"\\$", b"")
    return b"`" in plain or b"$(" in plain


def _siblings(node: "Node") -> list["Node"]:
    return node.parent.children if node.parent else []


def _command(node: "Node", bodies: Mapping[bytes, bytes]) -> SimpleCommand:
    """Return a command with the redirects and words that the parser attaches to other nodes."""
    parts = [
        child for child in node.children if child.type != "variable_assignment" or node.type != "command"
    ]
    redirects = [child for child in parts if child.type.endswith("_redirect")]
    redirects += _outer_redirects(node)
    others = [child for child in parts if not child.type.endswith("_redirect")]
    words = list(_adjacent_words(others))
    stdin = None
    for redirect in redirects:
        words += _words_after(redirect)
        stdin = _stdin(redirect, bodies) or stdin
    return SimpleCommand(tuple(words) or (UNKNOWN,), stdin)


def _outer_redirects(node: "Node") -> list["Node"]:
    """Return the redirects of the statements that end with this command."""
    redirects: list[Node] = []
    inner, outer = node, node.parent
    while outer is not None and outer.type in {"redirected_statement", "list", "pipeline", "negated_command"}:
        if outer.type == "redirected_statement":
            redirects += [child for child in outer.children if child.type.endswith("_redirect")]
        elif inner.next_named_sibling is not None:
            break
        inner, outer = outer, outer.parent
    return redirects


def _adjacent_words(nodes: list["Node"]) -> Iterator[Word]:
    """Yield the words of nodes. Nodes with only escaped line ends between them are one word."""
    group: list[Word] = []
    end = None
    for node in nodes:
        if not node.is_named:
            word = literal((node.text or b"").decode())
        elif node.type == "variable_assignment":
            word = _assignment_word(node)
        else:
            word = read_word(node)
        if group and end != node.start_byte and not _is_continued(nodes, end, node.start_byte):
            yield join_words(tuple(group))
            group = []
        group.append(word)
        end = node.end_byte
    if group:
        yield join_words(tuple(group))


def _is_continued(nodes: list["Node"], end: int | None, start: int) -> bool:
    parent = nodes[0].parent
    if end is None or parent is None:
        return False
    gap = (parent.text or b"")[end - parent.start_byte : start - parent.start_byte]
    return bool(gap) and not gap.replace(b"\\\n", b"")


def _assignment_word(node: "Node") -> Word:
    name = literal((node.text or b"").decode().partition("=")[0] + "=")
    value = node.child_by_field_name("value")
    return join_words((name, read_word(value))) if value else name


def _words_after(redirect: "Node") -> list[Word]:
    """Return the arguments that the parser attaches to the redirect before them, as in `rm 2>&1 -rf x`."""
    targets = redirect.children_by_field_name("destination")[1:]
    return [read_word(child) for child in (*targets, *redirect.children_by_field_name("argument"))]


def _stdin(redirect: "Node", bodies: Mapping[bytes, bytes]) -> Word | None:
    """Return the standard input from a redirect: known if the script contains it, None if unchanged."""
    if redirect.type == "herestring_redirect":
        return read_word(redirect.named_children[-1]) if redirect.named_children else UNKNOWN
    if redirect.type != "heredoc_redirect":
        return UNKNOWN if any(child.type in {"<", "<&", "<>"} for child in redirect.children) else None
    body = next((child for child in redirect.named_children if child.type == "heredoc_body"), None)
    start = next((child for child in redirect.named_children if child.type == "heredoc_start"), None)
    if body is None or start is None:
        return UNKNOWN
    if _QUOTES & set(start.text or b""):
        text = body.text or b""
        return literal(bodies.get(text.strip(), text).decode())
    return read_text(body, 0, len(body.text or b""))
