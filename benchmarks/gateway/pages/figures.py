"""The figures of a run: samples by load and configuration, with their medians and ratios, stored as JSON."""

import json
import os
import platform
import statistics
import subprocess
import sysconfig
from dataclasses import dataclass, field
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

from benchmarks.gateway.loads import HIGHER_IS_BETTER, Sample

ALONE = "alone"
"""The name of the measurement without a proxy: the load generator and the upstream alone."""


@dataclass(frozen=True)
class Spread:
    """The median, minimum and maximum of the rounds."""

    median: float
    minimum: float
    maximum: float

    def text(self, digits: int | None = None) -> str:
        """Return it as text, with `digits` decimals, or else about two significant digits."""
        minimum, maximum = _number(self.minimum, digits), _number(self.maximum, digits)
        return f"{_number(self.median, digits)} ({minimum}–{maximum})"


def spread(values: list[float]) -> Spread:
    """Return the spread of the values of the rounds."""
    return Spread(statistics.median(values), min(values), max(values))


def _number(value: float, digits: int | None) -> str:
    if digits is None:
        digits = max(0, 2 - len(str(int(abs(value))))) if abs(value) >= 1 else 2
    return f"{value:,.{digits}f}"


@dataclass
class Figures:
    """The figures of a run.

    Attributes:
        about: The time, machine and software of the run, as text by name.
        samples: The samples of each round, by load and configuration.
        skipped: The reasons why configurations were not measured, by their names.
    """

    about: dict[str, str] = field(default_factory=dict)
    samples: dict[str, dict[str, list[Sample]]] = field(default_factory=dict)
    skipped: dict[str, str] = field(default_factory=dict)

    def has(self, load: str, configuration: str) -> bool:
        """Return whether a configuration was measured under a load."""
        return bool(self.samples.get(load, {}).get(configuration))

    def values(self, load: str, configuration: str, name: str) -> list[float]:
        """Return the values of a figure, one per round."""
        return [sample[name] for sample in self.samples[load][configuration]]

    def spread(self, load: str, configuration: str, name: str) -> Spread:
        """Return the spread of a figure."""
        return spread(self.values(load, configuration, name))

    def ratio(self, load: str, configuration: str, base: str, name: str) -> Spread:
        """Return the ratio of a figure to that of the configuration `base` in the same round.

        The ratio of a cost or time is inverted, so that a ratio above 1 is always better than the base.
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
    """Read the figures that `write` has written."""
    value: dict[str, Any] = json.loads(path.read_text())
    return Figures(value["about"], value["samples"], value["skipped"])


def _rounded(sample: Sample) -> Sample:
    return {name: float(f"{value:.5g}") for name, value in sample.items()}


def about_this_machine() -> dict[str, str]:
    """Return the date, commit, machine and software of the run, as text by name."""
    processor = platform.processor() or platform.machine()
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            processor = line.partition(": ")[2]
            break
    optimized = "--enable-optimizations" in (sysconfig.get_config_var("CONFIG_ARGS") or "")
    build = f"configured {'with' if optimized else 'without'} --enable-optimizations"
    packages = ", ".join(f"{name} {version(name)}" for name in ("aiohttp", "orjson", "uvloop"))
    return {
        "measured": f"{datetime.now(UTC):%Y-%m-%d}",
        "commit": _commit(),
        "machine": f"{processor}, {len(os.sched_getaffinity(0))} cores, Linux {platform.release()}",
        "software": f"Python {platform.python_version()} ({build}), {packages}",
    }


def _commit() -> str:
    words = ["git", "describe", "--always", "--dirty"]
    ended = subprocess.run(words, capture_output=True, text=True, check=False, cwd=Path(__file__).parent)
    return ended.stdout.strip() or "unknown"
