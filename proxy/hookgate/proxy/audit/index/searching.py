"""Finds calls by the index: pages of positions, whatever the query.

A query begins with its rarest word, for which the index has the calls in order, and checks the others for
each of these calls. Names are looked up first, so that a part of a name costs no more than the names do.
"""

import heapq
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Any

from sqlalchemy import ColumnElement, Connection, and_, exists, func, not_, or_, select

from hookgate.proxy.audit.index.building import CHANGE, CallIndex
from hookgate.proxy.audit.index.query import MARKS, Names, Query
from hookgate.proxy.store.models import audit_call_marks, audit_calls, audit_names

_MAX_NAMES = 50
"""Names to query one by one. If more match, all of their calls are sorted, or all calls read in order."""

_MAX_SORTED = 20_000
"""Calls of many names that are sorted. If there are more, enough are soon found among all calls."""

_MAX_NUMBERS = 1000
"""Numbers of names in a statement. If more match, the statement looks them up itself."""

_LOOK = 500
"""Calls that are looked at together for their sessions."""

_MAX_LOOKED = 10_000
"""Calls that are looked at for a page of sessions."""

_AMOUNTS = {
    "time": audit_calls.c.at,
    "cost": audit_calls.c.cost,
    "tokens": audit_calls.c.input_tokens + audit_calls.c.output_tokens,
    "duration": audit_calls.c.duration,
}

_PLACE = re.compile(r"(\d{1,19}(?:\.\d{1,20})?(?:e[+-]?\d{1,3})?)-(\d{1,19})")


_LARGEST = 2**63 - 1
"""The largest integer of a database."""


@dataclass(frozen=True, slots=True)
class FoundPlace:
    """A call that was found: the position of its record, and the amount by which calls are sorted."""

    position: int
    amount: float

    def __str__(self) -> str:
        """Return the text by which the next page begins after this call."""
        return f"{self.amount!r}-{self.position}"


def parse_place(text: str) -> FoundPlace:
    """Return the place that a text of `FoundPlace` stands for. Raises ValueError."""
    found = _PLACE.fullmatch(text)
    if found is None or int(found[2]) > _LARGEST or float(found[1]) > _LARGEST:
        raise ValueError("must be the `older` value of a page")
    number = float(found[1]) if re.search(r"[.e]", found[1]) else int(found[1])
    return FoundPlace(int(found[2]), number)


@dataclass(frozen=True, slots=True)
class FoundSession:
    """A session and the owner of the key to which it belongs; other keys may have a session of this name."""

    session: str
    owner: str


@dataclass(frozen=True, slots=True)
class Term:
    """A word of a query, with the numbers of the names that match it."""

    fields: tuple[str, ...]
    numbers: tuple[int, ...]
    calls: int
    """How many calls have had these names."""
    lookup: Any
    """The query for the numbers."""

    def condition(self, *, indexed: bool = False) -> ColumnElement[bool]:
        """Return the condition for a call. Unless `indexed` is true, no index is used for it."""
        if self.fields[0] in MARKS:
            mark = audit_call_marks.alias().c  # a query may join the table already
            if indexed:
                return audit_calls.c.position.in_(select(mark.position).where(self.any_of(mark.name)))
            return exists().where(mark.position == audit_calls.c.position, self.any_of(mark.name))
        columns = (audit_calls.c[each] for each in self.fields)
        return or_(*(self.any_of(column if indexed else column + 0) for column in columns))

    def any_of(self, column: Any) -> ColumnElement[bool]:
        """Return the condition that a column has one of the numbers."""
        if len(self.numbers) <= _MAX_NUMBERS:
            few: ColumnElement[bool] = column.in_(self.numbers)
            return few
        condition: ColumnElement[bool] = column.in_(self.lookup)
        return or_(condition, column == 0) if 0 in self.numbers else condition


