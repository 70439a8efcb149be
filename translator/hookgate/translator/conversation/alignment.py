"""Matches the messages of an edited list with those that the hook was shown.

A hook returns a list of messages, not of edits. Messages are recognized by role and text, not by
position, so that adding, removing or reordering messages preserves the hidden parts of the others.
"""

from collections import defaultdict, deque
from collections.abc import Hashable, Iterable, Iterator, Sequence
from itertools import pairwise

from hookgate.translator.fields import JsonObject
from hookgate.translator.streaming.edits import Comparison, TooManySteps, common_prefix, common_suffix
from hookgate.translator.strictjson import dumps

_MAX_PAIRINGS = 2_500  # size of a gap in which every pairing is weighed; larger ones are cut up first
_STEPS = 64  # of a comparison, for each message
_ALIKE = 16  # characters by which an edited message is recognized in a large gap


Message = tuple[str, str]
"""A turn as shown to a hook, `(role, text)`. It is a plain tuple because each call creates many of them."""


def align(shown: Sequence[Message], edited: Sequence[Message]) -> list[int | None]:
    """Return, for each edited message, the index of the corresponding shown message, or None if it is new.

    Each shown message is used at most once. Equal messages are matched first, in order and then out of order;
    the remaining messages between them are matched as edits.
    """
    head, tail = _equal_ends(shown, edited)
    middle = _align(shown[head : len(shown) - tail], edited[head : len(edited) - tail])
    between = [None if match is None else head + match for match in middle]
    return [*range(head), *between, *range(len(shown) - tail, len(shown))]


def _equal_ends(shown: Sequence[Message], edited: Sequence[Message]) -> tuple[int, int]:
    """Return the number of equal messages at the beginning, and the number of other equal ones at the end."""
    head = _equal_at_first(zip(shown, edited, strict=False))
    return head, _equal_at_first(zip(reversed(shown[head:]), reversed(edited[head:]), strict=False))


def _equal_at_first(pairs: Iterable[tuple[Message, Message]]) -> int:
    count = 0
    for ours, theirs in pairs:
        if ours != theirs:
            break
        count += 1
    return count


def _align(shown: Sequence[Message], edited: Sequence[Message]) -> list[int | None]:
    matches: list[int | None] = [None] * len(edited)
    if set(shown).isdisjoint(edited):  # nothing but edits, as a rule: one or a few messages were rewritten
        for i, j in _pair_edits(shown, edited, [*range(len(shown))], [*range(len(edited))]):
            matches[j] = i
        return matches
    anchors = in_order(shown, edited)
    for i, j in anchors:
        matches[j] = i
    _match_moved(shown, edited, matches)
    used = {m for m in matches if m is not None}
    for olds, news in gaps(anchors, len(shown), len(edited)):
        free_olds = [i for i in olds if i not in used]
        free_news = [j for j in news if matches[j] is None]
        for i, j in _pair_edits(shown, edited, free_olds, free_news):
            matches[j] = i
    return matches


def in_order(shown: Sequence[Hashable], edited: Sequence[Hashable]) -> list[tuple[int, int]]:
    """Return pairs of places at which the lists are equal, each place once, both in ascending order.

    The pairs are those that difflib finds. In lists for which it is slow, such as long ones with many equal
    items or many gaps, each item is paired with the next equal one.
    """
    try:
        blocks = Comparison(shown, edited, _STEPS * (len(shown) + len(edited))).get_matching_blocks()
    except TooManySteps:
        return list(_first_come(shown, edited))
    return [(block.a + k, block.b + k) for block in blocks for k in range(block.size)]


def _first_come(shown: Sequence[Hashable], edited: Sequence[Hashable]) -> Iterator[tuple[int, int]]:
    """Each message with the next equal one that is still ahead: for messages that say the same many times."""
    places: defaultdict[Hashable, deque[int]] = defaultdict(deque)
    for i, message in enumerate(shown):
        places[message].append(i)
    ahead = 0
    for j, message in enumerate(edited):
        left = places.get(message)
        while left and left[0] < ahead:
            left.popleft()
        if left:
            yield left[0], j
            ahead = left.popleft() + 1


