"""Migration from Claude Code's settings: what is migrated, what is reported, and that the result loads."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.bodies.jsontext import json_values
from support.hooks.settings import command, write_file

from hookgate.hooks import SettingsError, load_settings
from hookgate.hooks.claude_migration import Migration, migrate, read_claude
from hookgate.hooks.settings import KNOWN_TOOLS, Subject, claude_names
from hookgate.hooks.settings.editing import with_hooks

Json = dict[str, Any]


def claude(event: str, *hooks: Json, **group: Any) -> Json:
    """Claude Code's settings with one group."""
    return {"hooks": {event: [{**group, "hooks": list(hooks)}]}}


def matcher(pattern: str, event: str = "PreToolUse") -> tuple[list[str | None], list[str]]:
    """The matchers that one becomes, and the notes."""
    migration = migrate(claude(event, command("x"), matcher=pattern))
    groups = [group for groups in migration.hooks.values() for group in groups]
    return [group.get("matcher") for group in groups], [str(note) for note in migration.notes]


def carried(hook: Json) -> tuple[Json | None, list[str]]:
    """The hook that one becomes, without its name, and the notes."""
    migration = migrate(claude("Stop", hook))
    hooks = [each for groups in migration.hooks.values() for group in groups for each in group["hooks"]]
    hooks = [{key: value for key, value in each.items() if key != "name"} for each in hooks]
    return (hooks[0] if hooks else None), [str(note) for note in migration.notes]


def names(migration: Migration) -> list[str]:
    return [
        hook["name"] for groups in migration.hooks.values() for group in groups for hook in group["hooks"]
    ]


# ---- events


@pytest.mark.parametrize(
    ("event", "new"),
    [
        ("PreToolUse", "BeforeTool"),
        ("PostToolUse", "AfterTool"),
        ("UserPromptSubmit", "BeforeAgent"),
        ("Stop", "AfterAgent"),
        ("Notification", "Notification"),
        ("SessionStart", "SessionStart"),
        ("SessionEnd", "SessionEnd"),
        ("PreCompact", "PreCompress"),
    ],
)
def test_the_documented_events_are_carried(event: str, new: str) -> None:
    migration = migrate(claude(event, command("./x.sh")))
    assert migration.hooks == {new: [{"hooks": [{"name": "x", **command("./x.sh")}]}]}
    assert migration.notes == ()


@pytest.mark.parametrize(
    "event", [*(event for event in claude_names.KNOWN_EVENTS if event not in claude_names.EVENTS), "Later"]
)
def test_an_event_without_a_counterpart_is_reported_by_its_place(event: str) -> None:
    migration = migrate(claude(event, command("x")))
    assert (migration.hooks, migration.left_out) == ({}, 1)
    [note] = migration.notes
    assert str(note).startswith(f"hooks.{event}: Gemini CLI has no such event; its hooks were left out")
    assert ("does not know this event" in str(note)) == (event == "Later")


@pytest.mark.parametrize(
    ("event", "new", "matcher"),
    [
        ("UserPromptExpansion", "BeforeAgent", None),
        ("SubagentStart", "BeforeTool", "delegate_to_agent|invoke_agent"),
        ("SubagentStop", "AfterTool", "delegate_to_agent|invoke_agent"),
        ("PermissionRequest", "BeforeTool", None),
        ("PreSkillShellCommand", "BeforeTool", "run_shell_command"),
    ],
)
def test_guard_of_newer_event_is_carried_to_where_it_still_guards(
    event: str, new: str, matcher: str | None
) -> None:
    migration = migrate(claude(event, command("./x.sh", onFailure="block")))
    [[group]] = migration.hooks.values()
    assert [*migration.hooks] == [new]
    assert group.get("matcher") == matcher
    assert group["hooks"][0]["on_error"] == "deny"
    assert f"hooks.{event}: became {new}" in str(migration.notes[0])
    assert migration.left_out == 0


def test_matcher_of_agents_is_reported() -> None:
    migration = migrate(claude("SubagentStop", command("x"), matcher="Explore"))
    assert "hooks.SubagentStop[0].matcher: has no counterpart" in str(migration.notes[1])


