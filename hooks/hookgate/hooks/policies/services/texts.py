"""Finds the texts in the body of a request or an answer, and puts edited ones back."""

import re
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from hookgate.hooks.policies.speakers import (
    PART_SCOPES,
    Scope,
    end_of_answers,
    is_model_turn,
    last_model_turn,
)
from hookgate.translator.fields import JsonObject, camel, read
from hookgate.translator.text_files import is_media_file, show_text_file

Place = tuple[str | int, ...]
"""The names and indexes that lead to a text."""

_CODES = frozenset(
    {"role", "name", "id", "type", "mimeType", "finishReason", "modelVersion", "responseId", "createTime"}
)
"""Fields whose values are not sent if they are an identifier, unless they are in arguments or results."""
_DATA = frozenset({"args", "response", "partialArgs"})
"""Fields of calls and results whose content a model or a tool has written."""
_IDENTIFIER = re.compile(r"[\w./:+$-]{1,64}", re.ASCII)
_STRICT_BASE64 = re.compile(r"(?:[A-Za-z0-9+/]{4})*(?:[A-Za-z0-9+/]{2}==|[A-Za-z0-9+/]{3}=)?")
_MEDIA = re.compile(r"(?:image|audio|video)/|application/pdf\Z", re.IGNORECASE)
_NOT_BASE64 = re.compile(r"[^A-Za-z0-9+/=_\r\n-]")


@dataclass(frozen=True, slots=True)
class Text:
    """A text with its place."""

    place: Place
    text: str
    continues: bool = False
    """Whether it continues the text before it: both are parts of one turn."""
    can_change: bool = True
    """Whether the text can be replaced; that of a file, and the name of a field, cannot."""


def find_texts(body: JsonObject, scopes: Collection[Scope], *, newest: bool = False) -> list[Text]:
    """Return the texts of the body of a request or an answer.

    With `newest`, those of the turns up to the model's last one are left out.
    """
    return list(_Finder(scopes, newest=newest).body(body))


def find_values(value: Any, scope: Scope, scopes: Collection[Scope]) -> list[Text]:
    """Return the texts in any JSON value, all of one scope."""
    return list(_Finder(scopes).value(value, (), scope, is_data=True))