class CallSearch:
    """Finds calls in an index. Every method may raise database errors."""

    def __init__(self, index: CallIndex) -> None:
        self._database = index.database

    def changes(self, since: int | None, limit: int) -> list[int]:
        """Return the positions of the latest changes to policy and keys, the newest first."""
        mark, name = audit_call_marks.c, audit_names.c
        number = select(name.number).where(name.field == CHANGE[0], name.name == CHANGE[1]).scalar_subquery()
        query = select(mark.position).where(mark.name == number)
        if since is not None:
            query = query.where(mark.at >= since)
        query = query.order_by(mark.at.desc(), mark.position.desc()).limit(limit)
        with self._database.reading.begin() as connection:
            return list(connection.execute(query).scalars())

    def known_times(self) -> tuple[int, int] | None:
        """Return when the first and the last call ended, in milliseconds since 1970; None without calls."""
        first, last = (select(each(audit_calls.c.at)).scalar_subquery() for each in (func.min, func.max))
        with self._database.reading.begin() as connection:
            found = connection.execute(select(first, last)).one()
        return None if found[0] is None else (found[0], found[1])

    def places(self, query: Query, limit: int, after: FoundPlace | None = None) -> list[FoundPlace]:
        """Return the first calls of a query, in its order, or those that follow one of them."""
        with self._database.reading.begin() as connection:
            terms = find_terms(connection, query)
            if terms is None:
                return []
            rows = _first_rows(connection, query, terms, limit, after)
            return [FoundPlace(row.position, row.amount) for row in rows]

    def sessions(
        self, query: Query, limit: int, after: FoundPlace | None = None
    ) -> tuple[dict[FoundSession, int], FoundPlace | None]:
        """Return the sessions of the latest calls of a query, each with the time of its latest one.

        With `after`, sessions with calls before that place are left out, as they are on an earlier page.
        Looks at a bounded number of calls. Also returns the place after which to go on; None at the end.
        """
        query = replace(query, sort="time", ascending=False)
        found: dict[tuple[int, int], int] = {}
        listed: set[tuple[int, int]] = set()
        place, looked = after, 0
        while looked < _MAX_LOOKED and len(found) < limit:
            places = self.places(query, _LOOK, place)
            rows = self._sessions_at(places)
            if after is not None:
                listed |= self._listed_before(query, {row[1:3] for row in rows} - listed - {*found}, after)
            for position, session, owner, at in rows:
                place = FoundPlace(position, at)
                if session and (session, owner) not in listed:
                    found.setdefault((session, owner), at)
                if len(found) == limit:
                    break
            if len(places) < _LOOK and len(found) < limit:
                return self._named_sessions(found), None
            looked += len(places)
        return self._named_sessions(found), place

    def _listed_before(
        self, query: Query, sessions: set[tuple[int, int]], after: FoundPlace
    ) -> set[tuple[int, int]]:
        """Return those of the sessions that have a call of the query at a place or before it."""
        call = audit_calls.c
        with self._database.reading.begin() as connection:
            conditions = [term.condition() for term in find_terms(connection, query) or ()]
            rows = connection.execute(
                select(call.session, call.owner)
                .where(
                    call.session.in_({session for session, _ in sessions}),
                    not_(_follows(query, after)),
                    *range_conditions(query),
                    *conditions,
                )
                .distinct()
            )
            return {(row.session, row.owner) for row in rows} & sessions

    def _sessions_at(self, places: Sequence[FoundPlace]) -> list[tuple[int, int, int, int]]:
        columns = (audit_calls.c[each] for each in ("position", "session", "owner", "at"))
        positions = [each.position for each in places]
        with self._database.reading.begin() as connection:
            rows = connection.execute(select(*columns).where(audit_calls.c.position.in_(positions)))
            by_position = {row.position: (row.position, row.session, row.owner, row.at) for row in rows}
        return [by_position[each] for each in positions if each in by_position]

    def _named_sessions(self, found: Mapping[tuple[int, int], int]) -> dict[FoundSession, int]:
        numbers = {number for pair in found for number in pair}
        query = select(audit_names.c.number, audit_names.c.name).where(audit_names.c.number.in_(numbers))
        with self._database.reading.begin() as connection:
            names = {0: "", **{row.number: row.name for row in connection.execute(query)}}
        return {FoundSession(names[session], names[owner]): at for (session, owner), at in found.items()}


def find_terms(connection: Connection, query: Query) -> list[Term] | None:
    """Return the words of a query with the numbers of their names, or None if no call can match."""
    terms: list[Term] = []
    for names in query.names.values():
        term = _term(connection, names)
        if not term.numbers:
            return None
        terms.append(term)
    return sorted(terms, key=lambda term: term.calls)