@pytest.mark.parametrize("kind", ["prompt", "agent", "mcp_tool", "lunch"])
def test_every_hook_that_guards_nothing_is_counted(kind: str) -> None:
    hooks: list[Json] = [command("x"), {"type": kind, "prompt": "p", "onFailure": "block"}]
    assert migrate(claude("PreToolUse", *hooks)).left_out == 1


def test_hook_for_failed_tools_becomes_one_for_all_results() -> None:
    migration = migrate(claude("PostToolUseFailure", command("./x.sh"), matcher="Bash"))
    hook = {"name": "x", **command("./x.sh")}
    assert migration.hooks == {"AfterTool": [{"matcher": "run_shell_command", "hooks": [hook]}]}
    [note] = migration.notes
    assert "became AfterTool, which fires for all tools" in str(note)


def test_hook_that_blocks_on_failure_fails_closed() -> None:
    hook, notes = carried(command("x", onFailure="block"))
    assert hook == command("x", on_error="deny")
    assert ["onFailure: became on_error" in note for note in notes] == [True]
    assert carried(command("x", onFailure="continue")) == (command("x"), [])
    hook, notes = carried(command("x", onFailure="later"))
    assert hook == command("x", on_error="deny")
    assert ['onFailure: is neither "block" nor "continue"; it became' in note for note in notes] == [True]


# ---- matchers of tools


@pytest.mark.parametrize(
    ("pattern", "new"),
    [
        ("Bash", "run_shell_command"),
        ("Edit|Write", "replace|write_file"),
        ("^(Edit|Write)$", "replace|write_file"),
        ("Edit|MultiEdit|Write", "replace|write_file"),
        ("Read|LS|Glob", "read_file|list_directory|glob"),
        ("Grep", "search_file_content|grep_search"),
        ("Task", "delegate_to_agent|invoke_agent"),
        ("WebFetch|WebSearch|TodoWrite", "web_fetch|google_web_search|write_todos"),
        ("Web.*", "web_fetch|google_web_search"),
        (r"\bEdit\b", r"\breplace\b"),
        ("(?!Bash).*", "(?!run_shell_command).*"),
        ("mcp__.*", "mcp_.*"),
        ("mcp__memory__.*", "mcp_memory_.*"),
        ("mcp__my-server__create_issue", "mcp_my-server_create_issue"),
        ("mcp__.*__write.*", "mcp_.*_write.*"),
        ("^mcp__github__", "^mcp_github_.*"),
        ("mcp__github__(get|list)", "mcp_github_(get|list).*"),
        ("Bash|mcp__shell__run", "run_shell_command|mcp_shell_run"),
        ("*", None),
        ("", None),
        (".*", None),
    ],
)
def test_a_matcher_names_gemini_cli_s_tools(pattern: str, new: str | None) -> None:
    assert matcher(pattern) == ([new], [])
    assert matcher(pattern, "PostToolUse") == ([new], [])


@pytest.mark.parametrize(
    ("pattern", "lost"),
    [("NotebookEdit", "NotebookEdit"), ("Notebook", "Notebook"), ("[", "["), ("[^]*", "[^]*")],
)
def test_a_group_whose_matcher_has_no_counterpart_is_not_migrated(pattern: str, lost: str) -> None:
    assert matcher(pattern) == (
        [],
        [f"hooks.PreToolUse[0].matcher: {lost!r} has no counterpart in Gemini CLI; the group was left out"],
    )


def test_only_the_part_of_a_matcher_without_a_counterpart_is_lost() -> None:
    reported = (
        "hooks.PreToolUse[0].matcher: 'NotebookEdit' has no counterpart in Gemini CLI; that part was left out"
    )
    assert matcher("Edit|NotebookEdit") == (["replace"], [reported])
    assert matcher("(Edit|NotebookEdit)") == (["replace"], [reported])
    assert matcher("(?i)edit") == (["replace"], [reported])


