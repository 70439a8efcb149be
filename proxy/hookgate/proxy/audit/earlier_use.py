"""What was used before a limit existed: a new limit begins with it, from the index of the audit."""

import logging
import threading
import time
from collections import OrderedDict
from collections.abc import Iterable, Mapping
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path

from hookgate.hooks import Configuration
from hookgate.hooks.policies.counters import CountName, LimitRule, read_count_key, window_at
from hookgate.hooks.policy_environment import Counters
from hookgate.proxy.audit.index.building import open_index
from hookgate.proxy.audit.index.query import NAMES, Names, Query
from hookgate.proxy.audit.index.reporting import Reports
from hookgate.proxy.errors import StoreError
from hookgate.proxy.policy.limit_rules import RuleId, id_of_count, id_of_rule, limit_rules
from hookgate.proxy.store.counters import SqlCounters
from hookgate.proxy.store.database import open_audit
from hookgate.proxy.store.execution import DatabaseThreads

log = logging.getLogger("hookgate.store")

_GROUPS = 1000
"""The models of which the use is added up, those with most calls first."""

_INDEX_SECONDS = 1.0
_RETRY_SECONDS = 60.0
_MAX_KNOWN = 10_000
_NOT_COUNTED = frozenset({"denied", "refused"})
"""The outcomes of calls that count as no request: most were denied before they could."""


class EarlierUse:
    """Looks up what was used, in a thread of its own. The index is opened when it is first needed."""

    def __init__(self, url: str | None, state: Path) -> None:
        self._url, self._state = url, state
        self._threads = DatabaseThreads("the index of the audit", "hookgate-earlier-use", 1)
        self._opening = threading.Lock()
        self._opened = ExitStack()
        self._reports: Reports | None = None

    def counters(self, counters: SqlCounters, configuration: Configuration) -> Counters:
        """Return counters in which the counts of the limits in a configuration begin with earlier use."""
        rules = {id_of_rule(rule): rule for _, rule in limit_rules(configuration.hooks())}
        return _CountersWithEarlierUse(counters, rules, self)

    async def used(self, count: CountName, rule: LimitRule) -> float:
        """Return how much of a count was used since its window began. Raises StoreError."""
        return await self._threads.run(self._used, count, rule)

    def close(self) -> None:
        """Close the index. Blocks."""
        self._threads.close()
        self._opened.close()

    def _used(self, count: CountName, rule: LimitRule) -> float:
        since = round(count.begins.timestamp() * 1000)
        names = {}
        if count.per in ("key", "team"):
            names[count.per] = Names(NAMES[count.per], whole=count.subject)
        report = self._open().report(Query(names, since=since), ("model", "asked", "outcome"), _GROUPS)
        total = 0.0
        for model, asked, outcome, *sums in report.rows:
            if not (model or asked) or not (rule.is_about(asked) or rule.is_about(model)):
                continue
            amounts = dict(zip(report.columns, sums, strict=True))
            if count.measure == "requests":
                total += 0 if outcome in _NOT_COUNTED else amounts["calls"]
            elif count.measure == "tokens":
                total += amounts["input_tokens"] + amounts["output_tokens"]
            else:
                total += amounts["cost"]
        return total

    def _open(self) -> Reports:
        with self._opening:
            if self._reports is None:
                records = open_audit(self._url, self._state, writes=False)
                self._opened.callback(records.close)
                index = self._opened.enter_context(open_index(records, self._url, self._state))
                index.update(_INDEX_SECONDS)
                self._reports = Reports(index)
            return self._reports


class _CountersWithEarlierUse:
    """Counters in the database, in which the counts of limits per day and month begin with earlier use.

    Only counts whose window began before the limits were loaded are looked up, each once: of others nothing
    was used, or it was counted. So a limit that is new, or whose counts were lost, starts with what was used.
    """

    def __init__(self, counters: SqlCounters, rules: Mapping[RuleId, LimitRule], earlier: EarlierUse) -> None:
        """`rules` are those that the counts belong to."""
        self._counters, self._rules, self._earlier = counters, rules, earlier
        self._loaded = datetime.now(UTC)
        self._known: OrderedDict[str, None] = OrderedDict()
        self._retry_at = 0.0

    async def add(self, key: str, amount: float, expires: datetime) -> float:
        """Add an amount and return the new total. Raises StoreError."""
        return await self._counters.add(key, amount, expires)

    def add_later(self, key: str, amount: float, expires: datetime) -> None:
        """Add an amount soon. As long as that fails, all other operations fail too."""
        self._counters.add_later(key, amount, expires)

    async def read(self, keys: Iterable[str]) -> Mapping[str, float]:
        """Return the totals of the counters that exist. Raises StoreError."""
        wanted = list(keys)
        found = dict(await self._counters.read(wanted))
        for key in wanted:
            if key not in found and (total := await self._begun(key)):
                found[key] = total
        return found

    async def _begun(self, key: str) -> float:
        """Begin a count that does not exist yet, if something was used before, and return its total."""
        count = read_count_key(key)
        if count is None or key in self._known or time.monotonic() < self._retry_at:
            return 0.0
        rule = self._rules.get(id_of_count(count))
        is_looked_up = count.per != "session" and count.window != "minute" and count.begins < self._loaded
        if rule is None or not is_looked_up:
            return 0.0
        try:
            used = await self._earlier.used(count, rule)
        except StoreError as error:
            self._retry_at = time.monotonic() + _RETRY_SECONDS
            log.warning("limits count without what was used before they were added: %s", error)
            return 0.0
        self._known[key] = None
        if len(self._known) > _MAX_KNOWN:
            self._known.popitem(last=False)
        if not used:
            return 0.0
        return await self._counters.begin(key, used, window_at(count.window, count.begins).ends)
