"""Replicas that follow the policy in their database: which revision is in force, and what operators see."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.gateway.counted import Counted
from support.gateway.databases import postgres
from support.gateway.life import until
from support.gateway.loopback import running_upstream
from support.gateway.pushed import (
    Replica,
    allowing,
    change_table,
    document,
    hook,
    push,
    replica,
    unreachable,
)
from support.hooks.settings import command, write_file
from support.programs.program import run
from support.wire import HI, SSE, UNARY, post

from hookgate.proxy.policy import pushed as following
from hookgate.proxy.store import StoreError

GEMINI_2, GEMINI_3 = allowing("gemini-2.5-*"), allowing("gemini-3-*")
OTHER_URL = "postgresql+psycopg://postgres@127.0.0.1:1/none"


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> Iterator[str | None]:
    """Each kind of database, empty."""
    if request.param == "sqlite":
        yield None
    else:
        yield request.getfixturevalue("server")


@pytest.fixture(scope="module")
def server_database() -> Iterator[str]:
    with postgres() as server:
        yield server


@pytest.fixture
def server(server_database: str, tmp_path: Path) -> str:
    change_table(tmp_path, server_database, "DELETE FROM policy_revisions")
    return server_database


@asynccontextmanager
async def replicas(
    state: Path, url: str | None, count: int = 1, **options: Any
) -> AsyncIterator[list[Replica]]:
    async with AsyncExitStack() as stack:
        upstream, _ = await stack.enter_async_context(running_upstream())
        yield [
            await stack.enter_async_context(replica(state, url, upstream, **options)) for _ in range(count)
        ]


async def status(gateway: Replica) -> int:
    return (await post(gateway.url, UNARY, HI)).status


async def test_every_replica_applies_a_push_within_five_seconds(url: str | None, tmp_path: Path) -> None:
    push(tmp_path, url, GEMINI_2)
    async with replicas(tmp_path, url, 2) as gateways:
        assert [await status(each) for each in gateways] == [200, 200]
        number = push(tmp_path, url, GEMINI_3)
        async with asyncio.timeout(5):
            for each in gateways:
                while await status(each) != 403:
                    pass
                while (await each.ready())["policy"]["state"] != "current":  # it is reported just after that
                    await status(each)
        for each in gateways:
            body = await each.ready()
            assert body["revision"].startswith(f"{number}-")
            assert (body["policy"]["number"], body["policy"]["state"]) == (2, "current")
            page = Counted(each.metrics.page())
            assert page.total("hookgate_policy_info", number="2") == 1
            assert page.total("hookgate_policy_info") == 1
            assert page.total("hookgate_policy_state", state="current") == 1
        assert len({each.reloader.current.revision for each in gateways}) == 1


async def test_a_call_sees_one_revision_however_often_one_is_pushed(url: str | None, tmp_path: Path) -> None:
    def numbered(number: int) -> str:
        after = hook(f"after-{number}", "redact", detect=["EMAIL"])
        return document(BeforeModel=hook(f"before-{number}", allow=["*"]), AfterModel=after)

    push(tmp_path, url, numbered(1))
    async with replicas(tmp_path, url, follows=False) as [gateway]:
        answered: list[str] = []
        is_over = asyncio.Event()

        async def call() -> None:
            while not is_over.is_set():
                answer = await post(gateway.url, SSE, HI)
                assert answer.status == 200
                answered.append(answer.headers["x-hookgate-receipt"])

        async with asyncio.TaskGroup() as tasks:
            for _ in range(4):
                tasks.create_task(call())
            for number in range(2, 12):
                push(tmp_path, url, numbered(number))
                so_far = len(answered)
                await gateway.pushed.poll(gateway.reloader)
                while len(answered) < so_far + 4:  # noqa: ASYNC110  # so that calls begin under each revision
                    await asyncio.sleep(0)
            is_over.set()
        seen = set()
        for name in answered:
            receipt = gateway.receipts.receipt_for(name)
            assert receipt
            number = receipt["revision"].partition("-")[0]
            assert {each["hook"] for each in receipt["hooks"]} == {f"before-{number}", f"after-{number}"}
            seen.add(int(number))
    assert len(seen) > 5


async def test_no_file_disables_what_was_pushed(tmp_path: Path) -> None:
    push(tmp_path, None, GEMINI_3)
    off = {"hooksConfig": {"enabled": False, "disabled": ["models"]}}
    (tmp_path / "off.json").write_text(json.dumps(off))
    path = tmp_path / "off.json"
    async with replicas(tmp_path, None, files=[path], policy=[path]) as [gateway]:
        assert await status(gateway) == 403


async def test_a_change_of_a_file_leaves_the_pushed_policy_in_force(tmp_path: Path) -> None:
    push(tmp_path, None, GEMINI_3)
    path = write_file(tmp_path, {"hooks": {}})
    async with replicas(tmp_path, None, files=[path]) as [gateway]:
        before = gateway.reloader.current.revision
        write_file(tmp_path, {"hooks": {"BeforeModel": [{"hooks": [command("true")]}]}})
        await until(lambda: gateway.reloader.current.revision != before)
        assert gateway.reloader.current.revision.startswith("1-")
        assert await status(gateway) == 403


async def test_a_revision_that_cannot_be_used_here_leaves_the_former_one_in_force(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    script = tmp_path / "guard.sh"
    push(tmp_path, None, GEMINI_2)
    async with replicas(tmp_path, None, follows=False) as [gateway]:
        push(tmp_path, None, document(BeforeModel=command(str(script), name="guard")))
        for _ in range(3):  # it is tried once, and again only after a while
            await gateway.pushed.poll(gateway.reloader)
        assert gateway.reloader.reloads["refused"] == 1
        assert await status(gateway) == 200
        shown = (await gateway.ready())["policy"]
        assert (shown["number"], shown["newest"], shown["state"]) == (1, 2, "behind")
        assert f"{script} does not exist" in gateway.pushed.details()["problem"]
        assert str(script) not in json.dumps(shown)
        assert Counted(gateway.metrics.page()).total("hookgate_policy_state", state="behind") == 1
        assert "policy revision 2 cannot be used here, so revision 1 stays in force" in caplog.text
        assert f"<policy revision 2>:1: hooks.BeforeModel: the hook 'guard': {script} does not" in caplog.text
        # The former one takes part in reloads, and the new one is tried again.
        await gateway.reloader.reload()
        assert gateway.reloader.reloads["unchanged"] == 1
        script.write_text("#!/bin/sh\nexit 2\n")
        script.chmod(0o755)
        monkeypatch.setattr(following, "_RETRY_SECONDS", 0)
        await gateway.pushed.poll(gateway.reloader)
        assert await status(gateway) == 403
        assert (await gateway.ready())["policy"]["state"] == "current"
        assert gateway.pushed.details()["problem"] == ""


async def test_the_last_revision_stays_in_force_while_the_database_is_away(
    url: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING)
    push(tmp_path, url, GEMINI_3)
    async with replicas(tmp_path, url, follows=False) as [gateway]:
        push(tmp_path, url, GEMINI_2)
        with unreachable(tmp_path, url):
            for _ in range(3):
                await gateway.pushed.poll(gateway.reloader)
            assert await status(gateway) == 403
            assert (await gateway.ready())["policy"]["state"] == "unknown"
            assert Counted(gateway.metrics.page()).total("hookgate_policy_state", state="unknown") == 1
        assert caplog.text.count("newer revisions of the policy cannot be read") == 1
        await gateway.pushed.poll(gateway.reloader)
        assert await status(gateway) == 200
        assert (await gateway.ready())["policy"]["state"] == "current"
        assert caplog.text.count("the pushed policy can be read again") == 1


@pytest.mark.parametrize(
    ("statement", "problem"),
    [
        ("UPDATE policy_revisions SET document = '{}' WHERE number = 2", "is damaged"),
        ("DELETE FROM policy_revisions", "no policy was pushed to the database"),
    ],
)
async def test_a_database_that_somebody_has_changed_changes_nothing(
    statement: str, problem: str, url: str | None, tmp_path: Path
) -> None:
    push(tmp_path, url, GEMINI_3)
    async with replicas(tmp_path, url, follows=False) as [gateway]:
        push(tmp_path, url, GEMINI_2)
        change_table(tmp_path, url, statement)
        await gateway.pushed.poll(gateway.reloader)
        assert await status(gateway) == 403
        shown = gateway.pushed.details()
        assert shown["state"] == "unknown"
        assert problem in shown["problem"]


async def test_a_restored_database_with_another_revision_of_the_same_number_is_followed(
    tmp_path: Path,
) -> None:
    push(tmp_path, None, GEMINI_3)
    async with replicas(tmp_path, None, follows=False) as [gateway]:
        change_table(tmp_path, None, "DELETE FROM policy_revisions")
        push(tmp_path, None, GEMINI_2)
        await gateway.pushed.poll(gateway.reloader)
        assert await status(gateway) == 200


async def test_nothing_starts_without_a_policy_or_its_database(tmp_path: Path) -> None:
    for place in (None, OTHER_URL):
        with pytest.raises(StoreError):
            async with replica(tmp_path, place, "http://127.0.0.1:1"):
                pytest.fail("it started")
    env = {"HOOKGATE_HOOKS__DATABASE": "true"}
    ended = await run("serve", "--listen", "127.0.0.1:0", "--state", str(tmp_path / "other"), env=env)
    assert ended.code == 1
    assert ended.complaint == (
        "hookgate: hooks.database: no policy was pushed to the database; push one with: "
        "hookgate policy push FILE"
    )
