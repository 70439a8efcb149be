"""Which events a matcher and a `when` select."""

import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hookgate.hooks.settings import EVENTS, KNOWN_TOOLS, Matcher, Subject, When
from hookgate.hooks.settings.configuration import holds
from hookgate.hooks.settings.event_names import TOOL_EVENTS, TRIGGER_EVENTS

NAMES = st.sampled_from([*KNOWN_TOOLS, "mcp_github_search", "rewrite_x", "x"])


@pytest.mark.parametrize("pattern", [None, "", "*"])
@pytest.mark.parametrize("event", EVENTS)
def test_no_matcher_an_empty_one_and_a_star_match_everything(event: str, pattern: str | None) -> None:
    assert Matcher(event, pattern).matches(Subject())
    assert Matcher(event, pattern).matches(Subject(tools=("x",), trigger="startup"))


@given(st.sampled_from(sorted(TOOL_EVENTS)), NAMES, NAMES)
def test_a_plain_name_matches_only_the_tool_of_this_name(event: str, pattern: str, tool: str) -> None:
    assert Matcher(event, pattern).matches(Subject(tools=(tool,))) == (pattern == tool)


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        ("write_.*|replace", ["write_file", "write_todos", "replace"], ["rewrite_x", "read_file"]),
        ("read_.*", ["read_file", "read_many_files"], ["read", "thread_x"]),
        ("write_", [], ["write_file"]),
        ("(?!read_).*", ["write_file"], ["read_file"]),
    ],
)
def test_a_pattern_matches_whole_names(pattern: str, matching: list[str], others: list[str]) -> None:
    matcher = Matcher("BeforeTool", pattern)
    assert all(matcher.matches(Subject(tools=(tool,))) for tool in matching)
    assert not any(matcher.matches(Subject(tools=(tool,))) for tool in others)


@pytest.mark.parametrize("blanks", [(" ", ""), ("", " "), ("\n\t", "  ")])
def test_blanks_around_a_pattern_do_not_count(blanks: tuple[str, str]) -> None:
    before, after = blanks
    assert Matcher("BeforeTool", f"{before}read_file{after}").matches(Subject(tools=("read_file",)))
    assert Matcher("SessionStart", f"{before}startup{after}").matches(Subject(trigger="startup"))
    assert Matcher("BeforeTool", f"{before}*{after}").matches(Subject(tools=("x",)))
    assert Matcher("BeforeTool", before + after).matches(Subject(tools=("x",)))


@pytest.mark.parametrize(
    ("pattern", "matching", "others"),
    [
        (r"(?<verb>read|write)_file", "read_file", "glob"),
        (r"(?<part>\w)\k<part>_.*", "aa_x", "ab_x"),
        (r"(?<!x)(?<=)read_.*", "read_file", "write_file"),
        (r"[(?<a>]{2}", "(?", "ab"),
        (r"\(\?<a", "(?<a", "a"),
    ],
)
def test_a_pattern_may_name_groups_as_javascript_does(pattern: str, matching: str, others: str) -> None:
    matcher = Matcher("BeforeTool", pattern)
    assert matcher.matches(Subject(tools=(matching,)))
    assert not matcher.matches(Subject(tools=(others,)))


@pytest.mark.parametrize("tool", ["x" * 257, "write_" * 50_000 + "\n", "write\nfile", "\u202ewrite"])
def test_a_name_that_no_tool_has_matches_every_pattern(tool: str) -> None:
    """A search in a long name may take any time, and `.` does not match a line end."""
    for pattern in ("read_file", ".*write.*", "(a?_)?(.*_)?b"):
        assert Matcher("BeforeTool", pattern).matches(Subject(tools=("glob", tool)))
    assert not Matcher("BeforeTool", "read_file").matches(Subject(tools=("x" * 256,)))


@given(st.sampled_from(sorted(TRIGGER_EVENTS)), st.text(min_size=1), st.text())
def test_a_trigger_is_matched_exactly(event: str, pattern: str, trigger: str) -> None:
    if pattern.strip() not in ("", "*"):
        assert Matcher(event, pattern).matches(Subject(trigger=trigger)) == (pattern.strip() == trigger)


@given(st.sampled_from(sorted(set(EVENTS) - TOOL_EVENTS - TRIGGER_EVENTS)), st.text())
def test_model_and_agent_events_ignore_the_matcher(event: str, pattern: str) -> None:
    assert Matcher(event, pattern).matches(Subject(model="m"))


@pytest.mark.parametrize(
    ("pattern", "hint"),
    [
        ("write_", "write_.*"),
        ("_file", ".*_file.*"),
        ("write|read", "(write|read).*"),
        ("mcp_.*", None),
        ("edit_file", None),
        ("read_file", None),
        ("*", None),
    ],
)
def test_a_pattern_that_is_only_a_part_of_tool_names_gets_the_one_probably_meant(
    pattern: str, hint: str | None
) -> None:
    assert Matcher("BeforeTool", pattern).hint() == hint
    if hint is not None:
        assert any(re.fullmatch(hint, tool) for tool in KNOWN_TOOLS)


# ---- when


SUBJECT = Subject(
    model="gemini-2.5-pro",
    client="GeminiCLI",
    key="0123456789ab",
    team="search",
    session_id="team-a-7",
    tools=("read_file",),
    operation="embedContent",
)


@pytest.mark.parametrize(
    ("when", "expected"),
    [
        ({}, True),
        ({"models": ["gemini-2.5-pro"]}, True),
        ({"models": "gemini-*-pro"}, True),
        ({"models": ["gemini-1*", "gemini-2.?-pro"]}, True),
        ({"models": ["GEMINI-*"]}, False),
        ({"models": []}, False),
        ({"clients": ["GeminiCLI"], "sessions": ["team-a-*"]}, True),
        ({"clients": ["GeminiCLI"], "sessions": ["team-b-*"]}, False),
        ({"keys": ["0123456789ab"], "tools": ["write_*", "read_*"]}, True),
        ({"tools": ["write_*"]}, False),
        ({"teams": "search"}, True),
        ({"teams": ["plat*", "sea*"], "clients": "GeminiCLI"}, True),
        ({"teams": ["platform"], "keys": "*"}, False),
        ({"operations": ["countTokens", "embed*"]}, True),
        ({"operations": "*enerateContent"}, False),
        ({"json": False}, True),
        ({"json": True}, False),
        ({"json": False, "teams": "platform"}, False),
    ],
    ids=str,
)
def test_a_hook_runs_when_every_list_names_what_the_event_is_about(when: Any, expected: bool) -> None:
    assert holds(When.model_validate(when), SUBJECT) is expected


@pytest.mark.parametrize("field", [name for name in When.model_fields if name != "requires_json"])
def test_what_is_not_known_is_named_by_no_list(field: str) -> None:
    assert not holds(When.model_validate({field: ["*"]}), Subject())
