"""Metrics for Prometheus, from the records of calls and other components; and the traffic of the last day."""

import time
from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import lru_cache
from itertools import accumulate
from typing import Literal, Protocol, get_args

from prometheus_client import CollectorRegistry, ProcessCollector, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily, Metric
from prometheus_client.registry import Collector
from prometheus_client.utils import floatToGoString

from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.proxy.observe import metric_names
from hookgate.proxy.observe.hook_tally import HookTally
from hookgate.proxy.observe.metric_names import MetricName
from hookgate.proxy.observe.outcomes import GUARDED, OUTCOMES
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.observe.usage import Prices
from hookgate.proxy.policy.pushed import PolicyState
from hookgate.translator.fields import JsonObject

NONE, OTHER = "none", "other"

DECISIONS = frozenset({"allow", "ask", "deny", "stop", "answer"})


_REMEMBERED = 256
"""The names of models whose label is remembered."""


class Models:
    """The labels for models: names, or patterns with wildcards. The first one that matches is the label."""

    def __init__(self, patterns: Iterable[str]) -> None:
        self._patterns = tuple(dict.fromkeys(patterns))
        self.label = lru_cache(_REMEMBERED)(self._find_label)
        """Returns the label for a model: a pattern, `other`, or `none` if the model is empty."""

    def _find_label(self, model: str) -> str:
        if not model:
            return NONE
        return next((pattern for pattern in self._patterns if fnmatchcase(model, pattern)), OTHER)


def status_class(status: int, without: str) -> str:
    """Return the class of a status, such as `2xx`, or `without` if the status is 0."""
    return f"{status // 100}xx" if status else without


def decision(value: str) -> str:
    """Return the label for a hook's decision, which may be any text."""
    return value if value in DECISIONS else OTHER


Labels = tuple[str, ...]
Values = Iterable[tuple[Labels, float]]
"""The values of a metric, each with the values of its labels."""
Totals = dict[Labels, float]
"""The series of a counter, by the values of their labels."""


class AuditedWriter(Protocol):
    """The writer of the audit."""

    @property
    def queued(self) -> int:
        """The number of records that are not written yet."""

    @property
    def lag_seconds(self) -> float:
        """The age of the oldest of them."""

    @property
    def failures(self) -> int:
        """The number of failed attempts since the start."""


class EvaluatedAlerts(Protocol):
    """The alerts of the gateway that evaluates them."""

    @property
    def firing(self) -> Mapping[str, int]:
        """The number of alerts that fire by rule; empty if another gateway evaluates the rules."""

    @property
    def results(self) -> Mapping[tuple[str, str], int]:
        """The number of attempts to deliver since the start, by receiver and result: delivered or failed."""


class AnsweredApprovals(Protocol):
    """The approvals of one gateway."""

    @property
    def results(self) -> Mapping[str, int]:
        """The number of tool calls for which hooks asked since the start, by what people have decided."""

    @property
    def pending(self) -> int:
        """The number of requests that nobody has decided yet."""

    @property
    def deliveries(self) -> Mapping[tuple[str, str], int]:
        """The number of attempts to tell receivers since the start, by receiver and result."""


class SentSpans(Protocol):
    """The sender of spans."""

    @property
    def queued(self) -> int:
        """The number of queued spans."""

    @property
    def results(self) -> Mapping[str, int]:
        """The number of spans since the start by result: exported or dropped."""


class FollowedRevision(Protocol):
    """A revision of the pushed policy."""

    @property
    def number(self) -> int:
        """Its number."""

    @property
    def sha256(self) -> bytes:
        """The hash of its document."""


class FollowedPolicy(Protocol):
    """The pushed policy of a gateway."""

    @property
    def revision(self) -> FollowedRevision:
        """The revision that is in force."""

    @property
    def state(self) -> PolicyState:
        """Whether it is the newest one."""


class RefreshedToken(Protocol):
    """The access token of a credential."""

    @property
    def name(self) -> str:
        """The name of the credential."""

    @property
    def results(self) -> Mapping[str, int]:
        """The number of refreshes since the start by result: refreshed or failed."""


