"""JSON by the interpreter's own reader and writer: importing `json` takes as long as half a bare start."""

from _json import encode_basestring_ascii, make_encoder, make_scanner

_SPACE = " \t\r\n"


def loads(data: bytes) -> object:
    """The value. Raises ValueError for what is not JSON in UTF-8."""
    text = data.decode("utf-8-sig").strip(_SPACE)
    try:
        value, end = make_scanner(_Plain)(text, 0)  # type: ignore[arg-type]  # it reads these attributes
    except (StopIteration, SystemError, ValueError):
        return _told(text)  # without `json` the reader has no words for what is wrong
    except RecursionError:
        raise ValueError("too many brackets within each other") from None
    return value if end == len(text) else _told(text)


def dumps(value: object) -> bytes:
    """The value, which came from `loads`, on one line of ASCII."""
    encoder = make_encoder(None, _unknown, encode_basestring_ascii, None, ": ", ", ", False, False, True)
    return "".join(encoder(value, 0)).encode()


def _told(text: str) -> object:
    import json  # noqa: PLC0415  # see the module's docstring

    value: object = json.loads(text, parse_constant=_constant)
    return value


def _constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


class _Plain:
    """How `json` reads without options, but for the NaN and Infinity that are not JSON."""

    strict = True
    object_hook = None
    object_pairs_hook = None
    parse_float = float
    parse_int = int
    parse_constant = staticmethod(_constant)


def _unknown(value: object) -> object:
    raise TypeError(f"{type(value).__name__} is not of JSON")
