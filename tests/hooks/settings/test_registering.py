"""Functions that a program registers as hooks: the layer `runtime`."""

import ast
import asyncio
import inspect
import textwrap
from pathlib import Path
from typing import Any

import pytest
from support.hooks import functions
from support.hooks.functions import DENIAL, Denier, deny, deny_later
from support.hooks.settings import SESSION, asking, command, one_group, write_file
from support.places import DOCS

from hookgate.hooks import (
    BeforeModel,
    BeforeTool,
    Configuration,
    Engine,
    SessionStart,
    SettingsError,
    load_settings,
    register_hook,
)
from hookgate.hooks.settings import Hook, SettingsSource, load_sources

Json = dict[str, Any]


@pytest.mark.parametrize("function", [deny, deny_later, Denier(), lambda _: DENIAL])
async def test_a_function_is_a_hook_whether_it_waits_or_not(function: Any) -> None:
    engine = Engine(register_hook(Configuration(), "BeforeModel", function))
    outcome = await engine.fire(asking("hi"), SESSION)
    assert (outcome.verdict.denied, outcome.verdict.reason) == (True, "no")
    [hook] = engine.configuration.hooks()
    assert (hook.layer, hook.event, hook.needs_trust) == ("runtime", "BeforeModel", False)


def test_registering_returns_a_new_configuration_with_another_revision() -> None:
    before = Configuration(revision="r")
    after = register_hook(before, "BeforeModel", deny)
    assert (before.hooks(), len(after.hooks())) == ([], 1)
    assert after.revision != before.revision
    assert register_hook(before, "BeforeModel", deny).revision == after.revision


async def test_a_registered_hook_comes_before_all_files_but_policies(tmp_path: Path) -> None:
    layers = {}
    for layer in ("policy", "explicit", "project"):
        path = write_file(tmp_path, one_group(command(name=layer)), f"{layer}/settings.json")
        layers[layer] = SettingsSource(path, layer)  # type: ignore[arg-type]  # one of the layers
    configuration = load_sources(layers.values())
    for name in ("first", "second"):
        configuration = register_hook(configuration, "BeforeModel", deny, name=name)
    names = [hook.name for hook in configuration.hooks()]
    assert names == ["policy", "first", "second", "explicit", "project"]


async def test_a_matcher_and_the_keys_of_a_hook_select_what_it_runs_for() -> None:
    configuration = register_hook(Configuration(), "BeforeTool", deny, matcher="write_.*")
    configuration = register_hook(configuration, "BeforeModel", deny, when={"models": ["gemini-9*"]})
    configuration = register_hook(configuration, "SessionStart", deny, matcher="resume", mode="observe")
    engine = Engine(configuration)
    assert (await engine.fire(BeforeTool("write_file", {}), SESSION)).verdict.denied
    assert not (await engine.fire(BeforeTool("read_file", {}), SESSION)).runs
    assert not (await engine.fire(asking("hi"), SESSION)).runs
    assert (await engine.fire(BeforeModel("gemini-9", {}), SESSION)).verdict.denied
    resumed = await engine.fire(SessionStart("resume"), SESSION)
    assert (len(resumed.runs), resumed.verdict.denied) == (1, False)


@pytest.mark.parametrize(
    "switch", [{"hooks": {"disabled": ["deny"]}}, {"hooksConfig": {"enabled": False}}], ids=str
)
async def test_the_settings_switch_a_registered_hook_off(switch: Json, tmp_path: Path) -> None:
    settings = load_settings([write_file(tmp_path, switch)])
    configuration = register_hook(settings, "BeforeModel", deny)
    assert not (await Engine(configuration).fire(asking("hi"), SESSION)).runs
    assert [hook.name for hook in configuration.off] == ["deny"]


class Waiting:
    """A function that waits until it is cancelled."""

    def __init__(self) -> None:
        self.began, self.cancelled = asyncio.Event(), False

    async def wait(self, _: Json) -> None:
        self.began.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled = True
            raise


