"""Converts google-genai's types to REST bodies and back, for code that uses SDK objects."""

import inspect
from base64 import b64encode
from collections.abc import Collection, Mapping
from copy import deepcopy
from datetime import datetime
from enum import Enum
from typing import Any, TypeVar

import pydantic
from google.genai import _transformers, types

from hookgate.translator.fields import (
    BodyError,
    JsonObject,
    camel,
    read,
    read_list,
    read_object,
    snake,
    spelling,
    without,
    write,
)

Model = TypeVar("Model", bound=pydantic.BaseModel)


# ---- out of a model


def dump(model: pydantic.BaseModel, exclude: set[str] | None = None) -> JsonObject:
    """Return the model in camelCase, without None values, and with bytes in standard base64."""
    dumped = model.model_dump(by_alias=True, exclude_none=True, exclude=exclude)
    return {key: _json(value) for key, value in dumped.items()}


def _json(value: Any) -> Any:
    """Convert a dumped value to JSON. pydantic's own JSON mode would write URL-safe base64."""
    match value:
        case dict():
            return {key: _json(item) for key, item in value.items()}
        case list():
            return [_json(item) for item in value]
        case bytes():
            return b64encode(value).decode()
        case Enum():
            return value.value
        case datetime():
            return value.isoformat().replace("+00:00", "Z")
    return value


# ---- into a model


def load_model(model: type[Model], value: Any, path: str) -> Model:
    """Return the value as a model. Raises BodyError, with the path of the first invalid field."""
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        problem = error.errors()[0]
        steps = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in problem["loc"])
        message = f"google-genai's {model.__name__} does not take it: {problem['msg']}"
        raise BodyError(f"{path}{steps}".removeprefix("."), message) from error


def load_known(model: type[Model], value: Any) -> Model:
    """Validate like `load_model`, but ignore unknown fields at any depth."""
    try:
        return model.model_validate(value)
    except pydantic.ValidationError as error:
        for problem in error.errors():
            if problem["type"] == "extra_forbidden":
                value = _without(value, *problem["loc"])
    return load_model(model, value, "")


def _without(value: Any, step: str | int, *steps: str | int) -> Any:
    """Return a copy without the field at the path of `steps`, which are camelCase names and indexes."""
    if isinstance(value, list):
        return [_without(item, *steps) if i == step else item for i, item in enumerate(value)]
    name = str(step)
    return write(value, name, _without(read(value, name), *steps)) if steps else without(value, name)


# ---- beside a model


def part_known(obj: JsonObject, names: Collection[str]) -> tuple[JsonObject, JsonObject]:
    """Split an object into the fields with these names, in camelCase, and the other fields unchanged."""
    known = {camel(key): value for key, value in obj.items() if camel(key) in names}
    return known, {key: value for key, value in obj.items() if camel(key) not in names}


def merged(body: JsonObject, extra: Mapping[str, Any]) -> JsonObject:
    """Merge `extra` into `body`, as the SDK does: objects are merged, other values are replaced."""
    body = dict(body)
    for key, value in extra.items():
        held = spelling(body, camel(key))
        if held not in body:
            body[key] = value
        elif isinstance(old := body[held], dict) and isinstance(value, Mapping):
            body[held] = merged(old, value)
        else:
            body[held] = value
    return body


# generate_content applies these conversions to its arguments; the SDK has no public API for them.


_Config = types.GenerateContentConfig
_Response = types.GenerateContentResponse

_LOCAL = {
    "http_options",
    "should_return_http_response",
    "automatic_function_calling",
    "automatic_continuation",
}
_LOCAL_OF_RESPONSE = {"sdk_http_response", "automatic_function_calling_history", "parsed"}

_RENAMED = {"generationOutputConfig": "outputConfig", "modelSelectionConfig": "modelConfig"}
"""Fields of the SDK's config that have another name in the REST API."""

_ALIASES = {
    _RENAMED.get(camel(name), camel(name)): camel(name) for name in _Config.model_fields.keys() - _LOCAL
}
"""Maps the REST names of the config's fields to the SDK's names."""

_TOP = {
    "systemInstruction",
    "tools",
    "toolConfig",
    "safetySettings",
    "cachedContent",
    "labels",
    "serviceTier",
    "store",
    "continuationToken",
    "modelArmorConfig",
    "outputConfig",
}
"""The config's fields, by REST name, that are not part of generationConfig."""


# ---- requests


def request_to_rest(
    model: str,
    contents: types.ContentListUnion | types.ContentListUnionDict,
    config: types.GenerateContentConfigOrDict | None = None,
) -> tuple[str, JsonObject]:
    """Return the model and the GenerateContentRequest body for the arguments of `generate_content`.

    The model loses the prefix `models/`. Python functions among the tools become declarations, and a
    response schema given as a class, a generic or an enum becomes a Schema, both as the SDK does it. Of
    `http_options` the `extra_body` is merged in, since it is sent.

    Raises TypeError, naming the place, for a tool that cannot be declared without running something: an MCP
    session, an object that is merely callable, a function with parameters that have no schema. What the SDK
    refuses, it refuses here with the same ValueError.
    """
    body: JsonObject = {"contents": [dump(content) for content in _transformers.t_contents(contents)]}
    if config is None:
        return model.removeprefix("models/"), body
    config = _Config.model_validate(config)
    generation: JsonObject = {}
    for alias, value in dump(_plain(config), exclude=_LOCAL).items():
        name = _RENAMED.get(alias, alias)
        (body if name in _TOP else generation)[name] = value
    if generation:
        body["generationConfig"] = generation
    extra = (config.http_options and config.http_options.extra_body) or {}
    return model.removeprefix("models/"), merged(body, extra)


