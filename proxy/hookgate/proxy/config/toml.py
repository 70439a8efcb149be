"""Settings from hookgate.toml: which file it is, what it says, and on which line."""

import os
import re
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from hookgate.proxy.config.catalogue import NAMED, SETTINGS, Setting, nearest, sections
from hookgate.proxy.config.given import Given, anchored
from hookgate.proxy.config.values import key_name

Name = tuple[str, ...]


def find_file(named: str | None, environ: Mapping[str, str]) -> Path | None:
    """The file that a flag or HOOKGATE_CONFIG names, else the user's, else the machine's, if there is one.

    The current folder is not looked at: a checkout must not configure the gateway of who enters it.
    """
    if said := named or environ.get("HOOKGATE_CONFIG"):
        return Path(os.path.expanduser(said))
    homes = [Path(environ.get("XDG_CONFIG_HOME", "")), Path(os.path.expanduser("~/.config"))]
    home = next((folder for folder in homes if folder.is_absolute()), Path("/etc"))
    candidates = [home / "hookgate" / "hookgate.toml", Path("/etc/hookgate/hookgate.toml")]
    # os.path: a folder that may not be entered holds nothing for us, which Path.exists would raise about.
    return next((path for path in candidates if os.path.exists(path)), None)


def read_file(path: Path, problems: list[str]) -> dict[str, Given]:
    """Every setting that the file gives."""
    try:
        text = path.read_text(encoding="utf-8-sig")  # Windows editors write a byte order mark
        document = tomllib.loads(text)
    except OSError as error:
        problems.append(f"{path}: cannot be read: {error.strerror}; check the path")
    except UnicodeDecodeError:
        problems.append(f"{path}: is not UTF-8; save it as UTF-8")
    except (ValueError, RecursionError) as error:  # tomllib's own, numbers of thousands of digits, nesting
        problems.append(_not_toml(path, str(error)))
    else:
        return _settings(path, document, lines_of(text), problems)
    return {}


def lines_of(text: str) -> dict[Name, int]:
    """The line of every table and every key of valid TOML, which tomllib does not tell.

    Statement by statement: lines are put together until tomllib takes them.
    """
    found: dict[Name, int] = {}
    table: Name = ()
    first, lines = 0, text.split("\n")
    for end in range(1, len(lines) + 1):
        statement = "\n".join(lines[first:end])
        try:
            names = list(_names(tomllib.loads(statement)))
        except tomllib.TOMLDecodeError:
            continue
        if statement.lstrip().startswith("["):
            table = ()
        for name in names:
            found.setdefault((*table, *name), first + 1)
        if statement.lstrip().startswith("["):
            table = names[-1]
        first = end
    return found


def _names(document: Any, before: Name = ()) -> Iterator[Name]:
    if isinstance(document, list) and document and before:
        document = document[-1]
    if isinstance(document, dict):
        for key, value in document.items():
            yield (*before, key)
            yield from _names(value, (*before, key))


def _settings(
    path: Path, document: dict[str, Any], lines: Mapping[Name, int], problems: list[str]
) -> dict[str, Given]:
    given: dict[str, Given] = {}
    tables = sections() | NAMED
    for section, table in document.items():
        place = f"{path}:{lines[(section,)]}"
        if section not in tables:
            known = SETTINGS if not isinstance(table, dict) else tables
            problems.append(f"{place}: {section}: {nearest(section, known)}")
        elif not isinstance(table, dict):
            problems.append(f"{place}: {section}: has to be a table; write [{section}] and its keys below")
        elif section in NAMED:
            for name, named in table.items():
                read_named = _named(path, (section, name), named, lines, problems)
                given |= {f"{section}.{name}": read_named} if read_named else {}
        else:
            for key, value in table.items():
                name, place = f"{section}.{key}", f"{path}:{lines[section, key]}"
                if name not in SETTINGS:
                    problems.append(f"{place}: {name}: {nearest(name, SETTINGS)}")
                else:
                    given[name] = Given(anchored(SETTINGS[name], value, path.parent), place, is_text=False)
    return given


def _named(
    path: Path, at: tuple[str, str], table: Any, lines: Mapping[Name, int], problems: list[str]
) -> Given | None:
    """A table that the operator named, as one; None when it is wrong on its face."""
    section, name = at
    place, fields = f"{path}:{lines[at]}", NAMED[section].model_fields
    try:
        key_name(name)
    except ValueError as error:
        problems.append(f"{place}: {section}: {error}")  # what is no name is not told: it may be a key
        return None
    if not isinstance(table, dict):
        wrong = f"has to be a table; write [{section}.{name}] and its keys below"
        problems.append(f"{place}: {section}.{name}: {wrong}")
        return None
    unknown = [key for key in table if key not in fields]
    for key in unknown:
        full, known = f"{section}.{name}.{key}", [f"{section}.{name}.{each}" for each in fields]
        problems.append(f"{path}:{lines[*at, key]}: {full}: {nearest(full, known)}")
    if unknown:
        return None
    value = {
        key: anchored(Setting(section, key, fields[key]), each, path.parent) for key, each in table.items()
    }
    return Given(value, place, is_text=False)


def _not_toml(path: Path, message: str) -> str:
    at = re.search(r"line (\d+), column (\d+)", message)
    place = f":{at[1]}:{at[2]}" if at else ""
    told = re.sub(r" \(at line .*\)$", "", message)
    return f"{path}{place}: is not valid TOML: {told}"
