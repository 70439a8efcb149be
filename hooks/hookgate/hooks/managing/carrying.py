"""One hook of Claude Code as a hook of Gemini CLI or, for type `http`, of hookgate. Pure."""

import math
import re
import shlex
from collections.abc import Callable, Iterator
from typing import Any

Json = dict[str, Any]
Note = Callable[[str, str], None]
"""Takes a place and what is to be told of it."""

_RUNS = {"command": "command", "http": "url"}
"""The types that can be carried, and the key that says what runs."""

_KEYS = {
    "command": frozenset({"type", "description", "timeout", "command", "args"}),
    "http": frozenset({"type", "description", "timeout", "url", "headers", "allowedEnvVars"}),
}

_MODEL = "asks a model, which no Gemini CLI hook does; the hook was left out. Ask it in a command hook"
_NO_TYPE = {
    "prompt": _MODEL,
    "agent": _MODEL,
    "mcp_tool": "calls an MCP tool, which no Gemini CLI hook does; the hook was left out. Use a command hook",
}

_LOST = {
    "if": "has no counterpart: the hook now runs whenever its matcher holds; check tool_input in the hook",
    "once": "has no counterpart: the hook now runs every time",
    "async": "has no counterpart: the agent now waits for it; end the command with `&` to let it run on",
    "asyncRewake": "has no counterpart: the agent now waits for the hook",
    "statusMessage": "has no counterpart; Gemini CLI shows the hook's name",
    "shell": "has no counterpart: the command runs in bash; rewrite it if it was written for another shell",
}

_PROJECT = "${CLAUDE_PROJECT_DIR}"
_VARIABLE = re.compile(r"\$(?:(\w+)|\{(\w+)\})")


def carried(place: str, hook: Any, note: Note) -> Json | None:
    """The hook without a name, its time in milliseconds; None, and a note, for one that cannot be carried."""
    kind = hook.get("type") if isinstance(hook, dict) else None
    if not isinstance(kind, str) or kind not in _RUNS:
        note(place, _NO_TYPE.get(str(kind), "is of no type that can be carried; the hook was left out"))
        return None
    what = _RUNS[kind]
    if not isinstance(hook.get(what), str) or not hook[what].strip():
        note(f"{place}.{what}", "has to be a text that says what to run; the hook was left out")
        return None
    for key in sorted(hook.keys() - _KEYS[kind]):
        note(f"{place}.{key}", _LOST.get(key, "has no counterpart and was left out"))
    if kind == "command":
        return {"type": kind, "command": _line(place, hook, note), **dict(_common(place, hook, note))}
    note(place, "a hook of type 'http' runs in hookgate alone; Gemini CLI itself ignores it")
    return {"type": kind, "url": hook["url"], **_headers(hook), **dict(_common(place, hook, note))}


def _common(place: str, hook: Json, note: Note) -> Iterator[tuple[str, Any]]:
    if isinstance(hook.get("description"), str):
        yield "description", hook["description"]
    seconds = hook.get("timeout")
    if isinstance(seconds, int | float) and not isinstance(seconds, bool) and 0 < seconds < math.inf:
        yield "timeout", math.ceil(seconds * 1000)
    elif seconds is not None:
        note(f"{place}.timeout", "is no positive number of seconds; the default of 60 s holds instead")


def _line(place: str, hook: Json, note: Note) -> str:
    """A line for the shell. With `args` Claude Code starts a program and fills in its own folders."""
    command: str = hook["command"]
    args = hook.get("args")
    if args is None:
        return command
    if not isinstance(args, list) or not all(isinstance(arg, str) for arg in args):
        note(f"{place}.args", "is no list of texts and was left out")
        return command
    return " ".join(_quoted(word) for word in [command, *args])


def _quoted(word: str) -> str:
    """The word in quotes, but for the project's folder, which the shell fills in."""
    parts = [shlex.quote(part) if part else "" for part in word.split(_PROJECT)]
    return f'"{_PROJECT}"'.join(parts) or "''"


def _headers(hook: Json) -> Json:
    """Only variables that `allowedEnvVars` lists are filled in, in Claude Code; the others are empty."""
    given, listed = hook.get("headers"), hook.get("allowedEnvVars")
    headers = given if isinstance(given, dict) else {}
    allowed = listed if isinstance(listed, list) else []
    kept = {
        name: _VARIABLE.sub(lambda m: m[0] if (m[1] or m[2]) in allowed else "", value)
        for name, value in headers.items()
        if isinstance(value, str)
    }
    return {"headers": kept} if kept else {}
