"""The loads by name: each sends certain calls in a certain way, and measures the figures of one round."""

import itertools
import re
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import cache, partial
from typing import Any

import orjson
from benchmarks.gateway.traffic import generator, wrk
from benchmarks.gateway.traffic.http1 import post
from benchmarks.gateway.traffic.upstream import AGENT, PACE, PACED, SENT_AT, SMALL, STREAM, WAITING
from benchmarks.payloads import EVENTS, LARGE_BYTES, agent_request, secret_request, small_request
from benchmarks.processes import Server, cores

Sample = dict[str, float]
"""The figures of one round by name; the name ends with the unit."""

CALLS, CPU_CALL = "calls/s", "CPU us/call"
EVENT_RATE, CPU_EVENT, CPU_STREAM = "events/s", "CPU us/event", "CPU ms/stream"
FIRST, DELAY, DELAY_P99 = "first event ms", "event delay ms", "event delay p99 ms"
P50, P99, WORST = "p50 ms", "p99 ms", "worst ms"
BESIDE, PER_STREAM, RESIDENT = "calls/s beside / without", "KiB/stream", "bytes"
START, REST, LOADED = "start s", "at rest MB", "under load MB"

HIGHER_IS_BETTER = {CALLS, EVENT_RATE, BESIDE}

PEERS = ("nginx", "copying", "naive", "litellm", "mitmproxy")
IN_PROCESS = ("plain", "runtime", "unaudited", "unused", "redact", "observe")
PROGRAMS = ("persistent", "http", "command")

IDLE_STREAMS = 1000


@dataclass(frozen=True)
class Target:
    """A server to measure under a load.

    Attributes:
        server: The running server.
        start: Starts another server of the same configuration.
    """

    server: Server
    start: Callable[[], AbstractContextManager[Server]]


@dataclass(frozen=True)
class Load:
    """A load.

    Attributes:
        description: The load and the way its figures are measured, in one or two sentences.
        configurations: The names of the configurations to measure by default.
        round: Puts the load on a target once. Returns the figures.
        alone: Whether the load can also be put on the upstream, without a proxy.
    """

    description: str
    configurations: tuple[str, ...]
    round: Callable[[Target], Sample]
    alone: bool = True


class NoAnswersError(Exception):
    """Raised when no call of a round was answered."""


# ---- the requests: each belongs to another session


@dataclass(frozen=True)
class Kind:
    """A kind of call.

    Attributes:
        description: Its request and answer.
        path: The path and query.
        make_body: Returns the body for the text of the first turn.
        sessions: The number of requests, each of which belongs to another session.
    """

    description: str
    path: str
    make_body: Callable[[str], dict[str, Any]]
    sessions: int = 16


_OF_AGENTS = "Unary calls of 122 KB like those of coding agents, answered with a function call of 2.6 KB"

SMALL_CALL = Kind("Unary calls of 0.1 KB, answered with 0.7 KB", SMALL, small_request)
AGENT_CALL = Kind(_OF_AGENTS, AGENT, lambda first: agent_request(first=first))
SECRET_CALL = Kind(
    f"{_OF_AGENTS}, with a credential in one tool result",
    AGENT,
    lambda first: secret_request(first=first),
)
LARGE_CALL = Kind(
    "Unary calls of 5 MB with the same kinds of parts, answered with 0.7 KB",
    SMALL,
    lambda first: agent_request(LARGE_BYTES, first),
    sessions=2,
)
STREAM_CALL = Kind(f"Streams of {EVENTS} events of 0.7 KB", STREAM, small_request)
PACED_CALL = Kind(f"Streams of {EVENTS} events, one every {PACE * 1e3:.0f} ms", PACED, small_request)
WAITING_CALL = Kind("Streams that wait after their first event", WAITING, small_request)
AGENT_STREAM = Kind("Streamed calls of 122 KB", STREAM, AGENT_CALL.make_body)


@cache
def requests(kind: Kind) -> tuple[bytes, ...]:
    """Return the requests of a kind, as bytes."""
    bodies = (kind.make_body(f"fix the failing test {number}") for number in range(kind.sessions))
    return tuple(post(kind.path, "gateway.test", orjson.dumps(body)) for body in bodies)


# ---- closed loops of unary calls


def closed(kind: Kind, at_once: int, seconds: int, target: Target) -> Sample:
    """Run a closed loop of calls, with `wrk` if it is installed. Returns their rate and processor time."""
    server, prepared = target.server, requests(kind)
    before = server.cpu_seconds()
    if wrk.is_installed():
        count, took = wrk.closed_loop(server.url, prepared, at_once, seconds)
    else:
        began = time.monotonic()
        starts = [0.0] * at_once
        loop = partial(
            generator.closed_loop,
            server.url,
            prepared,
            starts,
            generator.for_seconds(seconds),
            generator.Answer.seconds,
        )
        count = len(generator.run(loop))
        took = time.monotonic() - began
    if not count:
        raise NoAnswersError(f"no call was answered in {seconds} s: is the machine busy with something else?")
    return {CALLS: count / took, CPU_CALL: (server.cpu_seconds() - before) / count * 1e6}


