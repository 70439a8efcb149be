"""What of a tool's result the model sees, and what a program would read in it."""

import sys
from typing import Any

from hookgate.translator.fields import BodyError
from hookgate.translator.strictjson import Bounds, loads

SHOWN_TO_USER = "returnDisplay"
"""The field of a result that is shown to the user, and not to the model."""

MAX_VALUES = 200_000
"""The values of a JSON text that is read as JSON: as many as a request has. A parser keeps the GIL, and makes
many times the memory of a text that is nothing but brackets.
"""

_BOUNDS = Bounds(sys.maxsize, MAX_VALUES)


def without_display(response: Any) -> Any:
    """Return a tool's result without what is shown to the user."""
    if isinstance(response, dict) and SHOWN_TO_USER in response:
        return {key: value for key, value in response.items() if key != SHOWN_TO_USER}
    return response


def looks_like_json(text: str) -> bool:
    """Return whether a text begins as a JSON object or list does."""
    return text.lstrip().startswith(("{", "["))


def json_in(text: str) -> Any:
    """Return the JSON object or list that a text is, or None if it is none, or has too many values."""
    if not looks_like_json(text):
        return None
    try:
        return loads(text.strip().encode(errors="replace"), _BOUNDS)
    except BodyError:
        return None
