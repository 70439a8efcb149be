"""Hooks that stop nothing are listed at startup, in checks, lists, readiness and the panel.

These are hooks that fail open, that judge each event of a stream alone, that only observe, whose conditions
are never met, or that are switched off.
"""

import json
from pathlib import Path

import pytest
from support.hooks.settings import command, one_group, write_file
from support.programs.program import run, serving
from support.wire import ask

from hookgate.proxy import policy
from hookgate.proxy.admin import listener
from hookgate.proxy.admin.listener import AdminListener
from hookgate.proxy.admin.policy import HookPanel
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.observe.metrics import Metrics
from hookgate.translator.fields import JsonObject

OPEN = "these hooks fail open (a call passes if they fail): open; "
OPEN_ON_EXITS = "these hooks fail open when they exit with a code other than 0 or 2: exits; "
MISSES = "these hooks judge each event of a stream alone (a text split between events passes): alone; "
NEVER = (
    "these hooks never run, because their event has no tool, model or operation to meet a condition: idle ("
)
OBSERVES = 'these hooks only observe and stop nothing: observed; to enforce them, remove "mode": "observe"'


@pytest.fixture
def file(tmp_path: Path) -> Path:
    hooks = (
        command(name="open", on_error="allow"),
        command(name="exits"),
        command(name="closed", on_error="deny"),
        command(name="observed", on_error="allow", mode="observe"),
    )
    settings = one_group(*hooks)
    answers = [command(name="alone", on_error="deny", stream="event"), command(name="all", on_error="deny")]
    idle = command(name="idle", on_error="deny", stream="window", when={"tools": "*"})
    settings["hooks"]["AfterModel"] = [{"hooks": [*answers, idle]}]
    ending = command(name="idle", on_error="deny", when={"models": "gemini-*"})
    settings["hooks"]["SessionEnd"] = [{"hooks": [ending]}]
    return write_file(tmp_path, settings, "hooks.json")


async def test_a_start_names_them(file: Path, tmp_path: Path) -> None:
    named = ("--hooks", str(file), "--state", str(tmp_path / "state"))
    async with serving("serve", "--listen", "127.0.0.1:0", *named) as gateway:
        assert OPEN in gateway.log
        assert OPEN_ON_EXITS in gateway.log
        assert MISSES in gateway.log
        assert OBSERVES in gateway.log
        assert f"{NEVER}AfterModel), idle (SessionEnd); remove" in gateway.log


@pytest.fixture
def slip(file: Path) -> Path:
    """The same hooks, with a key that is none."""
    settings = json.loads(file.read_text())
    settings["hooks"]["BeforeModel"][0]["hooks"][0]["on-error"] = "deny"
    return write_file(file.parent, settings, "slip.json")


async def test_a_check_names_them_and_the_slips(slip: Path) -> None:
    ended = await run("config", "check", "--hooks", str(slip))
    assert ended.code == 0
    assert OPEN in ended.out
    assert OPEN_ON_EXITS in ended.out
    assert MISSES in ended.out
    assert OBSERVES in ended.out
    assert f"{slip}:1: hooks.BeforeModel: the hook 'open': 'on-error' is not known here" in ended.err
    ended = await run("config", "check", "--policy", str(slip))
    assert ended.code == 1
    assert "did you mean on_error?" in ended.err


@pytest.mark.parametrize(
    "words", ["hooks doctor", "doctor --offline --listen 127.0.0.1:0 --admin 127.0.0.1:0"]
)
async def test_the_doctors_name_each_of_them_once(words: str, file: Path, tmp_path: Path) -> None:
    ended = await run(*words.split(), "--hooks", str(file), env={"HOOKGATE_STATE": str(tmp_path / "state")})
    for expected in (OPEN, OPEN_ON_EXITS, MISSES, OBSERVES, NEVER):
        assert ended.out.count(f"note  {expected}") == 1


@pytest.mark.parametrize("switch", [{"hooks": {"enabled": False}}, {"tools": {"enableHooks": False}}])
async def test_hooks_that_are_switched_off_are_counted(switch: JsonObject, tmp_path: Path) -> None:
    hooks = one_group(command(name="one"), command(name="two"))["hooks"]
    settings = {**switch, "hooks": {**hooks, **switch.get("hooks", {})}}
    named = ("--hooks", str(write_file(tmp_path, settings)), "--listen", "127.0.0.1:0", "--admin", "off")
    state = {"HOOKGATE_STATE": str(tmp_path / "state")}
    expected = "no hooks: calls are forwarded unchanged; 2 hooks are switched off; revision "
    assert expected in (await run("config", "check", *named, env=state)).out
    assert expected in (await run("doctor", "--offline", *named, env=state)).out
    async with serving("serve", *named, env=state) as gateway:
        assert expected in gateway.log


async def test_the_list_has_a_column_for_it(file: Path) -> None:
    listed = await run("hooks", "list", "--json", "--hooks", str(file))
    assert {row["name"]: row["fails open"] for row in json.loads(listed.out)} == {
        "open": "always",
        "exits": "on exit codes",
        "closed": "never",
        "alone": "never",
        "all": "never",
        "observed": "never",
        "idle": "never",
    }
    for word in ("list", "show observed"):
        shown = await run("hooks", *word.split(), "--hooks", str(file))
        assert "observes" in shown.out


async def test_readiness_and_the_panel_name_them(file: Path, tmp_path: Path) -> None:
    sources = Sources(hooks=(file,), state=tmp_path / "state")
    here = AdminListener(Metrics())
    here.reloader = policy.load_policy(sources)
    async with listener.serve_admin(here, "127.0.0.1", 0) as url:
        ready = (await ask(url, "GET", "/readyz")).json
    assert (ready["fail_open"], ready["fail_open_on_exit_codes"]) == (["open"], ["exits"])
    rows = (await HookPanel(here.reloader, sources).rows())["hooks"]
    assert [row["fails_open"] for row in rows] == ["never", "always", "on exit codes", *["never"] * 5]
    await here.reloader.close()
