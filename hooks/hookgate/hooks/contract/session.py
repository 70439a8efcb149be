"""The events of a session: its start and end, the compression of its context, its notifications."""

from typing import Literal

from hookgate.hooks.contract.base import (
    AdvisoryOutput,
    ContextOutput,
    HookInput,
    HookOutput,
    JsonObject,
    Specific,
    first,
)


class SessionStartInput(HookInput):
    """Fires when a session begins.

    Fired by the agent shim. The matcher is the exact source.
    """

    hook_event_name: Literal["SessionStart"]

    source: str | None = None
    """How it began: `startup`, `resume`, `clear` or `compress`."""

    trigger: str | None = None
    """Another spelling of `source`."""

    @property
    def cause(self) -> str:
        """How the session began: `source` or `trigger`."""
        return first(self.source, self.trigger) or ""


class SessionStartOutput(HookOutput):
    """May give the session its first context.

    - `deny`: the session does not begin, and the user reads `reason`.
    - `continue: false`: the same, with `stopReason`.
    - Exit code 2: as `deny`, with stderr as the reason.

    Example: what the model should know from its first turn on.

        {"hookSpecificOutput": {"additionalContext": "The tests run with `make test`."}}
    """

    hook_specific_output: Specific[ContextOutput] = None


class SessionEndInput(HookInput):
    """Fires when a session ends.

    Fired by the agent shim. The matcher is the exact reason.
    """

    hook_event_name: Literal["SessionEnd"]

    reason: str | None = None
    """Why it ends: `exit`, `clear`, `logout`, `prompt_input_exit` or `other`."""

    trigger: str | None = None
    """Another spelling of `reason`."""

    @property
    def cause(self) -> str:
        """Why the session ends: `reason` or `trigger`."""
        return first(self.reason, self.trigger) or ""


class SessionEndOutput(AdvisoryOutput):
    """Advisory: the session ends whatever a hook says.

    - `deny`: ignored.
    - `continue: false`: ignored.
    - Exit code 2: stops nothing; stderr becomes the message.

    Example: a last word to the user.

        {"systemMessage": "The session's log was saved."}
    """


class PreCompressInput(HookInput):
    """Fires before the agent compresses its context.

    Fired by the agent shim. The matcher is the exact trigger.
    """

    hook_event_name: Literal["PreCompress"]

    trigger: str | None = None
    """Who asked for it: `manual` or `auto`."""

    context_size: int | float | None = None
    """The size of the context in tokens, when known."""

    max_context_size: int | float | None = None
    """The most tokens that the context may hold, when known."""


class PreCompressOutput(AdvisoryOutput):
    """Advisory: the context is compressed whatever a hook says.

    - `deny`: ignored.
    - `continue: false`: ignored.
    - Exit code 2: stops nothing; stderr becomes the message.

    Example: tell the user where the whole conversation can be found.

        {"systemMessage": "The conversation was saved before it is compressed."}
    """


class NotificationInput(HookInput):
    """Fires when the agent notifies the user, such as for a permission.

    Fired by the agent shim. The matcher is the exact notification type.
    """

    hook_event_name: Literal["Notification"]

    notification_type: str
    """The kind: `ToolPermission`, or a level such as `error`, `warning`, `info`."""

    message: str
    """What the user is told."""

    details: JsonObject | None = None
    """What belongs to this kind, such as the tool that waits for permission."""


class NotificationOutput(AdvisoryOutput):
    """Advisory: a hook neither hides a notification nor gives the permission it asks for.

    - `deny`: ignored.
    - `continue: false`: ignored.
    - Exit code 2: stops nothing; stderr becomes the message.

    Example: nothing to read, the hook has sent a message of its own.

        {"suppressOutput": true}
    """
