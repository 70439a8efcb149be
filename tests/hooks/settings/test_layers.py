"""Layers, comments, switches: which hooks run when several files have a say."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.hooks import command, one_group, write_file

from hookgate.hooks import Configuration, SettingsError
from hookgate.hooks.settings import LAYERS, Layer, Place, Subject, load_places, project_places, read_places


def names(configuration: Configuration, event: str = "BeforeModel") -> list[str]:
    return [hook.name for group in configuration.for_event(event) for hook in group.hooks]


def place(folder: Path, layer: Layer, settings: Any) -> Place:
    return Place(write_file(folder, settings, f"{layer}.json"), layer)


def test_layers_run_from_the_policy_down_whatever_order_they_are_named_in(tmp_path: Path) -> None:
    places = [place(tmp_path, layer, one_group(command(layer))) for layer in reversed(LAYERS)]
    assert names(load_places(places)) == list(LAYERS)


OFF: list[Any] = [
    {"hooks": {"disabled": ["guard"]}},
    {"hooksConfig": {"disabled": ["guard"]}},
    {"hooks": {"enabled": False}},
    {"hooksConfig": {"enabled": False}},
    {"tools": {"enableHooks": False}},
]


@pytest.mark.parametrize("off", OFF, ids=json.dumps)
def test_nobody_below_switches_a_policy_off(off: Any, tmp_path: Path) -> None:
    policy = place(tmp_path, "policy", one_group(command("x", name="guard")))
    below = place(tmp_path, "user", {**one_group(command("y", name="guard")), **off})
    also_below = place(tmp_path, "project", one_group(command("z", name="guard")))
    loaded = read_places([also_below, below, policy])
    assert [(hook.layer, hook.name) for hook in loaded.configuration.hooks()] == [("policy", "guard")]
    assert {hook.layer for hook in loaded.off} <= {"project", "user"}


def test_a_lower_copy_of_a_policy_s_hook_does_not_run_beside_it(tmp_path: Path) -> None:
    policy = place(tmp_path, "policy", one_group(command("x", name="n", on_error="deny")))
    copy = place(tmp_path, "project", one_group(command("x", name="n")))
    [hook] = load_places([copy, policy]).hooks()
    assert (hook.layer, hook.on_error) == ("policy", "deny")


def test_of_equal_hooks_the_highest_one_that_matches_runs(tmp_path: Path) -> None:
    high = place(tmp_path, "project", one_group(command("x", name="n"), event="BeforeTool", matcher="glob"))
    low = place(tmp_path, "user", one_group(command("x", name="n"), event="BeforeTool"))
    configuration = load_places([high, low])
    for tool, layer in (("glob", "project"), ("read_file", "user")):
        [group] = configuration.plan("BeforeTool", Subject(tools=(tool,)))
        assert [hook.layer for hook in group.hooks] == [layer]


def test_comments_are_allowed_as_in_gemini_cli(tmp_path: Path) -> None:
    text = """// our hooks
    {"hooks": { /* for models */ "BeforeModel": [ // one group
      {"hooks": [{"type": "command", "command": "echo // no comment /* none */"}]}]}}"""
    [hook] = load_places([Place(write_file(tmp_path, text))]).hooks()
    assert hook.target == "echo // no comment /* none */"


def test_every_problem_of_every_file_is_told_with_its_line(tmp_path: Path) -> None:
    broken = """{
      // two things are wrong here
      "hooks": {
        "BeforeModel": [{"hooks": [
          {"type": "command",
           "timeout": "5", "command": "x"}]}],
        "BeforeTool": [{"matcher": "[", "hooks": []}],
        "Never": []
      }
    }"""
    first, second = write_file(tmp_path, broken, "a.json"), write_file(tmp_path, "{", "b.json")
    with pytest.raises(SettingsError) as caught:
        load_places([Place(first), Place(second), Place(tmp_path / "none.json")])
    told = str(caught.value).splitlines()
    assert [line.removeprefix(f"{tmp_path}/").split(" ")[0] for line in told] == [
        "b.json:1:2:",
        "none.json:",
        "a.json:6:",
        "a.json:7:",
        "a.json:8:",
    ]
    assert r"write '\\['" in told[3] or r"'\\['" in told[3]


def test_a_file_that_may_be_missing_may_be_missing(tmp_path: Path) -> None:
    assert load_places([Place(tmp_path / "none.json", required=False)]) == Configuration()


def test_a_file_s_default_for_failures_holds_for_its_hooks_alone(tmp_path: Path) -> None:
    strict = {
        **one_group(command("a"), command("b", on_error="allow")),
        "hooksConfig": {"on_error": "deny"},
    }
    places = [place(tmp_path, "project", strict), place(tmp_path, "user", one_group(command("c")))]
    assert [hook.on_error for hook in load_places(places).hooks()] == ["deny", "allow", "allow"]


def test_limits_come_from_the_highest_layer_that_sets_them(tmp_path: Path) -> None:
    high, low = {"hooksConfig": {"deadline": 500}}, {"hooksConfig": {"deadline": 9, "concurrency": 3}}
    limits = load_places([place(tmp_path, "user", low), place(tmp_path, "policy", high)]).limits
    assert (limits.deadline, limits.concurrency) == (0.5, 3)


def test_a_project_does_not_say_where_hooks_may_post_to(tmp_path: Path) -> None:
    targets = {"hooksConfig": {"http_targets": ["https://example.com/"]}}
    assert load_places([place(tmp_path, "user", targets)]).http_targets == ("https://example.com/",)
    assert load_places([place(tmp_path, "project", targets)]).http_targets == ()


def test_any_change_of_any_file_is_another_revision(tmp_path: Path) -> None:
    def revision(*settings: Any) -> str:
        return load_places([place(tmp_path, "user", each) for each in settings]).revision

    seen = [revision(), revision({}), revision({"a": 1}), revision({}, {}), revision(one_group(command("x")))]
    assert len(set(seen)) == len(seen)
    assert revision({"a": 1}) == seen[2]


# ---- where Gemini CLI and TerminaI look


def settings_at(path: Path, name: str) -> None:
    write_file(path.parent, one_group(command(name)), path.name)


def test_a_project_brings_its_layers_in_the_documents_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", raising=False)
    project, home, system = tmp_path / "project", tmp_path / "home", tmp_path / "etc"
    project.mkdir()
    settings_at(project / ".gemini/settings.json", "project")
    settings_at(home / ".terminai/settings.json", "terminai user")
    settings_at(home / ".gemini/settings.json", "user")
    settings_at(system / "gemini-cli/settings.json", "system")
    settings_at(system / "terminai/settings.json", "terminai system")
    settings_at(home / ".gemini/extensions/audit/hooks/hooks.json", "extension")
    configuration = load_places(project_places(project, home, system))
    assert names(configuration) == [
        "project", "user", "terminai user", "system", "terminai system", "extension",
    ]  # fmt: skip
    assert {hook.root for hook in configuration.hooks()} == {project}


def test_the_system_s_file_may_be_named_by_gemini_cli_s_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_at(tmp_path / "elsewhere.json", "named")
    monkeypatch.setenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", str(tmp_path / "elsewhere.json"))
    configuration = load_places(project_places(tmp_path / "project", tmp_path / "home", tmp_path / "etc"))
    assert [(hook.name, hook.layer) for hook in configuration.hooks()] == [("named", "system")]


def test_an_extension_s_hooks_know_where_it_is(tmp_path: Path) -> None:
    extension = tmp_path / "home/.gemini/extensions/audit"
    line = "node ${extensionPath}${/}log.js ${workspacePath}"
    write_file(extension, one_group(command(line)), "hooks/hooks.json")
    [hook] = load_places(project_places(tmp_path / "my project", tmp_path / "home", tmp_path)).hooks()
    assert hook.target == f"node {extension}/log.js {tmp_path / 'my project'}"
