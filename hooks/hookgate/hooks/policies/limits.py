"""The policy `limits`: limits requests, tokens and cost per caller and calendar window."""

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from functools import partial
from math import floor, isclose, log10
from typing import Any

from hookgate.hooks.policies.counters import (
    Clock,
    Count,
    LimitRule,
    LimitsOptions,
    Measure,
    MemoryCounters,
    Place,
    counts_of,
    held_at,
    is_held_key,
)
from hookgate.hooks.policies.estimates import estimate_output, priced_model
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.policy_environment import Counters, Policy, PolicyEnvironment, PriceTable
from hookgate.hooks.session import CallEnd, ExpectedUse, LimitUse, SessionContext

log = logging.getLogger("hookgate.hooks")


@dataclass(frozen=True, slots=True)
class Full:
    """A count whose limit is reached: how much is used, and how much of that is held for other calls."""

    count: Count
    used: float
    held: float = 0


Amounts = Mapping[Measure, float]
"""How much a call is expected to use, by measure."""


def expected_amounts(
    expected: ExpectedUse, prices: PriceTable | None, model: str, rerouted: Mapping[str, str]
) -> Amounts:
    """Return the tokens and the cost that a call is expected to use.

    `rerouted` contains the models that answer calls to others, by the names of these.
    """
    tokens = expected.input_tokens, expected.output_tokens
    cost = None
    if prices is not None and any(tokens):
        priced = priced_model(prices, model, rerouted.get(model))
        cost = prices.cost(priced, *tokens, priority=expected.priority)
    return {"tokens": sum(tokens), "cost": cost or 0}


@dataclass(slots=True)
class _Held:
    """What a call has added to a count before it is sent: its request, or what it is expected to use."""

    amount: float
    expires: datetime
    others: float
    """How much of the count was taken already."""
    holders: set[object] = field(default_factory=set)
    """The policies for which it was added."""


class Account:
    """The counts of one call. All policies share them, so that the call is added to each count only once.

    A request is counted when the call begins. Of tokens and cost, what the call is expected to use is held
    until it ends, so that concurrent calls cannot all pass. It is held in a number of its own, which expires:
    a gateway that is killed cannot give it back.

    A call with several requests, such as a batch, adds all of them at once. They are judged one by one, and a
    policy that has allowed one of them allows the others to the same model.
    """

    def __init__(self, counters: Counters, session: SessionContext, clock: Clock) -> None:
        self._counters, self._session, self._clock = counters, session, clock
        self._began = clock()  # a hook that runs again in the next minute must count in the same window
        self._lock = asyncio.Lock()
        self._held: dict[str, _Held] = {}
        self._rules: set[LimitRule] = set()
        self._requests = session.call_state.requests
        self._allowed: dict[object, str] = {}
        session.call_state.at_use.append(self._end)

    async def take(
        self, holder: object, rules: Sequence[LimitRule], model: str, expected: Amounts | None = None
    ) -> Full | None:
        """Count the call as a request for the policy `holder`, and hold what it is expected to use.

        Returns the first count whose limit is reached; the call is not counted then. Returns None if the call
        is allowed. A policy that runs again for the same call takes again: counts that no longer apply to the
        model are given back. Raises what the counters raise.
        """
        if self._allowed.get(holder) == model:
            return None
        async with self._lock:
            self.join(rules)
            answers = self._session.call_state.rerouted.get(model, model)
            places = self._places(_rules_about(rules, model, answers), expected or {})
            await self._give_back(holder, but={place.key for place in places})
            full = await self._first_full(places) or await self._add(holder, places)
            if full:
                await self._give_back(holder)
            elif self._requests > 1:
                self._allowed[holder] = model
            return full

    def _places(self, rules: Sequence[LimitRule], expected: Amounts) -> list[Place]:
        """Return where a call is added to its counts: of requests when it began, of tokens and cost now.

        A Live session is one request, which may last for hours.
        """
        now = self._clock()
        began, latest = (counts_of(rules, self._session, instant) for instant in (self._began, now))
        return [
            Place(first, first.key, first.ends, self._requests)
            if first.measure == "requests"
            else held_at(last, now, expected.get(last.measure, 0))
            for first, last in zip(began, latest, strict=True)
        ]

    def join(self, rules: Sequence[LimitRule]) -> None:
        """Count the call's tokens and cost for these rules, but not the call itself."""
        self._rules.update(rules)

    async def _first_full(self, places: Iterable[Place]) -> Full | None:
        """Return the first count that is full already. A call that is denied here writes nothing."""
        others = [
            place for place in places if place.count.measure != "requests" or place.key not in self._held
        ]
        found = await self._counters.read({key for place in others for key in place.keys})
        for place in others:
            own = self._held[place.key].amount if place.key in self._held else 0
            used, total = found.get(place.count.key, 0), sum(found.get(key, 0) for key in place.keys) - own
            self._note_use(place.count, total)
            if _is_reached(total, place.count.most):
                return Full(place.count, total, total - used)
            place.elsewhere = sum(found.get(key, 0) for key in place.keys if key != place.key)
        return None

    def _note_use(self, count: Count, used: float) -> None:
        rule = count.rule
        self._session.call_state.limits[count.key] = LimitUse(
            count.measure, used, count.most, rule.window, rule.per
        )

    async def _add(self, holder: object, places: Iterable[Place]) -> Full | None:
        """Add the call to its counts, and return the first one that others have filled meanwhile.

        Two calls that compete for the last place get different totals, so only one of them is allowed.
        """
        for place in places:
            if not place.amount:
                continue
            held = self._held.get(place.key)
            own = held.amount if held else 0
            if held is None or own < place.amount:  # a later turn, or an edit, may use more
                total = await self._counters.add(place.key, place.amount - own, place.expires)
                others = place.elsewhere + total - place.amount
                holders = held.holders if held else set()
                held = self._held[place.key] = _Held(place.amount, place.expires, others, holders)
            held.holders.add(holder)
            if place.count.measure == "requests":
                if held.others + held.amount > place.count.most:
                    return Full(place.count, held.others)
            elif _is_reached(held.others, place.count.most):
                return Full(place.count, held.others, held.others - place.elsewhere)
        return None

    async def _give_back(self, holder: object, but: Iterable[str] = ()) -> None:
        """Subtract what was counted only for this policy, except the counts in `but`."""
        for key in self._held.keys() - set(but):
            held = self._held[key]
            held.holders.discard(holder)
            if not held.holders:
                del self._held[key]
                await self._counters.add(key, -held.amount, held.expires)

    def _end(self, end: CallEnd) -> None:
        """Count tokens and cost that were used, in the current windows. Then release what was held."""
        applicable = _rules_about(self._rules, end.model, end.answered_by or end.model)
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
        if not end.continues:
            for key in filter(is_held_key, list(self._held)):
                held = self._held.pop(key)
                self._counters.add_later(key, -held.amount, held.expires)


