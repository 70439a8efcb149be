"""A sampling profiler: records the stacks of a gateway's threads every few milliseconds of processor time.

`python -m benchmarks.gateway.sampling FILE serve …` starts a gateway with the profiler. The first SIGUSR2
starts sampling; the second one stops it and writes FILE.
"""

import contextlib
import json
import os
import signal
import statistics
import sys
import tempfile
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from types import FrameType
from typing import Any

from benchmarks.gateway.configurations import CONFIGURATIONS
from benchmarks.gateway.measuring import upstream
from benchmarks.processes import Server

PARTS = {
    "hookgate.translator.strictjson": "strict JSON parsing",
    "hookgate.translator": "views, edits and streams (translator)",
    "hookgate.hooks.policies": "policies",
    "hookgate.hooks": "the engine and the hooks",
    "hookgate.proxy.server": "clients' connections and bodies (proxy/server)",
    "hookgate.proxy.upstream": "the client for the upstream (proxy/upstream)",
    "hookgate.proxy.calls": "the stages of a call (proxy/calls)",
    "hookgate.proxy.audit": "the audit",
    "hookgate.proxy.store": "the audit",
    "sqlalchemy": "the audit",
    "hookgate.proxy.observe": "record, log and metrics (proxy/observe)",
    "hookgate.proxy.keys": "callers (proxy/keys)",
    "hookgate.proxy.sessions": "sessions (proxy/sessions)",
    "hookgate.proxy.routes": "routes and headers (proxy/routes)",
    "aiohttp": "aiohttp, server and client",
    "asyncio": "the event loop",
    "selectors": "waiting for sockets",
    "": "threads that ended before they were sampled",
}
"""The parts of a profile by the prefix of a module's name. The first matching prefix applies."""

_LIBRARIES = ("aiohttp", "asyncio", "selectors", "sqlalchemy")


class Sampler:
    """Adds up the processor time of all threads by module and function.

    A timer of processor time interrupts the main thread. The time that each thread has used since the
    previous sample is attributed to the function that it is running.
    """

    def __init__(self) -> None:
        self.seconds: Counter[tuple[str, str]] = Counter()
        self._used: dict[int, float] = {}

    def start(self) -> None:
        """Start sampling."""
        self._used = {ident: _used_by(ident) for ident in sys._current_frames()}
        signal.setitimer(signal.ITIMER_PROF, 0.001, 0.001)

    def stop(self) -> None:
        """Stop sampling."""
        signal.setitimer(signal.ITIMER_PROF, 0)

    def sample(self, _: int, interrupted: FrameType | None) -> None:
        """Take one sample. This is the handler of the timer's signal."""
        main_thread = threading.main_thread().ident
        for ident, frame in sys._current_frames().items():
            used = _used_by(ident)
            place = _place(interrupted if ident == main_thread else frame)
            self.seconds[place] += used - self._used.get(ident, 0.0)
            self._used[ident] = used


def _used_by(thread: int) -> float:
    return time.clock_gettime(time.pthread_getcpuclockid(thread))


def main() -> None:
    """Start the gateway with a sampler that waits for SIGUSR2."""
    path, sampler = Path(sys.argv.pop(1)), Sampler()

    def switch(_: int, __: FrameType | None) -> None:
        if not signal.getitimer(signal.ITIMER_PROF)[1]:
            sampler.start()
            return
        sampler.stop()
        whole = path.with_suffix(".part")
        whole.write_text(json.dumps([[*place, seconds] for place, seconds in sampler.seconds.items()]))
        whole.rename(path)

    signal.signal(signal.SIGPROF, sampler.sample)
    signal.signal(signal.SIGUSR2, switch)
    from hookgate.proxy.__main__ import main as gateway  # noqa: PLC0415  # as `hookgate` itself is started

    sys.exit(gateway())


def _place(frame: FrameType | None) -> tuple[str, str]:
    """Return the innermost module and function of hookgate, or of a library with a part of its own."""
    while frame:
        module = frame.f_globals.get("__name__", "")
        if module.startswith("hookgate.") or module.partition(".")[0] in _LIBRARIES:
            return module, frame.f_code.co_qualname
        frame = frame.f_back
    return "", ""


class Profile:
    """The processor time of a gateway under a load.

    Attributes:
        microseconds: The processor time per call or event.
        places: The seconds of processor time by module and function.
    """

    def __init__(self, microseconds: float, places: Mapping[tuple[str, str], float]) -> None:
        self.microseconds = microseconds
        self.places = places
        self._seconds = sum(places.values())

    def parts(self) -> list[tuple[str, float]]:
        """Return the share of each part, the largest first."""
        shares: dict[str, float] = defaultdict(float)
        for (module, _), seconds in self.places.items():
            part = next(title for prefix, title in PARTS.items() if module.startswith(prefix))
            shares[part] += seconds / self._seconds
        return sorted(shares.items(), key=lambda item: -item[1])

    def functions(self, count: int) -> list[tuple[str, float]]:
        """Return the shares of the `count` functions that take the most time, the largest first."""
        found = sorted(self.places.items(), key=lambda item: -item[1])[:count]
        return [
            (f"{module}:{name}" if module else PARTS[""], seconds / self._seconds)
            for (module, name), seconds in found
        ]

    def text(self) -> str:
        """Return the profile as text, by part and by function."""
        rows = [
            ("by part", self.parts()),
            ("by function, including the libraries that it calls", self.functions(25)),
        ]
        lines = [f"{self.microseconds:,.0f} us of processor time per call or event"]
        for title, shares in rows:
            lines += [f"  {title}", *(f"    {share:6.1%}  {name}" for name, share in shares)]
        return "\n".join(lines)


def profile(configuration: str, load: Callable[[Server], float], seconds: float = 6) -> Profile:
    """Profile a configuration of the gateway under a load.

    Args:
        configuration: The name of the configuration.
        load: Puts a short load on the server. Returns the microseconds per call or event.
        seconds: The time for which the load is repeated.
    """
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        file = folder / "samples.json"
        command = (sys.executable, "-m", "benchmarks.gateway.sampling", str(file))
        origin = stack.enter_context(upstream()).url
        start: Callable[..., Any] = partial(CONFIGURATIONS[configuration].start, command=command)
        server = stack.enter_context(start(origin, folder))
        load(server)
        os.kill(server.pid, signal.SIGUSR2)
        end = time.monotonic() + seconds
        costs = [load(server)]
        while time.monotonic() < end:
            costs.append(load(server))
        os.kill(server.pid, signal.SIGUSR2)
        while not file.exists():
            time.sleep(0.01)
        places = {(module, name): seconds for module, name, seconds in json.loads(file.read_text())}
        return Profile(statistics.median(costs), places)


if __name__ == "__main__":
    main()
