"""Estimates of the tokens that a call will use, made from its request, and whose price they cost."""

from collections.abc import Mapping, Sequence
from typing import Any

from hookgate.hooks.policy_environment import PriceTable
from hookgate.hooks.session import ExpectedUse
from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.input_size import input_size
from hookgate.translator.known_turns import NO_TURNS, RequestTurns, totals_of

BYTES_PER_TOKEN = 4
"""The bytes of text in a prompt that count as one token."""

DEFAULT_OUTPUT = 8192
"""The tokens of an answer that a request without `maxOutputTokens` is expected to use."""

_MOST_OUTPUT = 65_536  # what models can return; a larger bound in a request would only block other callers
_MOST_CANDIDATES = 8
BYTES_PER_MEDIA_TOKEN = 1024
"""The bytes of a picture, of sound or of another file that count as one token."""

_MEDIA_TOKENS = 258  # of each file, however small


def estimate_use(body: JsonObject, generates: bool = True, turns: RequestTurns = NO_TURNS) -> ExpectedUse:
    """Return the tokens that a GenerateContentRequest is expected to use.

    Without `generates`, the call has no answer of tokens, such as an embedding. Some of `turns`, with
    which the request begins, may be known. Files that the request only refers to are not estimated.
    """
    output = estimate_output(read_object(body, "generationConfig")) if generates else 0
    return ExpectedUse(_input_tokens(body, turns), output)


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


def _input_tokens(body: JsonObject, turns: RequestTurns) -> int:
    contents = read_list(body, "contents") if turns.known else []
    if known := turns.count_known(contents):
        rest, size = {**body, "contents": contents[known:]}, totals_of(turns.turns[:known]).size
        if turns.fields is not None and turns.fields.are_in(body):
            rest = {name: value for name, value in rest.items() if name not in turns.fields.values}
            size += turns.fields.totals.size
        size += input_size(rest)
    else:
        size = input_size(body)
    text, media = -(-size.text // BYTES_PER_TOKEN), size.media // BYTES_PER_MEDIA_TOKEN
    return text + media + size.files * _MEDIA_TOKENS


def priced_model(prices: PriceTable, model: str, answered_by: str | None) -> str:
    """Return the model whose price a call costs: the one that answered, unless that has no price."""
    return answered_by if answered_by and prices.knows(answered_by) else model
