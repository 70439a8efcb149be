"""The schema of settings files: it accepts what loads, refuses what does not, and explains every key."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator
from support.hooks.settings import command, one_group, write_file
from support.pages import EVENTS_OF_OTHERS, PAGES, blocks
from support.places import PROJECT

from hookgate.hooks import SettingsError, load_settings
from hookgate.hooks.settings import EVENTS, files
from hookgate.hooks.settings.schema import settings_schema

EXAMPLES = PROJECT / "examples"
SCHEMA = settings_schema()
VALIDATOR = Draft202012Validator(SCHEMA)


def is_settings(value: Any) -> bool:
    return isinstance(value, dict) and bool({"hooks", "hooksConfig"} & value.keys())


def settings_on(page: Path) -> Iterator[Any]:
    """Every whole settings file that a page shows, but Claude Code's."""
    for block in blocks(page):
        try:
            value = block.value
        except ValueError:
            continue
        if is_settings(value) and not (EVENTS_OF_OTHERS & value.get("hooks", {}).keys()):
            yield value


def documented() -> list[Any]:
    return [
        pytest.param(value, id=f"{page.stem}-{number}")
        for page in PAGES
        for number, value in enumerate(settings_on(page), 1)
    ]


def test_the_schema_is_one() -> None:
    Draft202012Validator.check_schema(SCHEMA)
    assert SCHEMA["$schema"] == "https://json-schema.org/draft/2020-12/schema"
    assert json.loads(json.dumps(SCHEMA)) == SCHEMA


def test_there_are_examples() -> None:
    assert len(list(EXAMPLES.rglob("settings*.json"))) >= 2


@pytest.mark.parametrize(
    "path", sorted(EXAMPLES.rglob("settings*.json")), ids=lambda path: str(path.relative_to(EXAMPLES))
)
def test_every_example_is_valid(path: Path) -> None:
    VALIDATOR.validate(files.parse_jsonc(path.read_text(encoding="utf-8")))


def test_the_pages_show_settings() -> None:
    assert len(documented()) >= 2


@pytest.mark.parametrize("settings", documented())
def test_every_settings_file_of_the_pages_is_valid(settings: Any) -> None:
    VALIDATOR.validate(settings)


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"hooks": {}},
        {"theme": 1, "tools": {"enableHooks": False, "x": 1}, "mcpServers": {}},
        {"hooks": {event: [{"hooks": [command()]}] for event in EVENTS}},
        {"hooks": {"disabled": ["a"], "enabled": True, "notifications": True}},
        {"hooksConfig": {"disabled": ["a"], "enabled": False, "on_error": "deny", "deadline": 1, "x": 1}},
        one_group(command("x", future=1), matcher="m", sequential=True),
        one_group(command(["python3", "x.py"], persistent=True, workers=2)),
        one_group(command("x", when={"models": "gemini-*", "tools": ["a", "b"]}, mode="observe")),
        one_group({"type": "runtime", "action": "./file.py:function"}),
        one_group({"type": "http", "url": "unix:/run/policy.sock:/hook", "headers": {"A": "$B"}}),
        one_group({"type": "http", "url": "https://policy.example.com/hook"}),
        one_group({"type": "builtin", "builtin": "redact", "options": {"a": [1]}}),
    ],
    ids=lambda settings: json.dumps(settings)[:60],
)
def test_what_loads_is_valid(settings: Any, tmp_path: Path) -> None:
    load_settings([write_file(tmp_path, settings)])
    VALIDATOR.validate(settings)


WRONG_HOOKS: list[Any] = [
    {"type": "command"},
    command(""),
    command([]),  # type: ignore[arg-type]  # wrong on purpose
    command([""]),  # type: ignore[arg-type]  # wrong on purpose
    command(timeout="5"),
    command(timeout=True),
    command(timeout=0),
    command(on_error="ignore"),
    command(name=7),
    command(env=[]),
    command(env={"command": 1}),
    command(persistent="yes"),
    command(workers=0),
    command(workers=65),
    command(view="all"),
    command(mode="watch"),
    command(merge="none"),
    command(when={"model": "x"}),
    command(when={"models": 1}),
    {"type": "plugin"},
    {"command": "x"},
    "x",
    {"type": "runtime"},
    *({"type": "runtime", "action": a} for a in ("module", "module:", ":f", "module:f()", "a:b:c", "m:2")),
    *({"type": "http", "url": url} for url in ("", "ftp://x", "http://", "unix:run.sock")),
    {"type": "http", "url": "http://x/", "headers": {"a": 1}},
    {"type": "builtin", "builtin": ""},
]

WRONG_FILES: list[Any] = [
    [],
    {"hooks": []},
    {"hooks": {"BeforeModel": {"hooks": []}}},
    {"hooks": {"BeforeModel": ["x"]}},
    {"hooks": {"BeforeModel": [{}]}},
    {"hooks": {"BeforModel": []}},
    one_group(sequential="yes"),
    one_group(matcher=1),
    {"hooks": {"disabled": "x"}},
    {"hooksConfig": {"disabled": [1]}},
    {"hooksConfig": {"on_error": "warn"}},
    {"hooksConfig": {"deadline": 0}},
]


@pytest.mark.parametrize(
    "settings", [*map(one_group, WRONG_HOOKS), *WRONG_FILES], ids=lambda settings: json.dumps(settings)[:80]
)
def test_what_does_not_load_is_not_valid(settings: Any, tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        load_settings([write_file(tmp_path, settings)])
    assert not VALIDATOR.is_valid(settings)


def properties(schema: Any, place: str = "") -> Iterator[tuple[str, Any]]:
    """Every property that the schema names, with its place."""
    if isinstance(schema, dict):
        for name, member in (
            schema["properties"] if isinstance(schema.get("properties"), dict) else {}
        ).items():
            yield f"{place}.{name}", member
        for key, member in schema.items():
            yield from properties(member, f"{place}.{key}")


def test_an_editor_can_explain_every_key() -> None:
    explained_elsewhere = {"type", "hooks", "tools", "hooksConfig"}
    unexplained = [
        place
        for place, member in properties(SCHEMA)
        if place.rpartition(".")[2] not in explained_elsewhere and not member.get("description")
    ]
    assert unexplained == []


def test_the_schema_knows_the_events_of_the_contract() -> None:
    assert set(EVENTS) <= SCHEMA["properties"]["hooks"]["properties"].keys()
