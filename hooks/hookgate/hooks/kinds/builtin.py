"""Builtin hooks: policies that come with hookgate, made by name from a registry that the caller passes in."""

import inspect
from collections.abc import Callable, Mapping
from typing import Any

from hookgate.hooks.document import Document
from hookgate.hooks.errors import SettingsError
from hookgate.hooks.kinds.runtime import Action, run_action
from hookgate.hooks.output import Output
from hookgate.hooks.settings import BuiltinConfig, Hook

Builtins = Mapping[str, Callable[[Mapping[str, Any]], Action]]
"""The policies by name. A factory takes the hook's `options`, and raises ValueError for bad ones."""


class BuiltinRunner:
    """A policy in this process. A plain function runs in the loop too: it is ours, and quick."""

    def __init__(self, hook: Hook, config: BuiltinConfig, builtins: Builtins) -> None:
        """Make the policy. Raises SettingsError for an unknown name and for bad options."""
        self._hook = hook
        self._action = _made(hook, config, builtins)

    async def run(self, event: str, session_id: str, document: Document) -> Output | None:
        return await run_action(self._hook, self._act, event, document)

    async def close(self) -> None:
        """A policy keeps nothing."""

    async def _act(self, value: dict[str, Any]) -> Any:
        result = self._action(value)
        return await result if inspect.isawaitable(result) else result


def _made(hook: Hook, config: BuiltinConfig, builtins: Builtins) -> Action:
    where = f"{hook.source}: the builtin hook {hook.name!r}"
    factory = builtins.get(config.builtin)
    if factory is None:
        known = ", ".join(sorted(builtins)) or "none"
        raise SettingsError(f"{where}: there is no policy {config.builtin!r}; those that exist: {known}")
    try:
        return factory(config.options)
    except ValueError as error:
        raise SettingsError(f"{where}: options: {error}") from None
