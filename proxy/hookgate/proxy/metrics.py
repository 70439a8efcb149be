"""Numbers for Prometheus. Every label's values are bounded: by the routes, the settings, or this file."""

from collections import Counter
from collections.abc import Iterable, Mapping

from prometheus_client import CollectorRegistry, Gauge, ProcessCollector, generate_latest
from prometheus_client import Counter as Total
from prometheus_client.core import CounterMetricFamily, Metric
from prometheus_client.registry import Collector

from hookgate.hooks.health import Health

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The numbers of one gateway, in a registry of their own."""

    def __init__(self) -> None:
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._calls = Total(
            "hookgate_calls",
            "Calls that ended, by kind of route.",
            ["route", "status_class"],
            registry=self._registry,
        )
        self._in_flight = Gauge("hookgate_calls_in_flight", "Calls under way.", registry=self._registry)

    def call_began(self) -> None:
        self._in_flight.inc()

    def call_ended(self, route: str, status: int) -> None:
        """`route` is a kind of route, of which there are few; a status of 0 is a client that left."""
        self._in_flight.dec()
        self._calls.labels(route, f"{status // 100}xx" if status else "left").inc()

    def watch_hooks(self, health: Health) -> None:
        """Tell of the hooks' runs, as they are on record."""
        self._registry.register(_HookRuns(health))

    def watch_reloads(self, reloads: Mapping[str, int]) -> None:
        """Tell how often settings were reloaded, by result."""
        self._registry.register(
            _Counts("hookgate_config_reloads", "Reloads of the hooks' settings.", "result", reloads)
        )

    def watch_unhooked(self, groups: Mapping[str, int]) -> None:
        """Tell of generative calls that no hook judged, by their group."""
        self._registry.register(
            _Counts("hookgate_unhooked_calls", "Generative calls that no hook judged.", "group", groups)
        )

    def watch_bypasses(self, runs: Mapping[str, int]) -> None:
        """Tell of tools that ran past a shim."""
        self._registry.register(
            _Counts("hookgate_bypasses", "Tools that ran without the shim having told of it.", "kind", runs)
        )

    def page(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)


class _Counts(Collector):
    """Numbers that someone else counts."""

    def __init__(self, name: str, help_text: str, label: str, counts: Mapping[str, int]) -> None:
        self._named = (name, help_text)
        self._label, self._counts = label, counts

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(*self._named, labels=[self._label])
        for value, count in self._counts.items():
            family.add_metric([value], count)
        yield family


class _HookRuns(Collector):
    """The runs of each hook: their number is bounded by the settings."""

    def __init__(self, health: Health) -> None:
        self._health = health

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily(
            "hookgate_hook_runs", "Runs of hooks.", labels=["event", "hook", "outcome"]
        )
        # One name may stand for several hooks of an event.
        counts: Counter[tuple[str, str, str]] = Counter()
        for (event, name, _), status in self._health.hooks.items():
            counts[event, name, "failed"] += status.failures
            counts[event, name, "denied"] += status.denials
            counts[event, name, "allowed"] += status.runs - status.failures - status.denials
        for labels, count in counts.items():
            family.add_metric(labels, count)
        yield family
