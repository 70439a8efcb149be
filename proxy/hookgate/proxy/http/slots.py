"""Connection limits: how many the open descriptors allow, and which one is closed for a new one."""

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from enum import Enum
from ipaddress import IPv6Address, ip_address
from math import ceil

from hookgate.hooks import Configuration
from hookgate.hooks.settings import CommandConfig, HttpConfig
from hookgate.proxy.config import LimitSettings
from hookgate.proxy.identity.sessions import Shares

log = logging.getLogger("hookgate")

OWN = 128
"""Descriptors of the gateway itself: listeners, log, store, audit, watchers, name look-ups, files."""

ADMIN = 64
"""Descriptors for connections to the admin listener."""

LEAST = 16
"""The smallest number of client connections with which the gateway starts."""

_PROGRAM = 4  # descriptors of a running program: three pipes and the process itself
_START = 8  # descriptors of a program while it is started
_CONNECTION = 2.5  # descriptors of a client: its connection, one upstream, and a share of the idle ones


class DescriptorError(ValueError):
    """Raised when there are too few descriptors to run a gateway."""


@dataclass(frozen=True, slots=True)
class Budget:
    """The division of `limit` descriptors, of which `hooks` are reserved for hooks."""

    limit: int
    hooks: int

    @property
    def connections(self) -> int:
        """The number of client connections for which there are descriptors."""
        return max(0, int((self.limit - OWN - ADMIN - self.hooks) / _CONNECTION))

    def bounded(self, limits: LimitSettings) -> LimitSettings:
        """Return the limits, with `connections` lowered to what the descriptors allow.

        Raises DescriptorError if they are not even enough for `LEAST` connections.
        """
        if self.connections < LEAST:
            needed = descriptors_for(LimitSettings(connections=LEAST), self.hooks)
            raise DescriptorError(
                f"the limit of {self.limit} open descriptors is too small: {needed} are needed, "
                f"{self.hooks} of them for hooks; raise the hard limit (ulimit -Hn, LimitNOFILE in systemd, "
                "ulimits in compose), or lower hooksConfig.concurrency in the settings of hooks"
            )
        if self.connections >= limits.connections:
            return limits
        return limits.model_copy(update={"connections": self.connections})

    def log_limits(self, limits: LimitSettings) -> None:
        """Log a warning if the descriptors allow fewer connections than the limits."""
        if self.connections >= limits.connections:
            return
        log.warning(
            "limits.connections is %d instead of %d: the limit of %d open descriptors, %d of them for hooks, "
            "does not allow more; raise the hard limit (ulimit -Hn, LimitNOFILE in systemd)",
            self.connections,
            limits.connections,
            self.limit,
            self.hooks,
        )

    def check(self, configuration: Configuration) -> None:
        """Log an error if new settings of hooks may need more descriptors than were reserved."""
        needed = descriptors_of_hooks(configuration)
        if needed > self.hooks:
            log.error(
                "hooks may need %d open descriptors now, but %d were reserved at the start: a hook that "
                "gets none denies; restart the gateway, or lower hooksConfig.concurrency",
                needed,
                self.hooks,
            )


def descriptors_for(limits: LimitSettings, hooks: int) -> int:
    """Return how many descriptors a gateway with these limits can use, with `hooks` of them for hooks."""
    return OWN + ADMIN + hooks + ceil(limits.connections * _CONNECTION)


def descriptors_of_hooks(configuration: Configuration) -> int:
    """Return the largest number of descriptors that the hooks of a configuration use."""
    concurrency = configuration.limits.concurrency
    # Reserved even without hooks: hooks may be added to the settings at any time.
    needed = concurrency * _PROGRAM + _START
    for hook in configuration.hooks():
        match hook.config:
            case CommandConfig(persistent=True, workers=workers):
                needed += workers * _PROGRAM
            case HttpConfig():
                needed += concurrency  # connections in use, and idle ones
    return needed


_MAX_ATTEMPTS = 8  # connections that are tried before none is taken as closable


