"""Databases for the store: an empty PostgreSQL database for each test, on a server of this machine.

The server takes a second to drop a database, and a gateway a quarter of a second to make its tables. So
databases are emptied and used again, with their tables, and dropped at the end.
"""

import atexit
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

from hookgate.proxy.store.models import NEWEST, metadata

SERVER = "postgresql://postgres@127.0.0.1:5432"

_bare: list[str] = []
_with_tables: list[str] = []
"""The databases of this process that are not in use, by whether they have the tables of this version."""

_COLUMNS = {(table.name, column.name) for table in metadata.sorted_tables for column in table.columns}


@contextmanager
def postgres(*, bare: bool = False) -> Iterator[str]:
    """The URL of a database without rows, and if it is `bare`, without tables.

    Skips the test where no server answers.
    """
    known = _bare if bare else _with_tables or _bare
    try:
        name = known.pop() if known else _create()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at {SERVER}: {error}")
    try:
        yield f"{SERVER.replace('://', '+psycopg://')}/{name}"
    finally:
        _clear(name, keep_tables=not bare)


def _create() -> str:
    name = f"hookgate_test_{uuid.uuid4().hex}"
    execute(f"CREATE DATABASE {name}")
    atexit.register(drop, name)
    return name


def _clear(name: str, *, keep_tables: bool) -> None:
    """Empty a database although it is in use, unless the test has dropped it."""
    cut(name)
    try:
        with psycopg.connect(f"{SERVER}/{name}", autocommit=True, connect_timeout=10) as connection:
            if keep_tables and _has_tables(connection):
                _empty(connection)
                _with_tables.append(name)
            else:
                connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
                _bare.append(name)
    except psycopg.OperationalError:
        return


def _empty(connection: psycopg.Connection) -> None:
    """Remove all rows and their space. To do so takes time for each table, and most have had no rows."""
    query = "SELECT relname FROM pg_class WHERE relnamespace = 'public'::regnamespace AND relkind = 'r'"
    query += " AND relname <> 'alembic_version' AND pg_relation_size(oid) > 0"
    used = [name for (name,) in connection.execute(query)]
    if used:
        connection.execute(f"TRUNCATE {', '.join(used)} RESTART IDENTITY CASCADE".encode())


def _has_tables(connection: psycopg.Connection) -> bool:
    """Whether it has the tables of this version, and nothing else: a test may have changed them."""
    query = "SELECT table_name, column_name FROM information_schema.columns WHERE table_schema = 'public'"
    found = set(connection.execute(query).fetchall()) - {("alembic_version", "version_num")}
    if found != _COLUMNS:
        return False
    return connection.execute("SELECT version_num FROM alembic_version").fetchall() == [(NEWEST,)]


def drop(name: str) -> None:
    """Drop a database although it is in use."""
    execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def cut(name: str) -> None:
    """End all connections to a database, as a restart of the server does."""
    execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name)


def execute(statement: Any, *values: str) -> None:
    """Run a statement outside of the tests' databases."""
    with psycopg.connect(f"{SERVER}/postgres", autocommit=True, connect_timeout=10) as connection:
        connection.execute(statement, values)
