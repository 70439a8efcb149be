"""google-genai's arguments: hooks see the body that the SDK would send for them."""

import enum
import json
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel
from support.clients.python_sdk import python_client, sdk_warnings
from support.translation.lens import MODEL
from support.wire import ok, peer

from hookgate.translator import text_response
from hookgate.translator.fields import snake
from hookgate.translator.sdk import request_to_rest


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Recipe(BaseModel):
    name: str
    colors: list[Color]


def weather(city: str, days: int = 1) -> str:
    """Weather of a city."""
    return f"{city} {days}"


def lost(of: "Nowhere") -> str:  # noqa: F821  # a name that is nowhere is the point
    return str(of)


class Station:
    def read(self, sensor: str) -> float:
        """Read a sensor."""
        return float(len(sensor))

    def __call__(self) -> float:
        return 0.0


TEXT = types.Part(text="hi")
CALL = types.Part(function_call=types.FunctionCall(name="weather", args={"city": "Oslo", "n": None}))
IMAGE = {"inline_data": {"mime_type": "image/png", "data": b"hi"}}
CHAT = [types.UserContent("hi"), types.ModelContent(CALL), {"role": "user", "parts": [{"text": "x"}]}]
ANY = {"function_calling_config": {"mode": "any"}}
EXTRA = {"newField": 1, "generation_config": {"newer": {"a": 2}, "seed": 3}}

ASKED: dict[str, tuple[Any, Any]] = {
    "a string": ("hi", None),
    "a part": (TEXT, {}),
    "a content": (types.Content(role="user", parts=[TEXT]), types.GenerateContentConfig()),
    "a dict": ({"role": "user", "parts": [IMAGE]}, None),
    "strings and parts": (["look:", TEXT, CALL, "and?"], None),
    "a chat": (CHAT, None),
    "an uploaded file": ([types.File(uri="https://f", mime_type="text/plain"), "read it"], None),
    "a signature": (types.ModelContent(types.Part(text="so", thought_signature=b"sig")), None),
    "a system instruction": ("hi", {"system_instruction": ["be", "kind"]}),
    "numbers": ("hi", {"temperature": 1, "topK": 40, "max_output_tokens": 7, "stop_sequences": ["END"]}),
    "a schema class": ("hi", {"response_schema": Recipe, "response_mime_type": "application/json"}),
    "a schema list": ("hi", types.GenerateContentConfig(response_schema=list[Recipe])),
    "a schema enum": ("hi", {"response_schema": Color}),
    "a schema dict": ("hi", {"response_schema": {"type": "object", "any_of": [{"type": "string"}]}}),
    "a JSON schema": ("hi", {"response_json_schema": Recipe.model_json_schema()}),
    "a function": ("hi", {"tools": [weather], "automatic_function_calling": {"disable": True}}),
    "a method": ("hi", {"tools": [{"google_search": {}}, Station().read]}),
    "a tool choice": ("hi", {"tools": [weather], "tool_config": ANY}),
    "a voice": ("hi", {"speech_config": "Kore", "response_modalities": ["AUDIO"]}),
    "safety": ("hi", {"safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "OFF"}]}),
    "a cache": ("hi", {"cached_content": "cachedContents/1"}),
    "labels": ("hi", {"labels": {"team_name": "x"}, "service_tier": "flex"}),
    "an extra body": ("hi", {"http_options": {"extra_body": EXTRA}, "seed": 2, "temperature": 0.5}),
}


@sdk_warnings
@pytest.mark.parametrize("asked", ASKED)
async def test_hooks_see_what_the_sdk_sends(asked: str) -> None:
    contents, config = ASKED[asked]
    answer = ok(json.dumps(text_response("ok")).encode())
    async with peer(answer) as server, python_client(server.url) as client:
        await client.aio.models.generate_content(model=MODEL, contents=contents, config=config)
    sent = json.loads(server.heard[0].split(b"\r\n\r\n", 1)[1])
    model, seen = request_to_rest(f"models/{MODEL}", contents, config)
    assert model == MODEL
    assert snaked(seen) == snaked({key: value for key, value in sent.items() if value != {}})


def snaked(value: Any) -> Any:
    """All keys in one spelling: what the SDK sends mixes both."""
    if isinstance(value, dict):
        return {snake(key): snaked(item) for key, item in value.items()}
    return [snaked(item) for item in value] if isinstance(value, list) else value


def test_the_callers_schema_dict_is_not_modified() -> None:
    schema = {"type": "object", "any_of": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"type": "string"}}}
    before = json.dumps(schema)
    body = request_to_rest(MODEL, "hi", {"response_schema": schema})[1]
    assert body["generationConfig"]["responseSchema"] == {"type": "OBJECT", "anyOf": [{"type": "STRING"}]}
    assert json.dumps(schema) == before


@pytest.mark.parametrize(
    "tool",
    [Station(), partial(weather, days=2), lambda thing: thing, lost],
    ids=["object", "partial", "lambda", "no schema"],
)
def test_a_tool_that_cannot_be_declared_is_named(tool: Callable[..., Any]) -> None:
    with pytest.raises(TypeError, match=r"^config\.tools\[1\]: "):
        request_to_rest(MODEL, "hi", {"tools": [weather, tool]})
