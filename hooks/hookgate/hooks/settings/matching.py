"""Whether a group's matcher, and a hook's `when`, hold for what an event is about.

`matcher` is the documents': a regular expression over the whole tool name, or the exact trigger of a
session event; model and agent events have nothing to match. `when` is hookgate's own, for every event.
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
"""Gemini CLI's tools by their names in hooks; those of MCP servers come from outside."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What an event is about, as far as it is known."""

    model: str = ""
    client: str = ""
    key: str = ""
    team: str = ""
    session_id: str = ""
    tools: tuple[str, ...] = ()
    trigger: str = ""
    stream: str = ""
    """For what mode of hooks a piece of a stream is; empty for a whole answer, and all that is no answer."""


class Matcher:
    """A group's `matcher`. Everything matches "", "*" and none."""

    def __init__(self, event: str, pattern: str | None) -> None:
        """Raises re.error for a tool event's pattern that is no regular expression."""
        self._event, self.pattern = event, pattern or "*"
        regex = event in TOOL_EVENTS and self.pattern != "*"
        self._regex = re.compile(self.pattern) if regex else None

    @property
    def selects(self) -> bool:
        """Whether there is anything that does not match."""
        return self.pattern != "*" and self._event in TOOL_EVENTS | TRIGGER_EVENTS

    def matches(self, subject: Subject) -> bool:
        if self.pattern == "*":
            return True
        if self._regex is not None:
            return any(self._regex.fullmatch(tool) for tool in subject.tools)
        return self._event not in TRIGGER_EVENTS or self.pattern == subject.trigger

    def hint(self) -> str | None:
        """The pattern that was probably meant, for one that is a part of tools' names but no whole one."""
        if self._regex is None or any(self._regex.fullmatch(tool) for tool in KNOWN_TOOLS):
            return None
        begins = any(self._regex.match(tool) for tool in KNOWN_TOOLS)
        if not begins and not any(self._regex.search(tool) for tool in KNOWN_TOOLS):
            return None
        inner = f"({self.pattern})" if "|" in self.pattern else self.pattern
        return f"{inner}.*" if begins else f".*{inner}.*"


class Literally(Matcher):
    """A matcher that is taken word for word."""

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
    """Whether every list that is given has a name for the subject's value; what is not known has none."""
    return (
        _any(when.models, [subject.model])
        and _any(when.clients, [subject.client])
        and _any(when.keys, [subject.key])
        and _any(when.teams, [subject.team])
        and _any(when.sessions, [subject.session_id])
        and _any(when.tools, subject.tools)
    )


def _any(globs: Globs | None, values: Iterable[str]) -> bool:
    return globs is None or any(value and fnmatchcase(value, glob) for value in values for glob in globs)