@pytest.mark.parametrize("pattern", ["Bash(npm:*)", "Bash(git push|git pull)", "Read(./.env)"])
def test_a_pattern_of_arguments_is_reported_with_what_to_do_instead(pattern: str) -> None:
    groups, [note] = matcher(pattern)
    assert groups == []
    assert note == (
        f"hooks.PreToolUse[0].matcher: {pattern!r}: a matcher cannot check arguments; "
        "match the tool and read tool_input in the hook; the group was left out"
    )


def test_a_migrated_matcher_matches_whole_tool_names(tmp_path: Path) -> None:
    migrated = migrate(claude("PreToolUse", command("x"), matcher="Edit|Grep|mcp__gh__.*"))
    loaded = load_settings([write_file(tmp_path, {"hooks": migrated.hooks})])
    tools = [*KNOWN_TOOLS, "grep_search", "mcp_gh_list", "mcp_ghost_list"]
    matched = {tool for tool in tools if loaded.matching_groups("BeforeTool", Subject(tools=(tool,)))}
    assert matched == {"replace", "search_file_content", "grep_search", "mcp_gh_list"}


# ---- matchers of sessions


@pytest.mark.parametrize(
    ("event", "pattern", "new"),
    [
        ("SessionStart", "startup", ["startup"]),
        ("SessionStart", "startup|resume", ["startup", "resume"]),
        ("SessionEnd", "clear|logout", ["clear", "logout"]),
        ("SessionEnd", "other", ["other", "exit"]),
        ("PreCompact", "manual", ["manual"]),
        ("PreCompact", "manual|auto", ["manual", "auto"]),
        ("Notification", "permission_prompt", ["ToolPermission"]),
        ("Notification", ".*prompt", ["ToolPermission"]),
        ("UserPromptSubmit", "anything", [None]),
        ("Stop", "anything", [None]),
    ],
)
def test_a_trigger_gets_a_group_of_its_own(event: str, pattern: str, new: list[str | None]) -> None:
    assert matcher(pattern, event) == (new, [])


@pytest.mark.parametrize(("event", "pattern"), [("Notification", "idle_prompt"), ("SessionEnd", "resume")])
def test_a_trigger_without_a_counterpart_is_reported(event: str, pattern: str) -> None:
    assert matcher(pattern, event) == (
        [],
        [f"hooks.{event}[0].matcher: {pattern!r} has no counterpart in Gemini CLI; the group was left out"],
    )


def test_compact_is_carried_with_the_word_that_it_does_not_come_from_gemini_cli() -> None:
    groups, [note] = matcher("compact", "SessionStart")
    assert groups == ["compress"]
    assert note.endswith("'compact' became 'compress', which Gemini CLI 0.61 never sends; use PreCompress")


def test_hooks_of_several_triggers_all_load(tmp_path: Path) -> None:
    migrated = migrate(claude("SessionStart", command("./hi"), matcher="startup|resume"))
    loaded = load_settings([write_file(tmp_path, {"hooks": migrated.hooks})])
    assert [hook.name for hook in loaded.hooks()] == ["hi", "hi-2"]


# ---- hooks


@pytest.mark.parametrize(("seconds", "ms"), [(5, 5000), (0.5, 500), (600, 600_000), (0.0001, 1)])
def test_seconds_become_milliseconds(seconds: float, ms: int) -> None:
    assert carried(command("x", timeout=seconds)) == (command("x", timeout=ms), [])


@pytest.mark.parametrize("timeout", [0, -1, "5", True, [], float("nan"), float("inf")], ids=repr)
def test_an_invalid_timeout_is_reported(timeout: Any) -> None:
    reported = (
        "hooks.Stop[0].hooks[0].timeout: is not a positive number of seconds; "
        "the default of 60 s is used instead"
    )
    assert carried(command("x", timeout=timeout)) == (command("x"), [reported])


def test_a_command_is_migrated_unchanged() -> None:
    line = '"$CLAUDE_PROJECT_DIR"/.claude/hooks/x.sh --flag | tee "$HOME/log"'
    assert carried(command(line, description="d")) == (command(line, description="d"), [])


def test_arguments_become_quoted_words_of_the_line() -> None:
    hook = command("${CLAUDE_PROJECT_DIR}/x.sh", args=["a b", "$HOME", "--root=${CLAUDE_PROJECT_DIR}/y", ""])
    line = "\"${CLAUDE_PROJECT_DIR}\"/x.sh 'a b' '$HOME' --root=\"${CLAUDE_PROJECT_DIR}\"/y ''"
    assert carried(hook) == (command(line), [])