async def test_an_async_function_is_cancelled_when_its_time_is_up() -> None:
    waiting = Waiting()
    engine = Engine(register_hook(Configuration(), "BeforeModel", waiting.wait, timeout=20))
    outcome = await engine.fire(asking("hi"), SESSION)
    assert (waiting.cancelled, outcome.verdict.denied) == (True, True)
    assert outcome.runs[0].error == "timed out after 20 ms"


async def test_an_async_function_is_cancelled_with_its_caller() -> None:
    waiting = Waiting()
    engine = Engine(register_hook(Configuration(), "BeforeModel", waiting.wait))
    call = asyncio.create_task(engine.fire(asking("hi"), SESSION))
    await waiting.began.wait()
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert waiting.cancelled


@pytest.mark.parametrize(("on_error", "denied"), [({}, True), ({"on_error": "allow"}, False)])
async def test_a_registered_hook_fails_closed_by_default(on_error: Any, denied: bool) -> None:
    def fail(_: Json) -> None:
        raise ValueError("broken")

    engine = Engine(register_hook(Configuration(), "BeforeModel", fail, **on_error))
    outcome = await engine.fire(asking("hi"), SESSION)
    assert outcome.runs[0].error.startswith("raised ValueError('broken') in ")
    assert outcome.verdict.denied == denied


@pytest.mark.parametrize(
    ("event", "options", "message"),
    [
        ("BeforeTol", {}, "there is no such event; did you mean 'BeforeTool'?"),
        ("BeforeTool", {"timout": 5}, "there is no option 'timout'; did you mean 'timeout'?"),
        ("BeforeTool", {"timeout": 0}, "timeout: "),
        ("BeforeTool", {"matcher": "("}, "matcher: '(' is not a regular expression"),
        ("BeforeTool", {"name": "taken"}, "is registered already; pass another `name`"),
    ],
)
def test_a_mistake_is_reported_by_hook_and_place(event: str, options: Json, message: str) -> None:
    configuration = register_hook(Configuration(), "BeforeTool", deny, name="taken")
    with pytest.raises(SettingsError) as raised:
        register_hook(configuration, event, deny, **options)
    name = options.get("name", "deny")
    assert str(raised.value).startswith(f"the hook {name!r} for {event}")
    assert message in str(raised.value)


async def test_two_functions_of_one_name_are_two_hooks() -> None:
    def named(word: str) -> Any:
        return lambda _: {"decision": "deny", "reason": word}

    configuration = Configuration()
    for word in ("a", "b"):
        configuration = register_hook(configuration, "BeforeTool", named(word), name=word, matcher=".*")
    outcome = await Engine(configuration).fire(BeforeTool("t", {}), SESSION)
    assert outcome.verdict.reason == "a\nb"


def test_a_hook_is_known_by_the_file_that_defines_its_function() -> None:
    [hook] = register_hook(Configuration(), "BeforeModel", deny).hooks()
    assert isinstance(hook, Hook)
    assert (hook.name, hook.source, hook.root) == ("deny", Path(functions.__file__), Path.cwd())
    assert hook.target.endswith(":deny")


async def test_the_documented_program_runs_as_it_is_printed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    section = (DOCS / "hook-kinds.md").read_text().partition("\n### Functions of your program\n")[2]
    lines = section.partition("\n## ")[0].splitlines()
    program = textwrap.dedent("\n".join(line for line in lines if not line or line.startswith("    ")))
    write_file(tmp_path, {}, ".gemini/settings.json")
    monkeypatch.chdir(tmp_path)
    code = compile(program, "hook-kinds.md", "exec", flags=ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    running = eval(code, {"__name__": "program"})  # noqa: S307  # our own page
    assert inspect.isawaitable(running)
    await running
    printed = capsys.readouterr().out
    assert printed == "system files stay as they are {'file_path': '/etc/hosts', 'dry_run': True}\n"
