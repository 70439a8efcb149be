"""A plugin that makes the table of clients: which scenarios each client passes, and in which version.

Tests fill its cells with the fixture `cell`. After a run, build/clients.json has the cells of this run and
those of earlier ones, and build/clients.md is the table. A client of another version begins a new row.
"""

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from support.places import PROJECT

Json = dict[str, Any]

CELLS = PROJECT / "build" / "clients.json"
TABLE = CELLS.with_suffix(".md")
COLUMNS = {
    **dict.fromkeys(("plain", "U+2028", "pause of 20 s"), ""),
    "tool call": "tools",
    **dict.fromkeys(("denial", "late denial", "secret"), ""),
    "forbidden tool": "tools",
    "DELETE": "delete",
}
"""The scenarios in the table, and the trait of the clients that each is for; all, if empty."""
_OUTCOMES = {"passed": "pass", "failed": "**fail**", "skipped": "skipped"}


@pytest.fixture
def cell(record_property: Callable[[str, object], None]) -> Callable[[str, Any, str], None]:
    """A function that names the cell which the outcome of the test fills: a client, and a column or none."""

    def fill(name: str, client: Any, column: str) -> None:
        if column:
            absent = [each for each, trait in COLUMNS.items() if trait and trait not in client.traits]
            row = {"version": client.version, "denial": client.denial, "cells": dict.fromkeys(absent, "n/a")}
            record_property("cell", {"client": name, "column": column, "row": row})

    return fill


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Add the cells that this run filled to the table; reports bring them from pytest-xdist's workers."""
    filled = [*_filled(terminalreporter)]
    if filled:
        rows = json.loads(CELLS.read_text()) if CELLS.exists() else {}
        for each, outcome in filled:
            fill_cell(rows, each, outcome)
        CELLS.parent.mkdir(exist_ok=True)
        CELLS.write_text(json.dumps(rows, indent=1))
        TABLE.write_text(table(rows))
        terminalreporter.write_line(f"the table of clients: {TABLE.relative_to(PROJECT)}")


def table(rows: Json) -> str:
    """The table in Markdown."""
    lines = [["client", "version", *COLUMNS, "a denied call ends with"], ["---"] * (len(COLUMNS) + 3)]
    for name, row in sorted(rows.items()):
        cells = [row["cells"].get(column, "not run") for column in COLUMNS]
        lines.append([name, row["version"] or "not installed", *cells, f"`{row['denial']}`"])
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


def _filled(reporter: pytest.TerminalReporter) -> Iterator[tuple[Json, str]]:
    """The cells of this run with their outcomes. A failure after a test has passed comes after that."""
    for category in ("passed", "skipped", "failed", "error"):
        for report in reporter.stats.get(category, []):
            for name, value in getattr(report, "user_properties", ()):  # reports of a collection have none
                if name == "cell":
                    yield value, _OUTCOMES[report.outcome]


def fill_cell(rows: Json, filled: Json, outcome: str) -> None:
    """Fill a cell. A client that is not installed loses none of what an earlier run has found."""
    name, new = filled["client"], filled["row"]
    if name not in rows or new["version"] not in ("", rows[name]["version"]):
        rows[name] = new
    cells = rows[name]["cells"]
    if outcome != "skipped" or filled["column"] not in cells:
        cells[filled["column"]] = outcome
