"""Checks for performance regressions in at most a minute: `make bench-quick`.

It compares processor time instead of wall-clock time, because other programs and virtual machines affect it
less. A ratio that exceeds its bound is measured again. If it still exceeds the bound, a profile of the
configuration is printed and the exit status is 1.
"""

import statistics
import sys
import tempfile
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from benchmarks.gateway.configurations import CONFIGURATIONS
from benchmarks.gateway.loads import (
    AGENT_CALL,
    LARGE_CALL,
    SMALL_CALL,
    STREAM_CALL,
    Kind,
    Target,
    requests,
)
from benchmarks.gateway.measuring import running_targets
from benchmarks.gateway.sampling import profile
from benchmarks.gateway.traffic import generator
from benchmarks.payloads import EVENTS
from benchmarks.processes import Server

ROUNDS = 5
SECONDS = 40.0
"""Seconds after which no further round begins, so that a run takes at most a minute."""


@dataclass(frozen=True)
class Burst:
    """A number of calls of one kind.

    Attributes:
        kind: The kind of call.
        calls: The number of calls.
        at_once: The number of concurrent calls.
        events: The number of events in an answer; 1 to measure calls instead of events.
    """

    kind: Kind
    calls: int
    at_once: int
    events: int = 1

    def microseconds(self, server: Server) -> float:
        """Make the calls. Returns the processor time of the server per call or event."""
        before = server.cpu_seconds()
        generator.run(
            partial(
                generator.closed_loop,
                server.url,
                requests(self.kind),
                [0.0] * self.at_once,
                iter(range(self.calls)),
                generator.Answer.seconds,
            )
        )
        return (server.cpu_seconds() - before) / self.calls / self.events * 1e6


BURSTS = {
    "small call": Burst(SMALL_CALL, 160, 16),
    "agent's call": Burst(AGENT_CALL, 48, 16),
    "call of 5 MB": Burst(LARGE_CALL, 3, 1),
    "stream's event": Burst(STREAM_CALL, 32, 16, EVENTS),
}


@dataclass(frozen=True)
class Bound:
    """The maximum ratio of the processor time of a configuration to that of the base."""

    burst: str
    configuration: str
    base: str
    at_most: float


BOUNDS = (
    Bound("small call", "plain", "copying", 5.0),
    Bound("agent's call", "plain", "copying", 4.0),
    Bound("small call", "runtime", "naive", 8.0),
    Bound("agent's call", "runtime", "naive", 4.5),
    Bound("call of 5 MB", "runtime", "naive", 3.5),
    Bound("stream's event", "runtime", "naive", 6.0),
    Bound("agent's call", "redact", "naive", 7.0),
    Bound("call of 5 MB", "redact", "naive", 4.5),
    Bound("stream's event", "redact", "naive", 9.5),
    Bound("small call", "unused", "runtime", 1.8),
    Bound("agent's call", "unused", "runtime", 1.8),
    Bound("small call", "runtime", "unaudited", 2.2),
)
"""All bounds. They allow for noise: tighten them when a change makes the gateway faster."""

Ratios = dict[Bound, list[float]]


def main() -> int:
    """Measure all ratios. Returns 1 if one exceeds its bound, else 0."""
    end = time.monotonic() + SECONDS
    names = sorted({name for bound in BOUNDS for name in (bound.configuration, bound.base)})
    with tempfile.TemporaryDirectory() as folder:
        configurations = {name: CONFIGURATIONS[name] for name in names}
        with running_targets(configurations, Path(folder)) as targets:
            ratios = measure(BOUNDS, targets, end)
            worse = [bound for bound in BOUNDS if statistics.median(ratios[bound]) > bound.at_most]
            if worse:
                again = measure(worse, targets, end)
                better = {bound for bound in worse if statistics.median(again[bound]) <= bound.at_most}
                ratios |= {bound: again[bound] for bound in better}
                worse = [bound for bound in worse if bound not in better]
    print("bench-quick: ratios of processor time (configuration / base), medians of interleaved rounds")
    for bound in BOUNDS:
        print(_line(bound, ratios[bound], bound in worse))
    for bound in worse[:2]:
        print(f"\nprofile of {bound.configuration} ({bound.burst}):")
        print(profile(bound.configuration, BURSTS[bound.burst].microseconds).text())
    return 1 if worse else 0


def measure(bounds: Iterable[Bound], targets: Mapping[str, Target], end: float) -> Ratios:
    """Return the ratios of each bound, one per round.

    There are at least two rounds. No further round begins after `end`, in seconds of the monotonic clock.
    """
    ratios: Ratios = {bound: [] for bound in bounds}
    pairs = dict.fromkeys((b.burst, name) for b in ratios for name in (b.base, b.configuration))
    for number in range(ROUNDS + 1):
        if number > 2 and time.monotonic() > end:
            break
        costs = {(burst, name): BURSTS[burst].microseconds(targets[name].server) for burst, name in pairs}
        if number == 0:
            continue  # this round only warms up the servers
        for bound, found in ratios.items():
            found.append(costs[bound.burst, bound.configuration] / costs[bound.burst, bound.base])
    return ratios


def _line(bound: Bound, ratios: list[float], worse: bool) -> str:
    title = f"{bound.burst}: {bound.configuration} / {bound.base}"
    spread = f"({min(ratios):.2f}–{max(ratios):.2f}, {len(ratios)} rounds)"
    verdict = "WORSE" if worse else "ok"
    return (
        f"  {title:40} {statistics.median(ratios):6.2f} {spread:26} at most {bound.at_most:5.2f}  {verdict}"
    )


if __name__ == "__main__":
    sys.exit(main())
