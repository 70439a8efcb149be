"""What a stream costs that waits: memory of the gateway with 1,000 streams open, and how fast it still is."""

import asyncio
import contextlib
import os
import tempfile
from pathlib import Path

import aiohttp
import orjson
from benchmarks.gateway import PATH, SMALL, rate, settings_in
from benchmarks.processes import hookgate, peer

STREAMS = 1000
CALLS = 400


def main() -> None:
    cores = sorted(os.sched_getaffinity(0))
    with contextlib.ExitStack() as stack, tempfile.TemporaryDirectory() as folder:
        origin = stack.enter_context(peer("waiting", cores[0])).url
        print(f"idle: {STREAMS} streams that have begun and wait")
        for name, server in {
            "copying aiohttp proxy": peer("copying", cores[-1], origin),
            "hookgate, no hooks": hookgate(cores[-1], origin),
            "hookgate, runtime hooks before and after": hookgate(
                cores[-1], origin, settings_in(Path(folder), {"type": "runtime", "action": "./look.py:look"})
            ),
        }.items():
            with server as running:
                size, slower = asyncio.run(_measure(running.url, running.pid))
            print(f"  {name:46} {size:9.1f} KiB per stream, calls/s {slower:5.2f} of without")
        print()


async def _measure(url: str, pid: int) -> tuple[float, float]:
    """KiB per stream, and the rate of small calls beside them as a ratio to the rate without."""
    async with contextlib.AsyncExitStack() as stack:
        connector = aiohttp.TCPConnector(limit=0)
        session = await stack.enter_async_context(aiohttp.ClientSession(connector=connector))
        body, call = orjson.dumps(SMALL), url + f"{PATH}:generateContent"
        await rate(session, call, body, CALLS)
        alone, before = await rate(session, call, body, CALLS), _resident(pid)
        opening = (_open(session, url, body) for _ in range(STREAMS))
        answers = await asyncio.gather(*opening)
        beside, after = await rate(session, call, body, CALLS), _resident(pid)
        for answer in answers:
            answer.close()
        return (after - before) / STREAMS, beside / alone


async def _open(session: aiohttp.ClientSession, url: str, body: bytes) -> aiohttp.ClientResponse:
    """A stream whose first event has come."""
    headers = {"Content-Type": "application/json", "x-goog-api-key": "benchmark"}
    answer = await session.post(f"{url}{PATH}:streamGenerateContent?alt=sse", data=body, headers=headers)
    await answer.content.readuntil(b"\r\n\r\n")
    return answer


def _resident(pid: int) -> int:
    """The memory of a process, in KiB."""
    status = Path(f"/proc/{pid}/status").read_text()
    return int(status.split("VmRSS:")[1].split()[0])


if __name__ == "__main__":
    main()
