"""Distributes an edited text over the pieces it came from, so that untouched pieces are unchanged.

It does no I/O.
"""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from difflib import Match, SequenceMatcher
from functools import partial
from itertools import accumulate, pairwise
from typing import TypeVar

T = TypeVar("T", bound=Hashable)

LONG_EDIT = 16 * 1024
"""The characters of a text from which on the distribution of an edit takes more than some milliseconds."""

_WORDS = re.compile(r"\s*\w+|\s*[^\w\s]|\s+")
_LINES = re.compile(r"[^\n]*\n|[^\n]+")
_SURROUNDINGS = (  # characters before and behind a border; one side alone must be longer
    *((size, size) for size in (32, 16, 8, 4, 2)),
    *((0, size) for size in (32, 16, 8)),
    *((size, 0) for size in (32, 16, 8)),
)
_WIDEST = sum(_SURROUNDINGS[0])
_MANY = 32  # texts; for more, all borders are searched for at once, with a wide context only
_WIDE = ((16, 16), (0, 16), (16, 0))
_MANY_PLACES = 50  # of a text around a border: in one that repeats so often, the border is found by no other
_SEARCHED, _SEARCHED_PER_CHARACTER = 1_000_000, 40  # characters; 31 borders are found once each with fewer
_MAX_COMPARISONS = 250_000  # beyond it difflib takes noticeable time, and a coarser cut is good enough
_STEPS, _STEPS_PER_CHARACTER = 1_000, 20  # of a comparison of words; ten edits of a page take fewer


class TooManySteps(Exception):  # noqa: N818  # not an error: a coarser comparison follows
    """A comparison takes too long."""


class Comparison(SequenceMatcher[T]):
    """A comparison that raises TooManySteps: one of lists that repeat few items takes cubic time."""

    def __init__(self, ours: Sequence[T], theirs: Sequence[T], steps: int) -> None:
        """`steps` is the maximum number of comparisons of items, each of which takes 0.1 µs."""
        super().__init__(None, ours, theirs, autojunk=False)
        often = Counter(theirs)
        self._costs = [*accumulate((1 + often[item] for item in ours), initial=0)]
        self._left = steps

    def find_longest_match(
        self, alo: int = 0, ahi: int | None = None, blo: int = 0, bhi: int | None = None
    ) -> Match:
        self._left -= self._costs[-1 if ahi is None else ahi] - self._costs[alo]
        if self._left < 0:
            raise TooManySteps
        return super().find_longest_match(alo, ahi, blo, bhi)


class _Budget:
    """The characters that may still be searched for the borders of one edit's texts."""

    def __init__(self, length: int) -> None:
        """`length` is that of both texts, before and after the edit."""
        self._left = _SEARCHED + _SEARCHED_PER_CHARACTER * length
        self._repeats = False

    @property
    def is_used_up(self) -> bool:
        """Whether nothing more may be searched."""
        return self._left < 0

    @property
    def gave_up(self) -> bool:
        """Whether it is used up, or some text around a border repeats itself too often."""
        return self.is_used_up or self._repeats

    def places(self, text: str, word: str) -> list[int]:
        """Return the offsets of a word, without overlaps; none if it occurs more than _MANY_PLACES times."""
        found: list[int] = []
        at = text.find(word)
        while at >= 0 and len(found) <= _MANY_PLACES:
            found.append(at)
            at = text.find(word, at + len(word))
        self._left -= len(text) if at < 0 else at
        if len(found) <= _MANY_PLACES:
            return found
        self._repeats = self._repeats or len(word) >= _WIDEST
        return []


def respread(old: Sequence[str], new: str) -> list[str]:
    """Split `new`, an edit of the joined texts `old`, so that unchanged texts are kept.

    The result has as many texts as `old`, and joins to `new` exactly. The cost is proportional to the length
    of both: texts that repeat themselves, or take longer, are shared out in proportion to their old lengths.
    """
    if len(old) == 1:
        return [new]
    return _spread_middle(old, new, partial(_spread, _Budget(sum(map(len, old)) + len(new))))


def _spread_middle(
    old: Sequence[str], new: str, spread: Callable[[Sequence[str], str], list[str]]
) -> list[str]:
    """Keep the texts before and after the edit, and spread the edit over the others."""
    joined, edges = "".join(old), _running(old, 0)
    start = common_prefix(joined, new)
    tail = common_suffix(joined[start:], new[start:])
    end = len(joined) - tail
    # A text that ends where the edit begins is touched too: an insertion continues it.
    first = max(bisect_left(edges, start) - 1, 0)
    last = max(bisect_right(edges, end, hi=len(old)), first + 1)
    middle = new[edges[first] : len(new) - (len(joined) - edges[last])]
    return [*old[:first], *spread(old[first:last], middle), *old[last:]]


def _spread(budget: _Budget, old: Sequence[str], new: str) -> list[str]:
    """Split at the borders that are found in `new`, and spread the text between them more finely."""
    joined, edges, many = "".join(old), _starts(old)[1:], len(old) > _MANY
    cuts = _borders(joined, edges, new) if many else [_border(budget, joined, at, new) for at in edges]
    spread = partial(_spread_group, budget) if many else _shared_out if budget.gave_up else _respread
    out: list[str] = []
    begin = done = 0
    for i, cut in enumerate([*cuts, len(new)], 1):
        if cut is not None and cut >= done:
            out += spread(old[begin:i], new[done:cut])
            begin, done = i, cut
    return out


def _spread_group(budget: _Budget, old: Sequence[str], new: str) -> list[str]:
    if len(old) == 1:
        return [new]
    return _spread_middle(old, new, partial(_spread, budget) if len(old) <= _MANY else _shared_out)


