"""Ten minutes of real clients, hostile bodies, idle connections, and storms of calls, reloads and probes.

Through all of it no forbidden prompt goes upstream, health answers soon, and memory and descriptors stay
within their bounds. HOOKGATE_SOAK_SECONDS sets its length.
"""

import asyncio
import json
import os
import re
import statistics
import sys
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path

import aiohttp
import pytest
from soak import attacks
from soak.attacks import WORD
from support.clients.interface import CLIENTS, Shown
from support.clients.python_sdk import sdk_warnings
from support.programs.program import Server, serving
from support.upstream.recording import recording_upstream

pytestmark = [sdk_warnings, pytest.mark.slow]

_SECONDS = float(os.environ.get("HOOKGATE_SOAK_SECONDS", "600"))
_DESCRIPTORS = 1024
"""The limit that the gateway gets, a common one."""
_MEMORY = 1024
"""Megabytes that the gateway may take; docs/resource-limits.md states the bound."""
_HEALTHY = 0.1
"""Seconds within which 99 of 100 looks at `/healthz` are answered under attack.

On a slow machine, it may be `_SLOWER` times the seconds that they take under bursts of calls alone. The time
that a hypervisor takes from the machine's processors meanwhile does not count: on a machine that is shared it
may be more than half of all time, and no program could answer in it."""
_SLOWER = 2
_BURSTS = 60
"""Seconds of bursts alone, before the attack."""
_SETTLING = 35
"""Seconds after which connections that are kept for the next call upstream are closed.

aiohttp keeps them for 15 seconds, and looks every 15."""
_TESTS = Path(__file__).parents[1]
_TOKEN = "a-token-for-operators-0123456789"  # noqa: S105  # this test's own

_GUARD = f"""#!/bin/sh
if grep -q {WORD}; then echo 'this word is forbidden' >&2; exit 2; fi
"""
_ADMIN = re.compile(r"admin listener on (http://\S+)")


@dataclass
class _Seen:
    """What the attackers, clients and observers saw."""

    hostile: list[int] = field(default_factory=list)
    storm: dict[bool, list[int]] = field(default_factory=lambda: {True: [], False: []})
    clients: Counter[tuple[str, bool, str]] = field(default_factory=Counter)
    passed: list[Shown] = field(default_factory=list)
    memory: list[int] = field(default_factory=list)


async def test_the_guard_holds_while_everything_is_tried_at_once(tmp_path: Path) -> None:
    seen = _Seen()
    with recording_upstream(WORD) as upstream:
        async with _gateway(tmp_path, upstream.url) as (gateway, admin):
            calm = _descriptors(gateway.pid)
            _share_processors(gateway.pid, upstream.pid)
            async with _probed(admin, tmp_path / "health before") as before, _bursts(gateway, seen):
                await asyncio.sleep(_BURSTS)
            async with _probed(admin, tmp_path / "health") as latencies:
                await _soak(gateway, admin, tmp_path, seen)
            await asyncio.sleep(_SETTLING)
            settled = _descriptors(gateway.pid)
            answered = await attacks.status_of(gateway.url, attacks.prompt(forbidden=False))
        report = upstream.report()
    _print_health("bursts alone", before)
    _print_health("attack", latencies)
    _print(seen, calm, settled, report.requests)
    assert report.examples == []
    assert seen.passed == []
    assert {name for name, forbidden, failed in seen.clients if not (forbidden or failed)} == set(CLIENTS)
    assert not [status for status in seen.storm[True] if 200 <= status < 300]
    assert not [status for status in (*seen.hostile, *seen.storm[True], *seen.storm[False]) if status == 500]
    assert answered == 200
    assert _p99(latencies) < max(_HEALTHY, _SLOWER * _p99(before))
    assert max(seen.memory) < _MEMORY
    assert settled <= calm + 10


@asynccontextmanager
async def _bursts(gateway: Server, seen: _Seen) -> AsyncIterator[None]:
    """Bursts of calls and nothing else, for as long as the block runs."""
    async with attacks.all_at_once(attacks.storm_hooks(gateway.url, seen.storm), _drain(gateway)):
        yield


async def _soak(gateway: Server, admin: str, folder: Path, seen: _Seen) -> None:
    guard = {"event": "BeforeModel", "name": "guard", "layer": "policy"}
    storms = attacks.all_at_once(
        attacks.send_hostile_bodies(gateway.url, seen.hostile),
        attacks.storm_hooks(gateway.url, seen.storm),
        attacks.hold_idle_connections(gateway.url, _DESCRIPTORS + 100),
        attacks.storm_reloads(folder / "settings.json", ["guard"]),
        attacks.probe_panel(admin, guard),
        *(_use(name, gateway.url, folder, seen) for name in CLIENTS),
        _watch_memory(gateway, seen.memory),
        _drain(gateway),
    )
    async with storms:
        await asyncio.sleep(_SECONDS)


