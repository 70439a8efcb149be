"""The table of clients in docs/tested-clients.md, and how the tests of the matrix make it."""

import pytest
from generators.clients_table import replace_table
from support.clients.matrix import MATRIX
from support.clients.table import COLUMNS, fill_cell, table
from support.places import DOCS

PAGE = (DOCS / "tested-clients.md").read_text(encoding="utf-8")


def test_each_client_of_the_matrix_has_passed() -> None:
    section = PAGE.partition("made by: make clients -->")[2].partition("<!--")[0]
    header, _, *rows = [line.strip("| ").split(" | ") for line in section.splitlines() if line]
    assert header[2:-1] == [*COLUMNS]
    assert [row[0] for row in rows] == sorted(MATRIX)
    assert {cell for row in rows for cell in row[2:-1]} == {"pass", "n/a"}


def test_each_column_is_described() -> None:
    assert [column for column in COLUMNS if f"\n| {column} | " not in PAGE] == []


def filled(*cells: tuple[str, str, str]) -> list[str]:
    """The cells of the table's last row, after runs in which these versions had these outcomes."""
    rows = {}
    for version, column, outcome in cells:
        fill_cell(rows, {"client": "js", "column": column, "row": new_row(version)}, outcome)
    return table(rows).splitlines()[-1].strip("| ").split(" | ")


def new_row(version: str) -> dict[str, object]:
    return {"version": version, "denial": "Error", "cells": {"DELETE": "n/a"}}


FIRST = ("sdk 1", "plain", "pass")


@pytest.mark.parametrize(
    ("later", "version", "plain", "secret"),
    [
        pytest.param(("sdk 1", "secret", "**fail**"), "sdk 1", "pass", "**fail**", id="another cell"),
        pytest.param(("sdk 1", "plain", "**fail**"), "sdk 1", "**fail**", "not run", id="the same cell"),
        pytest.param(("sdk 2", "secret", "pass"), "sdk 2", "not run", "pass", id="another version"),
        pytest.param(("", "plain", "skipped"), "sdk 1", "pass", "not run", id="no longer installed"),
    ],
)
def test_a_run_of_some_tests_leaves_the_cells_of_others(
    later: tuple[str, str, str], version: str, plain: str, secret: str
) -> None:
    row = dict(zip(["client", "version", *COLUMNS], filled(FIRST, later), strict=False))
    assert (row["version"], row["plain"], row["secret"], row["DELETE"]) == (version, plain, secret, "n/a")


def test_a_client_that_is_not_installed_is_listed() -> None:
    assert filled(("", "plain", "skipped"))[:3] == ["js", "not installed", "skipped"]


def test_only_the_table_of_the_page_is_replaced() -> None:
    begin, end = "<!-- The table is made by: make clients -->\n", "<!-- The end of the table -->\n"
    replaced = replace_table(f"Before.\n{begin}\n| old |\n\n{end}After.\n", "| new |\n")
    assert replaced == f"Before.\n{begin}\n| new |\n\n{end}After.\n"
