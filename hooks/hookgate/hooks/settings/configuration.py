"""The configuration of hooks: its layers and files, matchers and conditions, and which hooks run."""

import os
import re
import warnings
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Literal

from hookgate.hooks.settings.configs import (
    AnyConfig,
    BuiltinConfig,
    CommandConfig,
    Globs,
    HttpConfig,
    OnError,
    StreamMode,
    When,
    shown_url,
)
from hookgate.hooks.settings.event_names import ADVISORY, TOOL_EVENTS, TRIGGER_EVENTS
from hookgate.hooks.settings.policies import POLICIES
from hookgate.hooks.settings.sources import GEMINI_LAYERS, Layer, NumberedText

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
    operation: str = ""
    requires_json: bool = False
    stream: str = ""
    """The stream mode of the hooks that a piece of a streamed answer is for; empty for all other events."""


_LONGEST_TOOL = 256
"""The maximum length of a tool's name that is compared with patterns; the APIs allow 64 or 128 characters."""

_NAMED_GROUPS = re.compile(
    r"""\\k<(?P<reference>\w+)> | \(\?<(?=[A-Za-z_])
    | \\. | \[\^?\]?(?:\\.|[^\]\\])*\]""",
    re.VERBOSE | re.DOTALL,
)
"""Matches JavaScript's named groups and references, or an escaped character or a class, which have none."""


def _python_regex(pattern: str) -> str:
    """Return a regular expression of JavaScript in Python's syntax, which differs for named groups."""

    def converted(found: re.Match[str]) -> str:
        if found["reference"]:
            return f"(?P={found['reference']})"
        return "(?P<" if found[0] == "(?<" else found[0]

    return _NAMED_GROUPS.sub(converted, pattern)


