"""Matchers that leave a hook without effect: which are reported, and which are not."""

from pathlib import Path

import pytest
from support.hooks.settings import command, one_group, write_file

from hookgate.hooks.settings import SettingsSource, Subject, read_sources


@pytest.mark.parametrize(
    ("event", "matcher", "expected", "breaks_hook"),
    [
        ("BeforeTool", "write_", "did you mean 'write_.*'?", True),
        (
            "BeforeTool",
            "write_*",
            "; did you mean 'write_.*'",
            True,
        ),
        ("BeforeTool", "run_*_command", "did you mean 'run_.*_command'?", True),
        ("BeforeTool", "replace|write_*", "did you mean 'replace|write_.*'?", True),
        ("AfterTool", "mcp_github_*", "did you mean 'mcp_github_.*'?", True),
        (
            "BeforeTool",
            "Run_Shell_Command",
            "because matchers are case-sensitive; did you mean 'run_shell_command'?",
            True,
        ),
        ("AfterTool", "Write_.*", "because matchers are case-sensitive; did you mean 'write_.*'?", True),
        (
            "AfterTool",
            r"READ_\S+",
            "because matchers are case-sensitive; did you mean 'read_file|read_many_files'?",
            True,
        ),
        ("BeforeTool", "mcp__github__.*", "did you mean 'mcp_github_.*'?", True),
        ("BeforeTool", "mcp__github__create_issue", "did you mean 'mcp_github_create_issue'?", True),
        ("AfterTool", "mcp__github", "did you mean 'mcp_github_.*'?", True),
        ("AfterTool", "mcp_github", "did you mean 'mcp_github_.*'?", True),
        ("BeforeTool", "mcp__.*", "did you mean 'mcp_.*'?", True),
        ("BeforeTool", "replace|mcp__github__.*", "did you mean 'replace|mcp_github_.*'?", True),
        ("BeforeTool", "github", "for the tools of an MCP server of this name, write 'mcp_github_.*'", False),
        ("BeforeTool", "Bash", "names tools of Claude Code, so it matches none of Gemini CLI's; ", True),
        ("BeforeTool", "Edit|Write", "did you mean 'replace|write_file'?", True),
        ("BeforeTool", "run_shel_command", "; did you mean 'run_shell_command'? Ignore this if ", False),
        ("BeforeTool", "wirte_file", "; did you mean 'write_file'? Ignore this if ", False),
        (
            "BeforeModel",
            "run_shell_command",
            "has no effect: BeforeModel events ignore matchers",
            False,
        ),
        ("AfterAgent", "startup", "has no effect: AfterAgent events ignore matchers", False),
        (
            "SessionStart",
            "Startup",
            "is compared literally and is not a trigger of SessionStart; did you mean 'startup'?",
            True,
        ),
        ("SessionStart", "compact", "did you mean 'compress'?", True),
        ("SessionStart", "startup|resume", "use a group for each of 'startup', 'resume'", True),
        ("SessionStart", ".*", "did you mean '*'?", True),
        ("SessionEnd", "never", "use one of 'exit', 'clear', 'logout', 'prompt_input_exit', 'other'", True),
        ("PreCompress", "autom", "did you mean 'auto'?", True),
        ("Notification", "tool_permission", "did you mean 'ToolPermission'?", True),
    ],
)
def test_a_matcher_without_effect_is_reported_but_never_ends_the_start(
    event: str, matcher: str, expected: str, breaks_hook: bool, tmp_path: Path
) -> None:
    path = write_file(tmp_path, one_group(command(), event=event, matcher=matcher))
    loaded = read_sources([SettingsSource(path, "policy")])
    [warning] = loaded.warnings
    assert str(warning).startswith(f"{path}:1: hooks.{event}: the matcher {matcher!r} ")
    assert (expected in str(warning), warning.breaks_hook) == (True, breaks_hook)
    assert loaded.problems == ()


