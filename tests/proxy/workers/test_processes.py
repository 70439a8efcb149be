"""Several worker processes on one port: what they share, and what happens if one ends."""

import asyncio
import contextlib
import errno
import json
import os
import re
import signal
import sys
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.conversation import answer_text, user_turn
from support.gateway.audits import reading, report_of
from support.gateway.databases import postgres
from support.gateway.in_flight import in_flight
from support.gateway.life import until
from support.gateway.loopback import running_upstream, write_settings
from support.programs.program import Server, run, serving
from support.wire import HI, KEY, UNARY, Wire, ask, connected, request_bytes

from hookgate.proxy.workers import processes
from hookgate.proxy.workers.processes import WorkerProcesses, WorkerStartError

pytestmark = pytest.mark.e2e

GUARD = '''
import os

async def identify(event):
    """Tell in the model's place which process judges the call."""
    text = event["llm_request"]["messages"][-1]["content"]
    if text != "who are you?":
        return None
    parts = [str(os.getpid())]
    answer = {"candidates": [{"content": {"role": "model", "parts": parts}, "finishReason": "STOP"}]}
    return {"hookSpecificOutput": {"llm_response": answer}}

async def stop(event):
    return {"continue": False, "stopReason": "enough"} if event["tool_name"] == "stop" else None
'''
HOOKS = {
    "BeforeModel": [{"name": "identify", "type": "runtime", "action": "./guard.py:identify"}],
    "AfterTool": [
        {"name": "stop", "type": "runtime", "action": "./guard.py:stop"},
        {
            "name": "mask",
            "type": "builtin",
            "builtin": "redact",
            "options": {"detect": ["EMAIL"]},
        },
    ],
}
_PATIENCE = 150.0
"""Seconds after which a test hangs: to start its interpreters, a busy machine may take most of a minute."""
SESSION = {**KEY, "x-hookgate-session": "s-1"}
TOKEN = "an-admin-token-of-the-tests-0123"  # noqa: S105  # of these tests
Json = dict[str, Any]


@dataclass(frozen=True)
class Workers:
    """A gateway with workers; `wires` are connections to one each, by its process ID."""

    server: Server
    admin: str
    wires: dict[int, Wire]
    recorded: Any
    ended: "asyncio.Task[int]"
    """Ends with the gateway."""

    async def say(self, wire: Wire, *contents: Json, headers: dict[str, str] = SESSION) -> Any:
        await wire.post(UNARY, {"contents": list(contents)}, headers)
        return await wire.answer()

    async def tell(self, wire: Wire, event: str, **fields: Any) -> Any:
        await wire.post(
            f"/hookgate/v1/events/{event}", {"cwd": "/", "transcript_path": "/t", **fields}, SESSION
        )
        return await wire.answer()


async def process_of(wire: Wire) -> int:
    await wire.post(UNARY, {"contents": [user_turn("who are you?")]}, KEY)
    return int(answer_text((await wire.answer()).json))


@asynccontextmanager
async def workers(
    folder: Path, hooks: Json | None = None, count: int = 2, store: str | None = None
) -> AsyncIterator[Workers]:
    """A gateway with hooks, and a connection to each worker."""
    (folder / "guard.py").write_text(GUARD)
    settings = write_settings(folder, HOOKS if hooks is None else hooks)
    env = {
        "HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0",
        "HOOKGATE_ADMIN__TOKEN": TOKEN,
        "HOOKGATE_STATE": str(folder / "state"),
        **({"HOOKGATE_STORE__URL": store} if store else {}),
    }
    async with AsyncExitStack() as stack:
        upstream, recorded = await stack.enter_async_context(running_upstream())
        arguments = ("--workers", str(count), "--hooks", str(settings), "--upstream", upstream)
        server = await stack.enter_async_context(serving("serve", *arguments, env=env, patience=_PATIENCE))
        ended = asyncio.create_task(server.ended())  # a full pipe would hold up the gateway
        stack.callback(ended.cancel)
        [admin] = re.findall(r"admin listener on (\S+)", server.log)
        wires = await connections_to_each(stack, server.url, count)
        yield Workers(server, admin, wires, recorded, ended)


