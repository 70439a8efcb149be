"""Numbers that others keep, read when somebody looks."""

from collections.abc import Callable, Iterable, Mapping
from typing import Protocol

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from hookgate.proxy.metrics.names import Name

Values = Iterable[tuple[tuple[str, ...], float]]
"""The values of a metric, each with its labels' in their order."""


class Audited(Protocol):
    """Who writes the audit."""

    @property
    def queued(self) -> int:
        """Records that are not written yet."""

    @property
    def lag_seconds(self) -> float:
        """How long the oldest of them waits."""

    @property
    def failures(self) -> int:
        """Attempts that failed, since the start."""


class Sent(Protocol):
    """Who sends spans."""

    @property
    def queued(self) -> int:
        """Spans that wait."""

    @property
    def results(self) -> Mapping[str, int]:
        """Spans since the start, by what became of them: exported or dropped."""


class Read(Collector):
    """One metric that is read with `read`."""

    def __init__(self, name: Name, read: Callable[[], Values]) -> None:
        self._name, self._read = name, read

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily if self._name.kind == "counter" else GaugeMetricFamily
        metric = family(self._name.name, self._name.help, labels=self._name.labels)
        for labels, value in self._read():
            metric.add_metric(labels, value)
        yield metric


def one(read: Callable[[], float]) -> Callable[[], Values]:
    """A metric without labels."""
    return lambda: [((), read())]


def each(read: Callable[[], Mapping[str, int]]) -> Callable[[], Values]:
    """A metric with one label."""
    return lambda: [((value,), count) for value, count in read().items()]
