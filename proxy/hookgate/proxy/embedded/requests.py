"""Requests read as the API reads them, bare or in Code Assist's envelopes, and refused where it refuses."""

import re
from collections.abc import Mapping
from itertools import chain, pairwise
from typing import Any, TypeAlias

Json = dict[str, Any]
Shape: TypeAlias = Mapping[str, "Shape"]

# Where the API itself names the fields, so that one field has two spellings. Below these positions lies the
# user's data (arguments, responses, schemas), which is never respelled. "[]" marks a list of such objects.
_CONTENT: Shape = {"parts[]": {"inlineData": {}, "fileData": {}, "functionCall": {}, "functionResponse": {}}}
_GENERATE: Shape = {
    "contents[]": _CONTENT,
    "systemInstruction": _CONTENT,
    "tools[]": {"functionDeclarations[]": {}},
    "toolConfig": {"functionCallingConfig": {}},
    "generationConfig": {"thinkingConfig": {}},
}
_EMBED: Shape = {"content": _CONTENT, "embedContentConfig": {}}
_REQUEST: Shape = {**_GENERATE, **_EMBED, "generateContentRequest": _GENERATE, "requests[]": _EMBED}

_DATA = {"text", "inlineData", "fileData", "functionCall", "functionResponse"}
_SERVER_TOOL_DATA = {"executableCode", "codeExecutionResult", "toolCall", "toolResponse"}
_BESIDE_DATA = {"thought", "thoughtSignature", "videoMetadata", "partMetadata", "mediaResolution"}
_MODES = ("MODE_UNSPECIFIED", "AUTO", "ANY", "NONE", "VALIDATED")


_STATUSES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    409: "ABORTED",
    429: "RESOURCE_EXHAUSTED",
    499: "CANCELLED",
    500: "INTERNAL",
    501: "UNIMPLEMENTED",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}
_RETRY_INFO = {"@type": "type.googleapis.com/google.rpc.RetryInfo", "retryDelay": "1s"}


class EmbeddedApiError(Exception):
    """A refusal in Google's error shape: `status` is the HTTP status, the message is for the caller."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> dict[str, Any]:
        """{"error": {"code", "message", "status"}}, with the API's advice to wait on a 429."""
        error = {"code": self.status, "message": str(self), "status": _STATUSES.get(self.status, "UNKNOWN")}
        return {"error": error | ({"details": [_RETRY_INFO]} if self.status == 429 else {})}


def canonical_request(value: Any, shape: Shape = _REQUEST, place: str = "") -> Json:
    """A copy of an object with camelCase names where the API names the fields, and without its nulls.

    ApiError 400 where the API has an object or a list and the request has not, or where one object holds a
    field in both spellings.
    """
    if not isinstance(value, dict):
        raise EmbeddedApiError(400, f"Invalid value at '{place or 'the request'}': an object is expected.")
    result: Json = {}
    for spelling, item in value.items():
        name = re.sub(r"_([a-z])", lambda match: match[1].upper(), spelling)
        where = f"{place}.{name}" if place else name
        if name in result:
            raise EmbeddedApiError(400, f"Invalid JSON payload received. The field '{where}' is given twice.")
        result[name] = _canonical_field(item, shape, name, where)
    return {name: item for name, item in result.items() if item is not None}


def _canonical_field(value: Any, shape: Shape, name: str, place: str) -> Any:
    item_shape = shape.get(f"{name}[]")
    if value is None or (name not in shape and item_shape is None):
        return value
    if item_shape is None:
        return canonical_request(value, shape[name], place)
    if not isinstance(value, list):
        raise EmbeddedApiError(400, f"Invalid value at '{place}': a list is expected.")
    return [canonical_request(item, item_shape, f"{place}[{index}]") for index, item in enumerate(value)]


def validated_request(body: Any) -> Json:
    """The canonical form of a generateContent body; ApiError 400 for what the API refuses as well."""
    request = canonical_request(body)
    if not request.get("contents"):
        raise EmbeddedApiError(400, "* GenerateContentRequest.contents: contents is not specified")
    for index, content in enumerate(request["contents"]):
        if content.get("role", "user") not in ("user", "model", "function"):
            raise EmbeddedApiError(400, f"contents[{index}]: Please use a valid role: user, model.")
        check_parts(content, f"contents[{index}]")
    if "systemInstruction" in request:
        check_parts(request["systemInstruction"], "systemInstruction")
    _check_tool_turns(request["contents"])
    _check_calling(request)
    return request


