"""Layers, comments and switches: which hooks run if several files configure them."""

import json
import os
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from support.hooks.settings import command, one_group, write_file

from hookgate.hooks import Configuration, SettingsError
from hookgate.hooks.settings import (
    LAYERS,
    EngineLimits,
    Hook,
    Layer,
    NumberedText,
    SettingsSource,
    Subject,
    load_sources,
    project_sources,
    read_sources,
)


def names(configuration: Configuration, event: str = "BeforeModel") -> list[str]:
    return [hook.name for group in configuration.for_event(event) for hook in group.hooks]


def place(folder: Path, layer: Layer, settings: Any, *, trusted: bool = False) -> SettingsSource:
    return SettingsSource(write_file(folder, settings, f"{layer}.json"), layer, trusted=trusted)


def layers_of(configuration: Configuration, tool: str, event: str = "BeforeTool") -> list[Layer]:
    """Whose hooks run for a tool."""
    groups = configuration.matching_groups(event, Subject(tools=(tool,)))
    return [hook.layer for group in groups for hook in group.hooks]


def test_layers_run_from_the_policy_down_whatever_order_they_are_named_in(tmp_path: Path) -> None:
    places = [place(tmp_path, layer, one_group(command(layer))) for layer in reversed(LAYERS)]
    assert names(load_sources(places)) == list(LAYERS)


def test_hooks_that_differ_in_when_alone_are_two(tmp_path: Path) -> None:
    flash, pro = (one_group(command("x", name="n", when={"models": f"*-{it}"})) for it in ("flash", "pro"))
    configuration = load_sources([place(tmp_path, "user", flash), place(tmp_path, "system", pro)])
    assert [hook.layer for hook in configuration.hooks()] == ["user", "system"]


BLOCKS = {"type": "builtin", "builtin": "tools", "options": {"deny": [{"tools": "write_*"}]}}
ALLOWS = {"type": "builtin", "builtin": "tools", "options": {"deny": [{"tools": "run_*"}]}}


@pytest.mark.parametrize("layers", [("policy", "policy"), ("policy", "explicit"), ("explicit", "explicit")])
def test_policies_with_other_options_all_run(layers: tuple[Layer, Layer], tmp_path: Path) -> None:
    high = place(tmp_path / "high", layers[0], one_group(BLOCKS, event="BeforeTool"))
    low = place(tmp_path / "low", layers[1], one_group(ALLOWS, event="BeforeTool"))
    assert layers_of(load_sources([high, low]), "read_file") == list(layers)
    assert layers_of(
        load_sources([place(tmp_path, "policy", one_group(BLOCKS, ALLOWS, event="BeforeTool"))]), "x"
    ) == [
        "policy",
        "policy",
    ]


def test_a_policy_with_the_same_options_runs_once(tmp_path: Path) -> None:
    configuration = load_sources([place(tmp_path, "policy", one_group(BLOCKS, BLOCKS, event="BeforeTool"))])
    assert layers_of(configuration, "read_file") == ["policy"]


def test_a_hook_that_another_one_with_other_settings_replaces_is_a_warning(tmp_path: Path) -> None:
    observing = place(tmp_path, "policy", one_group(command("true", name="n", mode="observe")))
    same, other = command("true", name="n"), command("false", name="n")
    enforced = place(tmp_path, "explicit", one_group(same, other, event="BeforeModel"))
    [warning] = read_sources([observing, enforced]).warnings
    assert str(warning).startswith(f"{enforced.path}:1: hooks.BeforeModel: the hook 'n' is not used")
    assert f"because {observing.path}:1 has another one with this name" in str(warning)
    assert read_sources([enforced, enforced]).warnings == ()


OFF: list[Any] = [
    {"hooks": {"disabled": ["guard"]}},
    {"hooksConfig": {"disabled": ["guard"]}},
    {"hooks": {"enabled": False}},
    {"hooksConfig": {"enabled": False}},
    {"tools": {"enableHooks": False}},
]


@pytest.mark.parametrize("off", OFF, ids=json.dumps)
def test_no_lower_layer_switches_a_policy_off(off: Any, tmp_path: Path) -> None:
    policy = place(tmp_path, "policy", one_group(command("x", name="guard")))
    below = place(tmp_path, "user", {**one_group(command("y", name="guard")), **off})
    also_below = place(tmp_path, "project", one_group(command("z", name="guard")))
    loaded = read_sources([also_below, below, policy])
    assert [(hook.layer, hook.name) for hook in loaded.configuration.hooks()] == [("policy", "guard")]
    assert {hook.layer for hook in loaded.off} <= {"project", "user"}


