"""The policy `limits`: limits requests, tokens and cost per caller and calendar window."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from math import floor, log10
from typing import Any

from hookgate.hooks.policies.counters import (
    Clock,
    Count,
    LimitRule,
    LimitsOptions,
    Measure,
    MemoryCounters,
    counts_of,
)
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.runners.inprocess import Counters, Policy, PolicyEnvironment, PriceTable
from hookgate.hooks.session import CallEnd, SessionContext

log = logging.getLogger("hookgate.hooks")


@dataclass(frozen=True, slots=True)
class Full:
    """A count whose limit is reached, and how much of it has been used."""

    count: Count
    used: float


@dataclass(slots=True)
class _Held:
    """A request that was counted: the total after it, and the policies that it was counted for."""

    count: Count
    total: float
    holders: set[object] = field(default_factory=set)


class Account:
    """The counts of one call. All policies share them, so that the call is added to each count only once."""

    def __init__(self, counters: Counters, session: SessionContext, clock: Clock) -> None:
        self._counters, self._session, self._clock = counters, session, clock
        self._began = clock()  # a hook that runs again in the next minute must count in the same window
        self._lock = asyncio.Lock()
        self._held: dict[str, _Held] = {}
        self._rules: set[LimitRule] = set()
        session.call_state.at_end.append(self._end)

    async def take(self, holder: object, rules: Sequence[LimitRule], model: str) -> Full | None:
        """Count the call as a request for the policy `holder`.

        Returns the first count whose limit is reached; the call is not counted then. Returns None if the call
        is allowed. A policy that runs again for the same call takes again: counts that no longer apply to the
        model are given back. Raises what the counters raise.
        """
        async with self._lock:
            self.join(rules)
            applicable = [rule for rule in rules if rule.is_about(model)]
            counts = self._counts(applicable)
            await self._give_back(holder, but={count.key for count in counts})
            full = await self._first_full(counts) or await self._add_request(holder, counts)
            if full:
                await self._give_back(holder)
            return full

    def _counts(self, rules: Sequence[LimitRule]) -> list[Count]:
        """Return the counts of a call: of requests when it began, of tokens and cost now.

        A Live session is one request, which may last for hours.
        """
        began, now = (counts_of(rules, self._session, instant) for instant in (self._began, self._clock()))
        pairs = zip(began, now, strict=True)
        return [first if first.measure == "requests" else latest for first, latest in pairs]

    def join(self, rules: Sequence[LimitRule]) -> None:
        """Count the call's tokens and cost for these rules, but not the call itself."""
        self._rules.update(rules)

    async def _first_full(self, counts: Iterable[Count]) -> Full | None:
        """Return the first count that is full already. A call that is denied here writes nothing."""
        others = [count for count in counts if count.key not in self._held]
        used = await self._counters.read({count.key for count in others})
        full = (count for count in others if used.get(count.key, 0) >= count.most)
        return next((Full(count, used[count.key]) for count in full), None)

    async def _add_request(self, holder: object, counts: Iterable[Count]) -> Full | None:
        """Add the request, and return the first count that it exceeds.

        Two calls that compete for the last place get different totals, so only one of them is allowed.
        """
        for count in counts:
            if count.measure != "requests":
                continue
            held = self._held.get(count.key)
            if held is None:
                total = await self._counters.add(count.key, 1, count.ends)
                held = self._held[count.key] = _Held(count, total)
            held.holders.add(holder)
            if held.total > count.most:
                return Full(count, held.total - 1)
        return None

    async def _give_back(self, holder: object, but: Iterable[str] = ()) -> None:
        """Subtract what was counted only for this policy, except the counts in `but`."""
        for key in self._held.keys() - set(but):
            held = self._held[key]
            held.holders.discard(holder)
            if not held.holders:
                del self._held[key]
                await self._counters.add(key, -1, held.count.ends)

    def _end(self, end: CallEnd) -> None:
        """Count tokens and cost that were used, in the current windows."""
        applicable = [rule for rule in self._rules if rule.is_about(end.model)]
        tokens = end.input_tokens + end.output_tokens
        if tokens and end.cost is None and any(rule.cost for rule in applicable):
            log.warning(
                "the cost of a call to %r is not counted: the price table has no price for it", end.model
            )
        used = {"tokens": tokens, "cost": end.cost or 0}
        counts = {count.key: count for count in counts_of(applicable, self._session, self._clock())}
        for key, count in counts.items():
            if amount := used.get(count.measure):
                self._counters.add_later(key, amount, count.ends)


