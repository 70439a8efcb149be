"""The hooks that `install` adds to an agent's settings, and how `uninstall` restores the file."""

import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path, PurePath
from typing import Any

from hookgate.hooks.settings import files
from hookgate.hooks.settings.editing import value_of, without_item, write_atomically
from hookgate.shim.command import naming

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class CommandAgent:
    """An agent that runs commands as hooks."""

    folder: str
    """The folder of its settings.json, in the home folder or a project."""
    home: str
    """The environment variable that moves the user's settings elsewhere."""
    events: tuple[str, ...]
    """Events inside the agent, which the gateway does not see on the wire, by the agent's names."""
    flags: str
    """The agent's flags for `hookgate event`."""
    named: bool
    """Whether its hooks have names."""
    timeout: int
    """The hooks' timeout, one minute in the agent's unit: longer than `hookgate event` waits."""

    def settings(self, project: Path | None) -> Path:
        """Return the settings file of a project, or of the user if `project` is None."""
        if project is not None:
            return project / self.folder / "settings.json"
        override = os.environ.get(self.home)
        if override and self.home == "CLAUDE_CONFIG_DIR":
            return Path(override) / "settings.json"
        return Path(override or Path.home()) / self.folder / "settings.json"

    def groups(self, program: str, gateway: str | None) -> dict[str, list[Json]]:
        """Return the `hooks` section of settings: for each event one hook, which runs `program`."""
        flags = f"{self.flags}{f' --gateway {shlex.quote(gateway)}' if gateway else ''}"
        name = {"name": "hookgate"} if self.named else {}
        return {
            event: [
                {
                    "hooks": [
                        {
                            **name,
                            "type": "command",
                            "command": f"{shlex.quote(program)} event {event}{flags}",
                            "timeout": self.timeout,
                        }
                    ]
                }
            ]
            for event in self.events
        }


AGENTS: Mapping[str, CommandAgent] = {
    "gemini-cli": CommandAgent(
        folder=".gemini",
        home="GEMINI_CLI_HOME",
        events=(
            "SessionStart",
            "SessionEnd",
            "BeforeAgent",
            "AfterAgent",
            "BeforeTool",
            "AfterTool",
            "PreCompress",
            "Notification",
        ),
        flags="",
        named=True,
        timeout=60_000,
    ),
    "claude-code": CommandAgent(
        folder=".claude",
        home="CLAUDE_CONFIG_DIR",
        events=tuple(naming.EVENTS),
        flags=" --from claude-code",
        named=False,
        timeout=60,
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


def installed(text: str) -> dict[str, list[Any]]:
    """Return the hooks, by event, that report to the gateway."""
    hooks = {
        event: [hook for group in _as_list(groups) for hook in _hooks_of(group) if calls_gateway(hook, event)]
        for event, groups in _hooks_by_event(text).items()
    }
    return {event: hooks for event, hooks in hooks.items() if hooks}


def without_hooks(text: str) -> str:
    """Remove the hooks that report to the gateway, and the groups, events and `hooks` that become empty."""
    for event in installed(text):
        text = _without_event(text, event)
        if not _hooks_by_event(text)[event]:
            text = _without_member(text, ["hooks", event])
            if not _hooks_by_event(text):
                text = _without_member(text, ["hooks"])
    return text


def _without_event(text: str, event: str) -> str:
    groups = _hooks_by_event(text)[event]
    for index, group in reversed(list(enumerate(groups))):
        ours = [number for number, hook in enumerate(_hooks_of(group)) if calls_gateway(hook, event)]
        if ours and len(ours) == len(_hooks_of(group)):
            text = without_item(text, ["hooks", event], index)
            continue
        for number in reversed(ours):
            text = without_item(text, ["hooks", event, index, "hooks"], number)
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


def _hooks_by_event(text: str) -> dict[str, Any]:
    value = value_of(text)
    events = value.get("hooks") if isinstance(value, dict) else None
    return events if isinstance(events, dict) else {}


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _hooks_of(group: Any) -> list[Any]:
    return _as_list(group.get("hooks")) if isinstance(group, dict) else []
