"""Opening the store: its place, its permissions, and the errors if it cannot be opened."""

import logging
import sqlite3
import stat
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from alembic.autogenerate import compare_metadata
from alembic.command import upgrade
from alembic.config import Config
from alembic.migration import MigrationContext
from pydantic import ValidationError
from sqlalchemy import Connection, Engine, MetaData, Table, create_engine, inspect
from support.gateway.databases import postgres

from hookgate.proxy.config import StoreSettings
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.store import database as database_module
from hookgate.proxy.store.checking import check_database
from hookgate.proxy.store.database import FILE, STEPS, Database, open_database, run_migrations
from hookgate.proxy.store.models import INDEX_TABLES, NEWEST, metadata

CANARY = "canary-4c1d"
URL = f"postgresql+psycopg://gate:{CANARY}@127.0.0.1:1/limits"


def test_a_file_is_created_for_its_owner_only(tmp_path: Path) -> None:
    database = open_database(None, tmp_path / "a" / "state")
    with database.engine.begin() as connection:
        assert connection.exec_driver_sql("PRAGMA journal_mode").scalar() == "wal"
        assert connection.exec_driver_sql("PRAGMA foreign_keys").scalar() == 1
        files = {path.name: stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "a/state").iterdir()}
    database.close()
    assert files == {"hookgate.db": 0o600, "hookgate.db-wal": 0o600, "hookgate.db-shm": 0o600}
    assert stat.S_IMODE((tmp_path / "a" / "state").stat().st_mode) == 0o700


def test_a_new_file_has_what_the_steps_make(tmp_path: Path) -> None:
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as made:
        engine = create_engine("sqlite://", creator=lambda: made)
        with engine.begin() as connection:
            run_migrations(connection)
        open_database(None, tmp_path).close()
        with closing(sqlite3.connect(tmp_path / "hookgate.db")) as opened:
            tables = "SELECT type, name, tbl_name, trim(sql) FROM sqlite_master ORDER BY type, name"
            for query in (tables, "SELECT version_num FROM alembic_version"):
                rows = [str(database.execute(query).fetchall()) for database in (opened, made)]
                # SQLite quotes the name of a table that was made again.
                assert rows[0].replace('"', "") == rows[1].replace('"', "")


def test_a_new_server_has_the_tables_of_the_models(tmp_path: Path) -> None:
    with postgres(bare=True) as server:
        database = open_database(server, tmp_path)
        with database.engine.begin() as connection:
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []
        database.close()