def test_a_lower_copy_of_a_policy_s_hook_does_not_run_beside_it(tmp_path: Path) -> None:
    policy = place(tmp_path, "policy", one_group(command("x", name="n", on_error="deny")))
    copy = place(tmp_path, "project", one_group(command("x", name="n")))
    [hook] = load_sources([copy, policy]).hooks()
    assert (hook.layer, hook.on_error) == ("policy", "deny")


@pytest.mark.parametrize("trusted", [True, False])
def test_the_highest_of_equal_overlapping_hooks_runs_unless_it_waits_for_trust(
    trusted: bool, tmp_path: Path
) -> None:
    hooks = one_group(command("x", name="n"), event="BeforeTool", matcher="glob")
    high = place(tmp_path, "project", hooks, trusted=trusted)
    low = place(tmp_path, "user", one_group(command("x", name="n"), event="BeforeTool"))
    configuration = load_sources([high, low])
    assert layers_of(configuration, "glob") == ["project" if trusted else "user"]
    assert layers_of(configuration, "read_file") == ["user"]


# ---- a checkout, and an extension, speak for their own hooks alone

GUARD = command("./guard.sh", name="guard")
OTHER = command("other", name="other")


def user_and(folder: Path, layer: Layer, settings: Any, *, trusted: bool = False) -> list[Hook]:
    """The hooks that run when the user has a guard, and another layer these settings."""
    own = place(folder, "user", one_group(GUARD))
    return load_sources([own, place(folder, layer, settings, trusted=trusted)]).hooks()


@pytest.mark.parametrize(
    "change",
    [{}, {"when": {"models": "never"}}, {"mode": "observe"}, {"timeout": 1}, {"on_error": "allow"}],
    ids=json.dumps,
)
def test_a_checkout_does_not_take_the_place_of_the_user_s_hook(change: Any, tmp_path: Path) -> None:
    hooks = user_and(tmp_path, "project", one_group({**GUARD, **change}))
    assert "user" in [hook.layer for hook in hooks if hook.name == "guard"]
    assert [hook.layer for hook in user_and(tmp_path, "project", one_group(GUARD))] == ["user"]


@pytest.mark.parametrize("off", OFF, ids=json.dumps)
@pytest.mark.parametrize("layer", ["project", "extensions"])
def test_neither_a_checkout_nor_an_extension_switches_the_user_s_hooks_off(
    layer: Layer, off: Any, tmp_path: Path
) -> None:
    own = {"hooks": {**one_group(GUARD, OTHER)["hooks"], **off.get("hooks", {})}}
    hooks = user_and(tmp_path, layer, {**off, **own})
    assert [hook.layer for hook in hooks if hook.name == "guard"] == ["user"]
    all_off = "disabled" not in json.dumps(off)
    assert ("other" in [hook.name for hook in hooks]) is not all_off  # it does so to its own


@pytest.mark.parametrize("off", OFF, ids=json.dumps)
def test_a_project_that_is_trusted_as_a_whole_does(off: Any, tmp_path: Path) -> None:
    assert "guard" not in [hook.name for hook in user_and(tmp_path, "project", off, trusted=True)]


