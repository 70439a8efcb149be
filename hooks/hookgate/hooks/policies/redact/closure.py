"""Prefix closures: for a pattern, the regular expression of all texts that could still become a match.

A stream uses it to decide whether the end of the text may be released: a text that is not in the closure of
any pattern cannot become a match, or a longer match, whatever follows. A match itself is in its closure,
because a greedy repeat or a trailing `\\b` is undecided until more text follows. Patterns are parsed with the
parser of Python's `re` and written in RE2's syntax.

    pre(XY) = pre(X) | X pre(Y)        pre(X|Y) = pre(X) | pre(Y)        pre(X{m,n}) = X{0,n-1} pre(X)
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from re import _constants as codes  # type: ignore[attr-defined]  # typeshed leaves both out
from re import _parser as parser  # type: ignore[attr-defined]  # a private API, but stable
from typing import Any

_POSITIONS = {
    codes.AT_BEGINNING: "^",
    codes.AT_BEGINNING_STRING: r"\A",
    codes.AT_BOUNDARY: r"\b",
    codes.AT_NON_BOUNDARY: r"\B",
    codes.AT_END: "$",
}
_CLASSES = {
    codes.CATEGORY_DIGIT: r"\d",
    codes.CATEGORY_NOT_DIGIT: r"\D",
    codes.CATEGORY_SPACE: r"\s",
    codes.CATEGORY_NOT_SPACE: r"\S",
    codes.CATEGORY_WORD: r"\w",
    codes.CATEGORY_NOT_WORD: r"\W",
}
_FLAGS = {re.IGNORECASE: "i", re.MULTILINE: "m", re.DOTALL: "s"}
_LONG_REPEAT = 15
_LONGEST_SEARCHED, _FEWEST_SEARCHED = 40, 3
_OPEN_REPEAT = re.compile(r"\{,\d")


@dataclass(frozen=True, slots=True)
class Language:
    """RE2 patterns, without capturing groups, for the matches of a pattern and for their prefixes."""

    whole: str
    """The matches."""

    prefixes: str | None
    """All non-empty prefixes of matches. None if there are none, as for `\\b`."""

    loose: str
    """The matches and more: long repeats are unlimited, so that a search need not count them."""


@lru_cache(maxsize=1024)  # most scanners share hundreds of patterns
def language(pattern: str) -> Language:
    """Return a pattern's languages. Raises ValueError if it is not supported, or matches the empty string."""
    tree = parsed(pattern)
    return _flagged(_sequence(list(tree)), tree.state.flags, 0)


def parsed(pattern: str) -> Any:
    """Return the tree of a pattern. Raises ValueError if it is not supported, or matches the empty string."""
    if _OPEN_REPEAT.search(pattern):
        raise ValueError(f"the pattern {pattern!r} has a repeat without a lower bound: write {{0,n}}")
    try:
        with warnings.catch_warnings():
            # RE2 interprets what Python warns about, such as [[:alpha:]], differently.
            warnings.simplefilter("error")
            tree = parser.parse(pattern, re.ASCII)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern {pattern!r} is not supported in streams: {error}") from None
    if tree.getwidth()[0] == 0:
        raise ValueError(f"the pattern {pattern!r} can match the empty string")
    return tree


def longest_match(pattern: str) -> int:
    """Return the maximum size of a match in bytes. It is a very large number if there is no maximum."""
    tree = parsed(pattern)
    return int(tree.getwidth()[1]) * (1 if _is_ascii(tree) else 4)


def matches_ascii(pattern: str) -> bool:
    """Return whether matches consist of characters of ASCII only."""
    return _is_ascii(parsed(pattern))


def _is_ascii(nodes: Any) -> bool:
    """Return whether matches consist of characters of ASCII only."""
    return all(
        _is_ascii(argument[3])
        if code is codes.SUBPATTERN
        else all(map(_is_ascii, argument[1]))
        if code is codes.BRANCH
        else _is_ascii(argument[2])
        if code in (codes.MAX_REPEAT, codes.MIN_REPEAT)
        else code is codes.AT or _is_ascii_character(code, argument)
        for code, argument in nodes
    )


def _is_ascii_character(code: Any, argument: Any) -> bool:
    if code is codes.LITERAL:
        return bool(argument < 128)
    return code is codes.IN and all(
        _is_ascii_character(*member)
        if member[0] is codes.LITERAL
        else member[1][1] < 128
        if member[0] is codes.RANGE
        else member[0] is codes.CATEGORY and _CLASSES[member[1]][1].islower()
        for member in argument
    )


def begins_at_boundary(pattern: str) -> bool:
    """Return whether every match begins at a word boundary because the pattern begins with `\\b`."""
    code, argument = parsed(pattern)[0]
    while code is codes.SUBPATTERN and argument[3]:
        code, argument = argument[3][0]
    return code is codes.AT and argument is codes.AT_BOUNDARY


def beginning(pattern: str, length: int) -> str:
    """Return an RE2 pattern of the first characters of matches: at least `length`, or up to a long repeat."""
    tree = parsed(pattern)
    nodes, _ = _cut(tree, length, length - _FEWEST_SEARCHED)
    return _flagged(_sequence(nodes), tree.state.flags, 0).loose


