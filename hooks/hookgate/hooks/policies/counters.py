"""The rules of the policy `limits`, their calendar windows, and counters in memory."""

import json
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import sha256
from typing import Annotated, Literal, Self, get_args

from pydantic import Field, model_validator

from hookgate.hooks.policies.options import Globs, Options, matches_name
from hookgate.hooks.session import SessionContext

Period = Literal["minute", "day", "month"]

Clock = Callable[[], datetime]
"""Returns the current time, with a time zone."""


@dataclass(frozen=True, slots=True)
class Window:
    """A period of time from `begins`, inclusive, to `ends`, exclusive."""

    begins: datetime
    ends: datetime


def window_at(span: Period, instant: datetime) -> Window:
    """Return the window that contains an instant, which must have a time zone."""
    minute = instant.astimezone(UTC).replace(second=0, microsecond=0)
    day = minute.replace(hour=0, minute=0)
    month = day.replace(day=1)
    match span:
        case "minute":
            return Window(minute, minute + timedelta(minutes=1))
        case "day":
            return Window(day, day + timedelta(days=1))
        case "month":
            return Window(month, (month + timedelta(days=31)).replace(day=1))


Measure = Literal["requests", "tokens", "cost"]

MEASURES: tuple[Measure, ...] = ("requests", "tokens", "cost")


class LimitRule(Options):
    """The usage allowed in one window. Rules with the same per, window, models and name share a count."""

    per: Literal["key", "session", "team", "everyone"]
    """Whose usage is added up."""

    window: Period
    """The calendar minute, day or month, in UTC."""

    requests: Annotated[int, Field(gt=0)] | None = None
    """The number of calls, counted when they begin."""

    tokens: Annotated[int, Field(gt=0)] | None = None
    """Tokens of prompts and answers, including thoughts. They are estimated until calls end."""

    cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """The cost by the price table, in its currency. It is estimated until calls end."""

    models: Globs = ("*",)
    """Models that the rule applies to, with wildcards: the model that is asked or, once a gateway has seen it
    answer, the one that answers. Default: all."""

    name: str = ""
    """The rule's name in denials."""

    reason: str = ""
    """Text that is added to the message of a denial."""

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if not any(self.most(measure) for measure in MEASURES):
            raise ValueError("has no limit; set requests, tokens or cost")
        return self

    def most(self, measure: Measure) -> float | None:
        """Return the limit of a measure. Returns None if it is not limited."""
        return {"requests": self.requests, "tokens": self.tokens, "cost": self.cost}[measure]

    def is_about(self, model: str) -> bool:
        """Return whether the rule applies to calls to the model."""
        return matches_name(self.models, model)


class LimitsOptions(Options):
    """The options of the policy `limits`."""

    rules: tuple[LimitRule, ...] = Field(min_length=1, strict=False)
    """A call is allowed only if no rule's limit is reached."""


@dataclass(frozen=True, slots=True)
class Count:
    """One count that a rule limits to `most`, in the window that ends at `ends`."""

    rule: LimitRule
    measure: Measure
    key: str
    most: float
    ends: datetime


def counts_of(rules: Iterable[LimitRule], session: SessionContext, instant: datetime) -> Iterator[Count]:
    """Yield the counts that a call in the session adds to at an instant."""
    for rule in rules:
        window = window_at(rule.window, instant)
        for measure in MEASURES:
            if (most := rule.most(measure)) is not None:
                fields = [measure, rule.per, *_subject(rule, session), rule.window, window.begins.isoformat()]
                key = json.dumps(fields + rule_id(rule), separators=(",", ":"))
                yield Count(rule, measure, key, most, window.ends)


def _subject(rule: LimitRule, session: SessionContext) -> list[str]:
    """Return whose usage is counted. Callers without a key or team share the empty one."""
    match rule.per:
        case "key":
            return [session.key]
        case "team":
            return [session.team]
        case "session":
            return [session.key, session.session_id]  # sessions of different keys may have the same ID
        case "everyone":
            return []


@dataclass(frozen=True, slots=True)
class CountName:
    """What the key of a count says: whose usage it is, and in which window."""

    measure: Measure
    per: str
    subject: tuple[str, ...]
    window: Period
    begins: datetime
    rule: tuple[str, ...]
    """What else distinguishes rules: see `rule_id`."""


def read_count_key(key: str) -> CountName | None:
    """Return what the key of a count says, or None if it is the key of another number."""
    try:
        measure, per, *subject, window, begins, name, rest = json.loads(key)
        if measure not in MEASURES or window not in get_args(Period):
            return None
        return CountName(measure, per, tuple(subject), window, datetime.fromisoformat(begins), (name, rest))
    except (ValueError, TypeError):
        return None


def rule_id(rule: LimitRule) -> list[str]:
    """Return what else distinguishes counts. Its length is bounded, because databases limit that of keys."""
    rest = json.dumps(sorted(rule.models)) + rule.name[64:]
    return [rule.name[:64], sha256(rest.encode()).hexdigest()[:16]]


@dataclass(slots=True)
class Place:
    """A number to which a call is added for a count, and others that belong to the same count."""

    count: Count
    key: str
    expires: datetime
    amount: float
    beside: tuple[str, ...] = ()
    """The keys of other numbers that are part of the count."""
    elsewhere: float = 0
    """The sum of these other numbers, once they have been read."""

    @property
    def keys(self) -> tuple[str, ...]:
        """The keys of all numbers that are part of the count."""
        return (self.key, *self.beside)


_SLOT_SECONDS = 600
_HELD = "held"


def held_at(count: Count, instant: datetime, amount: float) -> Place:
    """Return where a call that begins at an instant holds what it is expected to use.

    Calls of the same ten minutes share a number. It counts until the next ten minutes are over. Those of the
    next ones count, too, because the clocks of several gateways differ.
    """
    slot = int(instant.timestamp()) // _SLOT_SECONDS
    earlier, own, later = (f"{_HELD}:{number}:{count.key}" for number in (slot - 1, slot, slot + 1))
    expires = datetime.fromtimestamp((slot + 2) * _SLOT_SECONDS, UTC)
    return Place(count, own, expires, amount, (count.key, earlier, later))


def is_held_key(key: str) -> bool:
    """Return whether a number consists of what calls in progress hold."""
    return key.startswith(f"{_HELD}:")


KEPT = 10_000
"""The maximum number of counts in memory. Above it, the least recently used one is dropped."""


class MemoryCounters:
    """Counters in memory, which are lost when the process ends."""

    def __init__(self, clock: Clock, kept: int = KEPT) -> None:
        self._clock, self._most = clock, kept
        self._totals: OrderedDict[str, tuple[float, datetime]] = OrderedDict()

    async def add(self, key: str, amount: float, expires: datetime) -> float:
        """Add to a count and return the new total."""
        self.add_later(key, amount, expires)
        return self._totals[key][0]

    def add_later(self, key: str, amount: float, expires: datetime) -> None:
        """Add to a count. In memory, this happens immediately."""
        total, _ = self._totals.get(key, (0.0, expires))
        self._totals[key] = total + amount, expires
        self._totals.move_to_end(key)
        if len(self._totals) > self._most:
            self._evict()

    async def read(self, keys: Iterable[str]) -> Mapping[str, float]:
        """Return the totals of those counts that exist."""
        return {key: self._totals[key][0] for key in keys if key in self._totals}

    def _evict(self) -> None:
        now = self._clock()
        expired = [key for key, (_, expires) in self._totals.items() if expires <= now]
        for key in expired or [next(iter(self._totals))]:
            del self._totals[key]
