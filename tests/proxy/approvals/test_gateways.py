"""Approvals of whole gateways: processes that share a database, and workers of one gateway."""

import asyncio
import json
import re
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import pytest
from support.bodies.mails import gemini_answer, gemini_turn
from support.gateway.approving import ASKS
from support.gateway.databases import postgres
from support.gateway.life import until
from support.gateway.loopback import running_upstream
from support.operating.receivers import SECRET, receiving_alerts
from support.programs.program import Server, run, serving
from support.wire import UNARY, Answer, ask, post

pytestmark = pytest.mark.e2e

SESSION = {"x-goog-api-key": "k", "x-hookgate-session": "s-1"}
TURN = gemini_turn("a mail")
CALL = gemini_answer("ann@corp.example")["candidates"][0]["content"]["parts"]
SCRIPT = {"rules": [{"answer": {"parts": CALL}}]}


def called(answer: Answer) -> bool:
    assert answer.status == 200, answer.body
    return "was not called" not in answer.body.decode()


def configured(folder: Path, ops: str, url: str | None, mode: str) -> Path:
    file, policy = folder / "hookgate.toml", folder / "policy.json"
    policy.write_text(json.dumps({"hooks": {"BeforeTool": [{"hooks": [ASKS]}]}}))
    store = f'[store]\nurl = "{url}"\n' if url else ""
    file.write_text(
        f'{store}[hooks]\npolicy = ["{policy}"]\n'
        f'[approvals]\nmode = "{mode}"\nhold = 60\nreceivers = ["ops"]\n'
        f'[[alerts.receivers]]\nname = "ops"\nurl = "{ops}"\nsecret = "{SECRET}"\n'
    )
    return file


async def pending(file: Path, env: dict[str, str]) -> list[Any]:
    ended = await run("approvals", "list", "--json", "--config", str(file), env=env)
    return [json.loads(line) for line in ended.out.splitlines() if line.startswith("{")]


async def decide(file: Path, env: dict[str, str], *words: str) -> None:
    ended = await run("approvals", *words, "--config", str(file), env=env)
    assert ended.code == 0, ended.err


def admin_of(gateway: Server) -> str:
    [admin] = re.findall(r"admin listener on (\S+)", gateway.log)
    return str(admin)


async def metric(admin: str, name: str) -> float:
    page = (await ask(admin, "GET", "/metrics")).body.decode()
    return sum(float(line.rpartition(" ")[2]) for line in page.splitlines() if line.startswith(name))


async def test_three_gateways_ask_once_and_use_one_approval_once(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        ops = await stack.enter_async_context(receiving_alerts())
        upstream, _ = await stack.enter_async_context(running_upstream(SCRIPT))
        url = stack.enter_context(postgres())
        file = configured(tmp_path, ops.url, url, "ticket")
        env = {"HOOKGATE_STATE": str(tmp_path / "state")}
        words = ("serve", "--config", str(file), "--listen", "127.0.0.1:0", "--upstream", upstream)
        urls = [
            (await stack.enter_async_context(serving(*words, env=env, patience=150))).url for _ in range(3)
        ]

        async def at_once() -> Counter[bool]:
            answers = await asyncio.gather(*(post(urls[i % 3], UNARY, TURN, SESSION) for i in range(9)))
            return Counter(map(called, answers))

        assert await at_once() == {False: 9}
        await until(lambda: ops.bodies)
        [request] = await pending(file, env)
        await decide(file, env, "approve", request["id"][:8], "--yes", "--by", "ada")
        assert await at_once() == {True: 1, False: 8}
        [again] = await pending(file, env)
        assert again["id"] != request["id"]
        await decide(file, env, "deny", again["id"], "--reason", "not today")
        assert await at_once() == {False: 9}
        assert "not today" in (await post(urls[1], UNARY, TURN, SESSION)).body.decode()
        await until(lambda: len(ops.bodies) == 2)
        changes = await run("audit", "changes", "--json", "--config", str(file), env=env)
        made = Counter(json.loads(line).get("change") for line in changes.out.splitlines())
    assert [each["data"]["request"] for each in ops.documents] == [request["id"], again["id"]]
    assert made["approvals.request"] == 2
    assert (made["approvals.approve"], made["approvals.deny"]) == (1, 1)


async def test_a_decision_at_one_gateway_ends_the_wait_at_another(tmp_path: Path) -> None:
    async with AsyncExitStack() as stack:
        ops = await stack.enter_async_context(receiving_alerts())
        upstream, _ = await stack.enter_async_context(running_upstream(SCRIPT))
        url = stack.enter_context(postgres())
        file = configured(tmp_path, ops.url, url, "hold")
        env = {"HOOKGATE_STATE": str(tmp_path / "state"), "HOOKGATE_ADMIN__TOKEN": "a-token-of-some-length"}
        words = ("serve", "--config", str(file), "--listen", "127.0.0.1:0", "--upstream", upstream)
        words += ("--admin", "127.0.0.1:0")
        first, second = [
            await stack.enter_async_context(serving(*words, env=env, patience=150)) for _ in range(2)
        ]
        answer = asyncio.create_task(post(first.url, UNARY, TURN, SESSION))
        await until(lambda: ops.bodies)
        [request] = await pending(file, env)
        headers = {"Authorization": "Bearer a-token-of-some-length", "X-Hookgate-Panel": "1"}
        decided = await post(
            admin_of(second), "/api/approvals", {"id": request["id"], "approve": True}, headers
        )
        assert decided.status == 200, decided.body
        assert called(await answer)
        assert await metric(admin_of(first), 'hookgate_approvals_total{verdict="approved"}') == 1


async def test_workers_ask_together_and_the_supervisor_decides(tmp_path: Path) -> None:
    async with receiving_alerts() as ops, running_upstream(SCRIPT) as (upstream, _):
        file = configured(tmp_path, ops.url, None, "ticket")
        env = {"HOOKGATE_STATE": str(tmp_path / "state"), "HOOKGATE_ADMIN__TOKEN": "a-token-of-some-length"}
        words = ("serve", "--config", str(file), "--listen", "127.0.0.1:0", "--upstream", upstream)
        words += ("--workers", "2", "--admin", "127.0.0.1:0")
        async with serving(*words, env=env, patience=150) as gateway:
            answers = await asyncio.gather(*(post(gateway.url, UNARY, TURN, SESSION) for _ in range(6)))
            assert not any(map(called, answers))
            await until(lambda: ops.bodies)
            [request] = await pending(file, env)
            headers = {"Authorization": "Bearer a-token-of-some-length", "X-Hookgate-Panel": "1"}
            body = {"id": request["id"], "approve": True}
            assert (await post(admin_of(gateway), "/api/approvals", body, headers)).status == 200
            answers = await asyncio.gather(*(post(gateway.url, UNARY, TURN, SESSION) for _ in range(6)))
            assert Counter(map(called, answers)) == {True: 1, False: 5}
