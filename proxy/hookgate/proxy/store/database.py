"""Opening of the database, a file or PostgreSQL, and creation or migration of its tables."""

import contextlib
import errno
import fcntl
import logging
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    Engine,
    MetaData,
    PrimaryKeyConstraint,
    String,
    Table,
    create_engine,
    event,
    insert,
    inspect,
    make_url,
    select,
    text,
)
from sqlalchemy.dialects import sqlite
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.schema import CreateIndex, CreateTable

from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.models import NEWEST, metadata

log = logging.getLogger("hookgate.store")

STEPS = Path(__file__).parent / "migrations"
"""The folder of the migrations."""

_VERSION = Table(
    "alembic_version",
    MetaData(),
    Column("version_num", String(32), nullable=False),
    PrimaryKeyConstraint("version_num", name="alembic_version_pkc"),
)
"""The table in which alembic keeps the version of all others, as alembic creates it."""


class MigrationError(Exception):
    """Raised for a database whose tables this version does not know, or cannot upgrade."""


def update_tables(connection: Connection) -> None:
    """Create or upgrade the tables, in the connection's transaction. Raises the errors of a statement.

    A new file, and tables that are up to date, need no migration, and alembic takes long to import.
    """
    has_tables = inspect(connection).has_table(_VERSION.name)
    if has_tables and is_next_version(version := connection.execute(select(_VERSION.c.version_num)).scalar()):
        log.warning("the tables have version %s, one newer than this version of hookgate creates", version)
        return
    if not has_tables and connection.dialect.name == "sqlite":
        for statement in _creation():
            connection.exec_driver_sql(statement)
        connection.execute(insert(_VERSION), {"version_num": NEWEST})
    elif not has_tables or connection.execute(select(_VERSION.c.version_num)).scalars().all() != [NEWEST]:
        run_migrations(connection)


@cache
def _creation() -> tuple[str, ...]:
    """Return the statements that create all tables of a file. A gateway has several files."""
    dialect = sqlite.dialect()
    tables = [*metadata.sorted_tables, _VERSION]
    indexes = [index for table in tables for index in table.indexes]
    return (
        *(str(CreateTable(table).compile(dialect=dialect)) for table in tables),
        *(str(CreateIndex(index).compile(dialect=dialect)) for index in indexes),
    )


def is_next_version(version: str | None) -> bool:
    """Return whether tables are one version newer than this version creates.

    A migration only adds to tables, or removes what the version before it no longer used. So gateways of two
    successive versions can serve together, and an upgrade can be taken back.
    """
    return version is not None and version.isdigit() and int(version) == int(NEWEST) + 1


def run_migrations(connection: Connection) -> None:
    """Run the missing migrations in the connection's transaction. Raises the errors of a migration."""
    from alembic import command  # noqa: PLC0415  # see `update_tables`
    from alembic.config import Config  # noqa: PLC0415  # see `update_tables`
    from alembic.util import CommandError  # noqa: PLC0415  # see `update_tables`

    config = Config()
    config.set_main_option("script_location", str(STEPS).replace("%", "%%"))
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    try:
        command.upgrade(config, "head")
    except CommandError:
        raise MigrationError(
            "it was upgraded by a version of hookgate that is newer by more than one version of the tables; "
            "run that version, or the one before it"
        ) from None


FILE = "hookgate.db"
AUDIT_FILE = "audit.db"
"""The audit has its own file: its writes, which calls wait for, would delay those of limits."""

INDEX_FILE = "audit-index.db"
"""The index of the audit's calls has its own file: writing it delays no record, and it can be removed."""

EXPORTS_FILE = "exports.db"
"""The positions of exports have their own file: writing them delays no record."""

SESSIONS_FILE = "sessions.db"
"""Sessions have their own file: it may contain content of calls, and can be deleted without losing counts."""

KEYS_FILE = "keys.db"
"""Issued keys have their own file: revocations must be on disk at once, and must outlive the counts."""

PANEL_FILE = "panel.db"
"""Sessions of the panel have their own file: to remove it ends all of them, and loses nothing else."""

ALERTS_FILE = "alerts.db"
"""Alerts have their own file: a change of state must be on disk before anybody is told of it."""

APPROVALS_FILE = "approvals.db"
"""Approvals have their own file: a decision must be on disk at once, and arguments of calls are content."""

POLICY_FILE = "policy.db"
"""The pushed policy has its own file: a push must be on disk at once, and must outlive the counts."""

_BUSY_SECONDS = 5
"""How long to wait for another process that writes to a file, and for a server to answer."""

_THREADS = 4
"""The number of threads that use a server at once, for each purpose."""

_MIGRATING = 0x686F6F6B67617465
"""The key of the lock under which gateways migrate a server's tables: `hookgate` in ASCII."""


_LOCK_MILLISECONDS = 500
"""How long a migration waits for a table of a server that calls are using.

It is less than PostgreSQL's `deadlock_timeout` of a second: in a deadlock with the transaction of a call, the
migration gives way, and is tried again.
"""

_MIGRATING_SECONDS = 30.0
"""How long a migration is tried again."""

