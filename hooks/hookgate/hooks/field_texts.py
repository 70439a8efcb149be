"""The strings under the fields of a pydantic model, which document them, and JSON Schemas that contain them.

Pydantic can read these strings itself, with `use_attribute_docstrings`. It then parses the source of each
class when it is created, so at each start, although only documentation and schemas contain them.
"""

import ast
import inspect
from itertools import pairwise
from typing import Any

from pydantic import BaseModel
from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema


def field_texts(model: type[BaseModel]) -> dict[str, str]:
    """Return the text under each field. A field that a class narrows keeps the text that it inherits."""
    texts: dict[str, str] = {}
    for each in reversed(model.__mro__):
        if issubclass(each, BaseModel) and each is not BaseModel:
            texts |= _own_texts(each)
    return texts


def _own_texts(model: type[BaseModel]) -> dict[str, str]:
    source = ast.parse(inspect.getsource(model))
    lines = [line for node in source.body if isinstance(node, ast.ClassDef) for line in node.body]
    texts = {}
    for line, below in pairwise(lines):
        match line, below:
            case (
                ast.AnnAssign(target=ast.Name(id=name)),
                ast.Expr(value=ast.Constant(value=str(text))),
            ):
                texts[name] = inspect.cleandoc(text)
    return texts


class DescribedSchema(GenerateJsonSchema):
    """A generator of JSON Schemas in which the text under a field is its description."""

    def model_schema(self, schema: core_schema.ModelSchema) -> JsonSchemaValue:
        document, model = super().model_schema(schema), schema["cls"]
        texts = field_texts(model)
        properties: dict[str, Any] = document.get("properties", {})
        for name, field in model.model_fields.items():
            if name in texts:
                properties[field.alias or name]["description"] = texts[name]
        return document
