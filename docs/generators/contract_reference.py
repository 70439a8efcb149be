"""docs/reference.md, made of the contract's classes: their docstrings, their fields, the texts under them.

python docs/generators/contract_reference.py > docs/reference.md
"""

import ast
import inspect
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Any, get_args

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from hookgate.hooks.events import INPUTS, OUTPUTS, HookInput, HookOutput
from hookgate.hooks.events.base import SpecificOutput

_INTRODUCTION = """\
# The hook contract, event by event

<!-- Made by: python docs/generators/contract_reference.py > docs/reference.md -->

A hook reads one JSON document, its input, and may answer with another, its output. Here are the fields of
both for each of the eleven events, in the order in which a session meets them. Where the contract's documents
spell a thing in several ways, the input holds every spelling and the output takes any. How hooks are
configured, and how their edits are applied, is told in [hooks.md](hooks.md).
"""

_SPECIFIC = "hook_specific_output"


def contract_reference() -> str:
    """The page, in Markdown."""
    common = [
        _INTRODUCTION,
        f"## Every input\n\n{docstring(HookInput)}\n\n{_table(_rows(HookInput))}\n",
        f"## Every output\n\n{docstring(HookOutput)}\n\n{_table(_rows(HookOutput))}\n",
    ]
    return "\n".join([*common, *(_chapter(event) for event in INPUTS)])


def docstring(model: type) -> str:
    """The class's docstring. Raises ValueError for a class without one."""
    if not model.__doc__:
        raise ValueError(f"{model.__name__} has no docstring, which is its contract")
    return inspect.cleandoc(model.__doc__)


def field_texts(model: type[BaseModel]) -> Mapping[str, str]:
    """The text under each field; a field that a class narrows keeps the text it inherits."""
    texts: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            texts |= _own_texts(each)
    return texts


def properties(model: type[BaseModel]) -> Mapping[str, str]:
    """The names that a class offers whatever the spelling, with their docstrings."""
    return {
        name: inspect.getdoc(value) or ""
        for each in reversed(model.__mro__)
        if issubclass(each, BaseModel) and each is not BaseModel
        for name, value in vars(each).items()
        if isinstance(value, property)
    }


def part_of(field: FieldInfo) -> type[BaseModel] | None:
    """The class of a field that holds a document of its own."""
    kinds = (field.annotation, *get_args(field.annotation))
    return next((kind for kind in kinds if isinstance(kind, type) and issubclass(kind, BaseModel)), None)


def own_part(output: type[HookOutput]) -> type[BaseModel]:
    """The class of what is the event's own within hookSpecificOutput."""
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
    return f"Beside {link}:\n\n{_table(rows)}" if rows else f"Only {link}."


def _python(model: type[BaseModel]) -> str:
    lines = [f"- `{name}`: {text}\n" for name, text in properties(model).items()]
    return (
        f"\nIn Python, `{model.__name__}` gives whatever the spelling:\n\n{''.join(lines)}" if lines else ""
    )


# ---- a table


def _rows(model: type[BaseModel], prefix: str = "", besides: Collection[str] = ()) -> Iterator[list[str]]:
    """Key, type and meaning of each field; a document within the document is listed below its key."""
    schemas, texts = model.model_json_schema()["properties"], field_texts(model)
    for name, field in model.model_fields.items():
        if name not in besides:
            key = field.alias or name
            yield [f"`{prefix}{key}`", " or ".join(_types(schemas[key])), texts.get(name, "")]
            if part := part_of(field):
                yield from _rows(part, f"{prefix}{key}.")


def _table(rows: Iterable[list[str]]) -> str:
    lines = [["key", "type", "meaning"], ["---"] * 3, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


_TYPES = {"integer": "number", "array": "list"}


def _types(schema: Mapping[str, Any]) -> list[str]:
    """A JSON schema in words, without null: every field may be left out."""
    if "anyOf" in schema:
        found = [word for each in schema["anyOf"] for word in _types(each)]
        return list(dict.fromkeys(found))
    if values := schema.get("enum", [schema["const"]] if "const" in schema else []):
        return [f'`"{value}"`' for value in values]
    kind = schema.get("type", "object")  # a reference is to the class of an object
    return [] if kind == "null" else [_TYPES.get(kind, kind)]


def _own_texts(model: type[BaseModel]) -> dict[str, str]:
    """The strings that stand under the fields in the class's own source, each on one line."""
    source = ast.parse(inspect.getsource(model))
    lines = [line for node in source.body if isinstance(node, ast.ClassDef) for line in node.body]
    texts = {}
    for line, below in pairwise(lines):
        match line, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = " ".join(text.split())
    return texts


if __name__ == "__main__":
    print(contract_reference(), end="")
