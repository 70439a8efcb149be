"""Converts the hooks of a Claude Code settings.json to a `hooks` section for Gemini CLI, with a report."""

import math
import re
import shlex
from collections.abc import Callable, Collection, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from typing import Any
from urllib.parse import urlsplit

from hookgate.hooks.settings import claude_names as names
from hookgate.hooks.settings.event_names import TOOL_EVENTS, TRIGGER_EVENTS
from hookgate.hooks.settings.files import read_settings

_RUNNERS = re.compile(
    r"python[\d.]*|node|deno|bun|bunx|npx|ruby|perl|php|bash|sh|zsh|env|exec|sudo|nohup|uv|uvx|poetry|run|-.*|\w+=.*",
    re.DOTALL,
)
"""Words that precede the actual program: interpreters, options and variables."""


def program_of(command: str) -> str:
    """Return the name of the program in a command: `python3 hooks/check_style.py --fix` -> `check_style`."""
    try:
        words = shlex.split(command)
    except ValueError:  # an unbalanced quote
        words = command.split()
    program = next((word for word in words if not _RUNNERS.fullmatch(word)), "")
    is_path = program and not re.search(r"\s", program)  # `bash -c 'several words'` is best called bash
    return _simplify(PurePosixPath(program).stem if is_path else next(iter(words), ""))


def service_of(url: str) -> str:
    """Return the host of a URL: `https://hooks.example.com/pre` -> `hooks.example.com`."""
    try:
        return _simplify(urlsplit(url).hostname or url)
    except ValueError:
        return _simplify(url)


def unique(name: str, taken: Collection[str]) -> str:
    """Return the name, with a number appended if another hook has it already."""
    number = 1
    while (numbered := name if number == 1 else f"{name}-{number}") in taken:
        number += 1
    return numbered


def _simplify(text: str) -> str:
    return re.sub(r"[^\w.-]+", "-", text).strip("-.") or "hook"


Json = dict[str, Any]
_Report = Callable[[str, str], None]
"""A function that takes a place in the settings and a message about it."""

_TARGET_KEYS = {"command": "command", "http": "url"}
"""The types of hooks that can be migrated, and the key of each type's target."""

_KEYS = {
    "command": frozenset({"type", "description", "timeout", "onFailure", "command", "args"}),
    "http": frozenset({"type", "description", "timeout", "onFailure", "url", "headers", "allowedEnvVars"}),
}

_MODEL = "Gemini CLI has no hooks of this type; the hook was left out. Call a model in a command hook"
_UNSUPPORTED_TYPES = {
    "prompt": _MODEL,
    "agent": _MODEL,
    "mcp_tool": "Gemini CLI has no hooks of this type; the hook was left out. Use a command hook",
}

_LOST_KEYS = {
    "if": "has no counterpart: the hook now runs whenever its matcher matches; check tool_input in the hook",
    "once": "has no counterpart: the hook now runs every time",
    "async": "has no counterpart: the agent now waits for it; to avoid this, end the command with `&`",
    "asyncRewake": "has no counterpart: the agent now waits for the hook",
    "statusMessage": "has no counterpart; Gemini CLI shows the hook's name",
    "shell": "has no counterpart: the command runs in bash; rewrite it if it was written for another shell",
}

_PROJECT = "${CLAUDE_PROJECT_DIR}"
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


def carry_hook(place: str, hook: Any, note: _Report) -> Json | None:
    """Return the migrated hook, without a name, or None if it cannot be migrated. Problems go to `note`."""
    kind = hook.get("type") if isinstance(hook, dict) else None
    if not isinstance(kind, str) or kind not in _TARGET_KEYS:
        note(place, _UNSUPPORTED_TYPES.get(str(kind), "has an unsupported type; the hook was left out"))
        return None
    target_key = _TARGET_KEYS[kind]
    if not isinstance(hook.get(target_key), str) or not hook[target_key].strip():
        note(f"{place}.{target_key}", "must be a non-empty string; the hook was left out")
        return None
    for key in sorted(hook.keys() - _KEYS[kind]):
        note(f"{place}.{key}", _LOST_KEYS.get(key, "has no counterpart and was left out"))
    if kind == "command":
        return {"type": kind, "command": _command_line(place, hook, note), **dict(_common(place, hook, note))}
    note(place, "a hook of type 'http' runs only in hookgate; Gemini CLI itself ignores it")
    return {"type": kind, "url": hook["url"], **_headers(hook), **dict(_common(place, hook, note))}


