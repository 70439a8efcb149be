"""Responses: a GenerateContentResponse (or one event of a stream) seen as an `LLMResponse`, edited in place.

    view = show_response(body)
    body = apply_response(body, edit)

Candidates are found by their `index`; the i-th string goes to the i-th text part with its flags; calls,
signatures, grounding, usage and unknown fields stay (law 8 of the hook contract).
"""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.errors import EditError
from hookgate.translator.fields import JsonObject, read, read_list, read_object, same, write
from hookgate.translator.synthetic import read_candidates, read_parts, synthetic_candidate
from hookgate.translator.texts import is_text, respread, texts_of, with_texts

_FIELDS = ("finishReason", "index", "safetyRatings")
_COUNTS = ("promptTokenCount", "candidatesTokenCount", "totalTokenCount")


def show_response(body: JsonObject) -> JsonObject:
    """`{"text"?, "candidates": [{"content": {"role", "parts": [str]}, …}], "usageMetadata"?}`.

    `text` joins the first candidate's text without thoughts; `parts` holds the text of every text part.
    """
    candidates = _candidates(body)
    view: JsonObject = {}
    if candidates:
        view["text"] = "".join(_first_spoken(body))
    view["candidates"] = [_show_candidate(candidate) for candidate in candidates]
    usage = read_object(body, "usageMetadata")
    # Early events carry usage without a count; the documented shape knows counts only.
    return {**view, "usageMetadata": usage} if any(count in usage for count in _COUNTS) else view


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
    if text is not None and _first_spoken(new) == _first_spoken(body):
        new = _apply_text(new, text)
    return new if edit.get("usageMetadata") is None else _apply_usage(new, edit["usageMetadata"])


# ---- the view


def _candidates(body: JsonObject) -> list[JsonObject]:
    return [candidate for candidate in read_list(body, "candidates") if isinstance(candidate, dict)]


def _show_candidate(candidate: JsonObject) -> JsonObject:
    content = read_object(candidate, "content")
    view: JsonObject = {"content": {"role": content.get("role", "model"), "parts": texts_of(content)}}
    for field in _FIELDS:
        value = read(candidate, field)
        if value is not None:
            view[field] = value
    return view


def _spoken(candidate: JsonObject) -> list[str]:
    """The text parts that are the answer rather than a thought."""
    parts = read_list(read_object(candidate, "content"), "parts")
    return [part["text"] for part in parts if is_text(part) and not part.get("thought")]


def _first_spoken(body: JsonObject) -> list[str]:
    candidates = _candidates(body)
    return _spoken(candidates[0]) if candidates else []


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
    content = read_object(candidate, "content")
    texts = read_parts(edit, path)
    if texts is not None and texts != texts_of(content):
        candidate = write(candidate, "content", with_texts(content, texts))
    for field in ("finishReason", "safetyRatings"):
        value = edit.get(field)
        if value is not None and not same(value, read(candidate, field)):
            candidate = write(candidate, field, value)
    return candidate


def _apply_text(body: JsonObject, text: str) -> JsonObject:
    """A patch of `text` alone: the edit is spread over the first candidate's answer, thoughts stay."""
    candidates = _candidates(body)
    spoken = _first_spoken(body)
    if "".join(spoken) == text:
        return body
    if not candidates:
        return write(body, "candidates", [synthetic_candidate({"content": {"parts": [text]}}, "")])
    content = read_object(candidates[0], "content")
    cut = iter(respread(spoken, text) if spoken else [text])
    texts = [
        part["text"] if part.get("thought") else next(cut)
        for part in read_list(content, "parts")
        if is_text(part)
    ]
    edited = write(candidates[0], "content", with_texts(content, [*texts, *cut]))
    return write(body, "candidates", [edited, *candidates[1:]])


def _apply_usage(body: JsonObject, usage: Any) -> JsonObject:
    if not isinstance(usage, dict):
        raise EditError("usageMetadata", "an object", usage)
    current = read_object(body, "usageMetadata")
    unchanged = all(same(value, current.get(key)) for key, value in usage.items())
    return body if unchanged else write(body, "usageMetadata", {**current, **usage})
