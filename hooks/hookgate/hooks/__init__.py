"""hookgate's hook engine: settings files, the eleven events, and the running and merging of hooks."""

from typing import TYPE_CHECKING

from hookgate.translator.lazy_exports import lazy_exports

if TYPE_CHECKING:
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

__getattr__ = lazy_exports(
    __name__,
    {
        "engine": (
            "Engine",
            "EngineSource",
            "Outcome",
        ),
        "errors": (
            "HookError",
            "SettingsError",
        ),
        "events": (
            "AfterAgent",
            "AfterModel",
            "AfterTool",
            "BeforeAgent",
            "BeforeModel",
            "BeforeTool",
            "BeforeToolSelection",
            "Event",
            "Notification",
            "PreCompress",
            "SessionEnd",
            "SessionStart",
        ),
        "merge": ("Verdict",),
        "runs": ("Run",),
        "session": (
            "CallEnd",
            "CallState",
            "Screen",
            "SessionContext",
            "Withheld",
        ),
        "settings": (
            "Configuration",
            "load_settings",
            "register_hook",
        ),
    },
)
