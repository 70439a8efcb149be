"""Every setting by its dotted name: its field, its environment variables, its flag."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hookgate.proxy.config.models import Config, NamedKey

PREFIX = "HOOKGATE_"

NAMED: dict[str, type[BaseModel]] = {"keys": NamedKey}
"""The class of tables whose names an operator makes up, such as `[keys.alice]`: the file alone has them."""

_FLAGS = {
    "listen.address": "--listen",
    "upstream.gemini": "--upstream",
    "hooks.policy": "--policy",
    "hooks.files": "--hooks",
    "hooks.project": "--project",
    "hooks.state": "--state",
    "hooks.trust_project": "--trust-project",
}

_SHORT_VARIABLES = {
    "listen.address": "HOOKGATE_LISTEN",
    "upstream.gemini": "HOOKGATE_UPSTREAM",
    "hooks.policy": "HOOKGATE_POLICY",
    "hooks.files": "HOOKGATE_HOOKS",
    "hooks.state": "HOOKGATE_STATE",
}


@dataclass(frozen=True, slots=True)
class Setting:
    """One key of one table."""

    section: str
    key: str
    field: FieldInfo

    @property
    def name(self) -> str:
        return f"{self.section}.{self.key}"

    @property
    def flag(self) -> str | None:
        return _FLAGS.get(self.name)

    @property
    def variables(self) -> tuple[str, ...]:
        """The environment variable, and its short spelling where there is one; none in what is named."""
        if self.section in NAMED:
            return ()
        variable = f"{PREFIX}{self.section}__{self.key}".upper()
        return (variable, *([_SHORT_VARIABLES[self.name]] if self.name in _SHORT_VARIABLES else []))

    @property
    def holds_paths(self) -> bool:
        return _holds_paths(self.field.annotation)

    @property
    def separator(self) -> str | None:
        """What stands between the parts of a list in an environment variable; None for what is no list."""
        if get_origin(self.field.annotation) is not tuple:
            return None
        return ":" if self.holds_paths else ","


def sections() -> dict[str, type[BaseModel]]:
    """The class of each table that has one name, in order."""
    return {name: type(field.default) for name, field in Config.model_fields.items() if name not in NAMED}


def named_table(section: str, name: str) -> Setting:
    """One table of those that an operator names, as a whole."""
    return Setting(section, name, FieldInfo(annotation=NAMED[section]))


def nearest(name: str, known: Iterable[str]) -> str:
    """The remedy for a name that is not known: the known one that was probably meant."""
    names = list(known)
    same_key = [each for each in names if "." in each and each.split(".")[1] == name.rpartition(".")[2]]
    found = [*get_close_matches(name, names, n=1), *same_key]
    return f"is not known; did you mean {found[0]}?" if found else "is not known; remove it"


def _holds_paths(annotation: Any) -> bool:
    if annotation is Path:
        return True
    return get_origin(annotation) is not Literal and any(map(_holds_paths, get_args(annotation)))


SETTINGS = {
    f"{section}.{key}": Setting(section, key, field)
    for section, kind in sections().items()
    for key, field in kind.model_fields.items()
}
