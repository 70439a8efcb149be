"""Counts the instructions of calls with callgrind, which other programs on the machine do not disturb.

    python -m benchmarks.gateway.instructions [--only NAME ...] [--other CHECKOUT] [--json FILE]

Calls are made one at a time, and are not audited: what the audit does at intervals would count many times as
much as in a gateway at work, because callgrind slows all else down. The counts of one interpreter differ by
about one percent from run to run.
"""

import argparse
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Any

import orjson
from benchmarks.gateway.configurations import CONFIGURATIONS
from benchmarks.gateway.measuring import upstream
from benchmarks.gateway.traffic import generator
from benchmarks.gateway.traffic.http1 import post
from benchmarks.gateway.traffic.upstream import AGENT, BATCH, EMBED, PACED, SMALL, STREAM
from benchmarks.payloads import (
    EVENTS,
    LARGE_BYTES,
    agent_request,
    batch_request,
    conversation_requests,
    embedding_request,
    small_request,
)
from benchmarks.processes import HOOKGATE, Server

CONFIGURATIONS_COUNTED = ("plain", "runtime", "redact")
MISSING = (
    ""
    if shutil.which("callgrind_control")
    else "valgrind is not installed; on Debian: apt-get install valgrind"
)

_TOTALS = re.compile(r"^totals: (\d+)", re.MULTILINE)

COUNTED_ENVIRONMENT = {"PYTHONHASHSEED": "0", "HOOKGATE_AUDIT__ENABLED": "false"}
"""Environment variables of servers whose instructions are counted."""

Counts = dict[str, dict[str, float]]
"""Thousands of instructions per call or event, by configuration and load."""


@dataclass(frozen=True)
class CountedLoad:
    """Calls whose instructions are counted.

    Attributes:
        path: The path and query of the calls.
        warm_up: The bodies of calls that are made before.
        bodies: The bodies of the calls that are counted.
        units: The number of events of each answer, or of items of each request; 1 to count calls.
    """

    path: str
    warm_up: Sequence[dict[str, Any]]
    bodies: Sequence[dict[str, Any]]
    units: int = 1

    def run(self, url: str, bodies: Sequence[dict[str, Any]]) -> None:
        """Make calls with these bodies, one after another."""
        prepared = [post(self.path, "gateway.test", orjson.dumps(body)) for body in bodies]

        async def make_calls() -> None:
            connection = await generator.connect(url)
            for request in prepared:
                await connection.call(request)
            connection.close()

        generator.run(make_calls)


FLOOR = "naive"
"""The configuration with which others are compared."""


@dataclass(frozen=True)
class ComparedCounts:
    """The counts of this checkout, and those of an earlier one, which has no counts of the floor."""

    now: Counts
    before: Counts

    def table(self) -> list[list[str]]:
        """Return the cells of a table: a header, and a row for each load of each configuration."""
        rows = [["load", "configuration", "before", "now", "of before", "of the floor"]]
        for load, floor in self.now[FLOOR].items():
            for name, loads in self.before.items():
                if load not in loads:
                    continue
                now, before = self.now[name][load], loads[load]
                ratios = f"{now / before:.2f}", f"{now / floor:.1f}"
                rows.append([load, CONFIGURATIONS[name].title, f"{before:,.0f}", f"{now:,.0f}", *ratios])
        return rows


def read_counts(path: Path) -> ComparedCounts:
    """Read the file that `--json` has written."""
    return ComparedCounts(**json.loads(path.read_text()))


