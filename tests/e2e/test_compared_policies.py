"""Policies that are compared on recorded calls, in a process beside the gateway, and in a browser."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from support.gateway.browser import Scheme, browsing, go, running_browser, violations
from support.gateway.loopback import write_settings
from support.gateway.panel import BEARER, Paneled, panel_gateway
from support.gateway.pushed import document, hook, policy_table
from support.programs.processes import eventually
from support.wire import UNARY, Answer, ask, post, prompt

from hookgate.proxy.audit.stored import walk_records
from hookgate.proxy.policy import PushedPolicy
from hookgate.proxy.policy.table import PolicyRevision
from hookgate.proxy.replay import comparisons
from hookgate.proxy.store.database import open_audit

pytestmark = pytest.mark.asyncio(loop_scope="module")  # in which the browser runs

CHANGES = {"X-Hookgate-Panel": "1", **BEARER}
KEPT = {"content": "full"}
DENIES = {"BeforeModel": [hook("guard", "models", deny=["*"], reason="No models today.")]}


async def compare(gateway: Paneled, **body: Any) -> Answer:
    return await post(gateway.admin, "/api/hooks/compare", {"q": "", **body}, CHANGES)


async def result(gateway: Paneled) -> dict[str, Any]:
    """The comparison, once it has ended."""
    async with asyncio.timeout(60):
        while True:
            found: dict[str, Any] = (await ask(gateway.admin, "GET", "/api/hooks/compare", BEARER)).json
            if found["comparison"]["state"] != "running":
                return dict(found["comparison"])
            await asyncio.sleep(0.05)


async def recorded(gateway: Paneled, *texts: str) -> list[str]:
    """The receipts of calls that are in the audit."""
    headers = {"x-goog-api-key": "k", "x-hookgate-session": "s-1"}
    answers = [await post(gateway.url, UNARY, prompt(text), headers) for text in texts]
    receipts = [answer.headers["x-hookgate-receipt"] for answer in answers]
    async with asyncio.timeout(30):
        while True:
            found = (await ask(gateway.admin, "GET", "/api/calls", BEARER)).json
            if len(found["calls"]) == len(texts):
                return receipts
            await asyncio.sleep(0.05)


def changes_in(state: Path) -> list[dict[str, Any]]:
    database = open_audit(None, state, writes=False)
    try:
        bodies = [each.record.body for page in walk_records(database.engine.begin) for each in page]
    finally:
        database.close()
    return [body for body in bodies if body.get("change") == "hooks.compare"]


async def test_the_settings_in_force_are_compared_with_what_was_decided(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, audit=KEPT) as gateway:
        receipts = await recorded(gateway, *"abcdefg")
        write_settings(tmp_path, DENIES)
        await gateway.reloader.reload()
        assert (await compare(gateway, q="since:1d")).status == 200
        found = await result(gateway)
    assert (found["state"], found["found"], found["bound"], found["by"]) == ("ended", 7, "", "admin token")
    report = found["report"]
    assert (report["replayed"], report["unchanged"], report["without_content"]) == (7, 0, 0)
    [outcome] = report["outcomes"]
    assert (outcome["change"], outcome["calls"]) == ("answered → denied", 7)
    assert outcome["receipts"] == receipts[:5]
    [rule] = report["rules"]
    assert (rule["event"], rule["hook"], rule["changes"][0]["calls"]) == ("BeforeModel", "guard", 7)
    [change] = changes_in(tmp_path / "state")
    assert (change["by"], change["q"], change["revision"]) == ("admin token", "since:1d", None)


async def test_a_revision_of_the_pushed_policy_is_compared(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with policy_table(state) as table:
        first = PolicyRevision.after(None, document(BeforeModel=DENIES["BeforeModel"][0]), "ops", "no models")
        table.add(first)
        table.add(PolicyRevision.after(first, document(), "ops", "all of them"))
        async with panel_gateway(tmp_path, audit=KEPT, pushed=PushedPolicy(table)) as gateway:
            await recorded(gateway, "a")
            started = await compare(gateway, revision=1)
            assert [each["number"] for each in started.json["revisions"]] == [2, 1]
            found = await result(gateway)
            unknown = await compare(gateway, revision=7)
    assert found["revision"] == 1
    assert [each["change"] for each in found["report"]["outcomes"]] == ["answered → denied"]
    assert (unknown.status, unknown.error["message"]) == (404, "No revision 7 of a policy was pushed.")


async def test_only_the_newest_calls_are_compared_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "MAX_CALLS", 2)
    async with panel_gateway(tmp_path, DENIES, audit=KEPT) as gateway:
        write_settings(tmp_path, {})
        receipts = await recorded(gateway, *"abc")
        await compare(gateway)
        found = await result(gateway)
    assert (found["bound"], found["report"]["replayed"]) == ("calls", 2)
    assert found["report"]["outcomes"] == [
        {"change": "denied → answered", "calls": 2, "receipts": receipts[1:], "reasons": ["No models today."]}
    ]


SLOW = {"BeforeModel": [{"type": "command", "name": "slow", "command": "echo $$ > pid; sleep 600 & wait"}]}


async def pid_of_hook(folder: Path) -> int:
    file = folder / "pid"
    await eventually(lambda: file.exists() and file.read_text().endswith("\n"))
    return int(file.read_text())


async def until_gone(pid: int) -> None:
    await eventually(lambda: not Path(f"/proc/{pid}").exists())


@pytest.mark.parametrize("way", ["stop", "end of the gateway"])
async def test_a_comparison_ends_with_the_programs_of_its_hooks(
    way: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    async with panel_gateway(tmp_path, audit=KEPT) as gateway:
        await recorded(gateway, "a")
        write_settings(tmp_path, SLOW)
        assert (await compare(gateway)).status == 200
        pid = await pid_of_hook(tmp_path)
        own = os.getpriority(os.PRIO_PROCESS, 0)
        assert os.getpriority(os.PRIO_PROCESS, pid) == min(own + 10, 19)
        busy = await compare(gateway)
        assert (busy.status, "wait until that has ended, or stop it" in busy.error["message"]) == (429, True)
        if way == "stop":
            stopped = await post(gateway.admin, "/api/hooks/compare/stop", {}, CHANGES)
            assert stopped.json["comparison"]["state"] == "stopped"
            await until_gone(pid)
            assert len(changes_in(tmp_path / "state")) == 2  # the start and the stop
    await until_gone(pid)


async def test_a_policy_that_cannot_be_used_here_is_named(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, audit=KEPT) as gateway:
        gateway.settings.write_text(
            json.dumps({"hooks": {"BeforeModel": [{"hooks": [{"type": "nothing"}]}]}})
        )
        await compare(gateway)
        found = await result(gateway)
    assert (found["state"], str(gateway.settings) in found["error"]) == ("failed", True)


async def test_calls_that_are_not_reached_in_time_are_left_out_and_that_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(comparisons, "MAX_SECONDS", 0.2)
    async with panel_gateway(tmp_path, audit=KEPT) as gateway:
        await recorded(gateway, "a")
        write_settings(tmp_path, {"BeforeModel": [{"type": "command", "command": "sleep 30"}]})
        await compare(gateway)
        found = await result(gateway)
    assert (found["state"], found["bound"], found["report"]["replayed"]) == ("ended", "seconds", 0)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as running:
        yield running


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1600)])
async def test_an_auditor_compares_policies_with_the_keyboard(
    browser: Browser, scheme: Scheme, width: int, tmp_path: Path
) -> None:
    with policy_table(tmp_path / "state") as table:
        first = PolicyRevision.after(None, document(BeforeModel=DENIES["BeforeModel"][0]), "ops", "no models")
        table.add(first)
        table.add(PolicyRevision.after(first, document(), "ops", "all of them"))
        async with panel_gateway(tmp_path, audit=KEPT, pushed=PushedPolicy(table)) as gateway:
            [receipt] = await recorded(gateway, "a")
            async with browsing(browser, gateway.link, width=width, scheme=scheme) as page:
                await go(page, "#/policy")
                await page.get_by_role("link", name="Compare policies").focus()
                await page.keyboard.press("Enter")
                query = page.get_by_label("Calls, by a query")
                await query.fill("tem:x")
                await query.press("Enter")
                await expect(page.get_by_role("alert")).to_contain_text("did you mean team?")
                await query.fill("team:")
                await page.get_by_role("button", name="Today").press("Enter")
                await expect(query).to_have_value("team: since:today")
                await query.fill("since:today")
                await page.get_by_label("Policy to try").focus()
                await page.get_by_label("Policy to try").select_option("1")
                await page.keyboard.press("Tab")
                await page.keyboard.press("Enter")
                await expect(page.get_by_role("button", name="Stop")).to_be_visible()
                outcomes = page.get_by_role("table", name="Outcomes that change")
                await expect(outcomes).to_contain_text("answered → denied", timeout=60_000)
                await expect(outcomes.get_by_role("link", name=receipt[:8])).to_be_visible()
                await expect(page.locator("#announcer")).to_have_text("ended: 1 of 1 call")
                await expect(page.get_by_role("button", name="Stop")).to_be_hidden()
                assert await violations(page) == []
                assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
                await outcomes.get_by_role("link", name=receipt[:8]).press("Enter")
                await expect(page.locator("h1")).to_have_text(f"Call {receipt[:8]}")


async def test_a_comparison_is_stopped_and_goes_on_while_nobody_looks(
    browser: Browser, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, audit=KEPT) as gateway:
        await recorded(gateway, "a")
        write_settings(
            tmp_path, {"BeforeModel": [{"type": "command", "command": "sleep 30", "timeout": 60000}]}
        )
        async with browsing(browser, gateway.link) as page:
            await go(page, "#/policy/compare")
            await page.get_by_role("button", name="Compare", exact=True).click()
            await expect(page.get_by_text("running: 0 of 1 call")).to_be_visible(timeout=60_000)
            await go(page, "#/policy")
            await go(page, "#/policy/compare")
            stop = page.get_by_role("button", name="Stop")
            await stop.focus()
            await page.keyboard.press("Enter")
            await expect(page.locator("dd").first).to_have_text("stopped: 0 of 1 call")
            await expect(page.get_by_role("button", name="Compare", exact=True)).to_be_focused()
