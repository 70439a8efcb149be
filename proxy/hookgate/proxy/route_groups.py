"""The groups of routes, by which keys are limited and routes without hooks are switched on."""

from typing import Literal, get_args

Unhooked = Literal["interactions", "openai", "live", "predict", "agents"]
"""Routes whose answers are generated and that no hook can judge yet."""

RouteGroup = Literal["generate", "embed", "models", "batches", "files", "caches", Unhooked]

ROUTE_GROUPS: tuple[RouteGroup, ...] = get_args(RouteGroup)

DEFAULT_GROUPS: tuple[RouteGroup, ...] = ("generate", "embed", "models")
"""The groups whose calls do not access what other keys have stored in the gateway's Google project."""