@cache
def counted_loads() -> Mapping[str, CountedLoad]:
    """Return the loads by name."""
    small = [small_request(f"question {number}") for number in range(40)]
    agents = [agent_request(first=f"fix test {number}") for number in range(4)]
    new = [agent_request(first=f"new {number}", seed=number) for number in range(24)]
    large = [agent_request(LARGE_BYTES, f"fix test {number}") for number in range(2)]
    return {
        "small call": CountedLoad(SMALL, small, small),
        "agent's call, repeated": CountedLoad(AGENT, agents * 2, agents * 3),
        "agent's call, new body": CountedLoad(AGENT, new[:12], new[12:]),
        "conversation of 40 turns, per call": CountedLoad(
            AGENT, conversation_requests(1), conversation_requests(2)
        ),
        "call of 5 MB": CountedLoad(SMALL, large, large),
        "event, many in a read": CountedLoad(STREAM, small[:8], small[8:24], EVENTS),
        "event, one in a read": CountedLoad(PACED, small[:2], small[2:6], EVENTS),
        "input of 1,000 embeddings": CountedLoad(
            EMBED, [embedding_request(1000)], [embedding_request(1000)] * 2, 1000
        ),
        "request of a batch of 100": CountedLoad(BATCH, [batch_request(100)], [batch_request(100)] * 2, 100),
    }


def count(configuration: str, loads: Sequence[str], program: str = sys.executable) -> dict[str, float]:
    """Return thousands of instructions per call or event of a configuration, by load.

    `program` is the interpreter that runs the gateway. Raises RuntimeError if callgrind cannot be controlled.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        (folder / "gateway").mkdir()
        output = folder / "callgrind"
        command = (
            *("valgrind", "--tool=callgrind", "--instr-atstart=no", f"--callgrind-out-file={output}"),
            *(program, *(HOOKGATE[1:] if CONFIGURATIONS[configuration].ours else ())),
        )
        origin = stack.enter_context(upstream()).url
        start: Callable[..., Any] = partial(CONFIGURATIONS[configuration].start, command=command)
        server = stack.enter_context(start(origin, folder / "gateway"))
        return {name: _count_load(server, output, counted_loads()[name]) for name in loads}


def _count_load(server: Server, output: Path, load: CountedLoad) -> float:
    load.run(server.url, load.warm_up)
    server.wait_until_idle()
    with _counting(server):
        load.run(server.url, load.bodies)
        server.wait_until_idle()  # what is done after the last answer belongs to its call
    _control(server, "--dump")
    newest = max(output.parent.glob(f"{output.name}.*"), key=lambda path: path.stat().st_mtime_ns)
    found = _TOTALS.search(newest.read_text())
    if found is None:
        raise RuntimeError("callgrind has written no totals")
    return int(found[1]) / len(load.bodies) / load.units / 1000


@contextlib.contextmanager
def _counting(server: Server) -> Iterator[None]:
    _control(server, "--zero")
    _control(server, "--instr=on")
    try:
        yield
    finally:
        _control(server, "--instr=off")


def _control(server: Server, flag: str) -> None:
    ended = subprocess.run(
        ["callgrind_control", flag, str(server.pid)], capture_output=True, text=True, check=False
    )
    if ended.returncode:
        raise RuntimeError(f"callgrind_control {flag}: {ended.stdout}{ended.stderr}")


def main() -> int:
    """Count and print the instructions. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=sorted(counted_loads()), help="loads to count")
    parser.add_argument("--configurations", nargs="*", default=CONFIGURATIONS_COUNTED)
    parser.add_argument("--other", type=Path, help="another checkout, with a `.venv`, to compare with")
    parser.add_argument("--json", type=Path, help="also write the counts to this file, for the page")
    given = parser.parse_args()
    if MISSING:
        print(MISSING, file=sys.stderr)
        return 1
    os.environ |= COUNTED_ENVIRONMENT
    loads = given.only or list(counted_loads())
    counts: Counts = {}
    before: Counts = {}
    for name in given.configurations:
        counts[name] = count(name, loads)
        compares = given.other and CONFIGURATIONS[name].ours
        others = count(name, loads, str(given.other / ".venv/bin/python")) if compares else {}
        before |= {name: others} if others else {}
        for load, found in counts[name].items():
            compared = f"  {found / others[load]:5.2f} of {others[load]:,.1f}" if load in others else ""
            print(f"{name:10} {load:36} {found:12,.1f} thousand instructions{compared}", flush=True)
    if given.json:
        given.json.write_text(json.dumps({"now": counts, "before": before}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
