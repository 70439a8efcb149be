"""What pages list by hand is complete, and what a generator makes for other programs is up to date."""

import re

import pytest
from generators.commands_reference import commands_reference
from generators.credential_kinds import credential_kinds
from generators.helm_schema import SCHEMA, values_schema
from generators.hook_options import OPTIONS, hook_options
from generators.national_numbers import national_numbers
from generators.routes_reference import routes_reference
from support.places import DOCS

from hookgate.hooks.policies import BUILTINS
from hookgate.hooks.policies.redact.detectors import DETECTORS
from hookgate.proxy.cli.main import COMMANDS

PAGES = {page.name: page.read_text(encoding="utf-8") for page in DOCS.glob("*.md")}


@pytest.mark.parametrize("policy", BUILTINS)
def test_each_policy_has_an_example_and_a_row_in_the_list(policy: str) -> None:
    pages = [page for name, page in PAGES.items() if name != "hook-options.md"]
    assert any(f'"builtin": "{policy}"' in page for page in pages)
    assert f"[`{policy}`]" in PAGES["policies.md"]


def test_the_page_of_kinds_of_credentials_is_that_of_the_program() -> None:
    page = PAGES["credential-kinds.md"]
    assert page == credential_kinds(), (
        "run: python docs/generators/credential_kinds.py > docs/credential-kinds.md"
    )


def test_the_page_of_national_numbers_is_that_of_the_program() -> None:
    page = PAGES["national-numbers.md"]
    assert page == national_numbers(), (
        "run: PYTHONPATH=docs python -m generators.national_numbers > docs/national-numbers.md"
    )


def test_the_page_of_keys_and_options_is_that_of_the_program() -> None:
    page = PAGES["hook-options.md"]
    assert page == hook_options(), (
        "run: PYTHONPATH=docs python -m generators.hook_options > docs/hook-options.md"
    )


def test_the_page_of_options_has_each_policy() -> None:
    assert OPTIONS.keys() == BUILTINS.keys()


def test_the_patterns_on_the_page_of_kinds_of_credentials_are_whole() -> None:
    rows = re.findall(
        r"^\| [A-Z][A-Z0-9_]+ \|.*?\| `+ ?(.+?) ?`+ \|", PAGES["credential-kinds.md"], re.MULTILINE
    )
    whole = [row.replace("\\|", "|") for row in rows if "…" not in row]
    assert len(whole) > 300
    for pattern in whole:
        re.compile(pattern)


def test_the_page_of_routes_is_that_of_the_program() -> None:
    page = PAGES["routes.md"]
    assert page == routes_reference(), "run: python docs/generators/routes_reference.py > docs/routes.md"


def test_the_page_of_commands_is_that_of_the_program() -> None:
    page = PAGES["commands.md"]
    assert page == commands_reference(), (
        "run: python docs/generators/commands_reference.py > docs/commands.md"
    )


def test_the_tables_of_detectors_have_each_kind() -> None:
    kinds = {detector.kind for detector in DETECTORS}
    pages = "".join(
        PAGES[f"{name}.md"] for name in ("redaction-scope", "credential-kinds", "national-numbers")
    )
    cells = re.findall(r"^\| ([A-Z][A-Z0-9_, ]+) \|", pages, re.MULTILINE)
    assert kinds == {kind for cell in cells for kind in cell.split(", ")}


def test_the_schema_of_the_chart_has_the_settings_of_the_gateway() -> None:
    assert SCHEMA.read_text() == values_schema(), "run: python docs/generators/helm_schema.py"


@pytest.mark.parametrize("command", [command.name for command in COMMANDS])
def test_each_command_is_described(command: str) -> None:
    assert any(f"hookgate {command}" in page for page in PAGES.values())
