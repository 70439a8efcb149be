"""The budget of open descriptors: what hooks and the gateway itself need is set aside, clients get the rest.

A client can open connections by the thousand. If descriptors ran out, no hook could be started, and nobody
could ask whether the gateway is well. docs/operating.md has the arithmetic.
"""

import logging
from dataclasses import dataclass
from math import ceil

from hookgate.hooks import Configuration
from hookgate.hooks.settings import CommandConfig, HttpConfig
from hookgate.proxy.config import Limits

log = logging.getLogger("hookgate")

OWN = 128
"""Of the gateway itself: listeners, log, store, audit, watchers, name look-ups, files that threads read."""

ADMIN = 64
"""Connections to the admin listener."""

LEAST = 16
"""Connections of clients below which there is no gateway worth starting."""

_PROGRAM = 4  # of one program that runs: three pipes and the process itself
_START = 8  # of a program while it is started
_CONNECTION = 2.5  # of one client: its own, one to the upstream, and its part of those kept for later


class DescriptorError(ValueError):
    """There are too few descriptors to run a gateway."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How `limit` descriptors are shared out when `hooks` of them are set aside for hooks."""

    limit: int
    hooks: int

    @property
    def connections(self) -> int:
        """How many connections of clients the rest is enough for."""
        return max(0, int((self.limit - OWN - ADMIN - self.hooks) / _CONNECTION))

    def bounded(self, limits: Limits) -> Limits:
        """The limits with no more connections than there is room for. Raises DescriptorError."""
        if self.connections < LEAST:
            needed = descriptors_for(Limits(connections=LEAST), self.hooks)
            raise DescriptorError(
                f"the limit of {self.limit} open descriptors is too small: {needed} are needed, "
                f"{self.hooks} of them for hooks; raise the hard limit (ulimit -Hn, LimitNOFILE in systemd, "
                "ulimits in compose), or lower hooksConfig.concurrency in the settings of hooks"
            )
        if self.connections >= limits.connections:
            return limits
        return limits.model_copy(update={"connections": self.connections})

    def tell(self, limits: Limits) -> None:
        """Tell the log when there is room for fewer connections than the limits allow."""
        if self.connections >= limits.connections:
            return
        log.warning(
            "limits.connections is %d instead of %d: the limit of %d open descriptors leaves no room for "
            "more, with %d of them for hooks; raise the hard limit for more",
            self.connections,
            limits.connections,
            self.limit,
            self.hooks,
        )

    def check(self, configuration: Configuration) -> None:
        """Tell the log when other settings of hooks may need more than was set aside."""
        needed = descriptors_of_hooks(configuration)
        if needed > self.hooks:
            log.error(
                "hooks may need %d open descriptors now, and %d were set aside at the start: a hook that "
                "gets none denies; restart the gateway, or lower hooksConfig.concurrency",
                needed,
                self.hooks,
            )


def descriptors_for(limits: Limits, hooks: int) -> int:
    """How many descriptors a gateway with these limits can use, with so many for hooks."""
    return OWN + ADMIN + hooks + ceil(limits.connections * _CONNECTION)


def descriptors_of_hooks(configuration: Configuration) -> int:
    """How many descriptors the hooks of a configuration have open at most."""
    at_once = configuration.limits.concurrency
    # Without hooks as well: the settings may be read again, with some, at any time.
    needed = at_once * _PROGRAM + _START
    for hook in configuration.hooks():
        match hook.config:
            case CommandConfig(persistent=True, workers=workers):
                needed += workers * _PROGRAM
            case HttpConfig():
                needed += at_once  # connections that are in use or kept
    return needed
