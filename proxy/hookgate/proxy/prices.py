"""The price table: what a call costs, by its model and its tokens.

    currency = "USD"

    [models."gemini-2.5-pro*"]
    input = 1.00
    cached = 0.25
    output = 10.00
    above = [{ tokens = 200_000, input = 2.00, cached = 0.50, output = 20.00 }]

Prices are for 1,000,000 tokens. The first model of the file whose name, with wildcards, holds counts.
"""

import json
import tomllib
from collections.abc import Iterator, Mapping
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from hookgate.proxy.config import ConfigError
from hookgate.proxy.config.reading import told_errors
from hookgate.proxy.config.toml import lines_of

_UNIT = 1_000_000

Price = Annotated[float, Field(ge=0, allow_inf_nan=False)]
"""Money for a million tokens."""


class _Table(BaseModel):
    """One table of the file. Unknown names are errors: a price that is misspelt would not be one."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class _Tier(_Table):
    input: Price
    cached: Price | None = None
    output: Price

    def cost(self, input_tokens: int, output_tokens: int, cached: int) -> float:
        of_cached = self.input if self.cached is None else self.cached
        money = (input_tokens - cached) * self.input + cached * of_cached + output_tokens * self.output
        return money / _UNIT


class _Above(_Tier):
    tokens: Annotated[int, Field(gt=0)]


class _Model(_Tier):
    above: tuple[_Above, ...] = ()

    @model_validator(mode="after")
    def _tiers_rise(self) -> Self:
        bounds = [tier.tokens for tier in self.above]
        if bounds != sorted(set(bounds)):
            raise ValueError("above: its tokens have to rise from one to the next")
        return self

    def tier(self, input_tokens: int) -> _Tier:
        """The prices for a prompt of so many tokens: those of the highest bound that it is above."""
        return next((tier for tier in reversed(self.above) if input_tokens > tier.tokens), self)


class _File(_Table):
    currency: Annotated[str, Field(min_length=1, max_length=16)]
    models: Annotated[dict[str, _Model], Field(min_length=1)]


class Prices:
    """A price table. `currency` is what its prices are in."""

    def __init__(self, currency: str, models: Mapping[str, _Model]) -> None:
        self.currency, self._models = currency, models

    @property
    def models(self) -> tuple[str, ...]:
        """The models that have a price, as the table names them: with wildcards."""
        return tuple(self._models)

    def knows(self, model: str) -> bool:
        """Whether there is a price for the model."""
        return self._price(model) is not None

    def cost(self, model: str, input_tokens: int, output_tokens: int, cached: int = 0) -> float | None:
        """What a call costs; None for a model without a price.

        `input_tokens` are all of the prompt, `cached` those of them that came from a cache; `output_tokens`
        are all of the answer, thoughts among them.
        """
        price = self._price(model)
        if price is None:
            return None
        return price.tier(input_tokens).cost(input_tokens, output_tokens, min(cached, input_tokens))

    def _price(self, model: str) -> _Model | None:
        return next((price for glob, price in self._models.items() if fnmatchcase(model, glob)), None)


def read_prices(path: Path | None) -> Prices | None:
    """The price table in a file; None without one. Raises ConfigError with all that is wrong in it."""
    if path is None:
        return None
    try:
        text = path.read_text(encoding="utf-8-sig")
        document = tomllib.loads(text)
    except OSError as error:
        raise ConfigError(
            [f"prices.file: {path}: cannot be read: {error.strerror}; check the path"]
        ) from None
    except (ValueError, RecursionError) as error:
        raise ConfigError([f"{path}: is not valid TOML: {error}"]) from None
    try:
        # Strict as JSON is: "1.00" is no number, and true is none either.
        file = _File.model_validate_json(json.dumps(document, default=str), strict=True)
    except ValidationError as error:
        raise ConfigError(list(_placed(path, text, error))) from None
    return Prices(file.currency, file.models)


def _placed(path: Path, text: str, error: ValidationError) -> Iterator[str]:
    """Each problem with its file, its line, and the key that it is about."""
    lines = lines_of(text)
    for each, told in zip(error.errors(include_url=False), told_errors(error), strict=True):
        steps = [str(step) for step in each["loc"]]
        known = (lines.get(tuple(steps[:end])) for end in range(len(steps), 0, -1))
        line = next((f":{line}" for line in known if line), "")
        yield f"{path}{line}: {told.removeprefix('.').removeprefix(': ')}"
