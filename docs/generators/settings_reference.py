"""docs/configuration.md, made of the settings' docstrings.

python docs/generators/settings_reference.py > docs/configuration.md
"""

import functools
import inspect
import json
from typing import Any

from pydantic import BaseModel

from hookgate.proxy.config.catalogue import NAMED, Setting, config_schema, sections

_INTRODUCTION = """\
# Configuration

<!-- Made by: python docs/generators/settings_reference.py > docs/configuration.md -->

`hookgate serve` runs with no configuration at all. What is set is set in one of these, the first wins:

1. a flag: `--listen 127.0.0.1:9000`
2. an environment variable: `HOOKGATE_LISTEN__ADDRESS=127.0.0.1:9000`
3. `hookgate.toml`:

       [listen]
       address = "127.0.0.1:9000"

4. the default

A list is taken whole from one of them; lists are not joined.

**The file** is the one that `--config` or `HOOKGATE_CONFIG` names, else `~/.config/hookgate/hookgate.toml`
(or below `XDG_CONFIG_HOME`), else `/etc/hookgate/hookgate.toml`. One file is read; `--config /dev/null` reads
none. The current folder is not looked at: a checkout must not configure the gateway of who enters it.
Relative paths in the file are relative to its folder; in flags and variables they are relative to the current
folder. `~` is the home. An example with every section: [hookgate.toml](../examples/hookgate.toml).

**Variables** are called `HOOKGATE_SECTION__KEY`; a few have a short spelling. In lists `:` separates paths,
`,` separates names; a JSON list will do as well. An empty variable counts as not given. `_FILE` at the end of
any of these names a file that holds the value, for secrets:
`HOOKGATE_UPSTREAM__PROXY_FILE=/run/secrets/proxy`. A setting that two variables give is an error, and so is a
variable with `__` that belongs to no setting. Tables that you name yourself, `[keys.NAME]`, are in the file
alone.

**Mistakes** are told all at once, each with file and line, variable or flag; no gateway starts with one.

    hookgate config check           # everything that is wrong, in certificates and hooks as well; exit code 1
    hookgate config show [--json]   # every setting in force, and where it was given; passwords are masked
    hookgate config schema          # a JSON Schema, for editors

`check` and `show` take the flags of `serve`. After `hookgate config schema > hookgate.schema.json` beside the
file, and with `#:schema ./hookgate.schema.json` as its first line, editors with Even Better TOML complete it.

The `hooks` section goes for `hookgate hooks …` as well.
"""


def settings_reference() -> str:
    """The page, in Markdown."""
    named = [_chapter(f"{section}.NAME", section, kind) for section, kind in NAMED.items()]
    return "\n".join(
        [_INTRODUCTION, *(_chapter(name, name, kind) for name, kind in sections().items()), *named]
    )


def _chapter(title: str, section: str, kind: type[BaseModel]) -> str:
    told = inspect.getdoc(kind)
    rows = [_row(kind, Setting(section, key, field)) for key, field in kind.model_fields.items()]
    header = ["key", "value", "default", "meaning", "variable, flag"]
    table = "\n".join(f"| {' | '.join(cells)} |" for cells in [header, ["---"] * len(header), *rows])
    return f"## [{title}]\n\n{told}\n\n{table}\n"


def _row(kind: type[BaseModel], setting: Setting) -> list[str]:
    meaning = " ".join((setting.field.description or "").split())
    spellings = [f"`{name}`" for name in (*setting.variables, setting.flag) if name]
    return [
        f"`{setting.key}`",
        _values(kind, setting.key),
        _default(setting),
        meaning,
        "<br>".join(spellings),
    ]


def _default(setting: Setting) -> str:
    value = setting.field.default
    return f"`{json.dumps(value)}`" if value not in (None, ()) else "none"


_schema = functools.cache(config_schema)


def _values(kind: type[BaseModel], key: str) -> str:
    return _words(_schema()["$defs"][kind.__name__]["properties"][key])


_FORMATS = {"path": "path", "uri": "URL", "PostgreSQL": "URL", "HOST:PORT": "`HOST:PORT`"}


def _words(schema: dict[str, Any]) -> str:
    """The values that a JSON schema allows, in words."""
    if values := schema.get("enum"):
        return ", ".join(f"`{value}`" for value in values)
    match schema["type"]:
        case "array" if "enum" in schema["items"]:
            return f"list of {_words(schema['items'])}"
        case "array":
            return f"list of {_words(schema['items'])}s"
        case "boolean":
            return "`true`, `false`"
        case "string":
            return _FORMATS.get(schema.get("format", ""), "text")
        case kind:
            return _range("whole number" if kind == "integer" else "number", schema)


def _range(kind: str, schema: dict[str, Any]) -> str:
    if "maximum" in schema:
        return f"{kind} from {schema['minimum']} to {schema['maximum']}"
    return f"{kind} above {schema['exclusiveMinimum']:g}"


if __name__ == "__main__":
    print(settings_reference(), end="")
