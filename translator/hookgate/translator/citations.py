"""Moves the offsets of citations after a hook has edited the text that they refer to.

An offset stays at the same place of the text. A citation whose place is gone is removed.
"""

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate, chain, pairwise
from typing import Any, NamedTuple

from hookgate.translator.fields import (
    JsonObject,
    indexes,
    is_text,
    parts_of,
    read,
    read_list,
    read_object,
    same_items,
    without,
    write,
)
from hookgate.translator.streaming.edits import respread

Span = tuple[int, int]

CITING = frozenset({"groundingMetadata", "grounding_metadata", "citationMetadata", "citation_metadata"})
"""The fields of a candidate that contain offsets in its text, which are counted in bytes of UTF-8."""


class _EditedText:
    """A text before and after edits. Offsets are in characters, or in bytes of UTF-8."""

    def __init__(self, old: str, new: str, *, in_bytes: bool) -> None:
        self.old, self.new = old, new
        self._before = _Offsets(old) if in_bytes and not old.isascii() else None
        self._after = _Offsets(new) if in_bytes and not new.isascii() else None
        self._moved: dict[int, int] = {}
        self._searches = 0

    def characters(self, span: Span) -> Span | None:
        """Return a span of the old text in characters; None if it is not one."""
        first, last = (self._before.character(at) if self._before else at for at in span)
        if first is None or last is None or not 0 <= first <= last <= len(self.old):
            return None
        return first, last

    def move(self, spans: Sequence[Span]) -> None:
        """Find the places of spans, which are in characters, in the new text."""
        borders = sorted({0, len(self.old), *(at for span in spans for at in span)})
        pieces = [self.old[first:last] for first, last in pairwise(borders)]
        new = respread(pieces, self.new) if pieces else []
        if len(pieces) > 1 and not any(a and a == b for a, b in zip(pieces, new, strict=True)):
            return  # nothing of the text is left
        self._moved = dict(zip(borders, accumulate(map(len, new), initial=0), strict=True))

    def moved(self, span: Span, edited: Any = None) -> tuple[Span, Span] | None:
        """Return where a span is now, in the unit of offsets and in characters. None if its place is gone.

        `edited` is the text of the span after the hooks, if they have edited it, too: of several edits next
        to each other, it shows which ones belong to the span.
        """
        first, last = (self._moved.get(at) for at in span)
        if first is None or last is None:
            return None
        if isinstance(edited, str) and edited and not _is_at(self.new, (first, last), edited):
            found = self._near(edited, first)
            if found:
                first = found[0] if len(found) == 1 or first - found[0] <= found[1] - first else found[1]
                last = first + len(edited)
        if first == last and span[0] != span[1]:
            return None
        shown = (self._after.byte(at) if self._after else at for at in (first, last))
        return (next(shown), next(shown)), (first, last)

    def _near(self, segment: str, place: int) -> list[int]:
        """Return where a segment begins in the new text before and behind a place, if that is near."""
        if len(segment) > _FAR or self._searches >= _MAX_SEARCHES:
            return []
        self._searches += 1
        before = self.new.rfind(segment, max(0, place - _FAR), place + len(segment))
        behind = self.new.find(segment, place, place + len(segment) + _FAR)
        return [at for at in (before, behind) if at >= 0]


_FAR = 1000
"""The characters by which a segment may be farther from its place, and the longest one that is looked for."""

_MAX_SEARCHES = 1000
"""The number of segments of one text that are looked for: each may take half a millisecond if crafted."""

_LONGER = 100
"""The characters by which the text of a segment may be longer than twice the one before."""

_BLOCK = 1024


class _Offsets:
    """Converts offsets in bytes of UTF-8 to offsets in characters, and back."""

    def __init__(self, text: str) -> None:
        self._text = text
        blocks = (_encoded(text[first : first + _BLOCK]) for first in range(0, len(text), _BLOCK))
        self._begins = [*accumulate(map(len, blocks), initial=0)]
        """The offsets in bytes at which blocks of characters begin."""

    def character(self, offset: int) -> int | None:
        """Return an offset in characters, or None if it is within a character or behind the text."""
        if not 0 <= offset <= self._begins[-1]:
            return None
        number = max(0, min(bisect_right(self._begins, offset) - 1, len(self._begins) - 2))
        block = _encoded(self._text[number * _BLOCK : (number + 1) * _BLOCK])
        try:
            before = block[: offset - self._begins[number]].decode(errors="surrogatepass")
        except UnicodeDecodeError:
            return None
        return number * _BLOCK + len(before)

    def byte(self, offset: int) -> int:
        """Return an offset in bytes."""
        number = offset // _BLOCK
        return self._begins[number] + len(_encoded(self._text[number * _BLOCK : offset]))


def _is_at(text: str, span: Span, segment: Any) -> bool:
    """Return whether a segment is the text of a span, of which no more than its length is read."""
    return (
        isinstance(segment, str) and span[1] - span[0] == len(segment) and text.startswith(segment, span[0])
    )


