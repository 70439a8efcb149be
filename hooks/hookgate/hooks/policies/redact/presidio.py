"""Presidio as an additional detector: finds names, places and other entities that its recognizers know.

Presidio needs complete texts, so a streamed answer is held back until its end. It is installed with the extra
`presidio`.
"""

from collections.abc import Callable, Iterator
from importlib import import_module
from itertools import groupby
from typing import Any

from pydantic import Field

from hookgate.hooks.policies.options import Options
from hookgate.hooks.policies.redact.streaming import Fragment, KeptFragment, ReplacedFragment, TextRedactor

BLANK = "blank"

Find = Callable[[str], list[tuple[int, int, str]]]
"""Returns the findings in a text as begin, end and kind, in order, without overlaps."""


class PresidioOptions(Options):
    """Options of the Presidio detector."""

    entities: tuple[str, ...] = Field(strict=False, min_length=1)
    """Kinds of entities to find, such as `PERSON` and `LOCATION`."""

    language: str = "en"
    """The language of the texts."""

    model: str = "en_core_web_lg"
    """The spaCy model for the language; `blank` for recognizers that need no model."""

    threshold: float = Field(default=0.5, ge=0, le=1, strict=False)
    """The minimum score of a finding."""


class BufferingRedactor:
    """A redactor that waits for the complete text, then applies another redactor, and `find` to the rest."""

    def __init__(self, inner: TextRedactor, find: Find, replace: Callable[[str, str], str]) -> None:
        self._inner, self._find, self._replace = inner, find, replace
        self._before = ""  # the end of a text that was judged before, which the inner redactor holds
        self._text = ""
        self._interruptions: list[int] = []  # where in the text

    @property
    def held_text(self) -> str:
        """Nothing: this searches complete texts only."""
        return ""

    def begin_after(self, text: str) -> str:
        """Begin after a text that was judged before, and return the end of it that fragments repeat."""
        self._before = self._inner.begin_after(text)
        return self._before

    def interrupt(self) -> None:
        """Note that other content stands between the text so far and what is fed next."""
        if len(self._text) not in self._interruptions[-1:]:
            self._interruptions.append(len(self._text))

    def feed(self, text: str) -> list[Fragment]:
        """Buffer the text. Returns an empty list: Presidio needs the complete text."""
        self._text += text
        return []

    def finish(self) -> list[Fragment]:
        """End the text and return all fragments."""
        return self._redact_kept(self._fed() + self._inner.finish())

    def release(self) -> list[Fragment]:
        """Return all fragments of the text so far, and begin another one."""
        fragments = self.finish()
        self._before, self._text, self._interruptions = "", "", [0]
        return fragments

    def cut_off(self) -> list[Fragment]:
        """End the text although it is incomplete, and return all fragments."""
        return self._redact_kept(self._fed() + self._inner.cut_off())

    def _fed(self) -> list[Fragment]:
        """Feed all of the text to the inner redactor, and return the fragments that are decided then."""
        fragments: list[Fragment] = []
        at = 0
        for interruption in self._interruptions:
            fragments += self._inner.feed(self._text[at:interruption])
            self._inner.interrupt()
            at = interruption
        return fragments + self._inner.feed(self._text[at:])

    def _redact_kept(self, fragments: list[Fragment]) -> list[Fragment]:
        text = self._before + self._text
        findings = self._find(text)
        redacted: list[Fragment] = []
        at = 0
        for fragment in _joined_kept(fragments):
            end = at + len(fragment.original)
            if isinstance(fragment, KeptFragment):
                redacted += self._split_kept(text, at, end, findings)
            else:
                redacted.append(fragment)
            at = end
        return redacted

    def _split_kept(
        self, text: str, begin: int, end: int, findings: list[tuple[int, int, str]]
    ) -> list[Fragment]:
        """Split a fragment that the inner redactor kept. Findings are clipped to the fragment."""
        fragments: list[Fragment] = []
        for first, last, kind in findings:
            start, stop = max(first, begin), min(last, end)
            if start < stop:
                fragments.append(KeptFragment(text[begin:start]))
                original = text[start:stop]
                new = self._replace(kind, original)
                fragments.append(ReplacedFragment(kind, original, new, source="presidio"))
                begin = stop
        fragments.append(KeptFragment(text[begin:end]))
        return [fragment for fragment in fragments if fragment.original]


def _joined_kept(fragments: list[Fragment]) -> Iterator[Fragment]:
    """Yield the fragments with kept ones in a row as one, so that a finding in several of them stays one."""
    for kept, row in groupby(fragments, key=lambda fragment: isinstance(fragment, KeptFragment)):
        if kept:
            yield KeptFragment("".join(fragment.original for fragment in row))
        else:
            yield from row


def load_presidio(options: PresidioOptions) -> Find:
    """Load Presidio, which takes seconds. Raises ValueError if it or its model is not installed."""
    try:  # imported by name, because it is optional
        engine = import_module("presidio_analyzer").AnalyzerEngine
    except ImportError:
        raise ValueError("presidio: is not installed; install hookgate with its extra presidio") from None
    try:
        analyzer = engine(nlp_engine=_language_model(options), supported_languages=[options.language])
    except (OSError, SystemExit, ValueError) as error:
        raise ValueError(
            f"presidio: the model {options.model!r} cannot be loaded: {error}; "
            f"run python -m spacy download {options.model}"
        ) from None

    def find(text: str) -> list[tuple[int, int, str]]:
        results = analyzer.analyze(
            text,
            language=options.language,
            entities=list(options.entities),
            score_threshold=options.threshold,
        )
        return _without_overlaps(sorted((item.start, -item.end, item.entity_type) for item in results))

    return find


def _without_overlaps(findings: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return the findings that do not overlap an earlier one.

    The ends of sorted findings are negated, so that of those with the same begin the longest comes first.
    """
    separate: list[tuple[int, int, str]] = []
    for start, negated, kind in findings:
        if not separate or start >= separate[-1][1]:
            separate.append((start, -negated, kind))
    return separate


def _language_model(options: PresidioOptions) -> Any:
    spacy = import_module("spacy")  # comes with Presidio
    engine = import_module("presidio_analyzer.nlp_engine").SpacyNlpEngine(
        models=[{"lang_code": options.language, "model_name": options.model}]
    )
    # The model is loaded here, because Presidio would download a missing one.
    blank = options.model == BLANK
    engine.nlp = {options.language: spacy.blank(options.language) if blank else spacy.load(options.model)}
    return engine
