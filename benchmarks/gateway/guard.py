"""Guards the instructions of calls: fails if a load takes over 3 % more of them than was recorded.

    python -m benchmarks.gateway.guard [--record]

Counts are compared as multiples of what a small call takes in the naive floor, which is counted in the same
run: interpreters and libraries that are built otherwise differ by more than 3 %. Counts of one interpreter
differ by 1 or 2 %, as what runs at intervals adds to some of them. So the higher one of two counts is
recorded, and if a load exceeds its bound, all are counted again. After a change that needs the instructions,
or saves some, record the counts anew.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.gateway.instructions import COUNTED_ENVIRONMENT, MISSING, Counts, count

RECORDED = Path(__file__).with_name("instructions.json")
TOLERANCE = 0.03
GUARDED = {
    "plain": ("small call", "event, many in a read"),
    "runtime": ("small call", "conversation of 40 turns, per call", "event, many in a read"),
    "redact": ("small call", "conversation of 40 turns, per call", "event, many in a read"),
}
"""The loads that are counted, by configuration."""


def measure() -> Counts:
    """Return the guarded counts, as multiples of the yardstick."""
    yardstick = count("naive", ["small call"])["small call"]
    return {
        name: {load: found / yardstick for load, found in count(name, loads).items()}
        for name, loads in GUARDED.items()
    }


def worse(found: Counts, recorded: Counts) -> Counts:
    """Return the ratios to the recorded counts that exceed the tolerance."""
    return {
        name: {
            load: ratio
            for load, value in loads.items()
            if (ratio := value / recorded[name][load]) > 1 + TOLERANCE
        }
        for name, loads in found.items()
    }


def _each(choose: Callable[[float, float], float], one: Counts, other: Counts) -> Counts:
    return {
        name: {load: round(choose(value, other[name][load]), 4) for load, value in loads.items()}
        for name, loads in one.items()
    }


def main() -> int:
    """Compare the counts with the recorded ones, or record them. Returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--record", action="store_true", help=f"write {RECORDED.name}")
    given = parser.parse_args()
    if MISSING:
        print(MISSING, file=sys.stderr)
        return 1
    os.environ |= COUNTED_ENVIRONMENT
    found = measure()
    if given.record:
        recorded = _each(max, found, measure())
        RECORDED.write_text(json.dumps(recorded, indent=1) + "\n")
        return 0
    recorded = json.loads(RECORDED.read_text())
    exceeded = worse(found, recorded)
    if any(exceeded.values()):
        found = _each(min, found, measure())
        exceeded = worse(found, recorded)
    print(f"instructions, as a ratio to the recorded ones; at most {1 + TOLERANCE:.2f}")
    for name, loads in found.items():
        for load, value in loads.items():
            verdict = "WORSE" if load in exceeded[name] else "ok"
            print(f"  {f'{load}: {name}':48} {value / recorded[name][load]:6.3f}  {verdict}")
    return 1 if any(exceeded.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
