"""Recognizes and decodes text in base64 data, such as text files in inlineData.

Files are recognized by their content as well as by their media type, since a client chooses both.
"""

import codecs
import re
from base64 import b64encode
from binascii import Error, a2b_base64
from collections.abc import Iterable, Iterator

from hookgate.translator.media_types import media_type

_TEXT_TYPES = re.compile(
    r"text/|application/(?:[\w.-]+\+)?(?:json|xml|yaml)|application/x-(?:yaml|sh|ndjson)"
    r"|application/(?:x-)?(?:javascript|typescript|python|toml|sql)",
    re.IGNORECASE,
)
"""Media types whose data is always treated as text."""

_TO_STANDARD = bytes.maketrans(b"-_", b"+/")
"""Translates the URL-safe alphabet, which the API also accepts."""

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
"""The number of bytes that are examined to recognize text: most files are large, and not text."""

_MAX_CONTROLS = 0.03

_MAGIC = 24
"""The number of bytes in which the type of a media file is recognized."""

ASCII_RUN = re.compile(rb"[\t\n\r -~]{8,}")
"""Matches ASCII in bytes that are in a wide encoding by their beginning: readers may go by the rest of them.

Text in UTF-16 or UTF-32 has hardly any.
"""

_SLICE = 256 * 1024
"""The size of the slices in which files are read, so that other threads can run between them."""


def may_be_text(data: str, media_types: Iterable[str] = ()) -> bool:
    """Return whether a file in base64 may be text, by one of these media types or by its beginning."""
    if any(map(_TEXT_TYPES.match, media_types)):
        return True
    try:
        return _encoding(_decoded(data[: _HEAD // 3 * 4])) is not None
    except Error:
        return True


def decode_text_file(data: str, media_type: str = "") -> tuple[bytes, str] | None:
    """Return the bytes of a file and their encoding, or None if the file is not text.

    The encoding is UTF-8 for all 8-bit encodings. Of a file that is not text, only the beginning is decoded.
    Raises binascii.Error if `data` is not base64.
    """
    named_text = _TEXT_TYPES.match(media_type) is not None
    if not named_text and _encoding(_decoded(data[: _HEAD // 3 * 4])) is None:
        return None
    raw = _decoded(data)
    encoding = _encoding(raw) or ("utf-8" if named_text else None)
    return None if encoding is None else (raw, encoding)


def show_text_file(data: str, media_type: str = "") -> str | None:
    """Return the text of a file, or None if it is not text. Data that is not base64 is the text itself.

    Text in a wide encoding is followed by what an 8-bit reading of the same bytes would show.
    """
    try:
        found = decode_text_file(data, media_type)
    except Error:
        return data
    if found is None:
        return None
    raw, encoding = found
    texts = [text_in(raw, encoding, "replace")]
    if is_wide(encoding):
        texts += [run[0].decode() for run in ASCII_RUN.finditer(raw)]
    return "\n".join(texts)


def is_media_file(data: str) -> bool:
    """Return whether base64 is a file of a known type that is no text, such as an image or a sound."""
    try:
        return bool(media_type(_decoded(data[: _MAGIC // 3 * 4])))
    except Error:
        return False


def is_wide(encoding: str) -> bool:
    """Return whether characters take several bytes each, so that other readers may see other text."""
    return encoding != "utf-8"


def text_in(raw: bytes, encoding: str, errors: str) -> str:
    """Return the text of bytes, as `bytes.decode` does. Raises UnicodeDecodeError."""
    if len(raw) <= _SLICE:
        return raw.decode(encoding, errors)
    return "".join(codecs.iterdecode(_slices(raw), encoding, errors))


def encode_base64(raw: bytes) -> str:
    """Return bytes in base64."""
    size = _SLICE // 3 * 3  # without padding in the middle
    return b"".join(b64encode(piece) for piece in _slices(raw, size)).decode()


def _slices(raw: bytes, size: int = _SLICE) -> Iterator[bytes]:
    return (raw[start : start + size] for start in range(0, len(raw), size))


def _decoded(data: str) -> bytes:
    """Decode base64, even after padding in the middle, as some decoders do. Raises binascii.Error."""
    raw: list[bytes] = []
    rest = b""
    for start in range(0, len(data), _SLICE):
        encoded = data[start : start + _SLICE].encode("ascii", "ignore").translate(_TO_STANDARD, _BLANKS)
        *padded, rest = (rest + encoded).split(b"=")
        raw += map(_decoded_piece, padded)
        whole = len(rest) // 4 * 4
        raw.append(a2b_base64(rest[:whole]))
        rest = rest[whole:]
    return b"".join([*raw, _decoded_piece(rest)])


def _decoded_piece(piece: bytes) -> bytes:
    """Decode base64 without padding. Raises binascii.Error."""
    return a2b_base64(piece + b"=" * (-len(piece) % 4))


def _encoding(raw: bytes) -> str | None:
    """Return the encoding of bytes that are text, UTF-8 for all 8-bit encodings. Returns None if not text."""
    for bom, encoding in _BOMS:
        if raw.startswith(bom):
            return encoding
    head = raw[:_HEAD]
    zeros = head[::2].count(0), head[1::2].count(0)
    if max(zeros) * 4 > len(head) and min(zeros) * 16 < len(head):  # ASCII in UTF-16 without a mark
        return "utf-16-be" if zeros[0] > zeros[1] else "utf-16-le"
    controls = sum(len(piece) - len(piece.translate(None, _CONTROLS)) for piece in _slices(raw))
    return "utf-8" if controls <= len(raw) * _MAX_CONTROLS or _is_utf8(raw) else None


def _is_utf8(raw: bytes) -> bool:
    """Return whether the bytes are UTF-8, except for a last character that may be incomplete."""
    try:
        raw.decode()
    except UnicodeDecodeError as error:
        return error.end == len(raw) and error.reason == "unexpected end of data"
    return True
