"""Settings files: which load, in which order, and the messages about mistakes."""

import json
from pathlib import Path
from typing import Any

import pytest
from support.hooks.settings import command, one_group, write_file

from hookgate.hooks import Configuration, Engine, SettingsError, load_settings
from hookgate.hooks.settings import EVENTS, CommandConfig, Layer, SettingsSource, load_sources
from hookgate.hooks.settings import files as settings_files


def load(folder: Path, *contents: Any) -> Configuration:
    """The configuration of several files, highest precedence first."""
    return load_settings([write_file(folder, content, f"{i}.json") for i, content in enumerate(contents)])


def names(configuration: Configuration, event: str = "BeforeModel") -> list[list[str]]:
    return [[hook.name for hook in group.hooks] for group in configuration.for_event(event)]


# ---- what loads


def test_groups_and_hooks_keep_their_order(tmp_path: Path) -> None:
    groups = [{"hooks": [command("a"), command("b")]}, {"hooks": [command("c")], "sequential": True}]
    loaded = load(tmp_path, {"hooks": {"BeforeModel": groups}})
    assert names(loaded) == [["a", "b"], ["c"]]
    assert [group.sequential for group in loaded.for_event("BeforeModel")] == [False, True]


def test_every_event_of_the_contract_can_be_configured(tmp_path: Path) -> None:
    loaded = load(tmp_path, {"hooks": {event: [{"hooks": [command(event)]}] for event in EVENTS}})
    assert [names(loaded, event) for event in EVENTS] == [[[event]] for event in EVENTS]


def test_a_hook_carries_what_its_file_says(tmp_path: Path) -> None:
    config = command("x", name="mine", timeout=1500, env={"A": "b"}, on_error="deny", description="d")
    [group] = load(tmp_path, one_group(config)).for_event("BeforeModel")
    [hook] = group.hooks
    assert isinstance(hook.config, CommandConfig)
    assert (hook.name, hook.timeout, hook.config.command) == ("mine", 1.5, "x")
    assert (hook.config.env, hook.config.on_error, hook.source) == ({"A": "b"}, "deny", tmp_path / "0.json")


