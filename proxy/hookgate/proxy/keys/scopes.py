"""Issued keys as requests present them, and what a key may be used for: routes, models, limits of usage."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Literal, get_args

from pydantic import Field, model_validator

from hookgate.hooks.policies.counters import LimitRule
from hookgate.hooks.policies.options import Globs, Options, matches_name
from hookgate.proxy.route_groups import DEFAULT_GROUPS, ROUTE_GROUPS, RouteGroup, Unhooked
from hookgate.proxy.routes.table import Route

_UNCOUNTED = frozenset({"batches", "caches", *get_args(Unhooked)} - {"live"})
"""The groups whose tokens the gateway cannot count. It counts those of Live sessions that are judged."""

_UNNAMED = frozenset({"caches", *get_args(Unhooked)})
"""The groups with calls that run a model which their path does not name."""


class KeyScope(Options):
    """The scope of one key."""

    routes: tuple[RouteGroup, ...] = Field(DEFAULT_GROUPS, min_length=1, strict=False)
    """The groups of routes that may be called."""

    models: Globs = ("*",)
    """The models that may be called, with wildcards."""

    limits: tuple[LimitRule, ...] = Field((), strict=False)
    """How much may be used; `per` is always `key`."""

    @model_validator(mode="after")
    def _can_be_enforced(self) -> "KeyScope":
        if self.restricts_models and (unnamed := _listed(set(self.routes) & _UNNAMED)):
            raise ValueError(
                f"the models of {unnamed} cannot be restricted: their paths do not name the model"
            )
        if self.limits_usage and (uncounted := _listed(set(self.routes) & _UNCOUNTED)):
            raise ValueError(
                f"tokens and cost of {uncounted} cannot be limited: they are not known when calls end"
            )
        return self

    @property
    def restricts_models(self) -> bool:
        """Whether only certain models may be called."""
        return self.models != ("*",)

    @property
    def limits_usage(self) -> bool:
        """Whether tokens or cost are limited."""
        return any(rule.tokens or rule.cost for rule in self.limits)

    def refusal(self, route: Route) -> str:
        """Return why a route may not be called, or an empty string if it may be."""
        if route.group not in self.routes:
            return f"may not be used for this path; it may be used for: {', '.join(self.routes)}"
        if route.group == "live" and route.kind != "live" and self.limits_usage:
            return "has limits on tokens or cost, which cannot be counted in sessions that are not judged"
        return ""

    def model_refusal(self, route: Route, model: str) -> str:
        """Return why a route may not be called with a model, or an empty string if it may be.

        The model is that of the path or of the body, or one that a hook has chosen; empty if there is none.
        """
        group = route.group
        runs_no_model = group in ("models", "files") or (group == "batches" and not route.model)
        name = route.own_model or model if model == route.model else model
        if runs_no_model or matches_name(self.models, name):
            return ""
        named = f"the model {name!r}" if name else "a path that does not name its model"
        return f"may not be used for {named}; it may be used for: {', '.join(self.models)}"


TOKEN = "token"  # noqa: S105  # not a secret
"""The ID of a caller with a token. IDs of issued keys are longer."""

KeyState = Literal["valid", "revoked", "expired", "replaced", "unknown", "unavailable"]


@dataclass(frozen=True, slots=True)
class IssuedKey:
    """A key that the gateway has issued, as a request presented it."""

    id: str
    """Its public ID; empty if it is unknown or cannot be looked up."""
    owner: str
    """The name of its owner; for an unknown key the start of its hash."""
    team: str
    state: KeyState
    digest: bytes = field(default=b"", repr=False)
    """Its keyed hash."""
    scope: KeyScope | None = None
    expires: int | None = None
    """When it expires, in seconds since 1970."""

    @property
    def is_token(self) -> bool:
        """Whether it is a token of an identity provider, which is treated like an issued key."""
        return self.id == TOKEN

    @property
    def restricts_models(self) -> bool:
        """Whether only certain models may be called with it."""
        return self.scope is not None and self.scope.restricts_models

    @property
    def limits_usage(self) -> bool:
        """Whether tokens or cost are limited."""
        return self.scope is not None and self.scope.limits_usage

    @property
    def name(self) -> str:
        """The name of the key in messages."""
        return f"{self.id} of {self.owner}"


def _listed(groups: Iterable[str]) -> str:
    return ", ".join(group for group in ROUTE_GROUPS if group in groups)
