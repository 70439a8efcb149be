"""How hooks end a call that generates content, or have the model asked again: values, not exceptions.

Calls of other kinds, whose answers hooks cannot replace, raise ApiError: `Judge.raise_if_ended`. Of a batch,
hooks can replace each answer.
"""

from dataclasses import dataclass
from typing import TypeAlias

from hookgate.proxy.errors import ApiError
from hookgate.translator.fields import JsonObject, joined_text, read_list, read_object


@dataclass(frozen=True, slots=True)
class Replacement:
    """A hook's response, which the client receives instead of the model's answer."""

    answer: JsonObject
    is_complete: bool = False
    """Whether a hook returned the whole body, to which nothing is added."""

    @property
    def text(self) -> str:
        """The text of the response, such as the reason of a stop."""
        candidates = read_list(self.answer, "candidates")
        return joined_text(read_object(candidates[0], "content")) if candidates else ""


Ended: TypeAlias = Replacement | ApiError
"""What the client receives if a hook ends the call: a response, or an error."""


@dataclass(frozen=True, slots=True)
class AskAgain:
    """The model is called again with further turns that the client does not see."""

    turns: list[JsonObject]
    """The turns to append: the model's turn, if it has any text or calls, and why it was blocked."""
    answer_rejected: bool = False
    """Whether an AfterAgent hook rejected the final answer, rather than a tool call."""


Instead: TypeAlias = Ended | AskAgain
"""What comes instead of an answer of the model, or of the rest of it."""


def as_value(error: ApiError) -> ApiError:
    """Return an error that was raised without its traceback, whose frames would keep the whole call."""
    return error.with_traceback(None)
