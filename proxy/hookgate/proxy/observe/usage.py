"""The tokens that a call uses, as its answer reports them in any dialect, and their price."""

import json
import tomllib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hookgate.proxy.config import ConfigError
from hookgate.proxy.config.catalogue import NAMED, sections
from hookgate.proxy.config.reading import describe_errors
from hookgate.proxy.config.sources import PRICE_KEYS, describe_toml_error, lines_of, read_toml
from hookgate.translator.fields import JsonObject

_MAX_COUNT = 2**31 - 1
"""The largest count of the API's own type; sums of it fit wherever they are stored."""
_LONGEST_NUMBER = 40


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

    def beyond(self, counted: "Usage") -> "Usage":
        """Return what is not part of the tokens that were counted before."""
        inputs = max(0, self.input_tokens - counted.input_tokens)
        outputs = max(0, self.output_tokens - counted.output_tokens)
        return Usage(inputs, outputs, min(self.cached_tokens, inputs))


NO_USAGE = Usage()


class UsageCounts:
    """The counts of all usages that one answer reports. Each usage counts from the start of the answer.

    Of each count, the largest value counts, so that no usage without it, or with another one, lowers it.
    """

    def __init__(self) -> None:
        self._counts: dict[str, int] = {}
        self._usage: Usage | None = NO_USAGE  # None after a count has changed

    def add(self, usage: Any) -> None:
        """Add a usage in any dialect. Anything but an object is ignored."""
        if not isinstance(usage, dict):
            return
        counts = self._counts
        for name, value in usage.items():
            if name in _COUNTS:
                so_far = counts.get(name, 0)
                # Most are integers, and repeat the last one, so that no function is called.
                if value != so_far and (count := value if type(value) is int else _count(value)) > so_far:
                    counts[name] = count if count < _MAX_COUNT else _MAX_COUNT
                    self._usage = None
            elif name in _DETAILS and isinstance(value, dict):
                self.add({"cached_tokens": value.get("cached_tokens")})

    @property
    def tool_tokens(self) -> int:
        """The tokens of results of tools that the API has run, which are part of the prompt."""
        return max(self._counts.get(name, 0) for name in _TOOL_COUNTS)

    def usage(self) -> Usage:
        """Return the tokens, including thoughts and the prompts of tools, which some dialects count apart."""
        if self._usage is None:
            self._usage = self._sum()
        return self._usage

    def _sum(self) -> Usage:
        counts = defaultdict(int, self._counts)
        inputs = max(
            counts["promptTokenCount"] + counts["toolUsePromptTokenCount"],
            counts["total_input_tokens"] + counts["total_tool_use_tokens"],
            counts["input_tokens"],
            counts["prompt_tokens"],
        )
        answer = max(counts["candidatesTokenCount"], counts["responseTokenCount"])  # in Live sessions
        outputs = max(
            answer + counts["thoughtsTokenCount"],
            counts["total_output_tokens"] + counts["total_thought_tokens"],
            counts["output_tokens"],
            counts["completion_tokens"],
            # Some upstreams count thoughts in the total only.
            counts["total_tokens"] - counts["prompt_tokens"] if counts["prompt_tokens"] else 0,
            counts["totalTokenCount"] - inputs if counts["promptTokenCount"] else 0,
        )
        cached = max(map(counts.__getitem__, _CACHED))
        return Usage(min(inputs, _MAX_COUNT), min(outputs, _MAX_COUNT), cached)


_TOOL_COUNTS = ("toolUsePromptTokenCount", "total_tool_use_tokens")
_DETAILS = frozenset({"input_tokens_details", "prompt_tokens_details"})
_CACHED = ("cachedContentTokenCount", "total_cached_tokens", "cached_tokens")
_COUNTS = frozenset(
    {
        *_CACHED,
        *("promptTokenCount", "toolUsePromptTokenCount", "candidatesTokenCount", "responseTokenCount"),
        *("thoughtsTokenCount", "totalTokenCount"),
        *("total_input_tokens", "total_tool_use_tokens", "total_output_tokens", "total_thought_tokens"),
        *("input_tokens", "output_tokens", "prompt_tokens", "completion_tokens", "total_tokens"),
    }
)
"""The names of counts in all dialects."""


def read_usage(metadata: JsonObject) -> Usage:
    """Return the tokens in one usage."""
    counts = UsageCounts()
    counts.add(metadata)
    return counts.usage()


def _count(value: Any) -> int:
    """Return a count, which may be a string or a float; 0 for anything but a positive number."""
    if type(value) is int:  # as nearly always
        return min(max(value, 0), _MAX_COUNT)
    if isinstance(value, str) and len(value) <= _LONGEST_NUMBER:
        try:
            value = float(value)
        except ValueError:
            return 0
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        return 0
    return int(min(value, _MAX_COUNT))


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
    date: Annotated[str, Field(max_length=32)] | None = None
    source: Annotated[str, Field(max_length=200)] | None = None
    priority: Annotated[float, Field(ge=1, allow_inf_nan=False)] = 2.0
    models: Annotated[dict[str, _Model], Field(min_length=1)]


_REMEMBERED = 256
"""The names of models whose price is remembered, as to compare a name with all patterns takes long."""


class Prices:
    """A price table, with the currency of its prices and, if it is known, their date."""

    def __init__(
        self, currency: str, models: Mapping[str, _Model], date: str | None = None, priority: float = 2.0
    ) -> None:
        """`priority` is the factor of all prices in the service tier of that name."""
        self.currency, self.date, self._models, self._priority = currency, date, models, priority
        self._price = lru_cache(_REMEMBERED)(self._find_price)

    @property
    def models(self) -> tuple[str, ...]:
        """The models that have a price: names, or patterns with wildcards."""
        return tuple(self._models)

    def knows(self, model: str) -> bool:
        """Return True if there is a price for the model."""
        return self._price(model) is not None

    def cost(
        self, model: str, input_tokens: int, output_tokens: int, cached: int = 0, *, priority: bool = False
    ) -> float | None:
        """Return the cost of a call, or None if the model has no price.

        `input_tokens` are all tokens of the prompt, of which `cached` came from a cache. `output_tokens` are
        all tokens of the answer, including thoughts. `priority` says that the call is of that service tier.
        """
        price = self._price(model)
        if price is None:
            return None
        cost = price.tier(input_tokens).cost(input_tokens, output_tokens, min(cached, input_tokens))
        return cost * self._priority if priority else cost

    def _find_price(self, model: str) -> _Model | None:
        return next((price for glob, price in self._models.items() if fnmatchcase(model, glob)), None)


_EXPECTED = "a price table has the key currency, and a table [models.NAME] for each model"


SHIPPED_PRICES = Path(__file__).with_name("prices.toml")
"""The price table that is used unless the configuration names another one."""


def read_prices(path: Path | None) -> Prices:
    """Read a price table, by default the shipped one. Raises ConfigError with all problems of the file."""
    path = path or SHIPPED_PRICES
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
    return Prices(file.currency, file.models, file.date, file.priority)


def _located_errors(path: Path, text: str, error: ValidationError) -> Iterator[str]:
    """Yield a message for each problem, with its file, line and key."""
    lines = lines_of(text)
    for detail, message in zip(error.errors(include_url=False), describe_errors(error), strict=True):
        steps = [str(step) for step in detail["loc"]]
        candidates = (lines.get(tuple(steps[:end])) for end in range(len(steps), 0, -1))
        line = next((f":{line}" for line in candidates if line), "")
        yield f"{path}{line}: {message.removeprefix('.').removeprefix(': ')}"
