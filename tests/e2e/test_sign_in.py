"""Sign-in to the panel in a real browser, with the provider on another site."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio
from playwright.async_api import Browser, Page, expect
from support.gateway.browser import browsing, go, running_browser, violations
from support.gateway.loopback import runs
from support.gateway.panel import Paneled, panel_gateway
from support.upstream.openid_provider import CLIENT, SECRET, OpenIdProvider, openid_provider
from support.wire import UNARY, post, prompt

pytestmark = pytest.mark.asyncio(loop_scope="module")  # in which the browser runs

PEOPLE: dict[str, dict[str, Any]] = {
    "viewer": {"sub": "u-1", "groups": ["everyone"], "email": "vera@example.com", "email_verified": True},
    "auditor": {"sub": "u-2", "groups": ["everyone", "audit"]},
    "admin": {"sub": "u-3", "email": "olga@example.com", "email_verified": True},
}
NAMES = {"viewer": "vera@example.com", "auditor": "u-2", "admin": "olga@example.com"}
SETTINGS = {
    "client_id": CLIENT,
    "client_secret": SECRET,
    "viewers": ["everyone"],
    "auditors": ["audit"],
    "admins": ["olga@example.com"],
}


def guards(document: dict[str, Any]) -> dict[str, Any]:
    """A hook that quotes what it denies."""
    return {"decision": "deny", "reason": f"Not here: {document['llm_request']['messages'][-1]['content']}"}


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as running:
        yield running


@asynccontextmanager
async def open_sign_in(
    browser: Browser, folder: Path, person: dict[str, Any], route: str = "", width: int = 1280
) -> AsyncIterator[tuple[Paneled, OpenIdProvider, Page, str]]:
    """A gateway after one call, and its panel in a browser that is not signed in, and the call's ID."""
    hooks = {"BeforeModel": [runs(guards, name="guard")]}
    async with openid_provider(person=person, asks=True) as provider:
        configured = {"issuer": provider.issuer, **SETTINGS}
        async with panel_gateway(folder, hooks, audit={"content": "full"}, sign_in=configured) as gateway:
            answer = await post(gateway.url, UNARY, prompt("the launch code"), {"x-goog-api-key": "k"})
            call = answer.headers["x-hookgate-receipt"]
            link = f"{gateway.admin}/{route}"
            async with browsing(browser, link, width=width, provider=provider.issuer) as page:
                yield gateway, provider, page, call


async def sign_in(page: Page) -> None:
    await page.get_by_role("button", name="Sign in with localhost").click()
    await expect(page.get_by_role("heading", name="Provider")).to_be_visible()
    await page.get_by_role("link", name="Continue").click()


@pytest.mark.parametrize("role", PEOPLE)
async def test_a_person_signs_in_and_sees_and_does_what_the_role_allows(
    role: str, browser: Browser, tmp_path: Path
) -> None:
    async with open_sign_in(browser, tmp_path, PEOPLE[role], "#/hooks") as (gateway, _, page, call):
        await sign_in(page)
        await expect(page.get_by_role("heading", name="Hooks")).to_be_visible()  # the view that was asked for
        assert page.url == f"{gateway.admin}/#/hooks"
        await expect(page.locator("#person")).to_have_text(f"{NAMES[role]} · {role}")
        await expect(page.locator("#connection")).to_have_text("live")
        switch = page.get_by_role("switch", name="guard on BeforeModel")
        await expect(switch).to_have_count(1 if role == "admin" else 0)
        if role == "admin":
            await switch.click()
            await page.get_by_role("button", name="Disable").click()
            await expect(page.get_by_text("is in force.")).to_be_visible()
        else:
            await expect(page.get_by_text("on, switched by admins")).to_be_visible()
        await go(page, f"#/calls/{call}")
        content = page.locator("main")
        if role == "viewer":
            await expect(content).to_contain_text("Viewers do not see the content of calls")
            assert "launch" not in await page.content()
        else:
            await expect(content).to_contain_text("Not here: the launch code")
        assert await violations(page) == []
        await page.reload()
        await expect(page.locator("#person")).to_have_text(f"{NAMES[role]} · {role}")
        await page.get_by_role("button", name="Sign out").click()
        await expect(page.get_by_role("button", name="Sign in with localhost")).to_be_visible()
        await expect(page.locator("#person")).to_be_hidden()


@pytest.mark.parametrize("width", [1280, 360])
async def test_a_person_without_a_role_gets_a_message(width: int, browser: Browser, tmp_path: Path) -> None:
    person = {"email": "mallory@example.com", "email_verified": True}
    async with open_sign_in(browser, tmp_path, person, width=width) as (gateway, _, page, _call):
        await sign_in(page)
        message = page.get_by_role("alert").filter(has_text="mallory@example.com has no role at this gateway")
        await expect(message).to_be_visible()
        assert page.url == f"{gateway.admin}/#/"
        assert await page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        assert await violations(page) == []


async def test_a_link_that_ends_the_sign_in_of_somebody_else_does_nothing(
    browser: Browser, tmp_path: Path
) -> None:
    async with open_sign_in(browser, tmp_path, PEOPLE["admin"]) as (gateway, _, page, _call):
        await page.get_by_role("button", name="Sign in with localhost").click()
        link = await page.get_by_role("link", name="Continue").get_attribute("href")
        assert link is not None
        await page.goto(gateway.admin)
        await page.evaluate("localStorage.clear()")  # as if somebody else had begun it
        await page.goto(link)
        await expect(page.get_by_role("alert").first).to_contain_text("was not begun in this browser")
        assert page.url == f"{gateway.admin}/#/"
        await sign_in(page)
        await expect(page.locator("#person")).to_have_text("olga@example.com · admin")
        assert page.url == f"{gateway.admin}/#/"


async def test_the_view_after_a_sign_in_cannot_be_another_site(browser: Browser, tmp_path: Path) -> None:
    async with open_sign_in(browser, tmp_path, PEOPLE["viewer"], "#//evil.example/") as (
        gateway,
        _,
        page,
        _call,
    ):
        await page.evaluate("sessionStorage.setItem('hookgate-return', '//evil.example/')")
        await sign_in(page)
        await expect(page.locator("#person")).to_be_visible()
        assert page.url.startswith(f"{gateway.admin}/#/")


async def test_the_admin_token_still_signs_in(browser: Browser, tmp_path: Path) -> None:
    async with open_sign_in(browser, tmp_path, PEOPLE["viewer"]) as (gateway, _, page, _call):
        await page.get_by_text("Sign in with the admin token").click()
        await page.get_by_label("Admin token").fill("a-token-of-some-length")
        await page.get_by_role("button", name="Sign in", exact=True).click()
        await expect(page.locator("#person")).to_have_text("admin token · admin")
        await expect(page.get_by_role("heading", name="Overview")).to_be_visible()
        assert await violations(page) == []
        assert gateway.admin in page.url


async def test_a_provider_that_is_down_is_reported(browser: Browser, tmp_path: Path) -> None:
    async with open_sign_in(browser, tmp_path, PEOPLE["viewer"]) as (_, provider, page, _call):
        provider.metadata = {"issuer": "https://evil.example"}
        await page.get_by_role("button", name="Sign in with localhost").click()
        await expect(page.get_by_text("The identity provider cannot be reached")).to_be_visible()
