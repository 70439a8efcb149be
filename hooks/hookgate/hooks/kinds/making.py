"""A runner for each configured hook, by its kind."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from hookgate.hooks.kinds import Runner
from hookgate.hooks.kinds.command import CommandRunner
from hookgate.hooks.kinds.runtime import RuntimeRunner, load_action
from hookgate.hooks.settings import CommandConfig, Hook, RuntimeConfig


def make_runners(hooks: Iterable[Hook]) -> dict[Hook, Runner]:
    """The runners of all hooks. Raises SettingsError for a hook that could never run."""
    files: dict[Path, Any] = {}  # what runtime hooks load from files, so that those of one file share it
    return {hook: _runner(hook, files) for hook in hooks}


def _runner(hook: Hook, files: dict[Path, Any]) -> Runner:
    config = hook.config
    if isinstance(config, CommandConfig):
        return CommandRunner(hook, config)
    if isinstance(config, RuntimeConfig):
        return RuntimeRunner(hook, load_action(hook, config, files))
    raise NotImplementedError(f"{hook.source}: {type(config).__name__}")
