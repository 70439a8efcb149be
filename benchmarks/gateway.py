"""The gateway beside a copying aiohttp proxy and the naive way to run one hook; proxy alone on its core."""

import asyncio
import contextlib
import json
import os
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import aiohttp
import orjson
from benchmarks.bodies import agent_request

ROUNDS = 5
CALLS = 300
AT_ONCE = 16

HOOK = "async def look(call):\n    return None\n"
SMALL = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
PATH = "/v1beta/models/gemini-2.5-flash"


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        origin = stack.enter_context(_peer("upstream", cores[0]))
        settings = _settings(Path(folder))
        peers = {
            "copying aiohttp proxy (= 1)": stack.enter_context(_peer("copying", cores[-1], origin)),
            "orjson both ways, one hook": stack.enter_context(_peer("naive", cores[-1], origin)),
            "hookgate, no hooks": stack.enter_context(_hookgate(cores[-1], origin)),
            "hookgate, runtime hooks before and after": stack.enter_context(
                _hookgate(cores[-1], origin, settings)
            ),
        }
        os.sched_setaffinity(0, {cores[0]})
        asyncio.run(_measure(peers))
        os.sched_setaffinity(0, cores)


async def _measure(peers: dict[str, str]) -> None:
    loads = {
        "small calls": (f"{PATH}:generateContent", orjson.dumps(SMALL), CALLS * 2),
        "agent calls of 100 KB": (f"{PATH}:generateContent", orjson.dumps(agent_request()), CALLS),
        "streams of 40 events": (f"{PATH}:streamGenerateContent?alt=sse", orjson.dumps(SMALL), CALLS // 3),
    }
    async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
        for title, (path, body, count) in loads.items():
            rates: dict[str, list[float]] = {name: [] for name in peers}
            for _ in range(ROUNDS):
                for name, url in peers.items():
                    rates[name].append(await _rate(session, url + path, body, count))
            _report(title, rates)


async def _rate(session: aiohttp.ClientSession, url: str, body: bytes, count: int) -> float:
    """Calls per second, `AT_ONCE` at a time."""
    left = iter(range(count))

    async def worker() -> None:
        for _ in left:
            headers = {"Content-Type": "application/json", "x-goog-api-key": "benchmark"}
            async with session.post(url, data=body, headers=headers) as answer:
                data = await answer.read()
                assert answer.status == 200
                assert b"candidates" in data

    begin = time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    return count / (time.perf_counter() - begin)


def _report(title: str, rates: dict[str, list[float]]) -> None:
    print(f"gateway: {title}, calls/s, medians of {ROUNDS} interleaved rounds")
    base = statistics.median(next(iter(rates.values())))
    for name, values in rates.items():
        median = statistics.median(values)
        print(f"  {name:46} {median:9.0f}      {median / base:5.2f}")
    print()


def _settings(folder: Path) -> Path:
    (folder / "look.py").write_text(HOOK)
    group = [{"hooks": [{"type": "runtime", "action": "./look.py:look"}]}]
    path = folder / "settings.json"
    path.write_text(json.dumps({"hooks": {"BeforeModel": group, "AfterModel": group}}))
    return path


def _peer(kind: str, core: int, *arguments: str) -> contextlib.AbstractContextManager[str]:
    port = _free_port()
    return _running([sys.executable, "-m", "benchmarks.peers", kind, str(port), *arguments], port, core)


def _hookgate(core: int, origin: str, *settings: Path) -> contextlib.AbstractContextManager[str]:
    port = _free_port()
    serve = ["-m", "hookgate.proxy", "serve", "--listen", f"127.0.0.1:{port}", "--upstream", origin]
    hooks = ["--hooks", *map(str, settings)] if settings else []
    return _running([sys.executable, *serve, *hooks], port, core)


@contextlib.contextmanager
def _running(argv: list[str], port: int, core: int) -> Iterator[str]:
    process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
    os.sched_setaffinity(process.pid, {core})
    try:
        _wait_for(port)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _wait_for(port: int) -> None:
    for _ in range(200):
        with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port)):
            return
        time.sleep(0.05)
    raise TimeoutError(f"nothing listens on port {port}")


if __name__ == "__main__":
    main()
