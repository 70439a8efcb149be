"""Forwarded requests: unchanged in both directions, and never buffered in memory."""

import asyncio
import gzip
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from support.gateway.loopback import FORWARDS_FILES, gateway_before
from support.hooks.http import peer as talking
from support.programs.program import serving
from support.wire import KEY, connected, peer, response

from hookgate.proxy.calls.forward import MAX_UNSEEN
from hookgate.proxy.config import Config, RouteSettings

UPLOAD = "/upload/v1beta/files?upload_id=1&upload_protocol=resumable"
MIB = 1024 * 1024
ANSWER = response(200, b"{}", {"Content-Type": "application/json"})


@dataclass
class Sink:
    """A server that swallows a body of a told length, and says how much of it came."""

    url: str = ""
    received: int = 0


@asynccontextmanager
async def sink() -> AsyncIterator[Sink]:
    here = Sink()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        head = await reader.readuntil(b"\r\n\r\n")
        length = int(re.search(rb"(?i)content-length: (\d+)", head)[1])  # type: ignore[index]  # it is there
        while here.received < length and (data := await reader.read(MIB)):
            here.received += len(data)
        writer.write(ANSWER)

    async with talking(talk) as here.url:
        yield here


# ---- memory


def peak(pid: int) -> int:
    """The most memory that a process has ever held, in bytes."""
    status = Path(f"/proc/{pid}/status").read_text()
    found = re.search(r"VmHWM:\s+(\d+) kB", status)
    assert found
    return int(found[1]) * 1024