def check_parts(content: Json, place: str) -> None:
    """ApiError 400 unless each part of a canonical content carries exactly one kind of data."""
    if not content.get("parts"):
        raise EmbeddedApiError(
            400, f"* GenerateContentRequest.{place}.parts: contents.parts must not be empty."
        )
    for index, part in enumerate(content["parts"]):
        data = part.keys() - _BESIDE_DATA
        if len(data) != 1 or not data <= _DATA | _SERVER_TOOL_DATA:
            message = f"exactly one data field is expected, not: {', '.join(sorted(data)) or 'none'}."
            raise EmbeddedApiError(400, f"Invalid value at '{place}.parts[{index}]': {message}")
        if not isinstance(part.get("text", ""), str):
            raise EmbeddedApiError(
                400, f"Invalid value at '{place}.parts[{index}].text': a string is expected."
            )


def _check_tool_turns(contents: list[Json]) -> None:
    for before, content in pairwise([{"parts": []}, *contents]):
        responses = sum("functionResponse" in part for part in content["parts"])
        calls = sum("functionCall" in part for part in before["parts"] if before.get("role") == "model")
        if responses not in (0, calls):
            message = "the number of function response parts is equal to the number of function call parts"
            raise EmbeddedApiError(
                400, f"Please ensure that {message} of the function call turn, directly before it."
            )


def _check_calling(request: Json) -> None:
    declared = list(declared_functions(request))
    calling = calling_config(request)
    mode = calling.get("mode", "AUTO")
    allowed = calling.get("allowedFunctionNames") or []
    if mode not in _MODES:
        raise EmbeddedApiError(400, f"Invalid value at 'toolConfig.functionCallingConfig.mode': {mode!r}.")
    if mode == "ANY" and not declared:
        raise EmbeddedApiError(400, "Function calling config is set without function_declarations.")
    if allowed and mode not in ("ANY", "VALIDATED"):
        raise EmbeddedApiError(400, "Allowed function names need the function calling mode ANY or VALIDATED.")
    if not isinstance(allowed, list) or any(name not in declared for name in allowed):
        raise EmbeddedApiError(
            400, f"Allowed function names must be a list of declared functions, not {allowed!r}."
        )


def declared_functions(request: Json) -> dict[str, Json]:
    """The function declarations of all tools, by name, in their order."""
    tools = request.get("tools", [])
    declarations = chain(*(tool.get("functionDeclarations", []) for tool in tools))
    return {each["name"]: each for each in declarations if isinstance(each.get("name"), str)}


def calling_config(request: Json) -> Json:
    """The functionCallingConfig, empty when the request has none."""
    calling: Json = request.get("toolConfig", {}).get("functionCallingConfig", {})
    return calling


_PROJECT = "embedded"
_ONBOARDED: Json = {
    "name": "operations/embedded",
    "done": True,
    "response": {"cloudaicompanionProject": {"id": _PROJECT, "name": _PROJECT}},
}
_USER_SETTING: Json = {"cloudaicompanionProject": _PROJECT, "freeTierDataCollectionOptin": False}

POSTS: dict[str, Json] = {
    "loadCodeAssist": {
        "currentTier": {"id": "standard-tier", "name": _PROJECT},
        "cloudaicompanionProject": _PROJECT,
    },
    "onboardUser": _ONBOARDED,
    "setCodeAssistGlobalUserSetting": _USER_SETTING,
    "recordCodeAssistMetrics": {},
    "fetchAdminControls": {},
    "listExperiments": {"flags": [], "experimentIds": []},
    "retrieveUserQuota": {"buckets": []},
}
"""The answers to POST, by method."""

GETS: dict[str, Json] = {
    ":getCodeAssistGlobalUserSetting": _USER_SETTING,
    "/operations/embedded": _ONBOARDED,
}
"""The answers to GET, by what follows the version."""


def open_envelope(body: Any) -> tuple[str, Json]:
    """The model and the request in an envelope; where countTokens has it, the model is in the request.

    ApiError 400 for a body without them.
    """
    request = body.get("request") if isinstance(body, dict) else None
    if not isinstance(request, dict):
        raise EmbeddedApiError(400, "Invalid value at 'request': an object is expected.")
    model = body.get("model") or request.get("model")
    if not isinstance(model, str) or not model:
        raise EmbeddedApiError(400, "Invalid value at 'model': a model's name is expected.")
    return model.removeprefix("models/"), {name: item for name, item in request.items() if name != "model"}


def wrap_answer(response: Json) -> Json:
    """An answer, or an event of one, in its envelope."""
    return {"response": response, "traceId": response.get("responseId", _PROJECT)}
