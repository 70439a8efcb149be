"""The events of a session: SessionStart, SessionEnd, PreCompress and Notification."""

from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from hookgate.hooks.events.base import (
    AdvisoryOutput,
    ContextOutput,
    Event,
    HookInput,
    HookOutput,
    Specific,
    first,
)
from hookgate.translator.fields import JsonObject


class SessionStartInput(HookInput):
    """Fires when a session begins.

    Fired by the agent shim, or derived by the gateway from a call. The matcher must equal `source`.
    """

    hook_event_name: Literal["SessionStart"]

    source: str | None = None
    """How the session began: `startup`, `resume`, `clear` or `compress`."""

    trigger: str | None = None
    """Alias of `source`."""

    @property
    def cause(self) -> str:
        """How the session began: `source` or `trigger`."""
        return first(self.source, self.trigger) or ""


class SessionStartOutput(HookOutput):
    """The hook may deny the session, or add initial context for the model.

    - `deny`: the session does not begin, and the user is shown `reason`.
    - `continue: false`: the session does not begin, and the user is shown `stopReason`.
    - Exit code 2: like `deny`, with stderr as the reason.

    Example: add initial context.

        {"hookSpecificOutput": {"additionalContext": "The tests run with `make test`."}}
    """

    hook_specific_output: Specific[ContextOutput] = None


class SessionEndInput(HookInput):
    """Fires when a session ends.

    Fired by the agent shim. The matcher must equal `reason`.
    """

    hook_event_name: Literal["SessionEnd"]

    reason: str | None = None
    """Why the session ends: `exit`, `clear`, `logout`, `prompt_input_exit` or `other`."""

    trigger: str | None = None
    """Alias of `reason`."""

    @property
    def cause(self) -> str:
        """Why the session ends: `reason` or `trigger`."""
        return first(self.reason, self.trigger) or ""


class SessionEndOutput(AdvisoryOutput):
    """Advisory: a hook cannot keep the session from ending.

    - `deny`: ignored.
    - `continue: false`: ignored.
    - Exit code 2: has no effect except that stderr becomes `systemMessage`.

    Example: a message for the user.

        {"systemMessage": "The session's log was saved."}
    """


class PreCompressInput(HookInput):
    """Fires before the agent compresses its context.

    Fired by the agent shim. The matcher must equal `trigger`.
    """

    hook_event_name: Literal["PreCompress"]

    trigger: str | None = None
    """The cause of the compression: `manual` or `auto`."""

    context_size: int | float | None = None
    """The size of the context in tokens, if known."""

    max_context_size: int | float | None = None
    """The maximum size of the context in tokens, if known."""


class PreCompressOutput(AdvisoryOutput):
    """Advisory: a hook cannot prevent the compression.

    - `deny`: ignored.
    - `continue: false`: ignored.
    - Exit code 2: has no effect except that stderr becomes `systemMessage`.

    Example: a message for the user.

        {"systemMessage": "The conversation was saved before its compression."}
    """


class NotificationInput(HookInput):
    """Fires when the agent notifies the user, for example to ask for permission.

    Fired by the agent shim. The matcher must equal `notification_type`.
    """

    hook_event_name: Literal["Notification"]

    notification_type: str
    """The kind: `ToolPermission`, or a level such as `error`, `warning`, `info`."""

    message: str
    """The message to the user."""

    details: JsonObject | None = None
    """Details of this kind of notification, such as the tool that needs permission."""


class NotificationOutput(AdvisoryOutput):
    """Advisory: a hook can neither hide a notification nor grant the requested permission.

    - `deny`: ignored.
    - `continue: false`: ignored.
    - Exit code 2: has no effect except that stderr becomes `systemMessage`.

    Example: no message, because the hook has sent its own.

        {"suppressOutput": true}
    """


@dataclass(frozen=True)
class SessionStart(Event):
    """A session begins. `source` is startup, resume, clear or compress."""

    name: ClassVar[str] = "SessionStart"
    source: str = "startup"

    def fields(self, view: str) -> JsonObject:
        return {"source": self.source, "trigger": self.source}

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return self.source if name == "trigger" else super().subject_property(name)


@dataclass(frozen=True)
class SessionEnd(Event):
    """A session ends. `reason` is exit, clear, logout, prompt_input_exit or other."""

    name: ClassVar[str] = "SessionEnd"
    reason: str = "exit"

    def fields(self, view: str) -> JsonObject:
        return {"reason": self.reason, "trigger": self.reason}

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return self.reason if name == "trigger" else super().subject_property(name)


@dataclass(frozen=True)
class PreCompress(Event):
    """The conversation is about to be compressed. `trigger` is manual or auto; sizes are in tokens."""

    name: ClassVar[str] = "PreCompress"
    trigger: str = "auto"
    context_size: int | None = None
    max_context_size: int | None = None

    def fields(self, view: str) -> JsonObject:
        sizes = {"context_size": self.context_size, "max_context_size": self.max_context_size}
        return {"trigger": self.trigger, **{key: size for key, size in sizes.items() if size is not None}}

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return self.trigger if name == "trigger" else super().subject_property(name)


@dataclass(frozen=True)
class Notification(Event):
    """The agent notifies the user. `notification_type` is, for example, ToolPermission."""

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

    def subject_property(self, name: str) -> str | tuple[str, ...]:
        return self.notification_type if name == "trigger" else super().subject_property(name)
