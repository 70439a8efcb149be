"""Generate docs/metrics.md from the declarations of the metrics.

python docs/generators/metrics_reference.py > docs/metrics.md
"""

from hookgate.proxy.observe.metric_names import LABELS, METRICS, MetricName

_INTRODUCTION = """\
# Metrics

<!-- Made by: python docs/generators/metrics_reference.py > docs/metrics.md -->

    curl http://127.0.0.1:9787/metrics

`/metrics` of `admin.address` exports these metrics for Prometheus, and the `process_*` metrics. Times are in
seconds, sizes in bytes. Calls, including streams, are counted when they have ended; gauges show the current
state. [A dashboard](../deploy/grafana/hookgate.json) for Grafana and
[alerts](../deploy/prometheus/alerts.yml), a file for `rule_files`, use them.

Clients cannot choose the value of any label. To distinguish your models, list them in `metrics.models` or
give them a price. The label is the listed name or pattern, so `gemini-3.1-pro*` is one label.

Scrape the admin listener of each gateway, and `sum` over `instance`. Reloads keep all counts; a restart
resets them to zero, which `rate` and `increase` handle. With `listen.workers`, each sample has the label
`worker` besides; sum over it, except for `hookgate_revision_info`, `hookgate_policy_info`,
`hookgate_policy_state` and `hookgate_hook_degraded`.

Tokens and cost are counted only for calls on judged routes, even if no hook inspects these calls. An upload
or a tunnel (a WebSocket that is forwarded) has no model, and lasts as long as its client keeps it open.
"""


def metrics_reference() -> str:
    """Return the page as Markdown."""
    metrics = [_row(name) for name in METRICS]
    labels = [[f"`{label}`", meaning] for label, meaning in LABELS.items()]
    return "\n".join(
        [
            _INTRODUCTION,
            "## Names\n",
            _table(["metric", "kind", "labels", "meaning"], metrics),
            "## Labels\n",
            _table(["label", "values"], labels).rstrip("\n"),
            "",
        ]
    )


def _row(name: MetricName) -> list[str]:
    return [f"`{name.name}`", name.kind, ", ".join(f"`{label}`" for label in name.labels), name.help]


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows]) + "\n"


if __name__ == "__main__":
    print(metrics_reference(), end="")
