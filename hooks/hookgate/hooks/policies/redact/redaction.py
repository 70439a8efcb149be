"""Redaction of one body or answer: searches its texts and values, replaces findings, and counts them.

A text may be spread over several places. A secret may then begin in one part and end in the next; its
replacement is put where the secret begins.
"""

import re
from collections import Counter, deque
from collections.abc import Callable, Collection, Hashable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Generic, TypeVar

from hookgate.hooks.policies.redact.json_text import JsonText, unescaped
from hookgate.hooks.policies.redact.known import NOTHING_KNOWN, KnownParts
from hookgate.hooks.policies.redact.presidio import BufferingRedactor, Find
from hookgate.hooks.policies.redact.report import FindingsReport, Key
from hookgate.hooks.policies.redact.scanner import Scanner, TakesLong, is_long
from hookgate.hooks.policies.redact.streaming import (
    AtCap,
    BlockedFragment,
    Fragment,
    ReplacedFragment,
    TextRedactor,
    keep_original,
)
from hookgate.hooks.policies.speakers import SCOPES, Scope
from hookgate.hooks.session import Withheld
from hookgate.translator.fields import JsonObject, same_items

Place = TypeVar("Place", bound=Hashable)

_TOO_LONG = "The text contains what may be a secret of more than {} characters ({})."


class ChunkedText(Generic[Place]):
    """One text in chunks. `put` is called with each place and its output, in order, once it is decided."""

    def __init__(
        self,
        redactor: TextRedactor | BufferingRedactor,
        put: Callable[[Place, str], None],
        note: Callable[[Place, ReplacedFragment], None],
        json_text: JsonText | None = None,
    ) -> None:
        """`note` is called with each finding and the place where it begins.

        `json_text` is the state of a text that is JSON, and stays JSON.
        """
        self._redactor, self._put, self._note, self._json_text = redactor, put, note, json_text
        self._undecided: deque[tuple[Place | None, int]] = deque()  # None: text that was released
        self._counts: Counter[Place | None] = Counter()  # of each place in it: there may be thousands

    def begin_after(self, text: str) -> None:
        """Begin after a text that was judged before, in which a secret may have begun."""
        if held := self._redactor.begin_after(text):
            self._add(None, len(held))
        if self._json_text:
            self._json_text.read(text)

    def feed(self, place: Place, text: str) -> None:
        """Add the next chunk, which is at this place. Raises Withheld if the text is blocked."""
        self.feed_all([(place, text)])

    def feed_all(self, chunks: Sequence[tuple[Place, str]]) -> None:
        """Add the next chunks, with their places, as one. Raises Withheld if the text is blocked."""
        for place, text in chunks:
            if text:
                self._add(place, len(text))
        if joined := "".join([text for _, text in chunks]):
            self._put_fragments(self._redactor.feed(joined))

    def finish(self) -> None:
        """End the text, so that all of it is decided. Raises Withheld if it is blocked."""
        self._put_fragments(self._redactor.finish())

    def cut_off(self) -> None:
        """End the text although it is incomplete. Raises Withheld if it is blocked."""
        if self._undecided and self._undecided[-1][0] is not None:
            self._put_fragments(self._redactor.cut_off())

    def interrupt(self) -> None:
        """Note that other content stands between the text so far and the next chunk."""
        self._redactor.interrupt()

    def release(self) -> None:
        """Decide all text so far, although it may end within a secret. Raises Withheld if it is blocked.

        If the secret continues, its other part is replaced.
        """
        if not self._undecided or self._undecided[-1][0] is None:
            return
        self._put_fragments(self._redactor.release())
        if held := self._redactor.held_text:
            self._add(None, len(held))

    def is_undecided(self, place: Place) -> bool:
        """Return whether some of the text at a place is undecided."""
        return place in self._counts

    def _add(self, place: Place | None, length: int) -> None:
        self._undecided.append((place, length))
        self._counts[place] += 1

    def _put_fragments(self, fragments: list[Fragment]) -> None:
        for fragment in fragments:
            if isinstance(fragment, BlockedFragment):
                raise Withheld(_TOO_LONG.format(len(fragment.original), fragment.kind), fragment.kind)
            rest, output = fragment.original, fragment.output
            finding = fragment if isinstance(fragment, ReplacedFragment) else None
            while rest:
                place, length = self._undecided.popleft()
                size = min(length, len(rest))
                if place is not None:
                    if finding:
                        self._note(place, finding)
                        finding = None
                    self._put_part(place, fragment, rest[:size], output)
                    output = ""
                rest = rest[size:]
                if length > size:
                    self._undecided.appendleft((place, length - size))
                elif self._counts[place] > 1:
                    self._counts[place] -= 1
                else:
                    del self._counts[place]

    def _put_part(self, place: Place, fragment: Fragment, part: str, output: str) -> None:
        """Put the output of a part of a fragment, which is all of it for the first part that is replaced."""
        if fragment.output == fragment.original:
            output = part
        elif self._json_text and output:
            output = self._json_text.written(fragment.original, output)
        if self._json_text:
            self._json_text.read(part)
        self._put(place, output)