async def connections_to_each(stack: AsyncExitStack, url: str, count: int) -> dict[int, Wire]:
    """Connections until there is one to each worker, by its process ID."""
    wires: dict[int, Wire] = {}
    while len(wires) < count:
        wire = await stack.enter_async_context(connected(url))
        wires.setdefault(await process_of(wire), wire)
    return wires


async def ready(admin: str, status: int) -> Json:
    """The body of `/readyz`, as soon as it has this status."""
    while (answer := await ask(admin, "GET", "/readyz")).status != status:  # noqa: ASYNC110  # a process
        await asyncio.sleep(0.02)  # what is awaited needs the processor
    body: Json = answer.json
    return body


@pytest.fixture(params=["sqlite", "postgresql"])
def store(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Each kind of database, empty."""
    if request.param == "sqlite":
        yield None
    else:
        with postgres() as server:
            yield server


async def test_a_conversation_may_arrive_at_any_worker(store: str | None, tmp_path: Path) -> None:
    async with workers(tmp_path, store=store) as gateway:
        one, other = gateway.wires.values()
        # What was hidden at one stays hidden at the other.
        call = {"role": "model", "parts": [{"functionCall": {"name": "t", "args": {}}}]}
        output = {"name": "t", "response": {"output": "write to jo@example.com"}}
        result = {"role": "user", "parts": [{"functionResponse": output}]}
        for wire in (one, other):
            answer = await gateway.say(wire, user_turn("do it"), call, result)
            assert answer.status == 200
            [part] = gateway.recorded[-1].body["contents"][-1]["parts"]
            assert "jo@example.com" not in json.dumps(part)
        # A stop at one holds at the other.
        told = await gateway.tell(one, "AfterTool", tool_name="stop", tool_input={}, tool_response={})
        assert told.json["continue"] is False
        assert answer_text((await gateway.say(other, user_turn("do it"), call, result)).json) == "enough"
        # The receipt of one is found at the other, and by operators.
        answer = await gateway.say(one, user_turn("hi"), headers=KEY)
        receipt = answer.headers["x-hookgate-receipt"]
        path = f"/hookgate/v1/receipts/{receipt}"
        await other.write(request_bytes("GET", path, b"", KEY))
        found = await other.answer()
        assert found.json["receipt"] == receipt


async def test_limits_count_what_arrives_at_all_workers(tmp_path: Path) -> None:
    rules = {"rules": [{"per": "session", "window": "day", "requests": 3}]}
    limits = {"name": "limits", "type": "builtin", "builtin": "limits", "options": rules}
    async with workers(tmp_path, {**HOOKS, "BeforeModel": [*HOOKS["BeforeModel"], limits]}) as gateway:
        statuses = [
            (await gateway.say(wire, user_turn("hi"))).status
            for wire in (*gateway.wires.values(), *gateway.wires.values())
        ]
    assert statuses == [200, 200, 200, 403]


async def test_operators_see_all_workers(tmp_path: Path) -> None:
    async with workers(tmp_path) as gateway:
        body = await ready(gateway.admin, 200)
        assert body["degraded"] == []
        receipts = {
            (await gateway.say(wire, user_turn("hi"))).headers["x-hookgate-receipt"]
            for wire in gateway.wires.values()
        }
        page = (await ask(gateway.admin, "GET", "/metrics")).body.decode()
        counted = re.findall(r'hookgate_calls_total\{worker="(\d)",outcome="answered"', page)
        assert set(counted) == {"1", "2"}
        bearer = {"Authorization": f"Bearer {TOKEN}"}
        for receipt in receipts:
            path = f"/receipts/{receipt}"
            while (answer := await ask(gateway.admin, "GET", path, bearer)).status == 404:  # noqa: ASYNC110  # a process
                await asyncio.sleep(0.02)  # it arrives by itself
            assert answer.json["receipt"] == receipt
        runs = 0
        while runs < 4:  # at each worker at least one for its process ID, and one more
            hooks = (await ask(gateway.admin, "GET", "/api/hooks", bearer)).json["hooks"]
            [runs] = [hook["count"] for hook in hooks if hook["name"] == "identify"]


async def test_a_switch_of_the_panel_reaches_all_workers(tmp_path: Path) -> None:
    async with workers(tmp_path) as gateway, connected(gateway.admin) as panel:
        switch = {"name": "identify", "on": False}
        headers = {"Authorization": f"Bearer {TOKEN}", "X-Hookgate-Panel": "1"}
        await panel.post("/api/hooks/switch", switch, headers)
        [state] = {row["state"] for row in (await panel.answer()).json["hooks"] if row["name"] == "identify"}
        assert state == "off"
        for wire in gateway.wires.values():
            assert (
                answer_text((await gateway.say(wire, user_turn("who are you?"))).json)
                == "You said: who are you?"
            )
        gateway.server.signal(signal.SIGTERM)
        assert await gateway.ended == 0
    exported = (await run("audit", "export", "--state", str(tmp_path / "state"))).out
    bodies = [json.loads(line).get("body") or {} for line in exported.splitlines()]
    [change] = [body for body in bodies if body.get("event") == "change"]
    about = {"hook": "identify", "on": False}
    assert change == {"event": "change", "change": "hooks.switch", "by": "admin token", **about}


def is_running(process: int) -> bool:
    """Whether a process exists that is not a zombie."""
    try:
        return bool(Path(f"/proc/{process}/cmdline").read_bytes())
    except OSError:
        return False


async def load(url: str, receipts: list[str], until: asyncio.Event) -> None:
    """Call on one connection; after it is lost, on another."""
    while not until.is_set():
        with contextlib.suppress(OSError, EOFError):
            async with connected(url) as wire:
                while not until.is_set():
                    await wire.post(UNARY, HI)
                    receipts.append((await wire.answer()).headers["x-hookgate-receipt"])


async def test_the_end_of_one_worker_ends_only_its_calls(tmp_path: Path) -> None:
    receipts: list[str] = []
    done = asyncio.Event()
    async with workers(tmp_path) as gateway:
        killed, other = gateway.wires
        clients = [asyncio.create_task(load(gateway.server.url, receipts, done)) for _ in range(8)]
        await until(lambda: len(receipts) >= 50, _PATIENCE)
        os.kill(killed, signal.SIGKILL)
        body = await ready(gateway.admin, 503)
        assert re.fullmatch(r"worker [12] is down, and is being restarted", body["reason"])
        enough = len(receipts) + 50
        await until(lambda: len(receipts) >= enough, _PATIENCE)  # the other one goes on
        assert await process_of(gateway.wires[other]) == other
        await ready(gateway.admin, 200)
        done.set()
        await asyncio.gather(*clients)
        gateway.server.signal(signal.SIGTERM)
        await gateway.ended
    report = report_of(tmp_path / "state")
    assert (report.problems, report.running, report.writers) == ([], 0, 3)
    with reading(tmp_path / "state") as audit:
        ended = {call.id: call.outcome for call in audit.calls(limit=10**6)}
        assert audit.running() == []
    outcomes = Counter(ended[receipt] for receipt in receipts)
    # An answer may have arrived although the record of its end was not written yet.
    assert outcomes["answered"] > len(receipts) - 8
    assert outcomes.keys() <= {"answered", "interrupted"}
    others = {outcome for call, outcome in ended.items() if call not in set(receipts)}
    assert others <= {"interrupted", "answered", "synthetic", "left"}


async def test_the_hooks_of_a_worker_end_with_it(tmp_path: Path) -> None:
    started = tmp_path / "started"
    slow = {"type": "command", "command": f"echo $$ > {started}.new; mv {started}.new {started}; sleep 1000"}
    async with workers(tmp_path, {**HOOKS, "BeforeToolSelection": [slow]}) as gateway:
        killed, wire = next(iter(gateway.wires.items()))
        await wire.post(UNARY, {**HI, "tools": [{"functionDeclarations": [{"name": "t"}]}]})
        await until(started.exists, _PATIENCE)
        os.kill(killed, signal.SIGKILL)
        await until(lambda: not is_running(int(started.read_text())), _PATIENCE)


async def test_no_call_is_cut_off_when_the_gateway_stops() -> None:
    async with in_flight(8, "--workers", "2") as calls:
        calls.server.signal(signal.SIGTERM)
        while "stopping: waiting for calls" not in calls.server.log:
            await calls.server.next_line()
        await calls.finish_all()
        assert await calls.server.ended() == 0
    assert "Traceback" not in calls.server.log


async def test_a_second_signal_drops_what_is_in_flight() -> None:
    async with in_flight(4, "--workers", "2") as calls:
        calls.server.signal(signal.SIGTERM)
        while "stopping: waiting for calls" not in calls.server.log:
            await calls.server.next_line()
        calls.server.signal(signal.SIGTERM)
        assert await calls.server.ended() == 130
        for wire in calls.wires:
            assert await wire.ended()
    assert "Traceback" not in calls.server.log


async def test_workers_stop_when_their_supervisor_is_killed(tmp_path: Path) -> None:
    async with workers(tmp_path) as gateway:
        gateway.server.signal(signal.SIGKILL)
        for wire in gateway.wires.values():
            assert await wire.ended()
        await until(lambda: not any(map(is_running, gateway.wires)), _PATIENCE)
    report = report_of(tmp_path / "state")
    assert (report.problems, report.running, report.writers) == ([], 0, 2)


async def test_workers_that_cannot_start_are_not_restarted(tmp_path: Path) -> None:
    (tmp_path / "audit.db").mkdir()
    ended = await run(
        "serve", "--workers", "2", "--listen", "127.0.0.1:0", "--admin", "off", "--state", str(tmp_path)
    )
    assert ended.code == 1
    assert "audit.db cannot be opened: Is a directory" in ended.err
    assert "a worker cannot be started; see the messages above" in ended.err


async def test_several_workers_cannot_write_to_stdout() -> None:
    ended = await run("serve", "--workers", "2", env={"HOOKGATE_AUDIT__JSONL": "-"})
    assert ended.code == 1
    assert ended.complaint.endswith("audit.jsonl is stdout, which several workers cannot share; name a file")


@pytest.mark.parametrize("number", ["0", "65", "two"])
async def test_an_invalid_number_of_workers(number: str) -> None:
    ended = await run("serve", "--workers", number)
    assert ended.code == 1
    assert "--workers: listen.workers" in ended.complaint


async def test_workers_import_nothing_from_the_current_folder(tmp_path: Path) -> None:
    """The gateway may be started in a project, whose files its agent can write."""
    marker = tmp_path / "imported"
    (tmp_path / "orjson.py").write_text(f"open({str(marker)!r}, 'w').close()\nraise ImportError('planted')\n")
    process = await asyncio.create_subprocess_exec(
        Path(sys.executable).with_name("hookgate"),
        *("serve", "--workers", "2", "--listen", "127.0.0.1:0", "--admin", "off"),
        cwd=tmp_path,
        env={**os.environ, "HOOKGATE_STATE": str(tmp_path / "state"), "HOME": str(tmp_path)},
        stderr=asyncio.subprocess.PIPE,
    )
    assert process.stderr is not None
    lines: list[bytes] = []
    try:
        async with asyncio.timeout(60):
            while not any(b"2 workers" in line for line in lines):
                lines.append(await process.stderr.readline())
                assert lines[-1], b"".join(lines).decode()
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()
    assert not marker.exists()


def cannot_spawn(_: Any) -> Any:
    raise OSError(errno.ENOMEM, "Cannot allocate memory")


async def test_a_process_that_cannot_be_created_is_reported_and_ends_the_start(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_spawn", cannot_spawn)
    workers = WorkerProcesses(2, [], tmp_path)
    try:
        with pytest.raises(WorkerStartError):
            await workers.start()
    finally:
        workers.close()
    reason = "it cannot be started: Cannot allocate memory"
    assert [record.message for record in caplog.records] == [f"worker 1 has not accepted clients ({reason})"]


async def test_a_worker_that_ran_before_is_started_until_its_process_can_be_created(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_spawn", cannot_spawn)
    monkeypatch.setattr(processes, "_FIRST_PAUSE", 0.001)
    workers = WorkerProcesses(1, [], tmp_path)
    workers.workers[0].was_ready = True
    starting = asyncio.create_task(workers.start())
    try:
        await until(lambda: len(caplog.records) >= 3)
        assert not starting.done()
    finally:
        starting.cancel()
        workers.close()
        await asyncio.wait([starting])
    assert all("ended unexpectedly (it cannot be started: " in record.message for record in caplog.records)
