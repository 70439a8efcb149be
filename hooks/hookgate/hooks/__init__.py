"""hookgate's hook engine: settings files, the eleven events, and the running and merging of hooks."""

from typing import TYPE_CHECKING

from hookgate.translator.lazy_exports import lazy_exports

if TYPE_CHECKING:  # what it exports, by the modules that define it
    from hookgate.hooks.engine import Engine as Engine, EngineSource as EngineSource, Outcome as Outcome
    from hookgate.hooks.errors import HookError as HookError, SettingsError as SettingsError
    from hookgate.hooks.events import (
        AfterAgent as AfterAgent,
        AfterModel as AfterModel,
        AfterTool as AfterTool,
        BeforeAgent as BeforeAgent,
        BeforeModel as BeforeModel,
        BeforeTool as BeforeTool,
        BeforeToolSelection as BeforeToolSelection,
        Event as Event,
        Notification as Notification,
        PreCompress as PreCompress,
        SessionEnd as SessionEnd,
        SessionStart as SessionStart,
    )
    from hookgate.hooks.merge import Verdict as Verdict
    from hookgate.hooks.runs import Run as Run
    from hookgate.hooks.session import (
        CallEnd as CallEnd,
        CallState as CallState,
        Screen as Screen,
        SessionContext as SessionContext,
        Withheld as Withheld,
    )
    from hookgate.hooks.settings import (
        Configuration as Configuration,
        load_settings as load_settings,
        register_hook as register_hook,
    )

__getattr__ = lazy_exports(__name__)
