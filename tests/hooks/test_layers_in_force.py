"""Layers of settings come into force apart from one another, whatever one of them contains."""

import asyncio
import json
import os
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import SESSION, asking, command, one_group, write_file
from support.programs.processes import eventually, is_watched

from hookgate.hooks import Configuration, Engine, SettingsError
from hookgate.hooks.engine_reloader import EngineReloader
from hookgate.hooks.runs import Health
from hookgate.hooks.settings import Hook, Layer, SettingsSource, reading

HOOK = {"type": "command", "command": "true", "name": "h"}
HALF = "\ud800"

TRIGGERS: dict[str, Any] = {
    "no JSON": "{",
    "half a character in a command": one_group({**HOOK, "command": HALF}),
    "half a character in a name": one_group({**HOOK, "name": HALF}),
    "half a character in a description": one_group({**HOOK, "description": HALF}),
    "half a character in a variable": one_group({**HOOK, "env": {"A": HALF}}),
    "half a character in a URL": one_group({"type": "http", "url": f"http://localhost/{HALF}"}),
    "half a character in a function": one_group({"type": "runtime", "action": f"{HALF}:act"}),
    "half a character in options": one_group(
        {"type": "builtin", "builtin": "tools", "options": {"allow": [HALF]}}
    ),
    "half a character in a key": one_group({**HOOK, HALF: 1}),
    "a policy that is no name": one_group({"type": "builtin", "builtin": {}}),
    "a list in place of hooks": {"hooks": []},
    "deep nesting": '{"hooks": ' + "[" * 3000 + "]" * 3000 + "}",
    "deep options": one_group(
        {"type": "builtin", "builtin": "tools", "options": {"a": json.loads("[" * 400 + "]" * 400)}}
    ),
    "a huge number": '{"hooks": {"BeforeModel": [{"hooks": [{"timeout": ' + "9" * 5000 + "}]}]}}",
    "thousands of unknown keys": one_group({**HOOK, **{f"k{number}": 1 for number in range(9000)}}),
    "thousands of unknown events": {"hooks": {f"Before{number}": [] for number in range(4000)}},
    "a file that is too large": json.dumps({"text": "x" * 2_000_000}),
}


def deny(folder: Path, reason: str) -> Path:
    """A policy that denies every call with a reason."""
    hook = command(f"echo '{reason}' >&2; exit 2", name="guard")
    return write_file(folder, one_group(hook), "policy.json")


def refusal(hook: Hook) -> str | None:
    return "is not trusted" if hook.needs_trust else None


def make(configuration: Configuration, health: Health) -> Engine:
    return Engine(configuration, trust_check=refusal, health=health)


def reloader_of(
    folder: Path, layer: Layer = "project", make_engine: Callable[[Configuration, Health], Engine] = make
) -> EngineReloader:
    """A policy, and another layer in the file `other.json`."""
    (folder / "other").mkdir(exist_ok=True)
    sources = [
        SettingsSource(folder / "policy.json", "policy"),
        SettingsSource(folder / "other" / "other.json", layer, folder, required=False),
    ]
    return EngineReloader(lambda: sources, make_engine)


async def reason(reloader: EngineReloader) -> str:
    with reloader.lease() as engine:
        return (await engine.fire(asking("hi"), SESSION)).verdict.reason


@asynccontextmanager
async def watched(reloader: EngineReloader, folder: Path) -> AsyncIterator[None]:
    task = asyncio.create_task(reloader.watch())
    await eventually(lambda: is_watched(folder))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
        await reloader.close()


@pytest.mark.parametrize("text", TRIGGERS.values(), ids=list(TRIGGERS))
async def test_a_policy_comes_into_force_whatever_a_checkout_contains(text: Any, tmp_path: Path) -> None:
    deny(tmp_path, "at the start")
    write_file(tmp_path, text, "other/other.json")
    reloader = reloader_of(tmp_path)
    assert "at the start" in await reason(reloader)
    deny(tmp_path, "at the reload")
    assert await reloader.reload()
    assert "at the reload" in await reason(reloader)
    assert reloader.refusal == ""
    await reloader.close()


def endless(path: Path) -> None:
    path.symlink_to("/proc/self/pagemap")


def vast(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2**40)


def a_pipe_for_its_folder(path: Path) -> None:
    path.parent.rmdir()
    os.mkfifo(path.parent)


def a_pipe(path: Path) -> None:
    os.mkfifo(path)


@pytest.mark.parametrize("make_odd", [endless, vast, a_pipe_for_its_folder, a_pipe], ids=lambda f: f.__name__)
async def test_no_file_of_a_checkout_delays_the_policy(
    make_odd: Callable[[Path], None], tmp_path: Path
) -> None:
    deny(tmp_path, "one")
    reloader = reloader_of(tmp_path)
    make_odd(tmp_path / "other" / "other.json")
    async with asyncio.timeout(5), watched(reloader, tmp_path):
        deny(tmp_path, "two")
        while "two" not in await reason(reloader):  # noqa: ASYNC110  # it is no event
            await asyncio.sleep(0.01)