# ---- streams


def streams(at_once: int, seconds: float, target: Target) -> Sample:
    """Run a closed loop of streams whose events are sent as fast as they are read."""
    server, prepared = target.server, requests(STREAM_CALL)
    before, began = server.cpu_seconds(), time.monotonic()
    loop = partial(
        generator.closed_loop,
        server.url,
        prepared,
        [0.0] * at_once,
        generator.for_seconds(seconds),
        _whole_stream,
    )
    ends = generator.run(loop)
    events, took = len(ends) * EVENTS, max(ends) - began
    cpu = server.cpu_seconds() - before
    return {EVENT_RATE: events / took, CPU_EVENT: cpu / events * 1e6, CPU_STREAM: cpu / len(ends) * 1e3}


def _whole_stream(answer: generator.Answer) -> float:
    """Check that a stream is complete, and return when it ended."""
    assert answer.data().count(b"data:") == EVENTS, "the proxy changed the number of events"
    return answer.reads[-1][0]


def paced(at_once: int, seconds: float, target: Target) -> Sample:
    """Run a closed loop of streams whose events are sent at intervals."""
    server, prepared = target.server, requests(PACED_CALL)
    before = server.cpu_seconds()
    starts = [number * PACE / at_once for number in range(at_once)]
    delays = generator.run(
        partial(generator.closed_loop, server.url, prepared, starts, generator.for_seconds(seconds), _delays)
    )
    events = len(delays) * EVENTS
    sorted_delays = sorted(itertools.chain.from_iterable(delays))
    return {
        CPU_EVENT: (server.cpu_seconds() - before) / events * 1e6,
        DELAY: statistics.median(sorted_delays) * 1e3,
        DELAY_P99: quantile(sorted_delays, 0.99) * 1e3,
    }


_TIME = re.compile(SENT_AT + rb"(\d+)")


def _delays(answer: generator.Answer) -> list[float]:
    """Return, for each event, the seconds between its sending by the upstream and its arrival."""
    found = [when - int(sent) / 1e9 for when, data in answer.reads for sent in _TIME.findall(data)]
    assert len(found) >= EVENTS - 2, "the proxy lost events, or fields that it does not know"
    return found


def first_event(count: int, target: Target) -> Sample:
    """Make an agent's streamed calls sequentially. Returns the median time to the first event."""
    prepared = requests(AGENT_STREAM)

    async def measure() -> list[float]:
        connection = await generator.connect(target.server.url)
        found = [
            (await connection.call(prepared[number % len(prepared)])).first_event_seconds()
            for number in range(count)
        ]
        connection.close()
        return found

    return {FIRST: statistics.median(generator.run(measure)) * 1e3}


# ---- calls at fixed times


def open_loop(rate: float, seconds: float, target: Target) -> Sample:
    """Begin an agent's calls at fixed times."""
    prepared, server = requests(AGENT_CALL), target.server
    before = server.cpu_seconds()
    times = sorted(generator.run(lambda: generator.open_loop(server.url, prepared, rate, seconds)))
    return {
        P50: statistics.median(times) * 1e3,
        P99: quantile(times, 0.99) * 1e3,
        WORST: times[-1] * 1e3,
        CPU_CALL: (server.cpu_seconds() - before) / len(times) * 1e6,
    }


def quantile(ordered: Sequence[float], share: float) -> float:
    """Return the value below which the given share (0 to 1) of the sorted values lies."""
    return ordered[min(int(len(ordered) * share), len(ordered) - 1)]


# ---- workers, idle streams, start and memory


def workers(target: Target) -> Sample:
    """Make an agent's calls to a new server whose processes share all cores with the load."""
    with target.start() as server:
        server.wait_until_idle()  # the first worker would get all connections
        server.use_cores(cores())
        fresh = Target(server, target.start)
        closed(AGENT_CALL, 64, 1, fresh)
        return closed(AGENT_CALL, 64, 4, fresh)


def idle(target: Target) -> Sample:
    """Make small calls to a new server, first without and then with open streams that are idle."""
    with target.start() as server:
        fresh = Target(server, target.start)
        without = closed(SMALL_CALL, 16, 2, fresh)
        before = server.resident_bytes()
        found = generator.run(partial(_beside_streams, fresh))
    return {
        BESIDE: found[CALLS] / without[CALLS],
        "CPU without / beside": without[CPU_CALL] / found[CPU_CALL],
        PER_STREAM: (found[RESIDENT] - before) / IDLE_STREAMS / 1024,
    }