_SECRET_NAMES = re.compile(
    r"pass|secret|token|key|credential|auth|pwd|dsn|(?:^|[_-])pat(?:$|[_-])"
    r"|phone|telefon|mobile|social|medicare|nummer|kimlik|aadhaar"
    r"|(?:^|[_-])(?:tel|fax|cell|gsm|whatsapp|ssn|sin|nhs|ppsn?|cpf|cpr|nif|bsn|cnp|egn|oib|amka|tckn|inn|nik)"
    r"(?:$|[_-])|(?:^|[_-])(?:tfn|ird|nrn|niss|insz|svnr)(?:$|[_-])",
    re.IGNORECASE,
)
"""Names of fields whose values are searched together with the name, as an assignment: `password: …`.

They are those of secrets, and of telephone and national numbers that are found only after their names.
"""

_HOLDERS = frozenset({"const", "default", "enum", "example", "examples", "value", "values"})
"""Names of fields with a value of the field around them, as in schemas: `password: {"default": …}`."""

_MAX_CLEAN_LENGTH, _MAX_CLEAN_TEXTS = 64, 4096
"""The maximum length and number of the texts that are remembered to be clean, such as names of fields."""

_REPEATED = 3
"""The number of clean objects that are remembered: turns and stream events repeat much of their content."""

_LONGEST_NAMED = 1024

_SMALLEST_NUMBER = 10_000_000


@dataclass(frozen=True, slots=True)
class Search:
    """How texts are searched."""

    scanner: Scanner
    limit: int = 100_000
    """The maximum number of possible secrets to check in one body."""
    cap: int = 8192
    at_cap: AtCap = "mask"
    """See TextRedactor."""
    find: Find | None = None
    """An additional detector, which needs complete texts."""
    hash_of: Callable[[str, str], str] | None = None
    """See FindingsReport."""


