"""Request bodies that are refused: the errors, and that no part of them goes upstream."""

import gzip
import json
import zlib
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from itertools import pairwise
from typing import Any

import pytest
from aiohttp import web
from support.gateway.life import gateway_with, until
from support.gateway.loopback import running_gateway, running_upstream, runs, says
from support.wire import HI, KEY, SSE, UNARY, connected, post, request_bytes

from hookgate.proxy.app import serve_on
from hookgate.proxy.config import LimitSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.server.bodies import INFLATE_STEP, SMALL_BODY, BodyWorker, read_request
from hookgate.proxy.server.connection import error_response
from hookgate.proxy.server.memory import VALUE_BYTES, MemoryLease
from hookgate.translator.strictjson import parse

TEXT = json.dumps(HI).encode()
HOOKS = {"BeforeModel": [says()]}
ZIPPED = gzip.compress(TEXT, mtime=0)  # the same bytes in every test process
DEEP = b'{"contents": ' + b"[" * 120 + b"]" * 120 + b"}"


@pytest.mark.parametrize(
    "target",
    [
        UNARY.replace("generateContent", "countTokens"),
        UNARY.replace("generateContent", "embedContent"),
        UNARY.replace("generateContent", "batchGenerateContent"),
        "/v1beta/interactions",
        "/v1internal:generateContent",
        "/hookgate/v1/events/BeforeAgent",
    ],
)
async def test_a_body_that_is_not_an_object_is_refused_on_every_route(target: str) -> None:
    async with running_gateway(HOOKS) as gateway:
        answer = await post(gateway.url, target, b"[" + TEXT + b"]")
        assert not gateway.recorded
    assert answer.status == 400
    assert "it must be a JSON object" in answer.error["message"]


@pytest.mark.parametrize("target", [UNARY, SSE])
@pytest.mark.parametrize(
    ("body", "why"),
    [
        (b"", "not valid JSON"),
        (TEXT[:-1], "not valid JSON"),
        (TEXT + b"x", "not valid JSON"),
        (b"\xef\xbb\xbf" + TEXT, "not valid JSON"),
        (b'{"contents": [], "temperature": NaN}', "not valid JSON"),
        (b'{"contents": [{"parts": [{"text": "\xff"}]}]}', "not valid JSON"),
        (b"[" + TEXT + b"]", "JSON object"),
        (b'"contents"', "JSON object"),
        (b"null", "JSON object"),
        (DEEP, "deeper than 100"),
        (
            b'{"systemInstruction": {}, "system_instruction": {}}',
            "systemInstruction: the field is given twice",
        ),
        (b'{"contents": ["hi"]}', "contents[0]: a content must be an object"),
    ],
)
async def test_an_ambiguous_or_invalid_body_is_refused(target: str, body: bytes, why: str) -> None:
    async with running_gateway(HOOKS) as gateway:
        answer = await post(gateway.url, target, body)
        assert not gateway.recorded
    assert (answer.status, answer.error["code"], answer.error["status"]) == (400, 400, "INVALID_ARGUMENT")
    assert why in answer.error["message"]
    assert answer.error["details"][0]["reason"] == "BODY_REFUSED"


@pytest.mark.parametrize("target", [UNARY, SSE])
@pytest.mark.parametrize(
    "body",
    [
        b'{"contents": [{"parts": [{"text": "a"}]}], "contents": [{"parts": [{"text": "b"}]}]}',
        b'{"contents": [{"parts": [{"text": "a", "te\\u0078t": "b"}]}]}',
        b'{"contents" : [{"parts" : [{"text" : "a", "text" : "b"}]}]}',
    ],
)
async def test_hooks_and_the_upstream_see_only_the_last_value_of_a_repeated_key(
    target: str, body: bytes
) -> None:
    seen: list[Any] = []
    async with running_gateway({"BeforeModel": [runs(seen.append)]}) as gateway:
        assert (await post(gateway.url, target, body)).status == 200
        [upstream] = gateway.generated
    assert [message["content"] for message in seen[0]["llm_request"]["messages"]] == ["b"]
    assert upstream.body == {"contents": [{"parts": [{"text": "b"}]}]}


