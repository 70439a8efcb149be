"""Adds text to the system instruction of a request."""

from typing import Any


def with_instruction(messages: list[dict[str, Any]], text: str) -> list[dict[str, Any]]:
    """Return the messages with the text added to the system instruction, unless it is there already."""
    if messages and messages[0].get("role") == "system":
        first, *rest = messages
        instruction = str(first.get("content", ""))
        extended = instruction if instruction.endswith(text) else f"{instruction}\n\n{text}"
        return [{**first, "content": extended}, *rest]
    return [{"role": "system", "content": text}, *messages]
