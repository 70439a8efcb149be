"""The body that creates a decision: an input, and questions about it that a model answers with numbers.

All of its texts are one turn of the user, with a part for each: those of the input, then the IDs,
instructions and criteria of the questions. A name is shown on a line before its value, as in `password: `,
because it can say what the value is. Images, audio and other media are refused.
"""

from collections.abc import Callable
from typing import Any

from hookgate.translator.checks import check_keys
from hookgate.translator.fields import BodyError, EditError, JsonObject, TooLargeError, is_text, read_list

_MAX_TEXTS = 10_000
_KINDS = ("choice", "noul", "score")
_CRITERIA = "the criteria must be texts in a list or an object, since hooks cannot inspect other types"

Convert = Callable[[str], str]


class DecisionBody:
    """One body. Raises BodyError for what hooks would not see."""

    def __init__(self, body: JsonObject) -> None:
        self._body = body
        texts: list[str] = []

        def collect(text: str) -> str:
            texts.append(text)
            return text

        _converted(body, collect)
        if len(texts) > _MAX_TEXTS:
            raise TooLargeError("questions", f"a decision can have at most {_MAX_TEXTS} texts")
        self._texts = texts
        self.request: JsonObject = {"contents": [{"role": "user", "parts": [{"text": t} for t in texts]}]}
        """The GenerateContentRequest."""

    def edited(self, request: JsonObject) -> JsonObject:
        """Return the body for an edited request. Raises EditError unless it has the same number of texts."""
        turns = read_list(request, "contents")
        parts = read_list(turns[0], "parts") if len(turns) == 1 and isinstance(turns[0], dict) else []
        if len(parts) != len(self._texts) or not all(map(is_text, parts)):
            raise EditError("contents", f"one turn with {len(self._texts)} texts, as was shown", turns)
        new = [part["text"] for part in parts]
        if new == self._texts:
            return self._body
        texts = iter(new)
        return _converted(self._body, lambda _: next(texts))


def _converted(body: JsonObject, convert: Convert) -> JsonObject:
    """Return the body with each of its texts converted, in order."""
    check_keys(body, "", ("model", "input", "questions"))
    questions = body.get("questions")
    if not isinstance(questions, dict):
        raise BodyError("questions", "the questions must be an object, by their IDs")
    return {
        **body,
        "input": _contents(body.get("input"), "input", convert),
        "questions": _object(questions, "questions", convert, _question),
    }


def _object(
    given: JsonObject, path: str, convert: Convert, value: Callable[[Any, str, Convert], Any]
) -> JsonObject:
    """Return an object whose keys are texts, too. Raises EditError if two of them become equal."""
    new = {_name(key, convert): value(item, f"{path}.{key}", convert) for key, item in given.items()}
    if len(new) != len(given):
        raise EditError(path, "texts that stay different, since they are the names of fields", [*new])
    return new


def _name(key: str, convert: Convert) -> str:
    """Return a name, which is shown on a line before its value, as a text of its own."""
    return convert(f"\n{key}: ").removeprefix("\n").removesuffix(": ")


def _question(question: Any, path: str, convert: Convert) -> JsonObject:
    check_keys(question, path, ("type", "instructions", "criteria"))
    if question.get("type") not in _KINDS:
        raise BodyError(f"{path}.type", f"hooks know questions of the types {', '.join(_KINDS)}")
    new: JsonObject = {**question}
    if question.get("instructions") is not None:
        new["instructions"] = _contents(question["instructions"], f"{path}.instructions", convert)
    criteria = question.get("criteria")
    if isinstance(criteria, dict):
        new["criteria"] = _object(criteria, f"{path}.criteria", convert, _criterion)
    elif isinstance(criteria, list):
        new["criteria"] = [
            _criterion(each, f"{path}.criteria[{number}]", convert) for number, each in enumerate(criteria)
        ]
    elif criteria is not None:
        raise BodyError(f"{path}.criteria", _CRITERIA)
    return new


def _criterion(text: Any, path: str, convert: Convert) -> str | None:
    if not isinstance(text, str | None):
        raise BodyError(path, _CRITERIA)
    return None if text is None else convert(text)


def _contents(given: Any, path: str, convert: Convert) -> Any:
    """Return a text, a content with a text, or a list of these."""
    if isinstance(given, str):
        return convert(given)
    if isinstance(given, list):
        return [_content(each, f"{path}[{number}]", convert) for number, each in enumerate(given)]
    return _content(given, path, convert)


def _content(content: Any, path: str, convert: Convert) -> JsonObject:
    check_keys(content, path, ("type", "text"))
    if content.get("type") != "text" or not isinstance(content.get("text"), str):
        raise BodyError(path, "hooks can inspect only texts in a decision: {type: 'text', text}")
    return {**content, "text": convert(content["text"])}