def _common(place: str, hook: Json, note: _Report) -> Iterator[tuple[str, Any]]:
    """Yield the keys that all types share, with the timeout in milliseconds."""
    if isinstance(hook.get("description"), str):
        yield "description", hook["description"]
    seconds = hook.get("timeout")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf:
        yield "timeout", math.ceil(seconds * 1000)
    elif seconds is not None:
        note(f"{place}.timeout", "is not a positive number of seconds; the default of 60 s is used instead")
    yield from _on_error(place, hook.get("onFailure"), note)


def _on_error(place: str, value: Any, note: _Report) -> Iterator[tuple[str, str]]:
    """Yield `on_error` for the value of `onFailure`. Claude Code, too, blocks if the value is unknown."""
    if value in (None, "continue"):
        return
    yield "on_error", "deny"
    unknown = "" if value == "block" else 'is neither "block" nor "continue"; it '
    note(f"{place}.onFailure", f"{unknown}became on_error, which only hookgate applies; Gemini CLI continues")


def _command_line(place: str, hook: Json, note: _Report) -> str:
    """Return a shell command line. With `args`, Claude Code starts the program without a shell."""
    command: str = hook["command"]
    args = hook.get("args")
    if args is None:
        return command
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        note(f"{place}.args", "is not a list of strings and was left out")
        return command
    return " ".join(_quote(word) for word in [command, *args])


def _quote(word: str) -> str:
    """Quote a word for the shell, except for the variable of the project folder."""
    parts = [shlex.quote(part) if part else "" for part in word.split(_PROJECT)]
    return f'"{_PROJECT}"'.join(parts) or "''"


def _headers(hook: Json) -> Json:
    """Return the headers. As in Claude Code, variables that `allowedEnvVars` does not list become empty."""
    headers = hook.get("headers") if isinstance(hook.get("headers"), dict) else {}
    allowed = hook.get("allowedEnvVars") if isinstance(hook.get("allowedEnvVars"), list) else []
    migrated = {
        name: _VARIABLE.sub(lambda m: m[0] if (m[1] or m[2]) in (allowed or []) else "", value)
        for name, value in (headers or {}).items()
        if isinstance(value, str)
    }
    return {"headers": migrated} if migrated else {}


