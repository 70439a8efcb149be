"""What of a tool's result the model sees."""

from typing import Any

SHOWN_TO_USER = "returnDisplay"
"""The field of a result that is shown to the user, and not to the model."""


def without_display(response: Any) -> Any:
    """Return a tool's result without what is shown to the user."""
    if isinstance(response, dict) and SHOWN_TO_USER in response:
        return {key: value for key, value in response.items() if key != SHOWN_TO_USER}
    return response
