"""The conversation of a request: shown to hooks as messages, read back from them, written in place."""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.align import Message, align
from hookgate.translator.errors import EditError
from hookgate.translator.fields import JsonObject, read, read_list, read_object, without, write
from hookgate.translator.texts import is_text, respread, texts_of, with_texts
from hookgate.translator.turns import apply_turns, shown_turns

ROLES = ("user", "model", "system")


def show_messages(body: JsonObject) -> list[JsonObject]:
    """`[{"role", "content"}]`: the system instruction first, then every turn that has text."""
    system = "".join(texts_of(read_object(body, "systemInstruction")))
    shown = [Message("system", system)] if system else []
    shown += [message for _, message in shown_turns(body)]
    return [{"role": message.role, "content": message.text} for message in shown]


def apply_messages(body: JsonObject, messages: Any) -> JsonObject:
    """The body after a hook's whole list of messages; `body` itself when nothing changed.

    A list without any system message leaves the system instruction alone, since hooks written before it
    was shown give back turns only; a system message with empty content clears it.
    """
    edited = read_messages(messages)
    turns = [message for message in edited if message.role != "system"]
    system = [message for message in edited if message.role == "system"]
    if system:
        body = _apply_system(body, system)
    return apply_turns(body, turns)


def read_messages(messages: Any) -> list[Message]:
    """A hook's messages; content may be a string or a list of strings and `{"type": "text", "text"}`."""
    if not isinstance(messages, list):
        raise EditError("messages", "a list of {role, content}", messages)
    return [_read_message(item, index) for index, item in enumerate(messages)]


def _read_message(item: Any, index: int) -> Message:
    if not isinstance(item, dict):
        raise EditError(f"messages[{index}]", "an object {role, content}", item)
    role, content = item.get("role"), item.get("content")
    if role not in ROLES:
        raise EditError(f"messages[{index}].role", "'user', 'model' or 'system'", role)
    if type(content) is str:
        return Message(role, content)
    return Message(role, _read_content(content, f"messages[{index}].content"))


def _read_content(content: Any, path: str) -> str:
    if not isinstance(content, list):
        raise EditError(path, "a string or a list of text parts", content)
    return "".join(_read_part(part, f"{path}[{i}]") for i, part in enumerate(content))


def _read_part(part: Any, path: str) -> str:
    if isinstance(part, str):
        return part
    if not isinstance(part, dict):
        raise EditError(path, "a string or {type: 'text', text}", part)
    if part.get("type", "text") != "text":
        raise EditError(f"{path}.type", "'text'", part["type"])
    if not isinstance(part.get("text"), str):
        raise EditError(f"{path}.text", "a string", part.get("text"))
    return str(part["text"])


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