class Redaction:
    """Redacts texts and JSON values, and counts the findings."""

    may_join_values = False
    """Whether the values of several contents may be searched as one, which is faster.

    This requires that nothing is replaced, and that all scopes are searched.
    """

    def __init__(
        self,
        search: Search,
        replace: Callable[[str, str], str],
        scopes: Collection[Scope] = SCOPES,
        *,
        brief: bool = False,
        known: KnownParts = NOTHING_KNOWN,
    ) -> None:
        """`replace` is called with the kind and text of a finding; it may raise Withheld.

        If `brief` is true, texts that take long to search raise TakesLong instead. `known` are the parts of a
        request in which the same search has found nothing.
        """
        self.scopes, self.known, self.report = scopes, known, FindingsReport(search.hash_of)
        self.findings: Counter[str] = Counter()
        self._search, self._replacement, self._brief = search, replace, brief
        self._scanner = search.scanner.limited(search.limit, brief=brief)
        self._clean: set[str] = set()
        self._plain_names: set[str] = set()
        self._clean_values: deque[JsonObject] = deque(maxlen=_REPEATED)

    def findings_output(self) -> JsonObject:
        """Return the fields of a hook's output that tell what was replaced: how often, by kind, and where."""
        counts = {kind: count for kind, count in self.findings.items() if count}
        return {"findings": counts, **self.report.output()}

    def chunked_text(
        self,
        put: Callable[[Place, str], None],
        path_of: Callable[[Place], tuple[Key, ...]],
        *,
        is_json: bool = False,
    ) -> ChunkedText[Place]:
        """Return a text to feed in chunks.

        `put` receives its output, which is JSON if the text is. `path_of` returns the path to a place.
        """

        def note(place: Place, fragment: ReplacedFragment) -> None:
            if is_json and fragment.output != fragment.original:
                fragment = replace(fragment, original=unescaped(fragment.original))
            self.report.note(fragment, *path_of(place))

        replacement = self._replace_in_json if is_json else self._replace
        redactor = TextRedactor(self._scanner, replacement, self._search.cap, self._search.at_cap)
        find, json_text = self._search.find, JsonText() if is_json else None
        return ChunkedText(
            redactor if find is None else BufferingRedactor(redactor, find, replacement), put, note, json_text
        )

    @property
    def slow(self) -> bool:
        """Whether a search may block the event loop for too long."""
        return self._search.find is not None

    def takes_long(self, value: Any) -> bool:
        """Return whether redacting a JSON value may block the event loop for too long. Counts no findings."""
        if self.slow or is_long(value):
            return True
        try:
            Redaction(self._search, keep_original, self.scopes, brief=True).value(value)
        except TakesLong:
            return True
        except Withheld:
            return False
        return False

    def is_clean(self, text: str) -> bool:
        """Return whether a quick search shows that there is nothing to replace in a complete text."""
        if text in self._clean:
            return True
        if len(text) >= self._search.cap or self._search.find is not None:
            return False
        clean = self._scanner.is_clean(text)
        if clean and len(text) <= _MAX_CLEAN_LENGTH and len(self._clean) < _MAX_CLEAN_TEXTS:
            self._clean.add(text)
        return clean

    def text(self, text: str, name: str = "") -> str:
        """Redact a complete text; `name` is the name of its field. Raises Withheld."""
        is_named = len(text) <= _LONGEST_NAMED and names_a_secret(name)
        quote = _quote_for(text)
        if self.is_clean(_as_assignment(name, text) if is_named else text):
            return text
        output: list[str] = []
        chunked_text: ChunkedText[bool] = self.chunked_text(
            lambda inside, text: output.append(text) if inside else None, _no_path
        )
        if is_named:
            chunked_text.feed(False, f"{quote}{name}{quote}: {quote}")
        chunked_text.feed(True, text)
        if is_named:
            chunked_text.feed(False, quote)
        chunked_text.finish()
        return "".join(output)

    def chunk(self, text: str) -> str:
        """Redact a chunk of a text that was already redacted as a whole. Raises Withheld.

        The additional detector is not used: it has searched the whole, and may not recognize masks.
        """
        if self._scanner.is_clean(text):
            return text
        output: list[str] = []
        chunked_text: ChunkedText[bool] = ChunkedText(
            self._redactor(),
            lambda _, text: output.append(text),
            lambda _, fragment: self.report.note(fragment),
        )
        chunked_text.feed(True, text)
        chunked_text.finish()
        return "".join(output)

    def value(self, value: Any) -> Any:
        """Redact all strings, names of fields and long numbers in a JSON value.

        Returns the same object if nothing is found. Raises Withheld.
        """
        return value if self.is_clean_value(value) else self._redacted(value, "")

    def is_clean_value(self, value: Any) -> bool:
        """Return whether one search shows that there is nothing to replace in a JSON value."""
        if self._search.find is not None:
            return False
        if value in self._clean_values:
            return True
        texts = set(self._texts_in(value)) - self._clean
        if texts and (max(map(len, texts)) >= self._search.cap or not self._scanner.all_clean(texts)):
            return False
        if len(self._clean) < _MAX_CLEAN_TEXTS:
            self._clean.update(text for text in texts if len(text) <= _MAX_CLEAN_LENGTH)
        if isinstance(value, dict):
            self._clean_values.append(value)
        return True

    def _texts_in(self, value: Any, name: str = "") -> list[str]:
        """Return what to search in a JSON value: its strings, names of fields and long numbers.

        Every request passes through this function, so it avoids calls, except for new names.
        """
        texts = [_as_assignment(name, value)] if isinstance(value, str) and names_a_secret(name) else []
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
                    if names := item.keys() - self._plain_names:
                        texts += self._named_texts(item, names)
                elif kind is list:
                    below += item
                elif (kind is int or kind is float) and not -_SMALLEST_NUMBER < item < _SMALLEST_NUMBER:
                    texts.append(_digits(item))
            level = below
        return texts

    def _named_texts(self, obj: dict[str, Any], names: Collection[str]) -> list[str]:
        """Return the strings and long numbers that are searched together with the name of their field.

        `names` are those of its fields that may name a secret.
        """
        texts = []
        for name in names:
            value = obj[name]
            if type(value) is int and -_SMALLEST_NUMBER < value < _SMALLEST_NUMBER:
                continue
            if names_a_secret(name):
                held = [value[key] for key in _HOLDERS & value.keys()] if type(value) is dict else [value]
                texts += [_as_assignment(name, text) for each in held for text in _strings(each)]
            elif len(self._plain_names) < _MAX_CLEAN_TEXTS and len(name) <= _MAX_CLEAN_LENGTH:
                self._plain_names.add(name)
        return texts

    def _redacted(self, value: Any, name: str) -> Any:
        if isinstance(value, str):
            new: Any = self.text(value, name)
            return value if new == value else new
        if isinstance(value, bool) or value is None:
            return value
        if isinstance(value, int | float):
            return self._number(value, name)
        if isinstance(value, list):
            items = []
            for at, item in enumerate(value):
                before = len(self.report)
                items.append(self._redacted(item, name))
                self.report.within(before, at)
            return value if same_items(items, value) else items
        return self._object(value, name)

    def _number(self, value: float, name: str) -> Any:
        if abs(value) < _SMALLEST_NUMBER:
            return value
        shown = _digits(value)
        new = self.text(shown, name)
        return value if new == shown else new

    def _object(self, value: dict[str, Any], own_name: str) -> dict[str, Any]:
        new: dict[str, Any] = {}
        numbers: dict[str, int] = {}
        same = True
        for name, item in value.items():
            of_owner = name in _HOLDERS and names_a_secret(own_name)
            new_name, before = self.text(name), len(self.report)
            redacted = self._redacted(item, own_name if of_owner else name)
            self.report.within(before, new_name)
            same = same and new_name == name and redacted is item
            new[_unique_name(new, new_name, numbers)] = redacted
        return value if same else new

    def _redactor(self) -> TextRedactor:
        return TextRedactor(self._scanner, self._replace, self._search.cap, self._search.at_cap)

    def _replace_in_json(self, kind: str, original: str) -> str:
        plain = unescaped(original)
        new = self._replace(kind, plain)
        return original if new == plain else new

    def _replace(self, kind: str, original: str) -> str:
        new = self._replacement(kind, original)
        self.findings[kind] += new != original
        return new