def _shared_out(old: Sequence[str], new: str) -> list[str]:
    """Split in proportion to the old lengths, for an edit of many texts such as a translation."""
    edges = _running(old, 0)
    cuts = [edge * len(new) // max(edges[-1], 1) for edge in edges[:-1]]
    return [new[a:b] for a, b in pairwise([*cuts, len(new)])]


def _borders(joined: str, edges: Sequence[int], new: str) -> list[int | None]:
    """Find many borders at once like `_border`, with one pass over both texts for each size of context."""
    found: dict[int, int] = {}
    for before, behind in _WIDE:
        size = before + behind
        around = {at: joined[at - before : at + behind] for at in edges if at >= before and at not in found}
        words = {word for word in around.values() if len(word) == size}
        news = _all_places(new, words, size)
        olds = _all_places(joined, {word for word in words if news[word]}, size)
        for at, word in around.items():
            if word in olds and len(olds[word]) == len(news[word]):
                found[at] = news[word][bisect_left(olds[word], at - before)] + before
    return [found.get(at) for at in edges]


def _all_places(text: str, words: set[str], size: int) -> dict[str, list[int]]:
    """Return all offsets of each word, including overlapping ones. All words have the same size."""
    places: dict[str, list[int]] = {word: [] for word in words}
    for at in range(len(text) - size + 1 if words else 0):
        if (word := text[at : at + size]) in words:
            places[word].append(at)
    return places


def _border(budget: _Budget, joined: str, at: int, new: str) -> int | None:
    """Return the offset in `new` of the border `at`, which is found by the text around it, or None."""
    for before, behind in _SURROUNDINGS:
        if budget.is_used_up:
            return None
        start = max(at - before, 0)
        around = joined[start : at + behind]
        olds = budget.places(joined, around) if around else []
        if start not in olds:  # it overlaps one before, or there are too many
            continue
        news = budget.places(new, around)
        if len(news) == len(olds):
            return news[olds.index(start)] + at - start
    return None


def _respread(old: Sequence[str], new: str) -> list[str]:
    if len(old) == 1:
        return [new]
    joined = "".join(old)
    start = common_prefix(joined, new)
    tail = common_suffix(joined[start:], new[start:])
    end, new_end = len(joined) - tail, len(new) - tail
    out = list(old)
    # From the back, so that the offsets of earlier replacements stay true.
    for first, last, text in reversed(_replacements(old, joined, (start, end), new[start:new_end])):
        _splice(out, _starts(old), first, last, text)
    return out


def common_prefix(a: str, b: str) -> int:
    """Return the length of the common prefix. It is found by bisection, since comparing slices is fast."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[low:middle] == b[low:middle]:
            low = middle
        else:
            high = middle - 1
    return low


def common_suffix(a: str, b: str) -> int:
    """Return the length of the common suffix."""
    low, high = 0, min(len(a), len(b))
    while low < high:
        middle = (low + high + 1) // 2
        if a[len(a) - middle : len(a) - low] == b[len(b) - middle : len(b) - low]:
            low = middle
        else:
            high = middle - 1
    return low


Replacement = tuple[int, int, str]
"""`(first, last, text)`: replace characters `first` to `last` of the joined old text with `text`."""


def _replacements(old: Sequence[str], joined: str, span: tuple[int, int], new: str) -> list[Replacement]:
    """Return the edit as ordered replacements, with several of them if it spans several parts."""
    start, end = span
    inner = [edge for edge in _starts(old) if start < edge < end]
    if not inner:
        return [(start, end, new)]
    edges = [start, *inner, end]
    pieces = [joined[a:b] for a, b in pairwise(edges)]
    for cut in (_WORDS.findall, _LINES.findall):
        ours = [token for piece in pieces for token in cut(piece)]
        theirs = cut(new)
        if len(ours) * len(theirs) <= _MAX_COMPARISONS:
            steps = _STEPS + _STEPS_PER_CHARACTER * (end - start + len(new))
            try:
                return _differences(ours, theirs, start, steps)
            except TooManySteps:
                continue
    return [(start, end, new)]


def _differences(ours: list[str], theirs: list[str], offset: int, steps: int) -> list[Replacement]:
    """Return the edit token by token. Raises TooManySteps."""
    found: list[Replacement] = []
    at = _running(ours, offset)
    for tag, a, b, c, d in Comparison(ours, theirs, steps).get_opcodes():
        if tag != "equal":
            found.append(_trimmed(at[a], "".join(ours[a:b]), "".join(theirs[c:d])))
    return found


def _trimmed(first: int, old: str, new: str) -> Replacement:
    head = common_prefix(old, new)
    tail = common_suffix(old[head:], new[head:])
    return first + head, first + len(old) - tail, new[head : len(new) - tail]


def _splice(parts: list[str], starts: list[int], first: int, last: int, text: str) -> None:
    """Replace in `parts` the span from `first` to `last` of the joined old text."""
    holder = max(i for i, start in enumerate(starts) if start <= first or i == 0)
    if first == last and holder and starts[holder] == first:
        holder -= 1  # a pure insertion at a border continues the part before it
    for i in range(len(parts) - 1, holder - 1, -1):
        begin = max(first - starts[i], 0)
        finish = min(last, starts[i + 1] if i + 1 < len(starts) else last) - starts[i]
        insert = text if i == holder else ""
        if finish > begin or insert:
            parts[i] = parts[i][:begin] + insert + parts[i][max(finish, begin) :]


def _starts(texts: Sequence[str]) -> list[int]:
    return _running(texts, 0)[:-1]


def _running(texts: Sequence[str], offset: int) -> list[int]:
    edges = [offset]
    for text in texts:
        edges.append(edges[-1] + len(text))
    return edges
