"""Finds matchers and conditions that never match, or that have no effect.

An unknown name is not a mistake in itself, because a matcher may name a tool of an MCP server or of an agent
other than Gemini CLI. A name that resembles a known one probably is a mistake.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

from hookgate.hooks.settings import claude_names
from hookgate.hooks.settings.configs import BuiltinConfig, When
from hookgate.hooks.settings.configuration import (
    KNOWN_TOOLS,
    LinearMatcher,
    Matcher,
    Subject,
    needs_backtracking,
)
from hookgate.hooks.settings.event_names import TOOL_EVENTS, TRIGGER_EVENTS
from hookgate.hooks.settings.files import closest_name
from hookgate.translator.fields import camel

TRIGGERS: Mapping[str, Sequence[str]] = {
    "SessionStart": ("startup", "resume", "clear", "compress"),
    "SessionEnd": ("exit", "clear", "logout", "prompt_input_exit", "other"),
    "PreCompress": ("manual", "auto"),
    "Notification": ("ToolPermission", "error", "warning", "info"),
}
"""The triggers of each event. Those of notifications are only examples."""

_CLAUDE_EVENTS = {event: claude_event for claude_event, event in claude_names.EVENTS.items()}

_SIMILAR = 0.85
"""The minimum similarity of a misspelled name to a known one, as a ratio of `difflib`."""


_HOSTED = frozenset({"googleSearch"})
"""Kinds of tools that the API runs and whose names resemble those of Gemini CLI's tools."""

_NAMES = "names are whole and without prefixes, with the wildcards *, ? and […]"
_IS_REGEX = "but is a regular expression"


_LONGEST_CHECKED = 500
"""The length of a matcher up to which it is checked. Each check compiles several variants of it."""

_MATCHES_ALL = (
    "has a lookaround or back-reference, whose time has no bound, so in a project that is not trusted as a "
    "whole the hooks run for every tool; write it without, or use --trust-project"
)
_NAMES_ONLY = re.compile(r"[\w|-]+")
_SERVER = re.compile(r"mcp__(?P<name>[^()]+?)(?:__(?P<tool>[^()]+))?|mcp_(?P<plain>[A-Za-z0-9-]+)")
"""Matches the tools of an MCP server as Claude Code names them, `mcp__SERVER__TOOL`, and a server alone."""
_WORD = re.compile(r"[A-Za-z0-9-]+")


@dataclass(frozen=True, slots=True)
class MatcherMistake:
    """A probable mistake in a matcher.

    Attributes:
        message: A description that continues the matcher's name.
        breaks_hook: Whether the mistake prevents the hooks of the group from running.
    """

    message: str
    breaks_hook: bool = True


def find_matcher_mistake(event: str, matcher: Matcher) -> MatcherMistake | None:
    """Return the probable mistake in the matcher of a group, or None."""
    if matcher.pattern == "*":
        return None
    if event in TOOL_EVENTS:
        return _pattern_mistake(matcher)
    if event in TRIGGER_EVENTS:
        return _trigger_mistake(event, matcher)
    if claude_names.is_all(matcher.pattern):
        return None
    message = f'has no effect: {event} events ignore matchers; remove it, or use "when"'
    return MatcherMistake(message, breaks_hook=False)


_NAME_OPTIONS: Mapping[str, Mapping[str, str]] = {
    "models": {"allow": "models", "deny": "models", "route.*.when.models": "models"},
    "limits": {"rules.*.models": "models"},
    "tools": {"allow": "tools", "deny.*.tool": "tools"},
}
"""By policy, the options that are names with wildcards, and what they name; `*` stands for any index."""


def condition_mistakes(when: When) -> Iterator[tuple[str, str]]:
    """Yield the conditions with names that probably never match, each with a description and a remedy."""
    for condition, names in when:
        for name in names if isinstance(names, list) else ():
            if mistake := _name_mistake(condition, name):
                yield condition, mistake


def option_mistakes(config: BuiltinConfig) -> Iterator[tuple[str, str]]:
    """Yield the options of a policy whose names or patterns probably never match, as `condition_mistakes`."""
    for option, kind in _NAME_OPTIONS.get(config.builtin, {}).items():
        for place, names in _values_at(config.options, option.split(".")):
            for name in [names] if isinstance(names, str) else names if isinstance(names, list) else ():
                if isinstance(name, str) and (mistake := _name_mistake(kind, name)):
                    yield place, mistake
    if config.builtin == "tools":
        for place, pattern in _values_at(config.options, ["deny", "*", "pattern"]):
            if isinstance(pattern, str) and (meant := wildcards_as_regex(pattern)):
                remedy = f'did you mean {meant!r}? Names with wildcards are written in "tool"'
                yield place, f"{pattern!r} is written like a shell's wildcard, {_IS_REGEX}; {remedy}"