@pytest.mark.parametrize(
    ("event", "config", "expected"),
    [
        ("BeforeModel", {"on_error": "allow"}, "always"),
        ("BeforeModel", {"on_error": "deny"}, "never"),
        ("BeforeModel", {}, "on exit codes"),
        ("BeforeModel", {"persistent": True}, "never"),
        ("BeforeModel", {"on_error": "allow", "mode": "observe"}, "never"),
        ("SessionEnd", {"on_error": "allow"}, "never"),
    ],
)
def test_a_hook_tells_after_which_failures_calls_continue(
    event: str, config: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    [group] = load(tmp_path, one_group(command("x", **config), event=event)).for_event(event)
    assert [hook.fails_open for hook in group.hooks] == [expected]


@pytest.mark.parametrize(
    ("layer", "event", "config", "expected"),
    [
        ("policy", "AfterModel", {}, "window"),
        ("explicit", "AfterModel", {}, "window"),
        ("project", "AfterModel", {}, "event"),
        ("extensions", "AfterModel", {}, "event"),
        ("policy", "AfterModel", {"mode": "observe"}, "event"),
        ("policy", "AfterModel", {"stream": "event"}, "event"),
        ("user", "AfterModel", {"stream": "complete"}, "complete"),
        ("policy", "BeforeModel", {}, "event"),
    ],
)
def test_operators_hook_judges_streams_in_windows_by_default(
    layer: Layer, event: str, config: dict[str, Any], expected: str, tmp_path: Path
) -> None:
    path = write_file(tmp_path, one_group(command("true", **config), event=event))
    configuration = load_sources([SettingsSource(path, layer)])
    [hook] = configuration.hooks()
    assert hook.stream == expected
    misses = event == "AfterModel" and expected == "event" and config.get("mode") != "observe"
    assert configuration.missing_split_text() == (["true"] if misses else [])


def test_the_url_of_a_hook_is_shown_without_what_may_be_secret(tmp_path: Path) -> None:
    config = {"type": "http", "url": "https://ann:pw@example.com/hook?key=s3cret#there"}
    [group] = load(tmp_path, one_group(config, command("x --key s3cret"))).for_event("BeforeModel")
    shown = ["https://example.com/hook", "x --key s3cret"]
    assert [hook.display_target for hook in group.hooks] == shown
    assert [hook.key for hook in group.hooks] == [("BeforeModel", each, each) for each in shown]
    assert [hook.target for hook in group.hooks] == [config["url"], "x --key s3cret"]


def test_a_hook_that_says_nothing_more_has_a_minute_and_must_not_fail(tmp_path: Path) -> None:
    [group] = load(tmp_path, one_group(command("x"))).for_event("BeforeModel")
    assert (group.hooks[0].timeout, group.hooks[0].on_error) == (60, "deny")


def test_a_hook_has_the_documented_defaults_and_bounds(tmp_path: Path) -> None:
    def config(**more: Any) -> CommandConfig:
        [group] = load(tmp_path, one_group(command("x", persistent=True, **more))).for_event("BeforeModel")
        assert isinstance(group.hooks[0].config, CommandConfig)
        return group.hooks[0].config

    assert (config().window, config().workers) == (256, 4)
    for key, least, most in (("window", 1, 1_000_000), ("workers", 1, 64)):
        assert [getattr(config(**{key: number}), key) for number in (least, most)] == [least, most]
        for number in (least - 1, most + 1):
            with pytest.raises(SettingsError, match=key):
                config(**{key: number})


def test_keys_that_are_not_for_hooks_are_ignored(tmp_path: Path) -> None:
    settings = one_group(command("x", matcher="*", future=1), matcher="m") | {"theme": "Dark", "tools": [1]}
    settings["hooks"]["notifications"] = True
    assert names(load(tmp_path, settings)) == [["x"]]


@pytest.mark.parametrize("settings", [{}, {"hooks": {}}, {"theme": 1}, {"hooks": {"BeforeModel": []}}])
def test_a_file_without_hooks_has_none(settings: Any, tmp_path: Path) -> None:
    assert not Engine(load(tmp_path, settings)).listens_to("BeforeModel")


def test_no_files_mean_no_hooks() -> None:
    assert load_settings([]) == Configuration()


@pytest.mark.parametrize(("folder", "root"), [(".gemini", "."), (".terminai", "."), ("conf", "conf")])
def test_hooks_run_in_the_project_around_the_settings_folder(folder: str, root: str, tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command()), f"{folder}/settings.json")
    [group] = load_settings([path]).for_event("BeforeModel")
    assert group.hooks[0].root == (tmp_path / root).resolve()


# ---- several files


def test_files_run_in_the_order_of_their_precedence(tmp_path: Path) -> None:
    assert names(load(tmp_path, one_group(command("b")), one_group(command("a")))) == [["b"], ["a"]]


def test_for_hooks_with_equal_name_and_command_the_higher_file_s_copy_is_kept(tmp_path: Path) -> None:
    high = one_group(command("x", name="n", timeout=1))
    low = one_group(command("x", name="n", timeout=2), command("x", name="other"), command("y", name="n"))
    loaded = load(tmp_path, high, low)
    assert names(loaded) == [["n"], ["other", "n"]]
    assert loaded.for_event("BeforeModel")[0].hooks[0].config.timeout == 1


def test_one_command_may_be_listed_under_two_events(tmp_path: Path) -> None:
    group = [{"hooks": [command("x")]}]
    loaded = load(tmp_path, {"hooks": {"BeforeModel": group, "AfterModel": group}})
    assert names(loaded, "BeforeModel") == names(loaded, "AfterModel") == [["x"]]


def test_a_hook_disabled_in_either_section_of_any_file_is_off(tmp_path: Path) -> None:
    high = {"hooks": {"disabled": ["a"]}, "hooksConfig": {"disabled": ["b"]}}
    low = one_group(command("1", name="a"), command("2", name="b"), command("3", name="c"))
    assert names(load(tmp_path, high, low)) == [["c"]]
    assert names(load(tmp_path, low, {"hooksConfig": {"disabled": ["c", "a"]}})) == [["b"]]


def test_a_group_whose_hooks_are_all_disabled_is_gone(tmp_path: Path) -> None:
    off = {"hooks": {"disabled": ["x"]}}
    assert not Engine(load(tmp_path, one_group(command("x")), off)).listens_to("BeforeModel")


SWITCHES = [("tools", "enableHooks"), ("hooks", "enabled"), ("hooksConfig", "enabled")]


