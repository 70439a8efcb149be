"""What a server says besides its content: flags, numbers, names and times, which hooks are not shown.

A table says what each field may contain, so that no text passes in one of them.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from hookgate.translator.fields import BodyError, JsonObject, camel, same_items

Test = Callable[[Any], bool]
Shape: TypeAlias = Mapping[str, "Test | Shape"]
"""The known fields of an object by their names in camelCase, each with a test of its values or a shape."""


def _is_flag(value: Any) -> bool:
    return isinstance(value, bool)


def _is_number(value: Any) -> bool:
    """Return whether a value is a number; 64-bit integers are strings in JSON."""
    if isinstance(value, str):
        return re.fullmatch(r"[0-9]{1,19}", value) is not None
    return isinstance(value, int | float) and not _is_flag(value)


def _matches(pattern: str) -> Test:
    compiled = re.compile(pattern)
    return lambda value: isinstance(value, str) and compiled.fullmatch(value) is not None


def _is_anything(_: Any) -> bool:
    """Return True, for a field that is judged or checked elsewhere."""
    return True


_is_name = _matches(r"(?=.{1,64}$)[A-Z]+(?:_[A-Z]+)*")
_is_time = _matches(r"[0-9]{1,9}(?:\.[0-9]{1,9})?s")
_is_id = _matches(r"[A-Za-z0-9-]{1,64}")
_is_language = _matches(r"[A-Za-z]{2,3}(?:-[A-Za-z0-9]{1,8}){0,3}")
_is_role = _matches("model|user")

_TRANSCRIPTION: Shape = {"text": _is_anything, "finished": _is_flag, "languageCode": _is_language}
_TOKENS: Shape = {"modality": _is_name, "tokenCount": _is_number}

CONTENT: Shape = {
    **dict.fromkeys(("modelTurn", "groundingMetadata", "urlContextMetadata"), _is_anything),
    **dict.fromkeys(("turnComplete", "interrupted", "generationComplete", "waitingForInput"), _is_flag),
    **dict.fromkeys(("turnCompleteReason", "interactionStatus"), _is_name),
    **dict.fromkeys(("inputTranscription", "outputTranscription"), _TRANSCRIPTION),
}
TURN: Shape = {"parts": _is_anything, "role": _is_role}
TOOL_CALL: Shape = {"functionCalls": _is_anything}
MESSAGE: Shape = {
    "setupComplete": {"sessionId": _is_id},
    "serverContent": _is_anything,
    "toolCall": _is_anything,
    "toolCallCancellation": {"ids": _is_anything},
    "usageMetadata": {
        **dict.fromkeys(
            (
                *("promptTokenCount", "cachedContentTokenCount", "responseTokenCount", "totalTokenCount"),
                *("toolUsePromptTokenCount", "thoughtsTokenCount"),
            ),
            _is_number,
        ),
        **dict.fromkeys(
            (
                *("promptTokensDetails", "cacheTokensDetails", "responseTokensDetails"),
                "toolUsePromptTokensDetails",
            ),
            _TOKENS,
        ),
        **dict.fromkeys(("trafficType", "serviceTier"), _is_name),
    },
    "goAway": {"timeLeft": _is_time},
    "sessionResumptionUpdate": {"resumable": _is_flag, "lastConsumedClientMessageIndex": _is_number},
    "voiceActivityDetectionSignal": {"vadSignalType": _is_name},
    "voiceActivity": {"voiceActivityType": _is_name, "audioOffset": _is_time},
}


def only_known(obj: JsonObject, shape: Shape) -> JsonObject:
    """Return the object without fields that the shape does not know, or that contain something else.

    Returns the same object if all of it is known. Raises BodyError if an object is expected but missing.
    """
    kept: JsonObject = {}
    for key, value in obj.items():
        known = shape.get(camel(key))
        if known is None:
            continue
        if value is None or (callable(known) and known(value)):
            kept[key] = value
        elif isinstance(known, Mapping):
            kept[key] = _only_known_items(key, value, known)
    return obj if same_items([*kept.values()], [*obj.values()]) else kept


def _only_known_items(name: str, value: Any, shape: Shape) -> Any:
    """Return the objects of a field that contains one, or a list of them."""
    if isinstance(value, dict):
        return only_known(value, shape)
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        raise BodyError(name, "it must be an object")
    items = [only_known(item, shape) for item in value]
    return value if same_items(items, value) else items
