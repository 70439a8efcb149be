"""Made-up secrets in the format that a detector's pattern describes."""

import random
import string
from collections.abc import Iterable
from functools import cache
from re import _constants as codes  # type: ignore[attr-defined]  # typeshed leaves both out
from re import _parser as parser  # type: ignore[attr-defined]  # a private API, but stable
from typing import Any

from hookgate.hooks.policies.redact import Detector

ALNUM = string.ascii_letters + string.digits
VISIBLE = string.ascii_letters + string.digits + string.punctuation
LONGER = 5
"""The maximum number of characters by which a repeat exceeds its minimum."""

CATEGORIES = {
    codes.CATEGORY_DIGIT: string.digits,
    codes.CATEGORY_WORD: ALNUM + "_",
    codes.CATEGORY_SPACE: " ",
}


def example(rnd: random.Random, detector: Detector) -> tuple[str, str, str]:
    """A text in the detector's format that passes its check: before the secret, the secret, and after it."""
    for _ in range(200):
        before, secret, after = written(rnd, detector.pattern)
        if detector.check is None or detector.check(secret):
            return before, secret, after
    raise ValueError(f"no text in the format of {detector.kind} passes its check")


def written(rnd: random.Random, pattern: str) -> tuple[str, str, str]:
    """A match of the pattern, in three: before its group, the group, and after it. No group means all."""
    parts: list[str] = ["", "", ""]
    place = _write(rnd, parser.parse(pattern), parts, 0)
    return ("", parts[0], "") if place == 0 else (parts[0], parts[1], parts[2].strip("_"))


def _write(rnd: random.Random, nodes: Iterable[Any], parts: list[str], place: int) -> int:
    """Append a match of the nodes to the part at this place. Returns the place after them."""
    for code, argument in nodes:
        if code is codes.BRANCH:
            place = _write(rnd, rnd.choice(argument[1]), parts, place)
        elif code is codes.SUBPATTERN:
            inner = place + (argument[0] is not None)
            place = _write(rnd, argument[3], parts, inner) + (argument[0] is not None)
        elif code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
            least, most, inner_nodes = argument
            for _ in range(rnd.randint(least, min(most, least + LONGER))):
                place = _write(rnd, inner_nodes, parts, place)
        elif code is not codes.AT:
            parts[place] += _character(rnd, code, argument)
    return place


def _character(rnd: random.Random, code: Any, argument: Any) -> str:
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.IN and argument[0][0] is not codes.NEGATE:
        return rnd.choice(_preferred(tuple(argument)))
    return rnd.choice(ALNUM)


@cache
def _preferred(argument: tuple[Any, ...]) -> list[str]:
    """The letters and digits of a class, or if it has none, its other characters."""
    members = [character for member in argument for character in _members(*member)]
    return [character for character in members if character in ALNUM] or members


def _members(code: Any, argument: Any) -> Iterable[str]:
    if code is codes.LITERAL:
        return chr(argument)
    if code is codes.RANGE:
        return map(chr, range(argument[0], argument[1] + 1))
    return CATEGORIES[argument]
