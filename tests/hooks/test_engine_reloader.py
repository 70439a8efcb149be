"""Settings that change while calls run: each call uses one valid revision, and no call is lost."""

import asyncio
import json
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import SESSION, asking, command, one_group, runtime, write_file
from support.programs.processes import eventually, is_watched

from hookgate.hooks import Configuration, Engine, SettingsError
from hookgate.hooks.engine_reloader import Changes, EngineReloader
from hookgate.hooks.runs import Health
from hookgate.hooks.settings import SettingsSource

COUNTING = """
import itertools
def act(event): return {{"decision": "deny", "reason": "{reason}"}}
"""


def make(configuration: Configuration, health: Health) -> Engine:
    return Engine(configuration, health=health)


def live(*paths: Path) -> EngineReloader:
    return EngineReloader(lambda: [SettingsSource(path) for path in paths], make)


def denying(folder: Path, reason: str) -> Path:
    """Settings and a script whose denial tells which of their versions is in force."""
    write_file(folder, COUNTING.format(reason=reason), "act.py")
    config = {"type": "runtime", "action": "./act.py:act", "name": "guard", "description": reason}
    return write_file(folder, one_group(config))


@asynccontextmanager
async def watched(engines: EngineReloader, folder: Path) -> AsyncIterator[None]:
    task = asyncio.create_task(engines.watch())
    await eventually(lambda: is_watched(folder))  # else it could find the change at its start
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await engines.close()


async def reason(engines: EngineReloader) -> str:
    with engines.lease() as engine:
        return (await engine.fire(asking("hi"), SESSION)).verdict.reason


async def in_force(engines: EngineReloader, told: str) -> None:
    """Wait for a version of `denying`: files are written one after the other, and each may be read before."""
    async with asyncio.timeout(60):
        while await reason(engines) != told:  # noqa: ASYNC110  # another thread watches the files
            await asyncio.sleep(0.002)


async def test_a_changed_file_is_in_force_without_a_restart(tmp_path: Path) -> None:
    engines = live(denying(tmp_path, "one"))
    async with watched(engines, tmp_path):
        denying(tmp_path, "two")
        await in_force(engines, "two")


async def test_settings_that_were_refused_are_not_read_again_until_they_change(tmp_path: Path) -> None:
    path = denying(tmp_path, "one")
    engines = live(path)
    path.write_text('{"hooks": 5}')
    assert await engines.reload() is False
    assert (engines.reloads["refused"], any(engines._changes())) == (1, False)
    path.write_text('{"hooks": 6}')
    assert any(engines._changes())
    await engines.close()


async def test_a_changed_script_is_another_revision(tmp_path: Path) -> None:
    engines = live(denying(tmp_path, "one"))
    async with watched(engines, tmp_path):
        before = engines.current.revision
        write_file(tmp_path, COUNTING.format(reason="two"), "act.py")
        await in_force(engines, "two")
        assert engines.current.revision != before


RULE = 'package hookgate\ndeny contains "{reason}"\n'


async def test_changed_rules_are_in_force_unless_they_cannot_be_compiled(tmp_path: Path) -> None:
    write_file(tmp_path, RULE.format(reason="one"), "guard.rego")
    config = {"type": "rego", "files": ["guard.rego"], "workers": 2}
    engines = live(write_file(tmp_path, one_group(config)))
    async with watched(engines, tmp_path):
        write_file(tmp_path, RULE.format(reason="two"), "guard.rego")
        await in_force(engines, "two")
        write_file(tmp_path, "package hookgate\ndeny contains", "guard.rego")
        await eventually(lambda: engines.reloads["refused"] > 0)
        assert f"{tmp_path / 'guard.rego'}:2" in engines.refusal
        # Two at once: one of them is judged by a process that starts now.
        assert await asyncio.gather(reason(engines), reason(engines)) == ["two", "two"]
        write_file(tmp_path, RULE.format(reason="three"), "guard.rego")
        await in_force(engines, "three")


async def test_a_file_that_appears_in_a_folder_that_appears_is_in_force(tmp_path: Path) -> None:
    path = tmp_path / "project" / ".gemini" / "settings.json"
    engines = EngineReloader(lambda: [SettingsSource(path, "user", required=False)], make)
    async with watched(engines, tmp_path):
        assert not engines.current.listens_to("BeforeModel")
        write_file(path.parent, one_group(command("true")))
        await eventually(lambda: engines.current.listens_to("BeforeModel"))


