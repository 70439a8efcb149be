"""A headless Chromium before the panel, which must ask nobody else and complain of nothing."""

import re
import shutil
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Literal

from playwright.async_api import Browser, Locator, Page, async_playwright
from support.clients.node import NODE_DIR
from support.programs.commands import missing

_AXE = NODE_DIR / "node_modules" / "axe-core" / "axe.min.js"
_PROGRAMS = ("chromium-headless-shell", "chromium", "chromium-browser")
_ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--in-process-gpu"]
_RULES = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
_RUN = """async (tags) => {
  const {violations} = await axe.run(document, {runOnly: {type: "tag", values: tags}});
  const described = (node) => `${node.html}: ${node.failureSummary}`;
  return violations.map(({id, nodes}) => [id, ...nodes.map(described)]);
}"""

Scheme = Literal["light", "dark"]
VIEWS = (
    *("#/", "#/calls", "#/calls?q=tem:x", "#/calls?q=outcome:denied+sort:duration", "#/sessions", "#/people"),
    *("#/spend", "#/spend?by=day,model&q=", "#/findings", "#/hooks", "#/hooks/runs", "#/policy", "#/alerts"),
    "#/policy/compare",
)
"""The routes that need no ID."""


def chromium() -> str:
    """Where Chromium is; skips the test, or fails it where CI is set, when it is missing.

    Its headless shell draws no window around the pages, and so takes less than half of the processor time.
    """
    found = next(filter(None, map(shutil.which, _PROGRAMS)), None)
    if found is None:
        missing("needs Chromium: run `make browser`")
    return found or ""


@asynccontextmanager
async def running_browser() -> AsyncIterator[Browser]:
    """A browser for many pages: to start one takes longer than most tests."""
    path = chromium()
    async with (
        async_playwright() as playwright,
        await playwright.chromium.launch(executable_path=path, args=_ARGUMENTS) as browser,
        await browser.new_context(device_scale_factor=1, reduced_motion="reduce", timezone_id="UTC"),
    ):
        yield browser


@asynccontextmanager
async def browsing(
    browser: Browser,
    link: str,
    *,
    width: int = 1280,
    height: int = 900,
    scheme: Scheme = "light",
    provider: str | None = None,
) -> AsyncIterator[Page]:
    """A page at a panel, by its address or its link; it finds nothing of the browser's former pages.

    They share a context, as a new one takes longer than most tests. So only one page may be open at a time.
    At the end fails when it asked another server than the identity provider at `provider`, or said an error
    in its console.
    """
    complaints: list[str] = []
    own = tuple(url for url in (link.partition("/#")[0], provider) if url)
    [context] = browser.contexts
    assert context.pages == []
    await context.clear_cookies()
    async with await context.new_page() as page:
        page.set_default_timeout(10_000)
        await page.set_viewport_size({"width": width, "height": height})
        await page.emulate_media(color_scheme=scheme)
        page.on("pageerror", lambda error: complaints.append(f"error: {error}"))
        page.on("console", lambda said: complaints.append(said.text) if _is_error(said) else None)
        page.on(
            "request",
            lambda asked: None if asked.url.startswith(own) else complaints.append(f"asked {asked.url}"),
        )
        await page.goto(link)
        await page.wait_for_selector("h1")
        yield page
        await page.evaluate("localStorage.clear()")  # another panel may get this one's port
    assert complaints == [], complaints


def _is_error(said: Any) -> bool:
    # A browser notes each answer that is an error, also those that a page expects.
    return said.type == "error" and not re.search(r"responded with a status of (400|401|403|502)", said.text)


async def go(page: Page, route: str) -> None:
    """Show a view, by its route behind `#`."""
    await page.evaluate("route => { location.hash = route; }", route)
    await page.wait_for_function(
        "route => location.hash === route && !document.querySelector('main[aria-busy]')"
        " && document.querySelector('h1')",
        arg=route,
    )


async def follow(page: Page, link: Locator) -> None:
    """Follow a link to another view, and wait until that is shown."""
    await _mark(page)
    await link.click()
    await _wait_for_new_view(page)


async def find(page: Page, query: str) -> None:
    """Type another query into the view's field, as a person does, and wait until its view is shown."""
    await _mark(page)
    await page.get_by_role("searchbox").fill(query)
    await page.keyboard.press("Enter")
    await _wait_for_new_view(page)


async def _mark(page: Page) -> None:
    await page.evaluate("document.querySelector('h1').dataset.old = ''")


async def _wait_for_new_view(page: Page) -> None:
    await page.wait_for_selector("h1:not([data-old])")


async def violations(page: Page) -> list[list[str]]:
    """What axe finds wrong with the page, once its view is loaded: until then, the view before is faint."""
    await page.wait_for_selector("main:not([aria-busy])")
    if not _AXE.is_file():
        missing("needs axe-core: run `make node`")
    if not await page.evaluate("'axe' in window"):
        await page.evaluate(_AXE.read_text())
    found: list[list[str]] = await page.evaluate(_RUN, _RULES)
    return found