@pytest.mark.parametrize("layer", ["project", "user", "system", "extensions"])
async def test_a_layer_that_cannot_be_read_stays_as_it_was_and_the_others_come_into_force(
    layer: Layer, tmp_path: Path
) -> None:
    deny(tmp_path, "one")
    write_file(tmp_path, one_group(command("true", name="other")), "other/other.json")
    reloader = reloader_of(tmp_path, layer)
    write_file(tmp_path, "{", "other/other.json")
    deny(tmp_path, "two")
    assert await reloader.reload()
    assert "two" in await reason(reloader)
    assert [hook.name for hook in reloader.current.configuration.hooks()] == ["guard", "other"]
    [found] = reloader.not_in_force
    assert (found.layer, found.file) == (layer, str(tmp_path / "other" / "other.json"))
    assert "is not valid JSON" in found.reason
    write_file(tmp_path, "[", "other/other.json")
    await reloader.reload()
    assert reloader.not_in_force[0].since == found.since
    write_file(tmp_path, {}, "other/other.json")
    assert await reloader.reload()
    assert reloader.not_in_force == ()
    await reloader.close()


async def test_the_files_that_an_operator_names_come_into_force_together(tmp_path: Path) -> None:
    """A hook may be moved from one to another, and must be in one of them at any time."""
    first, second = deny(tmp_path, "one"), write_file(tmp_path, {"hooks": {"enabled": True}}, "second.json")
    sources = [SettingsSource(first, "policy"), SettingsSource(second)]
    reloader = EngineReloader(lambda: sources, make)
    write_file(tmp_path, {"hooks": {"enabled": True}}, "policy.json")
    second.write_text("{")
    assert not await reloader.reload()
    assert "one" in await reason(reloader)
    assert [each.layer for each in reloader.not_in_force] == ["operator"]
    await reloader.close()


@pytest.mark.parametrize(
    "error",
    [
        RecursionError(),
        MemoryError(),
        KeyError("x"),
        UnicodeEncodeError("utf-8", HALF, 0, 1, "x"),
        OSError(24, "x"),
    ],
)
async def test_any_exception_while_a_checkout_is_read_is_contained(
    error: Exception, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parse = reading._parse

    def fail(source: SettingsSource) -> Any:
        if source.layer == "project":
            raise error
        return parse(source)

    monkeypatch.setattr(reading, "_parse", fail)
    deny(tmp_path, "one")
    reloader = reloader_of(tmp_path)
    deny(tmp_path, "two")
    assert await reloader.reload()
    assert "two" in await reason(reloader)
    [found] = reloader.not_in_force
    assert f"{type(error).__name__} while it was read" in found.reason
    await reloader.close()


@pytest.mark.parametrize("error", [RecursionError(), MemoryError(), ValueError("x"), SettingsError("x")])
async def test_any_exception_while_a_checkout_comes_into_force_is_contained(
    error: Exception, tmp_path: Path
) -> None:
    def fail(configuration: Configuration, health: Health) -> Engine:
        if any(hook.layer == "project" for hook in configuration.hooks()):
            raise error
        return make(configuration, health)

    deny(tmp_path, "one")
    write_file(tmp_path, one_group(HOOK), "other/other.json")
    reloader = reloader_of(tmp_path, make_engine=fail)
    deny(tmp_path, "two")
    assert await reloader.reload()
    assert "two" in await reason(reloader)
    assert [(each.layer, each.binds_all) for each in reloader.not_in_force] == [("project", False)]
    await reloader.close()


async def test_a_checkout_that_changes_all_the_time_delays_no_policy(tmp_path: Path) -> None:
    deny(tmp_path, "one")
    file = write_file(tmp_path, one_group(HOOK), "other/other.json")
    reloader, ended = reloader_of(tmp_path), threading.Event()

    def write_again_and_again() -> None:
        number = 0
        while not ended.wait(0.001):
            number += 1
            file.write_text(json.dumps(one_group({**HOOK, "description": str(number)})))

    writer = threading.Thread(target=write_again_and_again)
    async with watched(reloader, tmp_path):
        writer.start()
        try:
            for told in ("two", "three", "four"):
                deny(tmp_path, told)
                await eventually(lambda told=told: told in guard_of(reloader))  # type: ignore[misc]  # as it is
        finally:
            ended.set()
            writer.join()
    assert reloader.reloads["applied"] < 10  # not once for each change of the checkout


def guard_of(reloader: EngineReloader) -> str:
    return next(hook.target for hook in reloader.current.configuration.hooks() if hook.name == "guard")


async def test_scripts_of_an_untrusted_hook_are_not_watched(tmp_path: Path) -> None:
    """They may be of any number and size; if one of them changes, the hook does not run."""
    deny(tmp_path, "one")
    write_file(tmp_path, "#!/bin/sh\n", "other/a.sh").chmod(0o755)
    write_file(tmp_path, one_group(command("other/a.sh")), "other/other.json")
    reloader = reloader_of(tmp_path)
    revision = reloader.current.revision
    write_file(tmp_path, "#!/bin/sh\nexit 2\n", "other/a.sh")
    assert not any(reloader._changes())
    assert not await reloader.reload()
    assert reloader.current.revision == revision
    await reloader.close()