INLINE = command(f"python3 -c '{'x = 1; ' * 80}'", name="inline")


async def test_a_command_of_any_length_keeps_no_later_change_out_of_force(tmp_path: Path) -> None:
    engines = live(write_file(tmp_path, one_group(command("true"))))
    async with watched(engines, tmp_path):
        write_file(tmp_path, one_group(INLINE))
        await eventually(lambda: engines.current.configuration.hooks()[0].name == "inline")
        denying(tmp_path, "two")
        await in_force(engines, "two")


@pytest.mark.parametrize(
    "error",
    [OSError(36, "File name too long"), RuntimeError("x"), MemoryError(), OSError(24, "Too many open files")],
)
async def test_whatever_goes_wrong_is_logged_and_later_changes_come_into_force(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr("hookgate.hooks.engine_reloader._RETRY_SECONDS", 0.01)
    path, wrong = denying(tmp_path, "one"), False

    def find() -> list[SettingsSource]:
        if wrong:
            raise error
        return [SettingsSource(path)]

    engines = EngineReloader(find, make)
    before = engines.current.revision
    async with watched(engines, tmp_path):
        wrong = True
        denying(tmp_path, "two")
        await eventually(lambda: f"revision {before} stays in use" in caplog.text)
        assert not await engines.reload()
        assert await reason(engines) == "one"
        assert engines.refusal == (str(error) or type(error).__name__)
        assert engines.reloads["refused"] >= 2
        wrong = False
        await in_force(engines, "two")
        await eventually(lambda: not engines.refusal)


async def test_a_watcher_that_fails_affects_neither_reloads_nor_other_watchers(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engines = live(denying(tmp_path, "one"))
    heard: list[Changes] = []
    engines.watchers += [lambda _: 1 / 0, heard.append]
    async with watched(engines, tmp_path):
        for told in ("two", "three"):
            denying(tmp_path, told)
            await in_force(engines, told)
    assert (len(heard), engines.reloads["refused"], engines.refusal) == (2, 0, "")
    assert "a change of the settings could not be reported" in caplog.text
    assert "stays in use" not in caplog.text


async def test_a_file_that_a_hook_writes_is_no_change(tmp_path: Path) -> None:
    engines = live(write_file(tmp_path, one_group(command("echo called >> calls.jsonl"))))
    (tmp_path / "calls.jsonl").touch()
    await engines.reload()
    with engines.lease() as engine:
        await engine.fire(asking("hi"), SESSION)
    assert not any(engines._changes())
    assert not await engines.reload()
    await engines.close()


@pytest.mark.parametrize("broken", ["{", '{"hooks": {"Never": []}}', None], ids=["json", "event", "gone"])
async def test_settings_that_cannot_be_used_leave_the_last_good_ones_in_force(
    broken: str | None, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    path = denying(tmp_path, "good")
    engines = live(path)
    revision = engines.current.revision
    path.unlink() if broken is None else path.write_text(broken)
    assert not await engines.reload()
    assert engines.current.revision == revision
    assert await reason(engines) == "good"
    assert (
        f"the operator settings cannot be used, so what was read from them before stays in use: {path}"
        in (caplog.text)
    )
    await engines.close()


def test_settings_that_cannot_be_used_at_the_start_are_an_error(tmp_path: Path) -> None:
    with pytest.raises(SettingsError):
        live(write_file(tmp_path, "{"))


async def test_a_reload_that_changes_nothing_changes_nothing(tmp_path: Path) -> None:
    engines = live(denying(tmp_path, "same"))
    engine = engines.current
    assert not await engines.reload()
    assert engines.current is engine
    await engines.close()


async def test_the_engine_of_a_reload_that_changes_nothing_is_closed(tmp_path: Path) -> None:
    path, made = denying(tmp_path, "same"), []

    def make(configuration: Configuration, _: Health) -> Engine:
        made.append(Closing(configuration))
        return made[-1]

    engines = EngineReloader(lambda: [SettingsSource(path)], make)
    await engines.reload()
    assert [engine.closed for engine in made] == [False, True]
    await engines.close()


async def test_a_call_keeps_its_revision_to_its_end(tmp_path: Path) -> None:
    engines = live(denying(tmp_path, "one"))
    with engines.lease() as engine:
        denying(tmp_path, "two")
        assert await engines.reload()
        assert (await engine.fire(asking("hi"), SESSION)).verdict.reason == "one"
        assert await reason(engines) == "two"
    await engines.close()


class Closing(Engine):
    closed = False

    async def close(self) -> None:
        assert not self.closed
        self.closed = True


async def test_an_engine_is_closed_when_its_last_call_is_over_and_not_before(tmp_path: Path) -> None:
    path = denying(tmp_path, "one")
    engines = EngineReloader(lambda: [SettingsSource(path)], lambda configuration, _: Closing(configuration))
    first: Any = engines.current
    with engines.lease():
        with engines.lease():
            denying(tmp_path, "two")
            await engines.reload()
        await asyncio.sleep(0)
        assert not first.closed
    await asyncio.sleep(0)
    assert first.closed
    current: Any = engines.current
    assert not current.closed
    await engines.close()
    assert current.closed


async def test_an_engine_without_calls_is_closed_at_the_reload(tmp_path: Path) -> None:
    path = denying(tmp_path, "one")
    engines = EngineReloader(lambda: [SettingsSource(path)], lambda configuration, _: Closing(configuration))
    first: Any = engines.current
    denying(tmp_path, "two")
    await engines.reload()
    await asyncio.sleep(0)
    assert first.closed
    await engines.close()


async def test_a_reload_forgets_the_record_of_hooks_that_are_gone_and_keeps_the_others(
    tmp_path: Path,
) -> None:
    stays, goes = command("true", name="stays"), command("true", name="goes")
    engines = live(write_file(tmp_path, one_group(stays, goes)))
    with engines.lease() as engine:
        await engine.fire(asking("hi"), SESSION)
    write_file(tmp_path, one_group(stays))
    await engines.reload()
    assert {name: status.runs for (_, name, _), status in engines.health.hooks.items()} == {"stays": 1}
    await engines.close()


async def test_a_hook_that_is_switched_off_keeps_its_record_and_degrades_nothing(tmp_path: Path) -> None:
    hook = command("exit 1", name="fails")
    engines = live(write_file(tmp_path, one_group(hook)))
    with engines.lease() as engine:
        await engine.fire(asking("hi"), SESSION)
        assert engines.health.degraded == ["fails"]
        write_file(tmp_path, {**one_group(hook), "hooksConfig": {"disabled": ["fails"]}})
        await engines.reload()
        await engine.fire(asking("hi"), SESSION)  # a call that began before
    [off] = engines.current.configuration.off
    assert engines.health.degraded == []
    assert engines.health.status_for(off).runs == 2
    write_file(tmp_path, one_group(hook))
    await engines.reload()
    assert engines.health.degraded == ["fails"]
    await engines.close()


async def test_a_reload_that_leaves_no_hooks_is_a_warning(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    engines = live(denying(tmp_path, "one"))
    for settings in ({"hooks": {}}, one_group(FIRST)):
        write_file(tmp_path, settings)
        with caplog.at_level(logging.INFO, "hookgate.hooks"):
            await engines.reload()
    removed, added = (record for record in caplog.records if "settings reloaded" in record.message)
    assert removed.message.endswith(
        "removed: BeforeModel guard; no hooks are left: calls are forwarded unchanged"
    )
    assert (removed.levelname, added.levelname) == ("WARNING", "INFO")
    await engines.close()


FIRST, SECOND = command("true", name="first"), command("true", name="second")
OFF = {"hooksConfig": {"disabled": ["second"]}}


@pytest.mark.parametrize(
    ("before", "after", "expected"),
    [
        pytest.param(
            one_group(FIRST), one_group(FIRST, SECOND), {"added": ("BeforeModel second",)}, id="added"
        ),
        pytest.param(
            one_group(FIRST, SECOND), one_group(FIRST), {"removed": ("BeforeModel second",)}, id="removed"
        ),
        pytest.param(
            one_group(FIRST, SECOND),
            {**one_group(FIRST, SECOND), **OFF},
            {"switched_off": ("BeforeModel second",)},
            id="off",
        ),
        pytest.param(
            {**one_group(FIRST, SECOND), **OFF},
            one_group(FIRST, SECOND),
            {"switched_on": ("BeforeModel second",)},
            id="on",
        ),
        pytest.param(
            one_group(FIRST, SECOND),
            one_group(FIRST, {**SECOND, "mode": "observe"}),
            {"changed": ("BeforeModel second",)},
            id="changed",
        ),
        pytest.param(one_group(FIRST), {**one_group(FIRST), **OFF}, {}, id="none"),
    ],
)
async def test_a_reload_tells_what_became_of_which_hooks(
    before: Any, after: Any, expected: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO, "hookgate.hooks")
    engines = live(write_file(tmp_path, before))
    revision = engines.current.revision
    heard: list[Changes] = []
    engines.watchers.append(heard.append)
    write_file(tmp_path, after)
    await engines.reload()
    assert heard == [Changes(revision, engines.current.revision, **expected)]
    assert f"previously {revision}; {heard[0] if expected else 'no hook changed'}" in caplog.text
    await engines.close()


async def test_each_reload_tells_of_its_own_changes_only(tmp_path: Path) -> None:
    engines = live(write_file(tmp_path, one_group(FIRST)))
    heard: list[Changes] = []
    engines.watchers.append(heard.append)
    for after in (one_group(FIRST, SECOND), one_group(SECOND)):
        write_file(tmp_path, after)
        await engines.reload()
    assert [str(each) for each in heard] == ["added: BeforeModel second", "removed: BeforeModel first"]
    await engines.close()


async def test_a_script_that_changed_is_reported_by_its_hook(tmp_path: Path) -> None:
    engines = live(denying(tmp_path, "one"))
    heard: list[Changes] = []
    engines.watchers.append(heard.append)
    write_file(tmp_path, COUNTING.format(reason="two"), "act.py")
    await engines.reload()
    assert [str(each) for each in heard] == ["changed: BeforeModel guard"]
    await engines.close()


async def test_through_hundreds_of_reloads_under_load_every_call_names_one_good_revision(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.CRITICAL, "hookgate.hooks")
    path = tmp_path / "settings.json"
    action = runtime(lambda _: {"reason": "named"}).config.model_dump()["action"]

    def settings(number: int) -> str:
        hook = {"type": "runtime", "action": action, "name": "h", "description": str(number)}
        return json.dumps(one_group(hook))

    path.write_text(settings(0))
    engines, stop = live(path), asyncio.Event()
    good, named = {engines.current.revision}, 0

    async def load() -> None:
        nonlocal named
        while not stop.is_set():
            with engines.lease() as engine:
                for _ in range(2):
                    outcome = await engine.fire(asking("hi"), SESSION)
                    assert outcome.verdict.reason == "named"
                    await asyncio.sleep(0)
                assert engine.revision in good
            named += 1

    callers = [asyncio.create_task(load()) for _ in range(4)]
    for number in range(1, 201):  # calls run in between at every step of each reload
        path.write_text("{" if number % 10 == 0 else settings(number))
        reloading = asyncio.create_task(engines.reload())
        while not reloading.done():
            await asyncio.sleep(0)
            good.add(engines.current.revision)
        assert reloading.result() == (number % 10 != 0)
    stop.set()
    await asyncio.gather(*callers)
    await engines.close()
    assert named > 200
    assert len(good) == 181


def redacting(folder: Path, word: str) -> Path:
    """Settings with a file of rules that find a word."""
    write_file(folder, f"[[rules]]\nid = 'own-word'\nregex = '{word}[0-9]{{6}}'\n", "rules.toml")
    config = {
        "type": "builtin",
        "builtin": "redact",
        "options": {"detect": ["rules"], "rules": ["./rules.toml"]},
    }
    return write_file(folder, one_group({**config, "name": "redact"}))


async def redacts(engines: EngineReloader, text: str) -> bool:
    with engines.lease() as engine:
        result = await engine.fire(asking(text), SESSION)
    return "[OWN_WORD]" in str(result)


async def test_a_file_of_rules_that_changes_is_in_force_without_a_restart(tmp_path: Path) -> None:
    engines = live(redacting(tmp_path, "abc"))
    assert await redacts(engines, "so abc123456 ok")
    async with watched(engines, tmp_path):
        redacting(tmp_path, "xyz")
        async with asyncio.timeout(60):
            while not await redacts(engines, "so xyz123456 ok"):  # noqa: ASYNC110  # as in `in_force`
                await asyncio.sleep(0.002)
    assert not await redacts(engines, "so abc123456 ok")


async def test_a_file_of_rules_that_cannot_be_read_leaves_the_earlier_one_in_force(tmp_path: Path) -> None:
    engines = live(redacting(tmp_path, "abc"))
    (tmp_path / "rules.toml").write_text("[[rules]")
    assert await engines.reload() is False
    assert "rules.toml: is not valid TOML" in engines.refusal
    assert await redacts(engines, "so abc123456 ok")
    await engines.close()
