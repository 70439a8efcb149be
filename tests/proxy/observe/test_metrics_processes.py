"""Metrics of several gateway processes, across a reload of their hooks."""

import asyncio
import re
import signal
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

from support.gateway.counted import Counted
from support.gateway.loopback import running_upstream, write_settings
from support.programs.program import Server, serving
from support.wire import HI, UNARY, ask, post


async def page(server: Server, calls: int) -> Counted:
    """What the process tells Prometheus when it has counted so many calls."""
    [address] = re.findall(r"admin listener on (\S+)", server.log)
    while True:  # what it tells may be a second old
        counted = Counted((await ask(address, "GET", "/metrics")).body)
        if counted.total("hookgate_calls_total") >= calls:
            return counted
        await asyncio.sleep(0.05)


async def reload(server: Server) -> None:
    """Have the process read its settings again; the log says when it has."""
    server.signal(signal.SIGHUP)
    while "settings re" not in await server.next_line():
        pass


async def test_sums_over_processes_are_right_and_a_reload_loses_no_count(tmp_path: Path) -> None:
    file = write_settings(tmp_path, {"BeforeModel": [command("first")]})
    async with running_upstream() as (upstream_url, recorded), AsyncExitStack() as stack:
        flags = ["--listen", "127.0.0.1:0", "--upstream", upstream_url, "--hooks", str(file)]
        flags += ["--state", str(tmp_path)]
        env = {"HOOKGATE_ADMIN__ADDRESS": "127.0.0.1:0"}
        servers = [await stack.enter_async_context(serving("serve", *flags, env=env)) for _ in range(2)]
        for server, count in zip(servers, (3, 2), strict=True):
            await asyncio.gather(*(post(server.url, UNARY, HI) for _ in range(count)))
        before = [await page(server, count) for server, count in zip(servers, (3, 2), strict=True)]
        write_settings(tmp_path, {"BeforeModel": [command("second")]})
        for server in servers:
            await reload(server)
            await post(server.url, UNARY, HI)
        after = [await page(server, count) for server, count in zip(servers, (4, 3), strict=True)]
    assert [each.total("hookgate_calls_total") for each in before] == [3, 2]
    assert sum(each.total("hookgate_calls_total") for each in after) == len(recorded) == 7
    assert sum(each.total("hookgate_hook_runs_total", hook="first") for each in after) == 5
    assert sum(each.total("hookgate_hook_runs_total", hook="second") for each in after) == 2
    assert sum(each.total("hookgate_config_reloads_total", result="applied") for each in after) == 2
    assert {sample.name for sample in after[0].samples} >= {
        "hookgate_audit_lag_seconds",
        "hookgate_hooks_waiting",
    }
    assert before[0].values("hookgate_revision_info", "revision") != after[0].values(
        "hookgate_revision_info", "revision"
    )


def command(name: str) -> dict[str, Any]:
    """A hook that says nothing."""
    return {"type": "command", "name": name, "command": "exit 0"}
