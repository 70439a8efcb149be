"""The hooks that `install` adds to an agent's settings, and how `uninstall` restores the file."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from hookgate.hooks.settings import files
from hookgate.hooks.settings.editing import (
    hooks_of,
    put,
    value_of,
    with_hooks,
    without_item,
    write_atomically,
)

Json = dict[str, Any]


_EMPTY = "''"
"""An empty word of the shell, which can stand within another."""


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """An agent that runs commands as hooks, and the form of its settings."""

    folder: str
    """The folder of the user's settings, in the home folder."""
    file: str
    """The file in that folder."""
    project_file: str
    """The file in a project."""
    events: tuple[str, ...]
    """Events inside the agent, which the gateway does not see on the wire, by the agent's names."""
    hook: Mapping[str, Any]
    """The keys of each hook besides its command. A timeout is one minute: `hookgate event` waits less."""
    dialect: str = ""
    """The name of its dialect; empty for the contract itself."""
    home: str = ""
    """The environment variable that moves the user's settings elsewhere."""
    home_is_folder: bool = True
    """Whether the variable names the folder itself, or the one that contains it."""
    section: str = "hooks"
    """The key of the object of events."""
    group: Mapping[str, Any] | None = field(default_factory=dict)
    """The keys of a group besides its hooks; None if the lists of events contain hooks, and no groups."""
    ungrouped: frozenset[str] = frozenset()
    """The events whose lists contain hooks, although those of others contain groups."""
    closed: Mapping[str, Any] = field(default_factory=dict)
    """The keys with which a hook that fails denies."""
    top: Mapping[str, Any] = field(default_factory=dict)
    """What the file must contain besides hooks."""
    double_slashes: bool = True
    """Whether strings may contain `//`, which Cursor is reported to take for a comment."""

    def settings(self, project: Path | None) -> Path:
        """Return the settings file of a project, or of the user if `project` is None."""
        if project is not None:
            return project / self.project_file
        override = os.environ.get(self.home) if self.home else None
        if override and self.home_is_folder:
            return Path(override) / self.file
        return Path(override or Path.home()) / self.folder / self.file

    def groups(self, program: str, gateway: str | None, *, denies: bool = False) -> dict[str, list[Json]]:
        """Return the hooks of each event, in the form of the settings: one, which runs `program`.

        `denies`: an event is denied if there is no verdict.
        """
        flags = f" --from {self.dialect}" if self.dialect else ""
        if gateway:
            url = shlex.quote(gateway)
            flags += f" --gateway {url if self.double_slashes else url.replace('//', _EMPTY.join('//'))}"
        flags += " --on-unreachable deny" if denies else ""
        return {
            event: [
                self._entry(
                    event,
                    {
                        **self.hook,
                        "command": f"{shlex.quote(program)} event {event}{flags}",
                        **(self.closed if denies else {}),
                    },
                )
            ]
            for event in self.events
        }

    def _entry(self, event: str, hook: Json) -> Json:
        grouped = self.group is not None and event not in self.ungrouped
        return {**(self.group or {}), "hooks": [hook]} if grouped else hook

    def with_hooks_of_agent(self, text: str, program: str, gateway: str | None, *, denies: bool) -> str:
        """Return the text of settings with the hooks, and with what the file must contain besides them."""
        for key, value in self.top.items():
            if key not in value_of(text):
                text = put(text, [key], value)
        return with_hooks(text, self.groups(program, gateway, denies=denies), self.section)


AGENTS: Mapping[str, CommandAgent] = {
    "gemini-cli": CommandAgent(
        ".gemini",
        "settings.json",
        ".gemini/settings.json",
        (
            "SessionStart",
            "SessionEnd",
            "BeforeAgent",
            "AfterAgent",
            "BeforeTool",
            "AfterTool",
            "PreCompress",
            "Notification",
        ),
        {"name": "hookgate", "type": "command", "timeout": 60_000},
        home="GEMINI_CLI_HOME",
        home_is_folder=False,
    ),
    "claude-code": CommandAgent(
        ".claude",
        "settings.json",
        ".claude/settings.json",
        (
            "PreToolUse",
            "PostToolUse",
            "PostToolUseFailure",
            "UserPromptSubmit",
            "Stop",
            "Notification",
            "SessionStart",
            "SessionEnd",
            "PreCompact",
        ),
        {"type": "command", "timeout": 60},
        "claude-code",
        "CLAUDE_CONFIG_DIR",
        closed={"onFailure": "block"},
    ),
    "codex": CommandAgent(
        ".codex",
        "hooks.json",
        ".codex/hooks.json",
        (
            "PreToolUse",
            "PostToolUse",
            "UserPromptSubmit",
            "Stop",
            "SessionStart",
            "SessionEnd",
            "PreCompact",
        ),
        {"type": "command", "timeout": 60},
        "codex",
        "CODEX_HOME",
    ),
    "cursor": CommandAgent(
        ".cursor",
        "hooks.json",
        ".cursor/hooks.json",
        (
            "preToolUse",
            "beforeReadFile",
            "postToolUse",
            "postToolUseFailure",
            "beforeSubmitPrompt",
            "stop",
            "sessionStart",
            "sessionEnd",
            "preCompact",
        ),
        {"timeout": 60},
        "cursor",
        group=None,
        closed={"failClosed": True},
        top={"version": 1},
        double_slashes=False,
    ),
    "copilot": CommandAgent(
        ".copilot",
        "hooks/hookgate.json",
        ".github/hooks/hookgate.json",
        (
            "preToolUse",
            "postToolUse",
            "postToolUseFailure",
            "userPromptSubmitted",
            "agentStop",
            "sessionStart",
            "sessionEnd",
            "preCompact",
            "notification",
        ),
        {"type": "command", "timeoutSec": 60},
        "copilot",
        "COPILOT_HOME",
        group=None,
        top={"version": 1},
    ),
    "antigravity": CommandAgent(
        ".gemini/config",
        "hooks.json",
        ".agents/hooks.json",
        ("SessionStart", "PreInvocation", "PreToolUse", "PostToolUse", "PostInvocation", "Stop"),
        {"type": "command", "timeout": 60},
        "antigravity",
        section="hookgate",
        group={"matcher": "*"},
        ungrouped=frozenset({"SessionStart", "PreInvocation", "PostInvocation", "Stop"}),
    ),
}


