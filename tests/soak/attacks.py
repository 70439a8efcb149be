"""Attacks of hostile clients on a gateway. Each function repeats one until it is cancelled."""

import asyncio
import contextlib
import gzip
import json
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from support.wire import UNARY, request_bytes

WORD = "forbiddenword"
KEY = {"x-goog-api-key": "attacker"}

_MEGABYTE = 1 << 20
_HELLO = {"contents": [{"role": "user", "parts": [{"text": "hello"}]}]}


def _beside_hello(name: str, json_text: bytes) -> bytes:
    """A request with one more field, of any size."""
    return json.dumps(_HELLO).encode()[:-1] + b', "' + name.encode() + b'": ' + json_text + b"}"


HOSTILE_BODIES: dict[str, Callable[[], bytes]] = {
    "empty lists": lambda: _beside_hello("x", b"[" + b"[]," * (3 * _MEGABYTE) + b"1]"),
    "objects and one large number": lambda: _beside_hello("x", b"[" + b'{"a":1},' * _MEGABYTE + b"1e300]"),
    "spaces": lambda: _beside_hello("x", b" " * (60 * _MEGABYTE) + b"1"),
    "one long text": lambda: json.dumps(
        {"contents": [{"role": "user", "parts": [{"text": "word " * (6 * _MEGABYTE)}]}]}
    ).encode(),
    "escapes": lambda: _beside_hello("x", b'"' + b'\\"' * (20 * _MEGABYTE) + b'"'),
    "deep nesting": lambda: _beside_hello("x", b"[" * 500_000 + b"]" * 500_000),
    "large integers": lambda: _beside_hello("x", b"[" + (b"9" * 4000 + b",") * 2000 + b"1]"),
    "many keys": lambda: _beside_hello("x", json.dumps({f"k{n}": n for n in range(500_000)}).encode()),
    "repeated keys": lambda: _beside_hello("x", b"{" + b'"a":1,' * 500_000 + b'"a":1}'),
    "near misses of card numbers": lambda: json.dumps(
        {"contents": [{"role": "user", "parts": [{"text": "12345678A 4111111111111112 " * 40_000}]}]}
    ).encode(),
}
"""Ten shapes of bodies that cost much to read, by name."""


async def send_hostile_bodies(url: str, statuses: list[int]) -> None:
    """One hostile body after another, compressed or not."""
    bodies = {name: make() for name, make in HOSTILE_BODIES.items()}
    packed = {name: gzip.compress(body, 1) for name, body in bodies.items()}
    while True:
        for name, body in bodies.items():
            for data, headers in ((body, KEY), (packed[name], {**KEY, "Content-Encoding": "gzip"})):
                statuses.append(await status_of(url, request_bytes("POST", UNARY, data, headers)))


async def storm_hooks(url: str, statuses: dict[bool, list[int]]) -> None:
    """Bursts of calls, forbidden and harmless ones, more at once than hooks may run."""
    while True:
        forbidden = [bool(number % 2) for number in range(120)]
        found = await asyncio.gather(*(status_of(url, prompt(forbidden=bad)) for bad in forbidden))
        for bad, status in zip(forbidden, found, strict=True):
            statuses[bad].append(status)
        await asyncio.sleep(0.5)


def prompt(*, forbidden: bool) -> bytes:
    """A small call."""
    text = f"say {WORD}" if forbidden else "say hello"
    body = json.dumps({"contents": [{"role": "user", "parts": [{"text": text}]}]}).encode()
    return request_bytes("POST", UNARY, body, KEY)


async def hold_idle_connections(url: str, number: int) -> None:
    """As many silent connections as that, each opened anew when the gateway closes it."""
    place = urlsplit(url)

    async def hold() -> None:
        while True:
            with contextlib.suppress(OSError):
                reader, writer = await asyncio.open_connection(place.hostname, place.port)
                try:
                    await reader.read()
                finally:
                    writer.transport.abort()
            await asyncio.sleep(5 + 5 * random.random())  # noqa: S311  # not all at once

    async with asyncio.TaskGroup() as group:
        for _ in range(number):
            group.create_task(hold())


async def storm_reloads(settings: Path, names: list[str]) -> None:
    """Rewrite a settings file many times a second, now and then with mistakes in it."""
    number = 0
    while True:
        number += 1
        hook = {"name": f"echo-{number % 7}", "type": "command", "command": "true"}
        text = json.dumps({"hooks": {"BeforeModel": [{"hooks": [hook]}]}, "hooksConfig": {"disabled": names}})
        text = text[: len(text) // 2] if number % 5 == 0 else text
        await asyncio.to_thread(settings.write_text, text)
        await asyncio.sleep(0.1)


async def probe_panel(admin_url: str, hook: dict[str, str]) -> None:
    """Try to switch the guard off, without a token and with wrong ones; read on slowly; say nothing."""
    switch = json.dumps({**hook, "on": False}).encode()
    while True:
        for headers in ({}, {"Authorization": "Bearer wrong"}, {"Host": "evil.example"}):
            for path in ("/api/hooks/switch", "/api/hooks", "/api/live", "/readyz", "/metrics"):
                panel = {"X-Hookgate-Panel": "1", **headers}
                await status_of(admin_url, request_bytes("POST", path, switch, panel))
                await status_of(admin_url, request_bytes("GET", path, b"", panel))
        async with _silent_connections(admin_url, 100):
            await asyncio.sleep(3)


@asynccontextmanager
async def _silent_connections(url: str, number: int) -> AsyncIterator[None]:
    place = urlsplit(url)
    writers = []
    for _ in range(number):
        with contextlib.suppress(OSError):
            writers.append((await asyncio.open_connection(place.hostname, place.port))[1])
    try:
        yield
    finally:
        for writer in writers:
            writer.transport.abort()


async def status_of(url: str, request: bytes) -> int:
    """The status that a request is answered with; 0 when the connection ends without an answer."""
    place = urlsplit(url)
    with contextlib.suppress(OSError, TimeoutError, asyncio.IncompleteReadError):
        async with asyncio.timeout(60):
            reader, writer = await asyncio.open_connection(place.hostname, place.port)
            try:
                writer.write(request)
                return int((await reader.readuntil(b"\r\n")).split()[1])
            finally:
                writer.transport.abort()
    return 0


@asynccontextmanager
async def all_at_once(*attacks: Awaitable[Any]) -> AsyncIterator[None]:
    """Run all of them for as long as the block runs. One that fails ends the block."""
    async with asyncio.TaskGroup() as group:
        tasks = [group.create_task(_awaited(attack)) for attack in attacks]
        yield
        for task in tasks:
            task.cancel()


async def _awaited(attack: Awaitable[Any]) -> None:
    await attack
