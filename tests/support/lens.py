"""The translator's two edits, checked on every use for what holds of all: arguments stay as they are."""

from typing import Any

from support.inspect import Json, exact

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
