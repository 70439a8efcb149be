"""Takes the profiles of docs/performance.md: the processor time of a call and of an event, by part.

python -m benchmarks.gateway.profiles benchmarks/figures/profiles.json
"""

import json
import sys
from dataclasses import dataclass
from pathlib import Path

from benchmarks.gateway.quick import BURSTS
from benchmarks.gateway.sampling import profile

_PROFILES = {
    "an agent’s call, runtime hooks": ("runtime", "agent's call"),
    "a stream’s event, runtime hooks": ("runtime", "stream's event"),
    "an agent’s call, redact": ("redact", "agent's call"),
    "a stream’s event, redact": ("redact", "stream's event"),
}


@dataclass(frozen=True)
class Profiles:
    """Profiles by title: the microseconds per call or event, and the share (0 to 1) of each part."""

    by_title: dict[str, tuple[float, dict[str, float]]]

    def table(self) -> list[list[str]]:
        """Return the cells of a table: a header, a row for each part, and the sums."""
        parts = sorted(
            {part for _, shares in self.by_title.values() for part in shares},
            key=lambda part: -max(shares.get(part, 0) for _, shares in self.by_title.values()),
        )
        rows = [["part", *self.by_title]]
        for part in parts:
            cells = [
                f"{micros * shares[part]:,.0f} µs ({shares[part]:.0%})" if part in shares else ""
                for micros, shares in self.by_title.values()
            ]
            rows.append([part, *cells])
        return [*rows, ["**all**", *(f"**{micros:,.0f} µs**" for micros, _ in self.by_title.values())]]


def read_profiles(path: Path) -> Profiles:
    """Read the file that `take` has written."""
    return Profiles(
        {title: (micros, shares) for title, (micros, shares) in json.loads(path.read_text()).items()}
    )


def take(path: Path) -> None:
    """Take all profiles, print them, and write their parts to a file."""
    found = {}
    for title, (configuration, burst) in _PROFILES.items():
        taken = profile(configuration, BURSTS[burst].microseconds, seconds=10)
        print(f"{title}: {taken.text()}\n")
        found[title] = (
            float(f"{taken.microseconds:.4g}"),
            {part: round(share, 4) for part, share in taken.parts()},
        )
    path.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n")


if __name__ == "__main__":
    take(Path(sys.argv[1]))
