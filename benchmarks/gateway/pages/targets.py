"""The performance targets of the gateway, and the check whether the figures of a run reach them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from benchmarks.gateway.loads import (
    BESIDE,
    CALLS,
    CPU_CALL,
    CPU_EVENT,
    DELAY,
    EVENT_RATE,
    FIRST,
    LOADED,
    P50,
    P99,
    REST,
    START,
)
from benchmarks.gateway.pages.figures import ALONE, Figures, Spread, spread
from benchmarks.payloads import AGENT_BYTES, LARGE_BYTES

Measured = tuple[str, bool | None]
"""The measured value as text, and whether it reaches the target; None if the machine was too busy."""

QUIET_MS = 5.0
"""The maximum p99 of the upstream alone, in ms. Above it, other programs distort the p99 of proxies."""


@dataclass(frozen=True)
class Goal:
    """A target.

    Attributes:
        title: The quantity to measure.
        bound: The value that it should reach, as text.
        needs: The pairs of load and configuration that `judge` needs.
        judge: Returns the measured value for the figures of a run.
    """

    title: str
    bound: str
    needs: tuple[tuple[str, str], ...]
    judge: Callable[[Figures], Measured]

    def result(self, figures: Figures) -> Measured | None:
        """Return the measured value, or None if the run lacks figures that are needed."""
        return self.judge(figures) if all(figures.has(*pair) for pair in self.needs) else None


def _speed(title: str, load: str, pair: tuple[str, str], at_least: float, names: tuple[str, str]) -> Goal:
    """Return a goal for a rate and the corresponding processor time, as ratios to another configuration."""
    configuration, base = pair

    def judge(figures: Figures) -> Measured:
        rate, cpu = (figures.ratio(load, configuration, base, name) for name in names)
        text = f"{rate.text(2)}; processor time: {cpu.text(2)}"
        return text, min(rate.median, cpu.median) >= at_least

    return Goal(title, f"≥ {at_least:g}", ((load, configuration), (load, base)), judge)


def _calls(title: str, load: str, pair: tuple[str, str], at_least: float) -> Goal:
    return _speed(title, load, pair, at_least, (CALLS, CPU_CALL))


def _added(title: str, place: tuple[str, str, str], base: str, at_most: float) -> Goal:
    """Return a goal for the milliseconds by which a time exceeds that of the base."""
    load, configuration, name = place

    def judge(figures: Figures) -> Measured:
        found = _differences(figures.values(load, configuration, name), figures.values(load, base, name))
        return f"{found.text(2)} ms", found.median <= at_most

    return Goal(title, f"≤ {at_most:g} ms", ((load, configuration), (load, base)), judge)


def _differences(values: Sequence[float], others: Sequence[float]) -> Spread:
    return spread([one - other for one, other in zip(values, others, strict=True)])


def _at_most(title: str, place: tuple[str, str, str], at_most: float, unit: str) -> Goal:
    load, configuration, name = place

    def judge(figures: Figures) -> Measured:
        found = figures.spread(load, configuration, name)
        return f"{found.text()} {unit}", found.median <= at_most

    return Goal(title, f"≤ {at_most:g} {unit}", ((load, configuration),), judge)


def _tail(configuration: str) -> Goal:
    def judge(figures: Figures) -> Measured:
        slow, usual = (figures.values("open", configuration, name) for name in (P99, P50))
        found = spread([one / other for one, other in zip(slow, usual, strict=True)])
        quiet = figures.spread("open", ALONE, P99).median <= QUIET_MS
        return f"{found.text(1)} times", found.median <= 3 if quiet else None

    name = {"plain": "no hooks", "runtime": "runtime hook"}.get(configuration, configuration)
    title = f"{name}: p99 / median of agents' calls at 100 calls/s"
    return Goal(title, "≤ 3 times", (("open", configuration),), judge)


def _audit_latency(figures: Figures) -> Measured:
    found = _differences(
        figures.values("first", "runtime", FIRST), figures.values("first", "unaudited", FIRST)
    )
    flush = float(figures.about["flush of the disk, ms"])
    return f"{found.text(2)} ms; a flush takes {flush:.2f} ms", found.median - flush <= 0.3


def _event_cost(figures: Figures) -> Measured:
    found = figures.ratio("streams", "naive", "runtime", CPU_EVENT)
    return f"{found.text(2)} times", found.median <= 1.7


def _flat(figures: Figures) -> Measured:
    costs = [figures.spread(load, "runtime", CPU_CALL).median for load in _CONCURRENT]
    return f"{', '.join(f'{cost:,.0f}' for cost in costs)} µs", costs[-1] <= 1.25 * min(costs)


def _two_workers(figures: Figures) -> Measured:
    found = figures.ratio("workers", "workers", "runtime", CALLS)
    return found.text(2), found.median >= 1.7


def _linear(figures: Figures) -> Measured:
    large, agent = (figures.spread(load, "runtime", CPU_CALL).median for load in ("large", "agent"))
    ratio = (large / LARGE_BYTES) / (agent / AGENT_BYTES)
    return f"{ratio:.2f} times", ratio <= 1.25


def _litellm_first(figures: Figures) -> Measured:
    ours, theirs, alone = (figures.spread("first", n, FIRST).median for n in ("redact", "litellm", ALONE))
    ratio = (ours - alone) / (theirs - alone)
    return f"1/{1 / ratio:.1f}", ratio <= 1 / 15


_CONCURRENT = ("agent@1", "agent@4", "agent", "agent@64")

GOALS = (
    _calls("no hooks: small calls/s vs. bare aiohttp", "small", ("plain", "copying"), 0.5),
    _calls("no hooks: agents' calls/s vs. bare aiohttp", "agent", ("plain", "copying"), 0.5),
    _calls("runtime hook: agents' calls/s vs. the naive floor", "agent", ("runtime", "naive"), 0.6),
    _calls("runtime hook: agents' calls/s vs. LiteLLM with a hook", "agent", ("runtime", "litellm"), 30),
    _calls("runtime hook: small calls/s vs. the naive floor", "small", ("runtime", "naive"), 0.4),
    _calls("redact: agents' calls/s vs. the naive floor", "agent", ("redact", "naive"), 0.4),
    _speed(
        "redact: events/s vs. the naive floor", "streams", ("redact", "naive"), 0.4, (EVENT_RATE, CPU_EVENT)
    ),
    _calls("runtime hook: calls/s of 5 MB vs. the naive floor", "large", ("runtime", "naive"), 0.7),
    _calls(
        "runtime hook: agents' calls/s with vs. without 10 policies and 50 patterns that do not apply",
        "agent",
        ("unused", "runtime"),
        0.95,
    ),
    _added("redact: latency added to the first event of a stream", ("first", "redact", FIRST), ALONE, 2),
    Goal(
        "redact: latency added to the first event of a stream vs. LiteLLM with a hook",
        "≤ 1/15",
        (("first", "redact"), ("first", "litellm"), ("first", ALONE)),
        _litellm_first,
    ),
    _added("redact: latency added to each event of a stream", ("paced", "redact", DELAY), ALONE, 0.2),
    Goal(
        "runtime hook: processor time of a stream's event vs. the naive floor",
        "≤ 1.7 times",
        (("streams", "runtime"), ("streams", "naive")),
        _event_cost,
    ),
    *(_tail(name) for name in ("plain", "runtime", "redact")),
    _calls(
        "runtime hook: agents' calls/s with vs. without the audit", "agent", ("runtime", "unaudited"), 0.85
    ),
    Goal(
        "audit: added latency, minus the time of a disk flush",
        "≤ 0.3 ms",
        (("first", "runtime"), ("first", "unaudited")),
        _audit_latency,
    ),
    _at_most("time from start to first answer", ("start", "runtime", START), 0.6, "s"),
    _at_most("memory at rest", ("start", "runtime", REST), 70, "MB"),
    _at_most("memory under load", ("start", "runtime", LOADED), 110, "MB"),
    Goal(
        "runtime hook: small calls/s with vs. without 1,000 idle streams",
        "≥ 0.9",
        (("idle", "runtime"),),
        lambda figures: (
            figures.spread("idle", "runtime", BESIDE).text(2),
            figures.spread("idle", "runtime", BESIDE).median >= 0.9,
        ),
    ),
    Goal(
        "runtime hook: agents' calls/s of two workers vs. one",
        "≥ 1.7",
        (("workers", "workers"), ("workers", "runtime")),
        _two_workers,
    ),
    Goal(
        "processor time of an agent's call: 64 at once vs. the minimum of 1, 4, 16 and 64 at once",
        "≤ 1.25 times",
        tuple((load, "runtime") for load in _CONCURRENT),
        _flat,
    ),
    Goal(
        "processor time per byte: calls of 5 MB vs. calls of 122 KB",
        "≤ 1.25 times",
        (("large", "runtime"), ("agent", "runtime")),
        _linear,
    ),
)


def targets_table(figures: Figures) -> list[list[str]]:
    """Return the cells of a table: a header, then a row for each target."""
    rows = [["target", "bound", "measured", "result"]]
    for goal in GOALS:
        result = goal.result(figures)
        text, reached = result or ("not measured", None)
        unknown = "unknown: the machine was busy" if result else ""
        verdict = {True: "reached", False: "**missed**", None: unknown}[reached]
        rows.append([goal.title, goal.bound, text, verdict])
    return rows