_IN_USE = ("55P03", "40P01")
"""The SQLSTATEs of a lock that was not granted in time, and of a deadlock."""

_TABLES_IN_USE = (
    "its tables were in use for too long to upgrade them; wait until a backup or another long transaction "
    "has ended, and start again"
)
_NO_DATABASE = "move that file away, or name another folder with --state"

FAILURES = (SQLAlchemyError, sqlite3.Error)
"""The errors of a database. SQLAlchemy does not wrap those that are raised during setup."""


ANSWER_SECONDS = float(_BUSY_SECONDS)
"""How long a call waits for the database. A statement that takes longer may still be executed."""


class Database:
    """An open database. `name` identifies it, without its password."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.name = engine.url.render_as_string(hide_password=True)

    @property
    def is_file(self) -> bool:
        """True for SQLite, which allows one writer at a time."""
        return self.engine.dialect.name == "sqlite"

    @property
    def threads(self) -> int:
        """The number of threads that use it at once: one for a file, which allows one writer at a time."""
        return 1 if self.is_file else _THREADS

    @property
    def reading(self) -> Engine:
        """The engine for transactions that only read: they do not lock a file.

        For a server, each statement is a transaction of its own, and takes one round trip.
        """
        options = {"begin_statement": "BEGIN"} if self.is_file else {"isolation_level": "AUTOCOMMIT"}
        return self.engine.execution_options(**options)

    @property
    def writing(self) -> Engine:
        """The engine for transactions that write: they lock a file when they begin."""
        return self.engine.execution_options(begin_statement="BEGIN IMMEDIATE")

    def insert(self, table: Table) -> Any:
        """Return an INSERT in the dialect of the database, which can have a clause ON CONFLICT."""
        if self.is_file:
            return sqlite.insert(table)
        from sqlalchemy.dialects import postgresql  # noqa: PLC0415  # only a server needs it

        return postgresql.insert(table)

    def wipe_log(self) -> None:
        """Empty a file's write-ahead log, which contains pages as they were before rows were removed.

        Where other processes read, the log is overwritten later.
        """
        if self.is_file:
            connection = self.engine.raw_connection()
            try:
                connection.cursor().execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
            finally:
                connection.close()

    def close(self) -> None:
        """Close its connections."""
        self.engine.dispose()


def open_database(url: str | None, state: Path) -> Database:
    """Open the database at the URL, or else a file in the state folder. Raises StoreError if that fails."""
    return _open_at(url, state, FILE, _set_up, "BEGIN")


def open_audit(url: str | None, state: Path, *, writes: bool) -> Database:
    """Open the audit's database: at the same URL, else in its own file. Raises StoreError.

    If `writes` is true, transactions are on disk when they end, and lock a file when they begin.
    """
    return _open_at(url, state, AUDIT_FILE, _set_up_audit, "BEGIN IMMEDIATE" if writes else "BEGIN")


def open_audit_index(url: str | None, state: Path) -> Database:
    """Open the database of the audit's index: at the same URL, else in its own file. Raises StoreError."""
    return _open_at(url, state, INDEX_FILE, _set_up, "BEGIN IMMEDIATE")


def open_exports(url: str | None, state: Path) -> Database:
    """Open the database of exports: at the same URL, else in its own file. Raises StoreError."""
    return _open_at(url, state, EXPORTS_FILE, _set_up, "BEGIN IMMEDIATE")


def open_sessions(url: str | None, state: Path) -> Database:
    """Open the database of sessions: at the same URL, else in its own file. Raises StoreError."""
    return _open_at(url, state, SESSIONS_FILE, _set_up, "BEGIN IMMEDIATE")


def open_keys(url: str | None, state: Path) -> Database:
    """Open the database of issued keys: at the same URL, else in its own file. Raises StoreError."""
    return _open_at(url, state, KEYS_FILE, _set_up_durable, "BEGIN IMMEDIATE")


def open_policies(url: str | None, state: Path) -> Database:
    """Open the database of the pushed policy: at the same URL, else in its own file. Raises StoreError."""
    return _open_at(url, state, POLICY_FILE, _set_up_durable, "BEGIN IMMEDIATE")


def open_alerts(url: str | None, state: Path) -> Database:
    """Open the database of alerts: at the same URL, else in its own file. Raises StoreError."""
    return _open_at(url, state, ALERTS_FILE, _set_up_durable, "BEGIN IMMEDIATE")


def open_approvals(url: str | None, state: Path) -> Database:
    """Open the database of approvals: at the same URL, else in its own file. Raises StoreError."""
    return _open_at(url, state, APPROVALS_FILE, _set_up_durable, "BEGIN IMMEDIATE")


def open_panel_sessions(url: str | None, state: Path) -> Database:
    """Open the database of the panel's sessions: at the same URL, else in its own file. Raises StoreError."""
    return _open_at(url, state, PANEL_FILE, _set_up_durable, "BEGIN IMMEDIATE")


def _open_at(
    url: str | None, state: Path, file: str, set_up: Callable[[Any, Any], None], begin: str
) -> Database:
    """Open the database at the URL, or else a file in the state folder, whose transactions begin so."""
    return _opened(server_engine(url) if url else _file(state / file, set_up, begin), state)


