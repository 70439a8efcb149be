"""Every string of a JSON object redacted, but for the few fields that are treated otherwise.

docs/redaction.md lists those that pass unseen, with the reason for each.
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hookgate.hooks.policies.redact.files import redacted_data
from hookgate.hooks.policies.redact.redaction import Redaction, Scope
from hookgate.translator.fields import JsonObject, camel, read, without, write
from hookgate.translator.texts import is_text

Handler = Callable[[Redaction, Any, Scope], Any]
"""Gives the new value of a field, the very object where nothing is found. May raise Withheld."""


def redacted_fields(redaction: Redaction, obj: Any, scope: Scope, handlers: Mapping[str, Handler]) -> Any:
    """An object with each field redacted, its name too; those in `handlers`, by their names in camelCase.

    What is no object is redacted as a value. The very object where nothing is found. Raises Withheld.
    """
    if not isinstance(obj, dict):
        return redaction.value(obj) if scope in redaction.scopes else obj
    own: JsonObject = {}
    rest: JsonObject = {}
    for name, value in obj.items():
        handler = handlers.get(camel(name))
        if handler is None:
            rest[name] = value
        else:
            own[name] = handler(redaction, value, scope)
    new = redaction.value(rest) if rest and scope in redaction.scopes else rest
    if new is rest and all(value is obj[name] for name, value in own.items()):
        return obj
    renamed = dict(zip(rest, new.items(), strict=True))
    return dict((name, own[name]) if name in own else renamed[name] for name in obj)


def elsewhere(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """A Handler of a list or an object that is redacted elsewhere; all others are redacted here."""
    return value if isinstance(value, list | dict) else _value(redaction, value, scope)


def _role(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return value if isinstance(value, str) and value in _ROLES else _value(redaction, value, scope)


def opaque(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """A Handler of bytes that the API wants back as they are. They pass unless they are text."""
    return redacted_data(redaction, value) if scope in redaction.scopes else value


def redacted_part(redaction: Redaction, part: JsonObject, scope: Scope) -> JsonObject:
    """A part with all but its text redacted, and but for strings that are pieces of arguments.

    Raises Withheld.
    """
    if len(part) == 1 and is_text(part):
        return part
    redacted: JsonObject = redacted_fields(redaction, part, scope, _PART)
    return redacted


def redacted_argument(redaction: Redaction, piece: Any) -> Any:
    """A piece of a call's arguments with all but its string redacted: that is a part of a longer text.

    What takes the place of a number is a string.
    """
    if not isinstance(piece, dict):  # not what the API documents, but it would go on all the same
        return redaction.value(piece)
    number = read(piece, "numberValue")
    new = redaction.value(number)
    if new is not number:
        piece = write(without(piece, "numberValue"), "stringValue", new)
    return redacted_fields(redaction, piece, "tool_arguments", {"stringValue": _text})


def _text(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """What is no string is no text to anyone else, and is redacted here."""
    return value if isinstance(value, str) or scope not in redaction.scopes else redaction.value(value)


def _call(redaction: Redaction, call: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, call, "tool_arguments", {"partialArgs": _each(redacted_argument)})


def _result(redaction: Redaction, result: Any, scope: Scope) -> Any:
    media = _each(partial(_medium, scope="tool_results"))
    return redacted_fields(redaction, result, "tool_results", {"parts": media})


def _medium(redaction: Redaction, part: Any, scope: Scope) -> Any:
    return redacted_fields(redaction, part, scope, {**_PART, "text": _value})


def _value(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return redaction.value(value) if scope in redaction.scopes else value


def _within(scope: Scope) -> Handler:
    """A Handler of a value that belongs to this scope, whoever speaks."""
    return lambda redaction, value, _: _value(redaction, value, scope)


def _each(redact: Callable[[Redaction, Any], Any]) -> Handler:
    """A Handler of a list, or of the one object that may stand for it."""

    def redacted(redaction: Redaction, value: Any, scope: Scope) -> Any:
        if scope not in redaction.scopes:
            return value
        if not isinstance(value, list):
            return redact(redaction, value)
        items = [redact(redaction, item) for item in value]
        return value if all(a is b for a, b in zip(items, value, strict=True)) else items

    return redacted


def _file(redaction: Redaction, blob: Any, scope: Scope) -> Any:
    media_type = str(read(blob, "mimeType") or "") if isinstance(blob, dict) else ""

    def data(redaction: Redaction, value: Any, scope: Scope) -> Any:
        return redacted_data(redaction, value, media_type) if scope in redaction.scopes else value

    return redacted_fields(redaction, blob, scope, {"data": data})


_ROLES = frozenset({"user", "model", "function", "system"})
"""Speakers, which a word that somebody looks for must not rename."""

CONTENT: Mapping[str, Handler] = {"parts": elsewhere, "role": _role}
"""The fields of a content that are not simply strings."""

_PART: Mapping[str, Handler] = {
    "text": _text,
    "thoughtSignature": opaque,
    "inlineData": _file,
    "functionCall": _call,
    "toolCall": _within("tool_arguments"),
    "functionResponse": _result,
    "toolResponse": _within("tool_results"),
    "executableCode": _within("answers"),
    "codeExecutionResult": _within("tool_results"),
}
"""The fields of a part that are not simply strings, or that belong to another scope than the speaker's."""
