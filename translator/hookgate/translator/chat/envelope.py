"""The envelope of a chunk with text or calls: fields of which clients know the types, and nothing else.

Some clients leave out a chunk with a field of another type, and join the texts before and after it, while
hooks have read the text in between. Therefore everything else comes in a chunk of its own, without text.
"""

from types import NoneType
from typing import Any

from hookgate.translator.chat.messages import REASONING
from hookgate.translator.fields import BodyError, JsonObject, read_list
from hookgate.translator.openai.tokens import FieldTypes, are_tokens, has_only

_KIND = "chat.completion.chunk"
_TEXT, _NUMBER, _EMPTY = (str, NoneType), (int, float, NoneType), (NoneType,)

_TOP: FieldTypes = {
    "id": _TEXT,
    "object": (str,),
    "created": _NUMBER,
    "model": _TEXT,
    "choices": (list, NoneType),
    "usage": (dict, NoneType),
    "system_fingerprint": _TEXT,
    "service_tier": _TEXT,
}
_CHOICE: FieldTypes = {"index": (int,), "delta": (dict,), "finish_reason": _TEXT, "logprobs": _EMPTY}
_DELTA: FieldTypes = {
    **dict.fromkeys(("role", "content", "refusal", *REASONING), _TEXT),
    "tool_calls": (list, NoneType),
    "extra_content": (dict, NoneType),
    **dict.fromkeys(("function_call", "audio", "annotations"), _EMPTY),
}
_CALL: FieldTypes = {
    "index": (int, NoneType),
    "id": _TEXT,
    "type": _TEXT,
    "function": (dict,),
    "extra_content": (dict, NoneType),
}
_FUNCTION: FieldTypes = {"name": _TEXT, "arguments": _TEXT}
_OF_GOOGLE: FieldTypes = {"thought": (bool, NoneType), "thought_signature": _TEXT}
_SHOWN = ("content", "refusal", "tool_calls", *REASONING)
"""The fields of a delta that hooks are shown as parts."""


def split_chunk(chunk: JsonObject) -> list[JsonObject]:
    """Return the chunk alone if clients cannot leave it out, or else its texts and calls, and then the rest.

    Raises BodyError if it has an error beside its choices.
    """
    choices = read_list(chunk, "choices")
    if not any(map(_has_text, choices)):
        return [chunk]
    if chunk.get("error") is not None:
        raise BodyError("error", "it stands beside choices; some clients show only one of them")
    if any(map(_has_several_thoughts, choices)):
        return [each for part in _by_thoughts(chunk, choices) for each in split_chunk(part)]
    if _fits_top(chunk) and all(map(_fits_choice, choices)):
        return [chunk]
    top = {key: value for key, value in chunk.items() if _is_of(_TOP, key, value)}
    usage = top.get("usage")
    if usage is not None and not _fits_usage(usage):
        del top["usage"]
    top["object"] = _KIND
    shared = {key: value for key, value in top.items() if key != "usage"}
    more = {key: value for key, value in chunk.items() if key not in top and key != "error"}
    if type(kind := chunk.get("object")) not in (str, NoneType):
        more["object"] = kind
    shown, others = [], []
    for number, choice in enumerate(choices):
        own, other = _split_choice(choice, number)
        shown.append(own)
        others += other
    rest = [{**shared, **more, "choices": others}] if others or more else []
    return [{**top, "choices": shown}, *rest]


def _delta_of(choice: Any) -> JsonObject:
    """Return the delta of a choice; empty if it has none."""
    delta = choice.get("delta") if isinstance(choice, dict) else None
    return delta if isinstance(delta, dict) else {}


def _has_several_thoughts(choice: Any) -> bool:
    return sum(_delta_of(choice).get(key) is not None for key in REASONING) > 1


