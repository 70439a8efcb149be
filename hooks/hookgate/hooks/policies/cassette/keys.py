"""Which requests are the same: what of them counts, in one form. Pure."""

from collections.abc import Callable, Sequence
from typing import Any

from hookgate.hooks.policies.canonical import canonical
from hookgate.translator import declared_names
from hookgate.translator.fields import JsonObject, read, read_list, read_object
from hookgate.translator.texts import is_text, joined_text

_NO_TEXTS = frozenset(
    {"thoughtSignature", "thought_signature", "data", "mimeType", "mime_type", "role", "name", "id"}
    | {"finishReason", "modelVersion", "responseId"}
)
"""Fields whose strings are not for people."""

_CALLS = ("functionCall", "functionResponse")

_LONGEST = 200
"""Characters of a text in a summary."""


def counted(llm_request: JsonObject) -> JsonObject:
    """What counts of a request: model, contents, systemInstruction, tools, toolConfig, generationConfig.

    `llm_request` is what a hook with the view `raw` is shown. Signatures and the ids of calls, which a model
    makes up anew each time, are left out. In how many pieces a model's turn came does not count: a tape holds
    it as one.
    """
    fields: JsonObject = {
        "model": llm_request["model"],
        "contents": _turns(read_list(llm_request, "contents")),
        "systemInstruction": read(llm_request, "systemInstruction"),
        "tools": read_list(llm_request, "tools"),
        "toolConfig": read_object(llm_request, "toolConfig").get("functionCallingConfig"),
        "generationConfig": llm_request.get("config"),
    }
    return {name: value for name, value in canonical(fields).items() if value not in ({}, [])}


def summary(llm_request: JsonObject) -> JsonObject:
    """A few words about a request, for people who look at a tape."""
    contents = [each for each in read_list(llm_request, "contents") if isinstance(each, dict)]
    told: JsonObject = {
        "model": llm_request["model"],
        "turns": len(contents),
        "system": _short(joined_text(read_object(llm_request, "systemInstruction"))),
        "last": _told(contents[-1]) if contents else "",
        "tools": declared_names(llm_request),
    }
    return {name: value for name, value in told.items() if value}


def without(document: Any, pointers: Sequence[str]) -> Any:
    """The document without what stands at these JSON Pointers; an item of a list leaves a null behind."""
    for pointer in pointers:
        steps = [step.replace("~1", "/").replace("~0", "~") for step in pointer.split("/")[1:]]
        document = _without(document, steps)
    return document


def with_texts(value: Any, change: Callable[[str], str], spared: frozenset[str] = _NO_TEXTS) -> Any:
    """The value with every text in it changed.

    Keys stay, and so do `spared` fields that hold a string. In arguments and results nothing is spared: there
    a field of any name may hold anything.
    """
    if isinstance(value, dict):
        return {
            key: item
            if key in spared and isinstance(item, str)
            else with_texts(item, change, frozenset() if key in ("args", "response") else spared)
            for key, item in value.items()
        }
    if isinstance(value, list):
        return [with_texts(item, change, spared) for item in value]
    return change(value) if isinstance(value, str) else value


def _turns(contents: Sequence[Any]) -> list[Any]:
    """The turns; what a model said without a break is one of them."""
    turns: list[Any] = []
    for content in contents:
        turn = {**content, "parts": _parts(content)} if isinstance(content, dict) else content
        if turns and _is_model(turn) and _is_model(turns[-1]):
            turns[-1]["parts"] += turn["parts"]
        else:
            turns.append(turn)
    return [{**turn, "parts": _joined(turn["parts"])} if _is_model(turn) else turn for turn in turns]


def _is_model(content: Any) -> bool:
    return isinstance(content, dict) and content.get("role") == "model"


def _parts(content: JsonObject) -> list[Any]:
    return [_part(part) for part in read_list(content, "parts")]


def _joined(parts: Sequence[Any]) -> list[Any]:
    """The parts with all that is spoken as one text, and all that is thought, as it is on a tape."""
    joined: list[Any] = []
    found: dict[bool, JsonObject] = {}
    for part in parts:
        if not is_text(part):
            joined.append(part)
        elif (first := found.get(thought := bool(part.get("thought")))) is not None:
            first["text"] += part["text"]
        elif part["text"]:
            joined.append(found.setdefault(thought, part))
    return joined


def _part(part: Any) -> Any:
    """The part in the API's own words, without what changes with every answer."""
    known = canonical(part)
    if not isinstance(known, dict):
        return known
    known.pop("thoughtSignature", None)
    for name in _CALLS:
        if isinstance(known.get(name), dict):
            known[name].pop("id", None)
    return known


def _without(value: Any, steps: Sequence[str]) -> Any:
    step, *rest = steps
    if isinstance(value, dict) and step in value:
        kept = {key: item for key, item in value.items() if key != step}
        return {**value, step: _without(value[step], rest)} if rest else kept
    if isinstance(value, list) and step.isdigit() and int(step) < len(value):
        at = int(step)
        return [*value[:at], _without(value[at], rest) if rest else None, *value[at + 1 :]]
    return value


def _told(content: JsonObject) -> str:
    """A turn in a few words: what is said, or else which tools gave a result."""
    results = [
        read_object(part, "functionResponse").get("name")
        for part in read_list(content, "parts")
        if isinstance(part, dict) and read(part, "functionResponse") is not None
    ]
    return _short(joined_text(content)) or (f"results of {', '.join(map(str, results))}" if results else "")


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 1]}…"