@pytest.mark.parametrize("layer", ["project", "extensions"])
def test_neither_a_checkout_nor_an_extension_sets_what_all_hooks_share(
    layer: Layer, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    settings = {"hooksConfig": {"deadline": 1, "concurrency": 1, "on_error": "deny"}, **one_group(OTHER)}
    configuration = load_sources(
        [place(tmp_path, "user", one_group(GUARD)), place(tmp_path, layer, settings)]
    )
    assert configuration.limits == EngineLimits()
    whose = "an extension affects" if layer == "extensions" else "a project that is not trusted as a whole"
    ignored = "deadline, concurrency and programs are ignored"
    assert f"{layer}.json:1: hooksConfig: {ignored}: {whose}" in caplog.text
    assert {hook.name: hook.on_error for hook in configuration.hooks()}["guard"] == "allow"


@pytest.mark.parametrize(
    "broken",
    ["{", '{"hooks": {"Never": []}}', '{"hooks": {"BeforeModel": [{"hooks": [{"type": "command"}]}]}}'],
)
def test_a_broken_checkout_does_not_keep_the_user_s_settings_out_of_force(
    broken: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    own = place(tmp_path, "user", one_group(GUARD))
    project = SettingsSource(write_file(tmp_path, broken, "project.json"), "project")
    assert [hook.name for hook in load_sources([project, own]).hooks()] == ["guard"]
    assert "project.json" in caplog.text


def test_a_broken_project_that_is_trusted_as_a_whole_ends_the_start(tmp_path: Path) -> None:
    project = SettingsSource(write_file(tmp_path, "{", "project.json"), "project", trusted=True)
    with pytest.raises(SettingsError, match=r"project\.json"):
        load_sources([project, place(tmp_path, "user", one_group(GUARD))])


@pytest.mark.parametrize("kind", ["pipe", "device", "huge", "loop", "folder"])
def test_a_special_file_in_place_of_a_checkout_s_settings_does_not_block(kind: str, tmp_path: Path) -> None:
    path = tmp_path / "project.json"
    match kind:
        case "pipe":
            os.mkfifo(path)
        case "device":
            path.symlink_to("/dev/zero")
        case "huge":
            path.touch()
            os.truncate(path, 2**40)
        case "loop":
            path.symlink_to(path)
        case _:
            path.mkdir()
    found = SettingsSource(path, "project", required=False)
    own = place(tmp_path, "user", one_group(GUARD))
    assert [hook.name for hook in load_sources([found, own]).hooks()] == ["guard"]


@pytest.mark.parametrize("link", [".gemini", ".gemini/settings.json"])
def test_a_checkout_cannot_have_its_reader_quote_other_files(
    link: str, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    write_file(tmp_path, "AIza" + "x" * 35, "private/settings.json")
    project = tmp_path / "project"
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(tmp_path / "private" / ("settings.json" if "json" in link else ""))
    load_sources(project_sources(project, tmp_path / "home", tmp_path / "etc"))
    assert "is reached by a link" in caplog.text
    assert "AIza" not in caplog.text


def test_a_project_may_be_reached_by_a_link(tmp_path: Path) -> None:
    settings_at(tmp_path / "project/.gemini/settings.json", "ours")
    (tmp_path / "link").symlink_to(tmp_path / "project")
    configuration = load_sources(project_sources(tmp_path / "link", tmp_path / "home", tmp_path / "etc"))
    assert [hook.name for hook in configuration.declared] == ["ours"]


def test_a_project_at_home_is_its_user_s(tmp_path: Path) -> None:
    settings_at(tmp_path / ".gemini/settings.json", "mine")
    configuration = load_sources(project_sources(tmp_path, tmp_path, tmp_path / "etc"))
    [hook] = configuration.hooks()
    assert (hook.layer, hook.needs_trust) == ("user", False)
    assert configuration.off == ()  # there is no copy of it in another layer


def test_a_project_at_home_may_be_named_by_a_link(tmp_path: Path) -> None:
    settings_at(tmp_path / "home/.gemini/settings.json", "mine")
    (tmp_path / "link").symlink_to(tmp_path / "home")
    configuration = load_sources(project_sources(tmp_path / "link", tmp_path / "home", tmp_path / "etc"))
    assert [(hook.layer, hook.needs_trust) for hook in configuration.declared] == [("user", False)]


def test_comments_are_allowed_as_in_gemini_cli(tmp_path: Path) -> None:
    text = """// our hooks
    {"hooks": { /* for models */ "BeforeModel": [ // one group
      {"hooks": [{"type": "command", "command": "echo // no comment /* none */"}]}]}}"""
    [hook] = load_sources([SettingsSource(write_file(tmp_path, text))]).hooks()
    assert hook.target == "echo // no comment /* none */"


def test_every_problem_of_every_file_is_reported_with_its_line(tmp_path: Path) -> None:
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
        load_sources([SettingsSource(first), SettingsSource(second), SettingsSource(tmp_path / "none.json")])
    message = str(caught.value).splitlines()
    assert [line.removeprefix(f"{tmp_path}/").split(" ")[0] for line in message] == [
        "a.json:6:",
        "a.json:7:",
        "a.json:8:",
        "b.json:1:2:",
        "none.json:",
    ]
    assert r"'\\['" in message[1]


def test_a_file_that_is_named_may_be_a_pipe(tmp_path: Path) -> None:
    """As from `<(…)` in a shell."""
    path = tmp_path / "settings.json"
    os.mkfifo(path)
    writer = Thread(target=path.write_text, args=(json.dumps(one_group(GUARD)),))
    writer.start()
    assert [hook.name for hook in load_sources([SettingsSource(path)]).hooks()] == ["guard"]
    writer.join()


def test_a_file_that_may_be_missing_may_be_missing(tmp_path: Path) -> None:
    assert load_sources([SettingsSource(tmp_path / "none.json", required=False)]) == Configuration()


def test_a_file_s_default_for_failures_applies_to_its_hooks_only(tmp_path: Path) -> None:
    strict = {
        **one_group(command("a"), command("b", on_error="allow")),
        "hooksConfig": {"on_error": "deny"},
    }
    places = [place(tmp_path, "project", strict), place(tmp_path, "user", one_group(command("c")))]
    assert [hook.on_error for hook in load_sources(places).hooks()] == ["deny", "allow", "allow"]


def test_limits_come_from_the_highest_layer_that_sets_them(tmp_path: Path) -> None:
    high, low = (
        {"hooksConfig": {"deadline": 500}},
        {"hooksConfig": {"deadline": 9, "concurrency": 3, "programs": 2}},
    )
    limits = load_sources([place(tmp_path, "user", low), place(tmp_path, "policy", high)]).limits
    assert (limits.deadline, limits.concurrency, limits.programs) == (0.5, 3, 2)


def test_neither_a_project_nor_an_extension_says_where_hooks_may_post_to(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    targets = {"hooksConfig": {"http_targets": ["https://example.com/"]}}
    assert load_sources([place(tmp_path, "user", targets)]).http_targets == ("https://example.com/",)
    assert not caplog.messages
    assert load_sources([place(tmp_path, "project", targets)]).http_targets == ()
    assert load_sources([place(tmp_path, "extensions", targets)]).http_targets == ()
    assert ["http_targets: ignored in a project or ext" in told for told in caplog.messages] == [True, True]


def test_any_change_of_any_file_is_another_revision(tmp_path: Path) -> None:
    def revision(*settings: Any) -> str:
        return load_sources([place(tmp_path, "user", each) for each in settings]).revision

    seen = [revision(), revision({}), revision({"a": 1}), revision({}, {}), revision(one_group(command("x")))]
    assert len(set(seen)) == len(seen)
    assert revision({"a": 1}) == seen[2]


def test_settings_that_are_in_no_file_are_known_by_their_number(tmp_path: Path) -> None:
    user = place(tmp_path, "user", one_group(command("a")))
    pushed = NumberedText(7, json.dumps(one_group(command("b"))))
    configuration = load_sources([user, SettingsSource(tmp_path / "pushed", "policy", revision=pushed)])
    assert (names(configuration), configuration.pushed) == (["b", "a"], pushed)
    assert load_sources([user]).pushed is None


def test_the_same_file_in_another_layer_is_another_revision(tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command("x")))
    assert len({load_sources([SettingsSource(path, layer)]).revision for layer in LAYERS}) == len(LAYERS)


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
    configuration = load_sources(project_sources(project, home, system))
    assert names(configuration) == [
        "project", "user", "terminai user", "system", "terminai system", "extension",
    ]  # fmt: skip
    assert {hook.root for hook in configuration.hooks()} == {project}


def test_the_system_s_file_may_be_named_by_gemini_cli_s_variable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings_at(tmp_path / "elsewhere.json", "named")
    monkeypatch.setenv("GEMINI_CLI_SYSTEM_SETTINGS_PATH", str(tmp_path / "elsewhere.json"))
    configuration = load_sources(project_sources(tmp_path / "project", tmp_path / "home", tmp_path / "etc"))
    assert [(hook.name, hook.layer) for hook in configuration.hooks()] == [("named", "system")]


def test_an_extension_s_hooks_know_where_it_is(tmp_path: Path) -> None:
    extension = tmp_path / "home/.gemini/extensions/audit"
    line = "node ${extensionPath}${/}log.js ${workspacePath}"
    write_file(extension, one_group(command(line)), "hooks/hooks.json")
    [hook] = load_sources(project_sources(tmp_path / "my project", tmp_path / "home", tmp_path)).hooks()
    assert hook.target == f"node {extension}/log.js {tmp_path / 'my project'}"


def test_an_extension_may_be_in_a_folder_of_any_name(tmp_path: Path) -> None:
    extension = tmp_path / 'home/.gemini/extensions/a "new\\ one"'
    write_file(extension, one_group(command("node '${extensionPath}/log.js'")), "hooks/hooks.json")
    [hook] = load_sources(project_sources(tmp_path / "project", tmp_path / "home", tmp_path)).hooks()
    assert hook.target == f"node '{extension}/log.js'"