@dataclass(frozen=True, slots=True)
class Note:
    """A setting that was changed or lost: its place in Claude Code's settings, and a message."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Migration:
    """The result: `hooks` {event: [group]}, the value of `hooksConfig.enabled` (`on`), and notes."""

    hooks: Mapping[str, list[Json]]
    on: bool = True
    notes: tuple[Note, ...] = ()
    left_out: int = 0
    """The number of hooks, groups and events that guard nothing now."""

    @property
    def names(self) -> frozenset[str]:
        """The names of all hooks."""
        groups = (group for groups in self.hooks.values() for group in groups)
        return frozenset(hook["name"] for group in groups for hook in group["hooks"])


def read_claude(project: Path, home: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    """Read Claude Code's settings files as far as they exist: the project's, its local one, the user's.

    The first two belong in the project's `.gemini/settings.json`, the last in the user's. Raises
    SettingsError if a file is unusable.
    """
    folders = [project, project, home] if project != home else [project, project]
    files = ("settings.json", "settings.local.json", "settings.json")
    settings: list[tuple[Path, Mapping[str, Any]]] = []
    for folder, file in zip(folders, files, strict=False):
        path = folder / ".claude" / file
        try:
            settings.append((path, read_settings(path).settings))
        except FileNotFoundError:
            continue
    return settings


def migrate(settings: Mapping[str, Any], taken: Collection[str] = ()) -> Migration:
    """Migrate the hooks of a Claude Code settings.json to Gemini CLI and hookgate.

    `taken` are names that other hooks in the target file already have.
    """
    migrator = _Migrator(set(taken))
    migrator.file(settings)
    on = not settings.get("disableAllHooks")
    return Migration(migrator.hooks, on, tuple(migrator.notes), migrator.left_out)


@dataclass
class _Migrator:
    """The state of a migration: the names in use, the migrated groups, and the notes."""

    names: set[str]
    hooks: dict[str, list[Json]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    left_out: int = 0

    def note(self, place: str, message: str) -> None:
        self.notes.append(Note(place, message))

    def file(self, settings: Mapping[str, Any]) -> None:
        for key in sorted(settings.keys() & _SWITCHES.keys()):
            if settings[key]:
                self.note(key, _SWITCHES[key])
        events = settings.get("hooks", {})
        if not isinstance(events, dict):
            self.note("hooks", "is not an object of events and was left out; correct it there first")
            self.left_out += 1
            return
        for event, groups in events.items():
            place = f"hooks.{event}"
            if event not in names.EVENTS:
                advice = _ALTERNATIVES.get(event, "" if event in names.KNOWN_EVENTS else _UNKNOWN)
                self.note(place, f"Gemini CLI has no such event; its hooks were left out{advice}")
                self.left_out += 1
                continue
            if event in names.WIDER:
                self.note(place, f"became {names.EVENTS[event]}, {names.WIDER[event]}")
            if not isinstance(groups, list):
                self.note(place, "is not a list and was left out; write a list of groups")
                self.left_out += 1
            else:
                for number, group in enumerate(groups):
                    self.group(f"{place}[{number}]", event, group)

    def group(self, place: str, event: str, group: Any) -> None:
        if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
            self.note(place, 'was left out; a group is {"matcher": …, "hooks": [ … ]}')
            self.left_out += 1
            return
        for key in sorted(group.keys() - {"matcher", "hooks", "description"}):
            self.note(f"{place}.{key}", "is not known for a group and was left out")
        matchers = self.matchers(place, event, group.get("matcher"))
        configs = [
            config
            for number, hook in enumerate(group["hooks"] if matchers else ())
            if (config := carry_hook(f"{place}.hooks[{number}]", hook, self.note))
        ]
        self.left_out += len(group["hooks"]) - len(configs)
        for matcher in matchers if configs else ():
            named = [{"name": self.name(config), **config} for config in configs]
            new_group = {"hooks": named} if matcher is None else {"matcher": matcher, "hooks": named}
            self.hooks.setdefault(names.EVENTS[event], []).append(new_group)

    def matchers(self, place: str, event: str, matcher: Any) -> list[str | None]:
        """Return the matchers of the groups that replace this group. None matches everything."""
        if event in names.FIXED_MATCHERS:
            if matcher is not None and not (isinstance(matcher, str) and names.is_all(matcher)):
                self.note(f"{place}.matcher", "has no counterpart; the hook now runs for all of them")
            return [names.FIXED_MATCHERS[event]]
        if matcher is None or (isinstance(matcher, str) and names.is_all(matcher)):
            return [None]
        place = f"{place}.matcher"
        if not isinstance(matcher, str):
            self.note(place, "is not a string, and the group was left out; write a regular expression")
            return []
        if names.EVENTS[event] in TOOL_EVENTS:
            pattern, lost = names.tools(matcher)
            new = [pattern] if pattern else []
        elif names.EVENTS[event] in TRIGGER_EVENTS:
            new, lost = names.triggers(event, matcher)
        else:
            return [None]  # these events have nothing to match
        for alternative in lost:
            self.note(place, _lost_matcher(alternative, whole_group=not new))
        if event == "SessionStart" and "compress" in new:
            self.note(
                place, "'compact' became 'compress', which Gemini CLI 0.61 never sends; use PreCompress"
            )
        return [*new]

    def name(self, config: Json) -> str:
        command = config.get("command")
        derived = service_of(config["url"]) if command is None else program_of(command)
        name = unique(derived, self.names)
        self.names.add(name)
        return name


_SWITCHES = {
    "disableAllHooks": "became hooksConfig.enabled = false, so no hook runs until that is true",
    "allowManagedHooksOnly": "has no counterpart; hooks of a policy file outrank all others in hookgate",
    "allowedHttpHookUrls": "was left out; list what http hooks may post to in hooksConfig.http_targets",
    "httpHookAllowedEnvVars": "was left out; a header may name any variable, so check `headers`",
}
"""Other keys of Claude Code's settings that are about hooks."""

_UNKNOWN = "; hookgate does not know this event of Claude Code: check its name"
_ALTERNATIVES = {
    "PostToolBatch": "; use AfterTool, which fires for each tool",
    "StopFailure": "; the gateway logs failed calls",
    "PostCompact": "; PreCompress comes closest, and cannot stop anything",
    "PreModelSwitch": "; the policy `models` judges the model of each call",
    "PostModelSwitch": "; the policy `models` judges the model of each call",
    "PermissionDenied": "; the audit records denied calls",
    "Setup": "; use SessionStart",
    "TaskCreated": "; BeforeTool with the matcher 'write_todos' comes closest",
    "TaskCompleted": "; AfterTool with the matcher 'write_todos' comes closest",
    "Elicitation": "; use Notification, which cannot stop anything",
    "InstructionsLoaded": "; BeforeModel sees the instructions of each call",
    "MessageDisplay": "; AfterModel sees each answer",
}
"""What to use in place of an event without a counterpart."""


def _lost_matcher(lost: str, whole_group: bool) -> str:
    if "(" in lost and names.TOOLS.keys() & {lost.partition("(")[0]}:
        reason = f"{lost!r}: a matcher cannot check arguments; match the tool and read tool_input in the hook"
    else:
        reason = f"{lost!r} has no counterpart in Gemini CLI"
    return f"{reason}; the group was left out" if whole_group else f"{reason}; that part was left out"
