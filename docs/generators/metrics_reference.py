"""docs/metrics.md, made of the metrics' declarations.

python docs/generators/metrics_reference.py > docs/metrics.md
"""

from hookgate.proxy.observe.metric_names import LABELS, METRICS, Name

_INTRODUCTION = """\
# Metrics

<!-- Made by: python docs/generators/metrics_reference.py > docs/metrics.md -->

`/metrics` of `admin.address` tells these to Prometheus, and `process_*` of the process: memory, processor
time, descriptors. Times are in seconds, sizes in bytes. A call is counted when it has ended, a stream too;
what is open just now are gauges.

- **Dashboard:** [deploy/grafana/hookgate.json](../deploy/grafana/hookgate.json), to import into Grafana.
- **Alerts:** [deploy/prometheus/alerts.yml](../deploy/prometheus/alerts.yml), a file for `rule_files`.

No label's value can be made up by a client. Name your models in `metrics.models` or give them a price to
tell them apart; the label is the name or pattern that stands there, so `gemini-2.5-pro*` is one label.

**Several gateways:** each is one process with an admin listener of its own. Scrape each of them; Prometheus
tells them apart by `instance`, and `sum` over them is right. Reloads keep all counts; a new start begins at
zero, which `rate` and `increase` know.

Tokens and cost are of calls that hooks, the audit, sessions or transcripts look at: what is copied through
unseen is not read. An upload or a tunnel has no model, and lasts as long as its client takes.
"""


def metrics_reference() -> str:
    """The page, in Markdown."""
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


def _row(name: Name) -> list[str]:
    return [f"`{name.name}`", name.kind, ", ".join(f"`{label}`" for label in name.labels), name.help]


def _table(header: list[str], rows: list[list[str]]) -> str:
    return "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows]) + "\n"


if __name__ == "__main__":
    print(metrics_reference(), end="")
