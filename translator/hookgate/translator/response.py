"""Converts response bodies to `LLMResponse` views, applies edits, and creates synthetic responses."""

from collections.abc import Sequence
from typing import Any

from hookgate.translator.checks import check_response
from hookgate.translator.fields import (
    BodyError,
    EditError,
    JsonObject,
    is_text,
    read,
    read_list,
    read_object,
    same,
    same_items,
    snake,
    with_texts,
    write,
)
from hookgate.translator.streaming.edits import respread
from hookgate.translator.strictjson import dumps, loads


def synthetic_response(llm_response: Any) -> JsonObject:
    """Return the GenerateContentResponse for a hook's synthetic `llm_response`.

    `{"text": …}` alone is enough. A missing finishReason becomes STOP, since clients wait for one. A whole
    REST body under `raw` is returned unchanged. Raises TranslatorError.
    """
    if not isinstance(llm_response, dict):
        raise EditError("", "an object", llm_response)
    if is_whole(llm_response):
        return _whole(llm_response["raw"])
    edited = read_candidates(llm_response)
    if not edited:
        text = llm_response.get("text")
        if not isinstance(text, str):
            raise EditError("candidates", "a list with a candidate, or a text beside it", text)
        edited = [{"content": {"parts": [text]}}]
    candidates = [synthetic_candidate(edit, f"candidates[{i}]") for i, edit in enumerate(edited)]
    response: JsonObject = {"candidates": [{"index": i, **c} for i, c in enumerate(candidates)]}
    usage = llm_response.get("usageMetadata")
    return response if usage is None else {**response, "usageMetadata": usage}


def is_whole(llm_response: Any) -> bool:
    """Return whether a hook's response contains a whole REST body, rather than texts."""
    return isinstance(llm_response, dict) and llm_response.get("raw") is not None


def _whole(body: Any) -> JsonObject:
    try:
        return check_response(body)
    except BodyError as error:
        error.path = f"raw.{error.path}" if error.path else "raw"
        raise


def text_response(text: str) -> JsonObject:
    """Return a response with one text, for messages where clients do not show an error status."""
    return synthetic_response({"text": text})


def synthetic_candidate(edit: JsonObject, path: str) -> JsonObject:
    """Return a REST candidate for a hook's candidate. Strings become text parts; calls are kept."""
    parts = read_parts(edit, path) or []
    candidate: JsonObject = {
        "content": {"role": "model", "parts": [{"text": p} if isinstance(p, str) else p for p in parts]},
        "finishReason": edit.get("finishReason") or "STOP",
    }
    for field in ("index", "safetyRatings"):
        if edit.get(field) is not None:
            candidate[field] = edit[field]
    return candidate


def read_candidates(edit: JsonObject) -> list[JsonObject]:
    """Return the candidates of a hook's response, which may have a single `candidate` instead of a list."""
    candidates = edit.get("candidates")
    if candidates is None:
        single = edit.get("candidate")
        candidates = [] if single is None else [single]
    if not isinstance(candidates, list):
        raise EditError("candidates", "a list of candidates", candidates)
    for i, candidate in enumerate(candidates):
        if not isinstance(candidate, dict):
            raise EditError(f"candidates[{i}]", "an object", candidate)
    return candidates


_REST_PARTS = (
    "functionCall",
    "functionResponse",
    "inlineData",
    "fileData",
    "executableCode",
    "codeExecutionResult",
)
"""The fields of parts that are not text."""


def read_parts(edit: JsonObject, path: str) -> list[str | JsonObject] | None:
    """Return the parts of a hook's candidate, or None if it has none.

    They are texts, or parts of the API such as a function call. An object that is neither becomes a text, its
    JSON. Raises TranslatorError.
    """
    content = edit.get("content")
    if content is None:
        return None
    if not isinstance(content, dict):
        raise EditError(f"{path}.content", "an object {role, parts}", content)
    parts = content.get("parts")
    if parts is None:
        return None
    if not isinstance(parts, list):
        raise EditError(f"{path}.content.parts", "a list of strings", parts)
    return [_read_part(part, f"{path}.content.parts[{i}]") for i, part in enumerate(parts)]


def _read_part(part: Any, path: str) -> str | JsonObject:
    if isinstance(part, dict) and any(read(part, field) is not None for field in _REST_PARTS):
        return _checked_part(part, path)
    if isinstance(part, dict) and part.get("text") is None:
        return dumps(part).decode()
    text = part.get("text") if isinstance(part, dict) else part
    if not isinstance(text, str):
        raise EditError(path, "a string, {text} or {functionCall}", part)
    return text


def _checked_part(part: JsonObject, path: str) -> JsonObject:
    try:
        check_response({"candidates": [{"content": {"parts": [part]}}]})
    except BodyError as error:
        error.path = path + error.path.removeprefix("candidates[0].content.parts[0]")
        raise
    return part


_FIELDS = ("finishReason", "index", "safetyRatings")
_SHOWN = {spelling: field for field in _FIELDS for spelling in (field, snake(field))}
_COUNTS = frozenset({"promptTokenCount", "candidatesTokenCount", "totalTokenCount"})


