"""Claude Code's hooks as Gemini CLI's: a settings.json in, a `hooks` section and a report out.

`migrate` is pure. What Gemini CLI has no counterpart of is never dropped in silence: a note names its place
in Claude Code's file, what it is and the remedy.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hookgate.hooks.managing import claude, naming
from hookgate.hooks.managing.carrying import carried
from hookgate.hooks.settings.matching import TOOL_EVENTS, TRIGGER_EVENTS
from hookgate.hooks.settings.reading import read_settings

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Note:
    """One thing that was not carried as it was: its place in Claude Code's settings, what, and the remedy."""

    place: str
    message: str

    def __str__(self) -> str:
        return f"{self.place}: {self.message}"


@dataclass(frozen=True, slots=True)
class Migration:
    """The `hooks` {event: [group]} of a settings.json, its `hooksConfig.enabled` (`on`), and the notes."""

    hooks: Mapping[str, list[Json]]
    on: bool = True
    notes: tuple[Note, ...] = ()

    @property
    def names(self) -> frozenset[str]:
        groups = (group for groups in self.hooks.values() for group in groups)
        return frozenset(hook["name"] for group in groups for hook in group["hooks"])


def read_claude(project: Path, home: Path) -> list[tuple[Path, Mapping[str, Any]]]:
    """Claude Code's settings files that there are: the project's, its local one, the user's.

    The first two belong into the project's `.gemini/settings.json`, the last into the user's. Raises
    SettingsError for a file that cannot be used.
    """
    folders = [project, project, home] if project != home else [project, project]
    files = ("settings.json", "settings.local.json", "settings.json")
    found: list[tuple[Path, Mapping[str, Any]]] = []
    for folder, file in zip(folders, files, strict=False):
        path = folder / ".claude" / file
        try:
            found.append((path, read_settings(path).settings))
        except FileNotFoundError:
            continue
    return found


def migrate(settings: Mapping[str, Any], taken: Collection[str] = ()) -> Migration:
    """The hooks of a whole Claude Code settings.json, for Gemini CLI and hookgate.

    `taken` are the names of hooks from other files that go to the same place.
    """
    migrating = _Migrating(set(taken))
    migrating.file(settings)
    return Migration(migrating.hooks, not settings.get("disableAllHooks"), tuple(migrating.notes))


@dataclass
class _Migrating:
    """One file on its way: the names given so far, the groups made, the notes taken."""

    names: set[str]
    hooks: dict[str, list[Json]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)

    def note(self, place: str, message: str) -> None:
        self.notes.append(Note(place, message))

    def file(self, settings: Mapping[str, Any]) -> None:
        for key in sorted(settings.keys() & _SWITCHES.keys()):
            if settings[key]:
                self.note(key, _SWITCHES[key])
        events = settings.get("hooks", {})
        if not isinstance(events, dict):
            self.note("hooks", "is no object of events and was left out; correct it there first")
            return
        for event, groups in events.items():
            place = f"hooks.{event}"
            if event not in claude.EVENTS:
                closest = _CLOSEST.get(event, "")
                self.note(place, f"Gemini CLI has no such event; its hooks were left out{closest}")
            elif not isinstance(groups, list):
                self.note(place, "is no list and was left out; write a list of groups")
            else:
                for number, group in enumerate(groups):
                    self.group(f"{place}[{number}]", event, group)

    def group(self, place: str, event: str, group: Any) -> None:
        if not isinstance(group, dict) or not isinstance(group.get("hooks"), list):
            self.note(place, 'was left out; a group is {"matcher": …, "hooks": [ … ]}')
            return
        for key in sorted(group.keys() - {"matcher", "hooks", "description"}):
            self.note(f"{place}.{key}", "is not known for a group and was left out")
        matchers = self.matchers(place, event, group.get("matcher"))
        configs = [
            config
            for number, hook in enumerate(group["hooks"] if matchers else ())
            if (config := carried(f"{place}.hooks[{number}]", hook, self.note))
        ]
        for matcher in matchers if configs else ():
            named = [{"name": self.name(config), **config} for config in configs]
            made = {"hooks": named} if matcher is None else {"matcher": matcher, "hooks": named}
            self.hooks.setdefault(claude.EVENTS[event], []).append(made)

    def matchers(self, place: str, event: str, matcher: Any) -> list[str | None]:
        """One matcher for each group that the group becomes; None lets everything through."""
        if matcher is None or (isinstance(matcher, str) and claude.is_all(matcher)):
            return [None]
        place = f"{place}.matcher"
        if not isinstance(matcher, str):
            self.note(place, "is no text, and the group was left out; write a regular expression")
            return []
        if claude.EVENTS[event] in TOOL_EVENTS:
            pattern, lost = claude.tools(matcher)
            new = [pattern] if pattern else []
        elif claude.EVENTS[event] in TRIGGER_EVENTS:
            new, lost = claude.triggers(event, matcher)
        else:
            return [None]  # neither side has anything to match there
        for each in lost:
            self.note(place, _lost_matcher(each, gone=not new))
        if event == "SessionStart" and "compress" in new:
            self.note(
                place, "'compact' became 'compress', which Gemini CLI 0.61 never sends; use PreCompress"
            )
        return [*new]

    def name(self, config: Json) -> str:
        command = config.get("command")
        derived = naming.service_of(config["url"]) if command is None else naming.program_of(command)
        name = naming.unique(derived, self.names)
        self.names.add(name)
        return name


_SWITCHES = {
    "disableAllHooks": "is carried as hooksConfig.enabled = false, so nothing runs until that is true",
    "allowManagedHooksOnly": "has no counterpart; hooks of a policy file outrank all others in hookgate",
    "allowedHttpHookUrls": "was left out; list what http hooks may post to in hooksConfig.http_targets",
    "httpHookAllowedEnvVars": "was left out; a header may name any variable, so check `headers`",
}
"""Keys of Claude Code's settings, beside `hooks`, that are about hooks."""

_CLOSEST = {
    "SubagentStop": "; AfterTool with the matcher 'delegate_to_agent|invoke_agent' comes closest",
    "PostToolUseFailure": "; AfterTool fires for failed tools too",
    "PermissionRequest": "; decide in BeforeTool, or hear of it in Notification, matcher 'ToolPermission'",
}


def _lost_matcher(lost: str, gone: bool) -> str:
    if "(" in lost and claude.TOOLS.keys() & {lost.partition("(")[0]}:
        told = f"{lost!r}: a matcher cannot look at arguments; match the tool and read tool_input in the hook"
    else:
        told = f"{lost!r} has no counterpart in Gemini CLI"
    return f"{told}; the group was left out" if gone else f"{told}; that part was left out"
