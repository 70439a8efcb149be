"""Reads Antigravity's `hooks.json`, a dialect of settings: named sets of hooks, by Antigravity's events.

    {"gate": {"PreToolUse": [{"matcher": "run_command", "hooks": [{"command": "./gate.sh", "timeout": 10}]}]}}

It does no I/O.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hookgate.hooks.settings.files import SettingsFile, closest_name
from hookgate.hooks.settings.positions import ValuePath

Json = dict[str, Any]

EVENTS = {
    "SessionStart": "SessionStart",
    "PreInvocation": "BeforeModel",
    "PostInvocation": "AfterModel",
    "PreToolUse": "BeforeTool",
    "PostToolUse": "AfterTool",
    "Stop": "AfterAgent",
}
_GROUPED = ("PreToolUse", "PostToolUse")

TOOLS = {
    "run_command": "run_shell_command",
    "view_file": "read_file",
    "write_to_file": "write_file",
    "replace_file_content": "replace",
    "multi_replace_file_content": "replace",
    "list_dir": "list_directory",
    "grep_search": "grep_search",
    "find_by_name": "glob",
    "search_web": "google_web_search",
    "read_url_content": "web_fetch",
}
"""Gemini CLI's tools by Antigravity's names."""

_NAMES = re.compile(r"\w+(?:\|\w+)*")
_DEFAULT_SECONDS = 30
_KEYS = ("type", "command", "timeout")


def is_antigravity(settings: Mapping[str, Any]) -> bool:
    """Return whether settings are in this dialect: no `hooks`, and an object with one of its events."""
    if "hooks" in settings or "hooksConfig" in settings:
        return False
    return any(isinstance(hooks, dict) and EVENTS.keys() & hooks.keys() for hooks in settings.values())


@dataclass(frozen=True, slots=True)
class NamedGroup:
    """A group of hooks for an event of the contract, and where it is in the file."""

    place: ValuePath
    event: str
    group: Json


def read_groups(file: SettingsFile) -> Iterator[NamedGroup]:
    """Yield the groups of a file, and add what cannot be used to its problems."""
    for name, hooks in file.settings.items():
        if not isinstance(hooks, dict):
            file.add_problem([name], ': must be an object of events, such as {"PreToolUse": []}')
            continue
        if hooks.get("enabled") is False:
            continue
        for event, entries in hooks.items():
            place = [name, event]
            if event == "enabled":
                if not isinstance(entries, bool):
                    file.add_problem(place, ": must be true or false")
            elif event not in EVENTS:
                near = closest_name(event, EVENTS)
                remedy = f"did you mean {near}?" if near else f"use one of {', '.join(EVENTS)}"
                file.add_problem(place, f": Antigravity has no such event; {remedy}")
            elif not isinstance(entries, list):
                file.add_problem(place, ": must be a list")
            else:
                for number, entry in enumerate(entries):
                    if (group := _group(file, name, event, [*place, number], entry)) is not None:
                        yield NamedGroup([*place, number], EVENTS[event], group)


def _group(file: SettingsFile, name: str, event: str, place: ValuePath, entry: Any) -> Json | None:
    is_group = event in _GROUPED
    hooks = entry.get("hooks") if is_group and isinstance(entry, dict) else [entry]
    if not isinstance(hooks, list) or not all(isinstance(hook, dict) for hook in hooks):
        form = (
            '{"matcher": "*", "hooks": [{"command": "./gate.sh"}]}'
            if is_group
            else '{"command": "./gate.sh"}'
        )
        file.add_problem(place, f": must be an object such as {form}")
        return None
    converted = [_hook(file, name, event, place, hook) for hook in hooks]
    matcher = {"matcher": _matcher(entry["matcher"])} if is_group and "matcher" in entry else {}
    return {**matcher, "sequential": True, "hooks": converted}


def _hook(file: SettingsFile, name: str, event: str, place: ValuePath, hook: Json) -> Json:
    file.check_keys(place, hook, _KEYS, f"{name}.{event}")
    seconds = hook.get("timeout", _DEFAULT_SECONDS)
    is_number = isinstance(seconds, int | float) and not isinstance(seconds, bool)
    given = {key: value for key, value in hook.items() if key in _KEYS}
    # An invocation ends with its whole answer.
    stream = {"stream": "complete"} if event == "PostInvocation" else {}
    return {
        **given,
        "name": name,
        "type": hook.get("type", "command"),
        "timeout": seconds * 1000 if is_number else seconds,
        "dialect": "antigravity",
        **stream,
    }


def _matcher(matcher: Any) -> Any:
    """Return a matcher that also matches the names by which hooks see the tools of other agents."""
    if not isinstance(matcher, str) or not _NAMES.fullmatch(matcher):
        return matcher
    names = [each for name in matcher.split("|") for each in (name, TOOLS.get(name, name))]
    return "|".join(dict.fromkeys(names))
