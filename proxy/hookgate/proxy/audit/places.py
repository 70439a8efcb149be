"""Where in the order of records a time is, without an index of times."""

from sqlalchemy import Connection, func, select

from hookgate.proxy.store.models import AuditRecord

_STRAY = 60_000
"""Milliseconds by which records may stand out of the order of their times: those that had to wait."""


def first_since(connection: Connection, at: int) -> int | None:
    """The first position behind all records that are older than that; None when all are.

    `at` is in milliseconds since 1970. Records a minute younger may stand before it.
    """
    lowest = connection.execute(select(func.min(AuditRecord.position))).scalar()
    highest = connection.execute(select(func.max(AuditRecord.position))).scalar()
    if lowest is None or highest is None:
        return None
    low, high = lowest, highest + 1
    while low < high:
        middle = (low + high) // 2
        query = (
            select(AuditRecord.position, AuditRecord.at)
            .where(AuditRecord.position >= middle)
            .order_by(AuditRecord.position)
            .limit(1)
        )
        row = connection.execute(query).first()
        if row is None or row.at >= at:
            high = middle
        else:
            low = row.position + 1
    return None if low > highest else low


def around(connection: Connection, at: int) -> int | None:
    """A position that no record of that time or later stands before; None when there is no such record."""
    return first_since(connection, at - _STRAY)
