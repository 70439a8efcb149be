"""Documents cut down to what a page can show. Pure."""

from typing import Any

LONGEST_TEXT = 20_000
"""Characters of one text; the rest of it is counted."""

MOST_ITEMS = 2_000
"""Of one list or object."""

MOST_SIGNS = 2_000_000
"""Characters of a whole document, about."""

_DEEPEST = 60
_EXACT = 2**53 - 1
"""The largest whole number that a browser reads as it is; larger ones are told as texts."""
_NODE = 8
"""What a value costs beside its text, in characters."""


def shortened(value: Any) -> Any:
    """The value with its long texts and lists cut, and without what makes it too large."""
    return _Cutter().cut(value, 0)


class _Cutter:
    """Cuts one document."""

    def __init__(self) -> None:
        self._left = MOST_SIGNS

    def cut(self, value: Any, depth: int) -> Any:
        self._left -= _NODE
        if isinstance(value, str):
            return self._text(value)
        if isinstance(value, int) and abs(value) > _EXACT:
            return str(value)
        if not isinstance(value, dict | list):
            return value
        if depth > _DEEPEST:
            return "… (deeper levels are left out)"
        return self._object(value, depth) if isinstance(value, dict) else self._list(value, depth)

    def _text(self, text: str) -> str:
        kept = text[: max(0, min(LONGEST_TEXT, self._left))]
        self._left -= len(kept)
        return kept if kept == text else f"{kept} … ({len(text) - len(kept)} more characters)"

    def _list(self, items: list[Any], depth: int) -> list[Any]:
        kept: list[Any] = []
        for item in items[:MOST_ITEMS]:
            if self._left <= 0:
                break
            kept.append(self.cut(item, depth + 1))
        return kept if len(kept) == len(items) else [*kept, f"… ({len(items) - len(kept)} more)"]

    def _object(self, fields: dict[str, Any], depth: int) -> dict[str, Any]:
        kept: dict[str, Any] = {}
        for name, value in list(fields.items())[:MOST_ITEMS]:
            if self._left <= 0 and depth:
                break
            self._left -= len(name)
            kept[self._text(name)] = self.cut(value, depth + 1)
        return kept if len(kept) == len(fields) else {**kept, "…": f"({len(fields) - len(kept)} more)"}
