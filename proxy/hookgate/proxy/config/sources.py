"""The sources of settings: flags, the environment, and hookgate.toml."""

import json
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from pathlib import Path
from typing import Any

from hookgate.hooks.settings.files import decode_text, is_yaml, without_comments
from hookgate.proxy.config.catalogue import (
    NAMED,
    PREFIX,
    SETTINGS,
    Setting,
    meant_settings,
    sections,
    unknown_setting_remedy,
)
from hookgate.proxy.config.values import key_name


class ConfigError(ValueError):
    """Raised for an invalid configuration. The message has a line for each problem: its place and remedy."""

    def __init__(self, problems: list[str], usable: Any = None) -> None:
        """`usable` is the configuration without the invalid settings, to find further problems."""
        self.problems, self.usable = problems, usable
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class GivenValue:
    """The value of a setting and its source. Texts of variables and flags are converted to the setting's
    type."""

    value: Any
    place: str
    is_text: bool = True
    places: Mapping[str, str] = field(default_factory=dict)
    """The places of the tables in a list, and of their keys: by `[0]` and `[0].name`."""

    def place_of(self, position: str) -> str:
        """Return the place of a part of the value, which a text begins with, such as `[0].name`."""
        found = re.match(r"(\[\d+\])(\.\w+)?", position)
        return (
            self.place
            if found is None
            else self.places.get(found[0]) or self.places.get(found[1], self.place)
        )


def anchored(setting: Setting, value: Any, folder: Path = Path()) -> Any:
    """Return the value with its paths made relative to `folder` and `~` expanded."""
    if isinstance(value, str) and value not in ("", "-") and setting.holds_paths:  # `-` is stdout
        return str(folder / os.path.expanduser(value))
    if isinstance(value, list):
        return [anchored(setting, item, folder) for item in value]
    if isinstance(value, dict) and setting.item is not None:
        fields = setting.item.model_fields
        return {
            key: anchored(Setting(setting.name, key, fields[key]), each, folder) if key in fields else each
            for key, each in value.items()
        }
    return value


def read_flags(flags: Mapping[str, Any]) -> dict[str, GivenValue]:
    """Return the settings among a command's parsed flags, which are stored under their dotted names."""
    values = {name: value for name, value in flags.items() if name in SETTINGS and value is not None}
    return {
        name: GivenValue(anchored(SETTINGS[name], value), SETTINGS[name].flag or name)
        for name, value in values.items()
    }


_FROM_FILE = "_FILE"
_OTHER_VARIABLES = ("HOOKGATE_CONFIG", "HOOKGATE_SESSION", "HOOKGATE_URL")
"""Variables that are not settings of the gateway: the configuration file, and what shims read."""
_VARIABLES = {variable: setting for setting in SETTINGS.values() for variable in setting.variables}


def read_environment(environ: Mapping[str, str], problems: list[str]) -> dict[str, GivenValue]:
    """Return the settings in environment variables. Empty variables are ignored: compose files create
    them."""
    given: dict[str, GivenValue] = {}
    for variable in sorted(name for name, text in environ.items() if name.startswith(PREFIX) and text):
        setting = _VARIABLES.get(variable) or _VARIABLES.get(variable.removesuffix(_FROM_FILE))
        if setting is None:
            if "__" in variable:
                problems.append(f"{variable}: {_unknown_variable_remedy(variable.upper())}")
            elif meant := _meant_variable(variable):
                problems.append(f"{variable}: is not known; did you mean {meant}?")
            continue
        if other := given.get(setting.name):
            problems.append(f"{variable}: {setting.name}: is also set by {other.place}; remove one")
            continue
        try:
            value = _value(setting, _text(setting, variable, environ[variable]))
        except ValueError as error:
            problems.append(f"{variable}: {setting.name}: {error}")
        else:
            given[setting.name] = GivenValue(anchored(setting, value), variable)
    return given


_OF_SERVICES = re.compile(r"(\w+_)?(SERVICE_(HOST|PORT\w*)|PORT(_\d+_(TCP|UDP|SCTP)\w*)?)")
"""Matches variables that Kubernetes sets for a service whose name begins with `hookgate`."""
_ENDING = re.compile(r"(_(FILE|PATH)S?|IES)$")


def _meant_variable(variable: str) -> str | None:
    """Return the variable that one without `__` probably misspells; None if it may be another program's."""
    name = variable.removeprefix(PREFIX)
    if variable in _OTHER_VARIABLES or _OF_SERVICES.fullmatch(name):
        return None
    flag = f"--{name.lower().replace('_', '-')}"
    of_flag = [setting.variables[0] for setting in SETTINGS.values() if setting.flag == flag]
    known = {each.removeprefix(PREFIX).replace("__", "_"): each for each in (*_VARIABLES, *_OTHER_VARIABLES)}
    similar = [near for each in (name, _ENDING.sub("", name)) for near in _similar(each, known)]
    return next(iter([*of_flag, *(known[near] for near in similar)]), None)