def _match_moved(shown: Sequence[Message], edited: Sequence[Message], matches: list[int | None]) -> None:
    used = {m for m in matches if m is not None}
    waiting: defaultdict[Message, deque[int]] = defaultdict(deque)
    for i, message in enumerate(shown):
        if i not in used:
            waiting[message].append(i)
    for j, message in enumerate(edited):
        if matches[j] is None and waiting.get(message):
            matches[j] = waiting[message].popleft()


def gaps(anchors: list[tuple[int, int]], olds: int, news: int) -> list[tuple[range, range]]:
    """Return the stretches between neighboring in-order matches, as index ranges of both lists."""
    edges = [(-1, -1), *anchors, (olds, news)]
    stretches = [(range(a + 1, c), range(b + 1, d)) for (a, b), (c, d) in pairwise(edges)]
    return [(old, new) for old, new in stretches if old and new]


def _pair_edits(
    shown: Sequence[Message], edited: Sequence[Message], olds: list[int], news: list[int]
) -> list[tuple[int, int]]:
    """Return the order-preserving pairing with the most pairs and, among those, the most text in common."""
    if len(olds) * len(news) > _MAX_PAIRINGS:
        return _pair_many_edits(shown, edited, olds, news)
    best: dict[tuple[int, int], tuple[float, tuple[tuple[int, int], ...]]] = {}
    nothing: tuple[float, tuple[tuple[int, int], ...]] = (0.0, ())
    for a in range(len(olds) - 1, -1, -1):
        for b in range(len(news) - 1, -1, -1):
            options = [best.get((a + 1, b), nothing), best.get((a, b + 1), nothing)]
            worth = _worth(shown[olds[a]], edited[news[b]])
            if worth:
                rest, pairs = best.get((a + 1, b + 1), nothing)
                options.append((worth + rest, ((olds[a], news[b]), *pairs)))
            best[a, b] = max(options, key=lambda option: option[0])
    return list(best.get((0, 0), nothing)[1])


def _pair_many_edits(
    shown: Sequence[Message], edited: Sequence[Message], olds: list[int], news: list[int]
) -> list[tuple[int, int]]:
    """Match messages with the same beginning or end first, and then the messages between them."""
    for cut in (slice(_ALIKE), slice(-_ALIKE, None)):
        ours = [(role, text[cut]) for role, text in (shown[i] for i in olds)]
        theirs = [(role, text[cut]) for role, text in (edited[j] for j in news)]
        if anchors := in_order(ours, theirs):
            pairs = [(olds[a], news[b]) for a, b in anchors]
            for old, new in gaps(anchors, len(olds), len(news)):
                pairs += _pair_edits(shown, edited, [olds[a] for a in old], [news[b] for b in new])
            return pairs
    return [(i, j) for i, j in zip(olds, news, strict=False) if shown[i][0] == edited[j][0]]


def _worth(old: Message, new: Message) -> float:
    """Return 0 if `new` cannot be an edit of `old`, or else 1000 plus the similarity, from 0 to 1."""
    (old_role, old_text), (new_role, new_text) = old, new
    if old_role != new_role:
        return 1001.0 if old_text == new_text else 0.0
    head = common_prefix(old_text, new_text)
    tail = common_suffix(old_text[head:], new_text[head:])
    return 1000.0 + (head + tail) / max(len(old_text), len(new_text), 1)


def align_parts(shown: Sequence[JsonObject], edited: Sequence[JsonObject]) -> list[int | None]:
    """Return, for each edited part, the index of the part that it was, or None if it is new."""
    if len(shown) == len(edited):
        return list(range(len(shown)))
    matches: list[int | None] = [None] * len(edited)
    anchors = in_order([dumps(part) for part in shown], [dumps(part) for part in edited])
    for old, new in anchors:
        matches[new] = old
    for olds, news in gaps(anchors, len(shown), len(edited)):
        for old, new in zip(olds, news, strict=False):
            matches[new] = old
    return matches
