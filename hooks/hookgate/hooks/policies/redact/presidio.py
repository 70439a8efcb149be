"""Presidio as a further detector: names, places and whatever else its recognizers know, in whole texts.

It reads a text as a whole, so a streamed answer waits for its end. The extra `presidio` brings it.
"""

from collections.abc import Callable
from importlib import import_module
from typing import Any

from pydantic import Field

from hookgate.hooks.policies.options import Options
from hookgate.hooks.policies.redact.held import Redactor
from hookgate.hooks.policies.redact.pieces import Kept, Piece, Replaced

BLANK = "blank"

Find = Callable[[str], list[tuple[int, int, str]]]
"""What is found in a text: begin, end and kind of each finding, in order, none inside another."""


class PresidioOptions(Options):
    """What Presidio looks for, and how."""

    entities: tuple[str, ...] = Field(strict=False, min_length=1)
    """Kinds that it looks for, such as `PERSON` and `LOCATION`."""

    language: str = "en"
    """The language of the texts."""

    model: str = "en_core_web_lg"
    """The spaCy model that knows the language; `blank` for recognizers that need none."""

    threshold: float = Field(default=0.5, ge=0, le=1, strict=False)
    """How sure it has to be."""


class WholeRedactor:
    """A Redactor that waits for the whole text: what another one finds in it, and `find` in the rest."""

    def __init__(self, inner: Redactor, find: Find, replace: Callable[[str, str], str]) -> None:
        self._inner, self._find, self._replace = inner, find, replace
        self._text = ""

    def feed(self, text: str) -> list[Piece]:
        """Nothing yet."""
        self._text += text
        return []

    def finish(self) -> list[Piece]:
        """All of it."""
        return self._found_in(self._inner.feed(self._text) + self._inner.finish())

    def cut_off(self) -> list[Piece]:
        """The same, though the text was not at its end."""
        return self._found_in(self._inner.feed(self._text) + self._inner.cut_off())

    def _found_in(self, pieces: list[Piece]) -> list[Piece]:
        findings = self._find(self._text)
        out: list[Piece] = []
        at = 0
        for piece in pieces:
            end = at + len(piece.original)
            if isinstance(piece, Kept):
                out += self._kept(at, end, findings)
            else:
                out.append(piece)
            at = end
        return out

    def _kept(self, begin: int, end: int, findings: list[tuple[int, int, str]]) -> list[Piece]:
        """A stretch that the other one kept; a finding that reaches out of it counts as far as it goes."""
        out: list[Piece] = []
        for first, last, kind in findings:
            start, stop = max(first, begin), min(last, end)
            if start < stop:
                out.append(Kept(self._text[begin:start]))
                original = self._text[start:stop]
                out.append(Replaced(kind, original, self._replace(kind, original)))
                begin = stop
        out.append(Kept(self._text[begin:end]))
        return [piece for piece in out if piece.original]


def finder(options: PresidioOptions) -> Find:
    """Loads Presidio, which takes seconds. Raises ValueError, with the remedy, when it cannot be had."""
    try:  # by name, since it is 400 MB that few have installed
        engine = import_module("presidio_analyzer").AnalyzerEngine
    except ImportError:
        raise ValueError("presidio: is not installed; pip install 'hookgate[presidio]'") from None
    try:
        analyzer = engine(nlp_engine=_language_model(options), supported_languages=[options.language])
    except (OSError, SystemExit, ValueError) as error:
        raise ValueError(
            f"presidio: the model {options.model!r} cannot be loaded: {error}; "
            f"python -m spacy download {options.model}"
        ) from None

    def find(text: str) -> list[tuple[int, int, str]]:
        results = analyzer.analyze(
            text,
            language=options.language,
            entities=list(options.entities),
            score_threshold=options.threshold,
        )
        return _apart(sorted((each.start, -each.end, each.entity_type) for each in results))

    return find


def _apart(findings: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """The findings without those inside another. Their ends are negated: the longest of a begin is first."""
    apart: list[tuple[int, int, str]] = []
    for start, negated, kind in findings:
        if not apart or start >= apart[-1][1]:
            apart.append((start, -negated, kind))
    return apart


def _language_model(options: PresidioOptions) -> Any:
    spacy = import_module("spacy")  # comes with Presidio
    engine = import_module("presidio_analyzer.nlp_engine").SpacyNlpEngine(
        models=[{"lang_code": options.language, "model_name": options.model}]
    )
    # Loaded here and not by Presidio, which would fetch a model that is missing.
    blank = options.model == BLANK
    engine.nlp = {options.language: spacy.blank(options.language) if blank else spacy.load(options.model)}
    return engine
