"""Checks the state folder and the databases, without changing them."""

import os
import tempfile
from pathlib import Path
from urllib.parse import quote

from alembic.runtime.migration import MigrationContext
from alembic.script import ScriptDirectory
from alembic.util import CommandError
from sqlalchemy import URL, Engine, create_engine, select

from hookgate.proxy.errors import StoreError
from hookgate.proxy.store.database import (
    FAILURES,
    STEPS,
    Database,
    is_next_version,
    reason,
    server_engine,
)
from hookgate.proxy.store.models import issued_keys

_BLOCK = bytes(4096)
"""The data to write as a check of a folder: a full disk still accepts empty files."""


def check_state_folder(state: Path) -> str:
    """Return a description of the state folder. Raises StoreError if the gateway cannot write there."""
    remedy = "change its owner or its mode, or name another folder with --state"
    if not state.exists():
        parent = next(folder for folder in state.absolute().parents if folder.exists())
        if not os.access(parent, os.W_OK | os.X_OK):
            raise StoreError(f"the state folder {state} cannot be created in {parent}; {remedy}")
        return f"the state folder {state} does not exist yet; the gateway creates it"
    try:
        with tempfile.TemporaryFile(dir=state) as file:
            file.write(_BLOCK)
            file.flush()
    except OSError as error:
        raise StoreError(f"the state folder {state} is not writable: {error.strerror}; {remedy}") from None
    return f"the state folder {state} is writable"


def check_database(url: str | None, path: Path) -> str:
    """Return a description of the database, with the version of its tables.

    Args:
        url: The URL of a PostgreSQL database, or None for a file.
        path: The file, which is used if there is no URL.

    Raises StoreError if it cannot be opened, or if a newer version of hookgate has upgraded it.
    """
    if url is None and not path.exists():
        return f"the database {path} does not exist yet; the gateway creates it"
    engine = _reading_engine(url, path)
    name = Database(engine).name if url else str(path)
    try:
        with engine.connect() as connection:
            version = MigrationContext.configure(connection).get_current_revision()
    except FAILURES as error:
        raise StoreError(f"the database {name} cannot be opened: {reason(error)}") from None
    finally:
        engine.dispose()
    return f"the database {name} {_describe_version(name, version)}"


def _reading_engine(url: str | None, path: Path) -> Engine:
    """Return an engine that changes nothing in a file, and does not create it."""
    if url:
        return server_engine(url)
    file = {"mode": "ro", "uri": "true"}
    return create_engine(URL.create("sqlite", database=f"file:{quote(str(path))}", query=file))


def issued_names(url: str | None, path: Path) -> set[tuple[str, str]] | None:
    """Return owners and teams of the issued keys that are not revoked, or None if they cannot be read.

    The database at the URL, or else the file, is not changed, and its tables are not upgraded.
    """
    engine = _reading_engine(url, path)
    query = select(issued_keys.c.owner, issued_keys.c.team).where(issued_keys.c.revoked.is_(None))
    try:
        with engine.connect() as connection:
            return {(row.owner, row.team) for row in connection.execute(query)}
    except FAILURES:
        return None
    finally:
        engine.dispose()


def _describe_version(name: str, version: str | None) -> str:
    steps = ScriptDirectory(str(STEPS))
    newest = steps.get_current_head()
    if version is None:
        return "has no tables yet; the gateway creates them"
    if version == newest:
        return f"can be opened and has tables of version {version}"
    if is_next_version(version):
        return f"can be opened and has tables of version {version}, one newer than {newest} of this version"
    try:
        steps.get_revision(version)
    except CommandError:
        problem = (
            f"has tables of version {version}, which a newer version of hookgate created; run that version"
        )
        raise StoreError(f"the database {name} {problem}") from None
    return f"can be opened and has tables of version {version}, which the gateway upgrades to {newest}"
