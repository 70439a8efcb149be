"""Generate docs/hook-options.md from the classes of hook settings and of the policies' options.

PYTHONPATH=docs python -m generators.hook_options > docs/hook-options.md
"""

import json
from collections.abc import Iterator, Mapping
from types import MappingProxyType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin

from generators.contract_reference import docstring
from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hookgate.hooks.field_texts import field_texts
from hookgate.hooks.policies.cassette import CassetteOptions
from hookgate.hooks.policies.counters import LimitsOptions
from hookgate.hooks.policies.flows.options import FlowsOptions
from hookgate.hooks.policies.injections.options import InjectionsOptions
from hookgate.hooks.policies.models import ModelsOptions
from hookgate.hooks.policies.options import Options
from hookgate.hooks.policies.redact.options import RedactOptions
from hookgate.hooks.policies.services.guardrail import GuardrailOptions
from hookgate.hooks.policies.services.model_armor import ModelArmorOptions
from hookgate.hooks.policies.tools import ToolsOptions
from hookgate.hooks.settings.configs import (
    BuiltinConfig,
    CommandConfig,
    FileConfig,
    GroupConfig,
    HookConfig,
    HttpConfig,
    RegoConfig,
    RuntimeConfig,
    When,
)
from hookgate.hooks.settings.policies import POLICIES

_INTRODUCTION = """\
# Keys and options of hooks

<!-- Made by: PYTHONPATH=docs python -m generators.hook_options > docs/hook-options.md -->

    {"name": "no-keys", "type": "command", "command": "./no_keys.sh", "timeout": 5000, "on_error": "deny"}

All keys of a hook in a [settings file](settings.md), and all options of the [policies](policies.md). A
list of names may also be a single name. An unknown option is an error, which names the most likely
correction. Options in which several policies agree, such as conditions on arguments, are described once.
"""

_TYPES = MappingProxyType(
    {
        "command": CommandConfig,
        "runtime": RuntimeConfig,
        "http": HttpConfig,
        "rego": RegoConfig,
        "builtin": BuiltinConfig,
    }
)

OPTIONS: Mapping[str, type[Options]] = MappingProxyType(
    {
        "tools": ToolsOptions,
        "flows": FlowsOptions,
        "injections": InjectionsOptions,
        "models": ModelsOptions,
        "limits": LimitsOptions,
        "redact": RedactOptions,
        "cassette": CassetteOptions,
        "model_armor": ModelArmorOptions,
        "guardrail": GuardrailOptions,
    }
)
"""The class of each policy's options, in the order of the page "Policies"."""


def hook_options() -> str:
    """Return the page as Markdown."""
    keys = [
        f"## Every hook\n\n{_table(HookConfig)}",
        *(_hook_type(name, kind) for name, kind in _TYPES.items()),
        f"## when\n\n{docstring(When)}\n\n{_table(When)}",
        f"## Groups\n\n{docstring(GroupConfig)}\n\n{_table(GroupConfig)}",
        f"## hooksConfig\n\n{docstring(FileConfig)}\n\n{_table(FileConfig)}",
    ]
    shown: set[type[BaseModel]] = set()
    return "\n".join([_INTRODUCTION, *keys, *(_policy(name, kind, shown) for name, kind in OPTIONS.items())])


def _hook_type(name: str, kind: type[HookConfig]) -> str:
    common = {
        key
        for key, field in HookConfig.model_fields.items()
        if field.default == kind.model_fields[key].default
    }
    return f"## {name.capitalize()} hooks\n\n{docstring(kind)}\n\n{_table(kind, besides=common | {'type'})}"


def _policy(name: str, kind: type[Options], shown: set[type[BaseModel]]) -> str:
    """Return the chapter of a policy, without the classes that were shown, and add its own to these."""
    chapters = [f"## {name}\n\nEvents: {', '.join(POLICIES[name].events)}.\n\n{_table(kind)}"]
    for part, paths in _parts(kind).items():
        if part not in shown:
            title = f"### {name}: {' and '.join(f'`{path}`' for path in paths)}"
            chapters.append(f"{title}\n\n{docstring(part)}\n\n{_table(part)}")
            shown.add(part)
    return "\n".join(chapters)


def _parts(kind: type[BaseModel], prefix: str = "") -> dict[type[BaseModel], list[str]]:
    """Return the classes of tables within the options, each with the options that contain it."""
    parts: dict[type[BaseModel], list[str]] = {}
    for name, field in kind.model_fields.items():
        path = f"{prefix}{name}"
        for part in _models_in(field.annotation):
            parts.setdefault(part, []).append(path)
    for part, [path, *_] in list(parts.items()):
        for inner, paths in _parts(part, f"{path}.").items():
            parts.setdefault(inner, []).extend(paths)
    return parts


def _models_in(annotation: Any) -> Iterator[type[BaseModel]]:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        yield annotation
    elif get_origin(annotation) is not Literal:
        for each in get_args(annotation):
            yield from _models_in(each)


def _table(kind: type[BaseModel], besides: frozenset[str] | set[str] = frozenset()) -> str:
    texts = field_texts(kind)
    rows = [["key", "value", "default", "meaning"], ["---"] * 4]
    for name, field in kind.model_fields.items():
        if name not in besides:
            text = " ".join(texts[name].split())
            cells = [f"`{field.alias or name}`", _values(field.annotation), _default(field, text), text]
            rows.append([cell.replace("|", "\\|") for cell in cells])
    return "\n".join(f"| {' | '.join(cells)} |" for cells in rows) + "\n"


def _default(field: FieldInfo, text: str) -> str:
    if field.is_required():
        return "required"
    if "default:" in text.lower() or isinstance(field.default, BaseModel) or field.default in _NOTHING:
        return ""
    return f"`{json.dumps(field.default)}`"


_NOTHING: tuple[Any, ...] = (None, (), [], {}, "")

_WORDS = {str: "text", int: "whole number", float: "number", bool: "`true`, `false`", Any: "any"}


def _values(annotation: Any) -> str:
    """Describe the values of an annotation in words."""
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return _values(arguments[0])
    if origin is Literal:
        return ", ".join(f'`"{value}"`' for value in arguments)
    if origin in (Union, UnionType):
        return " or ".join(_values(each) for each in arguments if each is not type(None))
    if origin in (tuple, list):
        return f"list of {_plural(arguments[0])}"
    if isinstance(origin, type) and issubclass(origin, Mapping):
        return f"{_plural(arguments[1])} by name"
    return _WORDS.get(annotation, "table")


def _plural(annotation: Any) -> str:
    words = _values(annotation)
    return f"{words}s" if words in ("text", "number", "table", "whole number") else words


if __name__ == "__main__":
    print(hook_options(), end="")
