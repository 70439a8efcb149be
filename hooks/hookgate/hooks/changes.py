"""Which hooks other settings have: for the log, and for who keeps a record of the policy. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass

from hookgate.hooks.scripts import fingerprint
from hookgate.hooks.settings import Configuration

Label = tuple[str, str]
"""Event and name."""


@dataclass(frozen=True, slots=True)
class Outline:
    """The hooks of one configuration: those that are on with what they are, those that are off."""

    on: Mapping[Label, frozenset[str]]
    off: frozenset[Label]


@dataclass(frozen=True, slots=True)
class Changes:
    """The settings went from one revision to another. Hooks are told as `EVENT NAME`."""

    before: str
    revision: str
    came: tuple[str, ...] = ()
    went: tuple[str, ...] = ()
    switched_on: tuple[str, ...] = ()
    switched_off: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()

    def hooks(self) -> dict[str, tuple[str, ...]]:
        """The hooks by what became of them, without what became of none."""
        return {word: told for word, told in asdict(self).items() if told and isinstance(told, tuple)}

    def __str__(self) -> str:
        return "; ".join(
            f"{word.replace('_', ' ')}: {', '.join(told)}" for word, told in self.hooks().items()
        )


def outline(configuration: Configuration) -> Outline:
    """What is compared of settings: it reads the hooks' scripts."""
    on: dict[Label, set[str]] = defaultdict(set)
    for event, groups in configuration.groups.items():
        for group in groups:
            for hook in group.hooks:
                told = (
                    fingerprint(hook),
                    hook.config.model_dump_json(),
                    hook.on_error,
                    hook.on_exit_code,
                    hook.layer,
                )
                on[event, hook.name].add(f"{group.sequential} {group.matcher.pattern} {told}")
    off = frozenset((hook.event, hook.name) for hook in configuration.off)
    return Outline({label: frozenset(told) for label, told in on.items()}, off - on.keys())


def changes(before: str, old: Outline, revision: str, new: Outline) -> Changes:
    """What became of the hooks between two revisions."""
    came, went = new.on.keys() - old.on.keys(), old.on.keys() - new.on.keys()
    same = old.on.keys() & new.on.keys()
    return Changes(
        before,
        revision,
        came=_told(came - old.off),
        went=_told(went - new.off),
        switched_on=_told(came & old.off),
        switched_off=_told(went & new.off),
        changed=_told(label for label in same if old.on[label] != new.on[label]),
    )


def _told(labels: Iterable[Label]) -> tuple[str, ...]:
    return tuple(f"{event} {name}" for event, name in sorted(labels))
