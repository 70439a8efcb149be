"""Openings: the first characters of a pattern's matches, by which hundreds of patterns are searched as one.

Most keys begin with a few characters that only one issuer uses. A search for these, and for the classes of
the characters after them, is one automaton whose speed hardly depends on how many patterns there are. That of
a search for the whole patterns would: it has to count characters, separately for each of them.
"""

import string
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, product
from re import _constants as codes  # type: ignore[attr-defined]  # typeshed leaves both out
from re import _parser as parser  # type: ignore[attr-defined]  # a private API, but stable
from typing import Any

from hookgate.hooks.policies.redact.closure import parsed

Characters = frozenset[str]
"""The characters that may stand at one place."""

Sequences = list[tuple[Characters, ...]]

HEAD = 3
"""The number of characters by which patterns are told apart at a place in a text."""

_HELD, _SEARCHED = 5, 16
"""The numbers of first characters by which the end of a text is held back, and by which it is searched."""

_MOST_SEQUENCES, _MOST_HEADS = 256, 1024

_CATEGORIES = {
    codes.CATEGORY_DIGIT: string.digits,
    codes.CATEGORY_WORD: string.ascii_letters + string.digits + "_",
}
_VISIBLE = frozenset(string.ascii_letters + string.digits + string.punctuation)


_ANY: Characters = frozenset()
"""Stands for what may be more than visible characters of ASCII. Sequences end with it."""


class _NoOpening(Exception):  # noqa: N818  # not an error
    """The matches have no few beginnings, or contain more than visible characters of ASCII."""


@dataclass(frozen=True, slots=True)
class Opening:
    """How matches of a pattern begin. Matches consist of visible characters of ASCII only."""

    heads: frozenset[bytes]
    """The first three characters of all matches."""

    sequences: frozenset[tuple[Characters, ...]]
    """Which characters may stand at the first places of matches. A short sequence is a whole match."""

    alphabet: Characters
    """The characters of which matches consist."""


@lru_cache(maxsize=1024)  # most scanners share hundreds of patterns
def opening(pattern: str) -> Opening | None:
    """Return how matches of a pattern begin, or None if they have no few beginnings that tell them apart."""
    tree = parsed(pattern)
    try:
        sequences = _sequences(tree, _SEARCHED, fold=_ignores_case(tree))
        alphabet = _alphabet(tree, fold=_ignores_case(tree))
        heads = frozenset(_heads(sequences))
    except _NoOpening:
        return None
    return None if _ANY in chain(*sequences) else Opening(heads, frozenset(sequences), alphabet)


def first_words(pattern: str) -> frozenset[tuple[Characters, ...]] | None:
    """Return which characters may stand at the first places of matches, or None if there are too many ways.

    Each sequence has at least three places. Anything may follow, unlike after an Opening.
    """
    tree = parsed(pattern)
    try:
        sequences = _sequences(tree, _HELD, fold=_ignores_case(tree))
        visible = [sequence[:-1] if sequence[-1:] == (_ANY,) else sequence for sequence in sequences]
        deque(_heads(visible), maxlen=0)
    except _NoOpening:
        return None
    return frozenset(visible)


def heads_of(sequences: Iterable[tuple[Characters, ...]]) -> frozenset[bytes]:
    """Return the first three characters of these sequences."""
    return frozenset(_heads(list(sequences)))


def _ignores_case(tree: Any) -> bool:
    return bool(tree.state.flags & parser.SRE_FLAG_IGNORECASE)


def searched_of(openings: Iterable[Opening]) -> str:
    """Return a pattern in RE2's syntax of the first characters of all matches, and of some other texts."""
    return tree_of({sequence for each in openings for sequence in each.sequences})


def tree_of(sequences: set[tuple[Characters, ...]]) -> str:
    """Return a pattern in RE2's syntax of these sequences."""
    return _tree(sequences, "")


def _tree(sequences: set[tuple[Characters, ...]], after: str) -> str:
    """Return a pattern of sequences, each followed by `after`, in which equal beginnings are written once.

    RE2's states are sets of places in a pattern, so this makes them small.
    """
    if () in sequences:
        return after
    followers: dict[Characters, set[tuple[Characters, ...]]] = {}
    for first, *rest in sequences:
        followers.setdefault(first, set()).add(tuple(rest))
    branches = [written(first) + _tree(rest, after) for first, rest in sorted(followers.items(), key=_order)]
    return branches[0] if len(branches) == 1 else f"(?:{'|'.join(branches)})"


def _order(branch: tuple[Characters, object]) -> str:
    return "".join(sorted(branch[0]))


def prefixes_of(openings: Iterable[Opening]) -> str:
    """Return a pattern in RE2's syntax of all non-empty prefixes of matches, and of some other texts.

    The other texts begin like a match and continue with characters of which matches consist.
    """
    by_alphabet: dict[Characters, set[tuple[Characters, ...]]] = {}
    for each in openings:
        held = {sequence[:_HELD] for sequence in each.sequences}
        by_alphabet.setdefault(each.alphabet, set()).update(held)
    return "|".join(_prefixes(held, alphabet) for alphabet, held in by_alphabet.items())


