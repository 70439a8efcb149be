"""Mutated requests against a whole gateway: nothing forbidden goes upstream, and nothing fails inside.

`make fuzz` sends a million. HOOKGATE_FUZZ_REQUESTS is their number, HOOKGATE_FUZZ_SEED the first one's.
"""

import asyncio
import json
import os
from collections import Counter
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from fuzz.mutations import TEXT, WORD, HttpRequest, mutated
from support.programs.program import Server, serving
from support.upstream.recording import recording_upstream

_REQUESTS = int(os.environ.get("HOOKGATE_FUZZ_REQUESTS", "3000"))
_SEED = int(os.environ.get("HOOKGATE_FUZZ_SEED", "0"))
_CONNECTIONS = 48
_APIS = ("gemini", "vertex", "code_assist")
_PATIENCE = 0.5  # seconds to wait for an answer: a request that lost its end is never answered

_GUARD = f"""
import json


async def judge(event):
    if {WORD!r} in json.dumps(event, ensure_ascii=False):
        return {{"decision": "deny", "reason": "forbidden"}}
"""
"""A hook that reads all it is shown."""

_CONFIG = """
[hooks]
policy = ["policy.json"]

[limits]
header_timeout = 2
body_timeout = 2
"""


async def test_no_mutated_request_carries_the_forbidden_word_upstream(tmp_path: Path) -> None:
    settings = _write_policy(tmp_path)
    with recording_upstream(WORD) as upstream:
        async with (
            serving(*_flags(settings, upstream.url), patience=3 * 3600) as gateway,
            _complaints(gateway) as complaints,
        ):
            statuses = await _send_all(gateway.url)
            proof = await _answer_to(gateway.url, _plain("hello"))
        report = upstream.report()
    print(f"{_REQUESTS} requests: {dict(sorted(statuses.items()))}, {report.requests} went upstream")
    assert report.examples == []
    assert not [status for status in statuses if status >= 500], statuses
    assert complaints == []
    assert proof == 200, "the gateway has to go on serving"
    assert statuses[200] > 0, "some requests have to pass, or nothing was tried"
    assert statuses[403] > 0


async def test_the_guard_of_this_test_denies_the_unchanged_request(tmp_path: Path) -> None:
    """Else the test above could not fail for the right reason."""
    settings = _write_policy(tmp_path)
    with recording_upstream(WORD) as upstream:
        async with serving(*_flags(settings, upstream.url)) as gateway:
            assert await _answer_to(gateway.url, _plain(TEXT)) == 403
            assert await _answer_to(gateway.url, _plain("hello")) == 200
        assert upstream.report().requests == 1


def _flags(settings: Path, upstream: str) -> tuple[str, ...]:
    with settings.open("a") as file:  # all three APIs are there
        file.write("\n[upstream]\n" + "".join(f'{api} = "{upstream}"\n' for api in _APIS))
    return ("serve", "--config", str(settings), "--listen", "127.0.0.1:0")


def _write_policy(folder: Path) -> Path:
    (folder / "guard.py").write_text(_GUARD)
    hook = {
        "name": "guard",
        "type": "runtime",
        "action": "./guard.py:judge",
        "view": "body",
        "on_error": "deny",
    }
    groups = [{"hooks": [hook]}]
    (folder / "policy.json").write_text(json.dumps({"hooks": {"BeforeModel": groups, "BeforeAgent": groups}}))
    (folder / "hookgate.toml").write_text(_CONFIG)
    return folder / "hookgate.toml"


def _plain(text: str) -> bytes:
    contents = [{"role": "user", "parts": [{"text": text}]}]
    return HttpRequest("/v1beta/models/m:generateContent", {"contents": contents}).encoded()


@asynccontextmanager
async def _complaints(gateway: Server) -> AsyncIterator[list[str]]:
    """Lines of the gateway's log that tell of a failure inside, as they are written."""
    found: list[str] = []

    async def read() -> None:
        while line := await gateway.next_line():
            gateway.log = ""  # a million lines are not kept
            if "please report this" in line or "Traceback" in line or " ERROR " in line:
                found.append(line)

    reading = asyncio.create_task(read())
    try:
        yield found
    finally:
        reading.cancel()
        await asyncio.gather(reading, return_exceptions=True)


# ---- the load


async def _send_all(url: str) -> Counter[int]:
    """Send every request on a connection of its own, many at a time; count the answers by status."""
    statuses: Counter[int] = Counter()
    seeds = iter(range(_SEED, _SEED + _REQUESTS))

    async def work() -> None:
        for seed in seeds:
            try:
                statuses[await _answer_to(url, mutated(seed))] += 1
            except AssertionError as error:
                pytest.fail(f"request {seed}: {error}")

    async with asyncio.TaskGroup() as group:
        for _ in range(_CONNECTIONS):
            group.create_task(work())
    return statuses


async def _answer_to(url: str, data: bytes) -> int:
    """The status of the last answer to these bytes; 0 when none came in time."""
    place = urlsplit(url)
    reader, writer = await asyncio.open_connection(place.hostname, place.port)
    status = 0
    try:
        async with asyncio.timeout(_PATIENCE):
            writer.write(data)
            while status in (0, 100):
                status = _status_of(await reader.readuntil(b"\r\n\r\n"))
    except (TimeoutError, ConnectionError, asyncio.IncompleteReadError):
        pass
    finally:
        writer.transport.abort()
    return status


def _status_of(head: bytes) -> int:
    assert head.startswith(b"HTTP/1."), f"no HTTP answer: {head[:80]!r}"
    return int(head.split()[1])