def _is_reached(used: float, most: float) -> bool:
    """Return whether a limit is reached. Sums of costs may be too small by a rounding error."""
    return used >= most or isclose(used, most)


def _rules_about(rules: Iterable[LimitRule], model: str, answered_by: str) -> list[LimitRule]:
    """Return the rules that apply to the model that is asked, or to the one that answers."""
    return [rule for rule in rules if rule.is_about(model) or rule.is_about(answered_by)]


_NO_TABLE = "needs a price table: name its file in hookgate.toml, as `file` in the section [prices]"
_NO_PRICE = "{rule} limits cost, and the price table has no price for the model {model!r}."
_FULL = (
    "{rule} has been reached: {used} of {most} {unit} {per} have been used {window}{held}; it resets at "
    "{ends} UTC."
)
_HELD = ", of which {held} are held for calls in progress"
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
            # Without the rule's reason, which is about a limit that has been reached.
            return {"decision": "deny", "reason": _NO_PRICE.format(rule=_rule_name(rule), model=model)}
        expected = self._expected(event["llm_request"], session)
        amounts = expected_amounts(expected, self._prices, model, session.call_state.rerouted)
        session.call_state.before_turn[self] = partial(self._check, session, model, amounts)
        full = await self._account(session).take(self, self._rules, model, amounts)
        return _denial(full.count.rule, self._message(full)) if full else None

    async def _check(self, session: SessionContext, model: str, amounts: Amounts) -> str | None:
        """Return why the session's next turn must not begin, or None."""
        full = await self._account(session).take(self, self._rules, model, amounts)
        return f"{self._message(full)} {full.count.rule.reason}".strip() if full else None

    @staticmethod
    def _expected(llm_request: Mapping[str, Any], session: SessionContext) -> ExpectedUse:
        """Return what the call is expected to use, with the maximum output that earlier hooks have set."""
        expected, config = session.call_state.expected, llm_request.get("config")
        is_one = session.call_state.requests == 1  # other requests of the body have other settings
        if not (is_one and expected.output_tokens and isinstance(config, dict)):
            return expected
        return replace(expected, output_tokens=estimate_output(config))

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
            held=_HELD.format(held=_format_amount(count.measure, full.held)) if full.held > 0 else "",
            ends=f"{count.ends:%Y-%m-%d %H:%M}",
        )


def _rule_name(rule: LimitRule) -> str:
    return f"The limit {rule.name!r}" if rule.name else "A limit"


def _format_amount(measure: Measure, amount: float) -> str:
    if measure != "cost":
        return f"{amount:,.0f}"
    small = 0 < amount < 1  # two significant digits, so that a few cheap calls are not shown as 0.00
    return f"{amount:,.{1 - floor(log10(amount)) if small else 2}f}"


def describe_use(use: LimitUse, currency: str) -> str:
    """Return how much of a limit is used, in ASCII for a header: `cost 82% of 10.00 USD per day; by team`."""
    most = f"{use.most:.0f}"
    if use.measure == "cost":
        unit = "".join(character for character in currency if " " <= character <= "~")
        most = f"{use.most:.2f} {unit}".rstrip()
    return f"{use.measure} {int(100 * use.share)}% of {most} per {use.window}; by {use.per}"


def _denial(rule: LimitRule, message: str) -> dict[str, Any]:
    return {"decision": "deny", "reason": f"{message} {rule.reason}".strip()}