class SentRecords(Protocol):
    """An export of the audit's records."""

    @property
    def name(self) -> str:
        """Its name."""

    @property
    def results(self) -> Mapping[str, int]:
        """The number of records since the start by result."""

    @property
    def failures(self) -> int:
        """The number of failed attempts to deliver."""

    @property
    def lag_seconds(self) -> float:
        """The age of the oldest record that is not delivered."""

    @property
    def lag_records(self) -> int:
        """The number of records that are not delivered."""


class ReadMetrics(Collector):
    """A metric whose values are read with `read` when it is collected."""

    def __init__(self, name: MetricName, read: Callable[[], Values]) -> None:
        self._name, self._read = name, read

    def collect(self) -> Iterable[Metric]:
        family = CounterMetricFamily if self._name.kind == "counter" else GaugeMetricFamily
        metric = family(self._name.name, self._name.help, labels=self._name.labels)
        for labels, value in self._read():
            metric.add_metric(labels, value)
        yield metric


class Histograms(Collector):
    """The series of a histogram by their labels. They are plain numbers until they are collected."""

    def __init__(self, name: MetricName) -> None:
        self._name = name
        self._counts: dict[Labels, list[int]] = {}  # by bucket; the last one has no upper bound
        self._sums: dict[Labels, float] = {}

    def observe(self, labels: Labels, value: float) -> None:
        """Add a value to the series with these labels."""
        counts = self._counts.get(labels)
        if counts is None:
            counts = self._counts[labels] = [0] * (len(self._name.buckets) + 1)
        counts[bisect_left(self._name.buckets, value)] += 1
        self._sums[labels] = self._sums.get(labels, 0.0) + value

    def collect(self) -> Iterable[Metric]:
        metric = HistogramMetricFamily(self._name.name, self._name.help, labels=self._name.labels)
        bounds = [*map(floatToGoString, self._name.buckets), "+Inf"]
        for labels, counts in self._counts.items():
            buckets = list(zip(bounds, accumulate(counts), strict=True))
            metric.add_metric(labels, buckets, self._sums[labels])
        yield metric


def one_sample(read: Callable[[], float]) -> Callable[[], Values]:
    """Return a reader for a metric without labels."""
    return lambda: [((), read())]


def labeled_samples(read: Callable[[], Mapping[str, int]]) -> Callable[[], Values]:
    """Return a reader for a metric with one label."""
    return lambda: [((value,), count) for value, count in read().items()]


_MAX_KINDS = 100
"""Kinds of findings that have a label of their own."""

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"


