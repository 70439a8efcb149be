"""Events of a session's life, which hooks may hear of and, at its start, add to."""

from dataclasses import dataclass, field
from typing import Any, ClassVar

from hookgate.hooks.events.base import Event
from hookgate.hooks.settings.matching import Subject
from hookgate.translator.fields import JsonObject


@dataclass(frozen=True)
class SessionStart(Event):
    """A session begins: `source` is startup, resume, clear or compress."""

    name: ClassVar[str] = "SessionStart"
    source: str = "startup"

    def fields(self, view: str) -> JsonObject:
        return {"source": self.source, "trigger": self.source}

    def subject(self) -> Subject:
        return Subject(trigger=self.source)


@dataclass(frozen=True)
class SessionEnd(Event):
    """A session ends: `reason` is exit, clear, logout, prompt_input_exit or other."""

    name: ClassVar[str] = "SessionEnd"
    reason: str = "exit"

    def fields(self, view: str) -> JsonObject:
        return {"reason": self.reason, "trigger": self.reason}

    def subject(self) -> Subject:
        return Subject(trigger=self.reason)


@dataclass(frozen=True)
class PreCompress(Event):
    """The conversation is about to be compressed: `trigger` is manual or auto; sizes are in tokens."""

    name: ClassVar[str] = "PreCompress"
    trigger: str = "auto"
    context_size: int | None = None
    max_context_size: int | None = None

    def fields(self, view: str) -> JsonObject:
        sizes = {"context_size": self.context_size, "max_context_size": self.max_context_size}
        return {"trigger": self.trigger, **{key: size for key, size in sizes.items() if size is not None}}

    def subject(self) -> Subject:
        return Subject(trigger=self.trigger)


@dataclass(frozen=True)
class Notification(Event):
    """The agent tells its user something: `notification_type` is ToolPermission, for one."""

    name: ClassVar[str] = "Notification"
    notification_type: str = ""
    message: str = ""
    details: JsonObject = field(default_factory=dict[str, Any])

    def fields(self, view: str) -> JsonObject:
        return {
            "notification_type": self.notification_type,
            "message": self.message,
            "details": self.details,
        }

    def subject(self) -> Subject:
        return Subject(trigger=self.notification_type)