@pytest.mark.parametrize(("section", "key"), SWITCHES)
def test_each_switch_turns_all_hooks_off_from_any_file(section: str, key: str, tmp_path: Path) -> None:
    hooks = one_group(command("x"))
    for files in ([hooks, {section: {key: False}}], [{section: {key: False}}, hooks]):
        assert load(tmp_path, *files) == Configuration()
    assert names(load(tmp_path, hooks, {section: {key: True}})) == [["x"]]


# ---- what is wrong: the file, the place and the remedy


GROUP = '{"hooks": [{"type": "command", "command": "./guard.sh"}]}'
KINDS = "'command', 'runtime', 'http', 'rego' or 'builtin'"
HOOK = ":1: hooks.BeforeModel[0].hooks[0]"


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"type": "command"}, f"{HOOK}.command: is missing"),
        (command(""), f"{HOOK}.command: is empty"),
        (command(command=[]), f"{HOOK}.command: is empty"),
        (command(command=["x", ""]), f"{HOOK}.command: is empty"),
        (
            command(command=["x", 1]),
            f"{HOOK}.command: must be a shell command line, or a list of a program and its arguments",
        ),
        ({"type": "command", "comand": "x"}, f"{HOOK}.comand: is not known here; did you mean command?"),
        (
            command(stream="held"),
            f"{HOOK}.stream: must be 'event', 'window' or 'complete'",
        ),
        (command(timeout="5"), f"{HOOK}.timeout: must be a number of milliseconds, without quotes"),
        (command(timeout=True), f"{HOOK}.timeout: must be a number of milliseconds, without quotes"),
        (command(timeout=0), f"{HOOK}.timeout: must be greater than 0"),
        (command(on_error="ignore"), f"{HOOK}.on_error: must be 'allow' or 'deny'"),
        (command(name=7), f"{HOOK}.name: must be a string"),
        (command(env=[]), f"{HOOK}.env: must be an object"),
        (command(env={"command": 1}), f"{HOOK}.env.command: must be a string"),
        ({"type": "plugin"}, f"{HOOK}.type: there is no hook type 'plugin'; use {KINDS}"),
        ({"command": "x"}, f"{HOOK}.type: is missing; use {KINDS}"),
        ("x", f"{HOOK}: must be an object"),
        ({"type": "runtime"}, f"{HOOK}.action: is missing"),
        *(
            (
                {"type": "runtime", "action": action},
                f"{HOOK}.action: must be package.module:function or ./file.py:function",
            )
            for action in ("module", "module:", ":f", "module:f()", "a:b:c", "m:2")
        ),
    ],
)
def test_a_wrong_hook_is_reported_by_file_place_and_remedy(
    config: Any, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, one_group(config))
    assert str(caught.value) == f"{tmp_path / '0.json'}{expected}"


def test_the_place_counts_groups_and_hooks_from_zero(tmp_path: Path) -> None:
    groups = [{"hooks": []}, {"hooks": [command("x"), {"type": "command"}]}]
    with pytest.raises(
        SettingsError, match=r"1\.json:1: hooks\.AfterModel\[1\]\.hooks\[1\]\.command: is missing"
    ):
        load(tmp_path, {}, {"hooks": {"AfterModel": groups}})


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ([], ': must contain an object such as {"hooks": {…}}'),
        ({"hooks": []}, f':1: hooks: must be an object of events such as {{"BeforeModel": [{GROUP}]}}'),
        (
            {"hooks": {"BeforeModel": {"hooks": []}}},
            f":1: hooks.BeforeModel: must be a list of groups such as [{GROUP}]",
        ),
        (
            {"hooks": {"BeforeModel": [command()]}},
            f":1: hooks.BeforeModel[0].hooks: is missing; write hooks in a list: {GROUP}",
        ),
        (
            {"hooks": {"BeforeModel": [{"hooks": command()}]}},
            f":1: hooks.BeforeModel[0].hooks: must be a list; write hooks in a list: {GROUP}",
        ),
        ({"hooks": {"BeforeModel": ["x"]}}, ":1: hooks.BeforeModel[0]: must be an object"),
        (one_group(sequential="yes"), ":1: hooks.BeforeModel[0].sequential: must be true or false"),
        (
            {"hooks": {"BeforeModel": [{"hook": []}]}},
            ":1: hooks.BeforeModel[0].hook: is not known here; did you mean hooks?",
        ),
        ("", ': is empty; hook settings are JSON, such as {"hooks": {…}}'),
        ("// a comment\n", ': is empty; hook settings are JSON, such as {"hooks": {…}}'),
        (
            "[hooks]\na = 1",
            ": is TOML, but hook settings are JSON; "
            "if it is the gateway's configuration, pass it with --config",
        ),
        ("{,}", ":1:2: is not valid JSON: there is a comma before the closing }; remove the comma"),
        ('{"a": 1,\n}', ":1:8: is not valid JSON: there is a comma before the closing }; remove the comma"),
        (
            '{\n"a": [1,2,],\n "b": }',
            ":2:10: is not valid JSON: there is a comma before the closing ]; remove the comma",
        ),
        ({"hooksConfig": {"deadline": 0}}, ":1: hooksConfig.deadline: must be greater than 0"),
        ({"hooks": {"disabled": "x"}}, ":1: hooks.disabled: must be a list of hook names"),
        ({"hooksConfig": {"disabled": [1]}}, ":1: hooksConfig.disabled: must be a list of hook names"),
    ],
)
def test_a_wrong_file_is_reported_by_file_place_and_remedy(
    settings: Any, expected: str, tmp_path: Path
) -> None:
    with pytest.raises(SettingsError) as caught:
        load(tmp_path, settings)
    assert str(caught.value) == f"{tmp_path / '0.json'}{expected}"


