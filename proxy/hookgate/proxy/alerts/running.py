"""How a gateway evaluates the rules and has receivers told. Nothing here can delay a call.

One gateway of those with the same database evaluates the rules, and delivers. Each looks for trouble of its
own: if that keeps it from using the database, it tells receivers directly.
"""

import asyncio
import logging
import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, suppress
from pathlib import Path

from hookgate.proxy.alerts.measuring import Measured, Meter
from hookgate.proxy.alerts.notices import alert_notice
from hookgate.proxy.alerts.receivers import Receiver, close_receivers, read_receivers
from hookgate.proxy.alerts.rules import EvaluatedRule, read_alert_rules
from hookgate.proxy.alerts.states import AlertChanges, AlertId, Firing, Message, advance, describe
from hookgate.proxy.alerts.table import LEASE_SECONDS, AlertTable, Delivery
from hookgate.proxy.audit.index.building import open_index
from hookgate.proxy.background import running_beside
from hookgate.proxy.config import AlertSettings
from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import FAILURES, open_alerts, open_audit, reason
from hookgate.proxy.store.execution import DatabaseThreads

log = logging.getLogger("hookgate.alerts")

_PAUSE = 5.0
"""Seconds between two evaluations."""

_SHARE = 20
"""An evaluation is followed by a pause of so many times the time that it took."""

_LEASE_SECONDS = 15.0
_LONGEST_PAUSE = LEASE_SECONDS - _LEASE_SECONDS
_MEASURING_SECONDS = 3.0
"""How long all rules may be measured; those that are left are measured first the next time."""

_SWEEP_SECONDS = 600.0

_BEHIND = 2000
"""Records that are not indexed at which no rule is evaluated: calls of the window would be missing."""

_DIRECT_TRIES = 8

_GRACE_SECONDS = 2.0
"""How long a gateway that stops waits for receivers."""


def _now() -> int:
    return time.time_ns() // 1_000_000


class Evaluator:
    """Evaluates the rules, in a thread."""

    def __init__(self, rules: Sequence[EvaluatedRule], table: AlertTable, meter: Meter) -> None:
        self._rules = [rule for rule in rules if rule.query is not None]
        self._all, self._table, self._meter = rules, table, meter
        self._sweep_at = 0.0
        self._problems: dict[str, str] = {}
        self.firing: dict[str, int] = {}
        """The number of alerts that fire by rule, as long as this gateway evaluates the rules."""

    def evaluate(self) -> float | None:
        """Evaluate all rules if no other gateway does. Returns seconds to pause, or None if another one does.

        Raises StoreError.
        """
        began, now = time.monotonic(), _now()
        if not self._table.take_lease(_LEASE_SECONDS):
            self.firing = {}
            return None
        measured = self._measure(now, began + _MEASURING_SECONDS)
        pause = min(max(_PAUSE, _SHARE * (time.monotonic() - began)), _LONGEST_PAUSE)
        receivers = {rule.name: rule.receivers for rule in self._all}
        changes = self._table.apply(
            receivers,
            now,
            lambda firing, silenced, room: advance(
                firing, self._all, measured, now, silenced=silenced, room=room
            ),
        )
        if changes is None:
            self.firing = {}
            return None
        _log_changes(changes)
        self.firing = {rule.name: 0 for rule in self._all}
        for each in self._table.firing():
            self.firing[each.id.rule] = self.firing.get(each.id.rule, 0) + 1
        if time.monotonic() > self._sweep_at:
            self._table.sweep(now)
            self._sweep_at = time.monotonic() + _SWEEP_SECONDS
        self._table.take_lease(pause + _LEASE_SECONDS)
        return pause

    def _measure(self, now: int, until: float) -> dict[str, Measured]:
        """Return what rules count, as far as there is time; the others are measured first the next time."""
        measured: dict[str, Measured] = {}
        try:
            backlog = self._meter.backlog()
        except FAILURES as error:
            self._note("", reason(error))
            return measured
        self._note("", f"{backlog} records are not indexed yet" if backlog > _BEHIND else "")
        if backlog > _BEHIND:
            return measured
        for _ in range(len(self._rules)):
            if time.monotonic() > until:
                break
            rule = self._rules.pop(0)
            self._rules.append(rule)
            try:
                measured[rule.name] = self._meter.measure(rule, now, until)
                self._note(rule.name, "")
            except (*FAILURES, ValueError) as error:
                self._note(rule.name, reason(error))
        return measured

    def _note(self, rule: str, problem: str) -> None:
        """Log that a rule, or all of them, cannot be evaluated, once until they can be."""
        if problem and not self._problems.get(rule):
            which = f"the rule {rule}" if rule else "the rules"
            log.warning("alerts: %s cannot be evaluated, so alerts stay as they are: %s", which, problem)
        self._problems[rule] = problem