async def test_a_body_over_the_limit_is_refused() -> None:
    limits = LimitSettings(body=len(TEXT))
    async with (
        running_upstream() as (upstream_url, recorded),
        gateway_with(upstream_url, HOOKS, limits=limits) as url,
    ):
        at_the_limit = await post(url, UNARY, TEXT)
        over_it = await post(url, UNARY, TEXT + b" ")
        assert len(recorded) == 1
    assert at_the_limit.status == 200
    assert (over_it.status, over_it.error["status"]) == (413, "INVALID_ARGUMENT")
    assert "too large" in over_it.error["message"]


async def test_a_body_that_says_it_is_over_the_limit_is_refused_before_it_comes() -> None:
    limits = LimitSettings(body=100)
    async with (
        running_upstream() as (upstream_url, recorded),
        gateway_with(upstream_url, HOOKS, limits=limits) as url,
        connected(url) as wire,
    ):
        await wire.write(request_bytes("POST", UNARY, b"", {**KEY, "Content-Length": "101"}))
        assert (await wire.answer()).status == 413
        assert not recorded


async def test_a_body_of_chunks_is_refused_once_it_is_over_the_limit() -> None:
    limits = LimitSettings(body=100)
    async with (
        running_upstream() as (upstream_url, recorded),
        gateway_with(upstream_url, HOOKS, limits=limits) as url,
        connected(url) as wire,
    ):
        await wire.write(request_bytes("POST", UNARY, b"", {**KEY, "Transfer-Encoding": "chunked"}))
        await wire.write(b"65\r\n" + b" " * 101 + b"\r\n")  # and no more of it
        assert (await wire.answer()).status == 413
        assert not recorded


async def test_a_bomb_is_refused_by_its_inflated_size() -> None:
    limits = LimitSettings(body=100_000)
    bomb = gzip.compress(b" " * 10_000_000)
    assert len(bomb) < 100_000
    async with (
        running_upstream() as (upstream_url, recorded),
        gateway_with(upstream_url, HOOKS, limits=limits) as url,
    ):
        answer = await post(url, UNARY, bomb, {**KEY, "Content-Encoding": "gzip"})
        assert not recorded
    assert answer.status == 413


@pytest.mark.parametrize("coding", ["br", "zstd", "x-gzip", "gzip, gzip", "gzip\r\nContent-Encoding: gzip"])
async def test_unknown_or_doubled_content_encodings_are_refused(coding: str) -> None:
    async with running_gateway(HOOKS) as gateway:
        answer = await post(gateway.url, UNARY, ZIPPED, {**KEY, "Content-Encoding": coding})
        assert not gateway.recorded
    assert (answer.status, answer.error["status"]) == (415, "INVALID_ARGUMENT")


@pytest.mark.parametrize(
    ("coding", "body"),
    [
        ("gzip", ZIPPED),
        ("GZIP", ZIPPED),
        ("deflate", zlib.compress(TEXT)),
        ("identity", TEXT),
    ],
)
async def test_compressed_bodies_are_decompressed_and_forwarded(coding: str, body: bytes) -> None:
    async with running_gateway(HOOKS) as gateway:
        answer = await post(gateway.url, UNARY, body, {**KEY, "Content-Encoding": coding})
        [request] = gateway.recorded
    assert (answer.status, request.body) == (200, HI)
    assert "content-encoding" not in request.headers


@pytest.mark.parametrize("body", [b"not gzip at all", ZIPPED[:-12]])
async def test_a_broken_compressed_body_is_refused(body: bytes) -> None:
    async with running_gateway(HOOKS) as gateway:
        answer = await post(gateway.url, UNARY, body, {**KEY, "Content-Encoding": "gzip"})
        assert not gateway.recorded
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")