def _encoded(text: str) -> bytes:
    return text.encode(errors="surrogatepass")


# ---- candidates


def with_moved_citations(before: JsonObject, after: JsonObject) -> JsonObject:
    """Return an edited response with the offsets of its citations moved. `before` is the original one."""
    if after is before or not any(CITING & each.keys() for each in read_list(after, "candidates")):
        return after
    originals = read_list(before, "candidates")
    by_index = dict(zip(indexes(originals), originals, strict=True))
    candidates = read_list(after, "candidates")
    new = []
    for index, candidate in zip(indexes(candidates), candidates, strict=True):
        original = by_index.get(index, {})
        old_texts, new_texts = _texts(original), _texts(candidate)
        if len(old_texts) != len(new_texts):
            old_texts, new_texts = {}, {}
        pairs = [(text, new_texts[place]) for place, text in old_texts.items() if place in new_texts]
        whole = "".join(_texts(original).values()), "".join(_texts(candidate).values())
        by_part = dict(zip(old_texts, pairs, strict=False))
        new.append(move_citations(original, candidate, whole, by_part))
    return after if same_items(new, candidates) else write(after, "candidates", new)


def _texts(candidate: JsonObject) -> dict[int, str]:
    """Return the texts of a candidate without thoughts, by the number of their part."""
    return {
        number: part["text"]
        for number, part in enumerate(parts_of(candidate))
        if is_text(part) and not part.get("thought")
    }


def move_citations(
    original: JsonObject,
    candidate: JsonObject,
    whole: tuple[str, str],
    by_part: Mapping[int, tuple[str, str]] | None = None,
) -> JsonObject:
    """Return a candidate with the offsets of its citations moved.

    Args:
        original: The candidate before the edits.
        candidate: The edited candidate, or the part of a streamed one that contains the citations.
        whole: Its whole text before and after the edits.
        by_part: The same for the texts of its parts, by number.
    """
    pairs: dict[int | None, tuple[str, str]] = {None: whole}
    pairs.update((number, pair) for number, pair in (by_part or {}).items())
    if all(old == new for old, new in pairs.values()):
        return candidate
    texts = {place: _EditedText(*pair, in_bytes=True) for place, pair in pairs.items()}
    grounding = read_object(candidate, "groundingMetadata")
    supports = read_list(grounding, "groundingSupports")
    supports_before = read_list(read_object(original, "groundingMetadata"), "groundingSupports")
    if len(supports_before) != len(supports):
        supports_before = supports
    segments = [_placed_segment(*each, texts) for each in zip(supports_before, supports, strict=True)]
    citations = read_object(candidate, "citationMetadata")
    sources = {
        name: [_placed_source(source, texts[None]) for source in found]
        for name in ("citationSources", "citations")
        if (found := read_list(citations, name))
    }
    _move([*segments, *chain.from_iterable(sources.values())])
    if supports:
        moved = [each for placed in segments if (each := _moved_support(placed)) is not None]
        candidate = write(candidate, "groundingMetadata", write(grounding, "groundingSupports", moved))
    for name, placed in sources.items():
        citations = write(citations, name, [_moved_source(each) for each in placed if each.is_object])
        candidate = write(candidate, "citationMetadata", citations)
    return candidate


class _Placed(NamedTuple):
    """A citation, or a support of grounding, with the text and the span to which it refers."""

    holder: Any
    text: _EditedText | None = None
    span: Span | None = None
    """The span in characters. It is None if there is none, and so is the text if it is unknown."""

    @property
    def is_object(self) -> bool:
        """Whether it is an object, as it has to be."""
        return isinstance(self.holder, dict)


def _move(placed: Iterable[_Placed]) -> None:
    """Find the places of all spans, those of each text at once."""
    by_text: dict[int, tuple[_EditedText, list[Span]]] = {}
    for each in placed:
        if each.text is not None and each.span is not None:
            by_text.setdefault(id(each.text), (each.text, []))[1].append(each.span)
    for text, spans in by_text.values():
        text.move(spans)


def _placed_segment(before: Any, support: Any, texts: Mapping[int | None, _EditedText]) -> _Placed:
    """Return a support with the place of its segment. `before` is the support before the edits."""
    if not (isinstance(before, dict) and isinstance(support, dict)):
        return _Placed(support)
    return _Placed(support, *_place_of(read_object(before, "segment"), texts))


def _moved_support(placed: _Placed) -> JsonObject | None:
    """Return a support with its segment moved; None if the segment is no longer in the text."""
    support, text, span = placed
    if text is None or span is None:
        return None
    segment = read_object(support, "segment")
    if (moved := text.moved(span, read(segment, "text"))) is None:
        return None
    offsets, (first, last) = moved
    new = _with_span(segment, *offsets)
    if isinstance(given := read(segment, "text"), str):
        if last - first > 2 * len(given) + _LONGER:  # it was not the text of its span
            return None
        new = write(new, "text", text.new[first:last])
    with_segment: JsonObject = write(support, "segment", new)
    return with_segment


