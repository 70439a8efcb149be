"""Generative calls that pass although no hook judges them: which an operator allows, how many there were."""

import logging
from collections import Counter
from collections.abc import Iterable

from hookgate.proxy.routes import Route

log = logging.getLogger("hookgate.unhooked")


class Unhooked:
    """The groups of routes that are let through."""

    def __init__(self, groups: Iterable[str] = ()) -> None:
        self.groups = frozenset(groups)
        self.counts: Counter[str] = Counter()
        """The calls let through, by their group."""

    def note(self, method: str, route: Route) -> None:
        """Count a call and say so."""
        if not self.counts[route.unhooked]:
            log.warning(
                "routes.unhooked lists %r: such calls pass without any hook, unhooked", route.unhooked
            )
        self.counts[route.unhooked] += 1
        log.info("unhooked %s call: %s %s", route.unhooked, method, route.path)
