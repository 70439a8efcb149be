"""How soon `/healthz` answers, asked from a process of its own: `python -m soak.prober URL FILE`.

FILE gets one line for each answer: its seconds, or `inf` when none came within five seconds, and the seconds
of them that the hypervisor took from the processor from which it took the most. Where the system allows it,
the prober is scheduled before all other programs: the clients of the soak take a whole processor, and the
time that the prober itself would wait for one is no time of the gateway's.
"""

import contextlib
import os
import sys
import time
import urllib.request
from pathlib import Path

_EVERY = 0.05  # seconds
_PATIENCE = 5.0  # seconds


_TICK = 1 / os.sysconf("SC_CLK_TCK")  # seconds
_STEAL = 8  # the column of /proc/stat with the ticks that the hypervisor took from a processor


def _stolen() -> list[float]:
    """Return the seconds that the hypervisor has taken from each processor since the machine was started."""
    lines = Path("/proc/stat").read_text().splitlines()[1:]
    return [int(line.split()[_STEAL]) * _TICK for line in lines if line.startswith("cpu")]


def _seconds_to_answer(url: str) -> float:
    began = time.perf_counter()
    try:
        with urllib.request.urlopen(f"{url}/healthz", timeout=_PATIENCE) as answer:  # noqa: S310  # loopback
            answer.read()
    except OSError:
        return float("inf")
    return time.perf_counter() - began


def main() -> None:
    with contextlib.suppress(PermissionError):
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    with Path(sys.argv[2]).open("w", buffering=1) as file:
        while True:  # its parent ends it
            before = _stolen()
            seconds = _seconds_to_answer(sys.argv[1])
            stolen = max(after - begin for begin, after in zip(before, _stolen(), strict=True))
            file.write(f"{seconds} {stolen}\n")
            time.sleep(_EVERY)


if __name__ == "__main__":
    main()