def test_the_tables_of_an_older_version_are_upgraded_and_keep_their_rows(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "hookgate.db", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE alembic_version (version_num VARCHAR(32) NOT NULL)")
        connection.execute("INSERT INTO alembic_version VALUES ('0001')")
        connection.execute("CREATE TABLE counters (key TEXT NOT NULL, total DOUBLE, expires BIGINT)")
        connection.execute("INSERT INTO counters VALUES ('a', 2.5, 9)")
    database = open_database(None, tmp_path)
    with database.engine.begin() as opened:
        assert opened.exec_driver_sql("SELECT * FROM counters").all() == [("a", 2.5, 9)]
        assert opened.exec_driver_sql("SELECT * FROM accepted_keys").all() == []
        assert opened.exec_driver_sql("SELECT * FROM alembic_version").all() == [(NEWEST,)]
    database.close()


def test_a_server_with_tables_of_version_4_is_upgraded_and_keeps_the_rows_of_every_table(
    tmp_path: Path,
) -> None:
    later = {"policy_revisions", "pinned_tools", "interactions", "panel_sessions", "panel_keys"}
    later |= {"alerts", "alert_deliveries", "alert_silences", "alert_lease"}
    later |= {"exports", "export_positions", "export_refusals", "session_notes", "approvals"}
    later |= {table.name for table in INDEX_TABLES}
    with postgres(bare=True) as server, closing(open_database(server, tmp_path)) as database:
        with database.engine.begin() as connection:
            # What the later migrations have added goes, so these are the tables that version 4 had.
            for name in later:
                connection.exec_driver_sql(f"DROP TABLE {name}")
            connection.exec_driver_sql("UPDATE alembic_version SET version_num = '0004'")
            for table in metadata.sorted_tables:
                if table.name not in later:
                    connection.execute(table.insert().values(row_of(table)))
        with closing(open_database(server, tmp_path)) as upgraded, upgraded.engine.begin() as connection:
            for table in metadata.sorted_tables:
                expected = [] if table.name in later else [tuple(row_of(table).values())]
                assert connection.execute(table.select()).all() == expected
            assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == NEWEST
            assert compare_metadata(MigrationContext.configure(connection), metadata) == []


def row_of(table: Table) -> dict[str, Any]:
    """A row with a value in each column."""
    values: dict[type, Any] = {int: 7, float: 2.5, str: "a", bytes: b"b"}
    return {column.name: values[column.type.python_type] for column in table.columns}


VERSIONS = sorted(path.stem[-4:] for path in (STEPS / "versions").glob("*_0*.py"))


@pytest.fixture(params=["sqlite", "postgresql"])
def bare(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Engine]:
    """Each kind of database, without tables."""
    with postgres(bare=True) if request.param == "postgresql" else nullcontext() as url:
        engine = create_engine(url or f"sqlite:///{tmp_path / FILE}")
        yield engine
        engine.dispose()


@pytest.mark.parametrize(("before", "after"), list(pairwise(VERSIONS[3:])))
def test_a_gateway_of_the_previous_version_continues_with_upgraded_tables(
    bare: Engine, before: str, after: str
) -> None:
    """So an upgrade needs no interruption, and can be taken back without changing the tables again."""
    old = MetaData()
    with bare.begin() as connection:
        migrate(connection, before)
        old.reflect(connection)
        tables = [table for table in old.sorted_tables if table.name != "alembic_version"]
        for table in tables:
            connection.execute(table.insert().values(row_of(table)))
    with bare.begin() as connection:
        migrate(connection, after)
    with bare.begin() as connection:
        for table in reversed(tables):
            assert connection.execute(table.select()).all() == [tuple(row_of(table).values())]
            assert connection.execute(table.update().values(row_of(table))).rowcount == 1
            connection.execute(table.delete())
        for table in tables:
            connection.execute(table.insert().values(row_of(table)))


def alter(connection: Connection) -> None:
    """A migration of two tables that calls use in another order."""
    for table in ("audit_open", "audit_records"):
        connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN of_the_next_version TEXT")


def waits_for_a_table(connection: Connection) -> bool:
    query = "SELECT count(*) FROM pg_locks WHERE NOT granted AND relation IS NOT NULL"
    return bool(connection.exec_driver_sql(query).scalar())


def test_a_migration_gives_way_to_a_call_with_which_it_would_wait_for_ever(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with (
        postgres() as server,
        closing(open_database(server, tmp_path)) as database,
        ThreadPoolExecutor(1) as thread,
    ):
        monkeypatch.setattr(database_module, "update_tables", alter)
        with database.engine.connect() as looking, database.engine.begin() as call:
            records = metadata.tables["audit_records"]
            call.execute(records.insert().values(row_of(records)))
            opening = thread.submit(open_database, server, tmp_path)
            while not waits_for_a_table(looking):
                looking.rollback()
            call.exec_driver_sql("DELETE FROM audit_open")
        opening.result().close()
        with database.engine.begin() as connection:
            columns = inspect(connection).get_columns("audit_records")
        assert "of_the_next_version" in {column["name"] for column in columns}


def test_a_migration_that_cannot_have_a_table_says_who_may_use_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database_module, "_MIGRATING_SECONDS", 0)
    with postgres() as server, closing(open_database(server, tmp_path)) as database:
        monkeypatch.setattr(database_module, "update_tables", alter)
        with database.engine.begin() as backup:
            backup.exec_driver_sql("SELECT * FROM audit_records")
            with pytest.raises(StoreError, match="wait until a backup or another long transaction has ended"):
                open_database(server, tmp_path)


def migrate(connection: Connection, version: str) -> None:
    """Bring the tables to a version, as the gateway of that version did."""
    config = Config(attributes={"connection": connection})
    config.set_main_option("script_location", str(STEPS))
    config.set_main_option("path_separator", "os")
    upgrade(config, version)


def test_a_step_that_fails_leaves_nothing_behind(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "hookgate.db")) as connection:
        connection.execute("CREATE TABLE ix_counters_expires (other INTEGER)")
    with pytest.raises(StoreError, match="there is already a table named ix_counters_expires"):
        open_database(None, tmp_path)
    with closing(sqlite3.connect(tmp_path / "hookgate.db")) as connection:
        connection.execute("DROP TABLE ix_counters_expires")
        assert connection.execute("SELECT name FROM sqlite_master").fetchall() == []
    open_database(None, tmp_path).close()


def test_nothing_is_opened_before_someone_asks(tmp_path: Path) -> None:
    Store(StoreSettings(), tmp_path)
    assert list(tmp_path.iterdir()) == []


async def test_a_store_opens_one_database(tmp_path: Path) -> None:
    async with Store(StoreSettings(), tmp_path) as store:
        assert store.counters() is store.counters()


NEXT = f"{int(NEWEST) + 1:04}"


def as_the_next_version_leaves_it(database: Database) -> None:
    """Change tables as a migration may: every table gets a column that this version does not know."""
    with database.engine.begin() as connection:
        for table in metadata.tables:
            connection.exec_driver_sql(f"ALTER TABLE {table} ADD COLUMN of_the_next_version TEXT")
        connection.exec_driver_sql("CREATE TABLE of_the_next_version (id TEXT)")
        connection.exec_driver_sql(f"UPDATE alembic_version SET version_num = '{NEXT}'")  # noqa: S608  # our own number