class Metrics:
    """The metrics of one gateway, in their own registry. Counters fall only when the gateway is restarted."""

    def __init__(self, models: Iterable[str] = (), prices: Prices | None = None) -> None:
        """Create the metrics. Only `models` and models with a price get their own labels."""
        self._registry = CollectorRegistry()
        ProcessCollector(registry=self._registry)
        self._models = Models([*models, *(prices.models if prices else ())])
        self._currency = prices.currency if prices else ""
        self._open: dict[str, CallRecord] = {}
        self._calls = self._totals(metric_names.CALLS)
        self._duration = self._histograms(metric_names.DURATION)
        self._overhead = self._histograms(metric_names.OVERHEAD)
        self._first = self._histograms(metric_names.FIRST_TOKEN)
        self._requests = self._totals(metric_names.UPSTREAM_REQUESTS)
        self._upstream = self._histograms(metric_names.UPSTREAM)
        self._credentials = self._totals(metric_names.CREDENTIAL_REQUESTS)
        self._runs = self._totals(metric_names.HOOK_RUNS)
        self._decisions = self._totals(metric_names.HOOK_DECISIONS)
        self._edits = self._totals(metric_names.HOOK_EDITS)
        self._findings = self._totals(metric_names.FINDINGS)
        self._kinds: set[str] = set()
        self._denials = self._totals(metric_names.DENIALS)
        self._near_limits = self._totals(metric_names.NEAR_LIMITS)
        self._hook_duration = self._histograms(metric_names.HOOK_DURATION)
        self._tokens = self._totals(metric_names.TOKENS)
        self._cost = self._totals(metric_names.COST)
        self._read(metric_names.IN_FLIGHT, one_sample(lambda: len(self._open)))
        self._read(metric_names.STREAMS, one_sample(lambda: len(self._streams())))
        self._read(
            metric_names.HELD, one_sample(lambda: sum(record.held_bytes() for record in self._open.values()))
        )

    def note_start(self, record: CallRecord) -> None:
        """Count a call as in progress. `note_end` must be called when it ends."""
        self._open[record.id] = record

    def note_end(self, record: CallRecord) -> None:
        """Add a call that has ended, whose record is complete."""
        self._open.pop(record.id, None)
        route, model = (record.kind or NONE,), (self._models.label(record.answered_by or record.model),)
        unanswered = "interrupted" if record.dropped else "left"
        _add(self._calls, (*route, status_class(record.status, unanswered), record.outcome or NONE))
        self._duration.observe(route, record.seconds)
        if record.first_seconds is not None:
            self._overhead.observe(route, max(0.0, record.first_seconds - record.waited_before_first))
            if record.streamed and record.outcome in ("answered", "blocked"):
                self._first.observe(model, record.first_seconds)
        if record.attempts:
            self._upstream.observe(model, record.upstream_seconds)
            for request in record.attempts:
                status = status_class(request.status, NONE)
                _add(self._requests, (*model, status))
                if request.credential:
                    _add(self._credentials, (request.credential, status))
        team = (record.session.team if record.session else "") or NONE
        if record.outcome in GUARDED:
            _add(self._denials, (record.outcome, team))
        if (use := record.nearest_limit()) is not None:
            _add(self._near_limits, (use.measure, use.window, team))
        for tally in record.hooks.values():
            self._add_hook(tally, team)
        self._add_usage(record, *model, team)

    def _add_hook(self, tally: HookTally, team: str) -> None:
        labels = tally.event, tally.hook
        _add(self._runs, (*labels, "failed"), tally.failures)
        _add(self._runs, (*labels, "denied"), tally.denials)
        _add(self._runs, (*labels, "allowed"), tally.runs - tally.failures - tally.denials)
        for value, count in tally.decisions.items():
            _add(self._decisions, (*labels, tally.mode, decision(value)), count)
        if tally.edits:
            _add(self._edits, (*labels, tally.mode, team))
        for kind, count in tally.findings.items():
            _add(self._findings, (*labels, self._finding_label(kind), team), count)
        self._hook_duration.observe(labels, tally.seconds)

    def _finding_label(self, kind: str) -> str:
        """Return the label for a kind of finding. Hooks may report any text, so there is a limit."""
        if len(self._kinds) < _MAX_KINDS:
            self._kinds.add(kind)
        return kind if kind in self._kinds else OTHER

    def _add_usage(self, record: CallRecord, model: str, team: str) -> None:
        usage = record.usage
        labels = model, team
        cached = min(usage.cached_tokens, usage.input_tokens)
        _add(self._tokens, (*labels, "input"), usage.input_tokens - cached)
        _add(self._tokens, (*labels, "cached"), cached)
        _add(self._tokens, (*labels, "output"), usage.output_tokens)
        _add(self._cost, (*labels, self._currency), record.cost or 0)

    def expose_engine(self, reloader: EngineReloader) -> None:
        """Expose the metrics of the hooks' settings and health."""
        self._read(metric_names.RELOADS, labeled_samples(lambda: reloader.reloads))
        self._read(metric_names.REVISION, lambda: [((reloader.current.revision,), 1)])
        self._read(metric_names.HOOKS_WAITING, one_sample(lambda: reloader.waiting))
        self._read(metric_names.HOOK_DEGRADED, lambda: _degraded(reloader))

    def expose_pushed_policy(self, pushed: FollowedPolicy) -> None:
        """Expose which revision of the pushed policy is in force, and whether it is the newest one."""
        self._read(
            metric_names.POLICY,
            lambda: [((str(pushed.revision.number), pushed.revision.sha256.hex()[:12]), 1)],
        )
        self._read(
            metric_names.POLICY_STATE,
            lambda: [((state,), pushed.state == state) for state in get_args(PolicyState)],
        )

    def expose_unhooked(self, groups: Mapping[str, int]) -> None:
        """Expose the number of generative calls that no hook judged, by group."""
        self._read(metric_names.UNHOOKED, labeled_samples(lambda: groups))

    def expose_bypasses(self, runs: Mapping[str, int]) -> None:
        """Expose the number of tool runs that no shim announced."""
        self._read(metric_names.BYPASSES, labeled_samples(lambda: runs))

    def expose_audit(self, audit: AuditedWriter) -> None:
        """Expose the metrics of the audit."""
        self._read(metric_names.AUDIT_QUEUED, one_sample(lambda: audit.queued))
        self._read(metric_names.AUDIT_LAG, one_sample(lambda: audit.lag_seconds))
        self._read(metric_names.AUDIT_FAILURES, one_sample(lambda: audit.failures))

    def expose_alerts(self, alerts: EvaluatedAlerts) -> None:
        """Expose the metrics of alerts."""
        self._read(metric_names.ALERTS_FIRING, labeled_samples(lambda: alerts.firing))
        self._read(metric_names.ALERT_DELIVERIES, lambda: [*alerts.results.items()])

    def expose_approvals(self, approvals: AnsweredApprovals) -> None:
        """Expose the metrics of approvals."""
        self._read(metric_names.APPROVALS, labeled_samples(lambda: approvals.results))
        self._read(metric_names.APPROVALS_PENDING, one_sample(lambda: approvals.pending))
        self._read(metric_names.APPROVAL_DELIVERIES, lambda: [*approvals.deliveries.items()])

    def expose_exports(self, exports: Sequence[SentRecords]) -> None:
        """Expose the metrics of exports."""
        self._read(
            metric_names.EXPORT_RECORDS,
            lambda: [
                ((each.name, result), count) for each in exports for result, count in each.results.items()
            ],
        )
        self._read(metric_names.EXPORT_FAILURES, lambda: [((each.name,), each.failures) for each in exports])
        self._read(metric_names.EXPORT_LAG, lambda: [((each.name,), each.lag_seconds) for each in exports])
        self._read(metric_names.EXPORT_QUEUED, lambda: [((each.name,), each.lag_records) for each in exports])

    def expose_tokens(self, tokens: Sequence[RefreshedToken]) -> None:
        """Expose the refreshes of access tokens."""
        self._read(
            metric_names.TOKEN_REFRESHES,
            lambda: [
                ((token.name, result), count) for token in tokens for result, count in token.results.items()
            ],
        )

    def expose_spans(self, sender: SentSpans) -> None:
        """Expose the metrics of exported spans."""
        self._read(metric_names.SPANS, labeled_samples(lambda: sender.results))
        self._read(metric_names.SPANS_QUEUED, one_sample(lambda: sender.queued))

    def page(self) -> bytes:
        """Return all metrics in Prometheus' text format."""
        return generate_latest(self._registry)

    def _streams(self) -> list[CallRecord]:
        return [call for call in self._open.values() if call.streamed and call.first_seconds is not None]

    def _read(self, name: MetricName, read: Callable[[], Values]) -> None:
        self._registry.register(ReadMetrics(name, read))

    def _totals(self, name: MetricName) -> Totals:
        totals: Totals = {}
        self._read(name, totals.items)
        return totals

    def _histograms(self, name: MetricName) -> Histograms:
        histograms = Histograms(name)
        self._registry.register(histograms)
        return histograms


