"""How one turn is shown to a hook and edited by it: as its text, or as all of its typed parts.

A lens gives a turn a form, a string by which it is recognised in an edited list: its text, or its typed
parts as JSON. A turn whose form is empty is not shown.
"""

from collections.abc import Sequence
from typing import Any, Protocol

from hookgate.translator.errors import EditError
from hookgate.translator.fields import JsonObject
from hookgate.translator.parts import apply_parts, new_content, read_typed_part, show_parts, without_parts
from hookgate.translator.spreading import respread
from hookgate.translator.strictjson import dumps, loads
from hookgate.translator.texts import joined_text, joined_texts, texts_of, with_texts, without_texts


class Lens(Protocol):
    """One way to show turns and to write an edit back."""

    def forms(self, contents: Sequence[Any]) -> list[str]:
        """What a hook is shown of each turn, as a string; empty for what is not shown."""

    def show(self, content: JsonObject) -> Any:
        """The content of the message that a hook is shown for the turn."""

    def read(self, content: Any, path: str) -> str:
        """The form of a message's content as a hook gives it. Raises EditError."""

    def edited(self, content: JsonObject, form: str) -> JsonObject:
        """The turn with an edited form. Raises EditError with a path from the message."""

    def bare(self, content: JsonObject) -> JsonObject:
        """What stays of the turn when a hook removes its message."""

    def new(self, role: str, form: str) -> JsonObject:
        """The turn of a message that a hook added. Raises EditError with a path from the message."""


class TextLens:
    """The text parts, joined."""

    def forms(self, contents: Sequence[Any]) -> list[str]:
        return joined_texts(contents)

    def show(self, content: JsonObject) -> str:
        return joined_text(content)

    def read(self, content: Any, path: str) -> str:
        if isinstance(content, str):
            return content
        if not isinstance(content, list):
            raise EditError(path, "a string or a list of text parts", content)
        parts = [read_typed_part(part, f"{path}[{i}]", ("text",)) for i, part in enumerate(content)]
        return "".join(part["text"] for part in parts)

    def edited(self, content: JsonObject, form: str) -> JsonObject:
        texts = texts_of(content)
        return content if "".join(texts) == form else with_texts(content, respread(texts, form))

    def bare(self, content: JsonObject) -> JsonObject:
        return without_texts(content)

    def new(self, role: str, form: str) -> JsonObject:
        return {"role": role, "parts": [{"text": form}]}


class PartsLens:
    """All parts, typed."""

    def forms(self, contents: Sequence[Any]) -> list[str]:
        shown = (show_parts(content) if isinstance(content, dict) else [] for content in contents)
        return [dumps(parts).decode() if parts else "" for parts in shown]

    def show(self, content: JsonObject) -> list[JsonObject]:
        return show_parts(content)

    def read(self, content: Any, path: str) -> str:
        if not isinstance(content, str | list):
            raise EditError(path, "a list of typed parts, or a string", content)
        given = [content] if isinstance(content, str) else content
        return dumps([read_typed_part(part, f"{path}[{i}]") for i, part in enumerate(given)]).decode()

    def edited(self, content: JsonObject, form: str) -> JsonObject:
        return apply_parts(content, loads(form.encode()))

    def bare(self, content: JsonObject) -> JsonObject:
        return without_parts(content)

    def new(self, role: str, form: str) -> JsonObject:
        return new_content(role, loads(form.encode()))


TEXT = TextLens()
PARTS = PartsLens()
