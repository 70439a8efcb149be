"""Generate docs/reference.md from the contract's classes: docstrings, fields, and the texts under the fields.

python docs/generators/contract_reference.py > docs/reference.md
"""

import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hookgate.hooks.events import INPUTS, OUTPUTS, HookInput, HookOutput
from hookgate.hooks.events.base import SpecificOutput
from hookgate.hooks.field_texts import field_texts

_INTRODUCTION = """\
# The hook contract, event by event

<!-- Made by: python docs/generators/contract_reference.py > docs/reference.md -->

A hook reads one JSON document, its input, and may return another, its output. This page lists the fields of
both for each of the eleven events, in the order in which the events occur in a session. Some fields have
aliases. The input contains all of them; the output may use any. [Hooks](hooks.md) describes how edits are
applied, and [Hook settings](settings.md) describes how hooks are configured.
"""

_SPECIFIC = "hook_specific_output"


def contract_reference() -> str:
    """Return the page as Markdown."""
    common = [
        _INTRODUCTION,
        f"## Every input\n\n{docstring(HookInput)}\n\n{_table(_rows(HookInput))}\n",
        f"## Every output\n\n{docstring(HookOutput)}\n\n{_table(_rows(HookOutput))}\n",
    ]
    return "\n".join([*common, *(_chapter(event) for event in INPUTS)])


def docstring(model: type) -> str:
    """Return the class's docstring. Raises ValueError if it has none."""
    if not model.__doc__:
        raise ValueError(
            f"{model.__name__} has no docstring; add one, because it is printed in the reference"
        )
    return inspect.cleandoc(model.__doc__)


def properties(model: type[BaseModel]) -> Mapping[str, str]:
    """Return the properties of a class, which read a field under any alias, with their docstrings."""
    return {
        name: inspect.getdoc(value) or ""
        for each in reversed(model.__mro__)
        if issubclass(each, BaseModel) and each is not BaseModel
        for name, value in vars(each).items()
        if isinstance(value, property)
    }


def part_of(field: FieldInfo) -> type[BaseModel] | None:
    """Return the class of a field that contains another document, or None for other fields."""
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def own_part(output: type[HookOutput]) -> type[BaseModel]:
    """Return the class of the event's own fields in hookSpecificOutput."""
    return part_of(output.model_fields[_SPECIFIC]) or SpecificOutput


# ---- a chapter


def _chapter(event: str) -> str:
    shown, answer = INPUTS[event], OUTPUTS[event]
    own_input = _rows(shown, besides=HookInput.model_fields)
    own_output = _rows(own_part(answer), "hookSpecificOutput.", besides=SpecificOutput.model_fields)
    return "\n".join(
        [
            f"## {event}\n\n{docstring(shown)}\n",
            f"### {event} input\n\n{_fields(own_input, 'input')}\n{_python(shown)}",
            f"### {event} output\n\n{docstring(answer)}\n\n{_fields(own_output, 'output')}\n",
        ]
    )


def _fields(rows: Iterable[list[str]], kind: str) -> str:
    rows = list(rows)
    link = f"the fields of [every {kind}](#every-{kind})"
    none = f"This event has no {kind} fields of its own, only {link}."
    return f"In addition to {link}:\n\n{_table(rows)}" if rows else none


def _python(model: type[BaseModel]) -> str:
    lines = [f"- `{name}`: {text}\n" for name, text in properties(model).items()]
    return f"\nIn Python, `{model.__name__}` also has these properties:\n\n{''.join(lines)}" if lines else ""


# ---- a table


def _rows(model: type[BaseModel], prefix: str = "", besides: Collection[str] = ()) -> Iterator[list[str]]:
    """Yield the key, type and meaning of each field. The fields of a nested document follow its key."""
    schemas, texts = model.model_json_schema()["properties"], field_texts(model)
    for name, field in model.model_fields.items():
        if name not in besides:
            key = field.alias or name
            yield [
                f"`{prefix}{key}`",
                " or ".join(_types(schemas[key])),
                " ".join(texts.get(name, "").split()),
            ]
            if part := part_of(field):
                yield from _rows(part, f"{prefix}{key}.")


def _table(rows: Iterable[list[str]]) -> str:
    lines = [["key", "type", "meaning"], ["---"] * 3, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


_TYPES = {"integer": "number", "array": "list"}


def _types(schema: Mapping[str, Any]) -> list[str]:
    """Describe the types of a JSON schema, without null: every field may be left out."""
    if "anyOf" in schema:
        found = [word for each in schema["anyOf"] for word in _types(each)]
        return list(dict.fromkeys(found))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return [f'`"{value}"`' for value in values]
    kind = schema.get("type", "object")  # a reference is to the class of an object
    return [] if kind == "null" else [_TYPES.get(kind, kind)]


if __name__ == "__main__":
    print(contract_reference(), end="")
