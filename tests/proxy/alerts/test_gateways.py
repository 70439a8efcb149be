"""Alerts of whole gateways: processes that share a database, are killed, and start again."""

import asyncio
import json
import signal
from contextlib import AsyncExitStack
from pathlib import Path

import pytest
from support.gateway.databases import postgres
from support.gateway.life import until
from support.gateway.loopback import running_upstream
from support.operating.receivers import SECRET, receiving_alerts
from support.programs.program import run, serving
from support.wire import UNARY, post, prompt

DENIES = {"type": "command", "name": "never", "command": "echo no >&2; exit 2"}
RULES = """
[[alerts.rules]]
name = "denials"
query = "outcome:denied hook:never"
over = 2
within = "5s"

[[alerts.rules]]
name = "later"
query = "outcome:denied"
over = 2
within = "1h"
"""
FIRES = [("firing", "denials", {}), ("firing", "later", {})]
RECOVERS = ("resolved", "denials", {})


@pytest.mark.e2e
@pytest.mark.parametrize("database", ["sqlite", "postgresql"])
async def test_three_gateways_tell_once_also_if_one_is_killed_and_all_start_again(
    database: str, tmp_path: Path
) -> None:
    async with AsyncExitStack() as stack:
        ops = await stack.enter_async_context(receiving_alerts())
        upstream, _ = await stack.enter_async_context(running_upstream())
        url = stack.enter_context(postgres()) if database == "postgresql" else None
        hooks, file = tmp_path / "settings.json", tmp_path / "hookgate.toml"
        hooks.write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": [DENIES]}]}}))
        receiver = f'[[alerts.receivers]]\nname = "ops"\nurl = "{ops.url}"\nsecret = "{SECRET}"\n'
        file.write_text((f'[store]\nurl = "{url}"\n' if url else "") + RULES + receiver)
        words = ("serve", "--config", str(file), "--listen", "127.0.0.1:0", "--upstream", upstream)
        words += ("--hooks", str(hooks))
        env = {"HOOKGATE_STATE": str(tmp_path / "state")}

        async with AsyncExitStack() as running:
            gateways = [
                await running.enter_async_context(serving(*words, env=env, patience=150)) for _ in range(3)
            ]
            for gateway in gateways:
                for _ in range(2):
                    await post(gateway.url, UNARY, prompt("hi"), {"x-goog-api-key": "k"})
            await until(lambda: len(ops.distinct) >= 2)
            assert sorted(ops.distinct) == FIRES
            # A message whose receipt is not stored yet is sent again, with the same ID.
            gateways[0].signal(signal.SIGKILL)  # which may be the one that evaluates the rules
            await until(lambda: len(ops.distinct) >= 3, 100)
            for gateway in gateways[1:]:
                gateway.signal(signal.SIGTERM)  # it stores that the message was delivered
                await gateway.ended()
        async with serving(*words, env=env, patience=60) as again:
            while len(ops.distinct) < 4:  # it evaluates once the time of the one that was killed is over
                await post(again.url, UNARY, prompt("hi"), {"x-goog-api-key": "k"})
                await asyncio.sleep(0.3)
            listed = await run("alerts", "list", "--json", "--config", str(file), env=env)
        assert sorted(ops.distinct[:2]) == FIRES
        assert ops.distinct[2:] == [RECOVERS, ("firing", "denials", {})]
        states = {(rule := json.loads(line))["rule"]: rule["state"] for line in listed.out.splitlines()}
        assert states == {"denials": "firing", "later": "firing"}


@pytest.mark.e2e
async def test_workers_evaluate_rules_together(tmp_path: Path) -> None:
    async with receiving_alerts() as ops, running_upstream() as (upstream, _):
        hooks, file = tmp_path / "settings.json", tmp_path / "hookgate.toml"
        hooks.write_text(json.dumps({"hooks": {"BeforeModel": [{"hooks": [DENIES]}]}}))
        receiver = f'[[alerts.receivers]]\nname = "ops"\nurl = "{ops.url}"\nsecret = "{SECRET}"\n'
        file.write_text(RULES + receiver)
        words = ("serve", "--config", str(file), "--listen", "127.0.0.1:0", "--upstream", upstream)
        words += ("--hooks", str(hooks), "--workers", "2")
        async with serving(*words, env={"HOOKGATE_STATE": str(tmp_path / "state")}, patience=90) as gateway:
            for _ in range(6):
                await post(gateway.url, UNARY, prompt("hi"), {"x-goog-api-key": "k"})
            await until(lambda: len(ops.messages) >= 3, 60)
        assert sorted(ops.messages[:2]) == FIRES
        assert ops.messages[2:] == [RECOVERS]
