"""Redacts every string of a JSON object, except for fields with their own handler."""

import codecs
import re
from base64 import b64encode
from binascii import Error, a2b_base64
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

from hookgate.hooks.policies.redact.redaction import Redaction, Scope
from hookgate.translator.fields import JsonObject, camel, is_text, read, same_items, without, write

_TEXT_TYPES = re.compile(
    r"text/|application/(?:[\w.-]+\+)?(?:json|xml|yaml)|application/x-(?:yaml|sh|ndjson)"
    r"|application/(?:x-)?(?:javascript|typescript|python|toml|sql)",
    re.IGNORECASE,
)
"""Media types whose data is always treated as text."""

_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
"""Translates the URL-safe alphabet, which the API also accepts."""

_FOREIGN = re.compile(r"[^A-Za-z0-9+/=_\s-]")
"""Characters that are not base64, although some decoders skip them."""

_BLANKS = b" \t\n\v\f\r"

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""Byte order marks, longer ones first: that of UTF-32 begins with that of UTF-16."""

_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\f\r\x1b"})
"""Bytes that hardly occur in text in an 8-bit encoding."""

_HEAD = 4096
"""The number of bytes that are examined to recognise text: most files are large, and not text."""

_MOST_CONTROLS = 0.03


def redacted_data(redaction: Redaction, data: Any, media_type: str = "") -> Any:
    """Redact a field of bytes in base64 if they are text. Returns the same object if nothing is found.

    Data that is not base64 is redacted as a string. Raises Withheld.
    """
    if not isinstance(data, str):
        return redaction.value(data)
    named_text = _TEXT_TYPES.match(media_type) is not None
    head = data[: _HEAD // 3 * 4]
    if _FOREIGN.search(head):
        data = redaction.value(data)
    try:
        if not named_text and _encoding(_decoded(head)) is None:
            return data
        raw = _decoded(data)
    except Error:
        return redaction.value(data)
    encoding = _encoding(raw) or ("utf-8" if named_text else None)
    return data if encoding is None else _redacted_text(redaction, data, raw, encoding)


def _redacted_text(redaction: Redaction, data: str, raw: bytes, encoding: str) -> str:
    width = {"utf-16": 2, "utf-32": 4}.get(encoding[:6], 1)
    end = len(raw) - len(raw) % width  # an incomplete last character is kept
    errors = "surrogateescape" if width == 1 else "surrogatepass"
    try:
        text = raw[:end].decode(encoding, errors)
    except UnicodeDecodeError:  # not text in this encoding; in most others, secrets are ASCII
        width, end, encoding, errors = 1, len(raw), "utf-8", "surrogateescape"
        text = raw.decode(encoding, errors)
    new = redaction.text(text)
    return data if new == text else b64encode(new.encode(encoding, errors) + raw[end:]).decode()


def _decoded(data: str) -> bytes:
    """Decode base64, also after padding in the middle, as some decoders do. Raises binascii.Error."""
    encoded = data.encode("ascii", "ignore").translate(_TO_STANDARD, _BLANKS).rstrip(b"=")
    pieces = filter(None, encoded.split(b"="))
    return b"".join(a2b_base64(piece + b"=" * (-len(piece) % 4)) for piece in pieces)


def _encoding(raw: bytes) -> str | None:
    """Return the encoding of bytes that are text, UTF-8 for all 8-bit encodings. Returns None if not text."""
    for bom, encoding in _BOMS:
        if raw.startswith(bom):
            return encoding
    head = raw[:_HEAD]
    zeros = head[::2].count(0), head[1::2].count(0)
    if max(zeros) * 4 > len(head) and min(zeros) * 16 < len(head):  # ASCII in UTF-16 without a mark
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    controls = len(raw) - len(raw.translate(None, _CONTROLS))
    return "utf-8" if controls <= len(raw) * _MOST_CONTROLS or _is_utf8(raw) else None


def _is_utf8(raw: bytes) -> bool:
    """Return whether the bytes are UTF-8, except for a last character that may be incomplete."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.end == len(raw) and error.reason == "unexpected end of data"
    return True


