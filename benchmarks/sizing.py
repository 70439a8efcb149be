"""Compares the sizing model of docs/scaling.md with a run.

python -m benchmarks.sizing postgresql+psycopg://USER:PASSWORD@HOST/DATABASE

A gateway with an audit and sessions in the database, and hooks in process, gets streamed calls of 122 KB at a
fixed rate. Nothing else may use the database. Its counts are read before and after the load.
"""

import argparse
import tempfile
import time
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import psycopg
from benchmarks.gateway.configurations import RUNTIME, gateway
from benchmarks.gateway.loads import AGENT_CALL, Kind, requests
from benchmarks.gateway.measuring import upstream
from benchmarks.gateway.traffic import generator
from benchmarks.gateway.traffic.upstream import PACE, PACED
from benchmarks.payloads import EVENTS

CALL, LIMIT, EVENT = 0.005, 0.0025, 0.0001
"""The model: seconds of processor time of a call with a hook in process, of a limit, and of an event."""

_STREAM_CALL = Kind("Streamed calls of 122 KB", PACED, AGENT_CALL.make_body)
_LIMIT = {"rules": [{"per": "key", "window": "minute", "requests": 10**6}]}
_STATISTICS_SECONDS = 3.0
"""Seconds after which connections that are idle have reported their statistics."""


@dataclass(frozen=True)
class Counts:
    """Counts of a database: transactions, rows of the audit, and the bytes of its table and indexes."""

    transactions: int
    rows: int
    size: int

    def __sub__(self, before: "Counts") -> "Counts":
        return Counts(
            self.transactions - before.transactions, self.rows - before.rows, self.size - before.size
        )


def counts(url: str) -> Counts:
    """Return the counts once all connections have reported theirs."""
    time.sleep(_STATISTICS_SECONDS)
    query = (
        "SELECT xact_commit, (SELECT count(*) FROM audit_records), pg_total_relation_size('audit_records') "
        "FROM pg_stat_database WHERE datname = current_database()"
    )
    with psycopg.connect(url.replace("+psycopg", "")) as connection:
        row = connection.execute(query).fetchone()
    assert row, "the database has statistics of its own"
    return Counts(*row)


def with_limit(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings with a limit before their other hooks."""
    limits = {"type": "builtin", "name": "limits", "builtin": "limits", "options": _LIMIT}
    hooks = settings["hooks"]
    return {"hooks": {**hooks, "BeforeModel": [{"hooks": [limits]}, *hooks["BeforeModel"]]}}


def run(kind: Kind, settings: dict[str, Any], url: str, rate: float, seconds: float) -> None:
    """Apply the load to a gateway, and print what the model predicts and what was measured."""
    events, limits = EVENTS if kind is _STREAM_CALL else 0, settings is not RUNTIME
    environment = {"HOOKGATE_STORE__URL": url}
    with (
        tempfile.TemporaryDirectory() as folder,
        upstream() as origin,
        gateway(settings, origin.url, Path(folder), environment) as server,
    ):
        load = partial(generator.open_loop, server.url, requests(kind))
        generator.run(partial(load, rate, 3))  # caches, and connections of pools
        before, processor, began = counts(url), server.cpu_seconds(), time.monotonic()
        times = generator.run(partial(load, rate, seconds))
        processor, took = server.cpu_seconds() - processor, time.monotonic() - began
        used = counts(url) - before
    calls = len(times)
    predicted_ms = (CALL + limits * LIMIT + events * EVENT) * 1e3
    rows = [
        ("ms of processor time for a call", predicted_ms, processor / calls * 1e3),
        ("calls in progress", rate * events * PACE, sum(times) / took),
        ("rows of the audit for a call", 2, used.rows / calls),
    ]
    print(f"{calls} calls in {took:.0f} s, each with {events} events:")
    for name, predicted, measured in rows:
        print(f"  {name}: {predicted:.1f} predicted, {measured:.1f} measured")
    print(f"  transactions for a call, reads included: {used.transactions / calls:.1f}")
    print(f"  bytes of the audit for a call: {used.size / calls:.0f}")


def main() -> None:
    """Run the comparison for unary and streamed calls, and for calls with a limit."""
    parser = argparse.ArgumentParser(description="Compare the sizing model with a run.")
    parser.add_argument("database", help="the URL of a PostgreSQL database")
    parser.add_argument("--rate", type=float, default=20, help="calls per second")
    parser.add_argument("--seconds", type=float, default=30, help="seconds for which calls begin")
    arguments = parser.parse_args()
    for kind, settings in (
        (AGENT_CALL, RUNTIME),
        (_STREAM_CALL, RUNTIME),
        (_STREAM_CALL, with_limit(RUNTIME)),
    ):
        print(f"{kind.description}, {'with a limit' if settings is not RUNTIME else 'without limits'}")
        run(kind, settings, arguments.database, arguments.rate, arguments.seconds)


if __name__ == "__main__":
    main()
