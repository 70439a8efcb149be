"""As much of PromQL as it takes to know which metrics and labels an expression uses.

It is strict: what it does not know is an error, so that a misspelt function or label is found.
"""

import re
from dataclasses import dataclass, field
from itertools import pairwise

_TOKEN = re.compile(
    r"""\s*(?:
    (?P<text>"(?:[^"\\]|\\.)*")
  | (?P<range>\[(?:\d+[smhdw]|\$__rate_interval)\])
  | (?P<number>\d+(?:\.\d+)?(?:e-?\d+)?)
  | (?P<name>\$?[A-Za-z_:][A-Za-z0-9_:]*)
  | (?P<match>=~|!~|!=|==|>=|<=|=|>|<)
  | (?P<sign>[-+*/(){},])
)""",
    re.VERBOSE,
)
_FUNCTIONS = {"rate", "increase", "histogram_quantile", "clamp_min", "time"}
_AGGREGATIONS = {"sum", "max", "min", "avg", "count", "topk"}
_GROUPINGS = {"by", "without", "on", "ignoring"}
_WORDS = {"and", "or", "unless", "bool"}
_ALWAYS = {"instance", "job", "le"}
"""Labels that Prometheus or a histogram adds."""


@dataclass
class Used:
    """What an expression uses: each metric with the labels matched in its braces, and those it groups by."""

    metrics: dict[str, set[str]] = field(default_factory=dict)
    grouped: set[str] = field(default_factory=set)


def used(expression: str) -> Used:
    """What the expression uses. Raises ValueError for what is no PromQL, as far as is known here."""
    tokens = _tokens(expression)
    _check_brackets(tokens)
    found, at = Used(), 0
    while at < len(tokens):
        kind, text = tokens[at]
        if kind == "name" and text in _GROUPINGS:
            labels, at = _until(tokens, at + 1, "(", ")")
            found.grouped |= {label for kind, label in labels if kind == "name"} - _ALWAYS
            continue
        if kind == "name" and text not in _WORDS:
            called = tokens[at + 1 : at + 2] == [("sign", "(")] or text in _AGGREGATIONS
            if called and text not in _FUNCTIONS | _AGGREGATIONS:
                raise ValueError(f"{text} is no function that is known")
            if not called:
                labels, at = _until(tokens, at + 1, "{", "}")
                names = {label for (kind, label), after in pairwise(labels) if after[0] == "match"}
                found.metrics.setdefault(text, set()).update(names - _ALWAYS)
                continue
        at += 1
    return found


def _tokens(expression: str) -> list[tuple[str, str]]:
    tokens, at = [], 0
    while at < len(expression.rstrip()):
        match = _TOKEN.match(expression, at)
        if not match:
            raise ValueError(f"{expression[at:]!r} is no PromQL")
        tokens.append((str(match.lastgroup), match[str(match.lastgroup)]))
        at = match.end()
    return tokens


def _check_brackets(tokens: list[tuple[str, str]]) -> None:
    open_ones: list[str] = []
    closes = {")": "(", "}": "{"}
    for _, text in tokens:
        if text in closes.values():
            open_ones.append(text)
        elif text in closes and (not open_ones or open_ones.pop() != closes[text]):
            raise ValueError("a bracket closes what is not open")
    if open_ones:
        raise ValueError("a bracket is left open")


def _until(tokens: list[tuple[str, str]], at: int, begin: str, end: str) -> tuple[list[tuple[str, str]], int]:
    """The tokens in brackets that begin here, if they do, and where it goes on."""
    if tokens[at : at + 1] != [("sign", begin)]:
        return [], at
    close = tokens.index(("sign", end), at)
    return tokens[at + 1 : close], close + 1