@pytest.mark.parametrize(
    ("event", "matcher"),
    [
        ("BeforeTool", "run_shell_command"),
        ("BeforeTool", "Bash|run_shell_command"),
        ("BeforeTool", "mcp_github_.*"),
        ("BeforeTool", "mcp_fs_read_file"),
        ("BeforeTool", "glob"),
        ("BeforeTool", "edit_file"),
        ("BeforeTool", "get_weather"),
        ("BeforeTool", ".*"),
        ("BeforeTool", "glob*"),
        ("BeforeTool", "write_.*|read_file"),
        ("BeforeTool", "mcp_[a-z]*_read"),
        ("BeforeModel", "*"),
        ("BeforeModel", ".*"),
        ("SessionStart", " startup "),
        ("SessionEnd", "exit"),
        ("PreCompress", ""),
        ("Notification", "ToolPermission"),
        ("Notification", "SomethingNew"),
    ],
)
def test_a_matcher_that_may_match_is_not_reported(event: str, matcher: str, tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command(), event=event, matcher=matcher))
    assert read_sources([SettingsSource(path, "policy")]).warnings == ()


def test_for_an_event_of_claude_code_the_right_name_is_suggested(tmp_path: Path) -> None:
    path = write_file(tmp_path, one_group(command(), event="PreToolUse"))
    [problem] = read_sources([SettingsSource(path)]).problems
    assert str(problem) == (f"{path}:1: hooks.PreToolUse: there is no such event; did you mean BeforeTool?")


@pytest.mark.parametrize(
    ("matcher", "meant"), [("*_file", ".*_file"), ("read_file|*_todos", "read_file|.*_todos")]
)
def test_a_wildcard_that_is_not_a_regular_expression_is_reported(
    matcher: str, meant: str, tmp_path: Path
) -> None:
    path = write_file(tmp_path, one_group(command(), event="BeforeTool", matcher=matcher))
    [problem] = read_sources([SettingsSource(path)]).problems
    assert "is not a regular expression: nothing to repeat at position " in str(problem)
    assert str(problem).endswith(f"; did you mean {meant!r}?")


LONG = "mcp_github_.*|" * 100


@pytest.mark.parametrize(
    "pattern", [r"(?:\w|\w|\w)*!", "(a{50}){50}", "(" * 400 + ")" * 400, LONG, r"(.*)\1"]
)
@pytest.mark.parametrize("event", ["BeforeTool", "SessionEnd"])
def test_the_pattern_of_a_checkout_takes_linear_time(pattern: str, event: str, tmp_path: Path) -> None:
    """Python's own search would take hours for some of them, while no other thread runs."""
    path = write_file(tmp_path, one_group(command(), event=event, matcher=pattern))
    configuration = read_sources([SettingsSource(path, "project")]).configuration
    configuration.matching_groups("BeforeTool", Subject(tools=("prompt_input_exit" * 10,)))


@pytest.mark.parametrize("pattern", ["(?!read_).*", r"(.)\1.*", "(?<=x)y"])
def test_a_pattern_of_a_checkout_that_needs_backtracking_matches_every_tool(
    pattern: str, tmp_path: Path
) -> None:
    path = write_file(tmp_path, one_group(command(), event="BeforeTool", matcher=pattern))
    loaded = read_sources([SettingsSource(path, "project")])
    assert loaded.configuration.matching_groups("BeforeTool", Subject(tools=("read_file",)))
    assert any("the hooks run for every tool" in str(warning) for warning in loaded.warnings)
    trusted = read_sources([SettingsSource(path, "project", trusted=True)])
    assert not trusted.configuration.matching_groups("BeforeTool", Subject(tools=("read_file",)))


def test_names_in_conditions_have_a_limited_length(tmp_path: Path) -> None:
    """The first call would compile them, in a time that grows with the square of their length."""
    path = write_file(tmp_path, one_group(command(when={"models": ["*[" * 200]})))
    [problem] = read_sources([SettingsSource(path)]).problems
    assert str(problem).endswith("when.models: has a name of more than 256 characters; shorten it")
