"""The declarations of all hookgate metrics. docs/metrics.md is generated from them."""

from dataclasses import dataclass
from typing import Literal

MetricKind = Literal["counter", "gauge", "histogram"]

_WAITS = (0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 20, 40, 60, 120, 300)
"""Histogram bounds in seconds for the time that users wait for a model."""
_WORK = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 60)
"""Histogram bounds in seconds for the processing time of hooks and the gateway."""


@dataclass(frozen=True, slots=True)
class MetricName:
    """One metric, by the name that queries use. `buckets` are the bounds of a histogram in seconds."""

    name: str
    kind: MetricKind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()

    @property
    def exposed(self) -> tuple[str, ...]:
        """The names that a query can use."""
        if self.kind == "histogram":
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)


CALLS = MetricName(
    "hookgate_calls_total", "counter", "Calls that have ended.", ("route", "status_class", "outcome")
)
IN_FLIGHT = MetricName("hookgate_calls_in_flight", "gauge", "Calls in progress.")
STREAMS = MetricName("hookgate_streams_open", "gauge", "Streamed answers in progress.")
HELD = MetricName(
    "hookgate_streams_held_bytes", "gauge", "Bytes of streamed answers that hooks currently hold back."
)
DURATION = MetricName(
    "hookgate_call_duration_seconds",
    "histogram",
    "Time from a call's headers to its end.",
    ("route",),
    _WAITS,
)
OVERHEAD = MetricName(
    "hookgate_overhead_seconds",
    "histogram",
    "Time until an answer began, excluding the upstream: hooks, hookgate itself, and reading the request.",
    ("route",),
    _WORK,
)
UPSTREAM_REQUESTS = MetricName(
    "hookgate_upstream_requests_total",
    "counter",
    "Requests to the upstream; if the model is asked again, one call makes several.",
    ("model", "status_class"),
)
CREDENTIAL_REQUESTS = MetricName(
    "hookgate_credential_requests_total",
    "counter",
    "Requests to the upstream that were sent, or tried, with one of the gateway's credentials.",
    ("credential", "status_class"),
)
TOKEN_REFRESHES = MetricName(
    "hookgate_token_refreshes_total",
    "counter",
    "Refreshes of access tokens for the gateway's credentials.",
    ("credential", "result"),
)
UPSTREAM = MetricName(
    "hookgate_upstream_duration_seconds",
    "histogram",
    "Time until the upstream's answer began, summed over all requests of a call.",
    ("model",),
    _WAITS,
)
FIRST_TOKEN = MetricName(
    "hookgate_first_token_seconds",
    "histogram",
    "Time from a call's headers until its streamed answer began.",
    ("model",),
    _WAITS,
)
HOOK_RUNS = MetricName(
    "hookgate_hook_runs_total",
    "counter",
    "Runs of hooks in calls that have ended.",
    ("event", "hook", "outcome"),
)
HOOK_DECISIONS = MetricName(
    "hookgate_hook_decisions_total",
    "counter",
    "Decisions of hooks, including those of observe mode; for a failed run, the decision of on_error.",
    ("event", "hook", "mode", "decision"),
)
HOOK_EDITS = MetricName(
    "hookgate_hook_edits_total",
    "counter",
    "Calls that a hook edited at an event, including those that it would have edited in observe mode.",
    ("event", "hook", "mode", "team"),
)
FINDINGS = MetricName(
    "hookgate_findings_total",
    "counter",
    "What hooks have found in calls.",
    ("event", "hook", "finding", "team"),
)
DENIALS = MetricName(
    "hookgate_denials_total",
    "counter",
    "Calls that hooks denied or stopped, or of which they blocked tool calls or answers.",
    ("outcome", "team"),
)
NEAR_LIMITS = MetricName(
    "hookgate_calls_near_limits_total",
    "counter",
    "Calls that were checked when 80 % or more of a limit was used.",
    ("measure", "window", "team"),
)
HOOK_DURATION = MetricName(
    "hookgate_hook_duration_seconds",
    "histogram",
    "Total time of all runs of a hook for an event in one call, including time in the queue.",
    ("event", "hook"),
    _WORK,
)
HOOKS_WAITING = MetricName("hookgate_hooks_waiting", "gauge", "Queued runs of hooks.")
HOOK_DEGRADED = MetricName(
    "hookgate_hook_degraded", "gauge", "1 for a hook whose last run failed.", ("event", "hook")
)
TOKENS = MetricName(
    "hookgate_tokens_total",
    "counter",
    "Tokens of judged calls, as the upstream counts them.",
    ("model", "team", "kind"),
)
COST = MetricName(
    "hookgate_cost_total",
    "counter",
    "Cost of judged calls, by the price table.",
    ("model", "team", "currency"),
)
UNHOOKED = MetricName(
    "hookgate_unhooked_calls_total", "counter", "Calls of unhooked routes, which no hook judged.", ("group",)
)
BYPASSES = MetricName("hookgate_bypasses_total", "counter", "Tool runs that no shim announced.", ("kind",))
RELOADS = MetricName("hookgate_config_reloads_total", "counter", "Reloads of hook settings.", ("result",))
REVISION = MetricName(
    "hookgate_revision_info", "gauge", "1 for the current revision of the hook settings.", ("revision",)
)
POLICY = MetricName(
    "hookgate_policy_info",
    "gauge",
    "1 for the revision of the pushed policy that is in force; only with `hooks.database`.",
    ("number", "sha256"),
)
POLICY_STATE = MetricName(
    "hookgate_policy_state",
    "gauge",
    "1 for the state of the pushed policy, 0 for the other states; only with `hooks.database`.",
    ("state",),
)
AUDIT_QUEUED = MetricName("hookgate_audit_queued", "gauge", "Audit records that are not written yet.")
AUDIT_LAG = MetricName(
    "hookgate_audit_lag_seconds", "gauge", "Age of the oldest audit record that is not written yet."
)
AUDIT_FAILURES = MetricName(
    "hookgate_audit_failures_total", "counter", "Failed attempts to write to the audit."
)
ALERTS_FIRING = MetricName(
    "hookgate_alerts_firing",
    "gauge",
    "Alerts that fire; only at the gateway that evaluates the rules.",
    ("rule",),
)
ALERT_DELIVERIES = MetricName(
    "hookgate_alert_deliveries_total",
    "counter",
    "Attempts to deliver a message about an alert.",
    ("receiver", "result"),
)
APPROVALS = MetricName(
    "hookgate_approvals_total",
    "counter",
    "Tool calls for which hooks asked, by what people have decided; only with approvals.",
    ("verdict",),
)
APPROVALS_PENDING = MetricName(
    "hookgate_approvals_pending",
    "gauge",
    "Requests for an approval that nobody has decided yet, of all gateways with the same database; only with "
    "approvals.",
)
APPROVAL_DELIVERIES = MetricName(
    "hookgate_approval_deliveries_total",
    "counter",
    "Attempts to tell a receiver of a request for an approval; only with approvals.",
    ("receiver", "result"),
)
EXPORT_RECORDS = MetricName(
    "hookgate_export_records_total",
    "counter",
    "Audit records of exports, by result; only with exports.",
    ("export", "result"),
)
EXPORT_FAILURES = MetricName(
    "hookgate_export_failures_total",
    "counter",
    "Failed attempts to deliver audit records, which are repeated; only with exports.",
    ("export",),
)
EXPORT_LAG = MetricName(
    "hookgate_export_lag_seconds",
    "gauge",
    "Age of the oldest audit record that is not delivered yet; only with exports.",
    ("export",),
)
EXPORT_QUEUED = MetricName(
    "hookgate_export_lag_records",
    "gauge",
    "Audit records that are not delivered yet; only with exports.",
    ("export",),
)
SPANS = MetricName(
    "hookgate_spans_total", "counter", "Spans for the collector; only with tracing.", ("result",)
)
SPANS_QUEUED = MetricName(
    "hookgate_spans_queued", "gauge", "Spans that are queued for the collector; only with tracing."
)

