"""The rules of alerts as they are evaluated, made from their settings."""

from dataclasses import dataclass, replace
from datetime import UTC, datetime

from hookgate.proxy.audit.index.query import Query, parse_query
from hookgate.proxy.config import AlertRule, AlertSettings, ConfigError
from hookgate.proxy.config.values import window_seconds
from hookgate.proxy.store.models import CALLER_FIELDS

_DAY_SECONDS = 24 * 3600

_LONG = frozenset({"session", *CALLER_FIELDS})
"""The words of queries for which the index has sums, so that a long window costs little."""


@dataclass(frozen=True, slots=True)
class Level:
    """One of the thresholds of a rule. `percent` is that of its `over`."""

    percent: int
    threshold: float
    severity: str


@dataclass(frozen=True, slots=True)
class EvaluatedRule:
    """A rule. `query` is None for trouble of a gateway itself; `receivers` are the names of those to tell."""

    settings: AlertRule
    query: Query | None
    receivers: tuple[str, ...]

    @property
    def name(self) -> str:
        return self.settings.name

    @property
    def groups(self) -> tuple[str, ...]:
        """What is counted apart."""
        if self.query is None:
            return ("gateway",)
        return tuple(self.settings.by.split(",")) if self.settings.by else ()

    @property
    def levels(self) -> tuple[Level, ...]:
        """The thresholds. Below 100 percent, the severity is at most `warning`."""
        settings = self.settings
        early = "info" if settings.severity == "info" else "warning"
        return tuple(
            Level(each, settings.over * each / 100, settings.severity if each >= 100 else early)
            for each in settings.at
        )

    def query_at(self, now: int) -> Query:
        """Return the query of the window that ends now; times are in milliseconds since 1970."""
        if self.query is None:
            raise ValueError("trouble of a gateway has no query")
        return replace(self.query, since=window_start(self.settings.within, now), sort=self.settings.count)


def window_start(window: str, now: int) -> int:
    """Return the beginning of the window that ends now; times are in milliseconds since 1970."""
    if window not in ("day", "month"):
        return now - window_seconds(window) * 1000
    day = datetime.fromtimestamp(now / 1000, UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    return round((day if window == "day" else day.replace(day=1)).timestamp() * 1000)


def read_alert_rules(settings: AlertSettings) -> list[EvaluatedRule]:
    """Return the rules of the settings. Raises ConfigError with each that cannot be evaluated."""
    rules, problems = [], []
    everybody = tuple(receiver.name for receiver in settings.receivers)
    for number, each in enumerate(settings.rules):
        query, problem = _query(each)
        if problem:
            problems.append(f"alerts.rules[{number}].query: {problem}")
        rules.append(EvaluatedRule(each, None if each.trouble else query, each.receivers or everybody))
    if problems:
        raise ConfigError(problems)
    return rules


def _query(rule: AlertRule) -> tuple[Query, str]:
    """Return the query of a rule, and what is wrong with it."""
    try:
        query = parse_query([rule.query])
    except ValueError as error:
        return Query(), str(error)
    if query.since is not None or query.until is not None or query.zone is not None:
        return query, "a rule has no times but those of `within`; remove since, until, during and zone"
    if query.sort != "time" or query.ascending:
        return query, "a rule has no order; remove sort"
    if window_seconds(rule.within) > _DAY_SECONDS and (query.amounts or not {*query.names} <= _LONG):
        words = ", ".join(each for each in (*query.names, *query.amounts) if each not in _LONG)
        return query, f"{words}: would read all calls of {rule.within}; shorten `within` to 1d, or remove it"
    if rule.new and window_seconds(rule.within) > _DAY_SECONDS:
        return query, "new: what is new is looked for within at most 1d; shorten `within`"
    return query, ""
