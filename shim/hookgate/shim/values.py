"""Python's values as hooks see them, and what hooks made of them as Python's values again. Pure."""

import dataclasses
import json
from typing import Any

Json = dict[str, Any]


def shown(value: Any) -> Any:
    """A value as JSON has it: models and dataclasses as objects, what JSON cannot hold as its text."""
    return json.loads(_dumps(value))


def edited(value: Any, new: Any) -> Any:
    """The new value, of the old one's class where that is a model; the old one where nothing changed."""
    if shown(value) == new:
        return value
    validate = getattr(type(value), "model_validate", None)
    return new if validate is None else validate(new)


def text_of(value: Any) -> str:
    """A tool's result as a text: JSON of what is no text already."""
    return value if isinstance(value, str) else _dumps(value)


def retold(value: Any, content: Any) -> Any:
    """A tool's result after an edit of its text: JSON again where it was shown as JSON."""
    if isinstance(value, str) or not isinstance(content, str):
        return content
    try:
        return json.loads(content)
    except ValueError:
        return content


def extended(value: Any, context: str) -> Any:
    """A tool's result with a word for the model: behind a text, within an object."""
    if not context:
        return value
    if isinstance(value, dict):
        return {**value, "additionalContext": context}
    text = text_of(value)
    return f"{text}\n\n{context}" if text else context


def _dumps(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=_plain)


def _plain(value: Any) -> Any:
    dump = getattr(value, "model_dump", None)
    if dump is not None:
        return dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return dataclasses.asdict(value)
    return str(value)
