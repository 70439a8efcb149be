"""Estimates of the tokens that a call will use, made from its request, and whose price they cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from hookgate.hooks.policy_environment import PriceTable
from hookgate.hooks.session import ExpectedUse
from hookgate.translator.fields import JsonObject, read, read_object

BYTES_PER_TOKEN = 4
"""The bytes of text in a prompt that count as one token."""

DEFAULT_OUTPUT = 8192
"""The tokens of an answer that a request without `maxOutputTokens` is expected to use."""

_MOST_OUTPUT = 65_536  # what models can return; a larger bound in a request would only block other callers
_MOST_CANDIDATES = 8
BYTES_PER_MEDIA_TOKEN = 1024
"""The bytes of a picture, of sound or of another file that count as one token."""

_MEDIA_TOKENS = 258  # of each file, however small
_OPAQUE = frozenset({"thoughtSignature", "thought_signature", "signature"})
_FREE = frozenset({"args", "response"})
"""Fields of arguments and results, in which all is text, whatever its name."""
_UNUSUAL = _OPAQUE | _FREE | {"data"}
_SHORT = 256  # characters of a field `data` that is a text rather than a file


def estimate_use(body: JsonObject, generates: bool = True) -> ExpectedUse:
    """Return the tokens that a GenerateContentRequest is expected to use.

    Without `generates`, the call has no answer of tokens, such as an embedding. Files that the request only
    refers to are not estimated.
    """
    output = estimate_output(read_object(body, "generationConfig")) if generates else 0
    return ExpectedUse(_estimate_input(body), output)


def estimate_all(requests: Sequence[JsonObject], generates: bool = True) -> ExpectedUse:
    """Return the tokens that all requests of a call are expected to use."""
    expected = [estimate_use(request, generates) for request in requests]
    return ExpectedUse(
        sum(each.input_tokens for each in expected), sum(each.output_tokens for each in expected)
    )


def estimate_output(config: Mapping[str, Any]) -> int:
    """Return the maximum output that a `generationConfig` allows, or a default if it has none."""
    settings = dict(config)
    most = _number(read(settings, "maxOutputTokens"))
    tokens = min(most, _MOST_OUTPUT) if most > 0 else DEFAULT_OUTPUT
    return tokens * min(candidate_count(settings), _MOST_CANDIDATES)


def candidate_count(config: Mapping[str, Any]) -> int:
    """Return how many candidates a `generationConfig` asks for."""
    return max(1, _number(read(config, "candidateCount")))


def _number(value: Any) -> int:
    """Return a whole number as protobuf's JSON may spell it, such as 8, 8.0 and "8"; 0 for anything else."""
    try:
        number = float(value) if type(value) in (int, float, str) else 0.0
    except (ValueError, OverflowError):
        return 0
    return int(number) if number.is_integer() else 0


def _estimate_input(body: JsonObject) -> int:
    text = media = files = 0
    free: list[Any] = []
    level: list[Any] = [body]
    while level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                text += len(item) if item.isascii() else len(item.encode(errors="surrogatepass"))
            elif kind is list:
                below += item
            elif kind is dict and _UNUSUAL.isdisjoint(item):
                below += item.values()
            elif kind is dict:
                free += [item[name] for name in _FREE & item.keys()]
                below += [value for name, value in item.items() if name not in _UNUSUAL]
                if isinstance(data := item.get("data"), str) and len(data) > _SHORT:
                    media, files = media + len(data), files + 1
                else:
                    below.append(data)
        level = below
    text += _text_size(free)
    return -(-text // BYTES_PER_TOKEN) + media // BYTES_PER_MEDIA_TOKEN + files * _MEDIA_TOKENS


def _text_size(level: list[Any]) -> int:
    """Return the bytes of all strings and names in these values."""
    size = 0
    while level:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                size += len(item) if item.isascii() else len(item.encode(errors="surrogatepass"))
            elif kind is list:
                below += item
            elif kind is dict:
                below += item
                below += item.values()
        level = below
    return size


def priced_model(prices: PriceTable, model: str, answered_by: str | None) -> str:
    """Return the model whose price a call costs: the one that answered, unless that has no price."""
    return answered_by if answered_by and prices.knows(answered_by) else model
