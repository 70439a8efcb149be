"""File descriptors: those kept for the gateway and its hooks, and the connections that the rest allows."""

import logging
from dataclasses import dataclass
from math import ceil

from hookgate.hooks import Configuration
from hookgate.hooks.settings import CommandConfig, HttpConfig, RegoConfig
from hookgate.proxy.config import LimitSettings

log = logging.getLogger("hookgate")

OWN = 128
"""Descriptors of the gateway itself: listeners, log, store, audit, watchers, name look-ups, files."""

ADMIN = 64
"""Descriptors for connections to the admin listener."""

MIN_CONNECTIONS = 16
"""The smallest number of client connections with which the gateway starts."""

_MANY_CONNECTIONS = 1_000
"""A number of client connections that few teams reach."""

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

        Raises DescriptorError if they are not even enough for `MIN_CONNECTIONS` connections.
        """
        if self.connections < MIN_CONNECTIONS:
            needed = descriptors_for(LimitSettings(connections=MIN_CONNECTIONS), self.hooks)
            raise DescriptorError(
                f"the limit of {self.limit} open descriptors is too small: {needed} are needed, "
                f"{self.hooks} of them for hooks; raise the hard limit (ulimit -Hn, LimitNOFILE in systemd, "
                "ulimits in compose), or lower hooksConfig.concurrency in the hook settings"
            )
        if self.connections >= limits.connections:
            return limits
        return limits.model_copy(update={"connections": self.connections})

    def describe_shortage(self, limits: LimitSettings) -> str:
        """Return a warning if the descriptors allow fewer connections than the limits, or else ""."""
        if self.connections >= limits.connections:
            return ""
        return (
            f"limits.connections is {self.connections} instead of {limits.connections}: the limit of "
            f"{self.limit} open descriptors, {self.hooks} of them for hooks, does not allow more; raise the "
            "hard limit (ulimit -Hn, LimitNOFILE in systemd)"
        )

    def log_limits(self, limits: LimitSettings, *, is_set: bool) -> None:
        """Warn that the descriptors allow fewer connections than the limits, if they do.

        The default limit is more than most teams need. Unless the operator has set it (`is_set`), only a
        number that a team may reach is logged.
        """
        shortage = self.describe_shortage(limits)
        if shortage and (is_set or self.connections < _MANY_CONNECTIONS):
            log.warning("%s", shortage)

    def check(self, configuration: Configuration) -> None:
        """Log an error if new settings of hooks may need more descriptors than were reserved."""
        needed = descriptors_of_hooks(configuration)
        if needed > self.hooks:
            log.error(
                "hooks may need %d open descriptors now, but %d were reserved at startup: a hook that "
                "gets none denies the call; restart the gateway, or lower hooksConfig.concurrency",
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
            case CommandConfig(persistent=True, workers=workers) | RegoConfig(workers=workers):
                needed += workers * _PROGRAM
            case HttpConfig():
                needed += concurrency  # connections in use, and idle ones
    return needed
