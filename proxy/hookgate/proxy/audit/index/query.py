"""The language in which calls are found: few words such as `team:web outcome:denied since:yesterday`.

A query is the same in the commands, where each word is also a flag, and in the panel's API.
"""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, tzinfo
from difflib import get_close_matches
from typing import Literal

from hookgate.hooks.settings import EVENTS
from hookgate.proxy.audit.index.facts import CallFacts
from hookgate.proxy.audit.index.times import EXAMPLES, moment, time_range, zone_named
from hookgate.proxy.observe.outcomes import GUARDED, OUTCOMES

MatchMode = Literal["whole", "part"]
"""How values match names: `whole`, or `part`, which ignores case."""


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word by which calls are found. `fields` are those of the index that may have the name."""

    name: str
    help: str
    fields: tuple[str, ...] = ()
    matching: MatchMode = "whole"
    values: tuple[str, ...] = ()
    """The values that it may have, if these are few."""


UNANSWERED = tuple(each for each in OUTCOMES if each not in ("answered", "blocked", "synthetic"))
OUTCOME_GROUPS: Mapping[str, tuple[str, ...]] = {
    "unanswered": UNANSWERED,
    "guarded": GUARDED,
}
"""Groups of outcomes: those without an answer, and those that hooks decided against the client."""

_OUTCOME_VALUES = (*OUTCOMES, *OUTCOME_GROUPS)

NAMES: Mapping[str, QueryWord] = {
    word.name: word
    for word in (
        QueryWord("key", "with the key of this name, or the issued key with this ID", ("key", "owner")),
        QueryWord("owner", "with a key of this owner", ("owner",)),
        QueryWord("team", "of this team", ("team",)),
        QueryWord("session", "of this session", ("session",)),
        QueryWord("model", "that a model answered with this in its name", ("model",), "part"),
        QueryWord("asked", "for a model with this in its name, whichever answered", ("asked",), "part"),
        QueryWord("agent", "of agents with this in their names", ("agent",), "part"),
        QueryWord(
            "outcome",
            f"with this outcome: {', '.join(_OUTCOME_VALUES)}",
            ("outcome",),
            values=OUTCOMES,
        ),
        QueryWord("hook", "in which this hook denied, edited, found something or failed", ("hook",)),
        QueryWord(
            "event", "in which a hook did so at this event, or events that a shim reported", ("event",)
        ),
        QueryWord("failing", "in which this hook failed", ("failing",)),
        QueryWord("cause", "in which a hook failed for this cause, such as timeout", ("cause",)),
        QueryWord("found", "in which hooks found this kind, such as EMAIL", ("found",)),
        QueryWord("tool", "in which this tool was blocked", ("tool",)),
        QueryWord("reason", "with this in the reason of their outcome", ("reason",), "part"),
    )
}

AMOUNTS: Mapping[str, str] = {
    "cost": "that cost so much, such as >0.50 or 0.10..1",
    "tokens": "that used so many tokens, such as >100k",
    "duration": "that took so long, such as >30s or 500ms..2s",
}

TIMES: Mapping[str, str] = {
    "since": f"that ended at this time or later, such as {EXAMPLES}",
    "until": "that ended before this time",
    "during": "that ended on this day or in this time, such as yesterday, or 'yesterday 22:00 to 06:00'",
    "zone": "no filter: the time zone of all times, such as Europe/Berlin",
}

SORTS = ("time", "cost", "tokens", "duration")
WORD_HELP: Mapping[str, str] = {
    **{name: f"only those {word.help}" for name, word in NAMES.items()},
    **{name: f"only those {text}" for name, text in AMOUNTS.items()},
    **{name: text if name == "zone" else f"only those {text}" for name, text in TIMES.items()},
    "sort": f"the order: {', '.join(SORTS)}, with the newest or largest first; -asc for the other way",
}
"""What each word of a query means."""

WORDS = tuple(WORD_HELP)

GROUP_FIELDS = (
    *("key", "owner", "team", "model", "asked", "agent", "outcome", "session"),
    *("hook", "event", "found", "hour", "day"),
)
"""By what a report can be broken down."""

MARKS = frozenset({"hook", "event", "failing", "cause", "found", "tool"})
"""The fields of which a call may have several names."""

_CONTENT = frozenset({"reason", "tool"})
"""The words about what only people who see content may know."""


@dataclass(frozen=True, slots=True)
class Names:
    """The names that a word asks for, any of which matches: whole ones, or patterns that ignore case."""

    word: QueryWord
    whole: tuple[str, ...] = ()
    """Whole names; an empty one stands for calls without a name."""
    patterns: tuple[str, ...] = ()
    """Patterns of LIKE, with a backslash before each character that means itself."""

    def matches(self, name: str) -> bool:
        """Return whether a name is one of these."""
        return name in self.whole or any(_expression(each).fullmatch(name.lower()) for each in self.patterns)


@dataclass(frozen=True, slots=True)
class Amount:
    """The range that an amount may have."""

    low: float | None = None
    high: float | None = None
    above: bool = False
    """Whether the amount must be more than `low`, not the same."""
    below: bool = False
    """Whether it must be less than `high`."""

    def includes(self, value: float) -> bool:
        """Return whether a value is in the range."""
        if self.low is not None and (value <= self.low if self.above else value < self.low):
            return False
        return self.high is None or (value < self.high if self.below else value <= self.high)


@dataclass(frozen=True, slots=True)
class Query:
    """What to find, and in which order. Times are in milliseconds since 1970; `until` is excluded."""

    names: Mapping[str, Names] = field(default_factory=dict)
    amounts: Mapping[str, Amount] = field(default_factory=dict)
    since: int | None = None
    until: int | None = None
    zone: tzinfo | None = None
    """The zone in which times are given and days begin; None for that of this machine."""
    sort: str = "time"
    ascending: bool = False

    @property
    def asks_content(self) -> bool:
        """Whether it asks about texts that only people who see content may know."""
        return not _CONTENT.isdisjoint(self.names)

    def matches(self, call: CallFacts) -> bool:
        """Return whether the query finds a call."""
        if (self.since is not None and call.at < self.since) or (
            self.until is not None and call.at >= self.until
        ):
            return False
        amounts = call.amounts
        if not all(amount.includes(amounts[name]) for name, amount in self.amounts.items()):
            return False
        return all(any(map(names.matches, _names_in(call, names.word))) for names in self.names.values())


def _names_in(call: CallFacts, word: QueryWord) -> list[str]:
    if word.name in MARKS:
        return [name for mark, name in call.marks if mark == word.name]
    return [call.names[each] for each in word.fields if call.names[each]] or [""]


def parse_query(
    texts: Iterable[str],
    given: Mapping[str, str] | None = None,
    *,
    zone: tzinfo | None = None,
    at: datetime | None = None,
) -> Query:
    """Return the query of texts such as `team:web since:yesterday`. Raises ValueError.

    Args:
        texts: Filters `word:value`. What follows without a word belongs to the value before it, so quotes are
            needed only around text with a colon or a comma.
        given: Values by word, such as those of flags.
        zone: The zone of times, unless the query names one; None for that of this machine.
        at: The current time.
    """
    values = dict(given or {})
    for word, value in _filters(texts):
        if word in values:
            raise ValueError(f"{word} is given twice; separate several values by commas: {word}:ONE,OTHER")
        values[word] = value
    zone_name = values.pop("zone", None)
    query = Query(zone=zone if zone_name is None else zone_named(zone_name))
    when = at or datetime.now(UTC)
    for word, value in values.items():
        if not value.strip():
            raise ValueError(f"{word}: has no value; write {word}:VALUE")
        try:
            query = _with(query, word, value.strip(), when)
        except ValueError as error:
            raise ValueError(f"{word}: {error}") from None
    return query


def _with(query: Query, word: str, value: str, at: datetime) -> Query:
    if word in NAMES:
        return replace(query, names={**query.names, word: _parse_names(NAMES[word], value)})
    if word in AMOUNTS:
        return replace(query, amounts={**query.amounts, word: _parse_amount(word, value)})
    if word == "during":
        if query.since is not None or query.until is not None:
            raise ValueError("cannot be given together with since or until; use either")
        since, until = time_range(_unquoted(value), query.zone, at)
        return replace(query, since=since, until=until)
    if word in ("since", "until"):
        known = query.since if word == "since" else query.until
        if known is not None:
            raise ValueError("cannot be given together with during; use either")
        when = moment(_unquoted(value), query.zone, at)
        return replace(query, since=when) if word == "since" else replace(query, until=when)
    name, _, order = value.partition("-")
    if name not in SORTS or order not in ("", "asc", "desc"):
        raise ValueError(f"{value!r} is not an order; write {', '.join(SORTS)}, or with -asc the other way")
    return replace(query, sort=name, ascending=order == "asc")


_QUOTED = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)
"""A part of a value in which every character means itself, except for a backslash before a quotation mark."""

_TOKEN = re.compile(rf"(?:{_QUOTED.pattern}|\S)+", re.DOTALL)
_WORD = re.compile(r"([a-z_]+):", re.IGNORECASE)


def _filters(texts: Iterable[str]) -> list[tuple[str, str]]:
    filters: list[tuple[str, str]] = []
    for text in texts:
        if '"' in _QUOTED.sub("", text):
            raise ValueError(f"{text!r} has a quotation mark without another; close it")
        for token in (found[0] for found in _TOKEN.finditer(text)):
            if (found := _WORD.match(token)) is not None:
                filters.append((_known(found[1], token), token[found.end() :]))
            elif filters and filters[-1][1]:
                filters[-1] = filters[-1][0], f"{filters[-1][1]} {token}"
            else:
                raise ValueError(
                    f"{token!r} is not a filter; write WORD:VALUE, such as outcome:denied. {_words()}"
                )
    return filters


def _known(word: str, token: str) -> str:
    if word in WORDS:
        return word
    near = get_close_matches(word.lower(), WORDS, n=1)
    hint = f"did you mean {near[0]}?" if near else "put text with a colon into quotation marks."
    raise ValueError(f"{token!r}: there is no word {word!r}; {hint} {_words()}")


def _words() -> str:
    return f"The words are {', '.join(WORDS)}"


def _unquoted(value: str) -> str:
    """Return a value without its quotation marks."""
    return _QUOTED.sub(lambda quoted: re.sub(r'\\(["\\])', r"\1", quoted[1]), value)


def _parse_names(word: QueryWord, value: str) -> Names:
    whole: list[str] = []
    patterns: list[str] = []
    for part in map(str.strip, _parts(word, value)):
        name = _unquoted(part)
        if not name and not _QUOTED.search(part):
            continue
        if word.values:
            whole += OUTCOME_GROUPS.get(name, (_outcome(name),))
        elif word.name == "event":
            whole.append(_event(name))
        elif not name and word.name in MARKS:
            raise ValueError("must have a name")
        elif word.matching == "part" and part.startswith("="):
            whole.append(name.removeprefix("="))
        elif word.matching == "part" and name:
            patterns.append(f"%{_pattern(part)}%")
        elif "*" in _QUOTED.sub("", part):
            patterns.append(_pattern(part))
        else:
            whole.append(name)
    if not whole and not patterns:
        raise ValueError("has no value")
    return Names(word, tuple(dict.fromkeys(whole)), tuple(dict.fromkeys(patterns)))


def _parts(word: QueryWord, value: str) -> list[str]:
    """Return the values that a value consists of, with their quotation marks."""
    if word.name == "reason":
        return [value]
    return [found[0] for found in re.finditer(rf"(?:{_QUOTED.pattern}|[^,])+", value, re.DOTALL)]


def _outcome(value: str) -> str:
    if value in _OUTCOME_VALUES:
        return value
    near = get_close_matches(value, _OUTCOME_VALUES, n=1)
    hint = f"; did you mean {near[0]}?" if near else ""
    raise ValueError(f"{value!r} is not an outcome; use one of {', '.join(_OUTCOME_VALUES)}{hint}")


def _event(value: str) -> str:
    by_name = {each.lower(): each for each in EVENTS}
    if value.lower() in by_name:
        return by_name[value.lower()]
    raise ValueError(f"{value!r} is not an event; use one of {', '.join(EVENTS)}")


def _pattern(part: str) -> str:
    """Return the pattern of LIKE for a value, in which stars that are not quoted stand for any characters."""
    pattern, end = "", 0
    for quoted in _QUOTED.finditer(part):
        pattern += _like(part[end : quoted.start()]).replace("*", "%") + _like(_unquoted(quoted[0]))
        end = quoted.end()
    return pattern + _like(part[end:]).replace("*", "%")


def _like(text: str) -> str:
    """Return what matches a text in a pattern of LIKE; names are compared in lower case."""
    return re.sub(r"([\\%_])", r"\\\1", text.lower())


def _expression(pattern: str) -> "re.Pattern[str]":
    """Return what matches as a pattern of LIKE does."""
    parts = re.findall(r"\\.|%|[^\\%]+", pattern, re.DOTALL)
    return re.compile(
        "".join(".*" if each == "%" else re.escape(each.removeprefix("\\")) for each in parts), re.DOTALL
    )


_NUMBER = r"(\d+(?:\.\d+)?|\.\d+)\s*([a-z]*)"
_COMPARED = re.compile(rf"(>=|<=|>|<)\s*{_NUMBER}")
_BETWEEN = re.compile(rf"(?:{_NUMBER})?\s*\.\.\s*(?:{_NUMBER})?")
_UNITS: Mapping[str, Mapping[str, float]] = {
    "cost": {"": 1},
    "tokens": {"": 1, "k": 1000, "m": 1_000_000},
    "duration": {"ms": 1, "s": 1000, "m": 60_000, "min": 60_000, "h": 3_600_000},
}


def _parse_amount(word: str, value: str) -> Amount:
    text = _unquoted(value).lower()
    if (compared := _COMPARED.fullmatch(text)) is not None:
        sign, number = compared[1], _scaled(word, compared[2], compared[3])
        if sign.startswith(">"):
            return Amount(low=number, above=sign == ">")
        return Amount(high=number, below=sign == "<")
    between = _BETWEEN.fullmatch(text)
    if between is None or (between[1] is None and between[3] is None):
        raise ValueError(f"{value!r} is not a range; write one such as {_AMOUNT_EXAMPLES[word]}")
    low = None if between[1] is None else _scaled(word, between[1], between[2])
    high = None if between[3] is None else _scaled(word, between[3], between[4])
    if low is not None and high is not None and low > high:
        raise ValueError(f"{value!r} begins above its end; exchange the numbers")
    return Amount(low, high)


_AMOUNT_EXAMPLES = {
    "cost": "'>0.5', 0.5.. or 0.1..1",
    "tokens": "'>100k', 100k.. or 1k..10k",
    "duration": "'>30s', 30s.. or 500ms..2s",
}


def _scaled(word: str, number: str, unit: str) -> float:
    units = _UNITS[word]
    if unit not in units:
        listed = ", ".join(each for each in units if each)
        raise ValueError(
            f"{number}{unit} has no known unit; use {listed}" if listed else f"{unit!r} is not expected"
        )
    return float(number) * units[unit]