def _log_changes(changes: AlertChanges) -> None:
    for message in changes.messages:
        log.warning("alert %s: %s %s", message.state, message.rule, dict(message.group))


class Alerting:
    """Evaluates rules and delivers messages until it is closed."""

    def __init__(  # noqa: PLR0913  # the parts of it
        self,
        rules: Sequence[EvaluatedRule],
        receivers: dict[str, Receiver],
        table: AlertTable,
        evaluator: Evaluator,
        *,
        gateway: str,
        trouble: Callable[[], str | None],
    ) -> None:
        """`gateway` names this one in alerts; `trouble` returns why its audit cannot be written, or None."""
        self._in_trouble = [rule for rule in rules if rule.settings.trouble]
        self._receivers, self._table, self._evaluator = receivers, table, evaluator
        self._gateway, self._trouble = gateway, trouble
        self._threads = DatabaseThreads("the alerts", "hookgate-alerts", 1)
        self._evaluating = ThreadPoolExecutor(1, "hookgate-alert-rules")
        self._wake = asyncio.Event()
        self._delivers = False
        self._failing = False
        self._sending: dict[str, asyncio.Task[None]] = {}
        self._direct: dict[str, asyncio.Task[None]] = {}
        """The last message to each receiver without the database, which waits for the one before it."""
        self._unstored: dict[str, Message] = {}
        """The messages about trouble that were sent without the database, by rule."""
        self._stored: dict[str, bool] = {}
        """Whether there is trouble as far as it is stored, by rule."""
        self.results: dict[tuple[str, str], int] = {}
        """The number of attempts by receiver and result."""

    @property
    def firing(self) -> dict[str, int]:
        """The number of alerts that fire by rule; empty if another gateway evaluates the rules."""
        return self._evaluator.firing

    async def run(self) -> None:
        """Work until cancelled."""
        watching = [self._watch] if self._in_trouble else []
        await asyncio.gather(*map(_repeat, (self._evaluate, self._deliver, *watching)))

    async def close(self) -> None:
        """End what is being sent. Messages that are not delivered stay in the database."""
        if self._sending:  # what was delivered should be known to be
            await asyncio.wait(self._sending.values(), timeout=_GRACE_SECONDS)
        for task in (*self._sending.values(), *self._direct.values()):
            task.cancel()
        await asyncio.gather(*self._sending.values(), *self._direct.values(), return_exceptions=True)
        await close_receivers(self._receivers.values())
        await asyncio.to_thread(self._evaluating.shutdown)
        await asyncio.to_thread(self._threads.close)

    # ---- rules

    async def _evaluate(self) -> float:
        """Evaluate the rules once, unless another gateway does. Returns seconds to pause."""
        pause: float | None = None
        try:
            loop = asyncio.get_running_loop()
            pause = await loop.run_in_executor(self._evaluating, self._evaluator.evaluate)
            self._note("")
        except StoreError as error:
            self._note(str(error))
        self._delivers = pause is not None
        self._wake.set()
        return _PAUSE if pause is None else pause

    def _note(self, problem: str) -> None:
        if problem and not self._failing:
            log.error("alerts wait until the database can be used: %s", problem)
        self._failing = bool(problem)

    # ---- deliveries

    async def _deliver(self) -> float:
        """Start an attempt for each receiver for which a message is due, so that none waits for another."""
        self._wake.clear()
        if self._delivers:
            with suppress(StoreError):  # the evaluation reports it
                for name in self._receivers.keys() - self._sending.keys():
                    delivery = await self._threads.run(self._table.claim, name, _now())
                    if delivery is not None:
                        self._sending[name] = asyncio.create_task(self._attempt(delivery))
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), _PAUSE)
        return 0.0

    async def _attempt(self, delivery: Delivery) -> None:
        """Try to deliver a message, and store the result. If that fails, the attempt is repeated later."""
        try:
            result = await self._receivers[delivery.receiver].send(
                alert_notice(delivery.message), delivery.id
            )
            self._count(delivery.receiver, result.error)
            await self._threads.run(
                lambda: self._table.settle(delivery, _now(), result.error, final=result.final)
            )
        except asyncio.CancelledError:
            self._threads.run_later(lambda: self._give_back(delivery))
            raise
        except StoreError as error:
            log.warning("the result of a delivery is not stored, so it may be repeated: %s", error)
        finally:
            del self._sending[delivery.receiver]
            self._wake.set()

    def _give_back(self, delivery: Delivery) -> None:
        """Let the next gateway repeat an attempt that has not ended."""
        with suppress(StoreError):
            self._table.settle(delivery, _now(), "was interrupted, because the gateway has stopped")

    def _count(self, receiver: str, error: str) -> None:
        key = (receiver, "failed" if error else "delivered")
        self.results[key] = self.results.get(key, 0) + 1
        if error:
            log.warning("the receiver %s %s", receiver, error)

    # ---- trouble of this gateway

    async def _watch(self) -> float:
        """Look for trouble, and tell of it without the database if that cannot be used."""
        in_trouble = self._trouble() is not None
        for rule in self._in_trouble:
            try:
                await self._store_trouble(rule, in_trouble=in_trouble)
            except StoreError:
                if in_trouble and not self._stored.get(rule.name):
                    self._unstored[rule.name] = self._message(rule, _now())
                    self._tell(self._unstored[rule.name])
        return _PAUSE

    async def _store_trouble(self, rule: EvaluatedRule, *, in_trouble: bool) -> None:
        """Store whether there is trouble, so that receivers are told. Raises StoreError."""
        now = _now()
        if unstored := self._unstored.get(rule.name):  # its end is told without the database, too
            if not in_trouble:
                del self._unstored[rule.name]
                self._tell(unstored.resolved(0.0, now))
            return
        message = self._message(rule, now)
        if in_trouble:
            firing = Firing(AlertId(rule.name, (self._gateway,), 100), now, 1.0, told=message)
            await self._threads.run(self._table.set_trouble, firing, now)
        elif self._stored.get(rule.name, True):  # an earlier process may have stored it
            await self._threads.run(self._table.end_trouble, AlertId(rule.name, (self._gateway,), 100), now)
        self._stored[rule.name] = in_trouble
        self._wake.set()

    def _message(self, rule: EvaluatedRule, now: int) -> Message:
        firing = Firing(AlertId(rule.name, (self._gateway,), 100), now, 1.0)
        return describe(rule, rule.levels[-1], firing, now)

    def _tell(self, message: Message) -> None:
        """Send a message to its receivers without the database."""
        id_ = f"msg_{secrets.token_hex(12)}"
        for name in message.receivers:
            before = self._direct.get(name)
            self._direct[name] = asyncio.create_task(
                self._send_directly(self._receivers[name], message, id_, before)
            )

    async def _send_directly(
        self, receiver: Receiver, message: Message, id_: str, before: asyncio.Task[None] | None
    ) -> None:
        """Send a message once the one before it was delivered or given up, so that they arrive in order."""
        if before is not None:
            await before
        for tried in range(_DIRECT_TRIES):
            if tried:
                await asyncio.sleep(_PAUSE * 2 ** (tried - 1))
            result = await receiver.send(alert_notice(message), id_)
            self._count(receiver.name, result.error)
            if not result.error or result.final:
                return


