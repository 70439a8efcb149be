"""hookgate's hook engine: settings files, the eleven events, and the running and merging of hooks."""

from hookgate.hooks.engine import Engine, EngineSource, Outcome
from hookgate.hooks.errors import HookError, SettingsError
from hookgate.hooks.events import (
    AfterAgent,
    AfterModel,
    AfterTool,
    BeforeAgent,
    BeforeModel,
    BeforeTool,
    BeforeToolSelection,
    Event,
    Notification,
    PreCompress,
    SessionEnd,
    SessionStart,
)
from hookgate.hooks.merge import Verdict
from hookgate.hooks.runs import Run
from hookgate.hooks.session import CallEnd, CallState, Screen, SessionContext, Withheld
from hookgate.hooks.settings import Configuration, load_settings, register_hook

__all__ = [
    "AfterAgent",
    "AfterModel",
    "AfterTool",
    "BeforeAgent",
    "BeforeModel",
    "BeforeTool",
    "BeforeToolSelection",
    "CallEnd",
    "CallState",
    "Configuration",
    "Engine",
    "EngineSource",
    "Event",
    "HookError",
    "Notification",
    "Outcome",
    "PreCompress",
    "Run",
    "Screen",
    "SessionContext",
    "SessionEnd",
    "SessionStart",
    "SettingsError",
    "Verdict",
    "Withheld",
    "load_settings",
    "register_hook",
]