class Stage(Enum):
    """The stage of a connection's current request."""

    IDLE = 0
    """There is no request: nothing was sent yet, the last one has ended, or the TLS handshake is running."""
    HEAD = 1
    """The headers of a request are incomplete."""
    BODY = 2
    """The body of a request is incomplete."""
    CALL = 3
    """A complete request is being handled."""


_INCOMPLETE = (Stage.IDLE, Stage.HEAD, Stage.BODY)
"""Stages without a complete request. They share one order: if idle connections were closed before those that
have sent a first byte, a client that begins many requests would get all new connections closed."""


@dataclass(eq=False, slots=True)
class TrackedConnection:
    """An accepted connection."""

    address: str
    close: Callable[[], bool]
    """Closes it at once and returns True, or returns False if it must not be closed now."""
    stage: Stage = field(default=Stage.IDLE)


class ConnectionSlots:
    """The connections of one listener: at most `most`, and at most `most_per_address` from one address.

    Connections without a complete request are closed for new ones: of the address that has most of them, the
    one that has been at its stage for longest. With `closes_calls`, calls in progress are closed next.
    """

    def __init__(self, most: int, most_per_address: int | None, *, closes_calls: bool) -> None:
        self._most, self._most_per_address = most, most_per_address
        self._connections: Shares[TrackedConnection, None] = Shares(most + 1)
        self._stages: dict[Stage, Shares[TrackedConnection, None]] = dict.fromkeys(
            _INCOMPLETE, Shares(most + 1)
        )
        if closes_calls:
            self._stages[Stage.CALL] = Shares(most + 1)
        self._closing: set[TrackedConnection] = set()

    def is_full(self, address: str) -> bool:
        """Return True if there is no room for another connection from an address."""
        return len(self._connections) >= self._most or self.is_address_full(address)

    def is_address_full(self, address: str) -> bool:
        """Return True if the address has as many connections as it may have."""
        most = self._most_per_address
        return most is not None and self._connections.held_by(address) >= most

    def enter(self, tracked: TrackedConnection) -> None:
        """Add a connection."""
        self._connections.store(tracked.address, tracked, None)
        self.move(tracked, Stage.IDLE)

    def move(self, tracked: TrackedConnection, stage: Stage) -> None:
        """Note that a connection has reached another stage."""
        if tracked in self._closing:
            return
        self._remove_from_stage(tracked)
        tracked.stage = stage
        if stage in self._stages:
            self._stages[stage].store(tracked.address, tracked, None)

    def leave(self, tracked: TrackedConnection) -> None:
        """Remove a connection that has ended."""
        self._remove_from_stage(tracked)
        self._connections.drop(tracked.address, tracked)
        self._closing.discard(tracked)

    def close_one(self, address: str) -> bool:
        """Close a connection to make room for one from an address. Returns False if none can be closed."""
        owner = address if self.is_address_full(address) else None
        stages = dict.fromkeys(self._stages.values())  # without duplicates: several stages share one
        return any(self._close_one_of(stage, owner) for stage in stages)

    def _close_one_of(self, stage: Shares[TrackedConnection, None], owner: str | None) -> bool:
        for _ in range(min(_MAX_ATTEMPTS, len(stage))):
            if (oldest := stage.oldest(owner)) is None:
                return False
            tracked = oldest[1]
            if tracked.close():
                stage.drop(tracked.address, tracked)
                self._connections.drop(tracked.address, tracked)
                self._closing.add(tracked)
                return True
            stage.get(tracked.address, tracked)  # moves it to the end of the order
        return False

    def _remove_from_stage(self, tracked: TrackedConnection) -> None:
        if tracked.stage in self._stages:
            self._stages[tracked.stage].drop(tracked.address, tracked)


def address_of(host: str) -> str:
    """Return the address to count a client by: for IPv6 its /64 network, which is what one client gets."""
    try:
        address = ip_address(host.partition("%")[0])
    except ValueError:
        return host
    if not isinstance(address, IPv6Address):
        return host
    if address.ipv4_mapped is not None:
        return str(address.ipv4_mapped)
    return address.packed[:8].hex(":", 2) + "::/64"