@pytest.mark.parametrize("key", ["if", "once", "async", "asyncRewake", "statusMessage", "shell", "later"])
def test_a_key_without_a_counterpart_is_reported_and_the_hook_stays(key: str) -> None:
    config, [note] = carried(command("x", **{key: "y"}))
    assert config == command("x")
    assert note.startswith(f"hooks.Stop[0].hooks[0].{key}: has no counterpart")


@pytest.mark.parametrize("kind", ["prompt", "agent", "mcp_tool", "later", None, [1]], ids=repr)
def test_a_hook_of_another_type_is_reported_and_left_out(kind: Any) -> None:
    config, [note] = carried({"type": kind, "prompt": "Is this fine?"})
    assert config is None
    assert note.startswith("hooks.Stop[0].hooks[0]: ")
    assert "the hook was left out" in note


def test_an_http_hook_becomes_hookgate_s_own() -> None:
    hook = {
        "type": "http",
        "url": "http://127.0.0.1:8080/h",
        "timeout": 3,
        "headers": {"Authorization": "Bearer $TOKEN", "X-Other": "${SECRET}!", "X-Plain": "1"},
        "allowedEnvVars": ["TOKEN"],
    }
    headers = {"Authorization": "Bearer $TOKEN", "X-Other": "!", "X-Plain": "1"}
    reported = (
        "hooks.Stop[0].hooks[0]: a hook of type 'http' runs only in hookgate; Gemini CLI itself ignores it"
    )
    assert carried(hook) == (
        {"type": "http", "url": hook["url"], "headers": headers, "timeout": 3000},
        [reported],
    )


# ---- names


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ('"$CLAUDE_PROJECT_DIR"/.claude/hooks/check-style.sh --fix', "check-style"),
        ("python3 $CLAUDE_PROJECT_DIR/guard.py", "guard"),
        ("uv run --quiet scripts/lint.py", "lint"),
        ("npx prettier --write", "prettier"),
        ("FOO=1 node ./a/b.mjs", "b"),
        ("jq -r '.tool_input.command' | tee log", "jq"),
        ("bash -c 'echo a b'", "bash"),
        ("echo 'open", "echo"),
        ("/", "hook"),
    ],
)
def test_a_hook_is_named_after_its_program(line: str, name: str) -> None:
    assert names(migrate(claude("Stop", command(line)))) == [name]


def test_no_two_hooks_share_a_name() -> None:
    migration = migrate(claude("Stop", command("./x.sh"), command("./y/x.py"), command("x")))
    assert names(migration) == ["x", "x-2", "x-3"]
    assert names(migrate(claude("Stop", command("x")), taken=migration.names)) == ["x-4"]


def test_an_http_hook_is_named_after_its_host() -> None:
    hooks = [
        {"type": "http", "url": url} for url in ("https://policy.example.com/x", "http://[", "http://a b/")
    ]
    assert names(migrate(claude("Stop", *hooks))) == ["policy.example.com", "http", "a-b"]


# ---- the whole file


def test_hooks_that_were_switched_off_stay_off_and_it_is_reported() -> None:
    migration = migrate({**claude("Stop", command("x")), "disableAllHooks": True})
    assert not migration.on
    assert names(migration) == ["x"]
    assert [note.place for note in migration.notes] == ["disableAllHooks"]
    assert migrate({"disableAllHooks": False}) == Migration({})


@pytest.mark.parametrize("key", ["allowManagedHooksOnly", "allowedHttpHookUrls", "httpHookAllowedEnvVars"])
def test_a_setting_about_hooks_is_reported(key: str) -> None:
    assert [note.place for note in migrate({key: [1], "theme": "dark", "permissions": {}}).notes] == [key]


