"""The tokens that a call uses, read from its answer while it is streamed, and their price."""

import json
import re
import tomllib
from collections.abc import Collection, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import cache
from json import JSONDecoder
from pathlib import Path
from typing import Annotated, Any, Self

import orjson
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hookgate.proxy.config import ConfigError
from hookgate.proxy.config.catalogue import NAMED, sections
from hookgate.proxy.config.reading import describe_errors
from hookgate.proxy.config.sources import PRICE_KEYS, describe_toml_error, lines_of, read_toml
from hookgate.proxy.routing.dialects.adapter import UsageFormat
from hookgate.translator.fields import JsonObject, read_object

_MAX_METADATA = 16 * 1024
"""The expected maximum size of a usageMetadata in bytes: it lists a few counts for each modality."""
_MAX_COUNT = 2**31 - 1
"""The largest count of the API's own type; sums of it fit wherever they are stored."""
_MAX_OBJECT = 64 * 1024 * 1024
"""The size of the largest answer that is read for its usage, in bytes. No answer that is judged is larger."""
_INTERACTION_ENDINGS = (b'"interaction.completed"',)
_RESPONSE_ENDINGS = (b'"response.completed"', b'"response.failed"', b'"response.incomplete"')
_OVERLAP = 128
"""Bytes that are searched again with the next chunk: the key may be split between two."""