def _cut(nodes: Any, length: int, enough: int) -> tuple[list[Any], int]:
    """Return the first nodes, whose matches have `length` characters or more, and how many they lack.

    If they lack no more than `enough`, a long repeat ends them.
    """
    cut: list[Any] = []
    for code, argument in nodes:
        if length <= 0:
            break
        if code is codes.SUBPATTERN:
            group, added, removed, inner = argument
            inner, length = _cut(inner, length, enough)
            cut.append((code, (group, added, removed, inner)))
        elif code is codes.BRANCH:
            shortest = min(branch.getwidth()[0] for branch in argument[1])
            is_last = shortest >= length
            branches = [_cut(each, length, enough)[0] if is_last else each for each in argument[1]]
            cut.append((code, (None, branches)))
            length -= shortest
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            minimum, maximum, inner = argument
            width = inner.getwidth()[0]
            if maximum > _LONGEST_SEARCHED and length <= enough:
                maximum = minimum = min(minimum, length)
                length = 0
            cut.append((code, (minimum, maximum, inner)))
            length -= minimum * width
        else:
            cut.append((code, argument))
            length -= code is not codes.AT
    return cut, length


def _sequence(nodes: list[Any]) -> Language:
    parts = [_node(code, argument) for code, argument in nodes]
    prefixes: str | None = None
    for part in reversed(parts):
        prefixes = _prefixes_of_sequence(part, prefixes)
    return Language("".join(part.whole for part in parts), prefixes, "".join(part.loose for part in parts))


def _prefixes_of_sequence(part: Language, rest: str | None) -> str | None:
    """Return the prefixes of `part` followed by a language with the prefixes `rest`."""
    if rest is None:
        return part.prefixes
    if part.prefixes is None:
        return part.whole + rest
    if part.prefixes == part.whole:  # a single character, the most common part
        return f"{part.whole}(?:{rest})?"
    return f"(?:{part.prefixes}|{part.whole}{rest})"


def _node(code: Any, argument: Any) -> Language:
    write = _WRITERS.get(code)
    if write is None:
        raise ValueError(f"patterns with {str(code).lower()} are not supported in streams")
    return write(argument)


def _character(written: str) -> Language:
    return Language(written, written, written)


def _literal(code: int) -> str:
    character = chr(code)
    return character if character.isascii() and character.isalnum() else f"\\x{{{code:x}}}"


def _member(code: Any, argument: Any) -> str:
    if code is codes.LITERAL:
        return _literal(argument)
    if code is codes.RANGE:
        return f"{_literal(argument[0])}-{_literal(argument[1])}"
    return "^" if code is codes.NEGATE else _CLASSES[argument]


def _set(members: list[Any]) -> Language:
    return _character(f"[{''.join(_member(*member) for member in members)}]")


def _position(code: Any) -> Language:
    if code not in _POSITIONS:
        raise ValueError(f"patterns with {str(code).lower()} are not supported in streams")
    return Language(_POSITIONS[code], None, _POSITIONS[code])


def _branch(argument: Any) -> Language:
    branches = [_sequence(list(branch)) for branch in argument[1]]
    prefixes = [branch.prefixes for branch in branches if branch.prefixes is not None]
    return Language(
        either([branch.whole for branch in branches]),
        either(prefixes) if prefixes else None,
        either([branch.loose for branch in branches]),
    )


def either(patterns: list[str]) -> str:
    """Return a pattern that matches what any of the patterns matches."""
    return f"(?:{'|'.join(patterns)})"


def _group(argument: Any) -> Language:
    _, added, removed, nodes = argument
    return _flagged(_sequence(list(nodes)), added, removed)


def _flagged(inner: Language, added: int, removed: int) -> Language:
    """Return the language in a group that sets and unsets flags."""
    on, off = (
        "".join(letter for flag, letter in _FLAGS.items() if flags & flag) for flags in (added, removed)
    )
    head = f"(?{on}{'-' if off else ''}{off}:"
    prefixes = None if inner.prefixes is None else f"{head}{inner.prefixes})"
    return Language(f"{head}{inner.whole})", prefixes, f"{head}{inner.loose})")


def _repeat(suffix: str) -> Callable[[Any], Language]:
    def write(argument: Any) -> Language:
        minimum, maximum, nodes = argument
        inner = _sequence(list(nodes))
        whole = f"(?:{inner.whole}){_times(minimum, maximum)}{suffix}"
        unlimited = codes.MAXREPEAT if maximum - minimum >= _LONG_REPEAT else maximum
        loose = f"(?:{inner.loose}){_times(minimum, unlimited)}{suffix}"
        if maximum == 0 or inner.prefixes is None:
            return Language(whole, None, loose)
        if inner.prefixes == inner.whole:
            return Language(whole, f"{inner.whole}{_times(1, maximum)}", loose)
        before = f"(?:{inner.whole}){_times(0, _one_less(maximum))}"
        return Language(whole, f"{before}{inner.prefixes}", loose)

    return write


def _one_less(maximum: Any) -> Any:
    return maximum if maximum is codes.MAXREPEAT else maximum - 1


def _times(minimum: int, maximum: Any) -> str:
    return f"{{{minimum},}}" if maximum is codes.MAXREPEAT else f"{{{minimum},{maximum}}}"


_WRITERS: dict[Any, Callable[[Any], Language]] = {
    codes.LITERAL: lambda code: _character(_literal(code)),
    codes.NOT_LITERAL: lambda code: _character(f"[^{_literal(code)}]"),
    codes.ANY: lambda _: _character("."),
    codes.IN: _set,
    codes.AT: _position,
    codes.BRANCH: _branch,
    codes.SUBPATTERN: _group,
    codes.MAX_REPEAT: _repeat(""),
    codes.MIN_REPEAT: _repeat("?"),
}