async def test_an_upload_of_100_mib_adds_less_than_10_to_the_process() -> None:
    size = 100 * MIB
    async with (
        sink() as upstream,
        serving(
            *("serve", "--listen", "127.0.0.1:0", "--upstream", upstream.url),
            env={"HOOKGATE_ROUTES__FILES": "forward"},
        ) as hookgate,
    ):
        async with connected(hookgate.url) as wire:  # what is imported with the first request does not count
            await wire.write(b"GET /nothing-here HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert (await wire.answer()).status == 403
            before = peak(hookgate.pid)
            await wire.write(_head(f"Content-Length: {size}"))
            for _ in range(100):
                await wire.write(bytes(MIB))
            assert (await wire.answer()).status == 200
        added = peak(hookgate.pid) - before
    assert upstream.received == size
    assert added < 10 * MIB, added


async def test_a_download_flows_while_it_comes() -> None:
    pause = asyncio.Event()
    first = b"HTTP/1.1 200 OK\r\nContent-Length: 8\r\n\r\nhalf"

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(first)
        await pause.wait()
        writer.write(b"half")

    async with talking(talk) as url, gateway_before(url) as gateway, connected(gateway) as wire:
        await wire.write(b"GET /v1beta/files/a:download?alt=media HTTP/1.1\r\nHost: h\r\n\r\n")
        _, headers = await wire.head()
        assert await wire.received(4, headers) == b"half"
        pause.set()
        assert await wire.received(4, headers) == b"half"
    assert headers["content-length"] == "8"


# ---- framing


def _head(*lines: str, target: str = UPLOAD, method: str = "POST") -> bytes:
    return "\r\n".join([f"{method} {target} HTTP/1.1", "Host: localhost", *lines, "", ""]).encode()


@pytest.mark.parametrize("method", ["POST", "PUT"])
async def test_a_reported_length_is_forwarded(method: str) -> None:
    async with (
        peer(ANSWER) as upstream,
        gateway_before(upstream.url, config=FORWARDS_FILES) as url,
        connected(url) as wire,
    ):
        await wire.write(_head("Content-Length: 3", "Content-Range: bytes 0-2/3", method=method) + b"abc")
        assert (await wire.answer()).status == 200
    head, _, body = upstream.heard[0].partition(b"\r\n\r\n")
    assert head.endswith(b"\r\nContent-Length: 3")
    assert b"\r\nContent-Range: bytes 0-2/3" in head
    assert b"chunked" not in head
    assert body == b"abc"


async def test_a_part_of_a_file_can_be_had_and_none_of_a_judged_answer() -> None:
    async with peer(ANSWER) as upstream, gateway_before(upstream.url) as url:
        for method, target in [("GET", "/v1/files/a:download"), ("POST", "/v1/models/m:generateContent")]:
            async with connected(url) as wire:
                await wire.write(_head("Range: bytes=0-2", "Content-Length: 0", target=target, method=method))
                await wire.answer()
    assert [b"Range: bytes=0-2" in request for request in upstream.heard] == [True, False]


async def test_chunks_are_forwarded_as_chunks() -> None:
    async with (
        peer(ANSWER) as upstream,
        gateway_before(upstream.url, config=FORWARDS_FILES) as url,
        connected(url) as wire,
    ):
        await wire.write(_head("Transfer-Encoding: chunked") + b"3\r\nabc\r\n0\r\n\r\n")
        assert (await wire.answer()).status == 200
    assert b"Transfer-Encoding: chunked" in upstream.heard[0]
    assert upstream.heard[0].endswith(b"3\r\nabc\r\n0\r\n\r\n")


async def test_a_compressed_body_is_forwarded_unchanged_and_an_unknown_coding_is_refused() -> None:
    packed = gzip.compress(b"abc")
    length = f"Content-Length: {len(packed)}"
    async with peer(ANSWER) as upstream, gateway_before(upstream.url, config=FORWARDS_FILES) as url:
        async with connected(url) as wire:
            await wire.write(_head(length, "Content-Encoding: gzip") + packed)
            assert (await wire.answer()).status == 200
        async with connected(url) as wire:
            await wire.write(_head(length, "Content-Encoding: x-gzip") + packed)
            assert (await wire.answer()).status == 415
    assert len(upstream.heard) == 1
    assert upstream.heard[0].endswith(b"\r\n\r\n" + packed)
    assert length.encode() in upstream.heard[0]
    assert b"Content-Encoding: gzip" in upstream.heard[0]


# ---- failures


async def test_a_body_that_breaks_off_is_not_called_the_upstreams_failure() -> None:
    async with sink() as upstream, gateway_before(upstream.url) as url, connected(url) as wire:
        await wire.write(_head("Transfer-Encoding: chunked") + b"3\r\nabc\r\nXYZ\r\n")
        answer = await wire.answer()
    assert (answer.status, answer.error["status"]) == (400, "INVALID_ARGUMENT")


async def test_a_client_that_resets_is_not_called_the_upstreams_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    begun, ended = asyncio.Event(), asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        begun.set()
        try:
            await reader.read()
        finally:
            ended.set()

    async with talking(talk) as upstream, gateway_before(upstream, config=FORWARDS_FILES) as url:
        async with connected(url) as wire:
            await wire.write(_head("Content-Length: 1000") + b"abc")
            await begun.wait()
        async with asyncio.timeout(1):
            await ended.wait()
    assert all(record.levelname == "INFO" for record in caplog.records)
    assert " 502 " not in caplog.text


# ---- what nobody sees is small


@pytest.mark.parametrize("target", ["/v1internal:recordCodeAssistMetrics", "/v1beta/batches/b:cancel"])
@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "length"])
async def test_a_body_that_no_hook_sees_is_bounded(target: str, chunked: bool) -> None:
    body = bytes(MAX_UNSEEN + 1)
    sent = b"%x\r\n%b\r\n0\r\n\r\n" % (len(body), body) if chunked else body
    described = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    async with sink() as upstream, gateway_before(upstream.url) as url:
        async with connected(url) as wire:
            await wire.write(_head(described, target=target) + sent)
            assert (await wire.answer()).status == 413
        async with connected(url) as wire:
            await wire.write(_head("Content-Length: 2", target=target) + b"{}")
            assert (await wire.answer()).status == 200


# ---- what is deleted or canceled


CACHE = "/v1beta/cachedContents/c"
CANCELED = ("/v1beta/batches/b:cancel", "/v1beta/models/m/operations/o:cancel")


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "length"])
@pytest.mark.parametrize("body", [b"{}", b" { }\r\n", b""])
@pytest.mark.parametrize(
    ("method", "target"),
    [
        *(("DELETE", target) for target in (CACHE, "/v1beta/batches/b", "/v1beta/interactions/i")),
        *(("POST", target) for target in CANCELED),
    ],
)
async def test_an_sdk_deletes_or_cancels_with_an_empty_object(
    method: str, target: str, body: bytes, chunked: bool
) -> None:
    async with peer(ANSWER) as upstream, gateway_before(upstream.url) as url, connected(url) as wire:
        await wire.write(_request(method, target, body, chunked))
        assert (await wire.answer()).status == 200
    head, _, forwarded = upstream.heard[0].partition(b"\r\n\r\n")
    assert head.startswith(f"{method} {target}".encode())
    assert forwarded == b"".join(body.split())


