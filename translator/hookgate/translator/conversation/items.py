"""The items of a request, such as messages or steps, as turns of a conversation, and back with edits.

Chat completions, responses and interactions share this lens: each item is shown as a turn of `contents`. What
a hook leaves alone is written back as the item that it was, whatever happens to the turns around it.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from hookgate.translator.conversation.alignment import align_parts
from hookgate.translator.fields import JsonObject, same
from hookgate.translator.strictjson import dumps


class ItemList:
    """The items of one request, each with its number in the body."""

    def __init__(self, items: list[Any]) -> None:
        self.items = items
        self._numbers: list[int] = []  # of the items that are turns
        self.turns: list[JsonObject] = []
        """The `contents`."""

    def add_turn(self, number: int, turn: JsonObject) -> None:
        """Add the turn as which the item with this number is shown."""
        self._numbers.append(number)
        self.turns.append(turn)

    def place(self, path: str, name: str) -> str:
        """Return the path of a part of the request in the body, whose field `name` has the items."""
        found = re.match(r"contents\[(\d+)\]\.parts\[(\d+)\]", path)
        if found is None or int(found[1]) >= len(self._numbers):
            return path
        return f"{name}[{self._numbers[int(found[1])]}].content[{found[2]}]"

    def pairs(self) -> Iterator[tuple[JsonObject, JsonObject]]:
        """Yield each turn with its item."""
        for turn, number in zip(self.turns, self._numbers, strict=True):
            yield turn, self.items[number]

    def encode_turns(
        self, turns: list[Any], encode_turn: Callable[[JsonObject], list[JsonObject]]
    ) -> Iterator[tuple[int, list[JsonObject]]]:
        """Yield the items for each turn after an edit, with the number of the item that it was.

        The number is 0 for a new turn. `encode_turn` returns the items for a turn that is new or has changed.
        """
        for turn, match in zip(turns, align_parts(self.turns, turns), strict=True):
            number = 0 if match is None else self._numbers[match]
            if match is not None and same(turn, self.turns[match]):
                yield number, [self.items[number]]
            else:
                yield number, encode_turn(turn)


def encode_tools(
    edited: list[JsonObject],
    shown: list[JsonObject],
    given: list[Any],
    encode_tool: Callable[[JsonObject], list[Any]],
) -> list[Any]:
    """Return the tools of a body after an edit. One that a hook leaves alone is as it was given.

    Args:
        edited: The tools after the edit.
        shown: The tools as they were shown.
        given: The tools as the body had them.
        encode_tool: Returns the tools of the body for one that is new or has changed.
    """
    originals = dict(zip(map(dumps, shown), given, strict=True))
    tools: list[Any] = []
    for tool in edited:
        original = originals.get(dumps(tool))
        tools += encode_tool(tool) if original is None else [original]
    return tools
