"""What one source says of a setting: the value as it stands there, and the place to name when it is wrong."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hookgate.proxy.config.catalogue import SETTINGS, Setting


class ConfigError(ValueError):
    """A configuration that cannot be used: every problem with its place and remedy, one a line."""

    def __init__(self, problems: list[str]) -> None:
        self.problems = problems
        super().__init__("\n".join(problems))


@dataclass(frozen=True, slots=True)
class Given:
    """A value that was given. Text, as variables and flags hold it, is taken for what the setting is."""

    value: Any
    place: str
    is_text: bool = True


def anchored(setting: Setting, value: Any, folder: Path = Path()) -> Any:
    """The value, its paths taken relative to `folder`, and `~` as the home."""
    if isinstance(value, str) and value not in ("", "-") and setting.holds_paths:  # `-` is stdout
        return str(folder / os.path.expanduser(value))
    if isinstance(value, list):
        return [anchored(setting, each, folder) for each in value]
    return value


def read_flags(flags: Mapping[str, Any]) -> dict[str, Given]:
    """The settings among a command's parsed flags: they are stored under their dotted names."""
    given = {name: value for name, value in flags.items() if name in SETTINGS and value is not None}
    return {
        name: Given(anchored(SETTINGS[name], value), SETTINGS[name].flag or name)
        for name, value in given.items()
    }
