"""Measures a run: starts all servers on the proxy's core, and applies each load in interleaved rounds."""

import contextlib
import gc
import os
import resource
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import orjson
from benchmarks.gateway.configurations import CONFIGURATIONS, Configuration, beside
from benchmarks.gateway.loads import LOADS, Load, NoAnswersError, Sample, Target
from benchmarks.gateway.pages.figures import ALONE, Figures, about_this_machine
from benchmarks.gateway.traffic import generator
from benchmarks.gateway.traffic.http1 import body_of, post
from benchmarks.gateway.traffic.upstream import MIRROR, SMALL
from benchmarks.payloads import FORBIDDEN, SECRET, small_request
from benchmarks.processes import Server, cores, free_port, on_core


@dataclass(frozen=True)
class Plan:
    """The loads and configurations to measure.

    Attributes:
        loads: Names of loads, in order.
        only: Names of configurations. If it is empty, the default configurations of each load are measured.
        rounds: The number of rounds. Each round measures all configurations in turn.
        other: Another checkout whose gateway is also measured in the same rounds.
    """

    loads: Sequence[str]
    only: Sequence[str] = ()
    rounds: int = 5
    other: Path | None = None

    def configurations(self, load: str) -> list[str]:
        """Return the names of the configurations to measure under a load.

        Those of the other checkout are `NAME+FOLDER`, with the name of its folder.
        """
        names = [name for name in CONFIGURATIONS if name in (self.only or LOADS[load].configurations)]
        others = [f"{name}+{self.other.name}" for name in names if self.other and CONFIGURATIONS[name].ours]
        return [*names, *others]

    def configuration(self, name: str) -> Configuration:
        """Return a configuration by its name."""
        plain, _, other = name.partition("+")
        return beside(plain, self.other) if other and self.other else CONFIGURATIONS[plain]


def measure(plan: Plan, done: Callable[[Figures, str], None]) -> None:
    """Measure configurations under loads.

    Args:
        plan: The loads and configurations.
        done: Called after each load with all figures up to then, and the name of the load.
    """
    names = dict.fromkeys(name for load in plan.loads for name in plan.configurations(load))
    configurations = {name: plan.configuration(name) for name in names}
    figures = Figures(about_this_machine())
    figures.skipped = {name: each.missing for name, each in configurations.items() if each.missing}
    with contextlib.ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        targets = stack.enter_context(
            running_targets({n: each for n, each in configurations.items() if not each.missing}, folder)
        )
        noise = _Noise(folder)
        for load in plan.loads:
            measured = [name for name in plan.configurations(load) if name in targets]
            chosen = [ALONE, *measured] if LOADS[load].alone else measured
            figures.samples[load] = _rounds(load, {name: targets[name] for name in chosen}, plan.rounds)
            figures.about |= noise.circumstances()
            done(figures, load)


@contextlib.contextmanager
def running_targets(configurations: Mapping[str, Configuration], folder: Path) -> Iterator[dict[str, Target]]:
    """Start the upstream and all servers, check them, and move this process to the core of the load.

    Args:
        configurations: The configurations to start, by name.
        folder: An empty folder.

    Yields:
        The targets by name, including the upstream as `ALONE`.
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    usable = os.sched_getaffinity(0)
    with contextlib.ExitStack() as stack:
        origin = stack.enter_context(upstream())
        targets = {ALONE: Target(origin, upstream)}
        for name, configuration in configurations.items():
            (folder / name).mkdir()
            start = partial(configuration.start, origin.url, folder / name)
            targets[name] = Target(stack.enter_context(start()), start)
            check(configuration, targets[name].server.url)
        os.sched_setaffinity(0, {cores()[0]})
        gc.collect()
        gc.freeze()
        try:
            yield targets
        finally:
            os.sched_setaffinity(0, usable)


def _rounds(load: str, targets: Mapping[str, Target], rounds: int) -> dict[str, list[Sample]]:
    samples: dict[str, list[Sample]] = {name: [] for name in targets}
    order = list(targets)
    for number in range(rounds):
        for name in order:
            _progress(f"{load}: round {number + 1} of {rounds}, {name}")
            gc.collect()
            samples[name].append(_measure_round(LOADS[load], targets[name]))
        order.append(order.pop(0))  # so that each configuration begins a round at some time
    _progress("")
    return samples


def _measure_round(load: Load, target: Target) -> Sample:
    """Return the figures of a round. It is repeated if the machine was too busy to answer any call."""
    for _ in range(4):
        with contextlib.suppress(NoAnswersError):
            return load.round(target)
    return load.round(target)


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"\r\x1b[K{text}", end="", file=sys.stderr, flush=True)


@contextlib.contextmanager
def upstream() -> Iterator[Server]:
    """Start the upstream, on the core of the load."""
    port = free_port()
    argv = [sys.executable, "-m", "benchmarks.gateway.traffic.upstream", str(port)]
    with on_core(argv, port, cores()[0]) as server:
        yield server


def check(configuration: Configuration, url: str) -> None:
    """Check that a server answers, denies and masks as its configuration says.

    Raises:
        RuntimeError: The server behaves differently.
    """
    mirrored = _answer(url, MIRROR, SECRET)
    if (SECRET.encode() not in mirrored) != configuration.masks:
        raise RuntimeError(f"{configuration.title}: a secret got the answer {mirrored.decode()}")
    denied = _answer(url, SMALL, FORBIDDEN)
    if (b"forbidden" in denied.lower() or b"denied" in denied) != configuration.denies:
        raise RuntimeError(f"{configuration.title}: the forbidden word got the answer {denied.decode()}")


def _answer(url: str, path: str, text: str) -> bytes:
    """Return the body of the answer to a small call, whatever its status."""

    async def call() -> bytes:
        connection = await generator.connect(url)
        try:
            answer = await connection.call(post(path, "gateway.test", orjson.dumps(small_request(text))))
            return body_of(answer.data())
        except generator.AnswerError as error:
            return str(error).encode()
        finally:
            connection.close()

    return generator.run(call)


class _Noise:
    """Measures what may disturb a run: the hypervisor, other programs, and the disk."""

    def __init__(self, folder: Path) -> None:
        self._began, self._stolen, self._folder = time.monotonic(), _steal(), folder

    def circumstances(self) -> dict[str, str]:
        """Return the figures of the disturbances up to now, as text by name."""
        seconds = (time.monotonic() - self._began) * (os.cpu_count() or 1)
        return {
            "taken by the hypervisor": f"{(_steal() - self._stolen) / seconds:.1%}",
            "load average at the end": f"{os.getloadavg()[0]:.1f}",
            "flush of the disk, ms": f"{_flush_seconds(self._folder) * 1e3:.2f}",
        }


def _flush_seconds(folder: Path) -> float:
    """Return the median time in seconds to write 4 KB and flush them to disk."""
    times = []
    with (folder / "flush").open("wb", buffering=0) as file:
        for _ in range(51):
            began = time.perf_counter()
            file.write(bytes(4096))
            os.fdatasync(file.fileno())
            times.append(time.perf_counter() - began)
    return statistics.median(times)


def _steal() -> float:
    fields = Path("/proc/stat").read_text().split("\n", 1)[0].split()
    return int(fields[8]) / os.sysconf("SC_CLK_TCK")
