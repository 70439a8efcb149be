"""Settings files: Gemini CLI's settings.json in all its layers, read into the hooks to run."""

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
from hookgate.hooks.settings.layers import Loaded, load_places, load_settings, read_places
from hookgate.hooks.settings.matching import KNOWN_TOOLS, Matcher, Subject
from hookgate.hooks.settings.places import Place, project_places
from hookgate.hooks.settings.plan import (
    ADVISORY,
    EVENTS,
    GEMINI_LAYERS,
    LAYERS,
    Configuration,
    FailsOpen,
    Group,
    Hook,
    Layer,
    Limits,
)

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
    "FailsOpen",
    "Group",
    "Hook",
    "HookConfig",
    "HttpConfig",
    "Layer",
    "Limits",
    "Loaded",
    "Matcher",
    "Place",
    "RuntimeConfig",
    "StreamMode",
    "Subject",
    "When",
    "load_places",
    "load_settings",
    "project_places",
    "read_places",
]
