"""Texts that a pattern matches, made from its tree."""

import random
import string
from re import _constants as codes  # type: ignore[attr-defined]  # typeshed leaves both out
from typing import Any

from hookgate.hooks.policies.redact.closure import parsed

PRINTABLE = string.digits + string.ascii_letters + string.punctuation + " \t\n"
CATEGORIES = {
    codes.CATEGORY_DIGIT: str.isdigit,
    codes.CATEGORY_NOT_DIGIT: lambda each: not each.isdigit(),
    codes.CATEGORY_SPACE: str.isspace,
    codes.CATEGORY_NOT_SPACE: lambda each: not each.isspace(),
    codes.CATEGORY_WORD: lambda each: each.isalnum() or each == "_",
    codes.CATEGORY_NOT_WORD: lambda each: not (each.isalnum() or each == "_"),
}
MORE = 8
"""How many times more than it has to a repeat matches, at most."""


def match_of(rnd: random.Random, pattern: str) -> str:
    """A text that the pattern matches, unless it contains boundaries that are not met."""
    return _sequence(rnd, parsed(pattern))


def _sequence(rnd: random.Random, nodes: Any) -> str:
    return "".join(_node(rnd, code, argument) for code, argument in nodes)


def _node(rnd: random.Random, code: Any, argument: Any) -> str:
    if code is codes.AT:
        return ""
    if code is codes.BRANCH:
        return _sequence(rnd, rnd.choice(argument[1]))
    if code is codes.SUBPATTERN:
        return _sequence(rnd, argument[3])
    if code in (codes.MAX_REPEAT, codes.MIN_REPEAT):
        least, most, inner = argument
        count = rnd.randint(least, min(most, least + MORE))
        return "".join(_sequence(rnd, inner) for _ in range(count))
    if code is codes.LITERAL:
        return chr(argument)
    fitting = [each for each in PRINTABLE if _fits(code, argument, each)]
    usual = [each for each in fitting if each.isalnum()]
    return rnd.choice(usual if usual and rnd.random() < 0.95 else fitting)


def _fits(code: Any, argument: Any, each: str) -> bool:
    if code is codes.ANY:
        return each != "\n"
    if code is codes.NOT_LITERAL:
        return ord(each) != argument
    negated = argument[0][0] is codes.NEGATE
    return negated is not any(_has(*member, each) for member in argument)


def _has(code: Any, argument: Any, each: str) -> bool:
    if code is codes.LITERAL:
        return bool(ord(each) == argument)
    if code is codes.RANGE:
        return bool(argument[0] <= ord(each) <= argument[1])
    return code is codes.CATEGORY and bool(CATEGORIES[argument](each))
