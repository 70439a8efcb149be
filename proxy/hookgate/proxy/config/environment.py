"""Settings from the environment: HOOKGATE_SECTION__KEY, the short spellings, and files that hold a value."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from hookgate.proxy.config.catalogue import NAMED, PREFIX, SETTINGS, Setting, nearest
from hookgate.proxy.config.given import Given, anchored

_FROM_FILE = "_FILE"
_VARIABLES = {variable: setting for setting in SETTINGS.values() for variable in setting.variables}


def read_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, Given]:
    """Every setting that a variable gives. An empty variable gives none: compose files leave such behind."""
    given: dict[str, Given] = {}
    for variable in sorted(name for name, text in environ.items() if name.startswith(PREFIX) and text):
        setting = _VARIABLES.get(variable) or _VARIABLES.get(variable.removesuffix(_FROM_FILE))
        if setting is None:
            # Without the double underscore it may be anyone's: Kubernetes makes HOOKGATE_PORT of a service.
            if "__" in variable:
                problems.append(f"{variable}: {_remedy(variable.upper())}")
            continue
        if other := given.get(setting.name):
            problems.append(f"{variable}: {setting.name}: is given by {other.place} as well; remove one")
            continue
        try:
            value = _value(setting, _text(variable, environ[variable]))
        except ValueError as error:
            problems.append(f"{variable}: {setting.name}: {error}")
        else:
            given[setting.name] = Given(anchored(setting, value), variable)
    return given


def _remedy(variable: str) -> str:
    section = variable.removeprefix(PREFIX).partition("__")[0].lower()
    if section in NAMED:
        return f"is not known; write [{section}.NAME] in hookgate.toml instead"
    return nearest(variable, _VARIABLES)


def _text(variable: str, text: str) -> str:
    """The variable's text, or that of the file which it names. Raises ValueError."""
    if variable in _VARIABLES:
        return text
    try:
        return Path(text).read_text(encoding="utf-8").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"{text} is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise ValueError(f"{text} cannot be read: {error.strerror}; check the path") from None


def _value(setting: Setting, text: str) -> Any:
    if setting.separator is None:
        return text
    if not text.startswith("["):
        return [part.strip() for part in text.split(setting.separator) if part.strip()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not a JSON list: {error}") from None