def _prefixes(held: set[tuple[Characters, ...]], alphabet: Characters) -> str:
    whole = "|".join(sorted({"".join(map(written, sequence)) for sequence in held}))
    begun = {"".join(map(written, s[:count])) for s in held for count in range(1, len(s))}
    return f"(?:{whole}){written(alphabet)}*|{'|'.join(sorted(begun))}"


def written(characters: Characters) -> str:
    """Return a class of these characters in RE2's syntax."""
    if len(characters) == 1:
        return f"\\x{{{ord(min(characters)):x}}}" if not min(characters).isalnum() else min(characters)
    return f"[{''.join(_ranges(sorted(characters)))}]"


def _ranges(characters: Sequence[str]) -> Iterator[str]:
    first = last = characters[0]
    for character in [*characters[1:], None]:
        if character is not None and ord(character) == ord(last) + 1:
            last = character
            continue
        yield f"\\x{{{ord(first):x}}}-\\x{{{ord(last):x}}}" if first != last else f"\\x{{{ord(first):x}}}"
        if character is not None:
            first = last = character


def _heads(sequences: Sequences) -> Iterator[bytes]:
    count = 0
    for sequence in sequences:
        if len(sequence) < HEAD or _ANY in sequence[:HEAD]:
            raise _NoOpening
        for head in product(*sequence[:HEAD]):
            count += 1
            if count > _MOST_HEADS:
                raise _NoOpening
            yield "".join(head).encode()


def _sequences(nodes: Iterable[Any], length: int, *, fold: bool) -> Sequences:
    """Return which characters may stand at each of the first places. Shorter sequences are whole matches."""
    sequences: Sequences = [()]
    for node in nodes:
        if all(_is_full(sequence, length) for sequence in sequences):
            break
        sequences = _joined(sequences, _sequences_of(node, length, fold=fold), length)
    return sequences


def _joined(sequences: Sequences, after: Sequences, length: int) -> Sequences:
    joined = dict.fromkeys(
        (a + b)[:length] for a in sequences for b in ([()] if _is_full(a, length) else after)
    )
    if len(joined) > _MOST_SEQUENCES:
        raise _NoOpening
    return list(joined)


def _is_full(sequence: tuple[Characters, ...], length: int) -> bool:
    return len(sequence) == length or sequence[-1:] == (_ANY,)


def _sequences_of(node: Any, length: int, *, fold: bool) -> Sequences:
    code, argument = node
    if code is codes.AT:
        return [()]
    if code is codes.BRANCH:
        return [each for branch in argument[1] for each in _sequences(branch, length, fold=fold)]
    if code is codes.SUBPATTERN:
        return _sequences(argument[3], length, fold=_folds(argument, fold))
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        return _repeated(*argument, length=length, fold=fold)
    try:
        return [(_characters(node, fold=fold),)]
    except _NoOpening:
        return [(_ANY,)]


def _folds(argument: Any, fold: bool) -> bool:
    """Return whether case is ignored in a group."""
    _, added, removed, _ = argument
    return bool(added & parser.SRE_FLAG_IGNORECASE) or (fold and not removed & parser.SRE_FLAG_IGNORECASE)


def _repeated(minimum: int, maximum: Any, nodes: Any, *, length: int, fold: bool) -> Sequences:
    once = _sequences(nodes, length, fold=fold)
    sequences: Sequences = [()]
    found: Sequences = [()] if minimum == 0 else []
    for count in range(1, min(maximum, length) + 1):
        sequences = _joined(sequences, once, length)
        if count >= minimum or count == length:
            found += sequences
    return list(dict.fromkeys(found))


def _characters(node: Any, *, fold: bool) -> Characters:
    """Return the characters that a node of one character matches."""
    code, argument = node
    if code is codes.LITERAL:
        found = {chr(argument)}
    elif code is codes.IN:
        found = {character for member in argument for character in _members(*member)}
    else:
        raise _NoOpening
    if fold:
        found |= {case for character in found for case in (character.lower(), character.upper())}
    if not found <= _VISIBLE:
        raise _NoOpening
    return frozenset(found)


def _members(code: Any, argument: Any) -> Iterable[str]:
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.RANGE:
        return map(chr, range(argument[0], argument[1] + 1))
    if code is codes.CATEGORY and argument in _CATEGORIES:
        return _CATEGORIES[argument]
    raise _NoOpening


def _alphabet(nodes: Iterable[Any], *, fold: bool) -> Characters:
    found: set[str] = set()
    for code, argument in nodes:
        if code is codes.BRANCH:
            found.update(*(_alphabet(branch, fold=fold) for branch in argument[1]))
        elif code is codes.SUBPATTERN:
            found |= _alphabet(argument[3], fold=_folds(argument, fold))
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            found |= _alphabet(argument[2], fold=fold)
        elif code is not codes.AT:
            found |= _characters((code, argument), fold=fold)
    return frozenset(found)
