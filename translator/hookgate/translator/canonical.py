"""What may stand in a body in one form only: a field in one spelling, inline data in canonical base64.

The API takes `fileUri` and `file_uri`, and of an object that has both it takes one: a hook may have been
shown the other. A lenient decoder of base64 stops at the padding, or skips what it does not know: a policy
that decodes would not see what stands behind. So both are refused wherever the API's own objects are; in
free-form JSON (arguments, results, metadata), keys are data and stay as they are.
"""

from base64 import b64decode, b64encode
from typing import Any

from hookgate.translator.errors import BodyError
from hookgate.translator.fields import JsonObject

_FREE = frozenset(
    {
        "args",
        "const",
        "customConfigs",
        "custom_configs",
        "default",
        "enum",
        "example",
        "examples",
        "labels",
        "metadata",
        "partMetadata",
        "part_metadata",
        "userMetadata",
        "user_metadata",
    }
)
"""Fields that hold free-form JSON wherever the API has them."""

_RESULTS = frozenset({"functionResponse", "function_response", "toolResponse", "tool_response"})
"""Objects whose `response` is free-form JSON; that of a function declaration is a schema."""

_MAPS = frozenset(
    {"$defs", "defs", "definitions", "dependentSchemas", "headers", "patternProperties", "properties"}
)
"""Fields that hold objects by names which the caller chose."""

_BLOBS = frozenset({"inlineData", "inline_data"})

_SPECIAL = _FREE | _RESULTS | _MAPS | _BLOBS

_STANDARD = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_TO_STANDARD = bytes.maketrans(b"-_", b"+/")


def check_canonical(value: Any, path: str = "") -> None:
    """Check a document of the API, however deep. `path` is where it stands.

    Raises BodyError for an object that holds one field in two spellings, and for inline data that is not
    canonical base64.
    """
    try:
        if isinstance(value, dict):
            _check_object(value)
        elif isinstance(value, list):
            _check_list(value)
    except BodyError as error:
        error.path = _joined(path, error.path)
        raise


def _check_object(obj: JsonObject) -> None:
    # The hottest loop of a check: it calls nothing for a value that is neither an object nor a list.
    spelled = False
    key = ""
    try:
        for key, item in obj.items():
            if "_" in key:
                spelled = True
            kind = type(item)
            if kind is dict:
                if key in _SPECIAL:
                    _check_special(key, item)
                else:
                    _check_object(item)
            elif kind is list and item and key not in _FREE:
                _check_list(item)
    except BodyError as error:
        error.path = _joined(key, error.path)
        raise
    if spelled:
        check_spellings(obj)


def _check_list(items: list[Any]) -> None:
    place = 0
    try:
        for place, item in enumerate(items):  # noqa: B007  # an error tells it
            kind = type(item)
            if kind is dict:
                _check_object(item)
            elif kind is list:
                _check_list(item)
    except BodyError as error:
        error.path = _joined(f"[{place}]", error.path)
        raise


def _check_special(key: str, item: JsonObject) -> None:
    """The object in a field that is not simply one of the API's."""
    if key in _MAPS:
        for name, value in item.items():
            check_canonical(value, name)
    elif key in _RESULTS:
        _check_object({name: value for name, value in item.items() if name != "response"})
    elif key in _BLOBS:
        _check_object(item)
        _check_base64(item.get("data"))


def check_spellings(obj: JsonObject, path: str = "") -> None:
    """Check one object alone. Raises BodyError when it holds one field in two spellings."""
    seen: dict[str, str] = {}
    for key in obj:
        other = seen.setdefault(key.replace("_", "").lower(), key)
        if other != key:
            camel, snake = sorted((key, other), key=lambda name: "_" in name)
            message = f"the field is given twice, as {snake!r} and {camel!r}; send it once"
            raise BodyError(_joined(path, camel), message)


def _check_base64(data: Any) -> None:
    """Refuse data that two decoders could read differently; what is no text at all as well."""
    if data is not None and not (isinstance(data, str) and is_canonical_base64(data)):
        raise BodyError(
            "data",
            "inline data has to be base64 as RFC 4648 has it: one alphabet, padded, and nothing besides",
        )


def is_canonical_base64(text: str) -> bool:
    """Whether a text is what an encoder makes of bytes, in the standard alphabet or in that for URLs."""
    if len(text) % 4 or not text.isascii():
        return False
    data = text.encode()
    if b"-" in data or b"_" in data:
        if b"+" in data or b"/" in data:
            return False
        data = data.translate(_TO_STANDARD)
    padding = data.translate(None, delete=_STANDARD)  # in C: some 40 MB in less than a tenth of a second
    if padding not in (b"", b"=", b"==") or not data.endswith(padding):
        return False
    last = data[-4:]  # only here can bits be left over
    return b64encode(b64decode(last)) == last


def _joined(path: str, rest: str) -> str:
    return f"{path}{rest}" if not path or not rest or rest.startswith("[") else f"{path}.{rest}"
