"""The events of an agent's turn: from the user's prompt to the final answer."""

from collections.abc import Iterable
from typing import Any, Literal

from pydantic import Field

from hookgate.hooks.contract.base import (
    ContextOutput,
    HookInput,
    HookOutput,
    Specific,
    SpecificOutput,
    Verdict,
    first,
)


class TurnInput(HookInput):
    """What both ends of a turn show: the user's prompt."""

    prompt: str | None = None
    """What the user wrote."""

    user_message: str | None = None
    """Another spelling of `prompt`."""

    @property
    def user_prompt(self) -> str:
        """What the user wrote: `prompt` or `user_message`."""
        return first(self.prompt, self.user_message) or ""


class BeforeAgentInput(TurnInput):
    """Fires when the user has sent a prompt, before the agent begins to plan.

    Fired by the agent shim. It has no matcher.
    """

    hook_event_name: Literal["BeforeAgent"]

    conversation_history: list[Any] | None = None
    """The turns before this one, when known."""


class BeforeAgentOutput(HookOutput):
    """May refuse the prompt, or tell the model more.

    - `deny`: the turn does not begin, the prompt is dropped, and the user reads `reason`.
    - `continue: false`: the turn does not begin, and the user reads `stopReason`.
    - Exit code 2: as `deny`, with stderr as the reason.

    Example: what belongs to every prompt.

        {"hookSpecificOutput": {"additionalContext": "On branch main, 2 files changed."}}
    """

    hook_specific_output: Specific[ContextOutput] = None


class AfterAgentInput(TurnInput):
    """Fires when the agent has given its final answer to a prompt.

    Fired by the agent shim. It has no matcher.
    """

    hook_event_name: Literal["AfterAgent"]

    prompt_response: str | None = None
    """The final answer's text."""

    final_response: str | None = None
    """Another spelling of `prompt_response`."""

    stop_hook_active: bool | None = None
    """Whether this turn is already a retry that a hook asked for: the guard against retrying for ever."""

    @property
    def answer(self) -> str:
        """The final answer's text: `prompt_response` or `final_response`."""
        return first(self.prompt_response, self.final_response) or ""


class AfterAgentSpecific(SpecificOutput):
    """What a hook may say about a final answer."""

    retry: bool | None = None
    """`true` is another spelling of `decision` `deny`."""

    retry_reason: str | None = Field(None, alias="retryReason")
    """Another spelling of the `reason` of that denial."""

    clear_context: bool | None = Field(None, alias="clearContext")
    """`true` clears what the model remembers of the conversation."""

    def verdicts(self) -> Iterable[Verdict]:
        return (*super().verdicts(), ("deny" if self.retry else None, self.retry_reason))


class AfterAgentOutput(HookOutput):
    """May send the agent back to work.

    - `deny`: the answer is rejected, and the agent tries again with `reason` as its next prompt.
    - `continue: false`: the agent stops without another try, and the user reads `stopReason`.
    - Exit code 2: as `deny`, with stderr as the reason.

    Example: an answer that is not good enough.

        {"decision": "deny", "reason": "Run the tests, and say what they showed."}
    """

    hook_specific_output: Specific[AfterAgentSpecific] = None