def _place_of(
    segment: JsonObject, texts: Mapping[int | None, _EditedText]
) -> tuple[_EditedText | None, Span | None]:
    """Return the text that a segment refers to, and its span in characters. Both are None if it is unknown.

    Offsets count from the beginning of a part, or of the whole text if that is streamed. The text of the
    segment, which is the original one, decides.
    """
    offsets, shown = _span(segment, "startIndex", "endIndex"), read(segment, "text")
    found: list[tuple[_EditedText, Span]] = []
    for place in (read(segment, "partIndex") or 0, None):
        text = texts.get(place) if isinstance(place, int | None) else None
        span = text.characters(offsets) if text is not None and offsets is not None else None
        if text is not None and span is not None:
            found.append((text, span))
    fits = (each for each in found if _is_at(each[0].old, each[1], shown))
    return next(fits, found[0] if found else (None, None))


def _placed_source(source: Any, text: _EditedText) -> _Placed:
    """Return the source of a citation with its place."""
    offsets = _span(source, "startIndex", "endIndex") if isinstance(source, dict) else None
    return _Placed(source, text, None if offsets is None else text.characters(offsets))


def _moved_source(placed: _Placed) -> JsonObject:
    """Return a source with moved offsets, or without offsets if its place is gone."""
    source, text, span = placed
    moved = None if text is None or span is None else text.moved(span)
    if moved is None:
        return without(without(source, "startIndex"), "endIndex")
    (first, last), _ = moved
    return _with_span(source, first, last)


def _with_span(obj: JsonObject, first: int, last: int) -> JsonObject:
    """Return an object with other offsets. The API omits a start of 0."""
    if first or read(obj, "startIndex") is not None:
        obj = write(obj, "startIndex", first)
    return write(obj, "endIndex", last)


def _span(obj: JsonObject, start: str, end: str) -> Span | None:
    """Return a span. A missing start is 0, as the API omits zeros."""
    first, last = read(obj, start), read(obj, end)
    first = 0 if first is None else first
    return (first, last) if type(first) is int and type(last) is int else None


# ---- annotations


_HOLDERS = frozenset(
    {
        *("choices", "message", "output", "outputs", "content", "summary", "steps"),
        *("response", "interaction", "item", "part", "step"),
    }
)
"""The fields through which annotations are reached. Arguments of functions are not among them."""


def with_moved_annotations(before: Any, after: Any, *, in_bytes: bool) -> Any:
    """Return an edited body with the offsets of annotations moved. `before` is the original body.

    Annotations are those of OpenAI's APIs, which count characters, or of the Interactions API, which counts
    bytes. Those of a text that has no counterpart are removed.
    """
    if after is before:
        return after
    if isinstance(after, list):
        olds = before if isinstance(before, list) and len(before) == len(after) else [None] * len(after)
        items = [
            with_moved_annotations(old, new, in_bytes=in_bytes) for old, new in zip(olds, after, strict=True)
        ]
        return after if same_items(items, after) else items
    if not isinstance(after, dict):
        return after
    old = before if isinstance(before, dict) else {}
    new = {
        name: with_moved_annotations(old.get(name), value, in_bytes=in_bytes) if name in _HOLDERS else value
        for name, value in after.items()
    }
    result = after if all(new[name] is value for name, value in after.items()) else new
    return move_annotations(old, result, in_bytes=in_bytes)


def move_annotations(before: JsonObject, after: JsonObject, *, in_bytes: bool = False) -> JsonObject:
    """Return a content, or a message, with the offsets of its annotations moved to the edited text."""
    annotations = after.get("annotations")
    if not isinstance(annotations, list) or not annotations:
        return after
    old, new = (
        next((each[n] for n in ("text", "content") if isinstance(each.get(n), str)), None)
        for each in (before, after)
    )
    if new is None or old == new:
        return after
    text = _EditedText(old or "", new, in_bytes=in_bytes)
    spans = [text.characters(span) if (span := _annotated(each)) else None for each in annotations]
    text.move([span for span in spans if span is not None])
    kept = []
    for annotation, span in zip(annotations, spans, strict=True):
        if _annotated(annotation) is None:
            kept.append(annotation)
        elif span is not None and (moved := text.moved(span)) is not None:
            kept.append(_with_offsets(annotation, moved[0]))
    return {**after, "annotations": kept}


def _annotated(annotation: Any) -> Span | None:
    """Return the offsets in an annotation or in the object in it, such as `url_citation`."""
    if not isinstance(annotation, dict):
        return None
    for holder in (annotation, *(each for each in annotation.values() if isinstance(each, dict))):
        if type(holder.get("end_index")) is int:
            return _span(holder, "start_index", "end_index")
    return None


def _with_offsets(annotation: JsonObject, span: Span) -> JsonObject:
    if type(annotation.get("end_index")) is int:
        return {**annotation, "start_index": span[0], "end_index": span[1]}
    return {
        name: _with_offsets(each, span) if isinstance(each, dict) else each
        for name, each in annotation.items()
    }
