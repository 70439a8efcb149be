"""The alerts in the panel: the state of each rule, and silences."""

import asyncio
import time

from hookgate.proxy.alerts.rules import EvaluatedRule
from hookgate.proxy.alerts.showing import LONGEST_SILENCE, show_alerts
from hookgate.proxy.alerts.table import AlertTable
from hookgate.proxy.errors import ApiError
from hookgate.translator.fields import JsonObject


class AlertPanel:
    """The rules of alerts, and the database with their state. Every coroutine may raise StoreError."""

    def __init__(self, rules: list[EvaluatedRule], table: AlertTable) -> None:
        self._rules, self._table = rules, table

    async def rows(self) -> list[JsonObject]:
        """Return the rules with their state."""
        return await asyncio.to_thread(lambda: list(show_alerts(self._rules, self._table)))

    def check_silence(self, rule: object, seconds: object) -> tuple[str, int]:
        """Return the rule to silence, and for how long; 0 ends a silence. Raises ApiError (400)."""
        names = [each.name for each in self._rules]
        if not isinstance(rule, str) or rule not in names:
            raise ApiError(400, f"rule: must be one of {', '.join(names)}")
        if isinstance(seconds, bool) or not isinstance(seconds, int) or not 0 <= seconds <= LONGEST_SILENCE:
            raise ApiError(400, f"seconds: must be a whole number from 0 to {LONGEST_SILENCE}")
        return rule, seconds

    async def silence(self, rule: str, seconds: int, by: str) -> None:
        """Have nobody told that a rule fires for some time; 0 ends a silence."""
        if seconds:
            until = time.time_ns() // 1_000_000 + seconds * 1000
            await asyncio.to_thread(self._table.silence, rule, until, by)
        else:
            await asyncio.to_thread(self._table.unsilence, rule)