@pytest.mark.parametrize("chunked", [True, False], ids=["chunked", "length"])
@pytest.mark.parametrize(
    "body", [b'{"a":1}', b"[]", b"{}{}", b'"x"', b"{\0}", b"\xef\xbb\xbf{}", b"{", b"key"]
)
@pytest.mark.parametrize(
    ("method", "target"), [("DELETE", CACHE), *(("POST", target) for target in CANCELED)]
)
async def test_what_hooks_would_not_see_is_not_sent_to_delete_or_cancel(
    method: str, target: str, body: bytes, chunked: bool
) -> None:
    async with peer(ANSWER) as upstream, gateway_before(upstream.url) as url, connected(url) as wire:
        await wire.write(_request(method, target, body, chunked))
        answer = await wire.answer()
    assert (answer.status, "send none, or {}" in answer.error["message"]) == (400, True)
    assert upstream.heard == []


async def test_a_large_body_of_a_delete_is_refused_before_it_is_read() -> None:
    async with peer(ANSWER) as upstream, gateway_before(upstream.url) as url, connected(url) as wire:
        await wire.write(_head(f"Content-Length: {MIB * 100}", target=CACHE, method="DELETE"))
        assert (await wire.answer()).status == 413
    assert upstream.heard == []


def _request(method: str, target: str, body: bytes, chunked: bool) -> bytes:
    described = "Transfer-Encoding: chunked" if chunked else f"Content-Length: {len(body)}"
    pieces = b"%x\r\n%b\r\n" % (len(body), body) if body else b""
    return _head(described, target=target, method=method) + (pieces + b"0\r\n\r\n" if chunked else body)


# ---- keys


@pytest.mark.parametrize(
    ("target", "headers", "expected"),
    [
        ("/v1/models?key=a%2Fb", [], b"a/b"),
        ("/v1/models?key=k&pageSize=3", ["x-goog-api-key: k"], b"k"),
    ],
)
async def test_a_key_in_the_query_is_forwarded_as_a_header(
    target: str, headers: list[str], expected: bytes
) -> None:
    async with peer(ANSWER) as upstream, gateway_before(upstream.url) as url, connected(url) as wire:
        await wire.write(_head(*headers, target=target, method="GET"))
        assert (await wire.answer()).status == 200
    assert b"key=" not in upstream.heard[0]
    assert upstream.heard[0].lower().count(b"\r\nx-goog-api-key: " + expected + b"\r\n") == 1


async def test_two_keys_are_refused() -> None:
    async with peer(ANSWER) as upstream, gateway_before(upstream.url) as url, connected(url) as wire:
        await wire.write(_head("x-goog-api-key: b", target="/v1/models?key=a", method="GET"))
        answer = await wire.answer()
    assert (answer.status, "two different credentials" in answer.error["message"]) == (400, True)
    assert upstream.heard == []


# ---- what is let through


async def test_an_unhooked_route_is_refused_with_its_remedy_and_marked_when_it_is_let_through(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    request = _head(
        "Content-Length: 2",
        f"x-goog-api-key: {KEY['x-goog-api-key']}",
        target="/v1beta/openai/images/generations",
    )
    async with peer(ANSWER) as upstream:
        async with gateway_before(upstream.url) as url, connected(url) as wire:
            await wire.write(request + b"{}")
            answer = await wire.answer()
        assert answer.status == 403
        remedy = 'set routes.unhooked = ["openai"] in hookgate.toml to forward it unjudged'
        assert remedy in answer.error["message"]
        assert upstream.heard == []
        async with gateway_before(
            upstream.url, config=Config(routes=RouteSettings(unhooked=("openai",)))
        ) as url:
            for _ in range(2):
                async with connected(url) as wire:
                    await wire.write(request + b"{}")
                    assert (await wire.answer()).status == 200
    lines = [record for record in caplog.records if "unhooked" in record.getMessage()]
    assert [record.levelname for record in lines] == ["WARNING", "INFO", "INFO"]


async def test_a_client_that_stops_reading_is_not_called_the_upstreams_failure(
    caplog: pytest.LogCaptureFixture,
) -> None:
    caplog.set_level("INFO")
    ended = asyncio.Event()

    async def talk(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.readuntil(b"\r\n\r\n")
        writer.write(b"HTTP/1.1 200 OK\r\nContent-Length: 1000000000\r\n\r\n")
        try:
            while True:
                writer.write(bytes(MIB))
                await writer.drain()
        finally:
            ended.set()

    async with talking(talk) as upstream, gateway_before(upstream) as url:
        async with connected(url) as wire:
            await wire.write(_head(target="/v1/files/a:download", method="GET"))
            assert (await wire.head())[0] == 200
        async with asyncio.timeout(1):
            await ended.wait()
    assert all(record.levelname == "INFO" for record in caplog.records)