Handler = Callable[[Redaction, Any, Scope], Any]
"""Returns the new value of a field, or the same object if nothing is found. May raise Withheld."""


def redacted_fields(redaction: Redaction, obj: Any, scope: Scope, handlers: Mapping[str, Handler]) -> Any:
    """Redact the fields of an object and their names. `handlers` has handlers by field name in camelCase.

    A value that is not an object is redacted as a value. Returns the same object if nothing is found. Raises
    Withheld.
    """
    if not isinstance(obj, dict):
        return redaction.value(obj) if scope in redaction.scopes else obj
    handled: JsonObject = {}
    rest: JsonObject = {}
    for name, value in obj.items():
        handler = handlers.get(camel(name))
        if handler is None:
            rest[name] = value
        else:
            handled[name] = handler(redaction, value, scope)
    new = redaction.value(rest) if rest and scope in redaction.scopes else rest
    if new is rest and all(value is obj[name] for name, value in handled.items()):
        return obj
    renamed = dict(zip(rest, new.items(), strict=True))
    return dict((name, handled[name]) if name in handled else renamed[name] for name in obj)


def elsewhere(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """Handle a field that the caller redacts if it is a list or an object. Other values are redacted here."""
    return value if isinstance(value, list | dict) else _value(redaction, value, scope)


def _role(redaction: Redaction, value: Any, scope: Scope) -> Any:
    return value if isinstance(value, str) and value in _ROLES else _value(redaction, value, scope)


def opaque(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """Handle bytes that the API expects back unchanged. They are redacted only if they are text."""
    return redacted_data(redaction, value) if scope in redaction.scopes else value


def redacted_part(redaction: Redaction, part: JsonObject, scope: Scope) -> JsonObject:
    """Redact a part, except for its text and the strings of partial arguments. Raises Withheld."""
    if len(part) == 1 and is_text(part):
        return part
    redacted: JsonObject = redacted_fields(redaction, part, scope, _PART)
    return redacted


def redacted_argument(redaction: Redaction, piece: Any) -> Any:
    """Redact a piece of partial arguments, except for its string, which is part of a longer text.

    The replacement of a number is a string.
    """
    if not isinstance(piece, dict):  # not a documented format, but it would be forwarded
        return redaction.value(piece)
    number = read(piece, "numberValue")
    new = redaction.value(number)
    if new is not number:
        piece = write(without(piece, "numberValue"), "stringValue", new)
    return redacted_fields(redaction, piece, "tool_arguments", {"stringValue": _text})


def _text(redaction: Redaction, value: Any, scope: Scope) -> Any:
    """Redact a `text` that is not a string: it is not treated as text elsewhere."""
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
    """Return a handler of a value that always has this scope."""
    return lambda redaction, value, _: _value(redaction, value, scope)


def _each(redact: Callable[[Redaction, Any], Any]) -> Handler:
    """Return a handler of a list, or of a single object in place of a list."""

    def redacted(redaction: Redaction, value: Any, scope: Scope) -> Any:
        if scope not in redaction.scopes:
            return value
        if not isinstance(value, list):
            return redact(redaction, value)
        items = [redact(redaction, item) for item in value]
        return value if same_items(items, value) else items

    return redacted


def _file(redaction: Redaction, blob: Any, scope: Scope) -> Any:
    media_type = str(read(blob, "mimeType") or "") if isinstance(blob, dict) else ""

    def data(redaction: Redaction, value: Any, scope: Scope) -> Any:
        return redacted_data(redaction, value, media_type) if scope in redaction.scopes else value

    return redacted_fields(redaction, blob, scope, {"data": data})


_ROLES = frozenset({"user", "model", "function", "system"})
"""Roles, which a configured word must not change."""

CONTENT: Mapping[str, Handler] = {"parts": elsewhere, "role": _role}
"""The fields of a content that need their own handler."""

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
"""The fields of a part that need their own handler, or that have another scope than the speaker's."""
