"""The panel's view of approvals, and the page of a link, in a real browser."""

from collections.abc import AsyncIterator
from contextlib import closing
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser, expect
from support.gateway.approving import ASKS, asked_call, now
from support.gateway.browser import Scheme, browsing, go, running_browser, violations
from support.gateway.panel import panel_gateway
from support.operating.receivers import SECRET
from support.wire import KEY, UNARY, post, prompt

from hookgate.proxy.approvals.links import Links
from hookgate.proxy.approvals.requests import ApprovalRequest
from hookgate.proxy.approvals.table import ApprovalTable
from hookgate.proxy.store.database import open_approvals

pytestmark = pytest.mark.asyncio(loop_scope="module")  # in which the browser runs

EVIL = "<img src=x onerror=alert(1)>\u202e"
SEEN = "each => each.scrollWidth <= each.clientWidth && each.scrollHeight <= each.clientHeight + 1"
ALERTS = {"receivers": [{"name": "bob", "url": "http://127.0.0.1:9/", "secret": SECRET}]}
APPROVALS = {"mode": "ticket", "people": [{"name": "bob", "receiver": "bob"}], "secret": SECRET}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as running:
        yield running


def request_in(folder: Path, text: str) -> ApprovalRequest:
    with closing(ApprovalTable(open_approvals(None, folder / "state"))) as table:
        made = table.ask([asked_call(to=EVIL, body=text)], now(), 3_600_000, 1)[0].request
    assert made
    return made


@pytest.mark.parametrize(("scheme", "width"), [("light", 360), ("dark", 1600)])
async def test_a_request_is_read_and_decided(
    browser: Browser, scheme: Scheme, width: int, tmp_path: Path
) -> None:
    async with panel_gateway(tmp_path, approvals=APPROVALS, alerts=ALERTS, audit={}) as gateway:
        request = request_in(tmp_path, "x" * 9000 + "the end")
        async with browsing(browser, gateway.link, width=width, scheme=scheme) as page:
            await go(page, "#/approvals")
            await expect(page.get_by_role("heading", name="Waiting for a decision: 1")).to_be_visible()
            await expect(page.locator("tbody tr")).to_contain_text("send_mail")
            assert await violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
            await page.get_by_role("link", name=request.short_id).click()
            await expect(page.locator("pre")).to_contain_text("<img src=x onerror=alert(1)>\\u202e")
            await expect(page.locator("pre")).not_to_contain_text("the end")
            await page.get_by_role("button", name="Show all").click()
            await expect(page.locator("pre")).to_contain_text("the end")
            assert await page.locator("pre").evaluate(SEEN), "nothing is beyond an edge"
            assert await violations(page) == []
            assert await page.evaluate("document.documentElement.scrollWidth - window.innerWidth") <= 0
            await page.get_by_label("Reason").fill("fine")
            await page.get_by_role("button", name="Approve").click()
            await expect(page.locator("#announcer")).to_have_text("The request is approved")
            await expect(page.locator("dl")).to_contain_text("admin token approved (once)")
            await go(page, "#/")
            await expect(page.get_by_text("calls that wait for a person")).to_be_visible()


async def test_the_page_of_a_call_says_who_was_asked(browser: Browser, tmp_path: Path) -> None:
    script = {
        "rules": [{"answer": {"parts": [{"functionCall": {"name": "send_mail", "args": {"to": EVIL}}}]}}]
    }
    async with panel_gateway(
        tmp_path, {"BeforeTool": [ASKS]}, script, approvals=APPROVALS, alerts=ALERTS, audit={}
    ) as gateway:
        answer = await post(gateway.url, UNARY, prompt("send it"), KEY)
        async with browsing(browser, gateway.link) as page:
            await go(page, f"#/calls/{answer.headers['x-hookgate-receipt']}")
            await expect(page.get_by_role("heading", name="People were asked")).to_be_visible()
            asked = page.get_by_role("listitem").filter(has_text="asked, request").first
            assert await violations(page) == []
            await asked.get_by_role("link").click()
            await expect(page.locator("pre")).to_contain_text("<img src=x onerror=alert(1)>")


async def test_the_page_of_a_link_decides_with_its_form(browser: Browser, tmp_path: Path) -> None:
    async with panel_gateway(tmp_path, approvals=APPROVALS, alerts=ALERTS, audit={}) as gateway:
        url = Links(SECRET, ("bob",), gateway.admin).url_for(request_in(tmp_path, "short"), "bob")
        async with browsing(browser, url, provider=gateway.admin) as page:
            await expect(page.get_by_role("heading", name="bob, do you approve this call?")).to_be_visible()
            await expect(page.locator("pre")).to_contain_text("<img src=x onerror=alert(1)>\\u202e")
            assert await page.locator("img").count() == 0
            assert await violations(page) == []
            await page.get_by_label("Reason").fill("not today")
            await page.get_by_role("button", name="Deny").click()
            await expect(page.get_by_role("heading", name="This call was denied by bob.")).to_be_visible()
            await page.goto(url)
            await expect(page.get_by_role("button")).to_have_count(0)