def _add(totals: Totals, labels: Labels, amount: float = 1) -> None:
    """Add an amount, unless it is 0, so that a series begins with its first amount."""
    if amount > 0:
        totals[labels] = totals.get(labels, 0) + amount


def _degraded(reloader: EngineReloader) -> Values:
    """Return the health by event and hook. Hooks that share a name are degraded if one of them is."""
    values: dict[tuple[str, ...], float] = {}
    for (event, name, _), status in reloader.health.hooks.items():
        values[event, name] = max(values.get((event, name), 0), status.degraded)
    return values.items()


TimeRange = Literal["hour", "day"]

_MINUTE = 60_000
_STEPS: dict[TimeRange, int] = {"hour": 1, "day": 15}
_MINUTES: dict[TimeRange, int] = {"hour": 60, "day": 24 * 60}

# Each bound is 25% above the previous one, so reported times are exact to about 12%. The last is minutes.
_BOUNDS = tuple(0.5 * 1.25**step for step in range(60))


@dataclass(slots=True)
class Minute:
    """The calls that ended in one minute. `at` is its number since 1970."""

    at: int
    outcomes: dict[str, int] = field(default_factory=dict)
    times: dict[int, int] = field(default_factory=dict)
    """The number of calls that took up to each bound, by the bound's index."""
    tokens: int = 0
    bypasses: int = 0


