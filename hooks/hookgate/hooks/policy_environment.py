"""What a policy is, and the resources that it uses, such as counters, pinned tools and access tokens."""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from hookgate.hooks.session import SessionContext

Policy = Callable[[dict[str, Any], SessionContext], Any]
"""A policy: a function that takes a hook's input and session, and returns a hook's output or an awaitable.

It must not modify its input, because the input is not copied."""


class Counters(Protocol):
    """Named numbers that outlive a call and may be shared by several processes."""

    async def add(self, key: str, amount: float, expires: datetime) -> float:
        """Add to a number atomically, and return the new total. Numbers start at 0.

        After `expires`, the number may be discarded. Raises an exception if it cannot be stored.
        """

    def add_later(self, key: str, amount: float, expires: datetime) -> None:
        """Add to a number without waiting. A failure is retried, and `add` and `read` raise until then."""

    async def read(self, keys: Iterable[str]) -> Mapping[str, float]:
        """Return the numbers that exist. Raises an exception if they cannot be read."""


class PinnedTools(Protocol):
    """Tools whose declarations are pinned, by name, each as JSON. Several processes may share them.

    Every method raises an exception if they cannot be read or stored.
    """

    async def read(self, names: Collection[str] | None = None) -> Mapping[str, bytes]:
        """Return the tools with these names that are stored; by default all tools."""

    async def count(self) -> int:
        """Return the number of tools."""

    async def change(
        self,
        names: Collection[str],
        change: Callable[[Mapping[str, bytes], int], Mapping[str, bytes | None]],
    ) -> None:
        """Change tools atomically. `change` runs in another thread, and must not use the event loop.

        It takes the tools with these names that are stored, and the number of all tools. It returns the
        tools to store, and None for those to remove.
        """


class PriceTable(Protocol):
    """The prices of models."""

    @property
    def currency(self) -> str:
        """The currency of the prices, such as `USD`."""

    def knows(self, model: str) -> bool:
        """Return whether there is a price for the model."""

    def cost(
        self, model: str, input_tokens: int, output_tokens: int, cached: int = 0, *, priority: bool = False
    ) -> float | None:
        """Return the cost of these tokens, or None if there is no price for the model.

        `priority` says that they are of the service tier `priority`.
        """


class AccessTokens(Protocol):
    """The access tokens of the gateway's own credentials."""

    @property
    def names(self) -> Collection[str]:
        """The names of the credentials that have access tokens."""

    async def get(self, name: str) -> str:
        """Return a valid token of a credential. Raises HookError if there is none in time."""


@dataclass(frozen=True, slots=True)
class PolicyEnvironment:
    """The resources of a policy besides its options."""

    root: Path
    """The folder to which relative paths in a hook's options refer."""
    state: Path | None = None
    """The folder for data that outlives the process, or None if nothing may be stored."""
    counters: Counters | None = None
    """Counters that outlive a call, or None if a policy has to use its own memory."""
    pins: PinnedTools | None = None
    """Pinned tools that outlive a call, or None if a policy has to use its own memory."""
    prices: PriceTable | None = None
    """The prices of models, or None if none are configured."""
    http_targets: Collection[str] = ()
    """The URL prefixes, besides this machine, that policies may post to."""
    access_tokens: AccessTokens | None = None
    """The access tokens of the gateway's credentials, or None outside a gateway."""


Builtins = Mapping[str, Callable[[Mapping[str, Any], PolicyEnvironment], Policy]]
"""Factories of policies by name. A factory takes the hook's `options`; it raises ValueError for bad ones."""