@pytest.mark.parametrize("kind", ["sqlite", "postgresql"])
async def test_tables_one_version_newer_can_be_used_and_stay_as_they_are(kind: str, tmp_path: Path) -> None:
    with postgres() if kind == "postgresql" else nullcontext() as url:
        open_database(url, tmp_path).close()
        with closing(open_database(url, tmp_path)) as database:
            as_the_next_version_leaves_it(database)
        settings = StoreSettings(url=url)
        async with Store(settings, tmp_path) as store:
            assert await store.counters().add("calls", 2, datetime.now(UTC)) == 2
        assert f"tables of version {NEXT}, one newer than {NEWEST}" in check_database(url, tmp_path / FILE)
        with closing(open_database(url, tmp_path)) as database, database.engine.connect() as connection:
            assert connection.exec_driver_sql("SELECT version_num FROM alembic_version").scalar() == NEXT


def test_a_database_of_a_newer_hookgate_is_left_alone(tmp_path: Path) -> None:
    open_database(None, tmp_path).close()
    with closing(sqlite3.connect(tmp_path / "hookgate.db", isolation_level=None)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    with pytest.raises(
        StoreError,
        match=r"hookgate\.db cannot be opened: it was upgraded by a version of hookgate that is newer",
    ):
        open_database(None, tmp_path)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        pytest.param(
            lambda path: path.parent.write_text(""), "File exists; name another folder", id="no folder"
        ),
        pytest.param(
            lambda path: path.mkdir(parents=True), "Is a directory; name another folder", id="a folder"
        ),
        pytest.param(
            lambda path: (path.parent.mkdir(), path.write_text("no database " * 99)),
            "file is not a database; move that file away, or name another folder with --state",
            id="another file",
        ),
    ],
)
def test_a_file_that_cannot_be_opened_is_reported(
    make: Callable[[Path], object], expected: str, tmp_path: Path
) -> None:
    make(tmp_path / "state" / "hookgate.db")
    with pytest.raises(StoreError, match=rf"hookgate\.db cannot be opened: {expected}"):
        open_database(None, tmp_path / "state")


def test_a_server_that_does_not_answer_is_reported_without_its_password(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    with pytest.raises(StoreError) as raised:
        open_database(URL, tmp_path)
    assert str(raised.value).startswith(
        "the store postgresql+psycopg://gate:***@127.0.0.1:1/limits cannot be "
    )
    assert "Connection refused" in str(raised.value)
    settings = StoreSettings(url=URL)
    assert CANARY not in f"{raised.value!r} {settings!r} {settings} {caplog.text}"


def test_the_url_may_be_in_a_file(tmp_path: Path) -> None:
    file = tmp_path / "url"
    file.write_text(f"{URL}\n")
    assert Store(StoreSettings(url_file=file), tmp_path).url() == URL


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        pytest.param(None, "does not exist; write the secret into it, or check the path", id="none"),
        pytest.param(CANARY, r"must be postgresql\+psycopg://", id="no URL"),
        pytest.param(f"mysql://a:{CANARY}@h/db", r"must be postgresql\+psycopg://", id="another database"),
    ],
)
def test_a_file_without_a_url_is_reported_and_not_shown(
    content: str | None, expected: str, tmp_path: Path
) -> None:
    file = tmp_path / "url"
    if content:
        file.write_text(content)
    with pytest.raises(StoreError, match=rf"^store\.url_file: {file}: {expected}") as raised:
        Store(StoreSettings(url_file=file), tmp_path).url()
    assert CANARY not in str(raised.value)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(f"postgresql://u:{CANARY}/x@h/db", id="a slash in the password"),
        pytest.param(f"postgresql://h/db?user=u&password={CANARY}", id="the password elsewhere"),
        pytest.param(f"postgresql://u:{CANARY}@h", id="no database"),
        pytest.param("sqlite:///x.db", id="a file"),
    ],
)
def test_a_url_whose_password_could_not_be_masked_is_refused(url: str) -> None:
    with pytest.raises(ValidationError, match=r"must be postgresql\+psycopg://") as raised:
        StoreSettings(url=url)
    assert CANARY not in str(raised.value)


def test_two_places_for_one_url_are_one_too_many(tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match="both set; remove one"):
        StoreSettings(url=URL, url_file=tmp_path)


def test_an_invalid_port_is_reported_without_the_password(tmp_path: Path) -> None:
    with pytest.raises(
        StoreError, match="is not the URL of a PostgreSQL database; check host and port"
    ) as raised:
        open_database(f"postgresql://u:{CANARY}@h:port/db", tmp_path)
    assert CANARY not in str(raised.value)
