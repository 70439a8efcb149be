"""The companion of the gateway: an agent's sessions, turns and tools, told to its hooks.

Nothing is imported before it is asked for: a program that only sends one event starts at once.
"""

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import would cost more than this module
if TYPE_CHECKING:
    from typing import Any

    from hookgate.shim.decisions import Decision, Question
    from hookgate.shim.errors import (
        Blocked,
        Denied,
        EventRefused,
        ShimError,
        Stopped,
        ToolDenied,
        ToolFailed,
    )
    from hookgate.shim.session import Session
    from hookgate.shim.shim import Shim
    from hookgate.shim.sync import SyncSession

_HOMES = {
    "Blocked": "errors",
    "Decision": "decisions",
    "Denied": "errors",
    "EventRefused": "errors",
    "Question": "decisions",
    "Session": "session",
    "Shim": "shim",
    "ShimError": "errors",
    "Stopped": "errors",
    "SyncSession": "sync",
    "ToolDenied": "errors",
    "ToolFailed": "errors",
}

__all__ = [
    "Blocked",
    "Decision",
    "Denied",
    "EventRefused",
    "Question",
    "Session",
    "Shim",
    "ShimError",
    "Stopped",
    "SyncSession",
    "ToolDenied",
    "ToolFailed",
]


def __getattr__(name: str) -> "Any":
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
