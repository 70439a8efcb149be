"""The configuration in force: flags before environment before file before defaults."""

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from pydantic import TypeAdapter, ValidationError

from hookgate.proxy.config.catalogue import SETTINGS, Setting, named_table
from hookgate.proxy.config.environment import read_environment
from hookgate.proxy.config.given import ConfigError, Given, read_flags
from hookgate.proxy.config.models import Config
from hookgate.proxy.config.toml import find_file, read_file


@dataclass(frozen=True, slots=True)
class Effective:
    """The configuration in force, and where each setting that is not its default was given."""

    config: Config
    places: Mapping[str, str]
    file: Path | None


def read_config(flags: Mapping[str, Any], environ: Mapping[str, str] = os.environ) -> Effective:
    """Read every source. `flags` are a command's, parsed. Raises ConfigError with all that is wrong."""
    problems: list[str] = []
    file = find_file(flags.get("config"), environ)
    given = read_file(file, problems) if file else {}
    given |= read_environment(environ, problems)
    given |= read_flags(flags)
    values: dict[str, dict[str, Any]] = {}
    for name, each in given.items():
        setting = SETTINGS.get(name) or named_table(*name.split(".", 1))
        try:
            values.setdefault(setting.section, {})[setting.key] = _validated(setting, each)
        except ValidationError as error:
            problems += [f"{each.place}: {name}{wrong}" for wrong in told_errors(error)]
    if problems:
        raise ConfigError(problems)
    try:
        config = Config.model_validate(values)
    except ValidationError as error:  # settings that are each right, and wrong together
        raise ConfigError([told.partition(": ")[2] for told in told_errors(error)]) from None
    return Effective(config, {name: each.place for name, each in given.items()}, file)


def _validated(setting: Setting, given: Given) -> Any:
    kind: Any = Annotated[setting.field.annotation, setting.field]
    adapter = TypeAdapter(kind)
    if given.is_text:
        return adapter.validate_python(given.value)
    # A file has types of its own: "10" is no number there, and true is none either.
    return adapter.validate_json(json.dumps(given.value, default=str), strict=True)


def told_errors(error: ValidationError) -> list[str]:
    """What is wrong, in words, after the position in a list or a table that it is wrong at."""
    told = []
    for each in error.errors(include_url=False, include_input=False):
        context = each.get("ctx", {})
        at = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in each["loc"])
        told.append(at + ": " + _REMEDIES.get(each["type"], each["msg"]).format(**context))
    return told


_NUMBER, _WHOLE, _SWITCH = "has to be a number", "has to be a whole number", "has to be true or false"
_BARE = ", without quotes"

_REMEDIES = {
    "missing": "is missing",
    "extra_forbidden": "is not known; remove it",
    "value_error": "{error}",
    "string_type": "has to be a text in quotes",
    "path_type": "has to be a path in quotes",
    "tuple_type": "has to be a list in brackets",
    "bool_type": _SWITCH + _BARE,
    "bool_parsing": _SWITCH,
    "float_type": _NUMBER + _BARE,
    "float_parsing": _NUMBER,
    "finite_number": "has to be a finite number",
    "int_type": _WHOLE + _BARE,
    "int_parsing": _WHOLE,
    "int_from_float": _WHOLE,
    "greater_than": "has to be greater than {gt:g}",
    "greater_than_equal": "has to be at least {ge:g}",
    "less_than_equal": "has to be at most {le}",
    "literal_error": "has to be {expected}",
}
"""What to say of each thing that can be wrong with a value; pydantic's own words are for programmers."""
