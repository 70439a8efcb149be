"""Reads requests as the API does, bare or in Code Assist's envelopes, and refuses what the API refuses."""

import re
from collections.abc import Mapping
from itertools import chain, pairwise
from typing import Any, TypeAlias

Json = dict[str, Any]
Shape: TypeAlias = Mapping[str, "Shape"]

# Positions at which the API itself defines the fields, so that a field has two spellings. Below them is the
# user's data (arguments, responses, schemas), which is never renamed. "[]" marks a list of such objects.
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
    """Raised to refuse a request with an error in Google's format. `status` is the HTTP status."""

    def __init__(self, status: int, message: str) -> None:
        super().__init__(message)
        self.status = status

    def body(self) -> dict[str, Any]:
        """Return `{"error": {"code", "message", "status"}}`, for a 429 with the API's advice to wait."""
        error = {"code": self.status, "message": str(self), "status": _STATUSES.get(self.status, "UNKNOWN")}
        return {"error": error | ({"details": [_RETRY_INFO]} if self.status == 429 else {})}


def canonical_request(value: Any, shape: Shape = _REQUEST, place: str = "") -> Json:
    """Return a copy of an object with the API's fields in camelCase, and without nulls.

    Raises EmbeddedApiError (400) if the request has another value where the API requires an object or a list,
    or if an object has a field in both spellings.
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
    """Return the canonical form of a generateContent body. Raises EmbeddedApiError (400) as the API would."""
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
    """Raise EmbeddedApiError (400) unless each part of a canonical content has exactly one kind of data."""
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
    """Return the function declarations of all tools by name, in their order."""
    tools = request.get("tools", [])
    declarations = chain(*(tool.get("functionDeclarations", []) for tool in tools))
    return {each["name"]: each for each in declarations if isinstance(each.get("name"), str)}


def calling_config(request: Json) -> Json:
    """Return the functionCallingConfig, or an empty object if the request has none."""
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
"""The answers to POST requests, by method."""

GETS: dict[str, Json] = {
    ":getCodeAssistGlobalUserSetting": _USER_SETTING,
    "/operations/embedded": _ONBOARDED,
}
"""The answers to GET requests, by the path after the version."""


def open_envelope(body: Any) -> tuple[str, Json]:
    """Return the model and the request in an envelope. For countTokens, the model is in the request.

    Raises EmbeddedApiError (400) for a body without them.
    """
    request = body.get("request") if isinstance(body, dict) else None
    if not isinstance(request, dict):
        raise EmbeddedApiError(400, "Invalid value at 'request': an object is expected.")
    model = body.get("model") or request.get("model")
    if not isinstance(model, str) or not model:
        raise EmbeddedApiError(400, "Invalid value at 'model': a model's name is expected.")
    return model.removeprefix("models/"), {name: item for name, item in request.items() if name != "model"}


def wrap_answer(response: Json) -> Json:
    """Return an answer, or an event of one, in its envelope."""
    return {"response": response, "traceId": response.get("responseId", _PROJECT)}
