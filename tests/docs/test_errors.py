"""docs/errors.md lists every error of the gateway, and only errors that exist."""

import re
from pathlib import Path

from generators.errors_reference import ADVICE, errors_reference
from generators.errors_scan import find_errors
from support.places import DOCS, PROJECT

from hookgate.proxy.errors import UPSTREAM_FAILED


def test_the_page_is_what_the_code_says() -> None:
    assert (DOCS / "errors.md").read_text(encoding="utf-8") == errors_reference(), (
        "docs/errors.md is out of date; renew it with: "
        "PYTHONPATH=docs .venv/bin/python -m generators.errors_reference > docs/errors.md"
    )


def test_every_reason_has_advice_and_no_advice_is_for_nothing() -> None:
    assert {error.reason for error in find_errors()} - {""} == ADVICE.keys()
    assert ADVICE.keys() >= UPSTREAM_FAILED


def test_no_reason_in_the_code_or_in_other_pages_is_missing() -> None:
    named = re.compile(
        r"\b(?:AUDIT|BODY|BODIES|CONNECTIONS|INTERACTIONS?|KEYS?|ROUTE|SESSIONS|UPSTREAM|TOKEN|EVENT)_[A-Z]+(?:_[A-Z]+)?\b"
    )
    folders = ("audit", "call", "credentials", "http", "identity", "routing")
    code = [file for folder in folders for file in (PROJECT / "proxy/hookgate/proxy" / folder).rglob("*.py")]
    quoted = {name for file in code for name in re.findall(rf'"({named.pattern})"', file.read_text())}
    assert quoted <= ADVICE.keys()
    pages = ("gateway.md", "keys.md", "failing.md", "credentials.md")
    assert {name for page in pages for name in _reasons_of(DOCS / page, named)} <= ADVICE.keys()


def _reasons_of(page: Path, named: re.Pattern[str]) -> list[str]:
    return re.findall(rf"`({named.pattern})`", page.read_text())


def test_every_error_has_a_reason() -> None:
    assert [error.message for error in find_errors() if not error.reason] == []
