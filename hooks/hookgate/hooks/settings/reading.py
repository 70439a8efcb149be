"""One settings file: its text, its value, and everything that is wrong with it."""

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from stat import S_ISREG
from typing import Any

from pydantic import ValidationError

from hookgate.hooks.errors import Problem, SettingsError
from hookgate.hooks.settings import jsonc
from hookgate.translator import BodyError


@dataclass
class SettingsFile:
    """A file that was read. What is wrong with it is collected, so that all of it is told at once."""

    path: Path
    text: str
    settings: Mapping[str, Any]
    problems: list[Problem] = field(default_factory=list)
    warnings: list[Problem] = field(default_factory=list)
    """What is not as it seems, and keeps nothing from running."""
    strict: bool = False
    """Whether keys that do nothing are problems: a policy has to mean what it says."""

    def wrong(self, place: jsonc.Path, message: str) -> None:
        """Note a problem with what stands at `place`; `message` follows the place's name."""
        line = jsonc.line_of(self.text, place)
        self.problems.append(Problem(self.path, f"{_named(place)}{message}", line))

    def warn(self, place: jsonc.Path, message: str) -> None:
        """Note something suspicious at `place`: a problem of a strict file, else a warning."""
        problem = Problem(self.path, message, jsonc.line_of(self.text, place))
        (self.problems if self.strict else self.warnings).append(problem)

    def check_keys(
        self, place: jsonc.Path, value: Mapping[str, Any], known: Iterable[str], where: str
    ) -> None:
        """Note the keys of the object at `place` that are not known; `where` says whose they are."""
        names = sorted(known)
        for key in value:
            if key not in names:
                near = nearest(key, names)
                remedy = f"did you mean {near}?" if near else f"known are {', '.join(names)}"
                self.warn([*place, key], f"{where}: {key!r} is not known here and does nothing; {remedy}")

    def wrong_model(self, place: jsonc.Path, error: ValidationError, skip: int | None = None) -> None:
        """Note every problem that pydantic found with what stands at `place`.

        `skip` is the position of a key that pydantic put into its own paths.
        """
        for each in error.errors(include_url=False):
            keys = [key for at, key in enumerate(each["loc"]) if at != skip]
            remedy = _REMEDIES.get(each["type"], f": {each['msg']}").format(**each.get("ctx", {}))
            self.wrong([*place, *keys], remedy)

    def section(self, name: str) -> Mapping[str, Any]:
        """An object of the file, or an empty one."""
        section = self.settings.get(name)
        return section if isinstance(section, dict) else {}


_LARGEST = 16 * 1024 * 1024  # bytes of a settings file; one of thousands of hooks has a tenth of it


def read_settings(path: Path, *, strict: bool = False, any_kind: bool = True) -> SettingsFile:
    """Read one file, which may be `strict` about unknown keys.

    Raises SettingsError, and FileNotFoundError for a file that is not there. Unless it may be of `any_kind`,
    as one that an operator has named, it has to be a regular file: reading a pipe or a device that a project
    has in its place may never end.
    """
    try:
        text = _bytes_of(path, any_kind).decode("utf-8-sig")  # Windows editors write a byte order mark
    except FileNotFoundError:
        raise
    except OSError as error:
        raise SettingsError([Problem(path, f"cannot be read: {error.strerror}; check the path")]) from None
    except UnicodeDecodeError:
        raise SettingsError([Problem(path, "is not UTF-8; save it as UTF-8")]) from None
    try:
        settings = jsonc.loads(text)
    except json.JSONDecodeError as error:
        problem = Problem(path, f"is not valid JSON: {error.msg}", error.lineno, error.colno)
        raise SettingsError([problem]) from None
    except BodyError as error:
        raise SettingsError([Problem(path, error.message)]) from None
    except (ValueError, RecursionError) as error:  # a number of thousands of digits, thousands of brackets
        raise SettingsError([Problem(path, f"cannot be read as JSON: {error}")]) from None
    if not isinstance(settings, dict):
        raise SettingsError([Problem(path, 'has to hold an object such as {"hooks": {…}}')])
    return SettingsFile(path, text, settings, strict=strict)


def nearest(key: str, known: Iterable[str]) -> str | None:
    """Return the known name that `key` is most likely a slip of; None if it resembles none."""
    by_letters = {_letters(name): name for name in known}
    found = difflib.get_close_matches(_letters(key), by_letters, n=1, cutoff=0.75)
    return by_letters[found[0]] if found else None


def _letters(name: str) -> str:
    return re.sub(r"[^a-z0-9]", "", name.lower())


def _bytes_of(path: Path, any_kind: bool) -> bytes:
    with open(path, "rb", opener=None if any_kind else open_at_once) as file:
        if not any_kind and not S_ISREG(os.fstat(file.fileno()).st_mode):
            raise SettingsError([Problem(path, "is no regular file; remove it, or put a file in its place")])
        data = file.read(_LARGEST + 1)
    if len(data) > _LARGEST:
        raise SettingsError([Problem(path, f"is larger than {_LARGEST} bytes; split it")])
    return data


def open_at_once(path: str, flags: int) -> int:
    """Open a file, as an opener of `open`, without waiting for the writer of a pipe."""
    return os.open(path, flags | os.O_NONBLOCK)


def _named(place: jsonc.Path) -> str:
    """`["hooks", "BeforeTool", 0, "matcher"]` -> `hooks.BeforeTool[0].matcher`."""
    keys = [f"[{step}]" if isinstance(step, int) else f".{step}" for step in place]
    return "".join(keys).removeprefix(".")


_KINDS = "'command', 'runtime', 'http' or 'builtin'"

_REMEDIES = {
    "missing": ": is missing",
    "union_tag_not_found": f".type: is missing; use {_KINDS}",
    "union_tag_invalid": f".type: there is no hook type {{tag!r}}; use {_KINDS}",
    "model_type": ": has to be an object",
    "model_attributes_type": ": has to be an object",
    "dict_type": ": has to be an object",
    "list_type": ": has to be a list",
    "bool_type": ": has to be true or false",
    "string_type": ": has to be a string",
    "string_too_short": ": is empty",
    "too_short": ": is empty",
    "float_type": ": has to be a number of milliseconds, without quotes",
    "int_type": ": has to be a whole number, without quotes",
    "greater_than": ": has to be greater than {gt:g}",
    "greater_than_equal": ": has to be at least {ge}",
    "less_than_equal": ": has to be at most {le}",
    "literal_error": ": has to be {expected}",
    "extra_forbidden": ": is not known here; remove it",
}
"""What to say of each thing that can be wrong with a hook; pydantic's own words are for programmers."""
