"""Documents cut down to what a page can show. Pure."""

from typing import Any

LONGEST_TEXT = 20_000
"""Characters of one text; the rest of it is counted."""

MOST_ITEMS = 2_000
"""Of one list."""

_DEEPEST = 60


def shortened(value: Any, depth: int = 0) -> Any:
    """The value with its long texts and lists cut."""
    if isinstance(value, str) and len(value) > LONGEST_TEXT:
        return f"{value[:LONGEST_TEXT]} … ({len(value) - LONGEST_TEXT} more characters)"
    if isinstance(value, dict | list) and depth > _DEEPEST:
        return "… (deeper levels are left out)"
    if isinstance(value, dict):
        return {name: shortened(each, depth + 1) for name, each in value.items()}
    if isinstance(value, list):
        kept = [shortened(each, depth + 1) for each in value[:MOST_ITEMS]]
        return kept + ([f"… ({len(value) - MOST_ITEMS} more)"] if len(value) > MOST_ITEMS else [])
    return value
