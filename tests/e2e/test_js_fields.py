"""The types of @google/genai have no fields beyond those of google-genai, in which secrets are planted.

tests/proxy/calls/test_planted_fields.py and its neighbors plant one in each text field of these.
"""

import re
from pathlib import Path

from google.genai import types
from support.programs.commands import missing

DECLARATIONS = Path(__file__).parent / "node/node_modules/@google/genai/dist/genai.d.ts"

_TYPE = re.compile(
    r"^export declare (?:interface|class) (\w+)(?: extends [\w<>, ]+)? \{\n(.*?)^\}", re.DOTALL | re.MULTILINE
)
_FIELD = re.compile(r"^    (?:readonly )?(\w+)\??:", re.MULTILINE)

LOCAL = {"abortSignal", "callbacks", "fetch", "responseInternal"}
"""Fields that are never sent."""

BEYOND = {
    "GenerateContentResponseUsageMetadata": {"initialPromptTokenCount"},  # a number
    "LiveClientSetup": {"realtimeInputConfig"},  # of LiveConnectConfig in Python
    "TextResponseFormat": {"schema"},  # schema_ in Python
}


def camel(name: str) -> str:
    return re.sub("_(.)", lambda found: found[1].upper(), name)


def test_types_have_the_fields_of_the_python_ones() -> None:
    if not DECLARATIONS.exists():
        missing("needs @google/genai: run `make node`")
    found = {name: set(_FIELD.findall(body)) for name, body in _TYPE.findall(DECLARATIONS.read_text())}
    python = {
        name: set(map(camel, kind.model_fields))
        for name in found
        if hasattr(kind := getattr(types, name, None), "model_fields")
    }
    assert len(python) > 350
    beyond = {name: found[name] - fields - LOCAL for name, fields in python.items()}
    assert {name: fields for name, fields in beyond.items() if fields} == BEYOND