def _values_at(value: Any, path: Sequence[str]) -> Iterator[tuple[str, Any]]:
    """Yield the values at a path, each with its place; a step `*` stands for every index of a list."""
    if not path:
        yield "", value
        return
    if path[0] == "*":
        items = [(str(at), item) for at, item in enumerate(value)] if isinstance(value, list) else []
    else:
        items = [(path[0], value[path[0]])] if isinstance(value, dict) and path[0] in value else []
    for name, item in items:
        yield from (
            (f"{name}.{place}" if place else name, found) for place, found in _values_at(item, path[1:])
        )


def _name_mistake(kind: str, name: str) -> str | None:
    """Return why a name with wildcards probably never matches, with a remedy, or None."""
    meant = [name.removeprefix("^").removesuffix("$")]
    if kind in ("models", "tools"):  # other names may have a dot before a wildcard, or a bar
        meant = regex_as_wildcards(name)
    if kind == "models":
        meant = [each.removeprefix("models/") for each in meant]
    if meant != [name]:
        shown = repr(meant[0] or "*") if len(meant) == 1 else json.dumps(meant)
        remedy = f"; did you mean {shown}?" if meant else ""
        return f"{name!r} probably never matches: {_NAMES}{remedy}"
    return _tool_name_mistake(name) if kind == "tools" else None


def _tool_name_mistake(name: str) -> str | None:
    """Return the tool of Gemini CLI that was probably meant with the name of another one, or None."""
    if name in KNOWN_TOOLS or not name.isidentifier() or camel(name) in _HOSTED:
        return None
    migrated, _ = claude_names.tools(name)
    similar = [migrated] if migrated in KNOWN_TOOLS else get_close_matches(name, KNOWN_TOOLS, 1, _SIMILAR)
    return f"{name!r} is not a tool of Gemini CLI; did you mean {similar[0]!r}?" if similar else None


def regex_as_wildcards(name: str) -> list[str]:
    """Return the names with wildcards that a regular expression probably means in their place.

    Another name is returned unchanged. The list is empty if names with wildcards cannot say the same.
    """
    meant = name.removeprefix("^").removesuffix("$")
    meant = re.sub(r"(?<![\d\]?\\])\.[*+]", "*", meant)  # names contain versions, such as 2.*
    meant = re.sub(r"\\([^\w])", r"\1", meant)
    group = re.fullmatch(r"([^()|]*)\((?:\?:)?([^()]*)\)([^()|]*)", meant)
    before, alternatives, after = group.groups() if group else ("", meant, "")
    names = [f"{before}{each}{after}" for each in alternatives.split("|")]
    has_other = re.search(r"\)[?*+{]|\[[^\][|]*\|", name) or any(_REGEX_SIGNS & set(each) for each in names)
    return [] if has_other else names


_REGEX_SIGNS = frozenset("^$()|+{}\\")
"""Characters of regular expressions that are in no name of a model or tool, and are no wildcards."""


def wildcards_as_regex(pattern: str) -> str | None:
    """Return the regular expression for a pattern with a shell's wildcard `*`, or None if it has none."""
    if not re.fullmatch(r"[\w*|-]+", pattern) or "*" not in pattern:
        return None
    return re.sub(r"\*+", ".*", pattern)


def _pattern_mistake(matcher: Matcher) -> MatcherMistake | None:
    if isinstance(matcher, LinearMatcher) and needs_backtracking(matcher.pattern):
        return MatcherMistake(_MATCHES_ALL, breaks_hook=False)
    if len(matcher.pattern) > _LONGEST_CHECKED:
        return None
    return _server_mistake(matcher) or _wildcard_mistake(matcher) or _tool_mistake(matcher)


