"""Issued keys that are revoked or rotated, and problems with their database and pepper."""

import asyncio
import contextlib
import sqlite3
import threading
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from typing import Any

import aiohttp
import pytest
from aiohttp import web
from support.gateway.databases import postgres
from support.gateway.dialects import REDACT
from support.gateway.keys import (
    UPSTREAM_KEY,
    denial_reason,
    id_of,
    issue,
    issuing_gateway,
    key_header,
    key_table,
    revoke,
    rotate,
    until_answered,
)
from support.hooks.http import service
from support.wire import HI, SSE, UNARY, post, spoken, sse

from hookgate.proxy.keys import issued as issued_keys
from hookgate.proxy.keys.secrets import Pepper, create_key, load_pepper
from hookgate.proxy.keys.table import KeyTable, StoredKey
from hookgate.proxy.store import StoreError

pytestmark = pytest.mark.e2e

LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
OWN = "AIza-the-callers-own"


async def test_a_revoked_key_is_refused_by_every_gateway_within_five_seconds(
    url: str | None, tmp_path: Path
) -> None:
    assert issued_keys._FRESH_SECONDS <= 4
    key = issue(tmp_path, url)
    async with (
        issuing_gateway(tmp_path, url=url) as one,
        issuing_gateway(tmp_path, url=url) as other,
    ):
        for gateway in (one, other):
            assert (await post(gateway.url, UNARY, HI, key_header(key))).status == 200
        revoke(tmp_path, key, url)
        for gateway in (one, other):
            assert denial_reason(await until_answered(gateway.url, key, 403)) == "KEY_REVOKED"


@pytest.mark.parametrize("change", [revoke, rotate])
async def test_a_websocket_is_closed_when_its_key_is_withdrawn(change: Any, tmp_path: Path) -> None:
    async def upstream(request: web.BaseRequest) -> web.StreamResponse:
        socket = web.WebSocketResponse()
        await socket.prepare(request)
        await socket.send_str(f"quoted: {request.headers['x-goog-api-key']}")
        async for message in socket:
            await socket.send_str(message.data)
        closed.set()
        return socket

    key, closed = issue(tmp_path, scope={"routes": ["live"]}), asyncio.Event()
    runner = web.ServerRunner(web.Server(upstream))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    there = "http://{}:{}".format(*runner.addresses[0][:2])
    async with (
        asyncio.timeout(10),
        issuing_gateway(tmp_path, upstream_url=there, routes={"unhooked": ["live"]}) as gateway,
        aiohttp.ClientSession() as http,
        http.ws_connect(f"{gateway.url}{LIVE}?key={key}") as socket,
    ):
        assert await socket.receive_str() == f"quoted: {'*' * len(UPSTREAM_KEY)}"
        await socket.send_str("still there?")
        assert await socket.receive_str() == "still there?"
        change(tmp_path, key)
        message = await socket.receive(timeout=5)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, aiohttp.WSCloseCode.POLICY_VIOLATION)
        assert message.extra == "The key was revoked or replaced, or has expired."
        await closed.wait()
    await runner.cleanup()


@pytest.mark.parametrize("hooks", [{}, {"AfterModel": [REDACT]}], ids=["without hooks", "with hooks"])
@pytest.mark.parametrize(("change", "word"), [(revoke, b"was revoked"), (rotate, b"was replaced")])
async def test_a_stream_ends_when_its_key_is_withdrawn(
    change: Any, word: bytes, hooks: Any, tmp_path: Path
) -> None:
    left = asyncio.Event()

    async def endless(request: web.Request) -> web.StreamResponse:
        answer = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await answer.prepare(request)
        try:
            while True:
                await answer.write(sse(spoken("more. "))[0])
                await asyncio.sleep(0.05)
        finally:
            left.set()

    key = issue(tmp_path)
    async with (
        asyncio.timeout(20),
        service(endless) as there,
        issuing_gateway(tmp_path, hooks, upstream_url=there) as gateway,
        aiohttp.ClientSession() as http,
        http.post(f"{gateway.url}{SSE}", json=HI, headers=key_header(key)) as answer,
    ):
        received = await answer.content.readany()
        assert b"more. " in received
        await asyncio.to_thread(change, tmp_path, key)
        with contextlib.suppress(aiohttp.ClientPayloadError):  # copied streams are cut off
            async for chunk in answer.content.iter_any():
                received += chunk
        assert (word in received) is bool(hooks)
        await left.wait()


