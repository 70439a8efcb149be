"""Every setting by its dotted name, and the JSON Schema of hookgate.toml."""

from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import core_schema

from hookgate.hooks.field_texts import DescribedSchema
from hookgate.proxy.config.models import Config, CredentialSettings, ExportSettings, NamedKey

PREFIX = "HOOKGATE_"

NAMED: dict[str, type[BaseModel]] = {
    "keys": NamedKey,
    "credentials": CredentialSettings,
    "exports": ExportSettings,
}
"""The classes of tables that operators name, such as `[keys.alice]`. Only the file can contain them."""

_FLAGS = {
    "listen.address": "--listen",
    "listen.workers": "--workers",
    "upstream.gemini": "--upstream",
    "admin.address": "--admin",
    "clients.open": "--open",
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
    """One setting: a key of a table."""

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
        """The environment variables: the full name, and the short one if there is one.

        Settings in tables that operators name, or in a list of tables, have no variables.
        """
        if self.section in NAMED or "." in self.section:
            return ()
        variable = f"{PREFIX}{self.section}__{self.key}".upper()
        return (variable, *([_SHORT_VARIABLES[self.name]] if self.name in _SHORT_VARIABLES else []))

    @property
    def holds_paths(self) -> bool:
        return _holds_paths(self.field.annotation)

    @property
    def item(self) -> type[BaseModel] | None:
        """The class of the tables if the setting is a list of tables, such as `[[alerts.rules]]`."""
        if get_origin(self.field.annotation) is not tuple:
            return None
        kind = get_args(self.field.annotation)[0]
        return kind if isinstance(kind, type) and issubclass(kind, BaseModel) else None

    @property
    def separator(self) -> str | None:
        """The separator of list items in an environment variable, or None if the setting is not a list."""
        if get_origin(self.field.annotation) is not tuple:
            return None
        return ":" if self.holds_paths else ","


def sections() -> dict[str, type[BaseModel]]:
    """Return the class of each table with a fixed name, in order."""
    return {name: type(field.default) for name, field in Config.model_fields.items() if name not in NAMED}


def named_table(section: str, name: str) -> Setting:
    """Return a table that an operator named, as one setting."""
    return Setting(section, name, FieldInfo(annotation=NAMED[section]))


_MEANT = {
    **{(section, key): ("address",) for section in ("listen", "admin") for key in ("port", "host", "bind")},
    ("listen", "cert"): ("certificate",),
    **{("upstream", key): ("gemini",) for key in ("url", "base_url", "host", "address", "origin")},
    **{("keys", key): ("file", "sha256") for key in ("key", "api_key", "value", "secret")},
    ("keys", "hash"): ("sha256",),
    ("keys", "path"): ("file",),
    **{("credentials", key): ("locations",) for key in ("location", "region", "regions")},
    **{("credentials", key): ("key_file", "service_account_file") for key in ("file", "path")},
    ("credentials", "team"): ("teams",),
    ("credentials", "api_key"): ("key",),
    **{("exports", key): ("to",) for key in ("url", "target", "endpoint", "address", "destination")},
    **{
        ("exports", key): ("secret_file", "secret_variable")
        for key in ("secret", "token", "password", "api_key")
    },
    ("exports", "schema"): ("format",),
}
"""The keys that are meant by usual names of other programs, by table and name."""


def meant_settings(name: str, known: Iterable[str]) -> list[str]:
    """Return the known settings that were probably meant by an unknown one, or an empty list."""
    names = list(known)
    table, _, key = name.rpartition(".")
    if keys := _MEANT.get((table.partition(".")[0], key)):
        return [f"{table}.{each}" for each in keys]
    # Names in one table begin alike, so only their keys are compared.
    candidates = {
        each.removeprefix(f"{table}."): each for each in names if not table or each.startswith(f"{table}.")
    }
    same_key = [each for each in names if "." in each and each.rpartition(".")[2] == key]
    return [*(candidates[near] for near in get_close_matches(key, candidates, n=1)), *same_key][:1]


def unknown_setting_remedy(name: str, known: Iterable[str]) -> str:
    """Return the remedy for an unknown name: those that were probably meant, or else the known ones."""
    names = list(known)
    if meant := meant_settings(name, names):
        return f"is not known; did you mean {' or '.join(meant)}?"
    table = name.rpartition(".")[0]
    siblings = [each for each in names if each.startswith(f"{table}.")] if table else []
    shown = siblings or dict.fromkeys(each.partition(".")[0] for each in names)
    return f"is not known; known are {', '.join(shown)}"


def _holds_paths(annotation: Any) -> bool:
    if annotation is Path:
        return True
    return get_origin(annotation) is not Literal and any(map(_holds_paths, get_args(annotation)))


SETTINGS = {
    f"{section}.{key}": Setting(section, key, field)
    for section, kind in sections().items()
    for key, field in kind.model_fields.items()
}


def config_schema() -> dict[str, Any]:
    """Return the JSON Schema of hookgate.toml."""
    return {
        "$schema": DescribedSchema.schema_dialect,
        **Config.model_json_schema(schema_generator=_TomlSchema),
    }


class _TomlSchema(DescribedSchema):
    """A schema without null, which TOML does not have: optional settings are left out instead."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        result = super().default_schema(schema)
        if result.get("default") is None or "$ref" in result:
            result.pop("default", None)
        return result