def test_an_unknown_event_is_reported_with_those_that_exist(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"hooks\.Prompt: there is no such event") as caught:
        load(tmp_path, one_group(command(), event="Prompt"))
    assert all(event in str(caught.value) for event in EVENTS)


def test_a_misspelled_event_is_reported_with_the_one_that_was_meant(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"hooks\.BeforModel: .*; did you mean BeforeModel\?"):
        load(tmp_path, one_group(command(), event="BeforModel"))


def test_a_wrong_hook_is_reported_even_where_a_lower_file_has_it(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"1\.json"):
        load(tmp_path, one_group(command()), one_group({"type": "command"}))


def test_a_missing_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"none\.json: cannot be read: No such file.*; check the path"):
        load_settings([tmp_path / "none.json"])


def test_a_folder_in_place_of_a_file_is_reported(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match="is a folder; check the path"):
        load_settings([tmp_path])


def test_a_file_that_is_larger_than_any_settings_is_not_read_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(settings_files, "_MAX_BYTES", 100)
    text = json.dumps({"hooks": {}}).ljust(100)
    assert load(tmp_path, text) == Configuration()
    with pytest.raises(SettingsError, match=r"0\.json: is larger than 100 bytes; split it"):
        load(tmp_path, f"{text} ")


def test_broken_json_is_reported_by_line_and_column(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"0\.json:2:11: is not valid JSON"):
        load(tmp_path, '{\n "hooks": }')


def test_a_key_given_twice_is_reported_since_the_first_would_be_lost(tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=r"0\.json:2:2: .*: the key 'BeforeModel' is given twice"):
        load(tmp_path, '{"hooks": {"BeforeModel": [],\n "BeforeModel": []}}')


def test_a_byte_order_mark_does_no_harm(tmp_path: Path) -> None:
    assert names(load(tmp_path, "\ufeff" + json.dumps(one_group(command("x"))))) == [["x"]]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"a": ' + "[" * 100_000, "it nests too deeply; flatten it"),
        ('{"a": ' + "1" * 5000 + "}", "it contains a number with thousands of digits; shorten it"),
    ],
)
def test_json_beyond_all_bounds_is_reported(text: str, expected: str, tmp_path: Path) -> None:
    with pytest.raises(SettingsError, match=rf"0\.json: cannot be read as JSON: {expected}$"):
        load(tmp_path, text)


def test_a_file_of_another_encoding_is_reported(tmp_path: Path) -> None:
    path = tmp_path / "settings.json"
    path.write_bytes(json.dumps({"theme": "é"}, ensure_ascii=False).encode("latin-1"))
    with pytest.raises(SettingsError, match=r"settings\.json: is not UTF-8; save it as UTF-8"):
        load_settings([path])


def test_a_key_that_does_nothing_is_reported_once(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    load(tmp_path, one_group(command(onError="deny", source="user")))
    reported = "0.json:1: hooks.BeforeModel: the hook 'true': 'onError' is not known here and has no effect; "
    assert f"{reported}did you mean on_error?" in caplog.text
    assert len(caplog.records) == 1
