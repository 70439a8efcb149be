"""What an event costs an agent: at a gateway over loopback, in another process, and in the agent's own.

A BeforeTool event of about 1 KB that one runtime hook allows, beside a bare POST of the same bytes with the
standard library over a kept connection.
"""

import asyncio
import contextlib
import http.client
import json
import statistics
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from urllib.parse import urlsplit

from hookgate.hooks import Engine, load_settings
from hookgate.proxy.app import serve_on
from hookgate.proxy.calls.gateway import Gateway
from hookgate.proxy.config import Config, UpstreamSettings
from hookgate.proxy.upstream.client import Upstreams
from hookgate.shim import Shim

ROUNDS = 15
RUNS = 100
PROMISE = 2000.0
"""Microseconds that an event may take over loopback."""

ARGS = {"file_path": "notes.txt", "content": "word " * 180}
CALLABLE = "def look(call):\n    return {}\n"

Case = Callable[[], Awaitable[float]]
"""Run RUNS times; the microseconds of one."""


def main() -> None:
    asyncio.run(_main())


async def _main() -> None:
    async with contextlib.AsyncExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        url = await stack.enter_async_context(_gateway(folder))
        remote = await stack.enter_async_context(Shim(url, "a-key", on_unreachable="deny"))
        local = await stack.enter_async_context(Shim(Engine(load_settings([_settings(folder)]))))
        cases = {
            "a bare POST (= 1)": lambda: asyncio.to_thread(_bare, url),
            "hookgate.shim, at a gateway": lambda: _awaited(remote),
            "hookgate.shim, at a gateway, synchronous": lambda: asyncio.to_thread(_waited, remote),
            "hookgate.shim, hooks in process": lambda: _awaited(local),
        }
        await _report(cases)


def _settings(folder: str) -> Path:
    path = Path(folder) / "settings.json"
    (path.parent / "runtime.py").write_text(CALLABLE)
    hook = {"type": "runtime", "action": "./runtime.py:look"}
    path.write_text(json.dumps({"hooks": {"BeforeTool": [{"hooks": [hook]}]}}))
    return path


async def _awaited(shim: Shim) -> float:
    session = shim.session("benchmark")
    begin = time.perf_counter()
    for _ in range(RUNS):
        async with session.tool("write_file", ARGS):
            pass
    return (time.perf_counter() - begin) / RUNS * 1e6


def _waited(shim: Shim) -> float:
    session = shim.sync_session("benchmark")
    begin = time.perf_counter()
    for _ in range(RUNS):
        with session.tool("write_file", ARGS):
            pass
    return (time.perf_counter() - begin) / RUNS * 1e6


def _bare(url: str) -> float:
    body = json.dumps({"session_id": "bare", "tool_name": "write_file", "tool_input": ARGS})
    connection = http.client.HTTPConnection(urlsplit(url).netloc)
    begin = time.perf_counter()
    for _ in range(RUNS):
        connection.request("POST", "/s/bare/hookgate/v1/events/BeforeTool", body, {"x-goog-api-key": "b"})
        answer = connection.getresponse()
        assert answer.status == 200, answer.read()
        answer.read()
    taken = (time.perf_counter() - begin) / RUNS * 1e6
    connection.close()
    return taken


@contextlib.asynccontextmanager
async def _gateway(folder: str) -> AsyncIterator[str]:
    """A gateway in a process of its own."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", "benchmarks.shim", "serve", folder, stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout
    try:
        yield (await process.stdout.readline()).decode().strip()
    finally:
        process.kill()
        await process.wait()


async def _serve(folder: str) -> None:
    config = Config.model_validate({"limits": {"events": 1_000_000}})
    engine = Engine(load_settings([_settings(folder)]))
    async with (
        Upstreams(UpstreamSettings()) as upstream,
        serve_on(Gateway(engine, upstream, config).handle, "127.0.0.1", 0, config.limits) as url,
    ):
        print(url, flush=True)
        await asyncio.Event().wait()


async def _report(cases: dict[str, Case]) -> None:
    """Medians of interleaved rounds, in microseconds and as a ratio to the first case."""
    times: dict[str, list[float]] = {name: [] for name in cases}
    for case in cases.values():
        await case()
    for _ in range(ROUNDS):
        for name, case in cases.items():
            times[name].append(await case())
    base = statistics.median(next(iter(times.values())))
    print("shim: an event, one at a time")
    for name, values in times.items():
        median = statistics.median(values)
        print(f"  {name:46} {median:9.1f} us   {median / base:7.4f}")
        assert median < PROMISE, "an event costs more than it may"
    print()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[2])) if sys.argv[1:2] == ["serve"] else main()
