"""Each question of the page of answers is answered in the panel, within three steps, as the commands do."""

import asyncio
import json
import shlex
from pathlib import Path

import pytest
from playwright.async_api import Page, expect
from support.gateway.answers import COMMANDS, arguments_of, record_answers
from support.gateway.browser import browsing, find, follow, running_browser
from support.gateway.panel import panel_gateway

from hookgate.proxy.cli.main import run_command

_VIEWS = {
    "team,owner": "Spend",
    "day": "People",
    "day,model": "Spend",
    "session": "Spend",
    "agent": "People",
    "hour": "People",
    "asked,model": "People",
    "found,owner,model": "Findings",
    "hook": "Hooks",
    "hook,team": "Hooks",
}
"""The view in which to look for a report, by its groups."""


async def count_rows_of_answer(page: Page, command: str) -> int:
    """Answer the question of a command in the panel, and return the number of rows that it shows."""
    kind, query, flags = arguments_of(command)
    rows = page.locator("tbody tr")
    if kind == "changes":
        await follow(page, page.get_by_role("link", name="Policy", exact=True))
        return await page.get_by_role("table", name="The latest changes").locator("tbody tr").count()
    if kind == "list":
        await follow(page, page.get_by_role("link", name="Calls", exact=True))
        await find(page, query)
        return await rows.count()
    await follow(page, page.get_by_role("link", name=_VIEWS[flags["group_by"]], exact=True))
    if "hook" in flags["group_by"]:
        await follow(page, page.get_by_role("link", name="What hooks did"))
    title = flags["group_by"].replace(",", ", ").replace("asked", "asked model").capitalize()
    await follow(page, page.get_by_role("navigation", name="By").get_by_role("link", name=title, exact=True))
    await find(page, query)
    return await rows.count()


async def test_each_question_has_its_answer_in_the_panel(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    record_answers(tmp_path / "state")
    async with (
        panel_gateway(tmp_path, audit={}) as gateway,
        running_browser() as browser,
        browsing(browser, gateway.link) as page,
    ):
        for command in COMMANDS:
            words = [each for each in shlex.split(command)[1:] if each != "--csv"]
            code = await asyncio.to_thread(
                run_command, [*words, "--json", "--state", str(tmp_path / "state")]
            )
            assert code == 0, command
            lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
            expected = len(lines[0]["rows"]) if "report" in words else len(lines)
            await page.evaluate("location.hash = '#/sessions'")  # whatever was asked before
            await expect(page.locator("h1")).to_have_text("Sessions")
            found = await count_rows_of_answer(page, command)
            if "changes" in words:  # the gateway has recorded its own settings meanwhile
                assert found >= expected >= 1
                continue
            assert found == expected, (command, found, expected)
            if "--csv" in command:
                await expect(page.get_by_role("link", name="CSV")).to_be_visible()
