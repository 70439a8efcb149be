"""The names in the index: every name and text is stored once, with a number."""

from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from sqlalchemy import Connection, bindparam, insert, select, update

from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import audit_names

_REMEMBERED = 50_000
"""Names whose numbers a process remembers."""

_AT_ONCE = 500
"""Names in one statement."""

Name = tuple[str, str]
"""A field and a name."""


class NameNumbers:
    """The numbers of names, for what writes the index. An empty name has the number 0."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[Name, int] = {}
        self._removals = -1

    @contextmanager
    def forgetting_failures(self) -> Iterator[None]:
        """Forget all numbers if the block fails, because new ones are not stored then."""
        try:
            yield
        except BaseException:
            self._known.clear()
            raise

    def note(
        self, connection: Connection, used: Mapping[Name, tuple[int, int]], removals: int
    ) -> dict[Name, int]:
        """Return the numbers of names; new ones get one.

        `used` are the number of calls that have a name, and the hour of the last one. `removals` changes when
        names are removed: numbers that were remembered before are wrong then.
        """
        if removals != self._removals or len(self._known) > _REMEMBERED:
            self._known.clear()
            self._removals = removals
        named = {each: how for each, how in used.items() if each[1]}
        numbers = {each: self._known[each] for each in named if each in self._known}
        numbers |= self._find(connection, [each for each in named if each not in numbers])
        if new := sorted(each for each in named if each not in numbers):
            rows = [{"field": field, "name": name, "calls": 0, "used": 0} for field, name in new]
            connection.execute(insert(audit_names), rows)
            numbers |= self._find(connection, new)
        self._known |= numbers
        statement = (
            update(audit_names)
            .where(audit_names.c.number == bindparam("of"))
            .values(calls=audit_names.c.calls + bindparam("more"), used=bindparam("last"))
        )
        changes = [
            {"of": numbers[each], "more": count, "last": hour} for each, (count, hour) in named.items()
        ]
        if changes:
            connection.execute(statement, sorted(changes, key=lambda each: each["of"]))
        return {**numbers, **{each: 0 for each in used if not each[1]}}

    def _find(self, connection: Connection, names: Iterable[Name]) -> dict[Name, int]:
        by_field: dict[str, list[str]] = {}
        for field, name in names:
            by_field.setdefault(field, []).append(name)
        found: dict[Name, int] = {}
        for field, listed in by_field.items():
            for start in range(0, len(listed), _AT_ONCE):
                rows: Any = connection.execute(
                    select(audit_names.c.name, audit_names.c.number).where(
                        audit_names.c.field == field, audit_names.c.name.in_(listed[start : start + _AT_ONCE])
                    )
                )
                found |= {(field, row.name): row.number for row in rows}
        return found