async def _repeat(step: Callable[[], Awaitable[float]]) -> None:
    """Take a step again and again, with the pause that it returns. An error in one is logged."""
    while True:
        try:
            pause = await step()
        except Exception:
            log.exception("internal error in alerts; please report this")
            pause = _PAUSE
        await asyncio.sleep(pause)


@asynccontextmanager
async def open_alerting(
    settings: AlertSettings, url: str | None, state: Path, gateway: str, trouble: Callable[[], str | None]
) -> AsyncIterator[Alerting]:
    """Evaluate the rules while the block runs.

    Args:
        settings: The rules and receivers.
        url: The URL of the database, or None for files.
        state: The state folder.
        gateway: The name of this gateway in alerts.
        trouble: Returns why its audit cannot be written, or None.

    Raises ConfigError for rules or receivers that cannot be used, and StoreError.
    """
    rules, receivers = read_alert_rules(settings), read_receivers(settings)
    async with AsyncExitStack() as stack:
        opened = ExitStack()
        stack.push_async_callback(asyncio.to_thread, opened.close)
        holder = f"{gateway} {secrets.token_hex(8)}"
        table = AlertTable(await asyncio.to_thread(open_alerts, url, state), holder)
        opened.callback(table.close)
        records = await asyncio.to_thread(open_audit, url, state, writes=False)
        opened.callback(records.close)
        index = await asyncio.to_thread(opened.enter_context, open_index(records, url, state))
        evaluator = Evaluator(rules, table, Meter(index))
        alerting = Alerting(rules, receivers, table, evaluator, gateway=gateway, trouble=trouble)
        try:
            async with running_beside(alerting.run()):
                yield alerting
        finally:
            await alerting.close()
            with suppress(StoreError):
                await asyncio.to_thread(table.release_lease)