async def _beside_streams(target: Target) -> Sample:
    """Open the streams, then make the calls. Returns their figures, and the memory before the calls."""
    prepared, connections = requests(WAITING_CALL), []
    for number in range(IDLE_STREAMS):
        connections.append(await generator.connect(target.server.url))
        await connections[-1].open_stream(prepared[number % len(prepared)])
    resident = target.server.resident_bytes()
    sample = closed(SMALL_CALL, 16, 2, target)
    for connection in connections:
        connection.close()
    return {**sample, RESIDENT: resident}


def start_and_memory(target: Target) -> Sample:
    """Start a new server, wait for its first answer, and put the load of 64 agents on it."""
    began = time.monotonic()
    with target.start() as server:
        generator.run(partial(_one_call, server.url))
        started = time.monotonic() - began
        time.sleep(1)
        rest = server.resident_bytes()
        server.reset_peak()
        closed(AGENT_CALL, 64, 3, Target(server, target.start))
        return {
            START: started,
            REST: rest / 1e6,
            LOADED: max(server.peak_bytes(), server.resident_bytes()) / 1e6,
        }


async def _one_call(url: str) -> None:
    connection = await generator.connect(url)
    await connection.call(requests(SMALL_CALL)[0])
    connection.close()


def _closed(kind: Kind, among: tuple[str, ...], at_once: int = 16, seconds: int = 2) -> Load:
    connections = "1 connection" if at_once == 1 else f"{at_once} connections"
    description = (
        f"{kind.description}. A closed loop on {connections} for {seconds} s: each connection sends the next "
        f"call as soon as the previous one is answered. The calls repeat {kind.sessions} prepared requests."
    )
    return Load(description, among, partial(closed, kind, at_once, seconds))


_GROWTH = ("copying", "naive", "plain", "runtime", "redact")

LOADS: dict[str, Load] = {
    "small": _closed(SMALL_CALL, (*PEERS, *IN_PROCESS)),
    "agent": _closed(AGENT_CALL, (*PEERS, *IN_PROCESS)),
    "secret": _closed(SECRET_CALL, ("copying", "naive", "redact", "observe")),
    "large": _closed(LARGE_CALL, (*PEERS, "plain", "runtime", "redact"), at_once=4, seconds=3),
    **{f"agent@{count}": _closed(AGENT_CALL, _GROWTH, at_once=count) for count in (1, 4, 64)},
    "kinds": _closed(SMALL_CALL, ("naive", "runtime", *PROGRAMS), at_once=2, seconds=3),
    "kinds-agent": _closed(AGENT_CALL, ("naive", "runtime", *PROGRAMS), at_once=2, seconds=3),
    "workers": Load(
        f"{_OF_AGENTS}. A closed loop on 64 connections for 4 s. The processes of the gateway run on both "
        "cores, as do the load and the upstream, which together take a few percent of one.",
        ("runtime", "workers"),
        workers,
        alone=False,
    ),
    "open": Load(
        f"{_OF_AGENTS}. An open loop: 100 calls per second begin at fixed times for 6 s. The time of a call "
        "is measured from the moment at which it was due.",
        (*PEERS, *IN_PROCESS),
        partial(open_loop, 100, 6),
    ),
    "streams": Load(
        f"{STREAM_CALL.description}, 256 at once for 3 s. The upstream sends each event on its own, as fast "
        "as the proxy reads. The figures include the cost of the call itself.",
        (*PEERS, *IN_PROCESS),
        partial(streams, 256, 3),
    ),
    "paced": Load(
        f"{PACED_CALL.description}, 50 at once for 3 s. Each event contains the time at which the upstream "
        "sent it. The delay is the time from then to its arrival.",
        (*PEERS, *IN_PROCESS),
        partial(paced, 50, 3),
    ),
    "first": Load(
        f"{AGENT_STREAM.description}, one at a time, 100 in a round. The figure is the median time from the "
        "request to the first event. A proxy adds this time minus the time without a proxy.",
        (*PEERS, *IN_PROCESS, "persistent", "http"),
        partial(first_event, 100),
    ),
    "idle": Load(
        f"Small calls, 16 at once for 2 s, first without and then with {IDLE_STREAMS} open streams that are "
        "idle after their first event.",
        ("nginx", "copying", "plain", "runtime", "redact"),
        idle,
        alone=False,
    ),
    "start": Load(
        "The time from the start of the process to its first answer, with bytecode on disk; its memory one "
        "second later; and its peak memory while 64 agents call it for 3 s.",
        (*PEERS, "plain", "runtime", "redact"),
        start_and_memory,
        alone=False,
    ),
}