def calls_gateway(hook: Any, event: str) -> bool:
    """Return whether a hook in settings is one that `install` writes, for any program path and gateway."""
    command = hook.get("command") if isinstance(hook, dict) else None
    try:
        words = shlex.split(command) if isinstance(command, str) else []
    except ValueError:  # an unclosed quote
        return False
    return len(words) > 2 and PurePath(words[0]).name == "hookgate" and words[1:3] == ["event", event]


@dataclass(frozen=True, slots=True)
class InstallRecord:
    """What `install` did to one settings file."""

    digest: str
    """The digest of the text after the installation."""
    added: list[tuple[int, int]]
    """The spans of the text that were added."""
    made: bool
    """Whether the file was created."""

    def original(self, text: str) -> str | None:
        """Return the text without the additions. Returns None if it was changed since the installation."""
        if _digest(text) != self.digest:
            return None
        for begin, end in reversed(self.added):
            text = text[:begin] + text[end:]
        return text


class InstallRecords:
    """The install records in hookgate's state folder."""

    def __init__(self, state: Path) -> None:
        self._folder = state / "shim"

    def read(self, settings: Path) -> InstallRecord | None:
        """Return the record of a settings file. Returns None if there is none, or if it cannot be read."""
        try:
            value = json.loads(self._path(settings).read_bytes())
            return InstallRecord(
                value["digest"], [(int(a), int(b)) for a, b in value["added"]], bool(value["made"])
            )
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def keep(self, settings: Path, before: str, after: str, made: bool) -> None:
        """Record how to restore `before` from `after`. Raises OSError."""
        added = _additions(before, after)
        if added is None:  # something was replaced, so there is no exact way back
            return self.drop(settings)
        record = {"settings": str(settings), "digest": _digest(after), "added": added, "made": made}
        return write_atomically(self._path(settings), json.dumps(record))

    def drop(self, settings: Path) -> None:
        """Delete the record of a settings file."""
        self._path(settings).unlink(missing_ok=True)

    def _path(self, settings: Path) -> Path:
        return self._folder / f"{_digest(str(settings.resolve()))[:16]}.json"


def _additions(before: str, after: str) -> list[tuple[int, int]] | None:
    """Return the spans that were added to `before`. Returns None if anything was removed or replaced."""
    added: list[tuple[int, int]] = []
    start = 0
    for character in before:
        position = after.find(character, start)
        if position < 0:
            return None
        if position > start:
            added.append((start, position))
        start = position + 1
    if start < len(after):
        added.append((start, len(after)))
    return added


def _digest(text: str) -> str:
    return sha256(text.encode(errors="surrogatepass")).hexdigest()


def installed_hooks(text: str, section: str = "hooks") -> dict[str, list[Any]]:
    """Return the hooks, by event, that report to the gateway. `section` is the key of the events."""
    hooks = {
        event: [hook for group in _as_list(groups) for hook in hooks_of(group) if calls_gateway(hook, event)]
        for event, groups in _hooks_by_event(text, section).items()
    }
    return {event: hooks for event, hooks in hooks.items() if hooks}


def without_hooks(text: str, section: str = "hooks") -> str:
    """Remove the hooks that report to the gateway, and the groups, events and section that become empty."""
    for event in installed_hooks(text, section):
        text = _without_event(text, section, event)
        if not _hooks_by_event(text, section)[event]:
            text = _without_member(text, [section, event])
            if not _hooks_by_event(text, section):
                text = _without_member(text, [section])
    return text


def _without_event(text: str, section: str, event: str) -> str:
    groups = _hooks_by_event(text, section)[event]
    for index, group in reversed(list(enumerate(groups))):
        ours = [number for number, hook in enumerate(hooks_of(group)) if calls_gateway(hook, event)]
        if ours and len(ours) == len(hooks_of(group)):
            text = without_item(text, [section, event], index)
            continue
        for number in reversed(ours):
            text = without_item(text, [section, event, index, "hooks"], number)
    return text


def _without_member(text: str, path: list[str]) -> str:
    """Remove a member from its object, with its comma and the white space before it.

    Next to a comment, which may belong to the member, white space is kept if it is the only member. Any other
    member next to a comment is not removed.
    """
    span = files.span_of(text, path)
    code = files.without_comments(text)
    begin = code.rfind(f'"{path[-1]}"', 0, span[0]) if span else -1
    if span is None or begin < 0:
        return text
    end = span[1]
    before = len(code[:begin].rstrip())
    after = len(code) - len(code[end:].lstrip())
    if text[before:begin].strip() or text[end:after].strip():
        return text[:begin] + text[end:] if code[before - 1] == "{" and code[after] == "}" else text
    if code[before - 1] == ",":
        return text[: before - 1] + text[end:]
    return text[:before] + (text[after + 1 :] if code[after] == "," else text[after:])


def _hooks_by_event(text: str, section: str) -> dict[str, Any]:
    value = value_of(text)
    events = value.get(section) if isinstance(value, dict) else None
    return events if isinstance(events, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
