"""Settings: reads Gemini CLI's settings.json from all layers into a configuration of hooks."""

from typing import TYPE_CHECKING

from hookgate.translator.lazy_exports import lazy_exports

if TYPE_CHECKING:
    from hookgate.hooks.settings.configs import (
        DEFAULT_TIMEOUT_MS,
        STREAM_MODES,
        AnyConfig,
        BuiltinConfig,
        CommandConfig,
        HookConfig,
        HttpConfig,
        RuntimeConfig,
        StreamMode,
        When,
    )
    from hookgate.hooks.settings.configuration import (
        ADVISORY,
        EVENTS,
        GEMINI_LAYERS,
        KNOWN_TOOLS,
        LAYERS,
        Configuration,
        EngineLimits,
        FailsOpen,
        Group,
        Hook,
        Layer,
        Matcher,
        NumberedText,
        SettingsSource,
        Subject,
        project_sources,
    )
    from hookgate.hooks.settings.layers import Loaded, load_settings, load_sources, read_sources
    from hookgate.hooks.settings.registering import register_hook

__all__ = [
    "ADVISORY",
    "DEFAULT_TIMEOUT_MS",
    "EVENTS",
    "GEMINI_LAYERS",
    "KNOWN_TOOLS",
    "LAYERS",
    "STREAM_MODES",
    "AnyConfig",
    "BuiltinConfig",
    "CommandConfig",
    "Configuration",
    "EngineLimits",
    "FailsOpen",
    "Group",
    "Hook",
    "HookConfig",
    "HttpConfig",
    "Layer",
    "Loaded",
    "Matcher",
    "NumberedText",
    "RuntimeConfig",
    "SettingsSource",
    "StreamMode",
    "Subject",
    "When",
    "load_settings",
    "load_sources",
    "project_sources",
    "read_sources",
    "register_hook",
]

__getattr__ = lazy_exports(
    __name__,
    {
        "configs": (
            "DEFAULT_TIMEOUT_MS",
            "STREAM_MODES",
            "AnyConfig",
            "BuiltinConfig",
            "CommandConfig",
            "HookConfig",
            "HttpConfig",
            "RuntimeConfig",
            "StreamMode",
            "When",
        ),
        "configuration": (
            "ADVISORY",
            "EVENTS",
            "GEMINI_LAYERS",
            "KNOWN_TOOLS",
            "LAYERS",
            "Configuration",
            "EngineLimits",
            "FailsOpen",
            "Group",
            "Hook",
            "Layer",
            "Matcher",
            "NumberedText",
            "SettingsSource",
            "Subject",
            "project_sources",
        ),
        "layers": (
            "Loaded",
            "load_settings",
            "load_sources",
            "read_sources",
        ),
        "registering": ("register_hook",),
    },
)
