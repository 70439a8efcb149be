"""The options of policies: validation, with error messages that name the option."""

import re
from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any, TypeVar, get_args, get_origin

from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, ValidationError
from pydantic_core import ErrorDetails, PydanticCustomError

from hookgate.hooks.errors import describe_mistake


def describe_mistakes(model: type[BaseModel], error: ValidationError) -> list[str]:
    """Return a message for each mistake that Pydantic found in the values of a model."""
    mistakes = error.errors(include_url=False, include_input=False)
    return [_message(model, mistake) for mistake in mistakes if not _is_consequence(mistake, mistakes)]


def closest_option(name: str, known: Iterable[str]) -> str | None:
    """Return the known name that is closest to `name`, ignoring case. Returns None if none is close."""
    by_lower_case = {option.lower(): option for option in known}
    matches = get_close_matches(name.lower(), by_lower_case, n=1)
    return by_lower_case[matches[0]] if matches else None


def _is_consequence(mistake: ErrorDetails, mistakes: Iterable[ErrorDetails]) -> bool:
    """Return whether a mistake is only the consequence of another one.

    A list has too few items after an invalid one is dropped, and a misspelt option is also missing.
    """
    place = mistake["loc"]
    if mistake["type"] == "too_short":
        inner = (other["loc"] for other in mistakes if len(other["loc"]) > len(place))
        return any(loc[: len(place)] == place for loc in inner)
    unknown = (other["loc"] for other in mistakes if other["type"] == "extra_forbidden")
    siblings = (str(loc[-1]) for loc in unknown if loc[:-1] == place[:-1])
    return mistake["type"] == "missing" and any(closest_option(name, [str(place[-1])]) for name in siblings)


def _message(model: type[BaseModel], mistake: ErrorDetails) -> str:
    place = ".".join(str(step) for step in mistake["loc"] if step != "[key]")  # pydantic's mark of a key
    if mistake["type"] == "extra_forbidden":
        remedy = _unknown_option(str(mistake["loc"][-1]), _fields(model, mistake["loc"][:-1]))
    else:
        remedy = describe_mistake(mistake)
    return f"{place}: {remedy}" if place else remedy


def _unknown_option(name: str, known: Iterable[str]) -> str:
    names = sorted(known)
    suggestion = closest_option(name, names)
    hint = f"did you mean {suggestion}?" if suggestion else f"known are {', '.join(names)}"
    return f"is not known here; {hint}"


def _fields(model: type[BaseModel], place: Iterable[str | int]) -> Iterable[str]:
    """Return the option names that are known at a place within the model."""
    kind: Any = model
    for step in place:
        table = _model_in(kind)
        if table is not None:
            kind = table.model_fields[str(step)].annotation
        else:  # an index or a key: the type of items is the last argument, except for the `...` of tuples
            kind = next(arg for arg in reversed(get_args(_bare(kind))) if arg is not ...)
    table = _model_in(kind)
    return table.model_fields if table else ()


def _model_in(kind: Any) -> type[BaseModel] | None:
    kind = _bare(kind)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _bare(kind: Any) -> Any:
    """Return a type without its annotations, and without None."""
    if get_origin(kind) is Annotated:
        return _bare(get_args(kind)[0])
    arguments = get_args(kind)
    rest = [arg for arg in arguments if arg is not type(None)]
    return rest[0] if len(rest) == 1 and len(arguments) > 1 else kind


class Options(BaseModel):
    """The base class of a policy's options. Unknown names are errors, so that misspelt rules are noticed."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, defer_build=True)


T = TypeVar("T", bound=Options)


def read_options(model: type[T], options: Mapping[str, Any], root: Path | None = None) -> T:
    """Validate options. Raises ValueError, whose message lists all mistakes with their places.

    `root` is the folder to which relative paths in the options refer.
    """
    try:
        return model.model_validate(dict(options), context=root)
    except ValidationError as error:
        raise ValueError("; ".join(describe_mistakes(model, error))) from None


def _as_tuple(value: Any) -> Any:
    return (value,) if isinstance(value, str) else tuple(value) if isinstance(value, list) else value


def _small(value: Any) -> Any:
    globs = _as_tuple(value)
    if not isinstance(globs, tuple):
        return value
    return tuple(each.casefold() if isinstance(each, str) else each for each in globs)


def _in_any_case(value: Any) -> Any:
    return f"(?i){value}" if isinstance(value, str) else value


def _checked_pattern(value: str) -> str:
    compile_pattern(value)
    return value


_MAX_COMPILED = 1 << 18
"""The maximum size of a compiled pattern in bytes: some 8,000 characters, with repeats written out.