class _Finder:
    """Finds the texts of some scopes."""

    def __init__(self, scopes: Collection[Scope], *, newest: bool = False) -> None:
        self._scopes, self._newest = scopes, newest

    def body(self, body: JsonObject) -> Iterator[Text]:
        for name, value in body.items():
            match camel(name):
                case "contents" | "content":
                    yield from self._turns(value, (name,))
                case "systemInstruction":
                    yield from self._content(value, (name,), "system")
                case "candidates" if isinstance(value, list):
                    for at, candidate in enumerate(value):
                        yield from self._candidate(candidate, (name, at))
                case "continuationToken" if isinstance(value, str):
                    yield from self._bytes(value, "", (name,), "other")
                case _:
                    yield from self.value({name: value}, (), "other")

    def value(self, value: Any, place: Place, scope: Scope, *, is_data: bool = False) -> Iterator[Text]:
        """Yield the texts in a value that is not known any better.

        `is_data`: it is part of arguments or results.
        """
        if scope not in self._scopes:
            return
        if isinstance(value, str):
            if value:
                yield Text(place, value)
        elif isinstance(value, list):
            for at, item in enumerate(value):
                yield from self.value(item, (*place, at), scope, is_data=is_data)
        elif isinstance(value, dict):
            for name in value:
                if not _IDENTIFIER.fullmatch(name):
                    yield Text((*place, name), name, can_change=False)
                yield from self._field(value, name, (*place, name), scope, is_data=is_data)

    def _field(
        self, obj: JsonObject, name: str, place: Place, scope: Scope, *, is_data: bool
    ) -> Iterator[Text]:
        value = obj[name]
        known = camel(name)
        if not isinstance(value, str):
            if known == "inlineData" and isinstance(value, dict) and not is_data:
                yield from self._file(value, place, scope)
            else:
                yield from self.value(value, place, scope, is_data=is_data or known in _DATA)
        elif known == "data" and _is_media(obj, value):
            return  # such as an image that a tool returns
        elif is_data or known not in _CODES or not _IDENTIFIER.fullmatch(value):
            yield from self.value(value, place, scope)

    def _file(self, blob: JsonObject, place: Place, scope: Scope) -> Iterator[Text]:
        """Yield the texts of an `inlineData`, whose data is judged if it is text."""
        for name, value in blob.items():
            if camel(name) == "data" and isinstance(value, str):
                yield from self._bytes(value, str(read(blob, "mimeType") or ""), (*place, name), scope)
            else:
                yield from self.value({name: value}, place, scope)

    def _bytes(self, data: str, media_type: str, place: Place, scope: Scope) -> Iterator[Text]:
        """Yield the text of base64. What is not base64 is text, although some decoders skip it."""
        if scope in self._scopes:
            if (shown := show_text_file(data, media_type)) is not None:
                yield Text(place, shown, can_change=False)
            if shown != data and _NOT_BASE64.search(data):
                yield Text(place, data, can_change=False)

    def _candidate(self, candidate: Any, place: Place) -> Iterator[Text]:
        if not isinstance(candidate, dict):
            yield from self.value(candidate, place, "other")
            return
        for name, value in candidate.items():
            known = camel(name)
            if known == "content":
                yield from self._content(value, (*place, name), "answers")
            elif known == "continuationToken" and isinstance(value, str):
                yield from self._bytes(value, "", (*place, name), "other")
            else:
                yield from self.value({name: value}, place, "other")

    def _turns(self, contents: Any, place: Place) -> Iterator[Text]:
        if not isinstance(contents, list):
            yield from self._content(contents, place, "prompts")
            return
        end = end_of_answers(contents)
        first = last_model_turn(contents) + 1 if self._newest else 0
        for at, content in enumerate(contents[first:], first):
            scope: Scope = "answers" if at < end and is_model_turn(content) else "prompts"
            yield from self._content(content, (*place, at), scope)

    def _content(self, content: Any, place: Place, scope: Scope) -> Iterator[Text]:
        if not isinstance(content, dict):
            yield from self.value(content, place, scope)
            return
        for name, value in content.items():
            if camel(name) == "parts" and isinstance(value, list):
                yield from self._parts(value, (*place, name), scope)
            else:
                yield from self.value({name: value}, place, scope)

    def _parts(self, parts: list[Any], place: Place, scope: Scope) -> Iterator[Text]:
        before: Scope | None = None
        for at, part in enumerate(parts):
            if not isinstance(part, dict):
                yield from self.value(part, (*place, at), scope)
                before = None
                continue
            own: Scope = "thoughts" if part.get("thought") else scope
            for name, value in part.items():
                if name == "text" and isinstance(value, str):
                    if value and own in self._scopes:
                        yield Text((*place, at, name), value, continues=before == own)
                        before = own
                else:
                    for text in self._part_field(name, value, (*place, at), own):
                        before = None
                        yield text

    def _part_field(self, name: str, value: Any, place: Place, scope: Scope) -> Iterator[Text]:
        known = camel(name)
        if known == "thoughtSignature" and isinstance(value, str):
            return self._bytes(value, "", (*place, name), scope)
        return self.value({name: value}, place, PART_SCOPES.get(known, scope))


def _is_media(obj: JsonObject, data: str) -> bool:
    """Return whether the data of an object is a file of media, by its media type and its first bytes."""
    named = _MEDIA.match(str(read(obj, "mimeType") or "")) is not None
    return named and _STRICT_BASE64.fullmatch(data) is not None and is_media_file(data)


def with_texts_at(value: Any, new: Mapping[Place, str]) -> Any:
    """Return a copy of a JSON value with other texts in their places."""
    if () in new:
        return new[()]
    by_step: dict[str | int, dict[Place, str]] = {}
    for (step, *rest), text in new.items():
        by_step.setdefault(step, {})[tuple(rest)] = text
    if isinstance(value, list):
        return [with_texts_at(item, by_step[at]) if at in by_step else item for at, item in enumerate(value)]
    return {
        name: with_texts_at(item, by_step[name]) if name in by_step else item for name, item in value.items()
    }
