"""Creates the runners of hooks, by hook type."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hookgate.hooks.errors import HookError, Problem, SettingsError
from hookgate.hooks.events.base import Document
from hookgate.hooks.output import Output
from hookgate.hooks.policies import BUILTINS
from hookgate.hooks.policy_environment import (
    AccessTokens,
    Builtins,
    Counters,
    PinnedTools,
    PolicyEnvironment,
    PriceTable,
)
from hookgate.hooks.runners import Runner
from hookgate.hooks.runners.command import CommandRunner
from hookgate.hooks.runners.inprocess import BuiltinRunner, RuntimeRunner, load_action
from hookgate.hooks.runners.persistent import PersistentRunner
from hookgate.hooks.runners.rego import RegoRunner
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings import BuiltinConfig, CommandConfig, Hook, HttpConfig, RegoConfig, RuntimeConfig
from hookgate.hooks.settings.policies import POLICIES


def make_runners(  # noqa: PLR0913  # the dependencies of all runner types, each optional
    hooks: Iterable[Hook],
    *,
    trust_check: Callable[[Hook], str | None] = lambda hook: None,
    http_targets: Iterable[str] = (),
    builtins: Builtins = BUILTINS,
    state: Path | None = None,
    counters: Counters | None = None,
    pins: PinnedTools | None = None,
    prices: PriceTable | None = None,
    access_tokens: AccessTokens | None = None,
) -> dict[Hook, Runner]:
    """Return a runner for each hook. Raises SettingsError with every hook that can never run.

    `trust_check` returns the reason why a hook must not run, or None; nothing is imported or created for
    such a hook. `http_targets` are the URL prefixes, besides this machine, that http hooks and policies may
    post to. `builtins` are the policies by name, by default hookgate's own; `state`, `counters`, `pins`,
    `prices` and `access_tokens` are available to them.
    """
    files: dict[Path, Any] = {}  # modules loaded from files, shared by the runtime hooks of one file
    targets = tuple(http_targets)

    def make_runner(hook: Hook) -> Runner:
        if (reason := trust_check(hook)) is not None:
            return RefusedRunner(reason)
        match hook.config:
            case RuntimeConfig() as config:
                return RuntimeRunner(hook, hook.function or load_action(hook, config, files))
            case HttpConfig() as config:
                return _http_runner(hook, config, targets)
            case RegoConfig() as config:
                return RegoRunner(hook, config)
            case BuiltinConfig() as config:
                _check_event(hook, config)
                environment = PolicyEnvironment(
                    hook.root, state, counters, pins, prices, targets, access_tokens
                )
                return BuiltinRunner(hook, config, builtins, environment)
            case CommandConfig(persistent=True) as config:
                return PersistentRunner(hook, config)
            case CommandConfig() as config:
                return CommandRunner(hook, config)

    return _make_all(hooks, make_runner)


def _check_event(hook: Hook, config: BuiltinConfig) -> None:
    """Check that the policy judges the hook's event. Raises SettingsError."""
    policy = POLICIES.get(config.builtin)
    if policy is not None and hook.event and hook.event not in policy.events:
        events = " or ".join(policy.events)
        message = f"the policy {config.builtin!r} does not judge this event; use {events}"
        where = f"the {hook.event} hook {hook.name!r}"
        raise SettingsError([Problem(hook.source, f"{where}: {message}", hook.line)])


def _make_all(hooks: Iterable[Hook], make_runner: Callable[[Hook], Runner]) -> dict[Hook, Runner]:
    runners: dict[Hook, Runner] = {}
    problems: list[str] = []
    for hook in hooks:
        try:
            runners[hook] = make_runner(hook)
        except SettingsError as error:
            problems.append(str(error))
    if problems:
        raise SettingsError("\n".join(problems))
    return runners


class RefusedRunner:
    """The runner of a hook that must not run: it always fails. New trust takes effect after a restart."""

    def __init__(self, reason: str) -> None:
        self._reason = reason

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        raise HookError(self._reason)

    async def close(self) -> None:
        """Do nothing: there is nothing to close."""


def _http_runner(hook: Hook, config: HttpConfig, targets: Iterable[str]) -> Runner:
    try:
        from hookgate.hooks.runners.http import HttpRunner  # noqa: PLC0415  # the base install has no aiohttp
    except ImportError as error:
        remedy = "install hookgate with its extra proxy"
        raise SettingsError(f"{hook.source}: http hooks need {error.name}; {remedy}") from None
    return HttpRunner(hook, config, targets)
