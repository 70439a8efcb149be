"""Checks the JSON types of the fields of a GenerateContentResponse, as the API documents them.

Some clients leave out an event with a field of another type, and join the texts before and after it, while
hooks have read the text in between. Fields that are not known here may have any type.

They do the same if one of some fields is missing, because it has its default. These get it here.

Chats of SDKs send an answer again as it is, so it must speak as the model, and not as the user or a tool.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

from hookgate.translator.fields import BodyError, JsonObject, camel, read, same_items, snake, spelling

_MODEL = "model"
"""The only role of an answer."""
_NOTHING = ()
_NUMBER = (int, float)
_LOGARITHM = (int, float, str)
_NOT_FINITE = frozenset({"NaN", "Infinity", "-Infinity"})
"""What a logarithm may be if it is a string."""


class _Object(NamedTuple):
    """An object that clients read only if it has some of its fields."""

    fields: Mapping[str, Any]
    defaults: Mapping[str, Any]
    """The values of fields that must not be missing."""


_RATINGS = [
    {
        **dict.fromkeys(("category", "probability", "severity", "overwrittenThreshold"), str),
        **dict.fromkeys(("probabilityScore", "severityScore"), _NUMBER),
        "blocked": bool,
    }
]
_DETAILS = [
    _Object({"modality": str, "tokenCount": _NUMBER}, {"modality": "MODALITY_UNSPECIFIED", "tokenCount": 0})
]
_CITATIONS = [
    {
        **dict.fromkeys(("uri", "title", "license"), str),
        **dict.fromkeys(("startIndex", "endIndex"), _NUMBER),
        "publicationDate": dict.fromkeys(("day", "month", "year"), _NUMBER),
    }
]

_USAGE = {
    **dict.fromkeys(("cachedContentTokenCount", "candidatesTokenCount", "promptTokenCount"), _NUMBER),
    **dict.fromkeys(("thoughtsTokenCount", "toolUsePromptTokenCount", "totalTokenCount"), _NUMBER),
    **dict.fromkeys(("cacheTokensDetails", "candidatesTokensDetails", "promptTokensDetails"), _DETAILS),
    "toolUsePromptTokensDetails": _DETAILS,
    **dict.fromkeys(("serviceTier", "trafficType"), str),
}

_SNIPPET = {
    "authorAttribution": dict.fromkeys(("displayName", "photoUri", "uri"), str),
    **dict.fromkeys(("flagContentUri", "googleMapsUri", "relativePublishTimeDescription"), str),
    **dict.fromkeys(("review", "reviewId", "title"), str),
}
_MAPS = {
    **dict.fromkeys(("uri", "title", "text", "placeId"), str),
    "placeAnswerSources": {
        "flagContentUri": str,
        "reviewSnippet": [_SNIPPET],
        "reviewSnippets": [_SNIPPET],
    },
    "route": {"distanceMeters": _NUMBER, "duration": str, "encodedPolyline": str},
}
_RETRIEVED = {
    **dict.fromkeys(("uri", "title", "text", "documentName", "fileSearchStore", "mediaId"), str),
    "pageNumber": _NUMBER,
    "customMetadata": [
        _Object(
            {
                **dict.fromkeys(("key", "stringValue"), str),
                "numericValue": _NUMBER,
                "stringListValue": {"values": [str]},
            },
            {"key": ""},
        )
    ],
    "ragChunk": {
        **dict.fromkeys(("text", "chunkId", "fileId"), str),
        "pageSpan": dict.fromkeys(("firstPage", "lastPage"), _NUMBER),
    },
}
_GROUNDING = {
    **{key: [str] for key in ("webSearchQueries", "imageSearchQueries", "retrievalQueries")},
    "googleMapsWidgetContextToken": str,
    "retrievalMetadata": dict.fromkeys(
        ("googleSearchDynamicRetrievalScore", "webDynamicRetrievalScore"), _NUMBER
    ),
    "searchEntryPoint": _Object(
        dict.fromkeys(("renderedContent", "sdkBlob"), str),
        {"renderedContent": ""},
    ),
    "sourceFlaggingUris": [dict.fromkeys(("flagContentUri", "sourceId"), str)],
    "groundingChunks": [
        {
            "web": _Object(dict.fromkeys(("uri", "title", "domain"), str), {"uri": ""}),
            "maps": _MAPS,
            "image": _Object(
                dict.fromkeys(("sourceUri", "imageUri", "title", "domain"), str),
                {"sourceUri": "", "imageUri": ""},
            ),
            "retrievedContext": _RETRIEVED,
        }
    ],
    "groundingSupports": [
        {
            "segment": {**dict.fromkeys(("startIndex", "endIndex", "partIndex"), _NUMBER), "text": str},
            **{key: [_NUMBER] for key in ("groundingChunkIndices", "confidenceScores", "renderedParts")},
            # Vertex AI had other names for them.
            **{key: [_NUMBER] for key in ("supportChunkIndices", "confidenceScore")},
            "segmentText": str,
        }
    ],
}

_LOGPROB = {"token": str, "tokenId": _NUMBER, "logProbability": _LOGARITHM}
_LOGPROBS = {
    "chosenCandidates": [_LOGPROB],
    "topCandidates": [{"candidates": [_LOGPROB]}],
    "logProbabilitySum": _LOGARITHM,
}

_OFFSETS = dict.fromkeys(("startOffset", "endOffset"), str)
_BLOB = _Object(dict.fromkeys(("mimeType", "data", "displayName"), str), {"mimeType": "", "data": ""})
_MEDIA = {
    "inlineData": _BLOB,
    "fileData": dict.fromkeys(("mimeType", "fileUri", "displayName"), str),
    "mediaProcessing": str,
    "mediaResolution": {"level": str, "numTokens": _NUMBER},
    "videoMetadata": {**_OFFSETS, "fps": _NUMBER, "contentLayers": [str]},
    "audioMetadata": _OFFSETS,
    "documentMetadata": {
        **dict.fromkeys(("startPage", "endPage"), _NUMBER),
        "contentLayers": [str],
    },
    "spreadsheetMetadata": {"visibleCells": str, "sheetIndex": _NUMBER, "contentLayers": [str]},
}
_PART = {
    **_MEDIA,
    "thought": bool,
    "thoughtSignature": str,
    "functionCall": {
        **dict.fromkeys(("id", "name"), str),
        "args": {},
        "willContinue": bool,
        "partialArgs": [
            {
                **dict.fromkeys(("jsonPath", "nullValue", "stringValue"), str),
                "numberValue": _NUMBER,
                **dict.fromkeys(("boolValue", "willContinue"), bool),
            }
        ],
    },
    "functionResponse": _NOTHING,
    "executableCode": _Object(
        dict.fromkeys(("language", "code", "id"), str), {"language": "LANGUAGE_UNSPECIFIED", "code": ""}
    ),
    "codeExecutionResult": _Object(
        dict.fromkeys(("outcome", "output", "id"), str), {"outcome": "OUTCOME_UNSPECIFIED"}
    ),
    "toolCall": _Object(
        {**dict.fromkeys(("toolType", "id"), str), "args": {}},
        {"toolType": "TOOL_TYPE_UNSPECIFIED", "id": ""},
    ),
    "toolResponse": _Object(
        {**dict.fromkeys(("toolType", "id"), str), "response": {}},
        {"toolType": "TOOL_TYPE_UNSPECIFIED", "id": ""},
    ),
    "audioTranscription": {
        **dict.fromkeys(("text", "languageCode", "speakerLabel"), str),
        **_OFFSETS,
        "finished": bool,
        "words": [{"word": str, **_OFFSETS}],
    },
    "speechMetadata": dict.fromkeys(("speaker", "style"), str),
    "partMetadata": {},
}

_ANSWER: Mapping[str, Any] = {
    **dict.fromkeys(("responseId", "modelVersion", "createTime"), str),
    "promptFeedback": {
        **dict.fromkeys(("blockReason", "blockReasonMessage"), str),
        "safetyRatings": _RATINGS,
    },
    "usageMetadata": _USAGE,
    "modelStatus": dict.fromkeys(("message", "modelStage", "retirementTime"), str),
    "candidates": [
        {
            **dict.fromkeys(("finishReason", "finishMessage", "continuationToken"), str),
            "tokenCount": _NUMBER,
            "avgLogprobs": _LOGARITHM,
            "logprobsResult": _LOGPROBS,
            "safetyRatings": _RATINGS,
            "citationMetadata": {"citationSources": _CITATIONS, "citations": _CITATIONS},
            "groundingMetadata": _GROUNDING,
            "urlContextMetadata": {
                "urlMetadata": [
                    _Object(
                        dict.fromkeys(("retrievedUrl", "urlRetrievalStatus"), str),
                        {"retrievedUrl": "", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_UNSPECIFIED"},
                    )
                ]
            },
            "content": {"role": _MODEL, "parts": [_PART]},
        }
    ],
}
"""The fields of an answer: the type of each, an object of such fields, or a list with its items."""

_NAMES: Mapping[Any, str] = {
    _NOTHING: "missing, because only the client has results of functions",
    str: "a string",
    bool: "true or false",
    _NUMBER: "a number",
    _LOGARITHM: "a number",
}


def _by_spelling(expected: Any) -> Any:
    """Return expected fields by both spellings of their names. The types of a value are a set."""
    if isinstance(expected, _Object):
        return _Object(_by_spelling(expected.fields), expected.defaults)
    if isinstance(expected, list):
        return [_by_spelling(each) for each in expected]
    if isinstance(expected, Mapping):
        fields = {name: _by_spelling(field) for name, field in expected.items()}
        return {snake(name): field for name, field in fields.items()} | fields
    if isinstance(expected, str):
        return expected
    if expected is _LOGARITHM:
        return frozenset(_NUMBER)  # `_typed` reads strings
    return frozenset(expected if isinstance(expected, tuple) else (expected,))


_ANSWER_BY_SPELLING = _by_spelling(_ANSWER)


def typed_answer(answer: JsonObject) -> JsonObject:
    """Return an answer, or an event of a stream, with the fields without which clients would leave it out.

    Returns the same object if none is missing. Raises BodyError if a known field has another type.
    """
    if _fits(answer, _ANSWER_BY_SPELLING):
        return answer
    typed: JsonObject = _typed(answer, _ANSWER, "")
    return typed


def _fits(value: Any, expected: Any) -> bool:  # noqa: C901, PLR0911  # one for each kind of field
    """Return whether the known fields have exactly the types that the API documents, and none is missing.

    This is true of nearly all answers, and takes a third of the time of `_typed`, which knows the place of a
    mistake.
    """
    if type(expected) is list:
        if type(value) is not list:
            return False
        [one] = expected
        for item in value:  # noqa: SIM110  # all() with a generator takes twice the time
            if not _fits(item, one):
                return False
        return True
    if type(expected) is frozenset:
        return type(value) in expected
    if type(expected) is str:
        return bool(value == expected)
    if type(value) is not dict:
        return False
    if type(expected) is _Object:
        if any(read(value, name) is None for name in expected.defaults):
            return False
        expected = expected.fields
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


def _typed(value: Any, expected: Any, path: str) -> Any:
    if value is None:
        return value
    if isinstance(expected, list):
        if not isinstance(value, list):
            raise BodyError(path, "it must be a list")
        items = [_item(item, expected[0], f"{path}[{at}]") for at, item in enumerate(value)]
        return value if same_items(items, value) else items
    if isinstance(expected, dict | _Object):
        if not isinstance(value, dict):
            raise BodyError(path, "it must be an object")
        return _typed_fields(value, expected, path)
    if isinstance(expected, str):
        if value != expected:
            raise BodyError(path, f"it must be {expected!r}: clients send the answer again")
        return value
    if not isinstance(value, expected) or (isinstance(value, bool) and expected is not bool):
        raise BodyError(path, f"it must be {_NAMES[expected]}")
    if expected is _LOGARITHM and isinstance(value, str) and value not in _NOT_FINITE:
        raise BodyError(path, f"it must be {_NAMES[expected]}")
    return value


def _item(item: Any, expected: Any, path: str) -> Any:
    if item is None:
        raise BodyError(path, "it must not be null")
    return _typed(item, expected, path)


def _typed_fields(value: JsonObject, expected: Mapping[str, Any] | _Object, path: str) -> JsonObject:
    fields = expected.fields if isinstance(expected, _Object) else expected
    changed: JsonObject = {}
    for name, item in value.items():
        field = fields.get(camel(name))
        if field is not None and item is not None:
            typed = _typed(item, field, f"{path}.{name}" if path else name)
            if typed is not item:
                changed[name] = typed
    if isinstance(expected, _Object):
        for name, default in expected.defaults.items():
            if read(value, name) is None:
                changed[spelling(value, name)] = default
    return {**value, **changed} if changed else value
