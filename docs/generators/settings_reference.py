"""Generate docs/configuration.md from the descriptions of the settings.

python docs/generators/settings_reference.py > docs/configuration.md
"""

import functools
import inspect
import json
from collections.abc import Iterator
from typing import Any

from pydantic import BaseModel

from hookgate.hooks.field_texts import field_texts
from hookgate.proxy.config.catalogue import NAMED, Setting, config_schema, sections

_INTRODUCTION = """\
# Configuration

<!-- Made by: python docs/generators/settings_reference.py > docs/configuration.md -->

`hookgate serve` needs no configuration. A setting can come from a flag, an environment variable,
`hookgate.toml`, or the default; the first of these that contains it takes precedence, also for a list:

    hookgate serve --listen 127.0.0.1:9000
    HOOKGATE_LISTEN__ADDRESS=127.0.0.1:9000 hookgate serve

In `hookgate.toml` ([an example](../examples/hookgate.toml) has every section):

    [listen]
    address = "127.0.0.1:9000"

**The file** is named by `--config` or `HOOKGATE_CONFIG`. Otherwise it is `~/.config/hookgate/hookgate.toml`
(or below `XDG_CONFIG_HOME`) or, if that does not exist, `/etc/hookgate/hookgate.toml`. Only one file is read,
with `--config /dev/null` none, and never one of the current folder, which may be anybody's checkout. Relative
paths are relative to the file's folder, or in flags and variables to the current one. `~` is the home folder.

**Variables** are named `HOOKGATE_SECTION__KEY`; a few settings also have a short one, or a flag. In a list,
`:` separates paths and `,` names; JSON is accepted too. An empty variable is not set. Any variable with
`_FILE` added names a file that contains the value, such as a secret:
`HOOKGATE_UPSTREAM__PROXY_FILE=/run/secrets/proxy`. Therefore `HOOKGATE_POLICY` names a policy file, not
`HOOKGATE_POLICY_FILE`. Two variables for one setting, a variable with `__` that belongs to no setting, and a
name that resembles that of a variable are errors. Tables that you name yourself, such as `[keys.NAME]`, can
only be in the file.

**Errors** are reported together, each with its file and line, variable or flag, and the gateway does not
start. These commands take the flags of `serve`; `check` exits with status 1 if there are errors:

    hookgate config check           # report all errors, including those in certificates and hooks
    hookgate config show [--json]   # print every setting and its source; passwords are masked
    hookgate config schema          # print a JSON Schema, for editors
    hookgate doctor                 # also check everything else that a gateway needs

Editors with Even Better TOML complete the file after `hookgate config schema > hookgate.schema.json` in its
folder, if its first line is `#:schema ./hookgate.schema.json`.
"""


def settings_reference() -> str:
    """Return the page as Markdown."""
    named = [_chapter(f"{section}.NAME", section, kind) for section, kind in NAMED.items()]
    return "\n".join(
        [
            _INTRODUCTION,
            *(each for name, kind in sections().items() for each in _chapters(name, kind)),
            *named,
        ]
    )


def _chapters(section: str, kind: type[BaseModel]) -> Iterator[str]:
    """Yield the chapter of a section, and one for each of its lists of tables."""
    yield _chapter(section, section, kind)
    for key, field in kind.model_fields.items():
        setting = Setting(section, key, field)
        if setting.item is not None:
            yield _chapter(f"[{setting.name}]", setting.name, setting.item)


def _chapter(title: str, section: str, kind: type[BaseModel]) -> str:
    told = inspect.getdoc(kind)
    settings = [Setting(section, key, field) for key, field in kind.model_fields.items()]
    rows = [["key", "value", "default", "meaning"], *(_row(kind, setting) for setting in settings)]
    if any(map(_spellings, settings)):
        rows = [[*row, end] for row, end in zip(rows, ["also", *map(_spellings, settings)], strict=True)]
    rows.insert(1, ["---"] * len(rows[0]))
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in rows)
    return f"## [{title}]\n\n{told}\n\n{table}\n"


def _row(kind: type[BaseModel], setting: Setting) -> list[str]:
    meaning = " ".join(field_texts(kind).get(setting.key, "").split())
    return [f"`{setting.key}`", _values(kind, setting.key), _default(setting), meaning]


def _spellings(setting: Setting) -> str:
    """The flag and the short variable of a setting. All settings of the sections have a long variable."""
    return "<br>".join(f"`{name}`" for name in (setting.flag, *setting.variables[1:]) if name)


def _default(setting: Setting) -> str:
    value = setting.field.default
    if setting.field.is_required():
        return "required"
    return f"`{json.dumps(value)}`" if value not in (None, ()) else "none"


_schema = functools.cache(config_schema)


def _values(kind: type[BaseModel], key: str) -> str:
    return _words(_schema()["$defs"][kind.__name__]["properties"][key])


_FORMATS = {"path": "path", "uri": "URL", "https": "URL", "PostgreSQL": "URL", "HOST:PORT": "`HOST:PORT`"}


def _words(schema: dict[str, Any]) -> str:
    """Describe the values that a JSON schema allows."""
    if values := schema.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    match schema["type"]:
        case "array" if "$ref" in schema["items"]:
            return "list of tables"
        case "array" if "enum" in schema["items"]:
            return f"list of {_words(schema['items'])}"
        case "array":
            return f"list of {_words(schema['items'])}s"
        case "boolean":
            return "`true`, `false`"
        case "string":
            return _FORMATS.get(schema.get("format", ""), "string")
        case kind:
            return _range("whole number" if kind == "integer" else "number", schema)


def _range(kind: str, schema: dict[str, Any]) -> str:
    if "maximum" in schema:
        return f"{kind} from {schema['minimum']} to {schema['maximum']}"
    if "minimum" in schema:
        return f"{kind} from {schema['minimum']:g}"
    return f"{kind} above {schema['exclusiveMinimum']:g}"


if __name__ == "__main__":
    print(settings_reference(), end="")
