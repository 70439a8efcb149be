"""The events of an agent's turn: BeforeAgent and AfterAgent."""

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal, Self

from pydantic import Field

from hookgate.hooks.events.base import (
    ContextOutput,
    DecisionAndReason,
    Event,
    HookInput,
    HookOutput,
    Specific,
    SpecificOutput,
    first,
)
from hookgate.translator.fields import JsonObject


class TurnInput(HookInput):
    """The input fields that both turn events share: the user's prompt."""

    prompt: str | None = None
    """The user's prompt."""

    user_message: str | None = None
    """Alias of `prompt`."""

    @property
    def user_prompt(self) -> str:
        """The user's prompt: `prompt` or `user_message`."""
        return first(self.prompt, self.user_message) or ""


class BeforeAgentInput(TurnInput):
    """Fires after the user has sent a prompt, before the agent starts to plan.

    Fired by the agent shim, or derived by the gateway from a call. It has no matcher.
    """

    hook_event_name: Literal["BeforeAgent"]

    conversation_history: list[Any] | None = None
    """The previous turns, if known."""


class BeforeAgentOutput(HookOutput):
    """The hook may deny the prompt, or add context for the model.

    - `deny`: the turn does not begin, the prompt is dropped, and the user is shown `reason`.
    - `continue: false`: the turn does not begin, and the user is shown `stopReason`.
    - Exit code 2: like `deny`, with stderr as the reason.

    Example: add context to every prompt.

        {"hookSpecificOutput": {"additionalContext": "On branch main, 2 files changed."}}
    """

    hook_specific_output: Specific[ContextOutput] = None


class AfterAgentInput(TurnInput):
    """Fires after the agent has given its final answer to a prompt.

    Fired by the agent shim, or derived by the gateway from a call. It has no matcher.
    """

    hook_event_name: Literal["AfterAgent"]

    prompt_response: str | None = None
    """The final answer's text."""

    final_response: str | None = None
    """Alias of `prompt_response`."""

    stop_hook_active: bool | None = None
    """Whether this turn is already a retry requested by a hook. Check it to avoid infinite retries."""

    @property
    def answer(self) -> str:
        """The final answer's text: `prompt_response` or `final_response`."""
        return first(self.prompt_response, self.final_response) or ""


class AfterAgentSpecific(SpecificOutput):
    """The fields of hookSpecificOutput for AfterAgent."""

    retry: bool | None = None
    """`true` has the same effect as `"decision": "deny"`."""

    retry_reason: str | None = Field(None, alias="retryReason")
    """Alias of `reason`, for that denial."""

    clear_context: bool | None = Field(None, alias="clearContext")
    """`true` clears the conversation from the model's context."""

    def decisions(self) -> Iterable[DecisionAndReason]:
        return (*super().decisions(), ("deny" if self.retry else None, self.retry_reason))


class AfterAgentOutput(HookOutput):
    """The hook may reject the answer and make the agent retry.

    - `deny`: the answer is rejected, and the agent retries with `reason` as its next prompt.
    - `continue: false`: the agent stops without a retry, and the user is shown `stopReason`.
    - Exit code 2: like `deny`, with stderr as the reason.

    Example: reject an answer.

        {"decision": "deny", "reason": "Run the tests, and say what they showed."}
    """

    hook_specific_output: Specific[AfterAgentSpecific] = None


@dataclass(frozen=True)
class BeforeAgent(Event):
    """A prompt was submitted, and the agent has not begun to work on it."""

    name: ClassVar[str] = "BeforeAgent"
    prompt: str
    conversation_history: list[Any] | None = None

    def fields(self, view: str) -> JsonObject:
        return {"prompt": self.prompt, "user_message": self.prompt, **_history(self.conversation_history)}

    def for_next_hook(self, specific: JsonObject) -> Self:
        """Return the event with the hook's additional context appended to the prompt, as in Gemini CLI."""
        context = specific.get("additionalContext")
        return replace(self, prompt=f"{self.prompt}\n\n{context}") if isinstance(context, str) else self


@dataclass(frozen=True)
class AfterAgent(Event):
    """The agent has answered. `stop_hook_active` is true if the turn is a retry requested by a hook."""

    name: ClassVar[str] = "AfterAgent"
    prompt: str
    prompt_response: str
    stop_hook_active: bool = False
    conversation_history: list[Any] | None = None

    def fields(self, view: str) -> JsonObject:
        return {
            "prompt": self.prompt,
            "user_message": self.prompt,
            "prompt_response": self.prompt_response,
            "final_response": self.prompt_response,
            "stop_hook_active": self.stop_hook_active,
            **_history(self.conversation_history),
        }


def _history(history: list[Any] | None) -> JsonObject:
    return {} if history is None else {"conversation_history": history}
