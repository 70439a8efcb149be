"""Rules by which the policy `models` chooses the model of a call. Pure."""

from collections.abc import Iterable, Mapping
from typing import Any

from pydantic import Field

from hookgate.hooks.policies.options import Globs, Options, named
from hookgate.hooks.session import Session


class RouteWhen(Options):
    """Which calls a rule is for: those that all the keys given hold for."""

    models: Globs | None = None
    """Models that the client asks for, with wildcards."""

    keys: Globs | None = None
    """Names of API keys, with wildcards."""

    teams: Globs | None = None
    """Teams, with wildcards."""

    clients: Globs | None = None
    """Client programs, with wildcards."""

    characters_below: int | None = Field(default=None, ge=1)
    """Less text than this: of all messages, the system instruction among them."""

    characters_above: int | None = Field(default=None, ge=0)
    """More text than this."""

    tools: bool | None = None
    """Whether the request declares any tool, those of the API itself among them."""

    def holds(self, request: Mapping[str, Any], session: Session) -> bool:
        """Whether the rule is for this call. `request` is as a hook with the view `raw` is shown it."""
        names = (
            (self.models, request["model"]),
            (self.keys, session.key),
            (self.teams, session.team),
            (self.clients, session.client),
        )
        if any(globs is not None and not named(globs, name) for globs, name in names):
            return False
        if self.tools is not None and self.tools is not bool(request.get("tools")):
            return False
        return self._fits(request)

    def _fits(self, request: Mapping[str, Any]) -> bool:
        if self.characters_below is None and self.characters_above is None:
            return True
        size = sum(len(message["content"]) for message in request["messages"])
        above = self.characters_above is None or size > self.characters_above
        return above and (self.characters_below is None or size < self.characters_below)


class Route(Options):
    """One rule."""

    to: str = Field(min_length=1)
    """The model that the call goes to."""

    when: RouteWhen = RouteWhen()
    """Which calls; all, if left out."""


def routed(rules: Iterable[Route], request: Mapping[str, Any], session: Session) -> str:
    """The model that the call goes to: that of the first rule which holds, or else the one it came with."""
    asked: str = request["model"]
    return next((rule.to for rule in rules if rule.when.holds(request, session)), asked)
