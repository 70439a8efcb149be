"""The translator's two edits, checked on every use for what holds of all: arguments stay as they are."""

from collections.abc import Callable
from typing import Any

from hypothesis import assume
from hypothesis import strategies as st
from support.translation.inspect import Json, exact, own_word, texts

from hookgate.translator import apply_request, apply_response, show_request

MODEL = "gemini-2.5-flash"


def edited_request(body: Json, edit: Any) -> Json:
    before = exact([body, edit])
    try:
        return apply_request(MODEL, body, edit)[1]
    finally:
        assert exact([body, edit]) == before, "an argument was changed in place"


def edited_response(body: Json, edit: Any) -> Json:
    before = exact([body, edit])
    try:
        return apply_response(body, edit)
    finally:
        assert exact([body, edit]) == before, "an argument was changed in place"


def messages_of(body: Json) -> list[Json]:
    messages: list[Json] = show_request(MODEL, body)["messages"]
    return messages


def through_javascript(value: Any) -> Any:
    """The value as a JavaScript hook prints it back: 2.0 becomes 2."""
    if isinstance(value, dict):
        return {key: through_javascript(item) for key, item in value.items()}
    if isinstance(value, list):
        return [through_javascript(item) for item in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def drawn_redactor(data: Any, body: Json) -> Callable[[str], str]:
    """A redaction of some of the words of a body, each of which stands in one text of it alone."""
    words = [own_word(text) for text in texts(body) if text]
    assume(words)
    secrets = data.draw(st.sets(st.sampled_from(words), min_size=1))

    def redacted(text: str) -> str:
        for secret in secrets:
            text = text.replace(secret, "[REDACTED]")
        return text

    return redacted
