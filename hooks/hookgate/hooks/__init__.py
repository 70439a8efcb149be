"""hookgate's hook engine: settings files, the model events, and the running and merging of hooks."""

from hookgate.hooks.engine import Engine, Outcome, Run, Session
from hookgate.hooks.errors import HookError, SettingsError
from hookgate.hooks.events import AfterModel, BeforeModel, BeforeToolSelection
from hookgate.hooks.merge import Verdict
from hookgate.hooks.settings import Configuration, load_settings

__all__ = [
    "AfterModel",
    "BeforeModel",
    "BeforeToolSelection",
    "Configuration",
    "Engine",
    "HookError",
    "Outcome",
    "Run",
    "Session",
    "SettingsError",
    "Verdict",
    "load_settings",
]
