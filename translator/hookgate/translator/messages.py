"""The conversation of a request: shown to hooks as messages, read back from them, written in place."""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.align import Message, align
from hookgate.translator.errors import EditError
from hookgate.translator.fields import JsonObject, read, read_list, read_object, without, write
from hookgate.translator.lenses import PARTS, TEXT, Lens
from hookgate.translator.parts import show_parts
from hookgate.translator.texts import is_text, joined_text, respread, texts_of, with_texts
from hookgate.translator.turns import apply_turns, role_of, shown_turns

ROLES = ("user", "model", "system")


def show_messages(body: JsonObject) -> list[JsonObject]:
    """`[{"role", "content": text}]`: the system instruction first, then every turn that has text."""
    system = joined_text(read_object(body, "systemInstruction"))
    shown = [{"role": "system", "content": system}] if system else []
    return shown + [
        {"role": role_of(content), "content": text}
        for content in read_list(body, "contents")
        if type(content) is dict and (text := joined_text(content))
    ]


def show_typed_messages(body: JsonObject) -> list[JsonObject]:
    """`[{"role", "content": [typed parts]}]`: the system instruction first, then every turn with parts."""
    texts = texts_of(read_object(body, "systemInstruction"))
    instruction = [{"type": "text", "text": text} for text in texts]
    shown: list[JsonObject] = [{"role": "system", "content": instruction}] if any(texts) else []
    turns = (read_list(body, "contents")[index] for index, _ in shown_turns(body, PARTS))
    return shown + [{"role": role_of(turn), "content": show_parts(turn)} for turn in turns]


def apply_messages(body: JsonObject, messages: Any, lens: Lens) -> JsonObject:
    """The body after a hook's whole list of messages; `body` itself when nothing changed.

    `lens` is the one the hook was shown the turns through. A list without any system message leaves the
    system instruction alone, since hooks written before it was shown give back turns only; a system message
    with empty content clears it. Raises EditError.
    """
    edited = read_messages(messages, lens)
    turns = [message for message in edited if message.role != "system"]
    system = [message for message in edited if message.role == "system"]
    if system:
        body = _apply_system(body, system)
    try:
        return apply_turns(body, turns, lens)
    except EditError as error:
        raise _placed(error, edited) from None


def _placed(error: EditError, edited: Sequence[Message]) -> EditError:
    """The error with the turn's number among all messages, the system ones included."""
    number, rest = error.path.removeprefix("[").split("]", 1)
    places = [place for place, message in enumerate(edited) if message.role != "system"]
    error.path = f"messages[{places[int(number)]}]{rest}"
    return error


def read_messages(messages: Any, lens: Lens) -> list[Message]:
    """A hook's messages: content is a string, or a list of strings and parts. Raises EditError."""
    if not isinstance(messages, list):
        raise EditError("messages", "a list of {role, content}", messages)
    return [_read_message(item, index, lens) for index, item in enumerate(messages)]


def _read_message(item: Any, index: int, lens: Lens) -> Message:
    if not isinstance(item, dict):
        raise EditError(f"messages[{index}]", "an object {role, content}", item)
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise EditError(f"messages[{index}].role", "'user', 'model' or 'system'", role)
    if lens is TEXT and type(content) is str:
        return Message(role, content)  # the usual case, without building a path
    reading = TEXT if role == "system" else lens  # the instruction's parts are texts in every view
    return Message(role, reading.read(content, f"messages[{index}].content"))


# ---- the system instruction


def _apply_system(body: JsonObject, edited: Sequence[Message]) -> JsonObject:
    """One shown message stands for all text parts; further system messages become parts around it."""
    instruction = read_object(body, "systemInstruction")
    texts = texts_of(instruction)
    shown = [Message("system", "".join(texts))] if any(texts) else []
    if shown == list(edited):
        return body
    before: list[str] = []
    after: list[str] = []
    kept: list[str] | None = None
    for message, match in zip(edited, align(shown, edited), strict=True):
        if match is not None:
            kept = respread(texts, message.text)
        elif message.text:
            (before if kept is None and shown else after).append(message.text)
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
