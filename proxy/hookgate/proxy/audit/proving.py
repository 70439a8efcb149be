"""Verifying what is stored: a database with all that stands in it, or a file that was exported."""

from collections.abc import Callable, Iterable

from sqlalchemy import Connection, func, select

from hookgate.proxy.audit.entries import columns_of
from hookgate.proxy.audit.heads import Head, parse_heads
from hookgate.proxy.audit.report import Report
from hookgate.proxy.audit.stored import Stored, registrations, walk
from hookgate.proxy.audit.verifying import Checker, document_of
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import AuditRecord
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

Progress = Callable[[int], None]
"""Is told how many more records were looked at."""


def verify_database(
    database: Database, progress: Progress, expected: Iterable[tuple[str, Head]] = ()
) -> Report:
    """Follow every chain, also while gateways write. Raises what a database raises.

    `expected` is how far writers had come, as it was noted outside of the database.
    """
    checker, columns = Checker(whole=True, expected=expected), _Columns()
    for page in walk(database):
        for stored in page:
            record = stored.record
            if stored.damaged:
                checker.unreadable(record.writer, record.seq, stored.hash, stored.damaged)
                continue
            checker.record(record.document(), stored.hash, stored.content)
            if not columns.fit(stored):
                checker.report.tell(
                    f"writer {record.writer}, record {record.seq}: its columns are not its own"
                )
        progress(len(page))
    with database.engine.begin() as connection:
        registered = registrations(connection)
        if damage := _damage(connection, database):
            checker.report.tell(damage)
    ended = {number: how for number, _, _, how in registered}
    return checker.finish([(document, own) for _, document, own, _ in registered], ended)


def count_records(database: Database) -> int:
    """About how many records there are."""
    with database.engine.begin() as connection:
        bounds = connection.execute(select(func.min(AuditRecord.position), func.max(AuditRecord.position)))
        first, last = bounds.one()
    return last - first + 1 if first is not None else 0


def verify_lines(
    lines: Iterable[bytes], progress: Progress, expected: Iterable[tuple[str, Head]] = ()
) -> Report:
    """Follow the chains in an exported file, which may hold a part of them."""
    checker = Checker(whole=False, expected=expected)
    registered: dict[str, tuple[JsonObject, str]] = {}
    for number, line in enumerate(lines, 1):
        try:
            document = loads(line)
            _feed(checker, registered, document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            checker.report.tell(f"line {number}: it is no record: {_why(error)}")
        progress(len(line))
    by_number = sorted(registered.values(), key=lambda each: int(each[0].get("number", 0)))
    return checker.finish(by_number, {})


def _why(error: Exception) -> str:
    match error:
        case KeyError():
            return f"it has no {error}"
        case ValueError():
            return str(error)
        case _:
            return "a field of it holds something else"


def _feed(checker: Checker, registered: dict[str, tuple[JsonObject, str]], line: JsonObject) -> None:
    if line["type"] == "heads":
        checker.heads(parse_heads(line))
    elif line["type"] == "writer":
        registered[line["writer"]] = document_of(line), line["hash"]
    else:
        checker.record(document_of(line), line["hash"], line.get("content"))


def _damage(connection: Connection, database: Database) -> str:
    """What SQLite finds wrong with its file, such as an index that has not all rows."""
    if not database.is_file:
        return ""
    found = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    return "" if found == "ok" else f"the file is damaged: {found}"


class _Columns:
    """Columns beside a record are not hashed: they have to be what the records say."""

    def __init__(self) -> None:
        self._open: dict[str, JsonObject] = {}

    def fit(self, stored: Stored) -> bool:
        """Whether they are; of an end whose start is gone its outcome alone tells."""
        record, columns = stored.record, stored.columns
        if record.type == "start":
            self._open[record.id] = record.body
        outcome = record.body.get("outcome")
        if record.type == "start" or not outcome:
            return columns is None
        start = record.body if record.type == "event" else self._open.pop(record.id, None)
        if start is None:
            return columns is not None and columns.outcome == outcome
        return columns == columns_of(start, str(outcome))