def _similar(name: str, known: Iterable[str]) -> list[str]:
    return get_close_matches(name, known, n=1, cutoff=0.8)


def _unknown_variable_remedy(variable: str) -> str:
    section, _, key = variable.removeprefix(PREFIX).lower().partition("__")
    if section in NAMED:
        return f"is not known; write [{section}.NAME] in hookgate.toml instead"
    if key and section in sections():
        meant = [SETTINGS[name].variables[0] for name in meant_settings(f"{section}.{key}", SETTINGS)]
        known = [each.variables[0] for each in SETTINGS.values() if each.section == section]
    else:
        known = []
        by_name = {each.removeprefix(PREFIX): each for each in (*_VARIABLES, *_OTHER_VARIABLES)}
        similar = get_close_matches(variable.removeprefix(PREFIX), by_name, n=1)
        meant = [by_name[each] for each in similar]
    if meant:
        return f"is not known; did you mean {meant[0]}?"
    remedy = f"known are {', '.join(known)}" if known else "remove it"
    return f"is not known; {remedy}"


def _text(setting: Setting, variable: str, text: str) -> str:
    """Return the variable's text, or the text of the file that it names. Raises ValueError."""
    if variable in _VARIABLES:
        return text
    try:
        content = Path(text).read_text(encoding="utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise ValueError(f"{text} is not UTF-8; save it as UTF-8") from None
    except OSError as error:
        raise ValueError(f"{text} cannot be read: {error.strerror}; check the path") from None
    if setting.holds_paths and not content.startswith("[") and re.search(r"^\s*\{|\n", content):
        meant = variable.removesuffix(_FROM_FILE)
        raise ValueError(f"{text} does not contain a path; if that file itself is meant, use {meant}={text}")
    return content


def _value(setting: Setting, text: str) -> Any:
    if setting.separator is None:
        return text
    if not text.startswith("["):
        return [part.strip() for part in text.split(setting.separator) if part.strip()]
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"is not a JSON list: {error}") from None


NamePath = tuple[str, ...]


def find_file(named: str | None, environ: Mapping[str, str]) -> Path | None:
    """Return the file named by a flag or HOOKGATE_CONFIG, else the user's or the system's, or None.

    The current folder is not searched: a checkout must not configure the gateway of a user who enters it.
    """
    if path_text := named or environ.get("HOOKGATE_CONFIG"):
        return Path(os.path.expanduser(path_text))
    homes = [Path(environ.get("XDG_CONFIG_HOME", "")), Path(os.path.expanduser("~/.config"))]
    home = next((folder for folder in homes if folder.is_absolute()), Path("/etc"))
    candidates = [home / "hookgate" / "hookgate.toml", Path("/etc/hookgate/hookgate.toml")]
    # Path.exists would raise PermissionError for a folder that is not accessible.
    return next((path for path in candidates if os.path.exists(path)), None)


def read_toml(path: Path) -> str:
    """Return the text of a TOML file. Raises OSError, and ValueError if it is not UTF-8."""
    return decode_text(path.read_bytes()).replace("\r\n", "\n")


def read_file(path: Path, problems: list[str]) -> dict[str, GivenValue]:
    """Return the settings in a file."""
    try:
        text = read_toml(path)
    except IsADirectoryError:
        problems.append(f"{path}: is a folder; name a file in it, such as {path / 'hookgate.toml'}")
        return {}
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}; check the path")
        return {}
    except ValueError as error:
        problems.append(f"{path}: {error}")
        return {}
    try:
        document = tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # invalid TOML, very long numbers, deep nesting
        problems.append(describe_toml_error(path, text, error, _IF_JSON, _IF_YAML))
        return {}
    if document.keys() >= PRICE_KEYS:
        problems.append(f"{path}: is a price table; name it in prices.file of the configuration")
        return {}
    return _settings(path, document, lines_of(text), problems)


_IF_JSON = "pass hook settings with --hooks or --policy"
_IF_YAML = (
    'write the configuration as TOML, such as [listen] and, below it, address = "127.0.0.1:8787"; write hook '
    "settings as JSON, and pass them with --hooks or --policy"
)

PRICE_KEYS = frozenset({"currency", "models"})
"""The keys that a price table has at the top level; it may also have a date and a source."""