class Matcher:
    """A group's `matcher`, without surrounding blanks. The patterns "", "*" and None match everything."""

    def __init__(self, event: str, pattern: str | None) -> None:
        """Compile the pattern. Raises re.error if a tool event's pattern is not a regular expression."""
        self._event, self.pattern = event, (pattern or "").strip() or "*"
        is_regex = event in TOOL_EVENTS and self.pattern != "*"
        self._regex = self._compile(self.pattern) if is_regex else None

    @staticmethod
    def _compile(pattern: str) -> re.Pattern[str]:
        """Return a regular expression. Raises re.error."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # of classes such as `[[a]`, which mean the same
            return re.compile(_python_regex(pattern))

    def with_pattern(self, pattern: str) -> "Matcher":
        """Return a matcher of the same kind for another pattern. Raises re.error."""
        return type(self)(self._event, pattern)

    @property
    def checks(self) -> str:
        """The property of a Subject that must match; empty if all events match."""
        if self.pattern == "*":
            return ""
        return "tools" if self._event in TOOL_EVENTS else "trigger" if self._event in TRIGGER_EVENTS else ""

    def matches(self, subject: Subject) -> bool:
        """Return whether the event with these properties matches."""
        if self.pattern == "*":
            return True
        if self._regex is not None:
            return any(self._matches_tool(self._regex, tool) for tool in subject.tools)
        return self._event not in TRIGGER_EVENTS or self.pattern == subject.trigger

    @staticmethod
    def _matches_tool(regex: re.Pattern[str], tool: str) -> bool:
        """Return whether a tool's name matches. A name that no tool has matches every pattern.

        Clients and models choose names. In a long one, the search may take time that grows with its square,
        and `.` does not match a line end.
        """
        return len(tool) > _LONGEST_TOOL or not tool.isprintable() or regex.fullmatch(tool) is not None

    def hint(self) -> str | None:
        """Suggest another pattern if this one matches parts of known tool names, but no whole name."""
        if self._regex is None or any(self._regex.fullmatch(tool) for tool in KNOWN_TOOLS):
            return None
        begins = any(self._regex.match(tool) for tool in KNOWN_TOOLS)
        if not begins and not any(self._regex.search(tool) for tool in KNOWN_TOOLS):
            return None
        inner = f"({self.pattern})" if "|" in self.pattern else self.pattern
        return f"{inner}.*" if begins else f".*{inner}.*"


_BACKTRACKING = re.compile(r"\(\?<?[=!>]|\\[1-9k]|\(\?P=")
"""Matches what only a backtracking search supports: lookarounds, atomic groups and back-references."""


def needs_backtracking(pattern: str) -> bool:
    """Return whether a regular expression has a feature that takes more than linear time."""
    return _BACKTRACKING.search(pattern) is not None


_MAX_MEMORY = 1 << 16
"""Bytes for a compiled pattern that is not trusted; the time to compile it grows with them."""

_LONGEST_PATTERN = 1000
"""The maximum length of a pattern that is not trusted."""


class LinearMatcher(Matcher):
    """A matcher whose time grows linearly with the pattern and the name: for patterns that are not trusted.

    A pattern that only a backtracking search supports matches every tool.
    """

    @staticmethod
    def _compile(pattern: str) -> re.Pattern[str]:
        if len(pattern) > _LONGEST_PATTERN:
            raise re.error(f"it has more than {_LONGEST_PATTERN} characters")
        import re2  # type: ignore[import-untyped]  # noqa: PLC0415  # no stubs; few gateways need it

        options = re2.Options()
        options.log_errors, options.max_mem = False, _MAX_MEMORY
        linear = ".*" if needs_backtracking(pattern) else pattern
        try:
            compiled: re.Pattern[str] = re2.compile(linear, options)
        except re2.error as error:
            raise re.error(error.args[0].decode(errors="replace")) from None
        return compiled


class Literally(Matcher):
    """A matcher that compares tool names with a literal string."""

    def __init__(self, pattern: str) -> None:
        self.pattern = pattern.strip()

    @property
    def checks(self) -> str:
        return "tools"

    def matches(self, subject: Subject) -> bool:
        return self.pattern in subject.tools

    def hint(self) -> str | None:
        return None


_CHECKED = {
    "models": "model",
    "clients": "client",
    "keys": "key",
    "teams": "team",
    "sessions": "session_id",
    "tools": "tools",
    "operations": "operation",
    "requires_json": "requires_json",
}
"""The property of a Subject that each condition of `when` checks."""


def holds(when: When, subject: Subject) -> bool:
    """Return whether all conditions are met. An unknown property, such as no API key, matches no list."""
    return (
        _matches_any(when.models, [subject.model])
        and _matches_any(when.clients, [subject.client])
        and _matches_any(when.keys, [subject.key])
        and _matches_any(when.teams, [subject.team])
        and _matches_any(when.sessions, [subject.session_id])
        and _matches_any(when.tools, subject.tools)
        and _matches_any(when.operations, [subject.operation])
        and when.requires_json in (None, subject.requires_json)
    )


def _matches_any(globs: Globs | None, values: Iterable[str]) -> bool:
    return globs is None or any(value and fnmatchcase(value, glob) for value in values for glob in globs)


_WITH_TOOLS = frozenset({"BeforeModel", "BeforeToolSelection", "BeforeTool", "AfterTool"})

FailsOpen = Literal["always", "on exit codes", "never"]
"""The failures of a hook after which a call continues: all, only exit codes other than 0 or 2, or none."""


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Hook:
    """One configured hook.

    `root` is the project folder in which it runs, `source` its settings file, and `line` its line there.
    `on_error` decides what happens to a call if the hook fails, and `on_exit_code` if its program exits with
    a code other than 0 or 2.
    """

    name: str
    config: AnyConfig
    root: Path
    source: Path
    event: str = ""
    layer: Layer = "explicit"
    on_error: OnError = "allow"
    line: int | None = None
    on_exit_code: OnError = "allow"
    needs_trust: bool = False
    """Whether the hook comes from a project, and therefore runs only after a user has trusted it."""
    function: Callable[[dict[str, object]], object] | None = None
    """The function of a hook that a program has registered; other runtime hooks name theirs."""
    timeout: float = field(init=False)
    """The time limit in seconds."""
    target: str = field(init=False)
    """The command, callable, URL or policy that runs, as configured."""
    key: tuple[str, str, str] = field(init=False)
    """Event, name and target, which identify the hook across reloads."""
    stream: StreamMode = field(init=False)
    """How much of a streamed answer the hook gets at once."""
    copy_key: tuple[str, str, str] = field(init=False)
    """The name, the target and the options of a policy, which are equal for copies of a hook."""

    def __post_init__(self) -> None:
        config = self.config
        options = repr(config.options) if isinstance(config, BuiltinConfig) else ""
        object.__setattr__(self, "timeout", config.timeout / 1000)
        object.__setattr__(self, "target", config.target)
        object.__setattr__(self, "stream", config.stream or self._default_stream())
        object.__setattr__(self, "key", (self.event, self.name, self.display_target))
        object.__setattr__(self, "copy_key", (self.name, config.target, options))

    def _default_stream(self) -> StreamMode:
        """Return the default of `stream`.

        A hook of a file that an operator names gets a window if it may edit or deny the answer. Otherwise, a
        text that is split between two events would pass it. Gemini CLI shows its hooks each event alone, and
        a hook that only observes must not delay the answer.
        """
        judges = self.event == "AfterModel" and self.config.mode == "enforce"
        return "window" if judges and self.layer not in GEMINI_LAYERS else "event"

    @property
    def misses_split_text(self) -> bool:
        """Whether the hook judges each event of a streamed answer alone."""
        policy = POLICIES.get(self.config.builtin) if isinstance(self.config, BuiltinConfig) else None
        if policy and not policy.reads_text:
            return False
        return self.event == "AfterModel" and self.config.mode == "enforce" and self.stream == "event"

    @property
    def fails_open(self) -> FailsOpen:
        """The failures of the hook after which a call continues unchecked.

        This is `never` for hooks that cannot deny a call anyway: those that only observe, and those of
        advisory events.
        """
        if self.config.mode == "observe" or self.event in ADVISORY:
            return "never"
        if self.on_error == "allow":
            return "always"
        has_exit_code = isinstance(self.config, CommandConfig) and not self.config.persistent
        return "on exit codes" if has_exit_code and self.on_exit_code == "allow" else "never"

    @property
    def display_target(self) -> str:
        """The target for display and storage: a URL without parts that may be secret."""
        return display_target(self.config)


def without_copies(hooks: Iterable[Hook], key: Callable[[Hook], object]) -> dict[Hook, Hook]:
    """Return each hook with the one that runs for its key: the first that needs no trust, or else the first.

    Otherwise a project could define a copy of its user's hook, and neither of them would run.
    """
    keys = {hook: key(hook) for hook in hooks}
    kept: dict[object, Hook] = {}
    for hook, hook_key in keys.items():
        previous = kept.get(hook_key)
        if previous is None or (previous.needs_trust and not hook.needs_trust):
            kept[hook_key] = hook
    return {hook: kept[hook_key] for hook, hook_key in keys.items()}


def display_target(config: AnyConfig) -> str:
    """Return the target of a hook for display: a URL without parts that may be secret."""
    return shown_url(config.url) if isinstance(config, HttpConfig) else config.target


@dataclass(frozen=True, slots=True)
class Group:
    """Hooks that run in parallel, or one after another if `sequential`."""

    hooks: tuple[Hook, ...]
    sequential: bool = False
    matcher: Matcher = field(default_factory=lambda: Matcher("", None), compare=False)


def _matching_hooks(group: Group, subject: Subject) -> list[Hook]:
    """Return the hooks of a group that run for the subject."""
    hooks = (hook for hook in group.hooks if subject.stream in ("", hook.stream))
    return [hook for hook in hooks if holds(hook.config.when, subject)]


_PROGRAMS_PER_PROCESSOR = 4
"""Programs that wait for nothing share the processors with the gateway, which must remain responsive."""


def default_programs() -> int:
    """Return how many programs of hooks run at once by default: four for each processor."""
    return _PROGRAMS_PER_PROCESSOR * len(os.sched_getaffinity(0))


@dataclass(frozen=True, slots=True)
class EngineLimits:
    """Limits for all hooks: `deadline` of an event in seconds, and how many hooks run at once.

    `concurrency` limits all hooks, and `programs` those that start a program for each event.
    """

    deadline: float = 120.0
    concurrency: int = 64
    programs: int = field(default_factory=default_programs)


@dataclass(frozen=True, slots=True)
class Configuration:
    """The groups of hooks to run for each event, ordered by layer, then as declared."""

    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    limits: EngineLimits = EngineLimits()
    revision: str = field(default="", compare=False)
    http_targets: tuple[str, ...] = ()
    declared: tuple[Hook, ...] = field(default=(), compare=False)
    """All hooks of all files in order, including those that are off."""
    is_on: Callable[[Hook], bool] = field(default=lambda hook: True, compare=False, repr=False)
    """Returns whether the settings leave a hook on, for hooks that a program adds."""
    pushed: NumberedText | None = field(default=None, compare=False, repr=False)
    """The settings among the sources that were not read from a file, if there are any."""

    def for_event(self, event: str) -> tuple[Group, ...]:
        """Return all groups that are configured for the event."""
        return self.groups.get(event, ())

    def conditions(self, event: str) -> frozenset[str]:
        """Return the names of the properties of a Subject that the event's matchers and conditions check."""
        groups = self.for_event(event)
        checked = {group.matcher.checks for group in groups if group.matcher.checks}
        for when in (hook.config.when for group in groups for hook in group.hooks):
            checked |= {name for key, name in _CHECKED.items() if getattr(when, key) is not None}
        return frozenset(checked)

    def matching_groups(self, event: str, subject: Subject) -> tuple[Group, ...]:
        """Return the groups that run for this subject, each with the hooks that run.

        Of several copies of a hook, one is kept (see `without_copies`).
        """
        matching = [
            (group, _matching_hooks(group, subject))
            for group in self.for_event(event)
            if group.matcher.matches(subject)
        ]
        hooks = (hook for _, group_hooks in matching for hook in group_hooks)
        kept = set(without_copies(hooks, lambda hook: hook.copy_key).values())
        matched = (
            Group(tuple(hook for hook in group_hooks if hook in kept), group.sequential)
            for group, group_hooks in matching
        )
        return tuple(group for group in matched if group.hooks)

    @property
    def off(self) -> tuple[Hook, ...]:
        """The hooks that are switched off, or overridden by another layer."""
        on = set(self.hooks())
        return tuple(hook for hook in self.declared if hook not in on)

    @property
    def switched_off(self) -> tuple[Hook, ...]:
        """The hooks that are switched off by name or with all others, without those that are overridden."""
        return tuple(hook for hook in self.declared if not self.is_on(hook))

    def observing(self) -> list[str]:
        """Return the sorted names of the hooks that only observe, without duplicates."""
        return sorted({hook.name for hook in self.hooks() if hook.config.mode == "observe"})

    def missing_split_text(self) -> list[str]:
        """Return the sorted, unique names of the hooks that judge each event of a stream alone."""
        return sorted({hook.name for hook in self.hooks() if hook.misses_split_text})

    def never_running(self) -> list[str]:
        """Return the sorted names of hooks whose conditions need what their event does not have."""
        return sorted(
            {
                f"{hook.name} ({event})"
                for event, groups in self.groups.items()
                for group in groups
                for hook in group.hooks
                if (hook.config.when.tools and event not in _WITH_TOOLS)
                or (event in ADVISORY and (hook.config.when.models or hook.config.when.operations))
            }
        )

    def failing_open(self, how: FailsOpen) -> list[str]:
        """Return the sorted names of the hooks that fail open in this way, without duplicates."""
        return sorted({hook.name for hook in self.hooks() if hook.fails_open == how})

    def hooks(self) -> list[Hook]:
        """Return all hooks that are on, event by event, in order."""
        return [hook for groups in self.groups.values() for group in groups for hook in group.hooks]
