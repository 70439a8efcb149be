"""The declared metrics are those that are exported, documented and used by dashboards and alerts."""

import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from generators.metrics_reference import metrics_reference
from support.gateway.counted import Counted
from support.gateway.life import gateway_with
from support.gateway.loopback import running_upstream, says, write_settings
from support.operating.promql import used
from support.places import PROJECT
from support.wire import HI, SSE, post

from hookgate.hooks import Engine
from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.settings import SettingsSource
from hookgate.proxy.observe.metric_names import LABELS, METRICS
from hookgate.proxy.observe.metrics import Metrics

DASHBOARD = json.loads((PROJECT / "deploy/grafana/hookgate.json").read_text())
ALERTS = (PROJECT / "deploy/prometheus/alerts.yml").read_text()
_OF_EXPORTS = ("failures_total", "lag_seconds", "lag_records")
PROCESS = {"process_resident_memory_bytes", "process_cpu_seconds_total", "process_open_fds", "up"}
KNOWN = {exposed: set(name.labels) for name in METRICS for exposed in name.exposed} | {
    name: set() for name in PROCESS
}


async def test_a_page_contains_exactly_the_metrics_that_are_declared(tmp_path: Path) -> None:
    metrics = Metrics()
    file = write_settings(tmp_path, {"AfterModel": [says()]})
    live = EngineReloader(
        lambda: [SettingsSource(file)], lambda settings, health: Engine(settings, health=health)
    )
    metrics.expose_engine(live)
    metrics.expose_audit(SimpleNamespace(queued=2, lag_seconds=0.5, failures=1))
    revision = SimpleNamespace(number=7, sha256=b"\xab" * 32)
    metrics.expose_pushed_policy(SimpleNamespace(revision=revision, state="behind"))
    metrics.expose_tokens([SimpleNamespace(name="cloud", results={"failed": 6})])
    metrics.expose_alerts(SimpleNamespace(firing={"denials": 2}, results={("ops", "failed"): 8}))
    metrics.expose_approvals(
        SimpleNamespace(results={"denied": 4}, pending=3, deliveries={("ops", "delivered"): 6})
    )
    export = {"results": {"refused": 2}, "failures": 3, "lag_seconds": 1.5, "lag_records": 7}
    metrics.expose_exports([SimpleNamespace(name="siem", **export)])
    metrics.expose_spans(SimpleNamespace(queued=3, results={"exported": 4, "dropped": 5}))
    async with (
        running_upstream() as (upstream_url, _),
        gateway_with(upstream_url, {"AfterModel": [says()]}, metrics=metrics) as url,
    ):
        await post(url, SSE, HI)
    await live.close()
    found = Counted(metrics.page())
    assert found.kinds == {name.name.removesuffix("_total"): name.kind for name in METRICS}
    declared = {exposed: set(name.labels) for name in METRICS for exposed in name.exposed}
    for sample in found.samples:
        assert set(sample.labels) - {"le"} == declared[sample.name]
    audit = [found.total(f"hookgate_audit_{name}") for name in ("queued", "lag_seconds", "failures_total")]
    assert audit == [2, 0.5, 1]
    assert found.total("hookgate_spans_total", result="dropped") == 5
    assert found.total("hookgate_alerts_firing", rule="denials") == 2
    assert found.total("hookgate_alert_deliveries_total", receiver="ops", result="failed") == 8
    assert found.total("hookgate_approvals_total", verdict="denied") == 4
    assert found.total("hookgate_approvals_pending") == 3
    assert found.total("hookgate_approval_deliveries_total", receiver="ops", result="delivered") == 6
    exported = [
        found.total("hookgate_export_records_total", export="siem", result="refused"),
        *(found.total(f"hookgate_export_{name}", export="siem") for name in _OF_EXPORTS),
    ]
    assert exported == [2, 3, 1.5, 7]
    assert found.total("hookgate_policy_info", number="7", sha256="abababababab") == 1
    states = {
        state: found.total("hookgate_policy_state", state=state) for state in ("current", "behind", "unknown")
    }
    assert states == {"current": 0, "behind": 1, "unknown": 0}
    assert found.total("hookgate_token_refreshes_total", credential="cloud", result="failed") == 6


@pytest.mark.parametrize("name", METRICS, ids=lambda name: name.name)
def test_names_follow_prometheus(name: Any) -> None:
    assert re.fullmatch(r"hookgate_[a-z_]+[a-z]", name.name)
    assert name.name.endswith("_total") == (name.kind == "counter")
    assert name.name.endswith("_seconds") or name.kind != "histogram"
    assert bool(name.buckets) == (name.kind == "histogram")
    assert list(name.buckets) == sorted(set(name.buckets))
    assert name.help.endswith(".")
    assert set(name.labels) <= LABELS.keys()


def test_every_label_that_is_described_is_used() -> None:
    assert {label for name in METRICS for label in name.labels} == LABELS.keys()


def test_the_page_of_the_documentation_is_up_to_date() -> None:
    page = (PROJECT / "docs/metrics.md").read_text(encoding="utf-8")
    assert page == metrics_reference(), "run: python docs/generators/metrics_reference.py > docs/metrics.md"


# ---- the dashboard and the alerts


def expressions() -> list[Any]:
    """Every expression of the dashboard and the alerts, by where it is."""
    panels = [panel for panel in DASHBOARD["panels"] if panel["type"] != "row"]
    found = [
        pytest.param(target["expr"], id=f"{panel['title']}-{target['refId']}")
        for panel in panels
        for target in panel["targets"]
    ]
    names, exprs = re.findall(r"- alert: (\w+)", ALERTS), re.findall(r"(?m)^ +expr: (.+)$", ALERTS)
    return found + [pytest.param(expr, id=name) for name, expr in zip(names, exprs, strict=True)]


@pytest.mark.parametrize("expression", expressions())
def test_expressions_use_metrics_and_labels_that_exist(expression: str) -> None:
    found = used(expression)
    assert found.metrics
    for metric, labels in found.metrics.items():
        assert metric in KNOWN
        assert labels <= KNOWN[metric], metric
    assert found.grouped <= set.union(*(KNOWN[metric] for metric in found.metrics))


def test_every_metric_is_on_the_dashboard() -> None:
    shown = {metric for param in expressions() for metric in used(param.values[0]).metrics}
    assert [name.name for name in METRICS if not shown & set(name.exposed)] == []


def test_the_dashboard_can_be_imported_anywhere() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {each["name"]: each for each in DASHBOARD["templating"]["list"]}
    assert variables["datasource"]["query"] == "prometheus"
    source = {"type": "prometheus", "uid": "${datasource}"}
    for panel in panels:
        assert panel["type"] == "row" or panel["datasource"] == source
    places = [(panel["gridPos"]["x"] + panel["gridPos"]["w"]) for panel in panels]
    assert max(places) == 24
    assert "id" not in DASHBOARD


@pytest.mark.parametrize(
    "expression",
    [
        pytest.param("sum(rate(x[5m])", id="open bracket"),
        pytest.param("summ(x)", id="no function"),
        pytest.param("x[5]", id="no range"),
        pytest.param("x{a='b'}", id="no text"),
    ],
)
def test_an_invalid_expression_is_found(expression: str) -> None:
    with pytest.raises(ValueError, match=r"is no|is left open"):
        used(expression)


def test_the_metrics_and_labels_of_an_expression_are_found() -> None:
    found = used('sum by (model, le) (rate(a_bucket{kind=~"x|y",job="j"}[5m])) / on (team) b > 0.5')
    assert found.metrics == {"a_bucket": {"kind"}, "b": set()}
    assert found.grouped == {"model", "team"}
