"""The page's files: their content security policy, and how they are served."""

import re
from importlib.resources import files
from pathlib import Path

import pytest
from support.gateway.panel import BEARER, panel_gateway
from support.wire import ask

PAGES = {each.name: each.read_text() for each in (files("hookgate.proxy.admin") / "pages").iterdir()}
SCRIPTS = sorted(name for name in PAGES if name.endswith(".js"))

_WAYS_TO_MARKUP = re.compile(
    r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|createContextualFragment|DOMParser|srcdoc"
    r"|\beval\b|new Function|javascript:|[^=!]==[^=]|!=[^=]"
)


@pytest.mark.parametrize("name", SCRIPTS)
def test_no_script_makes_markup_of_text(name: str) -> None:
    assert _WAYS_TO_MARKUP.findall(PAGES[name]) == []


@pytest.mark.parametrize("name", sorted(PAGES))
def test_nothing_comes_from_elsewhere(name: str) -> None:
    outside = re.findall(r"(?:https?:)?//[\w.-]+\.\w+[^\s\"']*", PAGES[name])
    assert [each for each in outside if not each.startswith("http://www.w3.org/")] == []


def test_the_page_has_no_script_or_style_of_its_own() -> None:
    assert not re.search(r"<style|style=|\son\w+=|<script(?![^>]*src=)", PAGES["index.html"])


@pytest.mark.parametrize("name", SCRIPTS)
def test_scripts_stay_small(name: str) -> None:
    assert len(PAGES[name].splitlines()) < 200


async def test_every_answer_carries_the_policy(tmp_path: Path) -> None:
    async with panel_gateway(tmp_path) as gateway:
        for path in ("/", "/panel/main.js", "/panel/base.css", "/panel/icon.svg", "/api/hooks", "/nothing"):
            headers = (await ask(gateway.admin, "GET", path)).headers
            policy = dict(each.split(" ", 1) for each in headers["content-security-policy"].split("; "))
            assert policy["default-src"] == "'none'", path
            assert policy["script-src"] == policy["style-src"] == policy["connect-src"] == "'self'"
            assert policy["frame-ancestors"] == "'none'"
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["referrer-policy"] == "no-referrer"
        assert (await ask(gateway.admin, "GET", "/panel/main.js")).headers["content-type"] == (
            "text/javascript; charset=utf-8"
        )
        assert (await ask(gateway.admin, "GET", "/api/hooks", BEARER)).headers["cache-control"] == "no-store"
