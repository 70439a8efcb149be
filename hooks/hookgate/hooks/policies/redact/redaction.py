"""What one body or one answer is redacted with: the scanner, what goes out instead, and what was found."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Literal, TypeVar, get_args

from hookgate.hooks.policies.redact.held import AtCap, Redactor
from hookgate.hooks.policies.redact.presidio import Find, WholeRedactor
from hookgate.hooks.policies.redact.scanner import Scanner
from hookgate.hooks.policies.redact.strands import Strand

Scope = Literal["prompts", "system", "tool_results", "tool_arguments", "answers", "thoughts", "other"]
"""What a text is in a conversation; `other` is what a request holds beside its turns."""

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

_TELLING = re.compile(r"pass|secret|token|key|credential|auth", re.IGNORECASE)
"""Names of fields whose values are read as an assignment: `password: …`."""

_LONG = 256 * 1024
"""Characters that take a few milliseconds, and a fraction of a second when they were made to."""

_SHORT, _KNOWN = 64, 4096
"""Characters of a text that is remembered to be clean, such as the name of a field, and how many are."""

_LONGEST_NAMED = 1024

_AT_ONCE = 64 * 1024
"""Characters of many texts that one search looks through."""

_SMALLEST_NUMBER = 10_000_000

Place = TypeVar("Place", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Search:
    """How texts are looked through."""

    scanner: Scanner
    limit: int = 100_000
    """Suspects in one body that are looked into."""
    cap: int = 8192
    at_cap: AtCap = "mask"
    """As for a Redactor."""
    find: Find | None = None
    """A further detector, which reads whole texts."""


class Redaction:
    """Redacts texts and JSON values, and counts what it finds."""

    def __init__(
        self, search: Search, replace: Callable[[str, str], str], scopes: Collection[Scope] = SCOPES
    ) -> None:
        """`replace` is told kind and original, and may raise Withheld."""
        self.scopes = scopes
        self.findings: Counter[str] = Counter()
        self._search, self._replaced = search, replace
        self._scanner = search.scanner.limited(search.limit)
        self._clean: set[str] = set()

    def strand(self, put: Callable[[Place, str], None]) -> Strand[Place]:
        """One text that comes in pieces."""
        redactor, find = self._redactor(), self._search.find
        return Strand(redactor if find is None else WholeRedactor(redactor, find, self._replace), put)

    @property
    def slow(self) -> bool:
        """Whether a text may take longer than others should wait for."""
        return self._search.find is not None

    def is_clean(self, text: str) -> bool:
        """Whether nothing is to be replaced in a whole text, and that can be told quickly."""
        if text in self._clean:
            return True
        if len(text) >= self._search.cap or self._search.find is not None:
            return False
        clean = self._scanner.is_clean(text)
        if clean and len(text) <= _SHORT and len(self._clean) < _KNOWN:
            self._clean.add(text)
        return clean

    def text(self, text: str, name: str = "") -> str:
        """A whole text; with the name of the field that holds it. Raises Withheld."""
        named = len(text) <= _LONGEST_NAMED and is_telling(name)
        if self.is_clean(_named(name, text) if named else text):
            return text
        out: list[str] = []
        strand: Strand[bool] = self.strand(lambda inside, said: out.append(said) if inside else None)
        if named:
            strand.feed(False, f'"{name}": "')
        strand.feed(True, text)
        if named:
            strand.feed(False, '"')
        strand.finish()
        return "".join(out)

    def piece(self, text: str) -> str:
        """A piece of a text that was redacted as a whole already. Raises Withheld.

        The further detector is not asked: it has read the whole, and may know no masks.
        """
        if self._scanner.is_clean(text):
            return text
        out: list[str] = []
        strand: Strand[None] = Strand(self._redactor(), lambda _, said: out.append(said))
        strand.feed(None, text)
        strand.finish()
        return "".join(out)

    def value(self, value: Any, name: str = "") -> Any:
        """A JSON value with each of its texts redacted, names of fields and long numbers too.

        The very object where nothing is found. Raises Withheld.
        """
        return value if self._is_clean_value(value, name) else self._redacted(value, name)

    def _is_clean_value(self, value: Any, name: str) -> bool:
        """Whether nothing is to be replaced in a JSON value, and that can be told by a search or two."""
        if self._search.find is not None:
            return False
        texts: list[str] = []
        size = 0
        values = [(name, value)]
        while values:
            name, value = values.pop()
            if isinstance(value, str):
                size += len(value)
                texts.append(_named(name, value) if is_telling(name) else value)
                if len(value) >= self._search.cap:
                    return False
                if size >= _AT_ONCE:
                    if not self._scanner.all_clean(texts):
                        return False
                    texts, size = [], 0
            elif isinstance(value, dict):
                texts += value
                values += value.items()
            elif isinstance(value, list):
                values += [(name, item) for item in value]
            elif isinstance(value, int | float) and abs(value) >= _SMALLEST_NUMBER:
                texts.append(str(value))
        return self._scanner.all_clean(texts)

    def _redacted(self, value: Any, name: str) -> Any:
        if isinstance(value, str):
            new: Any = self.text(value, name)
            return value if new == value else new
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return self._number(value)
        if isinstance(value, list):
            items = [self._redacted(item, name) for item in value]
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
            named, redacted = self.text(name), self._redacted(item, name)
            same = same and named == name and redacted is item
            new[_free(new, named)] = redacted
        return value if same else new

    def _redactor(self) -> Redactor:
        return Redactor(self._scanner, self._replace, self._search.cap, self._search.at_cap)

    def _replace(self, kind: str, original: str) -> str:
        new = self._replaced(kind, original)
        self.findings[kind] += new != original
        return new


def _named(name: str, text: str) -> str:
    """The text with the name of the field that holds it, unless it is long."""
    return f'"{name}": "{text}"' if len(text) <= _LONGEST_NAMED else text


@lru_cache(maxsize=4096)  # bounded: these names come from outside
def is_telling(name: str) -> bool:
    """Whether the value of a field with this name is read as an assignment."""
    return _TELLING.search(name) is not None


def _free(taken: Collection[str], name: str) -> str:
    """The name, or one like it when two have become the same: no field is lost."""
    free, number = name, 2
    while free in taken:
        free, number = f"{name}_{number}", number + 1
    return free


def is_long(value: Any) -> bool:
    """Whether a JSON value holds so much text that others should not wait while it is looked through."""
    left, values = _LONG, [value]
    while values and left > 0:
        value = values.pop()
        if isinstance(value, str):
            left -= len(value)
        elif isinstance(value, dict):
            values += value.values()
        elif isinstance(value, list):
            values += value
    return left <= 0
