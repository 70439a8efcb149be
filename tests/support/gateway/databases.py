"""Databases for the store: a PostgreSQL database for each test, on a server of this machine."""

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
import pytest

SERVER = "postgresql://postgres@127.0.0.1:5432"


@contextmanager
def postgres() -> Iterator[str]:
    """The URL of an empty database, which is dropped afterwards. Skips the test where no server answers."""
    name = f"hookgate_test_{uuid.uuid4().hex}"
    try:
        execute(f"CREATE DATABASE {name}")
    except psycopg.OperationalError as error:
        pytest.skip(f"no PostgreSQL at {SERVER}: {error}")
    try:
        yield f"{SERVER.replace('://', '+psycopg://')}/{name}"
    finally:
        drop(name)


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
