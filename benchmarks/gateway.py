"""The gateway beside a copying aiohttp proxy and the naive way to run one hook; proxy alone on its core."""

import asyncio
import contextlib
import json
import os
import statistics
import tempfile
import time
from pathlib import Path

import aiohttp
import orjson
from benchmarks.bodies import agent_request
from benchmarks.processes import hookgate, peer

ROUNDS = 5
CALLS = 300
AT_ONCE = 16

HOOK = "async def look(call):\n    return None\n"
SMALL = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}
PATH = "/v1beta/models/gemini-2.5-flash"


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        origin = stack.enter_context(peer("upstream", cores[0])).url
        looking = settings_in(Path(folder), {"type": "runtime", "action": "./look.py:look"})
        redacting = settings_in(Path(folder), {"type": "builtin", "builtin": "redact"})
        peers = {
            "copying aiohttp proxy (= 1)": peer("copying", cores[-1], origin),
            "orjson both ways, one hook": peer("naive", cores[-1], origin),
            "hookgate, no hooks": hookgate(cores[-1], origin),
            "hookgate, runtime hooks before and after": hookgate(cores[-1], origin, looking),
            "hookgate, redact before and after": hookgate(cores[-1], origin, redacting),
        }
        urls = {name: stack.enter_context(each).url for name, each in peers.items()}
        os.sched_setaffinity(0, {cores[0]})
        asyncio.run(_measure(urls))
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
                    rates[name].append(await rate(session, url + path, body, count))
            _report(title, rates)


async def rate(session: aiohttp.ClientSession, url: str, body: bytes, count: int) -> float:
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


def settings_in(folder: Path, hook: dict[str, str]) -> Path:
    """A settings file with the hook before and after each call."""
    (folder / "look.py").write_text(HOOK)
    group = [{"hooks": [hook]}]
    path = folder / f"{hook['type']}.json"
    path.write_text(json.dumps({"hooks": {"BeforeModel": group, "AfterModel": group}}))
    return path


if __name__ == "__main__":
    main()
