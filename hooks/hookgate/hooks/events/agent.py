"""Events of an agent's turn."""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from hookgate.hooks.events.base import Event
from hookgate.translator.fields import JsonObject


@dataclass(frozen=True)
class BeforeAgent(Event):
    """A prompt was submitted, and the agent has not begun to work on it."""

    name: ClassVar[str] = "BeforeAgent"
    prompt: str
    conversation_history: list[Any] | None = None

    def fields(self, view: str) -> JsonObject:
        return {"prompt": self.prompt, "user_message": self.prompt, **_history(self.conversation_history)}

    def sequel(self, specific: JsonObject) -> Self:
        """What one hook adds, the next one finds behind the prompt, as Gemini CLI has it."""
        context = specific.get("additionalContext")
        return replace(self, prompt=f"{self.prompt}\n\n{context}") if isinstance(context, str) else self


@dataclass(frozen=True)
class AfterAgent(Event):
    """The agent has answered; `stop_hook_active` when the turn is already one that a hook asked for."""

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
