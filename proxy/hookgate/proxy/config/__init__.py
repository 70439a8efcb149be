"""What an operator can set: one model, read from flags, environment and hookgate.toml."""

from hookgate.proxy.config.models import (
    Admin,
    Config,
    HookSources,
    Limits,
    Listen,
    Logs,
    Routes,
    Streams,
    ToolCalls,
    Upstream,
)

__all__ = [
    "Admin",
    "Config",
    "HookSources",
    "Limits",
    "Listen",
    "Logs",
    "Routes",
    "Streams",
    "ToolCalls",
    "Upstream",
]
