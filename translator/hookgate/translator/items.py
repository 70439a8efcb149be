"""Counts the items of a body, such as messages, parts and tools: each costs more than its bytes.

A body of one dialect is walked as it is, so that an error names the place that its sender knows.
"""

from collections.abc import Iterator
from typing import Any

from hookgate.translator.fields import JsonObject, TooLargeError, without

_LISTS = frozenset(
    {
        "candidates",
        "choices",
        "content",
        "contents",
        "functionDeclarations",
        "function_declarations",
        "inlinedResponses",
        "inlined_responses",
        "input",
        "messages",
        "output",
        "parts",
        "requests",
        "steps",
        "summary",
        "tool_calls",
        "tools",
    }
)
"""The fields with items that hookgate processes one by one. Lists in free-form JSON are values only."""

_HOLDERS = frozenset(
    {
        "batch",
        "delta",
        "generateContentRequest",
        "generate_content_request",
        "inputConfig",
        "input_config",
        "message",
        "request",
        "response",
        "systemInstruction",
        "system_instruction",
    }
)
"""The fields with objects that may contain such lists."""

_RESULTS = frozenset({"functionResponse", "function_response"})
"""Holders whose `response` is free-form JSON."""

_WALKED = _LISTS | _HOLDERS | _RESULTS

_Place = tuple[Any, ...]
"""The place of a value: that of its parent, and its key or index. An empty tuple is the body itself."""


def check_items(body: Any, most: int, advice: str) -> None:
    """Check the number of all items in a body. `advice` ends the message of the error.

    Raises TooLargeError, which names the list with the first item that is too many.
    """
    left = most
    level: list[tuple[_Place, JsonObject]] = [((), body)] if type(body) is dict else []
    while level:
        below: list[tuple[_Place, JsonObject]] = []
        for place, obj in level:
            for key in obj.keys() & _WALKED:
                value, here = obj[key], (place, key)
                if type(value) is dict:
                    below.append((here, without(value, "response") if key in _RESULTS else value))
                elif type(value) is list and key in _LISTS:
                    left -= len(value)
                    if left < 0:
                        message = f"the body has more than {most} items; {advice}"
                        raise TooLargeError(_path(here), message)
                    below += (((here, at), item) for at, item in enumerate(value) if type(item) is dict)
        level = below


def _path(place: _Place) -> str:
    steps = list(_steps(place))[::-1]
    return "".join(f"[{step}]" if type(step) is int else f".{step}" for step in steps).removeprefix(".")


def _steps(place: _Place) -> Iterator[str | int]:
    while place:
        place, step = place
        yield step