def _opened(engine: Engine, state: Path) -> Database:
    database = Database(engine)
    try:
        _bring_up_to_date(engine, state)
    except (*FAILURES, MigrationError, OSError) as error:
        database.close()
        problem = f"the store {database.name} cannot be opened: {reason(error)}"
        raise StoreError(f"{problem}; {_NO_DATABASE}" if _is_unusable(error) else problem) from None
    return database


def _bring_up_to_date(engine: Engine, state: Path) -> None:
    """Create or upgrade the tables, again and again while calls use them in an order that does not allow it.

    Raises FAILURES, MigrationError and OSError.
    """
    until = time.monotonic() + _MIGRATING_SECONDS
    while True:
        try:
            with _alone(engine, state) as connection:
                update_tables(connection)
            return
        except DBAPIError as error:
            if getattr(error.orig, "sqlstate", None) not in _IN_USE:
                raise
            if time.monotonic() > until:
                raise MigrationError(_TABLES_IN_USE) from None
            log.info("the tables are in use; their upgrade is tried again")
            time.sleep(_LOCK_MILLISECONDS / 1000)  # for the calls that have waited


def _is_unusable(error: Exception) -> bool:
    """Return True if a file is not an SQLite database, is damaged, or cannot be opened."""
    code = getattr(getattr(error, "orig", None) or error, "sqlite_errorcode", None)
    return code in (sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_CANTOPEN)


def reason(error: Exception) -> str:
    """Return a database's error message in one line, without statement and values."""
    lines = str(getattr(error, "orig", None) or error).strip().splitlines()
    return lines[0] if lines else type(error).__name__


def server_engine(url: str) -> Engine:
    """Return an engine for a PostgreSQL server, without connecting. Raises StoreError for an invalid URL."""
    try:
        parsed = make_url(url).set(drivername="postgresql+psycopg")
    except (ArgumentError, ValueError):
        raise StoreError("store.url: is not the URL of a PostgreSQL database; check host and port") from None
    limits = {"connect_timeout": _BUSY_SECONDS, "tcp_user_timeout": _BUSY_SECONDS * 1000}
    # While the gateway waits for an answer, it would otherwise take hours to notice that the server is gone.
    limits |= {"keepalives_idle": _BUSY_SECONDS, "keepalives_interval": 2, "keepalives_count": 2}
    # Connections are checked before use: the server may have been restarted.
    return create_engine(parsed, connect_args=limits, pool_pre_ping=True)


def _file(path: Path, set_up: Callable[[Any, Any], None], begin: str) -> Engine:
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        _make(path)
    except OSError as error:
        remedy = "name another folder with --state"
        raise StoreError(f"the store {path} cannot be opened: {error.strerror}; {remedy}") from None
    engine = create_engine(URL.create("sqlite", database=str(path)), connect_args={"timeout": _BUSY_SECONDS})
    event.listen(engine, "connect", set_up)

    def begin_transaction(connection: Connection) -> None:
        statement = connection.get_execution_options().get("begin_statement", begin)
        connection.exec_driver_sql(statement)

    event.listen(engine, "begin", begin_transaction)
    return engine


def _make(path: Path) -> None:
    """Create the file, with a private mode that SQLite also uses for its other files.

    Never open an existing file here: by POSIX rules, closing it would release all of this process's locks on
    it. Another process would then consider it unused, and remove its log.
    """
    if path.is_dir():
        raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))


def _set_up(connection: Any, _: Any) -> None:
    # Python's sqlite3 would begin transactions implicitly, and commit them before each change of a table.
    connection.isolation_level = None
    connection.execute("PRAGMA foreign_keys = ON")
    # After a power failure the last writes may be lost, but the file is consistent.
    connection.execute("PRAGMA synchronous = NORMAL")


def _set_up_audit(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = FULL")
    # So the space of removed records can be returned to the disk. Has no effect once there are tables.
    connection.execute("PRAGMA auto_vacuum = INCREMENTAL")


def _set_up_durable(connection: Any, _: Any) -> None:
    connection.isolation_level = None
    connection.execute("PRAGMA synchronous = FULL")


@contextmanager
def _alone(engine: Engine, state: Path) -> Iterator[Connection]:
    """Open a transaction that excludes all other gateways. Raises FAILURES."""
    if engine.dialect.name != "sqlite":
        with engine.begin() as connection:
            connection.execute(text("SELECT pg_advisory_xact_lock(:number)"), {"number": _MIGRATING})
            connection.execute(text(f"SET LOCAL lock_timeout = {_LOCK_MILLISECONDS}"))
            yield connection
        return
    folder = os.open(state, os.O_RDONLY)
    try:
        fcntl.flock(folder, fcntl.LOCK_EX)
        with engine.connect() as connection:
            # Exclusive and outside of transactions: otherwise SQLite may refuse it, whatever the timeout.
            connection.connection.execute("PRAGMA journal_mode = WAL")
            with connection.begin():
                yield connection
    finally:
        os.close(folder)
