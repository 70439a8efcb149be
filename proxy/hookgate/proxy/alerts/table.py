"""The tables of alerts: what fires, what receivers are to be told, silences, and who evaluates the rules."""

import json
import secrets
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from sqlalchemy import Connection, and_, delete, func, insert, select, update

from hookgate.proxy.alerts.states import AlertChanges, AlertId, Firing, Message, Room, caller_of
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.execution import StoredTable, failures_as_store_error
from hookgate.proxy.store.leases import Lease
from hookgate.proxy.store.models import alert_deliveries, alert_lease, alert_silences, alerts

_EVALUATION = "evaluation"
"""The name of the lease."""

LEASE_SECONDS = 75.0
"""The longest time for which one gateway evaluates the rules without saying so again."""

MAX_WAITING = 500
"""How many messages may wait for one receiver before alerts are told of later."""

_HOUR = 3_600_000
_GIVE_UP = 24 * _HOUR
_KEPT = 7 * 24 * _HOUR
_CLAIMED = 60_000
"""Milliseconds after which another attempt may begin if the gateway of the last one has died."""

_FIRST_PAUSE = 5_000
_LONGEST_PAUSE = 600_000


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message for a receiver, of which an attempt to deliver it has begun."""

    number: int
    id: str
    """The ID of the message: the same for each attempt, so that a receiver knows it again."""
    receiver: str
    message: Message
    created: int
    tries: int


@dataclass(frozen=True, slots=True)
class LastAttempt:
    """The last attempt to tell a receiver of a rule. Times are in milliseconds since 1970."""

    created: int
    delivered: int | None
    waiting: bool
    error: str


@dataclass(frozen=True, slots=True)
class Silence:
    """A rule of which nobody is told until some time."""

    until: int
    by: str


Advance = Callable[[list[Firing], Collection[str], Room], AlertChanges]
"""Returns how alerts change, from those that fire, silenced rules, and how many may be told of."""


class AlertTable(StoredTable):
    """The state of alerts. Every method raises StoreError if the database cannot be used."""

    def __init__(self, database: Database, holder: str = "") -> None:
        """`holder` names this gateway, if it may evaluate the rules."""
        super().__init__(database, "alerts")
        self._lease = Lease(database, alert_lease, _EVALUATION, holder, LEASE_SECONDS)

    # ---- who evaluates

    def take_lease(self, seconds: float) -> bool:
        """Return whether this gateway evaluates the rules, which it then does for so many seconds."""
        with failures_as_store_error(self._subject):
            return self._lease.take(seconds)

    def release_lease(self) -> None:
        """Let another gateway evaluate the rules at once."""
        with failures_as_store_error(self._subject):
            self._lease.release()

    # ---- states

    def apply(self, receivers: Mapping[str, Sequence[str]], now: int, step: Advance) -> AlertChanges | None:
        """Change alerts in one transaction. Returns None if another gateway has taken over meanwhile.

        Args:
            receivers: The names of the receivers by rule.
            now: The time in milliseconds since 1970.
            step: Returns the changes.
        """
        with self._transaction() as connection:
            if not self._lease.keep(connection):
                return None
            silenced = connection.execute(select(alert_silences.c.rule).where(alert_silences.c.until > now))
            room = _room(connection, receivers, now)
            changes = step(_firing(connection), set(silenced.scalars()), room)
            self._save(connection, changes, now)
            return changes

    def set_trouble(self, firing: Firing, now: int) -> Message | None:
        """Store that a gateway has trouble, or has it still. Returns the message if it is told now."""
        with self._transaction() as connection:
            known = next((each for each in _firing(connection) if each.id == firing.id), None)
            since = firing.since if known is None else known.since
            silences = select(alert_silences.c.until).where(alert_silences.c.rule == firing.id.rule)
            is_silent = (connection.execute(silences).scalar() or 0) > now
            told = known.told if known else None
            message = None if told or is_silent else firing.told
            after = replace(firing, since=since, calm=now, told=told or message)
            self._save(connection, AlertChanges([after], [], [message] if message else []), now)
            return message

    def end_trouble(self, id_: AlertId, now: int) -> bool:
        """Store that a gateway has no trouble any more, and have receivers told. Returns whether it had."""
        with self._transaction() as connection:
            known = next((each for each in _firing(connection) if each.id == id_), None)
            if known is None:
                return False
            messages = [known.told.resolved(0.0, now)] if known.told else []
            self._save(connection, AlertChanges([], [id_], messages), now)
            return True

    def firing(self) -> list[Firing]:
        """Return the alerts that are firing."""
        return [_read(row) for row in self._select(select(alerts))]

    def _save(self, connection: Connection, changes: AlertChanges, now: int) -> None:
        row = self._database.insert(alerts)
        values = {name: row.excluded[name] for name in ("since", "value", "calm", "told")}
        keep = row.on_conflict_do_update(index_elements=["rule", "subject", "level"], set_=values)
        for each in changes.stored:
            told = each.told.to_json() if each.told else ""
            amounts = {"since": each.since, "value": each.value, "calm": each.calm, "told": told}
            connection.execute(keep, {**_place(each.id), **amounts})
        for id_ in changes.ended:
            connection.execute(delete(alerts).where(*(alerts.c[k] == v for k, v in _place(id_).items())))
        rows = [row for message in changes.messages for row in _deliveries(message, now)]
        if rows:
            connection.execute(insert(alert_deliveries), rows)

    # ---- deliveries

    def claim(self, receiver: str, now: int) -> Delivery | None:
        """Begin an attempt to deliver the oldest message for a receiver, unless it is not due yet.

        A later message waits until the one before it is delivered or given up, so that they arrive in order.
        """
        columns = alert_deliveries.c
        waiting = and_(columns.receiver == receiver, columns.due.is_not(None))
        found = self._select(select(alert_deliveries).where(waiting).order_by(columns.number).limit(1))
        if not found or found[0]["due"] > now:
            return None
        row = found[0]
        same = and_(columns.number == row["number"], columns.due == row["due"], columns.tries == row["tries"])
        claimed = update(alert_deliveries).where(same).values(due=now + _CLAIMED, tries=row["tries"] + 1)
        if not self._write(claimed):
            return None  # another gateway was faster
        message = Message.from_json(row["document"])
        return Delivery(
            row["number"], row["message"], row["receiver"], message, row["created"], row["tries"] + 1
        )

    def settle(self, delivery: Delivery, now: int, error: str, *, final: bool = False) -> None:
        """Store the result of an attempt. `error` is empty after a success; `final` ones are not repeated."""
        is_over = not error or final or now - delivery.created >= _GIVE_UP
        pause = min(_FIRST_PAUSE * 2 ** min(delivery.tries - 1, 10), _LONGEST_PAUSE)
        values = {
            "due": None if is_over else now + pause,
            "delivered": None if error else now,
            "error": error,
        }
        columns = alert_deliveries.c
        same = and_(columns.number == delivery.number, columns.tries == delivery.tries)
        self._write(update(alert_deliveries).where(same).values(values))

    def sweep(self, now: int) -> None:
        """Give up messages that have waited for too long, such as those for receivers that are gone."""
        columns = alert_deliveries.c
        late = and_(columns.due.is_not(None), columns.created < now - _GIVE_UP - _CLAIMED)
        self._write(update(alert_deliveries).where(late).values(due=None, error="was given up"))
        self._write(delete(alert_deliveries).where(columns.due.is_(None), columns.created < now - _KEPT))
        self._write(delete(alert_silences).where(alert_silences.c.until < now))

    def attempts(self) -> dict[tuple[str, str], LastAttempt]:
        """Return the last attempt of each rule and receiver."""
        columns = alert_deliveries.c
        last = select(func.max(columns.number)).group_by(columns.rule, columns.receiver)
        rows = self._select(select(alert_deliveries).where(columns.number.in_(last)))
        return {
            (row["rule"], row["receiver"]): LastAttempt(
                row["created"], row["delivered"], row["due"] is not None, row["error"]
            )
            for row in rows
        }

    # ---- silences

    def silences(self, now: int) -> dict[str, Silence]:
        """Return the silences by rule."""
        rows = self._select(select(alert_silences).where(alert_silences.c.until > now))
        return {row["rule"]: Silence(row["until"], row["silenced_by"]) for row in rows}

    def silence(self, rule: str, until: int, by: str) -> None:
        """Have nobody told that a rule fires until some time."""
        row = self._database.insert(alert_silences)
        values = {"until": row.excluded.until, "silenced_by": row.excluded.silenced_by}
        keep = row.on_conflict_do_update(index_elements=["rule"], set_=values)
        self._write(keep.values(rule=rule, until=until, silenced_by=by))

    def unsilence(self, rule: str) -> bool:
        """End a silence. Returns whether there was one."""
        return self._write(delete(alert_silences).where(alert_silences.c.rule == rule))


def _firing(connection: Connection) -> list[Firing]:
    return [_read(dict(row)) for row in connection.execute(select(alerts)).mappings()]


def _read(row: Mapping[str, Any]) -> Firing:
    id_ = AlertId(row["rule"], tuple(json.loads(row["subject"])), row["level"])
    told = Message.from_json(row["told"]) if row["told"] else None
    return Firing(id_, row["since"], row["value"], row["calm"], told)


def _place(id_: AlertId) -> dict[str, Any]:
    subject = json.dumps(id_.subject)
    return {"rule": id_.rule, "subject": subject, "level": id_.level}


def _deliveries(message: Message, now: int) -> Iterable[dict[str, Any]]:
    """Yield the rows of a message for each receiver."""
    id_ = f"msg_{secrets.token_hex(12)}"
    for receiver in message.receivers:
        yield {
            "message": id_,
            "rule": message.rule,
            "state": message.state,
            "receiver": receiver,
            "document": message.to_json(),
            "created": now,
            "due": now,
            "tries": 0,
            "delivered": None,
            "error": "",
        }


def _room(connection: Connection, receivers: Mapping[str, Sequence[str]], now: int) -> Room:
    """Return how many more alerts may be told of."""
    columns = alert_deliveries.c
    recent = select(func.max(columns.document).label("document")).where(
        columns.created >= now - _HOUR, columns.state == "firing"
    )
    told = [
        Message.from_json(document)
        for document in connection.execute(recent.group_by(columns.message)).scalars()
    ]
    waiting = select(columns.receiver, func.count().label("waiting")).where(columns.due.is_not(None))
    full = {row.receiver: row.waiting for row in connection.execute(waiting.group_by(columns.receiver))}
    by_rule = {
        rule: min((MAX_WAITING - full.get(each, 0) for each in names), default=MAX_WAITING)
        for rule, names in receivers.items()
    }
    return Room(by_rule, (caller_of(each.rule, each.group) for each in told))
