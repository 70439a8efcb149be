"""How much of the limits is used now: those of the policy `limits`, and those of issued keys."""

import json
import threading
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from sqlalchemy import select

from hookgate.hooks.policies.counters import CountName, LimitRule, read_count_key, window_at
from hookgate.hooks.policies.options import read_options
from hookgate.hooks.settings import Hook
from hookgate.proxy.keys.table import KeyTable
from hookgate.proxy.policy.limit_rules import RuleId, id_of_count, id_of_rule, limit_rules
from hookgate.proxy.store.database import FILE, KEYS_FILE, Database, open_database, open_keys
from hookgate.proxy.store.models import counters
from hookgate.translator.fields import JsonObject

_MOST_COUNTS = 5000
"""Counts that are read; those of more callers are left out."""

_ISSUED = "issued:"


@dataclass(frozen=True, slots=True)
class _Limit:
    """A rule, and what has set it: the name of a hook, or the key."""

    rule: LimitRule
    source: str


@dataclass(frozen=True, slots=True)
class _Key:
    """An issued key: how it is shown, and its limits."""

    name: str
    limits: Mapping[RuleId, _Limit]


class Budgets:
    """Reads the counts of limits. Its methods block, and may raise StoreError and database errors."""

    def __init__(self, url: str | None, state: Path) -> None:
        self._url, self._state = url, state
        self._opening = threading.Lock()
        self._database: Database | None = None
        self._keys: KeyTable | None = None

    def rows(self, hooks: Iterable[Hook]) -> list[JsonObject]:
        """Return the limits that callers have begun to use, the most used first. `hooks` are those in force.

        Limits per session are left out, because there may be any number of them.
        """
        rules, keys, rows = _by_id(limit_rules(hooks)), self._issued_keys(), []
        for count, used in self._counts():
            subject = count.subject[0] if count.subject else ""
            key = keys.get(subject.removeprefix(_ISSUED)) if subject.startswith(_ISSUED) else None
            limit = (rules if key is None else key.limits).get(id_of_count(count))
            most = None if limit is None else limit.rule.most(count.measure)
            if limit is not None and most is not None:
                shown = subject if key is None else key.name
                rows.append({**_row(count, limit), "subject": shown, "used": used, "most": most})
        return sorted(rows, key=lambda row: -row["used"] / row["most"])

    def close(self) -> None:
        """Close the databases that were opened."""
        if self._database is not None:
            self._database.close()
        if self._keys is not None:
            self._keys.close()

    def _counts(self) -> list[tuple[CountName, float]]:
        """Return the counts of the current windows."""
        with self._opening:
            if self._database is None and (self._url is not None or (self._state / FILE).exists()):
                self._database = open_database(self._url, self._state)
        if self._database is None:
            return []
        now = datetime.now(UTC)
        query = (
            select(counters.c.key, counters.c.total)
            .where(counters.c.expires > int(now.timestamp()), counters.c.key.like("[%"))
            .limit(_MOST_COUNTS)
        )
        with self._database.reading.begin() as connection:
            found = [(read_count_key(row.key), row.total) for row in connection.execute(query)]
        return [(count, used) for count, used in found if count is not None and _is_current(count, now)]

    def _issued_keys(self) -> dict[str, _Key]:
        """Return the issued keys by their IDs."""
        with self._opening:
            if self._keys is None and (self._url is not None or (self._state / KEYS_FILE).exists()):
                self._keys = KeyTable(open_keys(self._url, self._state))
        found = {}
        for key in () if self._keys is None else self._keys.all():
            rules = [read_options(LimitRule, each) for each in json.loads(key.scope).get("limits", ())]
            found[key.id] = _Key(f"{key.owner} ({key.id})", _by_id(("the key", rule) for rule in rules))
        return found


def _is_current(count: CountName, now: datetime) -> bool:
    return count.per != "session" and window_at(count.window, now).begins == count.begins


def _by_id(rules: Iterable[tuple[str, LimitRule]]) -> dict[RuleId, _Limit]:
    return {id_of_rule(rule): _Limit(rule, source) for source, rule in rules}


def _row(count: CountName, limit: _Limit) -> JsonObject:
    return {
        "per": count.per,
        "source": limit.source,
        "models": list(limit.rule.models),
        "measure": count.measure,
        "window": count.window,
        "ends": int(window_at(count.window, count.begins).ends.timestamp() * 1000),
    }
