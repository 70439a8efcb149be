"""The fields of OpenAI's bodies: refuses those that another parser could take for fields that are read.

It also writes the fields of an edited request.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from hookgate.translator.checks import check_spellings
from hookgate.translator.fields import BodyError, JsonObject, camel, same

TAKEN = frozenset({"contents", "generationConfig", "systemInstruction", "toolConfig"})
"""Fields of a GenerateContentRequest that OpenAI's bodies do not have."""

_SETTINGS = (
    *("maxOutputTokens", "maxTokens", "maxCompletionTokens", "candidateCount", "n", "stopSequences", "stop"),
    *("responseMimeType", "responseSchema", "responseJsonSchema", "responseFormat"),
)
_NOT_EXTENSIONS = frozenset(name.lower() for name in (*TAKEN, "tools", *_SETTINGS))
"""Fields of a GenerateContentRequest, in small letters, that Google's extensions must not have."""

_SHOWN_AS = frozenset(
    {
        *("codeExecutionResult", "executableCode", "fileData", "functionCall", "functionResponse"),
        *("inlineData", "parts", "thought", "thoughtSignature", "toolCall", "toolResponse"),
    }
)
"""Fields that mean something in generateContent, and do not exist in OpenAI's APIs.

Messages have `function_call`, which SDKs dump as null. Its readers refuse any other value.
"""

_NAMES = frozenset(
    {
        *("arguments", "background", "call_id", "choices", "content", "conversation", "data", "delta"),
        *("encrypted_content", "extra_body", "extra_content", "file", "file_data", "file_id", "file_url"),
        *("finish_reason", "format", "function", "function_call", "functions", "image_url", "input"),
        *("input_audio", "instructions", "item", "logprobs", "max_completion_tokens", "max_output_tokens"),
        *("max_tokens", "message", "messages", "model", "name", "output", "part", "previous_response_id"),
        *("prompt", "reasoning", "reasoning_content", "refusal", "response", "response_format", "role"),
        *("stop", "stream", "stream_options", "summary", "text", "tool_call_id", "tool_calls"),
        *("tool_choice", "tools", "type", "url", "usage", "web_search_options"),
    }
)
"""Fields that are read, or that decide whether a call is allowed."""

_USUAL = (_NAMES - {"file_data"}) | {
    *("annotations", "content_index", "created", "id", "index", "item_id", "object", "output_index"),
    *("sequence_number", "status", "system_fingerprint"),
}
"""Fields that no check concerns, as most objects have."""

_PLAIN_NAMES = {name.replace("_", ""): name for name in _NAMES}
_DATA_URL = re.compile(r"data:([^,]*);base64,(.*)", re.DOTALL)


def check_openai_fields(obj: Any, path: str) -> JsonObject:
    """Return an object whose fields can be shown under their own names. Raises BodyError."""
    if type(obj) is dict and obj.keys() <= _USUAL:
        return obj
    checked = check_spelled_fields(obj, path)
    for key, value in checked.items():
        if value is not None and key != "function_call" and camel(key) in _SHOWN_AS:
            raise BodyError(f"{path}.{key}" if path else key, "OpenAI's APIs have no such field")
    return checked


def check_spelled_fields(obj: Any, path: str) -> JsonObject:
    """Return an object in which no other parser could take a field for one that is read. Raises BodyError."""
    if not isinstance(obj, dict):
        raise BodyError(path, "it must be an object, since hooks cannot inspect other types")
    check_spellings(obj, path)
    for key in obj:
        name = _PLAIN_NAMES.get(key.replace("_", "").lower())
        if name is not None and key != name:
            raise BodyError(f"{path}.{key}" if path else key, f"the field must be spelled {name!r}")
    return obj


def read_string(obj: JsonObject, key: str, path: str) -> str:
    """Return a field that must be a string. Raises BodyError."""
    value = obj.get(key)
    if not isinstance(value, str):
        raise BodyError(
            f"{path}.{key}" if path else key, "it must be a string, since hooks cannot inspect other types"
        )
    return value


def decode_url(url: str, path: str) -> JsonObject:
    """Return `inlineData` for a URL that contains it, and `fileData` for any other URL. Raises BodyError."""
    if found := _DATA_URL.fullmatch(url):
        return {"inlineData": {"mimeType": found[1], "data": found[2]}}
    if url.lstrip()[:5].lower() == "data:":
        raise BodyError(path, "hooks can inspect data URLs only in the form data:TYPE;base64,DATA")
    return {"fileData": {"fileUri": url}}


def decode_extensions(body: JsonObject, shown: JsonObject) -> None:
    """Show the cached content that is named in Google's extensions of the API.

    Raises BodyError for an extension that hooks would not see as what it is, such as tools.
    """
    extensions = body.get("extra_body")
    if extensions is not None and not (isinstance(extensions, dict) and extensions.keys() <= {"google"}):
        raise BodyError("extra_body", "hooks know only the field 'google' in it")
    _check_extension((extensions or {}).get("google"), "extra_body.google")
    _check_extension(body.get("google"), "google")
    caches = [*_cached_contents([extensions, body.get("google")])]
    own = [shown[key] for key in ("cachedContent", "cached_content") if shown.get(key) is not None]
    if len(caches) + len(own) > 1:
        raise BodyError("extra_body", "cached content must be named once")
    if caches:
        shown["cachedContent"] = caches[0]


def _check_extension(extension: Any, path: str) -> None:
    for key, value in extension.items() if isinstance(extension, dict) else ():
        if value is not None and key.replace("_", "").lower() in _NOT_EXTENSIONS:
            raise BodyError(
                f"{path}.{key}", "hooks judge this only as OpenAI's API has it, in the body itself"
            )


def edited_body(  # noqa: PLR0913  # the request before and after, and what differs between dialects
    body: JsonObject,
    shown: JsonObject,
    model: str,
    request: JsonObject,
    *,
    encode: Callable[[JsonObject], JsonObject],
    no_field: str,
) -> JsonObject:
    """Return a body with the model and the edited request; the body itself if nothing changed.

    Args:
        body: The original body.
        shown: The GenerateContentRequest that hooks were shown.
        model: The model, as the body has to name it.
        request: The request after the hooks' edits.
        encode: Returns the fields for a request that are shown under other names; None for one to remove.
        no_field: What errors say of a field that a body cannot have.

    Raises BodyError if a body cannot express the request.
    """
    if request is shown or same(request, shown):
        return body if model == body["model"] else {**body, "model": model}
    new: JsonObject = {"model": model} | {key: body[key] for key in ("stream",) if key in body}
    encoded = encode(request)
    new |= encoded
    for key, value in request.items():
        if camel(key) in TAKEN or camel(key) == "tools":
            continue
        if key not in body and not same(value, shown.get(key)):
            raise BodyError(key, no_field)
        if key in body and key not in new:
            new[key] = value
    kept = {key: new.pop(key, None) for key, value in body.items() if value is None or key in new}
    removed = {key for key, value in encoded.items() if value is None and body.get(key) is not None}
    return {key: value for key, value in {**kept, **new}.items() if key not in removed}


def _cached_contents(value: Any) -> Iterator[Any]:
    if isinstance(value, dict):
        for key, item in value.items():
            if key.replace("_", "").lower() != "cachedcontent":
                yield from _cached_contents(item)
            elif item is not None:
                yield item
    elif isinstance(value, list):
        for item in value:
            yield from _cached_contents(item)