async def test_a_chunked_body_is_read() -> None:
    chunked = b"%x\r\n%s\r\n%x\r\n%s\r\n0\r\n\r\n" % (5, TEXT[:5], len(TEXT) - 5, TEXT[5:])
    async with running_gateway(HOOKS) as gateway:
        answer = await post(gateway.url, UNARY, chunked, {**KEY, "Transfer-Encoding": "chunked"})
        assert gateway.recorded[0].body == HI
    assert answer.status == 200


@pytest.mark.parametrize(
    "request_bytes",
    [
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n",
        b"POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\nContent-Length: 3\r\n\r\n{}",
        b"POST %s HTTP/1.1\r\nHost: x\r\nX-A: 1\r\n folded\r\nContent-Length: 2\r\n\r\n{}",
        b"POST %s HTTP/1.1\r\nHost : x\r\nContent-Length: 2\r\n\r\n{}",
        b"POST %s x HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}",
    ],
    ids=["two framings", "two lengths", "folding", "space before colon", "space in target"],
)
async def test_malformed_http_is_refused_in_the_same_format(request_bytes: bytes) -> None:
    async with running_gateway(HOOKS) as gateway, connected(gateway.url) as wire:
        await wire.write(request_bytes % UNARY.encode())
        answer = await wire.answer()
        assert (answer.status, answer.error["code"], answer.error["status"]) == (400, 400, "INVALID_ARGUMENT")
        assert await wire.ended()
        assert not gateway.recorded


async def test_a_connection_serves_the_next_call_after_a_refused_body() -> None:
    async with running_gateway(HOOKS) as gateway, connected(gateway.url) as wire:
        await wire.post(UNARY, b"{")
        assert (await wire.answer()).status == 400
        await wire.post(UNARY, HI)
        assert (await wire.answer()).status == 200


# ---- the memory that bodies hold


@asynccontextmanager
async def reader(limits: LimitSettings) -> AsyncIterator[tuple[str, list[Any]]]:
    """A server that reads bodies; gives its base URL, and its requests."""
    requests: list[Any] = []

    async def read(request: Any) -> web.StreamResponse:
        requests.append(request)
        try:
            await read_request(request)
        except ApiError as error:
            return error_response(error)
        finally:
            sizes.append(request.memory_lease.size)
        return web.Response()

    sizes: list[int] = []
    async with serve_on(read, "127.0.0.1", 0, limits) as url:
        yield url, requests
    requests.append(sizes)


LARGE = json.dumps({"a": ["x" * (SMALL_BODY + 200), 1, {"b": 2}]}).encode()
LIMITS = LimitSettings(body=2 * SMALL_BODY)


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "with a length"])
@pytest.mark.parametrize("coding", ["identity", "gzip"])
async def test_a_body_reserves_what_has_arrived_and_then_its_real_size(chunked: bool, coding: str) -> None:
    data = LARGE if coding == "identity" else gzip.compress(LARGE, 0)
    length = {"Transfer-Encoding": "chunked"} if chunked else {"Content-Length": str(len(data))}
    pieces = [data[:100], data[100:-100], data[-100:]]
    async with reader(LIMITS) as (url, requests), connected(url) as wire:
        await wire.write(request_bytes("POST", UNARY, b"", {"Content-Encoding": coding, **length}))
        for piece, size in zip(pieces[:2], (100, len(data) - 100), strict=True):
            await wire.write(b"%x\r\n%b\r\n" % (len(piece), piece) if chunked else piece)
            await until(lambda: requests and requests[0].memory_lease.size == size)  # noqa: B023  # at once
        await wire.write(b"64\r\n%b\r\n0\r\n\r\n" % pieces[2] if chunked else pieces[2])
        assert (await wire.answer()).status == 200
        await until(lambda: requests[0].body_worker.memory.reserved == 0)
    values = parse(LARGE, BodyWorker(LIMITS).bounds).count
    assert requests[-1] == [len(LARGE) + VALUE_BYTES * values]


