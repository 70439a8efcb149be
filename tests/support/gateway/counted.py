"""Reads a page of metrics for tests."""

from collections.abc import Callable
from typing import Any

from prometheus_client.parser import text_string_to_metric_families


class Counted:
    """hookgate's own samples of one page."""

    def __init__(self, page: bytes) -> None:
        self.samples = [
            sample
            for family in text_string_to_metric_families(page.decode())
            for sample in family.samples
            if sample.name.startswith("hookgate_")
        ]
        self.kinds = {
            family.name: family.type
            for family in text_string_to_metric_families(page.decode())
            if family.name.startswith("hookgate_")
        }

    def total(self, name: str, **labels: str) -> float:
        """The sum of a metric's samples that have these labels."""
        return sum(
            sample.value
            for sample in self.samples
            if sample.name == name and labels.items() <= sample.labels.items()
        )

    def values(self, name: str, label: str) -> set[str]:
        """The values that a label of the metric has."""
        return {sample.labels[label] for sample in self.samples if sample.name == name and sample.value}


def comes_to(page: Callable[[], bytes], name: str, value: float, **labels: Any) -> Callable[[], bool]:
    """Whether a metric has come to a value; for `until`."""
    return lambda: Counted(page()).total(name, **labels) == value
