"""The names of the events for which settings configure hooks."""

EVENTS = (
    "SessionStart",
    "SessionEnd",
    "BeforeAgent",
    "AfterAgent",
    "BeforeModel",
    "AfterModel",
    "BeforeToolSelection",
    "BeforeTool",
    "AfterTool",
    "PreCompress",
    "Notification",
)
"""The eleven events of the hook contract."""

ADVISORY = frozenset({"SessionEnd", "PreCompress", "Notification"})
"""The events that hooks cannot stop. Only agents report them, so they belong to no call of a model."""

TOOL_EVENTS = frozenset({"BeforeTool", "AfterTool"})
TRIGGER_EVENTS = frozenset({"SessionStart", "SessionEnd", "PreCompress", "Notification"})
