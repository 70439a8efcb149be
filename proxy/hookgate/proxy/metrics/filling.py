"""Fills in the metrics: from each call's record once it has ended, and from those who keep numbers."""

from collections.abc import Callable, Iterable, Mapping

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest

from hookgate.hooks.live import LiveEngine
from hookgate.proxy.metrics import names
from hookgate.proxy.metrics.bounds import NONE, Models, decision, status_class
from hookgate.proxy.metrics.counting import Histogram, Total
from hookgate.proxy.metrics.names import Name
from hookgate.proxy.metrics.reading import Audited, Read, Sent, Values, each, one
from hookgate.proxy.prices import Prices
from hookgate.proxy.records import CallRecord, HookTally

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The numbers of one gateway, in a registry of their own. They never fall but at a new start."""

    def __init__(self, models: Iterable[str] = (), prices: Prices | None = None) -> None:
        """`models` have labels of their own, and so have those with a price."""
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._models = Models([*models, *(prices.models if prices else ())])
        self._currency = prices.currency if prices else ""
        self._open: dict[str, CallRecord] = {}
        self._calls, self._duration = self._total(names.CALLS), self._histogram(names.DURATION)
        self._overhead, self._first = self._histogram(names.OVERHEAD), self._histogram(names.FIRST_TOKEN)
        self._requests, self._upstream = self._total(names.UPSTREAM_REQUESTS), self._histogram(names.UPSTREAM)
        self._runs, self._decisions = self._total(names.HOOK_RUNS), self._total(names.HOOK_DECISIONS)
        self._hook_duration = self._histogram(names.HOOK_DURATION)
        self._tokens, self._cost = self._total(names.TOKENS), self._total(names.COST)
        self._read(names.IN_FLIGHT, one(lambda: len(self._open)))
        self._read(names.STREAMS, one(lambda: len(self._streams())))
        self._read(names.HELD, one(lambda: sum(call.holding() for call in self._open.values())))

    def began(self, record: CallRecord) -> None:
        """A call is under way. Each has to be given to `settled`."""
        self._open[record.id] = record

    def settled(self, record: CallRecord) -> None:
        """A call has ended, and its record is complete."""
        self._open.pop(record.id, None)
        route, model = (record.kind or NONE,), (self._models.label(record.model),)
        unanswered = "interrupted" if record.dropped else "left"
        self._calls.add((*route, status_class(record.status, unanswered), record.outcome or NONE))
        self._duration.observe(route, record.seconds)
        if record.first_seconds is not None:
            self._overhead.observe(route, max(0.0, record.first_seconds - record.waited_before_first))
            if record.streamed and record.outcome == "answered":
                self._first.observe(model, record.first_seconds)
        if record.requests:
            self._upstream.observe(model, record.upstream_seconds)
            for request in record.requests:
                self._requests.add((*model, status_class(request.status, NONE)))
        for tally in record.hooks.values():
            self._hook(tally)
        self._used(record, *model)

    def _hook(self, tally: HookTally) -> None:
        of_hook = tally.event, tally.hook
        self._runs.add((*of_hook, "failed"), tally.failures)
        self._runs.add((*of_hook, "denied"), tally.denials)
        self._runs.add((*of_hook, "allowed"), tally.runs - tally.failures - tally.denials)
        for said, count in tally.decisions.items():
            self._decisions.add((*of_hook, tally.mode, decision(said)), count)
        self._hook_duration.observe(of_hook, tally.seconds)

    def _used(self, record: CallRecord, model: str) -> None:
        used = record.usage
        by = model, (record.session.team if record.session else "") or NONE
        cached = min(used.cached_tokens, used.input_tokens)
        self._tokens.add((*by, "input"), used.input_tokens - cached)
        self._tokens.add((*by, "cached"), cached)
        self._tokens.add((*by, "output"), used.output_tokens)
        self._cost.add((*by, self._currency), record.cost or 0)

    def watch_engine(self, live: LiveEngine) -> None:
        """Tell of the hooks' settings and health."""
        self._read(names.RELOADS, each(lambda: live.reloads))
        self._read(names.REVISION, lambda: [((live.current.revision,), 1)])
        self._read(names.HOOKS_WAITING, one(lambda: live.waiting))
        self._read(names.HOOK_DEGRADED, lambda: _degraded(live))

    def watch_unhooked(self, groups: Mapping[str, int]) -> None:
        """Tell of generative calls that no hook judged, by their group."""
        self._read(names.UNHOOKED, each(lambda: groups))

    def watch_bypasses(self, runs: Mapping[str, int]) -> None:
        """Tell of tools that ran past a shim."""
        self._read(names.BYPASSES, each(lambda: runs))

    def watch_audit(self, audit: Audited) -> None:
        """Tell of the audit."""
        self._read(names.AUDIT_QUEUED, one(lambda: audit.queued))
        self._read(names.AUDIT_LAG, one(lambda: audit.lag_seconds))
        self._read(names.AUDIT_FAILURES, one(lambda: audit.failures))

    def watch_spans(self, sender: Sent) -> None:
        """Tell of the spans that are sent."""
        self._read(names.SPANS, each(lambda: sender.results))
        self._read(names.SPANS_QUEUED, one(lambda: sender.queued))

    def page(self) -> bytes:
        """All of it, in Prometheus' text format."""
        return generate_latest(self._registry)

    def _streams(self) -> list[CallRecord]:
        return [call for call in self._open.values() if call.streamed and call.first_seconds is not None]

    def _read(self, name: Name, read: Callable[[], Values]) -> None:
        self._registry.register(Read(name, read))

    def _total(self, name: Name) -> Total:
        self._registry.register(total := Total(name))
        return total

    def _histogram(self, name: Name) -> Histogram:
        self._registry.register(histogram := Histogram(name))
        return histogram


def _degraded(live: LiveEngine) -> Values:
    """Several hooks of an event may have one name: it is degraded when one of them is."""
    found: dict[tuple[str, ...], float] = {}
    for (event, name, _), status in live.health.hooks.items():
        found[event, name] = max(found.get((event, name), 0), status.degraded)
    return found.items()
