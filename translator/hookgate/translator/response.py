"""Responses: a GenerateContentResponse (or one event of a stream) seen as an `LLMResponse`, edited in place.

    view = show_response(body)
    body = apply_response(body, edit)

Candidates are found by their `index`; the i-th string goes to the i-th text part with its flags; calls,
signatures, grounding, usage and unknown fields stay (law 8 of the hook contract).
"""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.errors import EditError
from hookgate.translator.fields import JsonObject, read, read_list, read_object, same, snake, write
from hookgate.translator.spreading import respread
from hookgate.translator.synthetic import read_candidates, read_parts, synthetic_candidate
from hookgate.translator.texts import is_text, with_texts

_FIELDS = ("finishReason", "index", "safetyRatings")
_SHOWN = {spelling: field for field in _FIELDS for spelling in (field, snake(field))}
_COUNTS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})


def show_response(body: JsonObject) -> JsonObject:
    """`{"text"?, "candidates": [{"content": {"role", "parts": [str]}, …}], "usageMetadata"?}`.

    `text` joins the first candidate's text without thoughts; `parts` holds the text of every text part.
    """
    view: JsonObject = {}
    shown: list[JsonObject] = []
    for candidate in _candidates(body):
        content = _content(candidate)
        texts, spoken = _texts(content)
        if not shown:
            view["text"] = "".join(spoken)
        shown.append(_show_candidate(candidate, {"role": content.get("role", "model"), "parts": texts}))
    view["candidates"] = shown
    usage = read_object(body, "usageMetadata")
    # Early events carry usage without a count; the documented shape knows counts only.
    if not _COUNTS.isdisjoint(usage):
        view["usageMetadata"] = usage
    return view


def apply_response(body: JsonObject, edit: Any) -> JsonObject:
    """The body after a hook's `llm_response`, whole or partial; `body` itself when nothing changed.

    When `text` and `candidates` disagree, the candidates win unless they leave the text as it was.
    """
    if not isinstance(edit, dict):
        raise EditError("", "an object", edit)
    text = edit.get("text")
    if text is not None and not isinstance(text, str):
        raise EditError("text", "a string", text)
    new = _apply_candidates(body, read_candidates(edit))
    if text is not None and (new is body or _spoken(new) == _spoken(body)):
        new = _apply_text(new, text)
    return new if edit.get("usageMetadata") is None else _apply_usage(new, edit["usageMetadata"])


# ---- the view; every event of every stream comes through here, so the usual shapes are looked at first


def _candidates(body: JsonObject) -> list[JsonObject]:
    candidates = body.get("candidates")
    if type(candidates) is list and len(candidates) == 1 and type(candidates[0]) is dict:
        return candidates
    return [candidate for candidate in read_list(body, "candidates") if isinstance(candidate, dict)]


def _show_candidate(candidate: JsonObject, content: JsonObject) -> JsonObject:
    view: JsonObject = {"content": content}
    for key, value in candidate.items():
        if key in _SHOWN and value is not None:
            view[_SHOWN[key]] = value
    return view


def _texts(content: JsonObject) -> tuple[list[str], list[str]]:
    """The text of each text part, and of those among them that are the answer rather than a thought."""
    texts, spoken = [], []
    parts = content.get("parts")
    for part in parts if type(parts) is list else read_list(content, "parts"):
        if type(part) is dict and type(text := part.get("text")) is str:
            texts.append(text)
            if not part.get("thought"):
                spoken.append(text)
    return texts, spoken


def _content(candidate: JsonObject) -> JsonObject:
    content = candidate.get("content")
    return content if type(content) is dict else {}


def _spoken(body: JsonObject) -> list[str]:
    """The answer of the first candidate, by its parts."""
    candidates = _candidates(body)
    return _texts(_content(candidates[0]))[1] if candidates else []


# ---- the edit


def _apply_candidates(body: JsonObject, edited: Sequence[JsonObject]) -> JsonObject:
    current = _candidates(body)
    new: list[JsonObject] = list(current)
    for position, edit in enumerate(edited):
        at = _position(current, edit, position)
        path = f"candidates[{position}]"
        if at is None:
            new.append(synthetic_candidate(edit, path))
        else:
            new[at] = _edit_candidate(current[at], edit, path)
    unchanged = len(new) == len(current) and all(a is b for a, b in zip(new, current, strict=True))
    return body if unchanged else write(body, "candidates", new)


def _position(current: Sequence[JsonObject], edit: JsonObject, position: int) -> int | None:
    """Where the edited candidate stands: by index when both sides have one, else by position."""
    index = edit.get("index")
    if position < len(current) and index == read(current[position], "index"):
        return position
    if index is not None:
        for at, candidate in enumerate(current):
            if candidate.get("index", at) == index:
                return at
        return None
    return position if position < len(current) else None


def _edit_candidate(candidate: JsonObject, edit: JsonObject, path: str) -> JsonObject:
    content = _content(candidate)
    texts = read_parts(edit, path)
    if texts is not None and texts != _texts(content)[0]:
        candidate = write(candidate, "content", with_texts(content, texts))
    for field in ("finishReason", "safetyRatings"):
        value = edit.get(field)
        if value is not None and not same(value, read(candidate, field)):
            candidate = write(candidate, field, value)
    return candidate


def _apply_text(body: JsonObject, text: str) -> JsonObject:
    """A patch of `text` alone: the edit is spread over the first candidate's answer, thoughts stay."""
    candidates = _candidates(body)
    if not candidates:
        new = synthetic_candidate({"content": {"parts": [text]}}, "")
        return write(body, "candidates", [new]) if text else body
    said = _content(candidates[0])
    spoken = _texts(said)[1]
    if "".join(spoken) == text:
        return body
    cut = iter(respread(spoken, text) if spoken else [text])
    texts = [
        part["text"] if part.get("thought") else next(cut)
        for part in read_list(said, "parts")
        if is_text(part)
    ]
    content = with_texts(said, [*texts, *cut])
    return write(body, "candidates", [write(candidates[0], "content", content), *candidates[1:]])


def _apply_usage(body: JsonObject, usage: Any) -> JsonObject:
    if not isinstance(usage, dict):
        raise EditError("usageMetadata", "an object", usage)
    current = read_object(body, "usageMetadata")
    unchanged = all(same(value, current.get(key)) for key, value in usage.items())
    return body if unchanged else write(body, "usageMetadata", {**current, **usage})
