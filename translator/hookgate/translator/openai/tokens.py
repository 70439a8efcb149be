"""The log probabilities of tokens. Some clients know their types, and leave out events with others."""

from collections.abc import Mapping
from typing import Any

FieldTypes = Mapping[str, tuple[type, ...]]
"""The types that each field may have."""

_TOKEN: FieldTypes = {
    "token": (str,),
    "logprob": (int, float),
    "bytes": (list, type(None)),
    "top_logprobs": (list,),
}


def has_only(obj: Any, types: FieldTypes) -> bool:
    """Return whether a value is an object with nothing but fields of these types."""
    if type(obj) is not dict:
        return False
    return all(type(value) in types.get(key, ()) for key, value in obj.items())


def are_tokens(value: Any) -> bool:
    """Return whether a value is a list of tokens with log probabilities that all clients can read."""
    return type(value) is list and all(map(_is_token, value))


def _is_token(token: Any) -> bool:
    if not has_only(token, _TOKEN) or not {"token", "logprob", "top_logprobs"} <= token.keys():
        return False
    return all(
        has_only(each, _TOKEN) and {"token", "logprob"} <= each.keys() for each in token["top_logprobs"]
    )