async def _use(name: str, url: str, folder: Path, seen: _Seen) -> None:
    """One real client, with harmless and forbidden prompts in turn."""
    number = 0
    while True:
        for forbidden in (True, False):
            number += 1
            own = folder / f"{name}-{number}"
            own.mkdir()
            prompt = f"say {WORD}" if forbidden else "say good morning"
            try:
                shown = await CLIENTS[name].ask(url, prompt, own)
            except (OSError, aiohttp.ClientError) as error:  # its connection made way for another
                shown = Shown("", type(error).__name__)
            seen.clients[name, forbidden, shown.failed] += 1
            if forbidden and not shown.failed:
                seen.passed.append(shown)
            await asyncio.sleep(2)


def _share_processors(gateway: int, upstream: int) -> None:
    """Leave one processor to the gateway and its hooks: nobody else may take what it is measured by."""
    *others, own = sorted(os.sched_getaffinity(0))
    for process, processors in (
        (gateway, {own}),
        (upstream, others or {own}),
        (os.getpid(), others or {own}),
    ):
        for thread in os.listdir(f"/proc/{process}/task"):
            os.sched_setaffinity(int(thread), processors)


# ---- the gateway under test


@asynccontextmanager
async def _gateway(folder: Path, upstream: str) -> AsyncIterator[tuple[Server, str]]:
    """A gateway with few descriptors, a guard in its policy, and a settings file that changes."""
    (folder / "guard.sh").write_text(_GUARD)
    guard = {"name": "guard", "type": "command", "command": "sh ./guard.sh"}
    (folder / "policy.json").write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": [guard]}]}}))
    (folder / "settings.json").write_text("{}")
    settings = folder / "hookgate.toml"
    settings.write_text(
        "".join(
            [
                '[hooks]\npolicy = ["policy.json"]\nfiles = ["settings.json"]\n[upstream]\n',
                *(f'{api} = "{upstream}"\n' for api in ("gemini", "vertex", "code_assist")),
            ]
        )
    )
    variables = {"HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0", "HOOKGATE_ADMIN__TOKEN": _TOKEN}
    flags = ("--config", str(settings), "--listen", "127.0.0.1:0")
    limit = (_DESCRIPTORS, _DESCRIPTORS)
    async with serving("serve", *flags, env=variables, patience=_SECONDS + 300, descriptors=limit) as gateway:
        found = _ADMIN.search(gateway.log)
        assert found, gateway.log
        yield gateway, found[1]


async def _drain(gateway: Server) -> None:
    """Read its log, lest it has to wait for somebody who does."""
    while await gateway.next_line():
        gateway.log = ""


# ---- what is measured


@dataclass(frozen=True)
class _Latency:
    """The seconds until an answer, and those of them that the hypervisor took from one processor."""

    seconds: float
    stolen: float

    @property
    def own(self) -> float:
        return max(self.seconds - self.stolen, 0.0)


@asynccontextmanager
async def _probed(admin: str, file: Path) -> AsyncIterator[list["_Latency"]]:
    """The latency of each answer of `/healthz` while the block ran; they are there when it has ended."""
    latencies: list[_Latency] = []
    prober = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "soak.prober", admin, str(file), env={**os.environ, "PYTHONPATH": str(_TESTS)}
    )
    try:
        yield latencies
    finally:
        prober.kill()
        await prober.wait()
        for line in (await asyncio.to_thread(file.read_text)).splitlines():
            seconds, stolen = map(float, line.split())
            latencies.append(_Latency(seconds, stolen))


async def _watch_memory(gateway: Server, megabytes: list[int]) -> None:
    status = Path(f"/proc/{gateway.pid}/status")
    while True:
        resident = re.search(r"VmRSS:\s+(\d+) kB", await asyncio.to_thread(status.read_text))
        megabytes.append(int(resident[1]) // 1024 if resident else 0)
        await asyncio.sleep(0.5)


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))


def _p99(latencies: list["_Latency"]) -> float:
    """The seconds within which 99 of 100 looks were answered, without what the hypervisor took."""
    return statistics.quantiles([latency.own for latency in latencies], n=100)[98]


def _print_health(when: str, latencies: list["_Latency"]) -> None:
    own = [latency.own * 1000 for latency in latencies]
    print(f"\nhealth, {when}: {len(own)} answers, median {statistics.median(own):.1f} ms,", end=" ")
    print(f"p99 {_p99(latencies) * 1000:.1f} ms, worst {max(own):.0f} ms;", end=" ")
    print(f"the hypervisor took {sum(latency.stolen for latency in latencies):.1f} s meanwhile")


def _print(seen: _Seen, calm: int, settled: int, upstream: int) -> None:
    print(f"memory: {max(seen.memory)} MB at most; descriptors: {calm} before, {settled} after")
    print(f"upstream: {upstream} requests; hostile bodies: {Counter(seen.hostile)}")
    print(f"storm, forbidden: {Counter(seen.storm[True])}; harmless: {Counter(seen.storm[False])}")
    for (name, forbidden, failed), times in sorted(seen.clients.items()):
        prompt = "forbidden" if forbidden else "harmless"
        print(f"{name}, {prompt}: {times} times {failed or 'answered'}")
