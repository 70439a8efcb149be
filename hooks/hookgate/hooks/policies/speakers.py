"""Who speaks in the turns of a request, and which texts have which scope, for all that judge texts."""

from collections.abc import Mapping, Sequence
from typing import Any, Literal, get_args

from hookgate.translator.fields import has_part, is_text, read_list

Scope = Literal["prompts", "system", "tool_results", "tool_arguments", "answers", "thoughts", "other"]
"""The role of a text in a conversation; `other` is everything in a request but its turns."""

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

PART_SCOPES: Mapping[str, Scope] = {
    "functionCall": "tool_arguments",
    "toolCall": "tool_arguments",
    "functionResponse": "tool_results",
    "toolResponse": "tool_results",
    "codeExecutionResult": "tool_results",
    "executableCode": "answers",
}
"""The scopes of the fields of a part that differ from that of its speaker."""


def is_model_turn(content: Any) -> bool:
    """Return whether the model wrote a content. Some agents send tool results under its role, too."""
    is_model = isinstance(content, dict) and content.get("role") == "model"
    return is_model and not has_part(content, "functionResponse")


def end_of_answers(contents: Sequence[Any], end: int | None = None) -> int:
    """Return the number of contents before those at the end that claim to be the model's.

    These are the client's, such as a prefilled answer: the model has not answered them. With `end`, only the
    contents before that index count.
    """
    end = len(contents) if end is None else end
    while end and is_model_turn(contents[end - 1]):
        end -= 1
    return end


def prefilled_text(contents: Sequence[Any]) -> str:
    """Return the text with which contents begin the model's answer; empty if they do not."""
    turns = contents[end_of_answers(contents) :]
    parts = (part for turn in turns for part in read_list(turn, "parts") if is_text(part))
    return "".join(part["text"] for part in parts if not part.get("thought"))


def last_model_turn(contents: Sequence[Any], end: int | None = None) -> int:
    """Return the index of the model's last turn before the turn to answer, or -1 if there is none.

    With `end`, only the contents before that index count.
    """
    before = reversed(range(end_of_answers(contents, end)))
    return next((at for at in before if is_model_turn(contents[at])), -1)
