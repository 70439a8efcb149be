"""Matches groups and hooks against events, by `matcher` and `when`.

`matcher` is defined by Gemini CLI: a regular expression for the whole tool name, or the exact trigger of a
session event. Model and agent events have nothing to match. `when` is hookgate's own, for all events.
"""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from fnmatch import fnmatchcase

from hookgate.hooks.settings.configs import Globs, When

TOOL_EVENTS = frozenset({"BeforeTool", "AfterTool"})
TRIGGER_EVENTS = frozenset({"SessionStart", "SessionEnd", "PreCompress", "Notification"})

KNOWN_TOOLS = (
    "read_file",
    "read_many_files",
    "write_file",
    "replace",
    "list_directory",
    "glob",
    "search_file_content",
    "grep_search",
    "run_shell_command",
    "google_web_search",
    "web_fetch",
    "write_todos",
    "save_memory",
    "delegate_to_agent",
    "activate_skill",
    "ask_user",
    "invoke_agent",
    "enter_plan_mode",
    "exit_plan_mode",
)
"""The names of Gemini CLI's tools in hooks, without those of MCP servers."""


@dataclass(frozen=True, slots=True)
class Subject:
    """The properties of an event that matchers and `when` can check, as far as they are known."""

    model: str = ""
    client: str = ""
    key: str = ""
    team: str = ""
    session_id: str = ""
    tools: tuple[str, ...] = ()
    trigger: str = ""
    stream: str = ""
    """The stream mode of the hooks that a piece of a streamed answer is for; empty for all other events."""


class Matcher:
    """A group's `matcher`. The patterns "", "*" and None match everything."""

    def __init__(self, event: str, pattern: str | None) -> None:
        """Compile the pattern. Raises re.error if a tool event's pattern is not a regular expression."""
        self._event, self.pattern = event, pattern or "*"
        regex = event in TOOL_EVENTS and self.pattern != "*"
        self._regex = re.compile(self.pattern) if regex else None

    @property
    def selects(self) -> bool:
        """Whether there are events that do not match."""
        return self.pattern != "*" and self._event in TOOL_EVENTS | TRIGGER_EVENTS

    def matches(self, subject: Subject) -> bool:
        """Return whether the event with these properties matches."""
        if self.pattern == "*":
            return True
        if self._regex is not None:
            return any(self._regex.fullmatch(tool) for tool in subject.tools)
        return self._event not in TRIGGER_EVENTS or self.pattern == subject.trigger

    def hint(self) -> str | None:
        """Suggest another pattern if this one matches parts of known tool names, but no whole name."""
        if self._regex is None or any(self._regex.fullmatch(tool) for tool in KNOWN_TOOLS):
            return None
        begins = any(self._regex.match(tool) for tool in KNOWN_TOOLS)
        if not begins and not any(self._regex.search(tool) for tool in KNOWN_TOOLS):
            return None
        inner = f"({self.pattern})" if "|" in self.pattern else self.pattern
        return f"{inner}.*" if begins else f".*{inner}.*"


class Literally(Matcher):
    """A matcher that compares tool names with a literal string."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern

    @property
    def selects(self) -> bool:
        return True

    def matches(self, subject: Subject) -> bool:
        return self.pattern in subject.tools

    def hint(self) -> str | None:
        return None


def holds(when: When, subject: Subject) -> bool:
    """Return whether all lists in `when` match. An unknown property, such as no API key, matches no list."""
    return (
        _matches_any(when.models, [subject.model])
        and _matches_any(when.clients, [subject.client])
        and _matches_any(when.keys, [subject.key])
        and _matches_any(when.teams, [subject.team])
        and _matches_any(when.sessions, [subject.session_id])
        and _matches_any(when.tools, subject.tools)
    )


def _matches_any(globs: Globs | None, values: Iterable[str]) -> bool:
    return globs is None or any(value and fnmatchcase(value, glob) for value in values for glob in globs)
