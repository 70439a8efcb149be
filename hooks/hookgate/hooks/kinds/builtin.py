"""Builtin hooks: policies that come with hookgate, made by name from a registry that the caller passes in."""

import inspect
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from hookgate.hooks.clock import StallClock
from hookgate.hooks.document import Document
from hookgate.hooks.errors import Problem, SettingsError
from hookgate.hooks.kinds.runtime import run_action
from hookgate.hooks.output import Output
from hookgate.hooks.session import Screen, Session
from hookgate.hooks.settings import BuiltinConfig, Hook

Policy = Callable[[dict[str, Any], Session], Any]
"""A policy, ready to run: the input of a hook and who asks, and the output of a hook, or a promise of it."""


class Counters(Protocol):
    """Numbers by name that outlive a call, and that may be shared by many processes."""

    async def add(self, key: str, amount: float, expires: datetime) -> float:
        """Add to a number, which begins at 0, in one step; gives the new total.

        After `expires` the number is of no more use to anyone. Raises when it cannot be kept.
        """

    def add_later(self, key: str, amount: float, expires: datetime) -> None:
        """Add without waiting. What cannot be kept is tried again, and meanwhile fails whoever asks."""

    async def read(self, keys: Iterable[str]) -> Mapping[str, float]:
        """The numbers; what nothing was added to is left out. Raises when they cannot be read."""


class PriceTable(Protocol):
    """What models cost."""

    @property
    def currency(self) -> str:
        """What prices are in, such as `USD`."""

    def knows(self, model: str) -> bool:
        """Whether there is a price for the model."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What policies may use of the place where they run."""

    root: Path
    """The folder that relative paths in a hook's options start from."""
    state: Path | None = None
    """Where to keep what has to outlive the process; None where nothing may be kept."""
    counters: Counters | None = None
    """Where to count what goes beyond a call; None where a policy's own memory has to do."""
    prices: PriceTable | None = None
    """What models cost; None where nobody said."""


Builtins = Mapping[str, Callable[[Mapping[str, Any], Surroundings], Policy]]
"""The policies by name. A factory takes the hook's `options`, and raises ValueError for bad ones."""


@runtime_checkable
class Screening(Protocol):
    """A policy that judges streamed answers by itself, and says what of them has to wait."""

    def screen(self, session: Session) -> Screen:
        """The screen for one answer."""


class BuiltinRunner:
    """A policy in this process. A plain function runs in the loop too: it is ours, and quick."""

    def __init__(
        self, hook: Hook, config: BuiltinConfig, builtins: Builtins, surroundings: Surroundings
    ) -> None:
        """Make the policy. Raises SettingsError for an unknown name and for bad options."""
        self._hook, self._clock = hook, StallClock()
        self._policy: Any = _made(hook, config, builtins, surroundings)
        screens = isinstance(self._policy, Screening)
        if screens is not (config.stream == "held"):
            only = "only" if screens else "no"
            raise _wrong(hook, f'this policy knows {only} "stream": "held"; leave it out')

    async def run(self, event: str, session: Session, document: Document) -> Output | None:
        async def act(value: dict[str, Any]) -> Any:
            result = self._policy(value, session)
            return await result if inspect.isawaitable(result) else result

        return await run_action(self._hook, act, event, document, self._clock)

    def screen(self, session: Session) -> Screen:
        """The policy's screen for one answer."""
        screening: Screening = self._policy
        return screening.screen(session)

    async def close(self) -> None:
        """A policy keeps nothing."""


def _made(hook: Hook, config: BuiltinConfig, builtins: Builtins, surroundings: Surroundings) -> Policy:
    factory = builtins.get(config.builtin)
    if factory is None:
        known = ", ".join(sorted(builtins)) or "none"
        raise _wrong(hook, f"there is no policy {config.builtin!r}; those that exist: {known}")
    try:
        return factory(config.options, surroundings)
    except ValueError as error:
        raise _wrong(hook, f"options: {error}") from None


def _wrong(hook: Hook, told: str) -> SettingsError:
    about = f"the {hook.event or 'builtin'} hook {hook.name!r}"
    return SettingsError([Problem(hook.source, f"{about}: {told}", hook.line)])
