"""The hooks to run: what settings files come down to once they are read, ordered and checked."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from hookgate.hooks.settings.configs import (
    AnyConfig,
    CommandConfig,
    HttpConfig,
    OnError,
    When,
    shown_url,
)
from hookgate.hooks.settings.matching import Matcher, Subject, holds

EVENTS = (
    "SessionStart",
    "SessionEnd",
    "BeforeAgent",
    "AfterAgent",
    "BeforeModel",
    "AfterModel",
    "BeforeToolSelection",
    "BeforeTool",
    "AfterTool",
    "PreCompress",
    "Notification",
)
"""The eleven events of the hook contract."""

ADVISORY = frozenset({"SessionEnd", "PreCompress", "Notification"})
"""Events that hooks hear of and cannot stop."""

FailsOpen = Literal["always", "on exit codes", "never"]
"""Which failures of a hook let a call go on: any of its own, only exit codes other than 0 and 2, or none."""

Layer = Literal["policy", "runtime", "explicit", "project", "user", "system", "extensions"]
"""Where hooks come from, highest precedence first. `explicit` are files named on the command line."""

LAYERS: tuple[Layer, ...] = ("policy", "runtime", "explicit", "project", "user", "system", "extensions")

GEMINI_LAYERS = frozenset[Layer]({"project", "user", "system", "extensions"})
"""The layers of Gemini CLI's own settings. The others are files that an operator names."""


@dataclass(frozen=True, slots=True, eq=False)
class Hook:
    """One configured hook.

    `root` is the project folder it runs in, `source` the file it came from and `line` where it begins there.
    `on_error` says what becomes of a call when the hook fails, `on_exit_code` when its program ends with a
    code other than 0 and 2.
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
    """Whether it came with a checkout, and runs once somebody has looked at it."""

    @property
    def timeout(self) -> float:
        """Seconds."""
        return self.config.timeout / 1000

    @property
    def fails_open(self) -> FailsOpen:
        """Which failures of the hook let a call go on that it should have judged.

        A hook that is only observed, and one of an event that cannot be stopped, guards nothing: `never`.
        """
        if self.config.mode == "observe" or self.event in ADVISORY:
            return "never"
        if self.on_error == "allow":
            return "always"
        exits = isinstance(self.config, CommandConfig) and not self.config.persistent
        return "on exit codes" if exits and self.on_exit_code == "allow" else "never"

    @property
    def target(self) -> str:
        """What runs, to the letter: the command, the callable, the service or the policy."""
        return self.config.target

    @property
    def runs(self) -> str:
        """What runs, fit to be shown and kept: a service without what may be secret in its url."""
        return shown_target(self.config)


def without_copies(hooks: Iterable[Hook], key: Callable[[Hook], object]) -> set[Hook]:
    """One hook for each key: the first, except that one that needs trust gives way to one that needs none.

    Else a checkout could name a hook as its user's is named, and neither of them would run.
    """
    kept: dict[object, Hook] = {}
    for hook in hooks:
        before = kept.get(key(hook))
        if before is None or (before.needs_trust and not hook.needs_trust):
            kept[key(hook)] = hook
    return set(kept.values())


def shown_target(config: AnyConfig) -> str:
    return shown_url(config.url) if isinstance(config, HttpConfig) else config.target


@dataclass(frozen=True, slots=True)
class Group:
    """Hooks that run side by side, or in turn when `sequential`."""

    hooks: tuple[Hook, ...]
    sequential: bool = False
    matcher: Matcher = field(default_factory=lambda: Matcher("", None), compare=False)


def _concerned(group: Group, subject: Subject) -> list[Hook]:
    """The group's hooks that are for the subject."""
    hooks = (hook for hook in group.hooks if subject.stream in ("", hook.config.stream))
    return [hook for hook in hooks if holds(hook.config.when, subject)]


@dataclass(frozen=True, slots=True)
class Limits:
    """How hooks run together: `deadline` is an event's whole time in seconds, `concurrency` counts hooks."""

    deadline: float = 120.0
    concurrency: int = 64


@dataclass(frozen=True, slots=True)
class Configuration:
    """The groups to run per event, in order: layers, then groups and hooks as declared."""

    groups: Mapping[str, tuple[Group, ...]] = field(default_factory=dict)
    limits: Limits = Limits()
    revision: str = field(default="", compare=False)
    http_targets: tuple[str, ...] = ()
    declared: tuple[Hook, ...] = field(default=(), compare=False)
    """Every hook of the files in its order, those included that are off."""

    def for_event(self, event: str) -> tuple[Group, ...]:
        """Every group that is configured for the event, whatever it is about."""
        return self.groups.get(event, ())

    def targeted(self, event: str) -> bool:
        """Whether it depends on what the event is about which of its hooks run."""
        return any(
            group.matcher.selects or any(hook.config.when != When() for hook in group.hooks)
            for group in self.for_event(event)
        )

    def plan(self, event: str, subject: Subject) -> tuple[Group, ...]:
        """The groups that run for this subject, each with the hooks that do.

        Of hooks with equal name and target that run for it, one stays (see `without_copies`).
        """
        running = [
            (group, _concerned(group, subject))
            for group in self.for_event(event)
            if group.matcher.matches(subject)
        ]
        hooks = (hook for _, concerned in running for hook in concerned)
        kept = without_copies(hooks, lambda hook: (hook.name, hook.target))
        found = (
            Group(tuple(hook for hook in concerned if hook in kept), group.sequential)
            for group, concerned in running
        )
        return tuple(group for group in found if group.hooks)

    @property
    def off(self) -> tuple[Hook, ...]:
        """Hooks that are switched off, or that another layer has as well."""
        on = set(self.hooks())
        return tuple(hook for hook in self.declared if hook not in on)

    def failing_open(self, how: FailsOpen) -> list[str]:
        """Return the names of the hooks that fail open in this way, each once, in alphabetical order."""
        return sorted({hook.name for hook in self.hooks() if hook.fails_open == how})

    def hooks(self) -> list[Hook]:
        """Every configured hook, event by event, in order."""
        return [hook for groups in self.groups.values() for group in groups for hook in group.hooks]