def _server_mistake(matcher: Matcher) -> MatcherMistake | None:
    """Return the mistake in the name of an MCP server's tools. Gemini CLI calls them `mcp_SERVER_TOOL`."""
    names = matcher.pattern.split("|")
    meant = "|".join(_server_tools(name) or name for name in names)
    if meant != matcher.pattern:
        problem = "matches no tool of an MCP server, because they are named mcp_SERVER_TOOL"
        return MatcherMistake(f"{problem}; did you mean {meant!r}?")
    if _WORD.fullmatch(meant) and meant not in {*KNOWN_TOOLS, *claude_names.TOOLS}:
        problem = f"matches only a tool that is named {meant}"
        return MatcherMistake(
            f"{problem}; for the tools of an MCP server of this name, write 'mcp_{meant}_.*'",
            breaks_hook=False,
        )
    return None


def _server_tools(name: str) -> str | None:
    """Return the regular expression for the tools of a server that is named in another way, or None."""
    server = _SERVER.fullmatch(name)
    if server is None:
        return None
    return f"mcp_{server['name'] or server['plain']}_{server['tool'] or '.*'}".replace("mcp_.*_.*", "mcp_.*")


def _wildcard_mistake(matcher: Matcher) -> MatcherMistake | None:
    meant = wildcards_as_regex(matcher.pattern)
    parts = [part for part in matcher.pattern.split("|") if "*" in part]
    if meant is None or all(_tools_for(matcher, part) for part in parts):
        return None
    return MatcherMistake(f"is written like a shell's wildcard, {_IS_REGEX}; did you mean {meant!r}?")


def _tool_mistake(matcher: Matcher) -> MatcherMistake | None:
    pattern = matcher.pattern
    if _tools_for(matcher, pattern):
        return None
    if hint := matcher.hint():
        return MatcherMistake(
            "matches only part of a tool name, so it matches none of Gemini CLI's tools; "
            f"did you mean {hint!r}?"
        )
    if tools := _tools_for(matcher, f"(?i:{pattern})"):
        lower = pattern.lower()  # this changes the meaning of classes such as \S
        meant = lower if "\\" not in pattern else "|".join(tools)
        return MatcherMistake(
            "matches none of Gemini CLI's tools, because matchers are case-sensitive; "
            f"did you mean {meant!r}?"
        )
    migrated = claude_names.tools(pattern)[0] if _may_search(matcher) else ""
    if migrated not in {"", pattern} and _tools_for(matcher, migrated):
        return MatcherMistake(
            f"names tools of Claude Code, so it matches none of Gemini CLI's; did you mean {migrated!r}?"
        )
    if similar := get_close_matches(pattern, KNOWN_TOOLS, n=1, cutoff=_SIMILAR):
        message = (
            f"matches none of Gemini CLI's tools; did you mean {similar[0]!r}? "
            "Ignore this if an MCP server has a tool of this name"
        )
        return MatcherMistake(message, breaks_hook=False)
    return None


def _may_search(matcher: Matcher) -> bool:
    """Return whether Claude Code's names may be searched for the pattern, which is a backtracking search."""
    is_short = len(matcher.pattern) <= _LONGEST_CHECKED
    return is_short and (
        not isinstance(matcher, LinearMatcher) or bool(_NAMES_ONLY.fullmatch(matcher.pattern))
    )


def _tools_for(matcher: Matcher, pattern: str) -> list[str]:
    """Return the tools of Gemini CLI that another pattern matches; none if it is not a regular expression."""
    try:
        other = matcher.with_pattern(pattern)
    except re.error:
        return []
    return [tool for tool in KNOWN_TOOLS if other.matches(Subject(tools=(tool,)))]


def _trigger_mistake(event: str, matcher: Matcher) -> MatcherMistake | None:
    pattern, known = matcher.pattern, TRIGGERS[event]
    if pattern in known:
        return None
    problem = f"is compared literally and is not a trigger of {event}"
    if claude_names.is_all(pattern):
        return MatcherMistake(f"{problem}; did you mean '*'?")
    migrated = claude_names.triggers(_CLAUDE_EVENTS[event], pattern)[0] if _may_search(matcher) else []
    if len(migrated) > 1:
        return MatcherMistake(f"{problem}; use a group for each of {', '.join(map(repr, migrated))}")
    meant = migrated[0] if migrated else closest_name(pattern, known)
    if meant is not None:
        return MatcherMistake(f"{problem}; did you mean {meant!r}?")
    if event == "Notification":
        return None
    return MatcherMistake(f"{problem}; use one of {', '.join(map(repr, known))}")