METRICS = (
    CALLS,
    IN_FLIGHT,
    STREAMS,
    HELD,
    DURATION,
    OVERHEAD,
    UPSTREAM_REQUESTS,
    CREDENTIAL_REQUESTS,
    TOKEN_REFRESHES,
    UPSTREAM,
    FIRST_TOKEN,
    HOOK_RUNS,
    HOOK_DECISIONS,
    HOOK_EDITS,
    FINDINGS,
    DENIALS,
    NEAR_LIMITS,
    HOOK_DURATION,
    HOOKS_WAITING,
    HOOK_DEGRADED,
    TOKENS,
    COST,
    UNHOOKED,
    BYPASSES,
    RELOADS,
    REVISION,
    POLICY,
    POLICY_STATE,
    AUDIT_QUEUED,
    AUDIT_LAG,
    AUDIT_FAILURES,
    ALERTS_FIRING,
    ALERT_DELIVERIES,
    APPROVALS,
    APPROVALS_PENDING,
    APPROVAL_DELIVERIES,
    EXPORT_RECORDS,
    EXPORT_FAILURES,
    EXPORT_LAG,
    EXPORT_QUEUED,
    SPANS,
    SPANS_QUEUED,
)

LABELS = {
    "measure": "what a limit counts: `requests`, `tokens` or `cost`",
    "window": "the window of a limit: `minute`, `day` or `month`",
    "route": "`judged`, `forwarded`, `live`, `tunnel`, `event`, `receipt`, or `none` for a refused path",
    "status_class": "`2xx` … `5xx`, `left` if the client disconnected first, or `interrupted` "
    "if the gateway stopped; for requests to the upstream "
    "`1xx` … `5xx`, or `none` if there was no answer",
    "outcome": "for calls `answered`, `blocked` (answered, but hooks blocked tool calls or answers), "
    "`denied`, `stopped`, `synthetic` (a hook answered), `refused` (by hookgate), `failed` (the upstream), "
    "`left` or `interrupted`; "
    "for runs of hooks `allowed`, `denied` or `failed`",
    "event": "one of the eleven events",
    "hook": "a hook's name in the settings",
    "finding": "a kind of finding, such as `EMAIL`; after the first 100 kinds of a gateway, `other`",
    "mode": "`enforce` or `observe`",
    "decision": "`allow`, `ask`, `deny`, `stop`, `answer`, or `other`",
    "model": "the first name or pattern in `metrics.models` or the price table that matches, "
    "`other` if none matches, or `none` for a call without a model. It is the model that "
    "[answered](models.md#the-model-that-answered), or else that was asked",
    "team": "the team of the caller's key or token, or `none`",
    "kind": "for tokens `input` (not from a cache), `cached` or `output` (including thoughts); "
    "for bypasses `unannounced`",
    "currency": "the currency of the price table",
    "group": "a group of `routes.unhooked`",
    "result": "for reloads `applied`, `unchanged` or `refused`; for spans `exported` or `dropped`; "
    "for access tokens `refreshed` or `failed`; for messages to receivers `delivered` or `failed`; for "
    "exports `delivered`, `refused` (by the receiver) or `missed` (removed by retention)",
    "rule": "the name of a rule of alerts",
    "receiver": "the name of a receiver of alerts",
    "verdict": "`approved`, `not made` (approved, but another call of the answer was not), `denied`, `asked` "
    "(nobody has decided yet), `timed out`, `full` (too many requests of the key), `too large` (for people) "
    "or `failed` (nobody could be asked)",
    "export": "a name in `[exports.NAME]`. The gateways of a team share an export, and show the same lag",
    "credential": "a name in `[credentials.NAME]`, `upstream.gemini_key` or `upstream.vertex_key`",
    "revision": "the hash that `/readyz` reports",
    "number": "the number of the revision of the pushed policy",
    "sha256": "the first 12 digits of the SHA-256 of its document",
    "state": "`current` if the newest revision is in force, `behind` if it cannot be used here, or `unknown` "
    "while the database cannot be read",
}
"""The values of each label. Clients cannot invent label values."""