@pytest.mark.parametrize(
    ("hooks", "place"),
    [
        ([], "hooks"),
        ({"Stop": {}}, "hooks.Stop"),
        ({"Stop": ["x"]}, "hooks.Stop[0]"),
        ({"Stop": [{}]}, "hooks.Stop[0]"),
        ({"Stop": [{"hooks": ["x"]}]}, "hooks.Stop[0].hooks[0]"),
        ({"Stop": [{"hooks": [{"type": "command"}]}]}, "hooks.Stop[0].hooks[0].command"),
        ({"Stop": [{"hooks": [command(" ")]}]}, "hooks.Stop[0].hooks[0].command"),
        ({"Stop": [{"hooks": [], "later": 1}]}, "hooks.Stop[0].later"),
        ({"PreToolUse": [{"hooks": [command("x")], "matcher": {}}]}, "hooks.PreToolUse[0].matcher"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_what_is_malformed_is_reported_by_its_place(hooks: Any, place: str) -> None:
    migration = migrate({"hooks": hooks})
    assert migration.hooks == {}
    assert [note.place for note in migration.notes] == [place]


KINDS = st.sampled_from(["command", "http", "prompt", "x"])
HOOK = st.fixed_dictionaries(
    {"type": KINDS},
    optional={
        "command": st.sampled_from(["x", "./a/b.sh 'c", "python3 -m d", "\u00e9 f"]) | json_values,
        "url": st.sampled_from(["http://127.0.0.1/x", "https://h.example/"]),
        "timeout": st.floats() | json_values,
        "if": json_values,
        "args": json_values,
        "headers": json_values,
        "description": json_values,
    },
)
PATTERN = st.text(alphabet="BashEdit|.*()[]^$?_\\", max_size=8) | st.sampled_from(
    ["Edit|Write", "mcp__a__b", "startup|clear", "Notebook.*", "[A-Z].*", "Bash(x)"]
)
EVENT = st.sampled_from(["PreToolUse", "PostToolUse", "Stop", "SessionStart", "Notification", "Other"])
GROUP = st.fixed_dictionaries(
    {"hooks": st.lists(HOOK | json_values, max_size=3)}, optional={"matcher": PATTERN | json_values}
)
CLAUDE = st.dictionaries(EVENT, st.lists(GROUP | json_values, max_size=3) | json_values, max_size=3)


@given(hooks=CLAUDE | json_values)
def test_any_settings_become_settings_that_load_and_migrating_twice_adds_nothing(
    hooks: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    before = json.dumps(hooks)
    migration = migrate({"hooks": hooks})
    assert json.dumps(hooks) == before  # the caller's value is the caller's
    text = with_hooks("", migration.hooks)
    assert with_hooks(text, migrate({"hooks": hooks}).hooks) == text
    path = tmp_path_factory.getbasetemp() / "settings.json"
    path.write_text(text or "{}", encoding="utf-8")
    migrated = sum(len(group["hooks"]) for groups in migration.hooks.values() for group in groups)
    loaded = load_settings([path]).hooks()
    assert len(loaded) == migrated == len({hook.name for hook in loaded})


# ---- files


def test_the_files_of_project_and_user_are_read(tmp_path: Path) -> None:
    project, home = tmp_path / "project", tmp_path / "home"
    paths = [
        write_file(project, {"a": 1}, ".claude/settings.json"),
        write_file(project, '{"b": 2} // mine', ".claude/settings.local.json"),
        write_file(home, {"c": 3}, ".claude/settings.json"),
    ]
    assert read_claude(project, home) == list(zip(paths, [{"a": 1}, {"b": 2}, {"c": 3}], strict=True))


def test_files_that_are_not_there_are_no_error(tmp_path: Path) -> None:
    assert read_claude(tmp_path / "project", tmp_path / "home") == []


def test_a_project_at_home_is_read_once(tmp_path: Path) -> None:
    path = write_file(tmp_path, {}, ".claude/settings.json")
    assert read_claude(tmp_path, tmp_path) == [(path, {})]


def test_a_broken_file_is_reported_by_file_and_line(tmp_path: Path) -> None:
    write_file(tmp_path, '{\n "hooks": }', ".claude/settings.json")
    with pytest.raises(SettingsError, match=r"\.claude/settings\.json:2:11: is not valid JSON"):
        read_claude(tmp_path, tmp_path / "home")
