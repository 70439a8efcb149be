"""A client that disconnects ends its hooks and its call upstream, which would take a minute or more."""

import asyncio
import os
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateway.loopback import RunningGateway, running_gateway, runs, says
from support.wire import HI, SSE, STREAM, UNARY, ask, connected

EVERY_WAY = pytest.mark.parametrize("target", [UNARY, SSE, STREAM], ids=["unary", "sse", "array"])
EVERY_PATH = pytest.mark.parametrize(
    "hooks",
    [{}, {"BeforeModel": [says()]}, {"AfterModel": [{**says(), "stream": "event"}]}],
    ids=["no hooks", "before", "after"],
)
THINKS = {"rules": [{"times": 1, "answer": {"text": "late", "delay_ms": 60_000}}]}
STREAMS = {"rules": [{"times": 1, "answer": {"chunks": ["one", "two"], "chunk_delay_ms": 60_000}}]}


async def until(condition: Callable[[], Any], seconds: float = 30) -> None:
    async with asyncio.timeout(seconds):
        while not condition():  # noqa: ASYNC110  # processes and records are plain facts, they signal nothing
            await asyncio.sleep(0.002)


@asynccontextmanager
async def left_alone(gateway: RunningGateway, target: str, begun: Callable[[], Any]) -> AsyncIterator[None]:
    """A call whose client leaves once `begun` holds; the gateway has to serve the next one as ever."""
    async with connected(gateway.url) as wire:
        await wire.post(target, HI)
        await until(begun)
    yield
    assert (await ask(gateway.url, "GET", "/v1/models")).status == 200


def alive(pid_file: Path) -> bool:
    """Whether the process whose number is in the file runs; a dead one that awaits its parent does not."""
    try:
        state = Path(f"/proc/{int(pid_file.read_text())}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError, ValueError):  # not begun, gone, not written yet
        return False
    return state != "Z"


@EVERY_WAY
@pytest.mark.parametrize("event", ["BeforeModel", "BeforeToolSelection", "AfterModel"])
async def test_its_hooks_processes_die(target: str, event: str, tmp_path: Path) -> None:
    # The hook ignores SIGTERM and has a child: both have to go.
    pids = [tmp_path / "hook", tmp_path / "child"]
    command = f"trap '' TERM; sleep 600 & echo $! > {pids[1]}; echo $$ > {pids[0]}; wait; sleep 600"
    async with running_gateway({event: [{"type": "command", "command": command}]}) as gateway:
        async with left_alone(gateway, target, lambda: all(map(alive, pids))):
            await until(lambda: not any(map(alive, pids)))
        assert len(gateway.generated) == (1 if event == "AfterModel" else 0)


async def test_its_hooks_in_the_gateways_own_process_are_cancelled() -> None:
    begun, cancelled = asyncio.Event(), asyncio.Event()

    async def action(_: dict[str, Any]) -> None:
        begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with (
        running_gateway({"BeforeModel": [runs(action)]}) as gateway,
        left_alone(gateway, SSE, begun.is_set),
    ):
        await until(cancelled.is_set, 1)


@EVERY_WAY
@EVERY_PATH
async def test_its_call_ends_while_the_upstream_thinks(target: str, hooks: Any) -> None:
    async with (
        running_gateway(hooks, THINKS) as gateway,
        left_alone(gateway, target, lambda: gateway.generated and gateway.generated[0].body),
    ):
        await until(lambda: gateway.generated[0].aborted)


@pytest.mark.parametrize("target", [SSE, STREAM], ids=["sse", "array"])
@EVERY_PATH
async def test_its_call_ends_while_the_upstream_streams(target: str, hooks: Any) -> None:
    async with running_gateway(hooks, STREAMS) as gateway:
        async with connected(gateway.url) as wire:
            await wire.post(target, HI)
            assert (await wire.head())[0] == 200
            assert b"one" in await wire.chunk()
            assert not gateway.generated[0].aborted
        await until(lambda: gateway.generated[0].aborted)


async def test_many_clients_that_leave_at_once_leave_nothing_behind() -> None:
    script = {"rules": [{"answer": {"text": "late", "delay_ms": 60_000}}]}
    descriptors = len(os.listdir("/proc/self/fd"))
    async with running_gateway({"BeforeModel": [says()]}, script) as gateway:
        async with asyncio.TaskGroup() as clients:
            for _ in range(30):
                clients.create_task(_leave_early(gateway))
        await until(lambda: all(request.aborted for request in gateway.recorded))
        assert len(gateway.recorded) == 30
    await until(lambda: len(os.listdir("/proc/self/fd")) <= descriptors)


async def _leave_early(gateway: RunningGateway) -> None:
    async with connected(gateway.url) as wire:
        await wire.post(SSE, HI)
        await until(lambda: len(gateway.recorded) == 30)