def request_from_rest(body: JsonObject) -> tuple[list[types.Content], types.GenerateContentConfig]:
    """Return the arguments `contents` and `config` of `generate_content` for a body.

    `check_request` must have accepted the body. `request_to_rest(model, *request_from_rest(body))` is
    `(model, body)`, with the exceptions in the module's docstring. Tools come back as declarations: the
    functions behind them stay with the caller. Raises BodyError, which names the place, for values that the
    SDK's types cannot represent.
    """
    contents = [_content(item, f"contents[{i}]") for i, item in enumerate(read_list(body, "contents"))]
    sections = without(without(body, "contents"), "generationConfig")
    top, extra = part_known(sections, _TOP)
    fields, others = part_known(read_object(body, "generationConfig"), _ALIASES.keys() - _TOP)
    if top.get("systemInstruction") is not None:
        top["systemInstruction"] = _content(top["systemInstruction"], "systemInstruction")
    if top.get("tools") is not None:
        tools = enumerate(read_list(top, "tools"))
        top["tools"] = [load_model(types.Tool, tool, f"tools[{i}]") for i, tool in tools]
    if others:
        extra["generationConfig"] = others
    if extra:
        top["httpOptions"] = types.HttpOptions(extra_body=extra)
    config = load_model(_Config, _named(fields), "generationConfig")
    beside = load_model(_Config, _named(top), "")
    return contents, config.model_copy(
        update={name: getattr(beside, name) for name in beside.model_fields_set}
    )


# ---- responses


def response_to_rest(response: types.GenerateContentResponse) -> JsonObject:
    """Return the GenerateContentResponse body, or event of a stream, for an SDK response."""
    return dump(response, exclude=_LOCAL_OF_RESPONSE)


def response_from_rest(body: JsonObject) -> types.GenerateContentResponse:
    """Return the SDK response for a body. Raises BodyError if the body is not a valid response."""
    sent = {key: value for key, value in body.items() if snake(key) not in _LOCAL_OF_RESPONSE}
    if isinstance(candidates := sent.get("candidates"), list):
        sent["candidates"] = [_with_citations(candidate) for candidate in candidates]
    return load_known(_Response, sent)


def _with_citations(candidate: Any) -> Any:
    """Rename the Gemini API's citations to Vertex AI's name, which is the SDK's."""
    metadata = read_object(candidate, "citationMetadata") if isinstance(candidate, dict) else {}
    if "citationSources" not in metadata:
        return candidate
    renamed = {"citations" if key == "citationSources" else key: metadata[key] for key in metadata}
    return write(candidate, "citationMetadata", renamed)


# ---- from the SDK


def _plain(config: types.GenerateContentConfig) -> types.GenerateContentConfig:
    """Return the config with the SDK's shorthands expanded."""
    update: JsonObject = {}
    if config.system_instruction is not None:
        update["system_instruction"] = _transformers.t_content(config.system_instruction)
    if config.tools is not None:
        update["tools"] = [_tool(tool, f"config.tools[{i}]") for i, tool in enumerate(config.tools)]
    if config.response_schema is not None:  # the SDK would resolve a dict's references in place
        schema = config.response_schema
        schema = deepcopy(schema) if isinstance(schema, dict) else schema
        update["response_schema"] = _transformers.t_schema(None, schema)
    if config.speech_config is not None:
        update["speech_config"] = _transformers.t_speech_config(config.speech_config)
    return config.model_copy(update=update)


def _tool(tool: Any, path: str) -> types.Tool:
    if isinstance(tool, types.Tool):
        return tool
    if not inspect.isfunction(tool) and not inspect.ismethod(tool):
        raise TypeError(f"{path}: expected a types.Tool or a function, got {type(tool).__name__}")
    try:
        declaration = types.FunctionDeclaration.from_callable_with_api_option(
            callable=tool, use_json_schema=True
        )
    except (ValueError, NameError) as error:  # a type without a schema, or one that is not there
        raise TypeError(f"{path}: give {tool.__name__} a types.FunctionDeclaration; {error}") from error
    return types.Tool(function_declarations=[declaration])


# ---- to the SDK


def _content(value: Any, path: str) -> types.Content:
    if isinstance(value, dict) and isinstance(part := read(value, "parts"), dict):
        value = write(value, "parts", [part])
    return load_model(types.Content, value, path)


def _named(fields: JsonObject) -> JsonObject:
    """Return the fields under the SDK's names."""
    return {_ALIASES.get(name, name): value for name, value in fields.items()}
