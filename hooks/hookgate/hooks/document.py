"""A hook's input, as a value for hooks in process and as JSON for the others; each is made at most once."""

from functools import cached_property
from typing import Any

import orjson

from hookgate.translator.strictjson import dumps


class Encoded:
    """A value kept as its JSON only: what waits for the upstream should be small.

    The parsed form is made again, each time, for a hook in process.
    """

    def __init__(self, value: Any) -> None:
        self.json = dumps(value)

    @property
    def value(self) -> Any:
        return orjson.loads(self.json)


class Document:
    """One input document; a field may hold an Encoded value, which is spliced in as it is."""

    def __init__(self, fields: dict[str, Any]) -> None:
        self._fields = fields
        self._made: dict[str, Any] | None = None

    @cached_property
    def json(self) -> bytes:
        """One line of JSON."""
        fields = (
            dumps(key) + b":" + (value.json if isinstance(value, Encoded) else dumps(value))
            for key, value in self._fields.items()
        )
        return b"{" + b",".join(fields) + b"}"

    def make(self, *, value: bool) -> None:
        """Make the value, or else the JSON, before somebody asks for it: for the next one who does."""
        if value:
            self._made = self.value()
        else:
            _ = self.json

    def value(self) -> dict[str, Any]:
        """The document as a value of the caller's own: a hook may write into it."""
        made, self._made = self._made, None
        return (
            made
            if made is not None
            else {
                key: value.value if isinstance(value, Encoded) else _copied(value)
                for key, value in self._fields.items()
            }
        )


def _copied(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _copied(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return value
