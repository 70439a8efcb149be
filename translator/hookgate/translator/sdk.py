"""google-genai's types as REST bodies and back, so that the same hooks serve code that holds SDK objects.

    response = response_from_rest(apply_response(response_to_rest(response), edit))

Bodies are camelCase, with standard base64 as the API writes it; the SDK's own spelling of base64, which is
the URL-safe one, is read too. The SDK's types hold what they know and nothing else:

- Null, and the empty object as a section, stand for absent. Numbers are floats where the SDK has floats, and
  times end at microseconds.
- Tools stay as they stand; what the SDK sends holds the same declarations, collected in one tool.
- A response's unknown fields are dropped, as the SDK itself does with what the API sends.
- A request's unknown fields beside the known ones and in generationConfig are kept as the SDK's `extra_body`,
  which it merges into what it sends. Deeper ones raise BodyError: dropped, they would change the question.
- An unknown enum value stays what it is, with the SDK's UserWarning.

What never crosses the wire is not in a body, so it does not come back: a response's `parsed`, HTTP response
and function calling history, a config's `http_options` (but `extra_body`), `automatic_function_calling` and
`automatic_continuation`. A caller that needs one copies it from what it had, except for `extra_body`: the old
one would be merged over what the hooks left. Nothing here needs a client.

This module alone of the translator imports the SDK, and hookgate.translator does not import it.
"""

import inspect
from copy import deepcopy
from typing import Any

# The conversions that generate_content runs its own arguments through; there is no public door to them.
from google.genai import _transformers, types

from hookgate.translator.fields import (
    JsonObject,
    camel,
    read,
    read_list,
    read_object,
    snake,
    without,
    write,
)
from hookgate.translator.sdkmodels import dump, load, load_known, merged, part_known

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
"""Fields of the SDK's config that go by another name on the wire."""

_ALIASES = {
    _RENAMED.get(camel(name), camel(name)): camel(name) for name in _Config.model_fields.keys() - _LOCAL
}
"""The wire's name of each field of the config, and the SDK's."""

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
"""The config's fields, by the wire's name, that stand beside generationConfig; all others stand in it."""


# ---- requests


def request_to_rest(
    model: str,
    contents: types.ContentListUnion | types.ContentListUnionDict,
    config: types.GenerateContentConfigOrDict | None = None,
) -> tuple[str, JsonObject]:
    """Model and GenerateContentRequest body for the arguments of `generate_content`.

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
    """The arguments `contents` and `config` of `generate_content` for a body that `check_request` lets pass.

    `request_to_rest(model, *request_from_rest(body))` is `(model, body)` but for what the module's docstring
    names. Tools come back as declarations: the functions behind them stay with the caller. Raises BodyError,
    naming the place, for what the SDK's types cannot hold.
    """
    contents = [_content(item, f"contents[{i}]") for i, item in enumerate(read_list(body, "contents"))]
    sections = without(without(body, "contents"), "generationConfig")
    top, extra = part_known(sections, _TOP)
    fields, others = part_known(read_object(body, "generationConfig"), _ALIASES.keys() - _TOP)
    if top.get("systemInstruction") is not None:
        top["systemInstruction"] = _content(top["systemInstruction"], "systemInstruction")
    if top.get("tools") is not None:
        tools = enumerate(read_list(top, "tools"))
        top["tools"] = [load(types.Tool, tool, f"tools[{i}]") for i, tool in tools]
    if others:
        extra["generationConfig"] = others
    if extra:
        top["httpOptions"] = types.HttpOptions(extra_body=extra)
    config = load(_Config, _named(fields), "generationConfig")
    beside = load(_Config, _named(top), "")
    return contents, config.model_copy(
        update={name: getattr(beside, name) for name in beside.model_fields_set}
    )


# ---- responses


def response_to_rest(response: types.GenerateContentResponse) -> JsonObject:
    """The GenerateContentResponse body, or event of a stream, that the SDK's response stands for."""
    return dump(response, exclude=_LOCAL_OF_RESPONSE)


def response_from_rest(body: JsonObject) -> types.GenerateContentResponse:
    """The SDK's response for a body; BodyError, naming the place, for one that is no response."""
    sent = {key: value for key, value in body.items() if snake(key) not in _LOCAL_OF_RESPONSE}
    if isinstance(candidates := sent.get("candidates"), list):
        sent["candidates"] = [_with_citations(candidate) for candidate in candidates]
    return load_known(_Response, sent)


def _with_citations(candidate: Any) -> Any:
    """The candidate with its citations by Vertex's name, which is the SDK's, instead of the Gemini API's."""
    metadata = read_object(candidate, "citationMetadata") if isinstance(candidate, dict) else {}
    if "citationSources" not in metadata:
        return candidate
    renamed = {"citations" if key == "citationSources" else key: metadata[key] for key in metadata}
    return write(candidate, "citationMetadata", renamed)


# ---- from the SDK


def _plain(config: types.GenerateContentConfig) -> types.GenerateContentConfig:
    """The config with each shorthand of the SDK spelled out."""
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
    return load(types.Content, value, path)


def _named(fields: JsonObject) -> JsonObject:
    """The fields under the SDK's names."""
    return {_ALIASES.get(name, name): value for name, value in fields.items()}
