"""Every metric of hookgate's own, declared once. Data: docs/metrics.md is made of it."""

from dataclasses import dataclass
from typing import Literal

Kind = Literal["counter", "gauge", "histogram"]

_WAITS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300)
"""Seconds that people wait for a model."""
_WORK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
"""Seconds that hooks and the gateway take."""


@dataclass(frozen=True, slots=True)
class Name:
    """One metric, by the name that queries use. `buckets` are a histogram's, in seconds."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def exposed(self) -> tuple[str, ...]:
        """The names that a query can use."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)


CALLS = Name(
    "hookgate_calls_total", "counter", "Calls that have ended.", ("route", "status_class", "outcome")
)
IN_FLIGHT = Name("hookgate_calls_in_flight", "gauge", "Calls under way.")
STREAMS = Name("hookgate_streams_open", "gauge", "Streamed answers under way, from their headers on.")
HELD = Name(
    "hookgate_streams_held_bytes", "gauge", "Bytes of streamed answers that hooks hold back just now."
)
DURATION = Name(
    "hookgate_call_duration_seconds", "histogram", "From a call's head to its end.", ("route",), _WAITS
)
OVERHEAD = Name(
    "hookgate_overhead_seconds",
    "histogram",
    "Until an answer began, without the upstream's time: hooks, hookgate itself, and reading the request.",
    ("route",),
    _WORK,
)
UPSTREAM_REQUESTS = Name(
    "hookgate_upstream_requests_total",
    "counter",
    "Requests to the upstream; a call whose model is asked again makes several.",
    ("model", "status_class"),
)
UPSTREAM = Name(
    "hookgate_upstream_duration_seconds",
    "histogram",
    "Until the upstream's answer began, over all requests of a call.",
    ("model",),
    _WAITS,
)
FIRST_TOKEN = Name(
    "hookgate_first_token_seconds",
    "histogram",
    "From a call's head until its streamed answer began.",
    ("model",),
    _WAITS,
)
HOOK_RUNS = Name(
    "hookgate_hook_runs_total",
    "counter",
    "Runs of hooks in calls that have ended.",
    ("event", "hook", "outcome"),
)
HOOK_DECISIONS = Name(
    "hookgate_hook_decisions_total",
    "counter",
    "What hooks said, or would have said in observe mode; of a failed run what its on_error says.",
    ("event", "hook", "mode", "decision"),
)
HOOK_DURATION = Name(
    "hookgate_hook_duration_seconds",
    "histogram",
    "What a hook took of a call, its wait for a turn included: all its runs for an event together.",
    ("event", "hook"),
    _WORK,
)
HOOKS_WAITING = Name("hookgate_hooks_waiting", "gauge", "Runs of hooks that wait for their turn.")
HOOK_DEGRADED = Name(
    "hookgate_hook_degraded", "gauge", "1 for a hook whose last run failed.", ("event", "hook")
)
TOKENS = Name(
    "hookgate_tokens_total",
    "counter",
    "Tokens of judged calls, as the upstream counts them.",
    ("model", "team", "kind"),
)
COST = Name(
    "hookgate_cost_total",
    "counter",
    "What judged calls cost, by the price table.",
    ("model", "team", "currency"),
)
UNHOOKED = Name(
    "hookgate_unhooked_calls_total", "counter", "Generative calls that no hook judged.", ("group",)
)
BYPASSES = Name(
    "hookgate_bypasses_total", "counter", "Tools that ran without the shim having told of it.", ("kind",)
)
RELOADS = Name("hookgate_config_reloads_total", "counter", "Reloads of the hooks' settings.", ("result",))
REVISION = Name(
    "hookgate_revision_info", "gauge", "1 for the revision of the hooks' settings.", ("revision",)
)
AUDIT_QUEUED = Name("hookgate_audit_queued", "gauge", "Audit records that are not written yet.")
AUDIT_LAG = Name("hookgate_audit_lag_seconds", "gauge", "How long the oldest of them waits.")
AUDIT_FAILURES = Name(
    "hookgate_audit_failures_total", "counter", "Attempts to write to the audit that failed."
)
SPANS = Name("hookgate_spans_total", "counter", "Spans for the collector; with tracing only.", ("result",))
SPANS_QUEUED = Name("hookgate_spans_queued", "gauge", "Spans that wait for the collector; with tracing only.")

METRICS = (
    CALLS,
    IN_FLIGHT,
    STREAMS,
    HELD,
    DURATION,
    OVERHEAD,
    UPSTREAM_REQUESTS,
    UPSTREAM,
    FIRST_TOKEN,
    HOOK_RUNS,
    HOOK_DECISIONS,
    HOOK_DURATION,
    HOOKS_WAITING,
    HOOK_DEGRADED,
    TOKENS,
    COST,
    UNHOOKED,
    BYPASSES,
    RELOADS,
    REVISION,
    AUDIT_QUEUED,
    AUDIT_LAG,
    AUDIT_FAILURES,
    SPANS,
    SPANS_QUEUED,
)

LABELS = {
    "route": "`judged`, `forwarded`, `tunnel`, `event`, `receipt`, or `none` for a refused path",
    "status_class": "`2xx` … `5xx`, `left` for a client that left first, or `interrupted` "
    "for a gateway that stopped; of a request to the upstream "
    "`1xx` … `5xx`, or `none` where no answer came",
    "outcome": "of a call `answered`, `denied`, `stopped`, `synthetic` (a hook answered), "
    "`refused` (by hookgate), `failed` (the upstream), `left` or `interrupted`; "
    "of a hook's run `allowed`, `denied` or `failed`",
    "event": "one of the eleven events",
    "hook": "a hook's name in the settings",
    "mode": "`enforce` or `observe`",
    "decision": "`allow`, `ask`, `deny`, `stop`, `answer`, or `other`",
    "model": "a name or pattern of `metrics.models` or the price table, the first that fits; else `other`, "
    "or `none` for a call without a model",
    "team": "the team of the caller's key in `hookgate.toml`, or `none`",
    "kind": "of tokens `input` (not from a cache), `cached` or `output` (thoughts among them); "
    "of bypasses `unannounced`",
    "currency": "that of the price table",
    "group": "a group of `routes.unhooked`",
    "result": "of a reload `applied`, `unchanged` or `refused`; of a span `exported` or `dropped`",
    "revision": "the hash that `/readyz` tells",
}
"""What each label's values are. None of them can be made up by a client."""
