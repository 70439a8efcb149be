"""What one body or one answer is redacted with: the scanner, what goes out instead, and what was found."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable
from typing import Any, Literal, TypeVar, get_args

from hookgate.hooks.policies.redact.held import AtCap, Redactor
from hookgate.hooks.policies.redact.scanner import Scanner
from hookgate.hooks.policies.redact.strands import Strand

Scope = Literal["prompts", "system", "tool_results", "tool_arguments", "answers", "thoughts"]
"""What a text is in a conversation."""

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

_TELLING = re.compile(r"pass|secret|token|key|credential|auth", re.IGNORECASE)
"""Names of fields whose values are read as an assignment: `password: …`."""

_LONGEST_NAMED = 1024
_SMALLEST_NUMBER = 10_000_000

Place = TypeVar("Place", bound=Hashable)


class Redaction:
    """Redacts texts and JSON values, and counts what it finds."""

    def __init__(
        self,
        scanner: Scanner,
        replace: Callable[[str, str], str],
        scopes: Collection[Scope] = SCOPES,
        cap: int = 8192,
        at_cap: AtCap = "mask",
    ) -> None:
        """`replace` is told kind and original, and may raise Withheld; `cap`, `at_cap` as for a Redactor."""
        self.scopes = scopes
        self.findings: Counter[str] = Counter()
        self._scanner, self._replaced = scanner, replace
        self._cap, self._at_cap = cap, at_cap

    def strand(self, put: Callable[[Place, str], None]) -> Strand[Place]:
        """One text that comes in pieces."""
        return Strand(Redactor(self._scanner, self._replace, self._cap, self._at_cap), put)

    def text(self, text: str, name: str = "") -> str:
        """A whole text; with the name of the field that holds it. Raises Withheld."""
        out: list[str] = []
        strand: Strand[bool] = self.strand(lambda inside, said: out.append(said) if inside else None)
        named = bool(name) and len(text) <= _LONGEST_NAMED and _TELLING.search(name) is not None
        if named:
            strand.feed(False, f'"{name}": "')
        strand.feed(True, text)
        if named:
            strand.feed(False, '"')
        strand.finish()
        return "".join(out)

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value with each of its texts redacted, names of fields and long numbers too.

        The very object where nothing is found. Raises Withheld.
        """
        if isinstance(value, str):
            new: Any = self.text(value, name)
            return value if new == value else new
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, list):
            items = [self.value(item, name) for item in value]
            return value if all(a is b for a, b in zip(items, value, strict=True)) else items
        return self._object(value)

    def _number(self, value: float) -> Any:
        if abs(value) < _SMALLEST_NUMBER:
            return value
        shown = str(value)
        new = self.text(shown)
        return value if new == shown else new

    def _object(self, value: dict[str, Any]) -> dict[str, Any]:
        new: dict[str, Any] = {}
        same = True
        for name, item in value.items():
            named, redacted = self.text(name), self.value(item, name)
            same = same and named == name and redacted is item
            new[_free(new, named)] = redacted
        return value if same else new

    def _replace(self, kind: str, original: str) -> str:
        new = self._replaced(kind, original)
        self.findings[kind] += new != original
        return new


def _free(taken: Collection[str], name: str) -> str:
    """The name, or one like it when two have become the same: no field is lost."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free
