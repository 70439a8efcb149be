"""The policy `limits`: how many requests, tokens and how much money, per caller and calendar window.

    {"type": "builtin", "builtin": "limits", "options": {"rules": [
      {"per": "key", "window": "minute", "requests": 60},
      {"name": "team budget", "per": "team", "window": "month", "cost": 500, "models": ["*-pro"]}]}}

For BeforeModel hooks.
"""

from collections.abc import Mapping
from datetime import UTC, datetime
from math import floor, log10
from typing import Any

from hookgate.hooks.kinds.builtin import Counters, Policy, PriceTable, Surroundings
from hookgate.hooks.policies.limits.account import Account, Full
from hookgate.hooks.policies.limits.memory import MemoryCounters
from hookgate.hooks.policies.limits.options import LimitsOptions, Measure, Rule
from hookgate.hooks.policies.limits.windows import Clock
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.session import Session

_NO_TABLE = "needs a price table: name its file in hookgate.toml, as `file` in the section [prices]"
_NO_PRICE = "{rule} is about cost, and the price table knows no price of the model {model!r}."
_FULL = "{rule} is reached: {used} of {most} {unit} {per} in this {window} are used; it resets at {ends} UTC."
_PER = {"key": "per key", "session": "per session", "team": "per team", "everyone": "of everyone"}


def limits_policy(
    options: Mapping[str, Any], surroundings: Surroundings, clock: Clock = lambda: datetime.now(UTC)
) -> Policy:
    """The policy for these options. Raises ValueError."""
    rules = read_options(LimitsOptions, options).rules
    if surroundings.prices is None:
        for at, rule in enumerate(rules):
            if rule.cost is not None:
                raise ValueError(f"rules.{at}.cost: {_NO_TABLE}")
    return _Limits(rules, surroundings.counters or MemoryCounters(clock), surroundings.prices, clock)


class _Limits:
    """The policy, ready to run."""

    def __init__(
        self, rules: tuple[Rule, ...], counters: Counters, prices: PriceTable | None, clock: Clock
    ) -> None:
        self._rules, self._counters, self._prices, self._clock = rules, counters, prices, clock

    async def __call__(self, event: dict[str, Any], session: Session) -> dict[str, Any] | None:
        """Deny a call that a limit leaves no room for. Raises ValueError for another event's input."""
        if event["hook_event_name"] != "BeforeModel":
            raise ValueError("the policy limits is for BeforeModel hooks alone")
        model = event["llm_request"]["model"]
        if (rule := self._unpriced(model)) is not None:
            return _denied(rule, _NO_PRICE.format(rule=_called(rule), model=model))
        full = await self._account(session).take(self, self._rules, model)
        return _denied(full.count.rule, self._told(full)) if full else None

    def _unpriced(self, model: str) -> Rule | None:
        """The rule on cost for which the model would have to have a price."""
        if self._prices is None or self._prices.knows(model):
            return None
        return next((rule for rule in self._rules if rule.cost is not None and rule.is_about(model)), None)

    def _account(self, session: Session) -> Account:
        kept, key = session.call.kept, (Account, self._counters)
        if key not in kept:
            kept[key] = Account(self._counters, session, self._clock)
        account: Account = kept[key]
        return account

    def _told(self, full: Full) -> str:
        count = full.count
        return _FULL.format(
            rule=_called(count.rule),
            used=_number(count.measure, full.used),
            most=_number(count.measure, count.most),
            unit=self._prices.currency if count.measure == "cost" and self._prices else count.measure,
            per=_PER[count.rule.per],
            window=count.rule.window,
            ends=f"{count.ends:%Y-%m-%d %H:%M}",
        )


def _called(rule: Rule) -> str:
    return f"The limit {rule.name!r}" if rule.name else "A limit"


def _number(measure: Measure, amount: float) -> str:
    if measure != "cost":
        return f"{amount:,.0f}"
    small = 0 < amount < 1  # then two digits that are no zeros, or a few calls would have cost nothing
    return f"{amount:,.{1 - floor(log10(amount)) if small else 2}f}"


def _denied(rule: Rule, told: str) -> dict[str, Any]:
    return {"decision": "deny", "reason": f"{told} {rule.reason}".strip()}
