"""The conversation of a request: shown to hooks as messages, read back from them, written in place."""

from collections.abc import Iterable, Sequence
from typing import Any

from hookgate.translator.align import Message, align
from hookgate.translator.errors import EditError
from hookgate.translator.fields import JsonObject, read, read_list, read_object, without, write
from hookgate.translator.lenses import TEXT, Lens
from hookgate.translator.spreading import respread
from hookgate.translator.texts import is_text, texts_of, with_texts
from hookgate.translator.turns import Turns

ROLES = ("user", "model", "system")


class Messages:
    """A request's conversation through a lens: the system instruction first, then the turns."""

    def __init__(self, body: JsonObject, lens: Lens) -> None:
        self._body, self._lens = body, lens
        self._instruction = texts_of(read_object(body, "systemInstruction"))
        self._system = [("system", "".join(self._instruction))] if any(self._instruction) else []
        self._turns = Turns(body, lens)

    def show(self) -> list[JsonObject]:
        """`[{"role", "content"}]`, built anew: the system instruction and every turn that the lens shows."""
        turns = self._turns.show()
        if not self._system:
            return turns
        texts = self._instruction
        content = "".join(texts) if self._lens is TEXT else [{"type": "text", "text": t} for t in texts]
        return [{"role": "system", "content": content}, *turns]

    def edited(self, messages: Any) -> JsonObject:
        """The body after a hook's whole list of messages; the body itself when nothing changed.

        A list without any system message leaves the system instruction alone, since hooks written before it
        was shown give back turns only; a system message with empty content clears it. Raises EditError.
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
        """The body with edited turns; `places` are their numbers among all messages, for errors."""
        try:
            return self._turns.edited(turns, head, tail)
        except EditError as error:
            number, rest = error.path.removeprefix("[").split("]", 1)
            error.path = f"messages[{places[int(number)]}]{rest}"
            raise


def _echoed(shown: Sequence[Message], messages: Sequence[Any]) -> tuple[int, int]:
    """How many messages at the beginning, and of the others at the end, came back as they were shown."""
    head = _echoed_first(zip(shown, messages, strict=False))
    return head, _echoed_first(zip(reversed(shown[head:]), reversed(messages[head:]), strict=False))


def _echoed_first(pairs: Iterable[tuple[Message, Any]]) -> int:
    count = 0
    for (role, text), item in pairs:
        if type(item) is not dict or item.get("content") != text or item.get("role") != role:
            break
        count += 1
    return count


def _read_message(item: Any, index: int, lens: Lens) -> Message:
    if not isinstance(item, dict):
        raise EditError(f"messages[{index}]", "an object {role, content}", item)
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise EditError(f"messages[{index}].role", "'user', 'model' or 'system'", role)
    reading = TEXT if role == "system" else lens  # the instruction's parts are texts in every view
    return role, reading.read(content, f"messages[{index}].content")


# ---- the system instruction


def _apply_system(body: JsonObject, edited: Sequence[Message]) -> JsonObject:
    """One shown message stands for all text parts; further system messages become parts around it."""
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
