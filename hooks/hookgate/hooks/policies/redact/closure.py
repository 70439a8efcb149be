"""Prefix closures: from a pattern, the regular expression of every text that could still become a match.

With one, a stream knows from the end of what came whether it may go on: a text that is in no closure can
neither become a match nor a longer one, whatever follows. A match itself is in its closure, as a greedy
repeat or a trailing `\\b` is undecided while nothing follows. Patterns are read by the parser of Python's
`re` and written again in RE2's syntax.

    pre(XY) = pre(X) | X pre(Y)        pre(X|Y) = pre(X) | pre(Y)        pre(X{m,n}) = X{0,n-1} pre(X)
"""

import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass
from re import _constants as codes  # type: ignore[attr-defined]  # typeshed leaves both out
from re import _parser as parser  # type: ignore[attr-defined]  # the tree is not public, and stable
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
_OPEN_REPEAT = re.compile(r"\{,\d")


@dataclass(frozen=True, slots=True)
class Language:
    """A pattern in RE2's syntax, without capturing groups, as parts that can be put next to others."""

    whole: str
    """What matches."""

    prefixes: str | None
    """All non-empty prefixes of it; None if there is none, as for `\\b`."""

    loose: str
    """What matches and more: long repeats are endless, so that a search keeps no count of them."""


def language(pattern: str) -> Language:
    """The pattern and its prefix closure. Raises ValueError for what has none, or may be empty."""
    if _OPEN_REPEAT.search(pattern):
        raise ValueError(f"the pattern {pattern!r} has a repeat without a lower bound: write {{0,n}}")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # what Python warns of, such as [[:alpha:]], RE2 reads otherwise
            tree = parser.parse(pattern, re.ASCII)
    except (re.error, FutureWarning, DeprecationWarning, OverflowError, RecursionError) as error:
        raise ValueError(f"the pattern {pattern!r} cannot be followed through a stream: {error}") from None
    if tree.getwidth()[0] == 0:
        raise ValueError(f"the pattern {pattern!r} can match the empty text")
    return _flagged(_sequence(list(tree)), tree.state.flags, 0)


def _sequence(nodes: list[Any]) -> Language:
    parts = [_node(code, argument) for code, argument in nodes]
    prefixes: str | None = None
    for part in reversed(parts):
        prefixes = _before(part, prefixes)
    return Language("".join(part.whole for part in parts), prefixes, "".join(part.loose for part in parts))


def _before(part: Language, rest: str | None) -> str | None:
    """The prefixes of `part` and of `part` followed by what has the prefixes `rest`."""
    if rest is None:
        return part.prefixes
    if part.prefixes is None:
        return part.whole + rest
    if part.prefixes == part.whole:  # one character, the commonest part by far
        return f"{part.whole}(?:{rest})?"
    return f"(?:{part.prefixes}|{part.whole}{rest})"


def _node(code: Any, argument: Any) -> Language:
    write = _WRITERS.get(code)
    if write is None:
        raise ValueError(f"patterns with {str(code).lower()} cannot be followed through a stream")
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
        raise ValueError(f"patterns with {str(code).lower()} cannot be followed through a stream")
    return Language(_POSITIONS[code], None, _POSITIONS[code])


def _branch(argument: Any) -> Language:
    branches = [_sequence(list(branch)) for branch in argument[1]]
    prefixes = [branch.prefixes for branch in branches if branch.prefixes is not None]
    return Language(
        _either([branch.whole for branch in branches]),
        _either(prefixes) if prefixes else None,
        _either([branch.loose for branch in branches]),
    )


def _either(patterns: list[str]) -> str:
    return f"(?:{'|'.join(patterns)})"


def _group(argument: Any) -> Language:
    _, added, removed, nodes = argument
    return _flagged(_sequence(list(nodes)), added, removed)


def _flagged(inner: Language, added: int, removed: int) -> Language:
    """The language inside a group of its own, with flags set and unset."""
    on, off = (
        "".join(letter for flag, letter in _FLAGS.items() if flags & flag) for flags in (added, removed)
    )
    head = f"(?{on}{'-' if off else ''}{off}:"
    prefixes = None if inner.prefixes is None else f"{head}{inner.prefixes})"
    return Language(f"{head}{inner.whole})", prefixes, f"{head}{inner.loose})")


def _repeat(suffix: str) -> Callable[[Any], Language]:
    def write(argument: Any) -> Language:
        least, most, nodes = argument
        inner = _sequence(list(nodes))
        whole = f"(?:{inner.whole}){_times(least, most)}{suffix}"
        endless = codes.MAXREPEAT if most - least >= _LONG_REPEAT else most
        loose = f"(?:{inner.loose}){_times(least, endless)}{suffix}"
        if most == 0 or inner.prefixes is None:
            return Language(whole, None, loose)
        if inner.prefixes == inner.whole:
            return Language(whole, f"{inner.whole}{_times(1, most)}", loose)
        before = f"(?:{inner.whole}){_times(0, _one_less(most))}"
        return Language(whole, f"{before}{inner.prefixes}", loose)

    return write


def _one_less(most: Any) -> Any:
    return most if most is codes.MAXREPEAT else most - 1


def _times(least: int, most: Any) -> str:
    return f"{{{least},}}" if most is codes.MAXREPEAT else f"{{{least},{most}}}"


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
