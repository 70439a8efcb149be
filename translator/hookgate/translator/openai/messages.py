"""The messages of a request, some of which instruct the model, and back with a hook's edits.

Messages of the system and of the developer become `systemInstruction`, one part for each text. The others
become `contents`, one turn for each message.
"""

from collections import deque
from collections.abc import Callable
from typing import Any

from hookgate.translator.conversation.items import ItemList
from hookgate.translator.fields import BodyError, JsonObject, same

INSTRUCTING = ("system", "developer")
"""The roles of messages that instruct the model."""

_NEW = -1
"""The number of an instruction that hooks have added."""


class MessageList(ItemList):
    """The messages of one request. Those that instruct the model are no turns."""

    def __init__(self, messages: list[Any]) -> None:
        super().__init__(messages)
        self.instruction: list[JsonObject] = []
        """The parts of the `systemInstruction`, each of which says to which message it belongs."""

    def add_instruction(self, number: int, parts: list[JsonObject], path: str) -> None:
        """Add a message that instructs the model, with the parts for its content. Raises BodyError.

        Each part has the number and the role of the message, and the first part also its other fields. If
        each part had them, a message of n fields and n texts would become n² values.
        """
        message: JsonObject = self.items[number]
        if any("text" not in part for part in parts):
            raise BodyError(f"{path}.content", "a message of the system must be text")
        if any("message" in part for part in parts):
            raise BodyError(f"{path}.content", "a text has no field 'message'")
        if "number" in message:
            raise BodyError(f"{path}.number", "a message has no such field")
        named = {"number": number, "role": message["role"]}
        fields = named | {key: value for key, value in message.items() if key != "content"}
        first, *others = parts or [{"text": ""}]
        self.instruction += [{**first, "message": fields}, *({**part, "message": named} for part in others)]

    def encode(
        self,
        turns: list[Any],
        instruction: list[JsonObject],
        encode_turn: Callable[[JsonObject], list[JsonObject]],
        close_instruction: Callable[[list[JsonObject]], Any],
        is_result: Callable[[JsonObject], bool],
    ) -> list[Any]:
        """Return the messages after an edit; the same list if nothing changed.

        Args:
            turns: The edited `contents`.
            instruction: The edited parts of the `systemInstruction`.
            encode_turn: Returns the messages for a turn, which may be new.
            close_instruction: Returns the content of a message that instructs the model, for its parts.
            is_result: Returns whether a message is a tool result.
        """
        if same(turns, self.turns) and same(instruction, self.instruction):
            return self.items
        instructing = deque(self._encode_instruction(instruction, close_instruction))
        out: list[Any] = []
        added: list[Any] = []  # what hooks put beside a result: it must not part the results of one turn
        for number, encoded in self.encode_turns(turns, encode_turn):
            while instructing and instructing[0][0] < number:  # new ones come first
                out.append(instructing.popleft()[1])
            results = [message for message in encoded if is_result(message)]
            if not results:
                out += added
                added = []
            out += results or encoded
            added += encoded[len(results) :] if results else []
        return [*out, *added, *(message for _, message in instructing)]

    def _encode_instruction(
        self, parts: list[JsonObject], encode: Callable[[list[JsonObject]], Any]
    ) -> list[tuple[int, JsonObject]]:
        """Return the messages of the system with their numbers."""
        groups: list[tuple[int, list[JsonObject]]] = []
        for part in parts:
            of = part.get("message")
            number = of.get("number") if isinstance(of, dict) else None
            if not isinstance(number, int) or not 0 <= number < len(self.items):
                number = _NEW
            if groups and number != _NEW and groups[-1][0] == number:
                groups[-1][1].append(part)
            else:
                groups.append((number, [part]))
        shown: dict[int, list[JsonObject]] = {}
        for part in self.instruction:
            shown.setdefault(part["message"]["number"], []).append(part)
        encoded = []
        for number, group in groups:
            if number != _NEW and same(group, shown.get(number)):
                encoded.append((number, self.items[number]))
                continue
            fields: JsonObject = {}
            for part in reversed(group):  # the first part has the fields, if no hook has moved it
                fields |= part.get("message") or {"role": "system"}
            fields.pop("number", None)
            bare = [{key: value for key, value in part.items() if key != "message"} for part in group]
            encoded.append((number, {**fields, "content": encode(bare)}))
        return encoded
