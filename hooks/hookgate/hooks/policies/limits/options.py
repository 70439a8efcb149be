"""What a person writes for the policy `limits`."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from hookgate.hooks.policies.limits.windows import Span
from hookgate.hooks.policies.options import Globs, Options, named

Measure = Literal["requests", "tokens", "cost"]

MEASURES: tuple[Measure, ...] = ("requests", "tokens", "cost")


class Rule(Options):
    """How much may be used in one window. Rules with the same per, window, models and name share a count."""

    per: Literal["key", "session", "team", "everyone"]
    """Whose use is added up."""

    window: Span
    """The calendar minute, day or month, in UTC."""

    requests: Annotated[int, Field(gt=0)] | None = None
    """Calls, counted as they begin."""

    tokens: Annotated[int, Field(gt=0)] | None = None
    """Tokens of prompts and answers, thoughts among them, counted as calls end."""

    cost: Annotated[float, Field(gt=0, allow_inf_nan=False)] | None = None
    """Money by the price table, in its currency, counted as calls end."""

    models: Globs = ("*",)
    """Models that the rule is about, with wildcards; all, if left out."""

    name: str = ""
    """What a denial calls the rule."""

    reason: str = ""
    """What the person is told besides how much is used."""

    @model_validator(mode="after")
    def _limits_something(self) -> Self:
        if not any(self.most(measure) for measure in MEASURES):
            raise ValueError("limits nothing; give it requests, tokens or cost")
        return self

    def most(self, measure: Measure) -> float | None:
        """How much of a measure may be used; None for what is not limited."""
        return {"requests": self.requests, "tokens": self.tokens, "cost": self.cost}[measure]

    def is_about(self, model: str) -> bool:
        """Whether calls to the model count."""
        return named(self.models, model)


class LimitsOptions(Options):
    """How much may be used."""

    rules: tuple[Rule, ...] = Field(min_length=1, strict=False)
    """All of them have to leave room for a call."""
