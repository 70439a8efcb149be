"""Databases for the store: an empty PostgreSQL database for each test, on a server of this machine.

The server takes a second to drop a database, so they are emptied and used again, and dropped at the end.
"""

import atexit
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

SERVER = "postgresql://postgres@127.0.0.1:5432"

_empty: list[str] = []
"""The databases of this process that are not in use."""


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database. Skips the test where no server answers."""
    try:
        name = _empty.pop() if _empty else _create()
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at {SERVER}: {error}")
    try:
        yield f"{SERVER.replace('://', '+psycopg://')}/{name}"
    finally:
        _clear(name)


def _create() -> str:
    name = f"hookgate_test_{uuid.uuid4().hex}"
    execute(f"CREATE DATABASE {name}")
    atexit.register(drop, name)
    return name


def _clear(name: str) -> None:
    """Empty a database although it is in use, unless the test has dropped it."""
    cut(name)
    try:
        with psycopg.connect(f"{SERVER}/{name}", autocommit=True, connect_timeout=2) as connection:
            connection.execute("DROP SCHEMA public CASCADE; CREATE SCHEMA public")
    except psycopg.OperationalError:
        return
    _empty.append(name)


def drop(name: str) -> None:
    """Drop a database although it is in use."""
    execute(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)")


def cut(name: str) -> None:
    """End all connections to a database, as a restart of the server does."""
    execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = %s", name)


def execute(statement: Any, *values: str) -> None:
    """Run a statement outside of the tests' databases."""
    with psycopg.connect(f"{SERVER}/postgres", autocommit=True, connect_timeout=2) as connection:
        connection.execute(statement, values)
