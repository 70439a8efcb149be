"""Shows the conversation of a request as messages, and applies edited lists of messages to the body."""

from collections.abc import Iterable, Sequence
from typing import Any

from hookgate.translator.conversation.alignment import Message, align
from hookgate.translator.conversation.turns import TEXT, TurnLens, Turns
from hookgate.translator.fields import (
    EditError,
    JsonObject,
    is_text,
    read,
    read_list,
    read_object,
    texts_of,
    with_texts,
    without,
    write,
)
from hookgate.translator.streaming.edits import respread

ROLES = ("user", "model", "system")


class Messages:
    """The messages of a request, in the form of a lens: the system instruction, then the turns."""

    def __init__(self, body: JsonObject, lens: TurnLens) -> None:
        self._body, self._lens = body, lens
        self._instruction = texts_of(read_object(body, "systemInstruction"))
        self._system = [("system", "".join(self._instruction))] if any(self._instruction) else []
        self._turns = Turns(body, lens)

    def show(self) -> list[JsonObject]:
        """Return a new list `[{"role", "content"}]`: the system instruction, and the turns that are shown."""
        turns = self._turns.show()
        if not self._system:
            return turns
        texts = self._instruction
        content = "".join(texts) if self._lens is TEXT else [{"type": "text", "text": t} for t in texts]
        return [{"role": "system", "content": content}, *turns]

    def edited(self, messages: Any) -> JsonObject:
        """Return the body after a hook's list of messages, or the body itself if nothing changed.

        A list without system messages keeps the system instruction, since older hooks return turns only. A
        system message with empty content removes it. Raises EditError.
        """
        if not isinstance(messages, list):
            raise EditError("messages", "a list of {role, content}", messages)
        shown = self._system + self._turns.messages
        head, tail = _echoed(shown, messages) if self._lens is TEXT else (0, 0)
        between = [
            _read_message(messages[index], index, self._lens) for index in range(head, len(messages) - tail)
        ]
        first = len(self._system)
        if head >= first and not any(role == "system" for role, _ in between):
            return self._with_turns(between, range(first, len(messages)), head - first, tail)
        edited = [*shown[:head], *between, *shown[len(shown) - tail :]]
        places = [place for place, (role, _) in enumerate(edited) if role != "system"]
        body = self._with_turns([edited[place] for place in places], places)
        system = [message for message in edited if message[0] == "system"]
        return _apply_system(body, system) if system else body

    def _with_turns(
        self, turns: Sequence[Message], places: Sequence[int], head: int = 0, tail: int = 0
    ) -> JsonObject:
        """Return the body with edited turns. `places` are their indexes among all messages, for errors."""
        try:
            return self._turns.edited(turns, head, tail)
        except EditError as error:
            number, rest = error.path.removeprefix("[").split("]", 1)
            error.path = f"messages[{places[int(number)]}]{rest}"
            raise


def _echoed(shown: Sequence[Message], messages: Sequence[Any]) -> tuple[int, int]:
    """Return the number of unchanged messages at the beginning, and of other unchanged ones at the end."""
    head = _echoed_first(zip(shown, messages, strict=False))
    return head, _echoed_first(zip(reversed(shown[head:]), reversed(messages[head:]), strict=False))


def _echoed_first(pairs: Iterable[tuple[Message, Any]]) -> int:
    count = 0
    for (role, text), item in pairs:
        if type(item) is not dict or item.get("content") != text or item.get("role") != role:
            break
        count += 1
    return count


def _read_message(item: Any, index: int, lens: TurnLens) -> Message:
    if not isinstance(item, dict):
        raise EditError(f"messages[{index}]", "an object {role, content}", item)
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise EditError(f"messages[{index}].role", "'user', 'model' or 'system'", role)
    reading = TEXT if role == "system" else lens  # the instruction's parts are texts in every view
    return role, reading.read(content, f"messages[{index}].content")


# ---- the system instruction


def _apply_system(body: JsonObject, edited: Sequence[Message]) -> JsonObject:
    """Apply system messages. The shown one represents all text parts; others become parts around it."""
    instruction = read_object(body, "systemInstruction")
    texts = texts_of(instruction)
    shown = [("system", "".join(texts))] if any(texts) else []
    if shown == list(edited):
        return body
    before: list[str] = []
    after: list[str] = []
    kept: list[str] | None = None
    for (_, text), match in zip(edited, align(shown, edited), strict=True):
        if match is not None:
            kept = respread(texts, text)
        elif text:
            (before if kept is None and shown else after).append(text)
    return _with_system(body, instruction, before, kept, after)


def _with_system(
    body: JsonObject, instruction: JsonObject, before: list[str], kept: list[str] | None, after: list[str]
) -> JsonObject:
    own = with_texts(instruction, kept or []) if instruction else {}
    parts = [{"text": t} for t in before] + read_list(own, "parts") + [{"text": t} for t in after]
    if not any(part.get("text") or not is_text(part) for part in parts):
        return without(body, "systemInstruction")
    single = isinstance(read(instruction, "parts"), dict) and len(parts) == 1
    return write(body, "systemInstruction", write(own, "parts", parts[0] if single else parts))