_decoder = JSONDecoder()


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens, as the API counts them."""

    input_tokens: int = 0
    """Tokens of the prompt, including cached ones."""
    output_tokens: int = 0
    """Tokens of the answer, including thoughts."""
    cached_tokens: int = 0

    def __add__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens + other.input_tokens,
            self.output_tokens + other.output_tokens,
            self.cached_tokens + other.cached_tokens,
        )

    def __sub__(self, other: "Usage") -> "Usage":
        return Usage(
            self.input_tokens - other.input_tokens,
            self.output_tokens - other.output_tokens,
            self.cached_tokens - other.cached_tokens,
        )


@cache
def _keys(name: str) -> tuple[re.Pattern[bytes], re.Pattern[bytes]]:
    """Return patterns of a key and of what is before its value: with plain letters, and with escaped ones.

    The latter takes many times as long.
    """
    escaped = "".join(rf"(?:{letter}|\\u00(?i:{ord(letter):02x}))" for letter in name)
    plain, any_spelling = (
        re.compile(rf'"{spelling}"\s*:\s*(?=\{{)'.encode()) for spelling in (name, escaped)
    )
    return plain, any_spelling


class UsageMeter:
    """Finds the last usage in an answer's bytes: each one counts from the start of the answer.

    The name between unescaped quotes is always a field's name: within a string the quotes would be escaped.
    """

    def __init__(self, name: str = "usageMetadata") -> None:
        """`name` is the name of the usage."""
        self._key, self._escaped_key = _keys(name)
        self._found = self._previous = b""
        self._tail = b""

    def feed(self, chunk: bytes) -> None:
        """Search the next bytes of the answer, which may be split anywhere."""
        data = self._tail + chunk
        key = self._escaped_key if b"\\u" in data else self._key
        begins = [*map(re.Match.end, key.finditer(data))]
        if begins:
            self._previous = self._found if len(begins) == 1 else data[begins[-2] :][:_MAX_METADATA]
            self._found = data[begins[-1] :][:_MAX_METADATA]
        elif self._found:
            self._found = (self._found + chunk)[:_MAX_METADATA]
        searched = begins[-1] if begins else 0
        self._tail = data[max(searched, len(data) - _OVERLAP) :]

    def usage(self) -> Usage:
        """Return the last usage that is complete; all zero if there is none."""
        for found in (self._found, self._previous):
            try:
                metadata, _ = _decoder.raw_decode(found.decode(errors="replace"))
            except (ValueError, RecursionError):  # incomplete, or an absurd number or depth
                continue
            return read_usage(metadata)
        return Usage()


class ObjectMeter(UsageMeter):
    """Finds the usage of an answer that has a field for it: in the whole answer, or in its last event.

    Other objects in such an answer, such as the arguments and the declarations of functions, may have fields
    of the same name. So only the answer's own field counts.
    """

    def __init__(self, field: str, endings: Collection[bytes]) -> None:
        """Create the meter.

        Args:
            field: The field of an event that has the answer.
            endings: The types, in quotes, of the events with which a streamed answer ends.
        """
        super().__init__()
        self._field, self._endings = field, endings
        self._kept = bytearray()
        self._is_whole: bool | None = None
        self._last = b""

    def feed(self, chunk: bytes) -> None:
        if len(self._kept) + len(chunk) > _MAX_OBJECT:
            self._kept.clear()
            return
        self._kept += chunk
        if self._is_whole is None and (begin := self._kept.lstrip()):
            self._is_whole = begin.startswith(b"{")
        if self._is_whole is False and (b"\n" in chunk or b"\r" in chunk):
            lines = bytes(self._kept).splitlines(keepends=True)
            self._kept = bytearray() if lines[-1].endswith((b"\n", b"\r")) else bytearray(lines.pop())
            self._last = next(filter(self._ends, reversed(lines)), self._last)

    def _ends(self, line: bytes) -> bool:
        if b"\\u" in line:  # letters of the type may be escaped
            with suppress(orjson.JSONDecodeError):
                line = orjson.dumps(orjson.loads(line.removeprefix(b"data:")))
        return any(ending in line for ending in self._endings)

    def usage(self) -> Usage:
        data = self._kept if self._is_whole else self._last.removeprefix(b"data:")
        try:
            body = orjson.loads(data)
        except orjson.JSONDecodeError:
            return Usage()
        of = body if self._is_whole else read_object(body, self._field)
        return read_usage(read_object(of, "usage"))


def make_meter(usage_format: UsageFormat) -> UsageMeter:
    """Return the meter for answers of a dialect."""
    if usage_format == "interaction":
        return ObjectMeter("interaction", _INTERACTION_ENDINGS)
    if usage_format == "response":
        return ObjectMeter("response", _RESPONSE_ENDINGS)
    # The arguments of functions are strings here, in which the quotes of a name are escaped.
    return UsageMeter("usage") if usage_format == "openai" else UsageMeter()


def read_usage(metadata: JsonObject) -> Usage:
    """Return the tokens in a usage, which counts thoughts and the prompts of tools separately."""
    if "total_input_tokens" in metadata or "total_output_tokens" in metadata:
        return Usage(
            _count(metadata, "total_input_tokens") + _count(metadata, "total_tool_use_tokens"),
            _count(metadata, "total_output_tokens") + _count(metadata, "total_thought_tokens"),
            _count(metadata, "total_cached_tokens"),
        )
    if "input_tokens" in metadata:
        details = read_object(metadata, "input_tokens_details")
        inputs, outputs = _count(metadata, "input_tokens"), _count(metadata, "output_tokens")
        return Usage(inputs, outputs, _count(details, "cached_tokens"))
    if "prompt_tokens" in metadata:
        prompt, total = _count(metadata, "prompt_tokens"), _count(metadata, "total_tokens")
        details = read_object(metadata, "promptTokensDetails")
        # Some upstreams count thoughts in the total only.
        output = max(_count(metadata, "completion_tokens"), total - prompt)
        return Usage(prompt, output, _count(details, "cached_tokens"))
    return Usage(
        _count(metadata, "promptTokenCount") + _count(metadata, "toolUsePromptTokenCount"),
        _count(metadata, _answer_count(metadata)) + _count(metadata, "thoughtsTokenCount"),
        _count(metadata, "cachedContentTokenCount"),
    )


def _answer_count(metadata: JsonObject) -> str:
    """Return the name of the field that counts the tokens of the answer, which differs in Live sessions."""
    return "responseTokenCount" if "responseTokenCount" in metadata else "candidatesTokenCount"


def _count(metadata: JsonObject, key: str) -> int:
    value: Any = metadata.get(key)
    is_count = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return min(value, _MAX_COUNT) if is_count else 0


_UNIT = 1_000_000

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""The price of a million tokens."""