_NO_TABLE = "needs a price table: name its file in hookgate.toml, as `file` in the section [prices]"
_NO_PRICE = "{rule} limits cost, and the price table has no price for the model {model!r}."
_FULL = (
    "{rule} has been reached: {used} of {most} {unit} {per} have been used {window}; it resets at {ends} UTC."
)
_PER = {
    "key": "of this key",
    "session": "of this session",
    "team": "of this team",
    "everyone": "of all callers",
}
_WINDOWS = {"minute": "in this minute", "day": "today", "month": "this month"}


def limits_policy(
    options: Mapping[str, Any], environment: PolicyEnvironment, clock: Clock = lambda: datetime.now(UTC)
) -> Policy:
    """Create the policy from its options. Raises ValueError if they are invalid."""
    rules = read_options(LimitsOptions, options).rules
    if environment.prices is None:
        for at, rule in enumerate(rules):
            if rule.cost is not None:
                raise ValueError(f"rules.{at}.cost: {_NO_TABLE}")
    return _Limits(rules, environment.counters or MemoryCounters(clock), environment.prices, clock)


class _Limits:
    """The policy `limits` with its options."""

    def __init__(
        self, rules: tuple[LimitRule, ...], counters: Counters, prices: PriceTable | None, clock: Clock
    ) -> None:
        self._rules, self._counters, self._prices, self._clock = rules, counters, prices, clock

    async def __call__(self, event: dict[str, Any], session: SessionContext) -> dict[str, Any] | None:
        """Deny a call if a limit is reached. Raises ValueError if the event is not BeforeModel."""
        if event["hook_event_name"] != "BeforeModel":
            raise ValueError("the policy limits supports only BeforeModel hooks")
        model = event["llm_request"]["model"]
        if session.call_state.runs_model and (rule := self._unpriced(model)) is not None:
            return _denial(rule, _NO_PRICE.format(rule=_rule_name(rule), model=model))
        full = await self._account(session).take(self, self._rules, model)
        return _denial(full.count.rule, self._message(full)) if full else None

    def count_use(self, session: SessionContext) -> None:
        """Count the tokens and the cost of the current call, whose request was counted by an earlier one."""
        self._account(session).join(self._rules)

    def _unpriced(self, model: str) -> LimitRule | None:
        """Return the first rule on cost that applies to a model without a price."""
        if self._prices is None or self._prices.knows(model):
            return None
        return next((rule for rule in self._rules if rule.cost is not None and rule.is_about(model)), None)

    def _account(self, session: SessionContext) -> Account:
        kept, key = session.call_state.values, (Account, self._counters)
        if key not in kept:
            kept[key] = Account(self._counters, session, self._clock)
        account: Account = kept[key]
        return account

    def _message(self, full: Full) -> str:
        count = full.count
        return _FULL.format(
            rule=_rule_name(count.rule),
            used=_format_amount(count.measure, full.used),
            most=_format_amount(count.measure, count.most),
            unit=self._prices.currency if count.measure == "cost" and self._prices else count.measure,
            per=_PER[count.rule.per],
            window=_WINDOWS[count.rule.window],
            ends=f"{count.ends:%Y-%m-%d %H:%M}",
        )


def _rule_name(rule: LimitRule) -> str:
    return f"The limit {rule.name!r}" if rule.name else "A limit"


def _format_amount(measure: Measure, amount: float) -> str:
    if measure != "cost":
        return f"{amount:,.0f}"
    small = 0 < amount < 1  # two significant digits, so that a few cheap calls are not shown as 0.00
    return f"{amount:,.{1 - floor(log10(amount)) if small else 2}f}"


def _denial(rule: LimitRule, message: str) -> dict[str, Any]:
    return {"decision": "deny", "reason": f"{message} {rule.reason}".strip()}
