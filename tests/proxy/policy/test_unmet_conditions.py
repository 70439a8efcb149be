"""Conditions on keys and teams that no caller can meet are reported to the operator."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest
from support.gateway.keys import UPSTREAM_KEY, issue, revoke
from support.hooks.settings import command, one_group, write_file
from support.programs.program import run, serving

from hookgate.hooks.settings import SettingsSource, load_sources
from hookgate.proxy.config import ClientSettings, Config
from hookgate.proxy.config.models import NamedKey
from hookgate.proxy.policy.unmet_conditions import questions_to_nobody, unmet_conditions

ALICE, DIGITS = sha256(b"alice's").hexdigest(), sha256(b"somebody's").hexdigest()[:24]
KEYS = {"alice": NamedKey(sha256=ALICE, team="search"), "bob": NamedKey(sha256=sha256(b"bob's").hexdigest())}


def warnings_about(hook: dict[str, Any], folder: Path, keys: dict[str, NamedKey] | None = None) -> list[str]:
    """The warnings about one hook, each without what they have in common."""
    file = write_file(folder, one_group(hook))
    start = f"{file}:1: hooks.BeforeModel: the hook 'one': "
    config = Config(keys=KEYS if keys is None else keys)
    found = unmet_conditions(load_sources([SettingsSource(file)]), config)
    assert all(warning.startswith(start) for warning in found)
    return [warning.removeprefix(start) for warning in found]


@pytest.mark.parametrize(
    "when",
    [
        {},
        {"keys": "alice", "teams": "search"},
        {"keys": ["b?b", "*"], "teams": ["s*"]},
        {"keys": [DIGITS, "0f3a*", "[0-9]*"]},
    ],
)
def test_a_name_that_a_caller_may_have_is_not_reported(when: dict[str, Any], tmp_path: Path) -> None:
    assert warnings_about(command(name="one", when=when), tmp_path) == []


ASKS = {"type": "builtin", "builtin": "tools", "name": "one", "options": {"ask": [{"tool": "send_*"}]}}


@pytest.mark.parametrize(
    ("hook", "mode", "warned"),
    [
        (ASKS, "off", True),
        (ASKS, "ticket", False),
        ({**ASKS, "mode": "observe"}, "off", False),
        ({**ASKS, "options": {"deny": [{"tool": "send_*"}]}}, "off", False),
    ],
)
def test_questions_that_nobody_is_asked_are_reported(
    hook: dict[str, Any], mode: str, warned: bool, tmp_path: Path
) -> None:
    file = write_file(tmp_path, one_group(hook, event="BeforeTool"))
    config = Config.model_validate({"approvals": {"mode": mode}})
    found = questions_to_nobody(load_sources([SettingsSource(file)]), config)
    assert [
        f"{file}:1: hooks.BeforeTool: the hook 'one' asks about tool calls" in each for each in found
    ] == ([True] if warned else [])


NO_KEY = "never matches: no key in [keys] of hookgate.toml has this name; "
NO_TEAM = "never matches: no team in [keys] of hookgate.toml has this name; "


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({"keys": ["bob", "alcie"]}, [f"when.keys: 'alcie' {NO_KEY}did you mean 'alice'?"]),
        ({"keys": "Alice"}, [f"when.keys: 'Alice' {NO_KEY}did you mean 'alice'?"]),
        ({"keys": "nightly-*"}, [f"when.keys: 'nightly-*' {NO_KEY}known are 'alice', 'bob'"]),
        ({"teams": "serch"}, [f"when.teams: 'serch' {NO_TEAM}did you mean 'search'?"]),
        ({"keys": ALICE[:24]}, [f"when.keys: '{ALICE[:24]}' never matches, because [keys] names this key; "
         "use 'alice'"]),
        ({"keys": ALICE}, [f"when.keys: '{ALICE}' never matches, because a key's name has 24 digits; use "
         f"'{ALICE[:24]}'"]),
        (
            {"keys": "eve", "teams": "red"},
            [f"when.keys: 'eve' {NO_KEY}known are 'alice', 'bob'", f"when.teams: 'red' {NO_TEAM}known are "
             "'search'"],
        ),
    ],
)  # fmt: skip
def test_a_name_that_no_caller_can_have_is_reported_with_the_likely_one(
    when: dict[str, Any], expected: list[str], tmp_path: Path
) -> None:
    assert warnings_about(command(name="one", when=when), tmp_path) == expected


def test_where_no_keys_are_named_the_remedy_is_to_name_one(tmp_path: Path) -> None:
    assert warnings_about(command(name="one", when={"keys": "eve"}), tmp_path, {}) == [
        f"when.keys: 'eve' {NO_KEY}add one"
    ]


def test_the_routes_of_a_policy_are_conditions_too(tmp_path: Path) -> None:
    rules = [{"to": "a", "when": {"keys": "bob"}}, {"to": "b", "when": {"teams": "serch", "keys": ["alcie"]}}]
    hook = {"type": "builtin", "builtin": "models", "name": "one", "options": {"route": rules}}
    assert warnings_about(hook, tmp_path) == [
        f"options.route.1.when.keys: 'alcie' {NO_KEY}did you mean 'alice'?",
        f"options.route.1.when.teams: 'serch' {NO_TEAM}did you mean 'search'?",
    ]


async def test_a_start_a_check_and_the_doctor_report_it(tmp_path: Path) -> None:
    guard = write_file(tmp_path, one_group(command(name="one", when={"keys": "alcie"})), "guard.json")
    toml = tmp_path / "hookgate.toml"
    toml.write_text(f"[hooks]\npolicy = ['guard.json']\n[keys.alice]\nsha256 = '{ALICE}'\n")
    expected = (
        f"{guard}:1: hooks.BeforeModel: the hook 'one': when.keys: 'alcie' {NO_KEY}did you mean 'alice'?"
    )
    words = ("--config", str(toml), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    state = {"HOOKGATE_STATE": str(tmp_path / "state")}
    checked = await run("config", "check", *words)
    assert (checked.code, expected in checked.out.splitlines()) == (0, True), checked
    doctor = await run("doctor", "--offline", *words, env=state)
    assert f"note  {expected}" in doctor.out.splitlines()
    for more in ((), ("--workers", "2")):
        async with serving("serve", *words, *more, env=state) as gateway:
            while expected not in gateway.log:
                assert await gateway.next_line(), gateway.log


async def test_a_check_knows_the_teams_of_issued_keys(url: str | None, tmp_path: Path) -> None:
    """A budget for a team that nobody is in would never be used up."""
    issue(tmp_path / "state", url, owner="alice", team="search")
    revoked = issue(tmp_path / "state", url, owner="bob", team="sales")
    revoke(tmp_path / "state", revoked, url)
    budget = {"rules": [{"per": "team", "window": "month", "tokens": 5}]}
    hook = {"type": "builtin", "builtin": "limits", "options": budget}
    file = write_file(tmp_path, one_group({**hook, "name": "one", "when": {"teams": ["s*rch", "sales"]}}))
    words = ("--hooks", str(file), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    env = {
        "HOOKGATE_CLIENTS__ISSUED_KEYS": "true",
        "HOOKGATE_UPSTREAM__GEMINI_KEY": UPSTREAM_KEY,
        "HOOKGATE_STORE__URL": (url or "").replace("+psycopg", ""),
        "HOOKGATE_STATE": str(tmp_path / "state"),
    }
    checked = await run("config", "check", *words, env=env)
    assert (checked.code, checked.out.count("never matches")) == (0, 1), checked
    assert "when.teams: 'sales' never matches: no team in [keys] of hookgate.toml, or issued," in checked.out


async def test_a_check_without_a_database_of_keys_creates_none(tmp_path: Path) -> None:
    file = write_file(tmp_path, one_group(command(name="one", when={"teams": "sales"})))
    words = ("--hooks", str(file), "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    env = {
        "HOOKGATE_CLIENTS__ISSUED_KEYS": "true",
        "HOOKGATE_UPSTREAM__GEMINI_KEY": UPSTREAM_KEY,
        "HOOKGATE_STATE": str(tmp_path / "state"),
    }
    checked = await run("config", "check", *words, env=env)
    assert (checked.code, "never matches" in checked.out) == (0, False)
    assert not (tmp_path / "state" / "keys.db").exists()  # a local file


def test_issued_keys_may_have_any_name(tmp_path: Path) -> None:
    file = write_file(tmp_path, one_group(command(when={"keys": ["ivan"], "teams": ["sales"]})))
    config = Config(keys=KEYS, clients=ClientSettings(issued_keys=True))
    assert unmet_conditions(load_sources([SettingsSource(file)]), config) == []
