"""The JSON Schema of hookgate.toml, for editors."""

from typing import Any

from pydantic.json_schema import GenerateJsonSchema, JsonSchemaValue
from pydantic_core import core_schema

from hookgate.proxy.config.models import Config


def config_schema() -> dict[str, Any]:
    """What a hookgate.toml may hold."""
    return {
        "$schema": GenerateJsonSchema.schema_dialect,
        **Config.model_json_schema(schema_generator=_TomlSchema),
    }


class _TomlSchema(GenerateJsonSchema):
    """TOML has no null: what may be None is left out there."""

    def nullable_schema(self, schema: core_schema.NullableSchema) -> JsonSchemaValue:
        return self.generate_inner(schema["schema"])

    def default_schema(self, schema: core_schema.WithDefaultSchema) -> JsonSchemaValue:
        found = super().default_schema(schema)
        if found.get("default") is None or "$ref" in found:
            found.pop("default", None)
        return found
