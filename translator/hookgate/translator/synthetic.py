"""Answers that no model gave: a hook's `LLMResponse` read in every spelling and turned into REST form."""

from typing import Any

from hookgate.translator.checks import check_response
from hookgate.translator.errors import BodyError, EditError
from hookgate.translator.fields import JsonObject


def synthetic_response(llm_response: Any) -> JsonObject:
    """The GenerateContentResponse for a hook's synthetic `llm_response`.

    `{"text": …}` alone is enough. A missing finishReason becomes STOP, since clients wait for one. Under
    `raw` there may be a whole REST body, which is the answer as it is. Raises TranslatorError.
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
    """Whether a hook gives a whole REST body to answer with, rather than texts to make one of."""
    return isinstance(llm_response, dict) and llm_response.get("raw") is not None


def _whole(body: Any) -> JsonObject:
    try:
        return check_response(body)
    except BodyError as error:
        error.path = f"raw.{error.path}" if error.path else "raw"
        raise


def text_response(text: str) -> JsonObject:
    """A whole answer of one text: how a gateway speaks where an error status would not be shown."""
    return synthetic_response({"text": text})


def synthetic_candidate(edit: JsonObject, path: str) -> JsonObject:
    """One REST candidate out of a hook's: string parts become text parts."""
    texts = read_parts(edit, path)
    candidate: JsonObject = {
        "content": {"role": "model", "parts": [{"text": text} for text in texts or []]},
        "finishReason": edit.get("finishReason") or "STOP",
    }
    for field in ("index", "safetyRatings"):
        if edit.get(field) is not None:
            candidate[field] = edit[field]
    return candidate


def read_candidates(edit: JsonObject) -> list[JsonObject]:
    """The candidates of a hook's response; two of the documents write a single `candidate`."""
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


def read_parts(edit: JsonObject, path: str) -> list[str] | None:
    """The texts of a hook's candidate, or None when it says nothing about its text."""
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
    return [_read_text(part, f"{path}.content.parts[{i}]") for i, part in enumerate(parts)]


def _read_text(part: Any, path: str) -> str:
    text = part.get("text") if isinstance(part, dict) else part
    if not isinstance(text, str):
        raise EditError(path, "a string or {text}", part)
    return text
