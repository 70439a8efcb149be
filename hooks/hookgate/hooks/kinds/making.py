"""A runner for each configured hook, by its kind."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hookgate.hooks.document import Document
from hookgate.hooks.errors import HookError, SettingsError
from hookgate.hooks.kinds import Runner
from hookgate.hooks.kinds.builtin import BuiltinRunner, Builtins, Counters, PriceTable, Surroundings
from hookgate.hooks.kinds.command import CommandRunner
from hookgate.hooks.kinds.persistent import PersistentRunner
from hookgate.hooks.kinds.runtime import RuntimeRunner, load_action
from hookgate.hooks.output import Output
from hookgate.hooks.policies import BUILTINS
from hookgate.hooks.session import Session
from hookgate.hooks.settings import BuiltinConfig, CommandConfig, Hook, HttpConfig, RuntimeConfig


def make_runners(  # noqa: PLR0913  # what runners may need, all of it optional
    hooks: Iterable[Hook],
    *,
    refusal: Callable[[Hook], str | None] = lambda hook: None,
    http_targets: Iterable[str] = (),
    builtins: Builtins = BUILTINS,
    state: Path | None = None,
    counters: Counters | None = None,
    prices: PriceTable | None = None,
) -> dict[Hook, Runner]:
    """The runners of all hooks. Raises SettingsError for a hook that could never run.

    `refusal` tells why a hook must not run: nothing of it is imported or made, nor can it be in the way.
    `http_targets` are url prefixes that http hooks may post to beside this machine; `builtins` are the
    policies by name, those of hookgate if left out; `state`, `counters` and `prices` are what these may use.
    """
    files: dict[Path, Any] = {}  # what runtime hooks load from files, so that those of one file share it
    targets = tuple(http_targets)

    def made(hook: Hook) -> Runner:
        if (reason := refusal(hook)) is not None:
            return RefusedRunner(reason)
        match hook.config:
            case RuntimeConfig() as config:
                return RuntimeRunner(hook, load_action(hook, config, files))
            case HttpConfig() as config:
                return _http_runner(hook, config, targets)
            case BuiltinConfig() as config:
                return BuiltinRunner(hook, config, builtins, Surroundings(hook.root, state, counters, prices))
            case CommandConfig(persistent=True) as config:
                return PersistentRunner(hook, config)
            case CommandConfig() as config:
                return CommandRunner(hook, config)

    return {hook: made(hook) for hook in hooks}


class RefusedRunner:
    """In the place of a hook that must not run. Once it may, a reload makes its own runner."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def run(self, event: str, session: Session, document: Document) -> Output | None:
        raise HookError(self._reason)

    async def close(self) -> None:
        """There is nothing to end."""


def _http_runner(hook: Hook, config: HttpConfig, targets: Iterable[str]) -> Runner:
    try:
        from hookgate.hooks.kinds.http import HttpRunner  # noqa: PLC0415  # the base install has no aiohttp
    except ImportError as error:
        raise SettingsError(
            f"{hook.source}: http hooks need {error.name}; install it with: pip install 'hookgate[proxy]'"
        ) from None
    return HttpRunner(hook, config, targets)
