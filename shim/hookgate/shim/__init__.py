"""The gateway's companion library: it reports an agent's sessions, turns and tools to the hooks.

Names are imported on first access, so that a program that only sends one event starts quickly.
"""

from importlib import import_module

TYPE_CHECKING = False  # as in typing, whose import would cost more than this module
if TYPE_CHECKING:
    from typing import Any

    from hookgate.shim.decisions import (
        Blocked,
        Decision,
        Denied,
        EventRefused,
        Question,
        ShimError,
        Stopped,
        ToolDenied,
        ToolFailed,
    )
    from hookgate.shim.sessions import Session, SyncSession
    from hookgate.shim.shim import Shim

_MODULES = {
    "Blocked": "decisions",
    "Decision": "decisions",
    "Denied": "decisions",
    "EventRefused": "decisions",
    "Question": "decisions",
    "Session": "sessions",
    "Shim": "shim",
    "ShimError": "decisions",
    "Stopped": "decisions",
    "SyncSession": "sessions",
    "ToolDenied": "decisions",
    "ToolFailed": "decisions",
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
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
