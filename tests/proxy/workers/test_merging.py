"""Merging the metrics, calls and events of several workers."""

from dataclasses import asdict

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    disable_created_metrics,
    generate_latest,
)
from prometheus_client.parser import text_string_to_metric_families

from hookgate.hooks.layers_in_force import NotInForce
from hookgate.hooks.runs import HookStatus
from hookgate.proxy.workers.supervisor import (
    first_problem,
    layers_out_of_force,
    merged_health,
    merged_metrics,
    oldest_policy,
)

disable_created_metrics()  # type: ignore[no-untyped-call]  # the gateway has no such metrics either


def page(amount: float) -> bytes:
    registry = CollectorRegistry()
    calls = Counter("calls", 'Calls\nwith "quotes".', ["reason"], registry=registry)
    calls.labels('a "b" {c} d\n').inc(amount)
    Gauge("open", "Without labels.", registry=registry).set(amount)
    Histogram("seconds", "Times.", ["route"], buckets=(1, 2), registry=registry).labels("x y").observe(amount)
    return generate_latest(registry)


def test_each_sample_says_of_which_worker_it_is_and_nothing_else_changes() -> None:
    merged = text_string_to_metric_families(merged_metrics({1: page(1.5), 3: page(7)}).decode())
    alone = {
        number: text_string_to_metric_families(page(amount).decode()) for number, amount in ((1, 1.5), (3, 7))
    }
    expected = {
        (sample.name, str(number), tuple(sorted(sample.labels.items())), sample.value)
        for number, families in alone.items()
        for family in families
        for sample in family.samples
        if not sample.name.endswith("_created")
    }
    found, names = set(), []
    for family in merged:
        names.append((family.name, family.type, family.documentation))
        for sample in family.samples:
            labels = dict(sample.labels)
            found.add((sample.name, labels.pop("worker"), tuple(sorted(labels.items())), sample.value))
    assert found == expected
    assert len(names) == len(set(names))


def test_a_hook_is_degraded_if_it_failed_at_any_worker() -> None:
    def record(runs: int, error: str = "", summary: str = "allow") -> dict[str, object]:
        return {"hook": ["BeforeModel", "guard", "x"], **vars(HookStatus(runs, 1, 2, 0.5, error, summary))}

    for reports in ([[record(3)], [record(4, "broken", "")]], [[record(4, "broken", "")], [record(3)]]):
        [(key, status)] = merged_health(reports).items()
        assert key == ("BeforeModel", "guard", "x")
        assert (status.runs, status.failures, status.denials, status.error) == (7, 2, 4, "broken")
        assert status.degraded


def test_a_warning_of_any_worker_is_kept() -> None:
    warned, fine = HookStatus(1, warning="is odd"), HookStatus(2)
    for statuses in ((warned, fine), (fine, warned)):
        reports = [[{"hook": ["BeforeModel", "guard", "x"], **vars(status)}] for status in statuses]
        [status] = merged_health(reports).values()
        assert (status.runs, status.warning) == (3, "is odd")


def test_the_first_worker_that_is_not_ready_is_named() -> None:
    ready = {"status": "ready"}
    assert first_problem({1: ready, 2: ready}) is None
    assert first_problem({1: ready, 2: None}) == {
        "status": "unready",
        "reason": "worker 2 is down, and is being restarted",
    }
    draining = {"status": "draining", "reason": "the gateway is stopping"}
    assert first_problem({1: draining, 2: ready}) == {
        "status": "draining",
        "reason": "worker 1: the gateway is stopping",
    }


def test_the_policy_of_the_worker_that_is_furthest_behind_is_shown() -> None:
    def policy(number: int, state: str) -> dict[str, object]:
        return {"policy": {"number": number, "state": state}}

    behind = policy(7, "behind")
    assert oldest_policy([policy(6, "current"), behind, None, policy(8, "current")]) == behind
    assert oldest_policy([policy(8, "current"), policy(7, "current")]) == policy(7, "current")
    assert oldest_policy([{}, None]) == {}


def test_a_layer_is_listed_once_since_the_first_worker_could_not_use_it() -> None:
    def layer(file: str, since: str) -> NotInForce:
        return NotInForce("user", file, since, "is not valid JSON")

    answers = [
        {"not_in_force": [asdict(layer("a", "2026-01-01")), asdict(layer("b", "2026-01-03"))]},
        None,
        {},
    ]
    found = layers_out_of_force([layer("a", "2026-01-02")], answers)
    assert found == [layer("a", "2026-01-01"), layer("b", "2026-01-03")]
