"""Settings: reads Gemini CLI's settings.json from all layers into a configuration of hooks."""

from typing import TYPE_CHECKING

from hookgate.translator.lazy_exports import lazy_exports

if TYPE_CHECKING:  # what it exports, by the modules that define it
    from hookgate.hooks.settings.configs import (
        DEFAULT_TIMEOUT_MS as DEFAULT_TIMEOUT_MS,
        STREAM_MODES as STREAM_MODES,
        AnyConfig as AnyConfig,
        BuiltinConfig as BuiltinConfig,
        CommandConfig as CommandConfig,
        HookConfig as HookConfig,
        HttpConfig as HttpConfig,
        RegoConfig as RegoConfig,
        RuntimeConfig as RuntimeConfig,
        StreamMode as StreamMode,
        When as When,
    )
    from hookgate.hooks.settings.configuration import (
        KNOWN_TOOLS as KNOWN_TOOLS,
        Configuration as Configuration,
        EngineLimits as EngineLimits,
        FailsOpen as FailsOpen,
        Group as Group,
        Hook as Hook,
        Matcher as Matcher,
        Subject as Subject,
    )
    from hookgate.hooks.settings.event_names import ADVISORY as ADVISORY, EVENTS as EVENTS
    from hookgate.hooks.settings.sources import (
        GEMINI_LAYERS as GEMINI_LAYERS,
        LAYERS as LAYERS,
        Layer as Layer,
        NumberedText as NumberedText,
        SettingsSource as SettingsSource,
        project_sources as project_sources,
    )
    from hookgate.hooks.settings.layers import (
        Loaded as Loaded,
        load_settings as load_settings,
        load_sources as load_sources,
        read_sources as read_sources,
    )
    from hookgate.hooks.settings.registering import register_hook as register_hook

__getattr__ = lazy_exports(__name__)
