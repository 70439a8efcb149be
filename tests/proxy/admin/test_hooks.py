"""The panel lists and switches hooks of a project and of its user."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from support.hooks.settings import SESSION, asking, command, one_group, write_file

from hookgate.hooks.layers_in_force import NotInForce
from hookgate.hooks.settings import SettingsSource
from hookgate.proxy import policy
from hookgate.proxy.admin.policy import HookPanel
from hookgate.proxy.config.reading import Sources
from hookgate.proxy.errors import ApiError

DENY = command("echo 'not here' >&2; exit 2", name="deny")
ALLOW = command("true", name="allow")


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project with two hooks, and an empty home."""
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", str(tmp_path / "none.json"))
    folder = tmp_path / "project"
    folder.mkdir()
    write_file(folder, one_group(DENY, ALLOW, event="BeforeModel"), ".gemini/settings.json")
    return folder


@asynccontextmanager
async def paneled(project: Path, *, trusted: bool = True) -> AsyncIterator[HookPanel]:
    sources = Sources(project=project, state=project.parent / "state", trust_project=trusted)
    live = policy.load_policy(sources)
    yield HookPanel(live, sources)
    await live.close()


async def states(panel: HookPanel) -> dict[str, str]:
    return {row["name"]: row["state"] for row in (await panel.rows())["hooks"]}


async def test_a_project_s_hook_is_switched_in_the_user_s_settings(project: Path) -> None:
    user = project.parent / "home" / ".gemini" / "settings.json"
    async with paneled(project) as panel:
        reported = await panel.switch("deny", on=False)
        assert str(user) in reported["messages"][0]
        assert json.loads(user.read_text()) == {"hooksConfig": {"disabled": ["deny"]}}
        assert await states(panel) == {"deny": "off", "allow": "on"}
        await panel.switch("deny", on=True)
        assert await states(panel) == {"deny": "on", "allow": "on"}


async def test_a_hook_that_is_switched_off_keeps_its_place_and_its_record(project: Path) -> None:
    async with paneled(project) as panel:
        with panel.reloader.lease() as engine:
            await engine.fire(asking("hi"), SESSION)
        await panel.switch("deny", on=False)
        first, _ = (await panel.rows())["hooks"]
    assert (first["name"], first["state"]) == ("deny", "off")
    assert (first["count"], first["denials"], first["last_status"]) == (1, 1, "ok")


async def test_an_untrusted_hook_is_reported(project: Path) -> None:
    async with paneled(project, trusted=False) as panel:
        [row, _] = (await panel.rows())["hooks"]
        assert row["state"] == "untrusted"
        assert "hookgate hooks trust" in row["refusal"]


async def test_switches_at_the_same_time_are_all_kept(project: Path) -> None:
    async with paneled(project) as panel:
        await asyncio.gather(panel.switch("deny", on=False), panel.switch("allow", on=False))
        assert await states(panel) == {"deny": "off", "allow": "off"}


async def test_settings_that_cannot_be_changed_are_reported(project: Path) -> None:
    async with paneled(project) as panel:
        (project.parent / "home" / ".gemini" / "settings.json").mkdir(parents=True)
        with pytest.raises(ApiError, match="is not a regular file; remove it"):
            await panel.switch("deny", on=False)
        assert await states(panel) == {"deny": "on", "allow": "on"}


async def test_a_switch_that_is_not_in_force_is_not_reported_as_done(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> list[SettingsSource]:
        raise KeyError("unexpected")

    async with paneled(project) as panel:
        monkeypatch.setattr(panel.reloader, "_find_sources", fail)
        with pytest.raises(ApiError, match=r"not in force: 'unexpected' \(since 2") as failed:
            await panel.switch("deny", on=False)
        assert failed.value.code == 409
        assert await states(panel) == {"deny": "on", "allow": "on"}


async def test_a_switch_is_done_only_when_all_workers_confirm_it(project: Path) -> None:
    unconfirmed = NotInForce("all", "", "2026-01-01T00:00:00Z", "worker 2 has not confirmed the change")
    async with paneled(project) as panel:
        sources, reloader = panel.sources, panel.reloader

        async def reload() -> list[NotInForce]:
            await reloader.reload()
            return [unconfirmed]

        with pytest.raises(ApiError, match="worker 2 has not confirmed"):
            await HookPanel(reloader, sources, reload).switch("deny", on=False)


async def test_a_hook_that_still_runs_is_reported(project: Path) -> None:
    async def keep() -> list[NotInForce]:
        return []

    async with paneled(project) as panel:
        kept = HookPanel(panel.reloader, panel.sources, keep)
        warning = "'deny' still runs: see the gateway's log for the reason."
        assert (await kept.switch("deny", on=False))["messages"][1:] == [warning]
        assert len((await kept.switch("deny", on=True))["messages"]) == 1
        assert len((await panel.switch("deny", on=False))["messages"]) == 1


async def test_a_broken_checkout_prevents_no_switch(project: Path) -> None:
    write_file(project.parent / "home", one_group(DENY, event="BeforeModel"), ".gemini/settings.json")
    write_file(project, '{"hooks": "\\ud800"', ".gemini/settings.json")
    async with paneled(project, trusted=False) as panel:
        assert (await panel.switch("deny", on=False))["messages"][0].startswith("'deny' is off: ")
        assert await states(panel) == {"deny": "off"}
        assert [layer.layer for layer in panel.reloader.not_in_force] == ["project"]


async def test_a_hook_of_two_layers_is_reported_to_be_one_s(project: Path) -> None:
    write_file(project.parent / "home", one_group(DENY, event="BeforeModel"), ".gemini/settings.json")
    async with paneled(project) as panel:
        rows = [
            (row["layer"], row["state"]) for row in (await panel.rows())["hooks"] if row["name"] == "deny"
        ]
    assert rows == [("project", "on"), ("user", "shadowed")]


async def test_looking_again_warns_of_nothing_again(project: Path, caplog: pytest.LogCaptureFixture) -> None:
    write_file(project, one_group({**DENY, "onError": "deny"}, event="BeforeModel"), ".gemini/settings.json")
    async with paneled(project) as panel:
        await panel.rows()
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            await panel.rows()
        assert caplog.text == ""