async def test_a_lookup_that_began_before_a_revocation_is_not_used_for_longer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The key is read before it is revoked, and the result arrives late: its age counts from its reading."""
    monkeypatch.setattr(issued_keys, "_FRESH_SECONDS", 0.4)
    key, read, revoked = issue(tmp_path), asyncio.Event(), threading.Event()
    loop, find = asyncio.get_running_loop(), KeyTable.find

    def find_slowly(table: KeyTable, key_id: str) -> StoredKey | None:
        stored = find(table, key_id)
        loop.call_soon_threadsafe(read.set)
        revoked.wait(5)
        return stored

    async with issuing_gateway(tmp_path) as gateway:
        monkeypatch.setattr(KeyTable, "find", find_slowly)
        call = asyncio.create_task(post(gateway.url, UNARY, HI, key_header(key)))
        await read.wait()
        revoke(tmp_path, key)
        assert denial_reason(await call) == "KEYS_UNAVAILABLE"
        revoked.set()
        assert denial_reason(await until_answered(gateway.url, key, 403)) in (
            "KEY_REVOKED",
            "KEYS_UNAVAILABLE",
        )
        assert not gateway.recorded


async def test_many_calls_at_once_look_a_key_up_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    key, found, find = issue(tmp_path), [], KeyTable.find

    def counted(table: KeyTable, key_id: str) -> StoredKey | None:
        found.append(key_id)
        return find(table, key_id)

    monkeypatch.setattr(KeyTable, "find", counted)
    monkeypatch.setattr(issued_keys, "_FRESH_SECONDS", 60)
    async with issuing_gateway(tmp_path) as gateway:
        answers = await asyncio.gather(*(post(gateway.url, UNARY, HI, key_header(key)) for _ in range(20)))
    assert {answer.status for answer in answers} == {200}
    assert found == [id_of(key)]


async def test_a_guessed_id_costs_as_many_lookups_as_a_wrong_secret(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found, find = [], KeyTable.find

    def counted(table: KeyTable, key_id: str) -> StoredKey | None:
        found.append(key_id)
        return find(table, key_id)

    monkeypatch.setattr(KeyTable, "find", counted)
    monkeypatch.setattr(issued_keys, "_RETRY_SECONDS", 60)
    wrong, unknown = create_key(id_of(issue(tmp_path)))[0], create_key()[0]
    async with issuing_gateway(tmp_path) as gateway:
        for key in (wrong, unknown):
            answers = [await post(gateway.url, UNARY, HI, key_header(key)) for _ in range(3)]
            assert {(denial_reason(answer), answer.error["message"]) for answer in answers} == {
                ("KEY_UNKNOWN", answers[0].error["message"])
            }
    assert found == [id_of(wrong), id_of(unknown)]


async def test_an_old_key_is_valid_for_the_overlap_of_a_rotation(url: str | None, tmp_path: Path) -> None:
    old = issue(tmp_path, url)
    async with issuing_gateway(tmp_path, url=url) as gateway:
        new = rotate(tmp_path, old, 60, url)
        await until_answered(gateway.url, new)
        assert (await post(gateway.url, UNARY, HI, key_header(old))).status == 200
        newest = rotate(tmp_path, old, 0, url)
        replaced = await until_answered(gateway.url, new, 403)
        assert (denial_reason(replaced), "was replaced" in replaced.error["message"]) == ("KEY_EXPIRED", True)
        assert denial_reason(await post(gateway.url, UNARY, HI, key_header(old))) == "KEY_UNKNOWN"
        assert (await post(gateway.url, UNARY, HI, key_header(newest))).status == 200


async def test_a_new_key_is_accepted_at_once_although_it_was_tried_before(tmp_path: Path) -> None:
    key, key_id = create_key()
    async with issuing_gateway(tmp_path) as gateway:
        assert denial_reason(await post(gateway.url, UNARY, HI, key_header(key))) == "KEY_UNKNOWN"
        pepper = gateway.keys._pepper
        issue(tmp_path, id=key_id, hash=pepper.hash(key))
        await until_answered(gateway.url, key, seconds=1.5)


async def test_calls_are_refused_while_the_keys_cannot_be_read(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    key = issue(tmp_path)
    async with issuing_gateway(tmp_path) as gateway:
        with closing(sqlite3.connect(tmp_path / "keys.db", isolation_level=None)) as file:
            file.execute("ALTER TABLE issued_keys RENAME TO away")
            assert denial_reason(await post(gateway.url, UNARY, HI, key_header(key))) == "KEYS_UNAVAILABLE"
            assert (await post(gateway.url, UNARY, HI, key_header(OWN))).status == 200
            file.execute("ALTER TABLE away RENAME TO issued_keys")
        assert (await post(gateway.url, UNARY, HI, key_header(key))).status == 200
        assert len(gateway.recorded) == 2
    assert "cannot be used: no such table: issued_keys" in caplog.text


async def test_a_scope_of_a_newer_version_is_not_ignored(tmp_path: Path) -> None:
    key = issue(tmp_path)
    with closing(sqlite3.connect(tmp_path / "keys.db", isolation_level=None)) as file:
        file.execute("""UPDATE issued_keys SET scope = '{"routes": ["generate"], "hours": "9-17"}'""")
    async with issuing_gateway(tmp_path) as gateway:
        assert denial_reason(await post(gateway.url, UNARY, HI, key_header(key))) == "KEYS_UNAVAILABLE"


# ---- the pepper


async def test_keys_of_another_pepper_are_an_error_at_the_start(tmp_path: Path) -> None:
    issue(tmp_path)
    (tmp_path / "keys.pepper").write_text("another-" * 8)
    with pytest.raises(StoreError, match="keys were issued with another pepper"):
        async with issuing_gateway(tmp_path):
            pass


async def test_gateways_share_keys_by_their_database_and_a_copy_of_the_pepper(tmp_path: Path) -> None:
    with postgres() as url:
        key = issue(tmp_path / "one", url)
        (tmp_path / "copy").write_bytes((tmp_path / "one" / "keys.pepper").read_bytes())
        clients = {"issued_keys": True, "pepper_file": tmp_path / "copy"}
        async with issuing_gateway(tmp_path / "two", url=url, clients=clients) as gateway:
            assert (await post(gateway.url, UNARY, HI, key_header(key))).status == 200


def test_the_pepper_and_the_keys_belong_to_one_user_only(tmp_path: Path) -> None:
    issue(tmp_path / "state")
    with key_table(tmp_path / "state") as table:
        assert table.all()
        modes = {path.name: path.stat().st_mode & 0o777 for path in (tmp_path / "state").iterdir()}
    assert set(modes.values()) == {0o600}
    assert modes.keys() >= {"keys.db", "keys.pepper"}


def test_processes_that_create_the_pepper_at_once_have_the_same(tmp_path: Path) -> None:
    with ThreadPoolExecutor(8) as threads:
        peppers = list(threads.map(lambda _: load_pepper(None, tmp_path), range(32)))
    assert len({pepper.fingerprint for pepper in peppers}) == 1
    assert [path.name for path in tmp_path.iterdir()] == ["keys.pepper"]


@pytest.mark.parametrize("text", ["", "short", "with blanks " * 9, "é" * 40], ids=repr)
def test_a_pepper_that_could_be_guessed_is_refused(text: str, tmp_path: Path) -> None:
    (tmp_path / "pepper").write_text(text)
    with pytest.raises(StoreError, match="must contain 32 to 512 letters, digits and symbols"):
        load_pepper(tmp_path / "pepper", tmp_path)


def test_a_copy_of_the_database_does_not_contain_a_key_or_its_plain_hash(tmp_path: Path) -> None:
    key = issue(tmp_path)
    stored = b"".join(path.read_bytes() for path in tmp_path.glob("keys.db*"))
    assert key.encode() not in stored
    assert sha256(key.encode()).digest() not in stored


def test_keys_that_an_earlier_version_has_issued_stay_valid() -> None:
    """The database contains these hashes."""
    pepper = Pepper(b"p" * 32)
    assert pepper.fingerprint.hex() == "e8363da0c956d138"
    hashed = "c0b7d345b4f8c56ecc6f8be456a70616aab68e6e29851d62f542fba813742ac6"
    assert pepper.hash("hg_0123456789abcdef").hex() == hashed


@pytest.mark.parametrize("hooks", [{}, {"BeforeModel": [{"type": "command", "command": "true"}]}])
async def test_a_key_that_is_revoked_while_its_body_arrives_is_refused(
    hooks: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The client decides when the body is complete."""
    monkeypatch.setattr(issued_keys, "_FRESH_SECONDS", 0.05)
    key, started = issue(tmp_path), asyncio.Event()

    async def body() -> AsyncIterator[bytes]:
        yield b'{"contents": [{"role": "user",'
        started.set()
        await withdrawn.wait()
        yield b'"parts": [{"text": "hi"}]}]}'

    withdrawn = asyncio.Event()
    async with issuing_gateway(tmp_path, hooks) as gateway, aiohttp.ClientSession() as http:
        headers = {**key_header(key), "content-type": "application/json"}
        call = asyncio.create_task(http.post(f"{gateway.url}{UNARY}", data=body(), headers=headers))
        await started.wait()
        await asyncio.to_thread(revoke, tmp_path, key)
        await asyncio.sleep(0.2)  # the result of the first lookup may be used for a moment
        withdrawn.set()
        async with await call as answer:
            assert answer.status == 403
        assert all(each.body is None for each in gateway.recorded)  # cut off before its end, if it was begun


async def test_keys_that_are_in_use_are_looked_up_among_many_invented_ones(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key, blocked = issue(tmp_path), threading.Event()
    async with issuing_gateway(tmp_path) as gateway:
        valid = await gateway.keys.identify(key)
        assert valid is not None
        assert valid.state == "valid"
        original = KeyTable.find

        def find(table: KeyTable, key_id: str) -> StoredKey | None:
            if key_id != id_of(key):
                blocked.wait(10)
            return original(table, key_id)

        monkeypatch.setattr(KeyTable, "find", find)
        invented = [asyncio.create_task(gateway.keys.identify(create_key()[0])) for _ in range(200)]
        await asyncio.sleep(0)
        again = await gateway.keys._find(id_of(key), 0.0)  # as if its last result were too old
        blocked.set()
        assert again.stored is not None
        states = [each.state for each in await asyncio.gather(*invented) if each is not None]
        assert set(states) <= {"unknown", "unavailable"}
        assert "unavailable" in states
