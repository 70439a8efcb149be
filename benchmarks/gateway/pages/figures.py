"""The figures of a run: samples by load and configuration, their medians and ratios, and the JSON file."""

import json
import os
import platform
import statistics
import subprocess
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.gateway.loads import HIGHER_IS_BETTER, Sample

ALONE = "alone"
"""The name under which the generator and the upstream without a proxy are measured."""


@dataclass(frozen=True)
class Spread:
    """A median, with the least and the greatest of the rounds."""

    median: float
    least: float
    most: float

    def text(self, digits: int | None = None) -> str:
        """Return it as text, with three significant digits unless a number of decimals is given."""
        return f"{_number(self.median, digits)} ({_number(self.least, digits)}–{_number(self.most, digits)})"


def spread(values: list[float]) -> Spread:
    """Summarize the values of the rounds."""
    return Spread(statistics.median(values), min(values), max(values))


def _number(value: float, digits: int | None) -> str:
    if digits is None:
        digits = max(0, 2 - len(str(int(abs(value))))) if abs(value) >= 1 else 2
    return f"{value:,.{digits}f}"


@dataclass
class Figures:
    """What a run measured.

    Attributes:
        about: When and where it was measured, as text by name.
        samples: The samples of each round, by load and configuration.
        skipped: Why a configuration was not measured, by name.
    """

    about: dict[str, str] = field(default_factory=dict)
    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def has(self, load: str, configuration: str) -> bool:
        """Return whether a configuration was measured under a load."""
        return bool(self.samples.get(load, {}).get(configuration))

    def values(self, load: str, configuration: str, name: str) -> list[float]:
        """Return a figure of each round."""
        return [sample[name] for sample in self.samples[load][configuration]]

    def spread(self, load: str, configuration: str, name: str) -> Spread:
        """Return the spread of a figure."""
        return spread(self.values(load, configuration, name))

    def ratio(self, load: str, configuration: str, base: str, name: str) -> Spread:
        """Return how much better or worse a figure is than that of another configuration in the same round.

        More than 1 is better: rates are divided by the base, costs and times divide it.
        """
        pairs = zip(self.values(load, configuration, name), self.values(load, base, name), strict=True)
        return spread([one / other if name in HIGHER_IS_BETTER else other / one for one, other in pairs])


def write(figures: Figures, path: Path) -> None:
    """Write the raw figures as JSON, rounded to five significant digits."""
    samples = {
        load: {name: [_rounded(sample) for sample in each] for name, each in configurations.items()}
        for load, configurations in figures.samples.items()
    }
    value = {"about": figures.about, "skipped": figures.skipped, "samples": samples}
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value, indent=1) + "\n")


def read(path: Path) -> Figures:
    """Read what `write` wrote."""
    value: dict[str, Any] = json.loads(path.read_text())
    return Figures(value["about"], value["samples"], value["skipped"])


def _rounded(sample: Sample) -> Sample:
    return {name: float(f"{value:.5g}") for name, value in sample.items()}


def about_this_machine() -> dict[str, str]:
    """Return when and where the run takes place."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(": ")[2]
            break
    packages = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "orjson", "uvloop"))
    return {
        "measured": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": _commit(),
        "machine": f"{processor}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}",
        "software": f"Python {platform.python_version()}, {packages}",
    }


def _commit() -> str:
    words = ["git", "describe", "--always", "--dirty"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return ended.stdout.strip() or "unknown"
