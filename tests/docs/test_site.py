"""The documentation site builds without warnings, and a browser reads and searches it."""

import functools
import re
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from os import environ
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from support.gateway.browser import Scheme, browsing, running_browser, violations
from support.places import DOCS, PROJECT

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="module")]  # in which the browser runs

QUIET = {"NO_MKDOCS_2_WARNING": "1"}

TERMS = {
    "redact": "redaction",
    "denials": "clients",
    "BeforeToolSelection": "reference",
    "pseudonym": "redaction",
    "receipt": "receipts",
    "hash chain": "audit",
    "workers": "operating",
    "systemd": "operating",
    "Helm": "helm-values",
    "Gemini CLI": "agents/gemini-cli",
    "LiteLLM": "agents/litellm",
    "KEY_UNKNOWN": "errors",
    "mitmproxy": "migrating",
    "guardrails": "migrating",
    "doctor": "operating",
    "matcher": "settings",
    "on_error": "failing",
    "persistent": "hook-kinds",
    "rotate": "keys",
    "Prometheus": "metrics",
    "cassette": "policies",
    "shim": "shim",
    "Claude Code": "migrating",
    "threat": "threat-model",
    "transcript": "events",
    "mask phone numbers of France": "redaction",
    "hook times out": "failing",
    "rotate a key": "keys",
    "why was a call denied": "answers",
    "run behind nginx": "deploying",
    "LangChain": "agents/langchain",
    "test a hook": "testing",
    "how much slower": "performance",
    "export to Splunk": "exports",
    "a person approves a call": "approvals",
}
"""Terms that a reader may search for, and the page that must be among the results."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The built site; `--strict` fails for broken links and anchors, and for pages that no menu has."""
    folder, pages = tmp_path_factory.mktemp("site"), tmp_path_factory.mktemp("pages")
    config = tmp_path_factory.mktemp("config") / "mkdocs.yml"  # other workers build the site as well
    config.write_text(f"INHERIT: {PROJECT / 'mkdocs.yml'}\ndocs_dir: {pages}\nsite_dir: {folder}\n")
    commands = (
        (sys.executable, "scripts/site.py", str(pages)),
        (sys.executable, "-m", "mkdocs", "build", "--strict", "--config-file", str(config)),
    )
    for command in commands:
        ended = subprocess.run(
            command, cwd=PROJECT, env=environ | QUIET, capture_output=True, text=True, check=False
        )
        assert ended.returncode == 0, ended.stdout + ended.stderr
    return folder


class _Handler(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture(scope="module")
def url(site: Path) -> Iterator[str]:
    handler = functools.partial(_Handler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def browser() -> AsyncIterator[Browser]:
    async with running_browser() as browser:
        yield browser


async def test_every_page_is_in_the_list_for_language_models(site: Path) -> None:
    listed = (site / "llms.txt").read_text()
    for page in DOCS.rglob("*.md"):
        name = page.relative_to(DOCS).with_suffix(".html")
        assert f"({name})" in listed
        assert (site / name).is_file()
        assert page.read_text().partition("\n")[0] in (site / "llms-full.txt").read_text()


async def test_no_link_of_the_site_leaves_it_for_a_file_of_the_repository(site: Path) -> None:
    top = [page for page in _pages(site) if page.parent == site]
    assert [page.name for page in top if 'href="../' in page.read_text()] == []


def _pages(site: Path) -> list[Path]:
    return list(site.rglob("*.html"))


async def test_every_column_of_a_table_has_a_name(site: Path) -> None:
    """A screen reader says it for each cell; axe looks at a few pages only."""
    assert [page.name for page in _pages(site) if re.search(r"<th[^>]*></th>", page.read_text())] == []


async def test_the_search_finds_what_readers_look_for(url: str, browser: Browser) -> None:
    async with browsing(browser, f"{url}/#") as page:
        for term, name in TERMS.items():
            await page.goto(f"{url}/index.html?q={term}")
            await page.locator(f".md-search-result a[href*='{name}.html']").first.wait_for(state="attached")


@pytest.mark.parametrize(
    ("name", "width", "scheme"),
    [
        ("index", 1280, "light"),
        ("index", 390, "dark"),
        ("configuration", 390, "light"),
        ("performance", 1280, "dark"),
        ("errors", 390, "dark"),
        ("agents/gemini-cli", 1280, "light"),
        ("comparison", 390, "light"),
        ("deploying", 390, "light"),
        ("tutorial", 390, "light"),
    ],
)
async def test_a_page_is_accessible_and_fits_a_phone(
    url: str, browser: Browser, name: str, width: int, scheme: Scheme
) -> None:
    async with browsing(browser, f"{url}/#", width=width, scheme=scheme) as page:
        await page.goto(f"{url}/{name}.html")
        await page.wait_for_selector(".md-search-result__meta", state="attached")
        assert await violations(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= width