RE2 compiles a pattern in a time that may grow with the square of its size, and holds the interpreter's lock
meanwhile. One of this size takes up to a tenth of a second.
"""


@lru_cache(maxsize=1024)
def compile_pattern(pattern: str) -> Any:
    """Compile a pattern with RE2, whose time is linear in the length of the text.

    Raises PydanticCustomError, a ValueError, for what RE2 does not support, such as lookarounds and
    back-references, and for patterns that are too large.
    """
    import re2  # type: ignore[import-untyped]  # noqa: PLC0415  # no stubs; few policies have patterns

    options = re2.Options()
    options.log_errors = False
    memory, options.max_mem = options.max_mem, _MAX_COMPILED
    try:
        re2.compile(pattern, options)
        options.max_mem = memory  # a search may use more
        return re2.compile(pattern, options)
    except re2.error as error:
        raise PydanticCustomError(
            "pattern",
            "is not a valid RE2 pattern: {reason}",
            {"reason": _describe_error(pattern, error)},
        ) from None


def describe_value(error: Exception) -> str:
    """Return the message of an RE2 error, which is bytes."""
    [message] = error.args or ("",)
    return message.decode(errors="replace") if isinstance(message, bytes) else str(message)


def _describe_error(pattern: str, error: Exception) -> str:
    """Return the message of an RE2 error, with a remedy for what other syntaxes support."""
    message = describe_value(error)
    if re.search(r"\(\?<?[=!]", pattern):
        remedy = "match the text around it too, and put the text to find in a group"
        return f"{message}; RE2 has no lookarounds: {remedy}"
    if re.search(r"\\[1-9]", pattern):
        return f"{message}; RE2 has no back-references: repeat the part of the pattern"
    if "too large" in message:
        return f"{message}; with its repeats written out, it may have about 8,000 characters"
    return message


def pointer(value: str) -> str:
    """Return the value if it is a non-empty JSON Pointer. Raises PydanticCustomError if it is not."""
    if not value.startswith("/"):
        raise PydanticCustomError("pointer", "must be a JSON Pointer, which begins with /")
    return value


Globs = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
"""Names with the wildcards `*`, `?` and `[…]`. A single string is read as a list of one."""

Names = Annotated[Globs, BeforeValidator(_small)]
"""Globs without regard to case: some agents run a tool although a model has spelled its name in another case.
"""

Pattern = Annotated[str, AfterValidator(_checked_pattern)]
"""A regular expression in RE2's syntax."""

AnyCasePattern = Annotated[str, BeforeValidator(_in_any_case), AfterValidator(_checked_pattern)]
"""A regular expression in RE2's syntax that matches without regard to case."""

Pointer = Annotated[str, AfterValidator(pointer)]
"""A JSON Pointer (RFC 6901) other than the empty one."""


def matches_name(globs: Globs, name: str) -> bool:
    """Return whether one of the globs matches the name."""
    return any(fnmatchcase(name, glob) for glob in globs)


_LONGEST_CACHED = 64
"""The characters of a name whose match is remembered: clients may send thousands of names of megabytes."""


def is_named(names: Names, name: str) -> bool:
    """Return whether one of the globs matches the name of a tool or of a field, in any case."""
    matches = _matches if len(name) <= _LONGEST_CACHED else _matches.__wrapped__
    return matches(names, name)


@lru_cache(10_000)
def _matches(names: Names, name: str) -> bool:
    return matches_name(names, name.casefold())
