"""Bytes in base64: those that are text are redacted, whatever type was declared for them."""

import codecs
import re
from base64 import b64encode
from binascii import Error, a2b_base64
from typing import Any

from hookgate.hooks.policies.redact.redaction import Redaction

_TEXT_TYPES = re.compile(
    r"text/|application/(?:[\w.-]+\+)?(?:json|xml|yaml)|application/x-(?:yaml|sh|ndjson)"
    r"|application/(?:x-)?(?:javascript|typescript|python|toml|sql)",
    re.IGNORECASE,
)
"""Media types whose data is taken for text even if it does not look like it."""

_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
"""From the alphabet for addresses, which the API takes as well."""

_FOREIGN = re.compile(r"[^A-Za-z0-9+/=_\s-]")
"""What base64 is not written with, though some decoders skip it."""

_BLANKS = b" \t\n\v\f\r"

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
"""The longer ones first: that of UTF-32 begins with that of UTF-16."""

_CONTROLS = bytes({*range(32), 127} - {*b"\t\n\f\r\x1b"})
"""Bytes that text in an 8-bit encoding has next to none of."""

_HEAD = 4096
"""Bytes that tell text from all else: most files are large, and no text."""

_MOST_CONTROLS = 0.03


def redacted_data(redaction: Redaction, data: Any, media_type: str = "") -> Any:
    """A field of bytes in base64, with findings replaced if the bytes are text; the very object if not.

    What is no base64 is redacted as a string. Raises Withheld.
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
    end = len(raw) - len(raw) % width  # a last character that is cut short stays as it is
    errors = "surrogateescape" if width == 1 else "surrogatepass"
    try:
        text = raw[:end].decode(encoding, errors)
    except UnicodeDecodeError:  # no text in this encoding; secrets are ASCII in most others
        width, end, encoding, errors = 1, len(raw), "utf-8", "surrogateescape"
        text = raw.decode(encoding, errors)
    new = redaction.text(text)
    return data if new == text else b64encode(new.encode(encoding, errors) + raw[end:]).decode()


def _decoded(data: str) -> bytes:
    """The bytes, also behind padding in the middle, where some decoders go on. Raises binascii.Error."""
    encoded = data.encode("ascii", "ignore").translate(_TO_STANDARD, _BLANKS).rstrip(b"=")
    pieces = filter(None, encoded.split(b"="))
    return b"".join(a2b_base64(piece + b"=" * (-len(piece) % 4)) for piece in pieces)


def _encoding(raw: bytes) -> str | None:
    """The encoding of bytes that are text, UTF-8 for all 8-bit ones; None for bytes that are not."""
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
    """Whether the bytes are UTF-8, but for a last character that may be cut short."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.end == len(raw) and error.reason == "unexpected end of data"
    return True
