"""What stands outside the strings of a JSON text: for exact counts of values and keys before it is parsed.

The text is read in slices, so that no step keeps other threads waiting for more than a few milliseconds.
Each byte is looked at a fixed number of times, whatever it is.
"""

from collections.abc import Iterator

_SLICE = 256 * 1024
_WHITE_SPACE = b" \t\r\n"


def structure(data: bytes) -> Iterator[bytes]:
    """What stands outside of strings, slice by slice, without white space. Each string is one `"` in it.

    What is given for a text that is not JSON means nothing, and costs no more.
    """
    inside = False
    start = 0
    while start < len(data):
        piece = data[start : start + _SLICE]
        start += len(piece)
        if (len(piece) - len(piece.rstrip(b"\\"))) % 2:  # the last backslash escapes the byte that follows
            piece += data[start : start + 1]
            start += 1
        # Backslashes escape each other in pairs from the left; a quote behind one that is left is escaped.
        parts = piece.replace(b"\\\\", b"").replace(b'\\"', b"").split(b'"')
        outside = parts[1::2] if inside else parts[::2]
        inside ^= len(parts) % 2 == 0
        marks = b'"'.join(outside)
        if inside and outside:
            marks += b'"'  # a string begins in this slice and ends in a later one
        yield marks.translate(None, _WHITE_SPACE)


def exceeds(data: bytes, values: int) -> bool:
    """Whether a JSON text holds more values than that: objects, lists, and whatever stands in one.

    Stops reading as soon as it does.
    """
    if len(data) <= 2 * values:
        return False  # n values take at least 2n - 1 bytes: brackets around them, and commas between
    count, last = 1, b""
    for marks in structure(data):
        joined = last + marks
        # An object or list holds one value more than commas; an empty one none.
        count += marks.count(b",") + marks.count(b"[") + marks.count(b"{")
        count -= joined.count(b"[]") + joined.count(b"{}")
        # What begins at the end of a slice may be an empty one, which then counts for nothing.
        if count - 1 > values:
            return True
        last = joined[-1:]
    return count > values