class _Table(BaseModel):
    """A table of the file. Unknown names are errors: a misspelt price would otherwise be ignored."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Tier(_Table):
    input: Price
    cached: Price | None = None
    output: Price

    def cost(self, input_tokens: int, output_tokens: int, cached: int) -> float:
        cached_price = self.input if self.cached is None else self.cached
        total = (input_tokens - cached) * self.input + cached * cached_price + output_tokens * self.output
        return total / _UNIT


class _Above(_Tier):
    tokens: Annotated[int, Field(gt=0)]


class _Model(_Tier):
    above: tuple[_Above, ...] = ()

    @model_validator(mode="after")
    def _tiers_rise(self) -> Self:
        bounds = [tier.tokens for tier in self.above]
        if bounds != sorted(set(bounds)):
            raise ValueError("above: the tokens must increase from one tier to the next")
        return self

    def tier(self, input_tokens: int) -> _Tier:
        """Return the prices for a prompt with `input_tokens`: those of the highest bound that it exceeds."""
        return next((tier for tier in reversed(self.above) if input_tokens > tier.tokens), self)


class _File(_Table):
    currency: Annotated[str, Field(min_length=1, max_length=16)]
    models: Annotated[dict[str, _Model], Field(min_length=1)]


class Prices:
    """A price table. `currency` is the currency of its prices."""

    def __init__(self, currency: str, models: Mapping[str, _Model]) -> None:
        self.currency, self._models = currency, models

    @property
    def models(self) -> tuple[str, ...]:
        """The models that have a price: names, or patterns with wildcards."""
        return tuple(self._models)

    def knows(self, model: str) -> bool:
        """Return True if there is a price for the model."""
        return self._price(model) is not None

    def cost(self, model: str, input_tokens: int, output_tokens: int, cached: int = 0) -> float | None:
        """Return the cost of a call, or None if the model has no price.

        `input_tokens` are all tokens of the prompt, of which `cached` came from a cache. `output_tokens` are
        all tokens of the answer, including thoughts.
        """
        price = self._price(model)
        if price is None:
            return None
        return price.tier(input_tokens).cost(input_tokens, output_tokens, min(cached, input_tokens))

    def _price(self, model: str) -> _Model | None:
        return next((price for glob, price in self._models.items() if fnmatchcase(model, glob)), None)


_EXPECTED = "a price table has the key currency, and a table [models.NAME] for each model"


def read_prices(path: Path | None) -> Prices | None:
    """Read a price table. Returns None without a path. Raises ConfigError with all problems of the file."""
    if path is None:
        return None
    try:
        text = read_toml(path)
    except OSError as error:
        raise ConfigError(
            [f"prices.file: {path}: cannot be read: {error.strerror}; check the path"]
        ) from None
    except ValueError as error:
        raise ConfigError([f"prices.file: {path}: {error}"]) from None
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:
        raise ConfigError([describe_toml_error(path, text, error, _EXPECTED, _EXPECTED)]) from None
    if not document:
        raise ConfigError([f"prices.file: {path}: is empty; {_EXPECTED}"])
    if not document.keys() & PRICE_KEYS and document.keys() <= sections() | NAMED.keys():
        problem = "is the gateway's configuration; pass it with --config"
        raise ConfigError([f"prices.file: {path}: {problem}; {_EXPECTED}"])
    try:
        # Validated as JSON, which is strict: neither "1.00" nor true is a number.
        file = _File.model_validate_json(json.dumps(document, default=str), strict=True)
    except ValidationError as error:
        raise ConfigError(list(_located_errors(path, text, error))) from None
    return Prices(file.currency, file.models)


def _located_errors(path: Path, text: str, error: ValidationError) -> Iterator[str]:
    """Yield a message for each problem, with its file, line and key."""
    lines = lines_of(text)
    for detail, message in zip(error.errors(include_url=False), describe_errors(error), strict=True):
        steps = [str(step) for step in detail["loc"]]
        candidates = (lines.get(tuple(steps[:end])) for end in range(len(steps), 0, -1))
        line = next((f":{line}" for line in candidates if line), "")
        yield f"{path}{line}: {message.removeprefix('.').removeprefix(': ')}"
