"""Generate the part of the Helm chart's values.schema.json that describes the gateway's settings.

python docs/generators/helm_schema.py

It replaces `properties.config` of the file; the rest is written by hand. What a setting means is in
docs/configuration.md, so the schema only says which values it may have.
"""

import json
from pathlib import Path
from typing import Any

from hookgate.proxy.config.catalogue import config_schema

SCHEMA = Path(__file__).parents[2] / "deploy" / "helm" / "hookgate" / "values.schema.json"

_SET_BY_THE_CHART = {
    "listen": {"address"},
    "admin": {"address"},
    "hooks": {"policy", "files", "project", "trust_project", "state"},
}
"""Settings for which a pod leaves no choice: the ports of the Services, and the only files that it has."""

_WITHOUT_SECRET = {"pattern": "^[^@?#]*$"}
"""For URLs: a password or a query may be secret. That of a proxy can be in a file that a variable names."""

_URLS = ("uri", "https")

_PROSE = ("title", "description", "default", "format")


def values_schema() -> str:
    """Return the schema of the values, as JSON."""
    schema = json.loads(SCHEMA.read_text(encoding="utf-8"))
    schema["properties"]["config"] = _config()
    return json.dumps(schema, indent=2) + "\n"


def _config() -> dict[str, Any]:
    schema = config_schema()
    config = _values_allowed_by(schema, schema["$defs"])
    for section, names in _SET_BY_THE_CHART.items():
        for name in names:
            del config["properties"][section]["properties"][name]
    return {name: config[name] for name in ("type", "additionalProperties", "properties")}


def _values_allowed_by(schema: dict[str, Any], definitions: dict[str, Any]) -> dict[str, Any]:
    """Return a schema without prose and secrets, and with definitions in place of references to them."""
    if reference := schema.get("$ref"):
        return _values_allowed_by(definitions[reference.rpartition("/")[2]], definitions)
    result: dict[str, Any] = {}
    for name, part in schema.items():
        if name in ("properties", "patternProperties"):
            result[name] = {
                key: _values_allowed_by(inner, definitions)
                for key, inner in part.items()
                if not _is_secret(inner)
            }
        elif name == "items":
            result[name] = _values_allowed_by(part, definitions)
        elif name not in _PROSE:
            result[name] = part
    return result | (_WITHOUT_SECRET if schema.get("format") in _URLS else {})


def _is_secret(schema: dict[str, Any]) -> bool:
    """Whether a setting is a secret, or the URL of a database, which contains a password."""
    return bool(schema.get("writeOnly")) or schema.get("format") == "PostgreSQL"


if __name__ == "__main__":
    SCHEMA.write_text(values_schema(), encoding="utf-8")
