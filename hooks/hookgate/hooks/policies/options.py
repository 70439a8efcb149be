"""What the options of policies have in common: how they are read, names, and patterns."""

from collections.abc import Mapping
from fnmatch import fnmatchcase
from typing import Annotated, Any, TypeVar

import re2  # type: ignore[import-untyped]  # it has no stubs
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import PydanticCustomError

from hookgate.hooks.policies.mistakes import told_mistakes


class Options(BaseModel):
    """Options of a policy. Unknown names are errors: a rule that is misspelt would not be one."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, use_attribute_docstrings=True)


T = TypeVar("T", bound=Options)


def read_options(model: type[T], options: Mapping[str, Any]) -> T:
    """The options, checked. Raises ValueError, which tells all that is wrong, each with its place."""
    try:
        return model.model_validate(dict(options))
    except ValidationError as error:
        raise ValueError("; ".join(told_mistakes(model, error))) from None


def _listed(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _pattern(value: str) -> str:
    compiled(value)
    return value


def compiled(pattern: str) -> Any:
    """A pattern on RE2, whose time is linear in the text, whatever a client sends.

    Raises PydanticCustomError for what RE2 does not take: lookarounds and back-references, for two.
    """
    quiet = re2.Options()
    quiet.log_errors = False
    try:
        return re2.compile(pattern, quiet)
    except re2.error as error:
        raise PydanticCustomError("pattern", "is no RE2 pattern: {why}", {"why": said_of(error)}) from None


def said_of(error: Exception) -> str:
    """What RE2 says is wrong with a pattern; it speaks in bytes."""
    [said] = error.args or ("",)
    return said.decode(errors="replace") if isinstance(said, bytes) else str(said)


def pointer(value: str) -> str:
    """The value, if it is a JSON Pointer to something in a document. Raises PydanticCustomError."""
    if not value.startswith("/"):
        raise PydanticCustomError("pointer", "has to be a JSON Pointer, which begins with /")
    return value


Globs = Annotated[tuple[str, ...], BeforeValidator(_listed)]
"""Names, with the wildcards `*`, `?` and `[…]`; a single one stands for a list of one."""

Pattern = Annotated[str, AfterValidator(_pattern)]
"""A regular expression in RE2's syntax."""

Pointer = Annotated[str, AfterValidator(pointer)]
"""A place below the whole of a JSON value (RFC 6901)."""


def named(globs: Globs, name: str) -> bool:
    """Whether one of them holds for the name."""
    return any(fnmatchcase(name, glob) for glob in globs)
