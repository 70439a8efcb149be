"""Checks of a state folder and its databases report problems and change nothing."""

import os
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from support.gateway.databases import postgres

from hookgate.proxy.store import StoreError
from hookgate.proxy.store.checking import check_database, check_state_folder
from hookgate.proxy.store.database import FILE, open_database


def test_a_folder_that_exists_or_can_be_made_is_fine(tmp_path: Path) -> None:
    assert check_state_folder(tmp_path) == f"the state folder {tmp_path} is writable"
    assert "does not exist yet" in check_state_folder(tmp_path / "a" / "b")
    assert os.listdir(tmp_path) == []


def test_a_folder_that_cannot_be_written_is_a_problem() -> None:
    with pytest.raises(StoreError, match=r"the state folder /proc is not writable: .*; .* with --state"):
        check_state_folder(Path("/proc"))


def test_a_database_tells_the_version_of_its_tables(tmp_path: Path) -> None:
    path = tmp_path / FILE
    assert check_database(None, path).endswith("does not exist yet; the gateway creates it")
    open_database(None, tmp_path).close()
    assert "can be opened and has tables of version " in check_database(None, path)
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'future'")
        connection.commit()
    with pytest.raises(
        StoreError, match="tables of version future, which a newer version of hookgate created"
    ):
        check_database(None, path)


def test_an_older_database_is_upgraded_by_the_gateway_and_not_here(tmp_path: Path) -> None:
    path = tmp_path / "a b" / FILE
    open_database(None, path.parent).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '0001'")
        connection.commit()
    told = check_database(None, path)
    assert "has tables of version 0001, which the gateway upgrades to " in told
    assert check_database(None, path) == told


def test_a_file_that_is_not_a_database_is_a_problem(tmp_path: Path) -> None:
    (tmp_path / FILE).write_text("no database, but a text of some length")
    with pytest.raises(StoreError, match=f"the database {tmp_path}/{FILE} cannot be opened: file is not a"):
        check_database(None, tmp_path / FILE)


def test_a_server_is_asked_as_well(tmp_path: Path) -> None:
    with postgres(bare=True) as url:
        assert check_database(url, tmp_path).endswith("has no tables yet; the gateway creates them")
        open_database(url, tmp_path).close()
        assert "can be opened and has tables of version " in check_database(url, tmp_path)


def test_a_server_that_does_not_answer_is_a_problem_without_its_password(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="cannot be opened") as caught:
        check_database("postgresql+psycopg://gate:canary@127.0.0.1:1/limits", tmp_path)
    assert "canary" not in str(caught.value)
