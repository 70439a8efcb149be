"""What an operator can set: one model, read from flags, environment and hookgate.toml."""

from hookgate.proxy.config.given import ConfigError
from hookgate.proxy.config.models import (
    Admin,
    Clients,
    Config,
    HookSources,
    Limits,
    Listen,
    NamedKey,
    Routes,
    Shims,
    Streams,
    ToolCalls,
    Upstream,
)
from hookgate.proxy.config.reading import Effective, read_config
from hookgate.proxy.config.recording import Logs, MetricLabels, Prices, Store, Tracing, Transcripts

__all__ = [
    "Admin",
    "Clients",
    "Config",
    "ConfigError",
    "Effective",
    "HookSources",
    "Limits",
    "Listen",
    "Logs",
    "MetricLabels",
    "NamedKey",
    "Prices",
    "Routes",
    "Shims",
    "Store",
    "Streams",
    "ToolCalls",
    "Tracing",
    "Transcripts",
    "Upstream",
    "read_config",
]
