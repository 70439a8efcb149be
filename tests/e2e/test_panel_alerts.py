"""The panel's view of alerts in a real browser."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from support.gateway.browser import Scheme, browsing, go, running_browser, violations
from support.gateway.panel import panel_gateway
from support.operating.receivers import SECRET

from hookgate.proxy.alerts.states import AlertChanges, AlertId, Firing
from hookgate.proxy.alerts.table import AlertTable
from hookgate.proxy.store.database import open_alerts

pytestmark = pytest.mark.asyncio(loop_scope="module")  # in which the browser runs

ALERTS = {
    "rules": [
        {"name": "denials", "query": "outcome:denied", "by": "agent", "over": 2},
        {"name": "calm", "query": "outcome:failed"},
    ],
    "receivers": [{"name": "ops", "url": "http://127.0.0.1:9/", "secret": SECRET}],
}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as running:
        yield running


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1600)])
async def test_what_fires_is_shown_and_silenced(
    browser: Browser, scheme: Scheme, width: int, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, alerts=ALERTS, audit={}) as gateway:
        table = AlertTable(open_alerts(None, tmp_path / "state"), "g")
        assert table.take_lease(1)
        firing = Firing(AlertId("denials", ("<b>curl</b>",), 100), 1_777_672_800_000, 1234.0)
        assert table.apply({}, 0, lambda *_: AlertChanges([firing], [], []))
        table.close()
        async with browsing(browser, gateway.link, width=width, scheme=scheme) as page:
            await go(page, "#/alerts")
            fires, calm = page.locator("tbody tr").nth(0), page.locator("tbody tr").nth(1)
            await expect(fires).to_contain_text("firing")
            await expect(fires).to_contain_text("agent <b>curl</b>: 1,234")
            await expect(calm).to_contain_text("ok")
            assert await violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
            await page.get_by_role("button", name="Silence denials for 2 hours").click()
            await expect(page.locator("#announcer")).to_have_text("denials is silent for 2 hours")
            await expect(fires).to_contain_text("silent until")
            await page.get_by_role("button", name="Tell of denials again").click()
            await expect(fires).not_to_contain_text("silent until")
