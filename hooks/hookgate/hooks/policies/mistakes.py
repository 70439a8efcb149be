"""What is wrong with the options of a policy, in words for who wrote them, each with its place. Pure."""

from collections.abc import Iterable, Mapping
from difflib import get_close_matches
from typing import Any, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails


def told_mistakes(model: type[BaseModel], error: ValidationError) -> list[str]:
    """What pydantic found wrong with the values of a model."""
    found = error.errors(include_url=False, include_input=False)
    return [_told(model, each) for each in found if not _follows(each, found)]


def meant(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant, whatever its case."""
    by_case = {each.lower(): each for each in known}
    return next((by_case[each] for each in get_close_matches(name.lower(), by_case, n=1)), None)


def _follows(mistake: ErrorDetails, all_of_them: Iterable[ErrorDetails]) -> bool:
    """Whether it is there because of another one alone.

    A list has too few items once a wrong one is left out, and what is misspelt is missing.
    """
    place = mistake["loc"]
    if mistake["type"] == "too_short":
        within = (each["loc"] for each in all_of_them if len(each["loc"]) > len(place))
        return any(loc[: len(place)] == place for loc in within)
    unknown = (each["loc"] for each in all_of_them if each["type"] == "extra_forbidden")
    beside = (str(loc[-1]) for loc in unknown if loc[:-1] == place[:-1])
    return mistake["type"] == "missing" and any(meant(name, [str(place[-1])]) for name in beside)


def _told(model: type[BaseModel], mistake: ErrorDetails) -> str:
    place = ".".join(map(str, mistake["loc"]))
    if mistake["type"] == "extra_forbidden":
        remedy = _unknown(str(mistake["loc"][-1]), _fields(model, mistake["loc"][:-1]))
    else:
        known = _REMEDIES.get(mistake["type"])  # other words are ours, and may hold braces of the option's
        remedy = known.format(**mistake.get("ctx", {})) if known else mistake["msg"]
    return f"{place}: {remedy}" if place else remedy


def _unknown(name: str, known: Iterable[str]) -> str:
    listed = sorted(known)
    near = meant(name, listed)
    return f"is not known here; {f'did you mean {near}?' if near else 'known are ' + ', '.join(listed)}"


def _fields(model: type[BaseModel], place: Iterable[str | int]) -> Iterable[str]:
    """The names that are known at a place within the model."""
    kind: Any = model
    for step in place:
        table = _model_in(kind)
        if table is not None:
            kind = table.model_fields[str(step)].annotation
        else:  # a position or a key: what a list or mapping holds comes last, but for the `...` of tuples
            kind = next(each for each in reversed(get_args(_without_none(kind))) if each is not ...)
    table = _model_in(kind)
    return table.model_fields if table else ()


def _model_in(kind: Any) -> type[BaseModel] | None:
    kind = _without_none(kind)
    return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None


def _without_none(kind: Any) -> Any:
    arguments = get_args(kind)
    rest = [each for each in arguments if each is not type(None)]
    return rest[0] if len(rest) == 1 and len(arguments) > 1 else kind


_OBJECT, _LIST, _NUMBER = "has to be an object", "has to be a list", "has to be a number, without quotes"
_WHOLE = "has to be a whole number, without quotes"

_REMEDIES: Mapping[str, str] = {
    "missing": "is missing",
    "value_error": "{error}",
    "model_type": _OBJECT,
    "model_attributes_type": _OBJECT,
    "dict_type": _OBJECT,
    "mapping_type": _OBJECT,
    "list_type": _LIST,
    "tuple_type": _LIST,
    "bool_type": "has to be true or false",
    "string_type": "has to be a text",
    "string_too_short": "is empty",
    "too_short": "is empty",
    "float_type": _NUMBER,
    "int_type": _WHOLE,
    "int_from_float": _WHOLE,
    "finite_number": "has to be a finite number",
    "greater_than": "has to be greater than {gt:g}",
    "greater_than_equal": "has to be at least {ge}",
    "less_than_equal": "has to be at most {le}",
    "literal_error": "has to be {expected}",
}
"""What to say of each thing that can be wrong with an option; pydantic's own words are for programmers."""