def _by_thoughts(chunk: JsonObject, choices: list[Any]) -> list[JsonObject]:
    """Return a chunk as two, since some clients read only one of the fields for thoughts, even an empty one.

    Each choice with both fields has the first one in the first chunk, unless it is empty.
    """
    first, thoughts, others = REASONING[0], [], []
    for number, choice in enumerate(choices):
        if not _has_several_thoughts(choice):
            others.append(choice)
            continue
        delta, index = choice["delta"], choice.get("index")
        if delta[first]:
            named = number if index is None else index
            thoughts.append({"index": named, "delta": {first: delta[first]}})
        left = {key: value for key, value in delta.items() if key != first}
        others.append({**choice, "delta": left})
    rest = {**chunk, "choices": others}
    if not thoughts:
        return [rest]
    shared = {key: value for key, value in chunk.items() if key in _TOP and key not in ("usage", "choices")}
    return [{**shared, "choices": thoughts}, rest]


def _split_choice(choice: Any, number: int) -> tuple[Any, list[Any]]:
    """Return what a choice shows, and a choice with the rest, if there is any."""
    if not (delta := _delta_of(choice)):
        return choice, []
    own = {key: value for key, value in delta.items() if key in _SHOWN or _fits_delta(key, value)}
    if "tool_calls" in own and not _fits_calls(own["tool_calls"]) and _has_text(choice, besides_calls=True):
        del own["tool_calls"]
    index = choice.get("index")
    new: JsonObject = {"index": number if index is None else index, "delta": own}
    new |= {key: choice[key] for key in ("finish_reason",) if key in choice}
    if "logprobs" in choice:  # others are not sent: their tokens could repeat the text in pieces
        new["logprobs"] = choice["logprobs"] if _fits_logprobs(choice["logprobs"]) else None
    more = {key: value for key, value in choice.items() if key not in _CHOICE}
    rest = {key: value for key, value in delta.items() if key not in own}
    if isinstance(rest.get("role"), str):  # the role of another speaker would concern the texts
        del rest["role"]
    if not more and not rest:
        return new, []
    return new, [{"index": new["index"], "delta": rest, **more}]


def _has_text(choice: Any, *, besides_calls: bool = False) -> bool:
    delta = _delta_of(choice)
    return any(delta.get(key) for key in _SHOWN if not (besides_calls and key == "tool_calls"))


def _is_of(types: FieldTypes, key: str, value: Any) -> bool:
    return type(value) in types.get(key, ())


def _fits_top(chunk: JsonObject) -> bool:
    if not has_only(chunk, _TOP) or chunk.get("object") != _KIND:
        return False
    return (usage := chunk.get("usage")) is None or _fits_usage(usage)


def _fits_usage(usage: JsonObject) -> bool:
    """Return whether a usage has numbers, and details with numbers, alone."""
    for key, value in usage.items():
        if key.endswith("_details") and type(value) is dict:
            if any(type(count) not in _NUMBER for count in value.values()):
                return False
        elif type(value) not in (_EMPTY if key.endswith("_details") else _NUMBER):
            return False
    return True


def _fits_choice(choice: Any) -> bool:
    if type(choice) is not dict or type(choice.get("index")) is not int:
        return False
    for key, value in choice.items():
        if not _is_of(_CHOICE, key, value) and not (key == "logprobs" and _fits_logprobs(value)):
            return False
    return all(_fits_delta(key, value) for key, value in choice.get("delta", {}).items())


def _fits_delta(key: str, value: Any) -> bool:
    if not _is_of(_DELTA, key, value):
        return False
    if key == "role":
        return value in ("assistant", None)
    if key == "tool_calls":
        return _fits_calls(value)
    return key != "extra_content" or _fits_extra(value)


def _fits_calls(calls: Any) -> bool:
    for call in calls or ():
        if not has_only(call, _CALL) or not has_only(call.get("function"), _FUNCTION):
            return False
        if not _fits_extra(call.get("extra_content")):
            return False
    return True


def _fits_extra(extra: JsonObject | None) -> bool:
    """Return whether an extra content is what Gemini has: whether a text is a thought, and a signature."""
    return not extra or (extra.keys() == {"google"} and has_only(extra["google"], _OF_GOOGLE))


def _fits_logprobs(logprobs: Any) -> bool:
    if logprobs is None:
        return True
    if type(logprobs) is not dict or not logprobs.keys() <= {"content", "refusal"}:
        return False
    return all(tokens is None or are_tokens(tokens) for tokens in logprobs.values())
