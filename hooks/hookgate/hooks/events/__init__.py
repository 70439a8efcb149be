"""The eleven events: what each shows a hook, and what a hook's edit makes of it.

The documents that hooks read and write are told in `hookgate.hooks.contract`.
"""

from hookgate.hooks.events.agent import AfterAgent, BeforeAgent
from hookgate.hooks.events.base import Event
from hookgate.hooks.events.model import AfterModel, BeforeModel, BeforeToolSelection
from hookgate.hooks.events.session import Notification, PreCompress, SessionEnd, SessionStart
from hookgate.hooks.events.tool import AfterTool, BeforeTool

__all__ = [
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
]