def lines_of(text: str) -> dict[NamePath, int]:
    """Return the line of every table and every key of valid TOML, which tomllib does not report.

    In a list of tables, the name `[0]` stands for the first one. Without it, a name is that of the first
    table which has it. Lines are joined until tomllib accepts them as a statement.
    """
    numbers: dict[NamePath, int] = {}
    counts: dict[NamePath, int] = {}
    table: NamePath = ()
    item: NamePath = ()  # the table with its number, if it is in a list
    first, lines = 0, text.split("\n")
    for end in range(1, len(lines) + 1):
        statement = "\n".join(lines[first:end])
        try:
            names = list(_names(tomllib.loads(statement)))
        except tomllib.TOMLDecodeError:
            continue
        is_header = statement.lstrip().startswith("[")
        if is_header:
            table = item = ()
        for name in names:
            numbers.setdefault((*table, *name), first + 1)
            if item:
                numbers.setdefault((*item, *name), first + 1)
        if is_header:
            table = names[-1]
        if statement.lstrip().startswith("[["):
            counts[table] = counts.get(table, 0) + 1
            item = (*table, f"[{counts[table] - 1}]")
            numbers[item] = first + 1
        first = end
    return numbers


def _names(document: Any, before: NamePath = ()) -> Iterator[NamePath]:
    if isinstance(document, list) and document and before:
        document = document[-1]
    if isinstance(document, dict):
        for key, value in document.items():
            yield (*before, key)
            yield from _names(value, (*before, key))


def _settings(
    path: Path, document: dict[str, Any], lines: Mapping[NamePath, int], problems: list[str]
) -> dict[str, GivenValue]:
    given: dict[str, GivenValue] = {}
    tables = sections() | NAMED
    for section, table in document.items():
        place = f"{path}:{lines[(section,)]}"
        if section not in tables:
            known = SETTINGS if not isinstance(table, dict) else tables
            problems.append(f"{place}: {section}: {unknown_setting_remedy(section, known)}")
        elif not isinstance(table, dict):
            problems.append(f"{place}: {section}: must be a table; write [{section}] and its keys below")
        elif section in NAMED:
            for name, named in table.items():
                read_named = _named(path, (section, name), named, lines, problems)
                given |= {f"{section}.{name}": read_named} if read_named else {}
        else:
            for key, value in table.items():
                name, place = f"{section}.{key}", f"{path}:{lines[section, key]}"
                if name not in SETTINGS:
                    problems.append(f"{place}: {name}: {unknown_setting_remedy(name, SETTINGS)}")
                else:
                    given[name] = GivenValue(
                        anchored(SETTINGS[name], value, path.parent),
                        place,
                        is_text=False,
                        places=_places_in(path, (section, key), lines),
                    )
    return given


def _places_in(path: Path, at: NamePath, lines: Mapping[NamePath, int]) -> dict[str, str]:
    """Return the places of the tables in a list of tables, and of their keys, by `[0]` and `[0].name`."""
    inside = {name[len(at) :]: line for name, line in lines.items() if name[: len(at)] == at}
    return {".".join(name): f"{path}:{line}" for name, line in inside.items() if name and name[0][0] == "["}


def _named(
    path: Path, at: tuple[str, str], table: Any, lines: Mapping[NamePath, int], problems: list[str]
) -> GivenValue | None:
    """Return a table that the operator named as one value, or None if it is invalid."""
    section, name = at
    place, fields = f"{path}:{lines[at]}", NAMED[section].model_fields
    try:
        key_name(name)
    except ValueError as error:
        problems.append(f"{place}: {section}: {error}")  # without the invalid name: it may be an API key
        return None
    if not isinstance(table, dict):
        problem = f"must be a table; write [{section}.{name}] and its keys below"
        problems.append(f"{place}: {section}.{name}: {problem}")
        return None
    unknown = [key for key in table if key not in fields]
    for key in unknown:
        full, known = f"{section}.{name}.{key}", [f"{section}.{name}.{each}" for each in fields]
        problems.append(f"{path}:{lines[*at, key]}: {full}: {unknown_setting_remedy(full, known)}")
    if unknown:
        return None
    value = {
        key: anchored(Setting(section, key, fields[key]), each, path.parent) for key, each in table.items()
    }
    return GivenValue(value, place, is_text=False)


def describe_toml_error(path: Path, text: str, error: Exception, if_json: str, if_yaml: str) -> str:
    """Describe the error of a file that is not valid TOML, with the remedies if it is JSON or YAML."""
    if without_comments(text).lstrip().startswith("{"):
        return f"{path}: is JSON, not TOML; {if_json}"
    if is_yaml(path, text):
        return f"{path}: is YAML, not TOML; {if_yaml}"
    message = str(error)
    match = re.search(r"line (\d+), column (\d+)", message)
    place = f":{match[1]}:{match[2]}" if match else ""
    description = re.sub(r" \(at line .*\)$", "", message)
    return f"{path}{place}: is not valid TOML: {description}"