def _term(connection: Connection, names: Names) -> Term:
    name = audit_names.c.name
    either = [name.in_(names.whole)] if names.whole else []
    either += [func.lower(name).like(pattern, escape="\\") for pattern in names.patterns]
    fields = names.word.fields
    named = audit_names.c.field.in_(fields), or_(*either)
    rows = connection.execute(select(audit_names.c.number, audit_names.c.calls).where(*named)).all()
    numbers, calls = tuple(row.number for row in rows), sum(row.calls for row in rows)
    if "" in names.whole:  # the calls without a name, which nobody has counted
        numbers, calls = (*numbers, 0), _LARGEST
    return Term(fields, numbers, calls, select(audit_names.c.number).where(*named))


def range_conditions(query: Query) -> list[ColumnElement[bool]]:
    """Return the conditions of a query for times and amounts."""
    conditions: list[ColumnElement[bool]] = []
    if query.since is not None:
        conditions.append(audit_calls.c.at >= query.since)
    if query.until is not None:
        conditions.append(audit_calls.c.at < query.until)
    for name, amount in query.amounts.items():
        column = _AMOUNTS[name]
        if amount.low is not None:
            conditions.append(column > amount.low if amount.above else column >= amount.low)
        if amount.high is not None:
            conditions.append(column < amount.high if amount.below else column <= amount.high)
    return conditions


def _first_rows(
    connection: Connection, query: Query, terms: Sequence[Term], limit: int, after: FoundPlace | None
) -> list[Any]:
    amount, position = _AMOUNTS[query.sort].label("amount"), audit_calls.c.position
    conditions = range_conditions(query)
    if after is not None:
        conditions.append(_follows(query, after))
    by: tuple[Any, ...] = (amount.element, position)
    if terms and query.sort == "time" and _reads_names(terms[0]):
        return _merged(connection, query, terms, conditions, limit)
    if terms and terms[0].calls <= _MAX_SORTED:
        conditions.append(terms[0].condition(indexed=True))
        # The sum keeps a database from reading all calls in order instead.
        terms, by = terms[1:], (amount.element + 0, position)
    order = [column.asc() if query.ascending else column.desc() for column in by]
    conditions += [term.condition() for term in terms]
    found = select(position, amount).where(*conditions).order_by(*order).limit(limit)
    return list(connection.execute(found))


def _follows(query: Query, after: FoundPlace) -> ColumnElement[bool]:
    """Return the condition for calls after a place. The first part of it is one that an index can use."""
    amount, position = _AMOUNTS[query.sort], audit_calls.c.position
    if query.ascending:
        return and_(amount >= after.amount, or_(amount > after.amount, position > after.position))
    return and_(amount <= after.amount, or_(amount < after.amount, position < after.position))


def _reads_names(term: Term) -> bool:
    """Return whether to read the calls of each name of a term, instead of all calls in order of time."""
    return len(term.numbers) * len(term.fields) <= _MAX_NAMES


def _merged(
    connection: Connection,
    query: Query,
    terms: Sequence[Term],
    conditions: list[ColumnElement[bool]],
    limit: int,
) -> list[Any]:
    """Return the first calls in order of time: for each name of the rarest word, and then of all of these."""
    first, *others = terms
    conditions = [*conditions, *(term.condition() for term in others)]
    pages = []
    for each in first.fields:
        for number in first.numbers:
            found = _of_name(each, number).where(*conditions).limit(limit)
            columns = audit_call_marks.c if each in MARKS else audit_calls.c
            order = (columns.at, columns.position)
            found = found.order_by(*(c.asc() if query.ascending else c.desc() for c in order))
            pages.append(connection.execute(found).all())
    merged = heapq.merge(*pages, key=lambda row: (row.amount, row.position), reverse=not query.ascending)
    # A call whose key and owner have the same name is found by both.
    distinct = {row.position: row for row in islice(merged, limit * len(first.fields))}
    return list(distinct.values())[:limit]


def _of_name(field: str, number: int) -> Any:
    position, at = audit_calls.c.position, audit_calls.c.at.label("amount")
    if field not in MARKS:
        return select(position, at).where(audit_calls.c[field] == number)
    same = audit_call_marks.c.position == position
    return select(position, at).join(audit_call_marks, same).where(audit_call_marks.c.name == number)
