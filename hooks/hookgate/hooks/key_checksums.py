"""The checksum of the keys that gateways issue: who creates a key and who looks for leaked ones need it."""

import zlib

_BASE62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_CHECKSUM_LENGTH = 6


def key_checksum(text: str) -> str:
    """Return the checksum with which a key of hookgate ends: CRC-32 of the text before it, in base 62."""
    number, digits = zlib.crc32(text.encode()), ""
    for _ in range(_CHECKSUM_LENGTH):
        number, digit = divmod(number, len(_BASE62))
        digits = _BASE62[digit] + digits
    return digits


def is_hookgate_key(text: str) -> bool:
    """Return whether a text in the format of hookgate's keys has the right checksum."""
    return text[-_CHECKSUM_LENGTH:] == key_checksum(text[:-_CHECKSUM_LENGTH])