def show_response(body: JsonObject) -> JsonObject:
    """Return `{"text"?, "candidates": [{"content": {"role", "parts": [str]}, …}], "usageMetadata"?}`.

    `text` is the first candidate's text without thoughts; `parts` has the text of all text parts.
    """
    view: JsonObject = {}
    shown: list[JsonObject] = []
    candidates = body.get("candidates")
    for candidate in candidates if type(candidates) is list else read_list(body, "candidates"):
        if type(candidate) is not dict:
            continue
        content = candidate.get("content")
        if type(content) is not dict:
            content = {}
        parts = content.get("parts")
        part = parts[0] if type(parts) is list and len(parts) == 1 else None
        if type(part) is dict and type(text := part.get("text")) is str and "thought" not in part:
            texts = spoken = [text]
        else:
            texts, spoken = _texts(content)
        if not shown:
            view["text"] = "".join(spoken)
        seen: JsonObject = {"content": {"role": content.get("role", "model"), "parts": texts}}
        for key, value in candidate.items():
            if key in _SHOWN and value is not None:
                seen[_SHOWN[key]] = value
        shown.append(seen)
    view["candidates"] = shown
    usage = body.get("usageMetadata")
    if type(usage) is not dict:
        usage = read_object(body, "usageMetadata")
    # The first events of a stream have usage metadata without the documented counts.
    if not _COUNTS.isdisjoint(usage):
        view["usageMetadata"] = usage
    return view


def is_json_answer(body: JsonObject) -> bool:
    """Return whether the text of each candidate, without thoughts, is JSON, and there is a candidate."""
    candidates = _candidates(body)
    try:
        for candidate in candidates:
            loads("".join(_texts(_content(candidate))[1]).encode())
    except ValueError:  # invalid JSON, or half of a surrogate pair, which UTF-8 cannot contain
        return False
    return bool(candidates)


def apply_response(body: JsonObject, edit: Any) -> JsonObject:
    """Return the body after a hook's `llm_response`, or `body` itself if nothing changed.

    If both `text` and `candidates` change the text, the candidates win.
    """
    if not isinstance(edit, dict):
        raise EditError("", "an object", edit)
    text = edit.get("text")
    if text is not None and not isinstance(text, str):
        raise EditError("text", "a string", text)
    new = _apply_candidates(body, read_candidates(edit))
    if text is not None and (new is body or _visible_texts(new) == _visible_texts(body)):
        new = _apply_text(new, text)
    return new if edit.get("usageMetadata") is None else _apply_usage(new, edit["usageMetadata"])


# ---- the view; this code runs for all events of all streams, so the usual types are checked first


def _candidates(body: JsonObject) -> list[JsonObject]:
    return [candidate for candidate in read_list(body, "candidates") if isinstance(candidate, dict)]


def _texts(content: JsonObject) -> tuple[list[str], list[str]]:
    """Return the texts of all text parts, and the texts of those that are not thoughts."""
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


def _visible_texts(body: JsonObject) -> list[str]:
    """Return the texts of the first candidate, without thoughts."""
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
    unchanged = same_items(new, current)
    return body if unchanged else write(body, "candidates", new)


def _position(current: Sequence[JsonObject], edit: JsonObject, position: int) -> int | None:
    """Return the position of the edited candidate, by index if both have one, or else by position."""
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
    parts = read_parts(edit, path)
    if parts is not None and (edited := _with_parts(content, parts)) is not content:
        candidate = write(candidate, "content", edited)
    for field in ("finishReason", "safetyRatings"):
        value = edit.get(field)
        if value is not None and not same(value, read(candidate, field)):
            candidate = write(candidate, field, value)
    return candidate


def _with_parts(content: JsonObject, edited: Sequence[str | JsonObject]) -> JsonObject:
    """Return the content with the hook's texts, and with the calls and other parts that it added."""
    texts = [part for part in edited if isinstance(part, str)]
    parts = read_list(content, "parts")
    others = [part for part in edited if isinstance(part, dict)]
    added = [other for other in others if not any(same(other, part) for part in parts)]
    if texts != _texts(content)[0]:
        content = with_texts(content, texts)
    return write(content, "parts", [*read_list(content, "parts"), *added]) if added else content


def _apply_text(body: JsonObject, text: str) -> JsonObject:
    """Apply a new `text`: distribute it over the first candidate's text parts, except thoughts."""
    candidates = _candidates(body)
    if not candidates:
        new = synthetic_candidate({"content": {"parts": [text]}}, "")
        return write(body, "candidates", [new]) if text else body
    content = _content(candidates[0])
    spoken = _texts(content)[1]
    if "".join(spoken) == text:
        return body
    pieces = iter(respread(spoken, text) if spoken else [text])
    texts = [
        part["text"] if part.get("thought") else next(pieces)
        for part in read_list(content, "parts")
        if is_text(part)
    ]
    edited = with_texts(content, [*texts, *pieces])
    return write(body, "candidates", [write(candidates[0], "content", edited), *candidates[1:]])


def _apply_usage(body: JsonObject, usage: Any) -> JsonObject:
    if not isinstance(usage, dict):
        raise EditError("usageMetadata", "an object", usage)
    current = read_object(body, "usageMetadata")
    unchanged = all(same(value, current.get(key)) for key, value in usage.items())
    return body if unchanged else write(body, "usageMetadata", {**current, **usage})