def _no_path(place: object) -> tuple[Key, ...]:
    return ()


class _Found(Exception):  # noqa: N818  # a finding, not an error
    """There is something to replace."""


class CleanCheck(Redaction):
    """Collects all texts of a body, to check with one search at the end whether they are clean.

    Most requests are. Any other one is left to a Redaction.
    """

    def __init__(self, redaction: Redaction) -> None:
        super().__init__(
            redaction._search,
            _raise_found,
            redaction.scopes,
            brief=redaction._brief,
            known=redaction.known.again(),
        )
        self.may_join_values = set(redaction.scopes) >= SCOPES
        self._texts: list[str] = []
        self._values: list[Any] = []

    def is_clean_throughout(self, look_through: Callable[[Redaction], object]) -> bool:
        """Return whether there is nothing to replace in the texts that `look_through` redacts."""
        if self._search.find is not None:
            return False
        try:
            look_through(self)
            texts = {*self._texts, *self._texts_in(self._values)}
            long = {text for text in texts if len(text) >= self._search.cap}
            if long:  # one search is not enough for them
                search = Redaction(self._search, _raise_found, self.scopes, brief=self._brief)
                for text in long:
                    search.text(text)
        except (_Found, Withheld):
            return False
        return self._scanner.all_clean(texts - long)

    def is_clean(self, text: str) -> bool:
        self._texts.append(text)
        return True

    def text(self, text: str, name: str = "") -> str:
        self._texts += self._texts_in(text, name)
        return text

    def value(self, value: Any) -> Any:
        self._values.append(value)
        return value


def _raise_found(kind: str, original: str) -> str:
    raise _Found


def _as_assignment(name: str, text: str) -> str:
    """Return the text as an assignment to the name of its field, unless it is long."""
    if len(text) > _LONGEST_NAMED:
        return text
    quote = _quote_for(text)
    return f"{quote}{name}{quote}: {quote}{text}{quote}"


def _quote_for(text: str) -> str:
    """Return a quote that the text does not contain, or `"` if it contains all of them."""
    return next((quote for quote in "\"'`" if quote not in text), '"')


def _digits(number: float) -> str:
    """Return a number as text to search. Equal numbers have the same text."""
    return str(int(number) if isinstance(number, float) and number.is_integer() else number)


def _strings(value: Any) -> list[str]:
    """Return a string or a long number as a text in a list, or those in a list."""
    if isinstance(value, list):
        return [text for item in value for text in _strings(item)]
    if isinstance(value, int | float) and abs(value) >= _SMALLEST_NUMBER:
        return [_digits(value)]
    return [value] if isinstance(value, str) else []


def without_small_numbers(obj: JsonObject) -> JsonObject:
    """Return the object with 0 in place of its integers that are too short to be searched, such as counts."""
    return {
        name: 0 if type(value) is int and -_SMALLEST_NUMBER < value < _SMALLEST_NUMBER else value
        for name, value in obj.items()
    }


def names_a_secret(name: str) -> bool:
    """Return whether values of a field with this name are searched as an assignment."""
    return _SECRET_NAMES.search(name) is not None


def _unique_name(taken: Collection[str], name: str, numbers: dict[str, int]) -> str:
    """Return the name, with a number added if it is taken, so that no field is lost.

    `numbers` are the next numbers to try for each name, which are updated.
    """
    unique = name
    while unique in taken:
        number = numbers.get(name, 2)
        unique, numbers[name] = f"{name}_{number}", number + 1
    return unique
