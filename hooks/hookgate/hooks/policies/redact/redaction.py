"""What one body or one answer is redacted with: the scanner, what goes out instead, and what was found."""

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable
from dataclasses import dataclass
from typing import Any, Literal, TypeVar, get_args

from hookgate.hooks.policies.redact.held import AtCap, Redactor
from hookgate.hooks.policies.redact.presidio import Find, WholeRedactor
from hookgate.hooks.policies.redact.scanner import Scanner
from hookgate.hooks.policies.redact.strands import Strand
from hookgate.hooks.session import Withheld
from hookgate.translator.fields import JsonObject

Scope = Literal["prompts", "system", "tool_results", "tool_arguments", "answers", "thoughts", "other"]
"""What a text is in a conversation; `other` is what a request holds beside its turns."""

SCOPES: frozenset[Scope] = frozenset(get_args(Scope))

_TELLING = re.compile(r"pass|secret|token|key|credential|auth", re.IGNORECASE)
"""Names of fields whose values are read as an assignment: `password: …`."""

_LONG = 64 * 1024
"""Characters that take a millisecond, and some tens of them when they were made to."""

_SHORT, _KNOWN = 64, 4096
"""Characters of a text that is remembered to be clean, such as the name of a field, and how many are."""

_REPEATED = 3
"""Objects that are remembered: turns, and the events of a stream, repeat much of what they hold."""

_LONGEST_NAMED = 1024

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
        self,
        search: Search,
        replace: Callable[[str, str], str],
        scopes: Collection[Scope] = SCOPES,
        *,
        brief: bool = False,
    ) -> None:
        """`replace` is told kind and original, and may raise Withheld.

        `brief`: texts that take long are not redacted but raise TakesLong.
        """
        self.scopes = scopes
        self.findings: Counter[str] = Counter()
        self._search, self._replaced = search, replace
        self._scanner = search.scanner.limited(search.limit, brief=brief)
        self._clean: set[str] = set()
        self._plain_names: set[str] = set()
        self._clean_values: deque[JsonObject] = deque(maxlen=_REPEATED)

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
        quote = _quote_for(text)
        if self.is_clean(_named(name, text) if named else text):
            return text
        out: list[str] = []
        strand: Strand[bool] = self.strand(lambda inside, said: out.append(said) if inside else None)
        if named:
            strand.feed(False, f"{quote}{name}{quote}: {quote}")
        strand.feed(True, text)
        if named:
            strand.feed(False, quote)
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
        """Whether nothing is to be replaced in a JSON value, and one search can tell."""
        if self._search.find is not None:
            return False
        if value in self._clean_values:
            return True
        texts = set(self._texts_in(value, name)) - self._clean
        if texts and (max(map(len, texts)) >= self._search.cap or not self._scanner.all_clean(texts)):
            return False
        if len(self._clean) < _KNOWN:
            self._clean.update(text for text in texts if len(text) <= _SHORT)
        if isinstance(value, dict):
            self._clean_values.append(value)
        return True

    def _texts_in(self, value: Any, name: str) -> list[str]:
        """What is looked through of a JSON value: its strings, names of fields and long numbers.

        Every request comes through here in whole, so it has no calls in it but where names are new.
        """
        texts = [_named(name, value)] if isinstance(value, str) and is_telling(name) else []
        level = [value]
        while level:
            below: list[Any] = []
            for item in level:
                kind = type(item)
                if kind is str:
                    texts.append(item)
                elif kind is dict:
                    texts += item
                    below += item.values()
                    if not item.keys() <= self._plain_names:
                        texts += self._named_texts(item)
                elif kind is list:
                    below += item
                elif (kind is int or kind is float) and not -_SMALLEST_NUMBER < item < _SMALLEST_NUMBER:
                    texts.append(_digits(item))
            level = below
        return texts

    def _named_texts(self, obj: dict[str, Any]) -> list[str]:
        """The strings that are read together with the name of their field."""
        named = []
        for name, value in obj.items():
            if name in self._plain_names or type(value) is int:
                continue
            if is_telling(name):
                named += [_named(name, text) for text in _strings(value)]
            elif len(self._plain_names) < _KNOWN and len(name) <= _SHORT:
                self._plain_names.add(name)
        return named

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
        shown = _digits(value)
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


class _Found(Exception):  # noqa: N818  # a finding, not an error
    """There is something to be replaced."""


class Survey(Redaction):
    """Takes all texts for clean and collects them, so that one search tells in the end whether they are.

    Most requests are clean. What looks like a secret is left to a Redaction.
    """

    def __init__(self, redaction: Redaction) -> None:
        super().__init__(redaction._search, _raise_found, redaction.scopes)
        self._long = Redaction(redaction._search, _raise_found, redaction.scopes)
        self._texts: list[str] = []

    def is_clean_throughout(self, look_through: Callable[[Redaction], object]) -> bool:
        """Whether nothing is to be replaced in what the function looks through, and that can be told."""
        if self._search.find is not None:
            return False
        try:
            look_through(self)
            for text in self._texts:
                if len(text) >= self._search.cap:  # it may hold what a search alone cannot tell
                    self._long.text(text)
        except (_Found, Withheld):
            return False
        return self._scanner.all_clean(self._texts)

    def is_clean(self, text: str) -> bool:
        self._texts.append(text)
        return True

    def text(self, text: str, name: str = "") -> str:
        self._texts += self._texts_in(text, name)
        return text

    def value(self, value: Any, name: str = "") -> Any:
        if value not in self._clean_values:
            self._texts += self._texts_in(value, name)
            if isinstance(value, dict):
                self._clean_values.append(value)
        return value


def _raise_found(kind: str, original: str) -> str:
    raise _Found


def _named(name: str, text: str) -> str:
    """The text with the name of the field that holds it, unless it is long."""
    if len(text) > _LONGEST_NAMED:
        return text
    quote = _quote_for(text)
    return f"{quote}{name}{quote}: {quote}{text}{quote}"


def _quote_for(text: str) -> str:
    """A quote that the text does not hold, so that it is read to its end; the usual one if it holds all."""
    return next((quote for quote in "\"'`" if quote not in text), '"')


def _digits(number: float) -> str:
    """A number as it is looked through: equal numbers are the same text."""
    return str(int(number) if isinstance(number, float) and number.is_integer() else number)


def _strings(value: Any) -> list[str]:
    """A string, or those of a list."""
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    return [value] if isinstance(value, str) else []


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
    left, level = _LONG, [value]
    while level and left > 0:
        below: list[Any] = []
        for item in level:
            kind = type(item)
            if kind is str:
                left -= len(item)
            elif kind is dict:
                below += item.values()
            elif kind is list:
                below += item
        level = below
    return left <= 0
