"""Checks the JSON types of the fields of a GenerateContentResponse, as the API documents them.

Some clients leave out an event with a field of another type, and join the texts before and after it, while
hooks have read the text in between. Fields that are not known here may have any type.
"""

from collections.abc import Mapping
from typing import Any

from hookgate.translator.fields import BodyError, JsonObject, camel, snake

_NUMBER = (int, float)

_RATINGS = [{"category": str, "probability": str, "severity": str, "blocked": bool}]
_DETAILS = [{"modality": str, "tokenCount": _NUMBER}]
_PAGE = {"uri": str, "title": str, "domain": str, "text": str}
_CITATIONS = [{"startIndex": _NUMBER, "endIndex": _NUMBER, "uri": str, "title": str, "license": str}]

_ANSWER: Mapping[str, Any] = {
    "responseId": str,
    "modelVersion": str,
    "createTime": str,
    "promptFeedback": {"blockReason": str, "blockReasonMessage": str, "safetyRatings": _RATINGS},
    "usageMetadata": {
        "cachedContentTokenCount": _NUMBER,
        "candidatesTokenCount": _NUMBER,
        "promptTokenCount": _NUMBER,
        "thoughtsTokenCount": _NUMBER,
        "toolUsePromptTokenCount": _NUMBER,
        "totalTokenCount": _NUMBER,
        "cacheTokensDetails": _DETAILS,
        "candidatesTokensDetails": _DETAILS,
        "promptTokensDetails": _DETAILS,
        "toolUsePromptTokensDetails": _DETAILS,
        "serviceTier": str,
        "trafficType": str,
    },
    "candidates": [
        {
            "finishReason": str,
            "finishMessage": str,
            "continuationToken": str,
            "safetyRatings": _RATINGS,
            "citationMetadata": {"citationSources": _CITATIONS, "citations": _CITATIONS},
            "groundingMetadata": {
                "webSearchQueries": [str],
                "imageSearchQueries": [str],
                "retrievalQueries": [str],
                "retrievalMetadata": {},
                "searchEntryPoint": {"renderedContent": str},
                "groundingChunks": [
                    {
                        "web": _PAGE,
                        "maps": {**_PAGE, "placeId": str},
                        "image": {**_PAGE, "imageUri": str, "sourceUri": str},
                        "retrievedContext": {**_PAGE, "fileSearchStore": str},
                    }
                ],
                "groundingSupports": [
                    {
                        "segment": {
                            "startIndex": _NUMBER,
                            "endIndex": _NUMBER,
                            "partIndex": _NUMBER,
                            "text": str,
                        },
                        "groundingChunkIndices": [_NUMBER],
                        "confidenceScores": [_NUMBER],
                    }
                ],
            },
            "urlContextMetadata": {"urlMetadata": [{"retrievedUrl": str, "urlRetrievalStatus": str}]},
            "content": {
                "parts": [
                    {
                        "thoughtSignature": str,
                        "functionCall": {
                            "id": str,
                            "willContinue": bool,
                            "partialArgs": [
                                {
                                    "jsonPath": str,
                                    "stringValue": str,
                                    "numberValue": _NUMBER,
                                    "boolValue": bool,
                                    "willContinue": bool,
                                }
                            ],
                        },
                        "inlineData": {"mimeType": str, "data": str},
                        "executableCode": {"language": str, "code": str},
                        "codeExecutionResult": {"outcome": str, "output": str},
                        "toolCall": {"toolType": str, "id": str},
                        "toolResponse": {"toolType": str, "id": str},
                    }
                ]
            },
        }
    ],
}
"""The fields of an answer: the type of each, an object of such fields, or a list with its items."""

_NAMES: Mapping[Any, str] = {
    str: "a string",
    bool: "true or false",
    _NUMBER: "a number",
}


def _by_spelling(expected: Any) -> Any:
    """Return expected fields by both spellings of their names. The types of a value are a set."""
    if isinstance(expected, list):
        return [_by_spelling(each) for each in expected]
    if isinstance(expected, Mapping):
        fields = {name: _by_spelling(field) for name, field in expected.items()}
        return {snake(name): field for name, field in fields.items()} | fields
    return frozenset(expected if isinstance(expected, tuple) else (expected,))


_ANSWER_BY_SPELLING = _by_spelling(_ANSWER)


def check_types(answer: JsonObject) -> None:
    """Check the types of the known fields of an answer, or of an event of a stream. Raises BodyError."""
    if not _fits(answer, _ANSWER_BY_SPELLING):
        _check(answer, _ANSWER, "")


def _fits(value: Any, expected: Any) -> bool:
    """Return whether the known fields have exactly the types that the API documents.

    This is true of nearly all answers, and takes a third of the time of `_check`, which knows the place of a
    mistake.
    """
    if type(expected) is list:
        return type(value) is list and all(_fits(item, expected[0]) for item in value)
    if type(expected) is frozenset:
        return type(value) in expected
    if type(value) is not dict:
        return False
    for name, item in value.items():
        field = expected.get(name)
        if field is None or item is None:
            continue
        if type(field) is frozenset:  # no call for most fields
            if type(item) not in field:
                return False
        elif not _fits(item, field):
            return False
    return True


def _check(value: Any, expected: Any, path: str) -> None:
    if value is None:
        return
    if isinstance(expected, list):
        if not isinstance(value, list):
            raise BodyError(path, "it must be a list")
        for at, item in enumerate(value):
            if item is None:
                raise BodyError(f"{path}[{at}]", "it must not be null")
            _check(item, expected[0], f"{path}[{at}]")
    elif isinstance(expected, dict):
        if not isinstance(value, dict):
            raise BodyError(path, "it must be an object")
        for name, item in value.items():
            if (field := expected.get(camel(name))) is not None and item is not None:
                _check(item, field, f"{path}.{name}" if path else name)
    elif not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise BodyError(path, f"it must be {_NAMES[expected]}")
