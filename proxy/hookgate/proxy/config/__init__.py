"""The gateway's configuration: one model, read from flags, the environment and hookgate.toml."""

from hookgate.proxy.config.models import (
    AdminSettings,
    ClientSettings,
    Config,
    HookSettings,
    LimitSettings,
    ListenSettings,
    LogSettings,
    MetricSettings,
    NamedKey,
    PriceSettings,
    RouteSettings,
    ShimSettings,
    StoreSettings,
    StreamSettings,
    ToolCallSettings,
    TracingSettings,
    TranscriptSettings,
    UpstreamSettings,
)
from hookgate.proxy.config.reading import EffectiveConfig, read_config
from hookgate.proxy.config.sources import ConfigError

__all__ = [
    "AdminSettings",
    "ClientSettings",
    "Config",
    "ConfigError",
    "EffectiveConfig",
    "HookSettings",
    "LimitSettings",
    "ListenSettings",
    "LogSettings",
    "MetricSettings",
    "NamedKey",
    "PriceSettings",
    "RouteSettings",
    "ShimSettings",
    "StoreSettings",
    "StreamSettings",
    "ToolCallSettings",
    "TracingSettings",
    "TranscriptSettings",
    "UpstreamSettings",
    "read_config",
]
