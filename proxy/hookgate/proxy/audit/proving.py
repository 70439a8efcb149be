"""Verification of stored records: a whole database, or an exported file."""

from collections.abc import Callable, Iterable

from sqlalchemy import Connection, func, select

from hookgate.proxy.audit.chain import entry_columns
from hookgate.proxy.audit.heads import Head, parse_heads
from hookgate.proxy.audit.stored import StoredRecord, registrations, walk_records
from hookgate.proxy.audit.verifying import Checker, VerificationReport, document_of
from hookgate.proxy.store.database import Database
from hookgate.proxy.store.models import audit_records
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

Progress = Callable[[int], None]
"""Called with the number of records, or bytes of a file, that were checked since the last call."""


def verify_database(
    database: Database, progress: Progress, expected: Iterable[tuple[str, Head]] = ()
) -> VerificationReport:
    """Verify all chains in a database, even while gateways write.

    `expected` are the writers' heads that were saved outside of the database. Raises database errors if it
    cannot be read.
    """
    checker, columns = Checker(whole=True, expected=expected), _Columns()
    for page in walk_records(database):
        for stored in page:
            record = stored.record
            if stored.damaged:
                checker.unreadable(record.writer, record.seq, stored.hash, stored.damaged)
                continue
            checker.record(record.document(), stored.hash, stored.content)
            if not columns.fit(stored):
                checker.report.add_problem(
                    f"writer {record.writer}, record {record.seq}: its columns differ from its body"
                )
        progress(len(page))
    with database.engine.begin() as connection:
        registered = registrations(connection)
        if damage := _damage(connection, database):
            checker.report.add_problem(damage)
    ended = {number: how for number, _, _, how in registered}
    return checker.finish([(document, own) for _, document, own, _ in registered], ended)


def count_records(database: Database) -> int:
    """Return the approximate number of records."""
    with database.engine.begin() as connection:
        bounds = connection.execute(
            select(func.min(audit_records.c.position), func.max(audit_records.c.position))
        )
        first, last = bounds.one()
    return last - first + 1 if first is not None else 0


def verify_lines(
    lines: Iterable[bytes], progress: Progress, expected: Iterable[tuple[str, Head]] = ()
) -> VerificationReport:
    """Verify the chains in an exported file, which may contain only parts of them."""
    checker = Checker(whole=False, expected=expected)
    registered: dict[str, tuple[JsonObject, str]] = {}
    for number, line in enumerate(lines, 1):
        try:
            document = loads(line)
            _feed(checker, registered, document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            checker.report.add_problem(f"line {number}: it is not a record: {_describe_error(error)}")
        progress(len(line))
    by_number = sorted(registered.values(), key=lambda pair: int(pair[0].get("number", 0)))
    return checker.finish(by_number, {})


def _describe_error(error: Exception) -> str:
    match error:
        case KeyError():
            return f"it has no {error}"
        case ValueError():
            return str(error)
        case _:
            return "one of its fields has the wrong type"


def _feed(checker: Checker, registered: dict[str, tuple[JsonObject, str]], line: JsonObject) -> None:
    if line["type"] == "heads":
        checker.heads(parse_heads(line))
    elif line["type"] == "writer":
        registered[line["writer"]] = document_of(line), line["hash"]
    else:
        checker.record(document_of(line), line["hash"], line.get("content"))


def _damage(connection: Connection, database: Database) -> str:
    """Return the damage that SQLite finds in its file, such as an incomplete index, or an empty string."""
    if not database.is_file:
        return ""
    result = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    return "" if result == "ok" else f"the file is damaged: {result}"


class _Columns:
    """Checks the columns of records, which are not hashed and must agree with the records' bodies."""

    def __init__(self) -> None:
        self._open: dict[str, JsonObject] = {}

    def fit(self, stored: StoredRecord) -> bool:
        """Return True if the columns agree; for an end without its start only the outcome is compared."""
        record, columns = stored.record, stored.columns
        if record.type == "start":
            self._open[record.id] = record.body
        outcome = record.body.get("outcome")
        if record.type == "start" or not outcome:
            return columns is None
        start = record.body if record.type == "event" else self._open.pop(record.id, None)
        if start is None:
            return columns is not None and columns.outcome == outcome
        return columns == entry_columns({**start, **record.body}, str(outcome))