async def test_a_compressed_body_reserves_what_has_been_decompressed(monkeypatch: pytest.MonkeyPatch) -> None:
    sizes, reserve = list[int](), MemoryLease.reserve

    async def noted(lease: MemoryLease, size: int) -> None:
        sizes.append(size)
        await reserve(lease, size)

    monkeypatch.setattr(MemoryLease, "reserve", noted)
    data = json.dumps({"a": " " * 10 * INFLATE_STEP}).encode()
    packed = gzip.compress(data)
    async with reader(LimitSettings()) as (url, _):
        assert (await post(url, UNARY, packed, {"Content-Encoding": "gzip"})).status == 200
    assert (sizes[0], sizes[-1]) == (len(packed), len(packed) + len(data))
    assert len(sizes) > 5
    assert all(after - before <= before // 4 + 2 * INFLATE_STEP for before, after in pairwise(sizes))


async def test_announced_bodies_of_which_nothing_has_arrived_keep_no_other_body_waiting() -> None:
    limits = LimitSettings(memory=2 * SMALL_BODY)
    async with reader(limits) as (url, requests), AsyncExitStack() as stack:
        for _ in range(4):
            silent = await stack.enter_async_context(connected(url))
            await silent.write(request_bytes("POST", UNARY, b"", {"Content-Length": str(limits.body)}))
        await until(lambda: len(requests) == 4)
        for body in (TEXT, LARGE):
            assert (await post(url, UNARY, body)).status == 200
        await until(lambda: requests[0].body_worker.memory.reserved == 0)


async def test_small_bodies_do_not_wait_while_large_ones_do() -> None:
    async with reader(LimitSettings(memory=SMALL_BODY)) as (url, requests), AsyncExitStack() as stack:
        for number in range(3):
            wire = await stack.enter_async_context(connected(url))
            await wire.write(request_bytes("POST", UNARY, b"", {"Content-Length": str(len(LARGE))}))
            await wire.write(LARGE[:-1])
            await until(lambda: len(requests) > number)  # noqa: B023  # at once
        await until(lambda: requests[0].body_worker.memory._waiting)
        for coding, body in (("identity", TEXT), ("gzip", ZIPPED)):
            assert (await post(url, UNARY, body, {"Content-Encoding": coding})).status == 200


async def test_what_becomes_large_when_it_is_parsed_waits_for_memory_first() -> None:
    """A small body may contain so many values that they take forty times as much."""
    body = b'{"a":[' + b"[]," * 20_000 + b"1]}"
    async with reader(LimitSettings(memory=SMALL_BODY)) as (url, requests), connected(url) as small:
        async with AsyncExitStack() as stack:
            for number in range(2):
                wire = await stack.enter_async_context(connected(url))
                await wire.write(request_bytes("POST", UNARY, b"", {"Content-Length": str(len(LARGE))}))
                await wire.write(LARGE[:-1])
                await until(lambda: len(requests) > number and requests[number].memory_lease.size)  # noqa: B023  # at once
            await small.post(UNARY, body)
            await until(lambda: requests[0].body_worker.memory._waiting)
            assert requests[2].memory_lease.size == len(body)
        assert (await small.answer()).status == 200


async def test_a_silent_body_makes_way_for_those_that_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(MemoryLease, "fair_seconds", 0.05)
    async with (
        reader(LimitSettings(memory=SMALL_BODY)) as (url, requests),
        connected(url) as slow,
        connected(url) as exceeding,
        connected(url) as waiting,
    ):
        for number, wire in enumerate((slow, exceeding)):
            await wire.write(request_bytes("POST", UNARY, b"", {"Content-Length": str(len(LARGE))}))
            await wire.write(LARGE[:-1])
            await until(
                lambda: (
                    len(requests) > number  # noqa: B023  # at once
                    and requests[number].memory_lease.size == len(LARGE) - 1  # noqa: B023  # at once
                )
            )
        await waiting.post(UNARY, LARGE)
        for wire in (slow, exceeding):  # they send nothing more
            refused = await wire.answer()
            assert (refused.status, "too slowly" in refused.error["message"]) == (400, True)
        assert (await waiting.answer()).status == 200