class Traffic:
    """The traffic of the last day. `now` returns milliseconds since 1970."""

    def __init__(self, now: Callable[[], int] = lambda: time.time_ns() // 1_000_000) -> None:
        self.now = now
        self._minutes: deque[Minute] = deque(maxlen=_MINUTES["day"])
        self.since = now()
        """When counting began, in milliseconds since 1970."""

    def add(self, receipt: JsonObject) -> None:
        """Count a call that has ended."""
        at = self.now() // _MINUTE
        if not self._minutes or self._minutes[-1].at < at:  # a clock that is set back adds to the last one
            self._minutes.append(Minute(at))
        minute = self._minutes[-1]
        outcome = receipt["outcome"]
        minute.outcomes[outcome] = minute.outcomes.get(outcome, 0) + 1
        place = bisect_left(_BOUNDS, receipt["timings"]["total_ms"])
        minute.times[place] = minute.times.get(place, 0) + 1
        minute.tokens += receipt["usage"]["input_tokens"] + receipt["usage"]["output_tokens"]
        minute.bypasses += receipt["bypasses"]

    def series(self, span: TimeRange) -> JsonObject:
        """Return the traffic of a span up to now, in steps of one or fifteen minutes, the oldest first."""
        step, now = _STEPS[span], self.now() // _MINUTE
        last = now // step
        first = last - _MINUTES[span] // step + 1
        steps: dict[int, list[Minute]] = {at: [] for at in range(first, last + 1)}
        for minute in self._minutes:
            if minute.at // step in steps:
                steps[minute.at // step].append(minute)
        return {
            "span": span,
            "step_ms": step * _MINUTE,
            "since": self.since,
            "steps": [{"at": at * step * _MINUTE, **_summed(minutes)} for at, minutes in steps.items()],
            "total": _summed([minute for minutes in steps.values() for minute in minutes]),
        }


def _summed(minutes: list[Minute]) -> JsonObject:
    outcomes = {name: sum(minute.outcomes.get(name, 0) for minute in minutes) for name in OUTCOMES}
    times: dict[int, int] = {}
    for place, count in (item for minute in minutes for item in minute.times.items()):
        times[place] = times.get(place, 0) + count
    return {
        "calls": sum(outcomes.values()),
        "outcomes": outcomes,
        "tokens": sum(minute.tokens for minute in minutes),
        "bypasses": sum(minute.bypasses for minute in minutes),
        "p50_ms": _share(times.items(), 0.5),
        "p95_ms": _share(times.items(), 0.95),
    }


def _share(times: Iterable[tuple[int, int]], share: float) -> float | None:
    """Return the time that a share of the calls did not exceed, in milliseconds, or None without calls."""
    counted = sorted(times)
    wanted = share * sum(count for _, count in counted)
    for place, count in counted:
        wanted -= count
        if wanted <= 0:
            return round(_BOUNDS[min(place, len(_BOUNDS) - 1)], 1)
    return None
