"""Recognizes the turns with which an earlier request began, and its fields behind them, byte for byte.

An agent sends its whole conversation with each call, with the same instruction and tools, and only the last
turns are new. The others are taken from a memory instead of being parsed, checked and serialized again. This
changes no result: what is known of a turn is true of its bytes, whoever sends them.
"""

import secrets
from bisect import bisect_left
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from hashlib import sha256
from itertools import takewhile
from operator import attrgetter, is_
from typing import Any, NamedTuple

import orjson

from hookgate.translator.fields import BodyError, JsonObject, read_list
from hookgate.translator.input_size import InputSize, input_size
from hookgate.translator.strictjson import Bounds, Parsed, dumps, parse, survey

_LIST = b'"contents":['
_FARTHEST = 4096
"""The bytes of a request within which its list of turns begins: Code Assist's names come before it."""

_COMMA = ord(",")
_MARK = f"turns_{secrets.token_hex(16)}"
_MARK_JSON = dumps(_MARK)
"""Stands for turns while the rest of their request is parsed or serialized. No client can guess it."""
_FIELDS_MARK = f"fields_{_MARK}"
_FIELDS_MARK_JSON = dumps({_FIELDS_MARK: 0})[1:-1]
"""Stands for the fields behind turns while the rest of their request is serialized."""


_NOTHING = InputSize()


@dataclass(frozen=True, slots=True)
class Totals:
    """The number of JSON values in some turns, and their size for the model."""

    values: int = 0
    size: InputSize = _NOTHING


class CanonicalTurn:
    """A turn whose JSON as received equals what it is serialized to.

    Calls share it, so its content must not be changed. It always follows the same turns.
    """

    __slots__ = ("_digest", "content", "end", "history", "totals")

    def __init__(self, content: JsonObject, end: int) -> None:
        """The JSON of the turns up to this one, with commas between them, has `end` bytes."""
        self.content, self.end = content, end
        self.totals: Totals | None = None
        """The totals of the turns up to this one, once they have been computed."""
        self.history = b""
        """The digest of the turns up to this one, once it has been computed."""
        self._digest = b""

    @property
    def digest(self) -> bytes:
        """The SHA-256 digest of its JSON."""
        if not self._digest:
            self._digest = sha256(dumps(self.content)).digest()
        return self._digest


def totals_of(turns: Sequence[CanonicalTurn]) -> Totals:
    """Return the totals of the first turns of a request. They are computed once."""
    done = next((at for at in range(len(turns), 0, -1) if turns[at - 1].totals is not None), 0)
    totals = (turns[done - 1].totals if done else None) or Totals()
    for turn in turns[done:]:
        values, size = survey(turn.content)[0], input_size(turn.content)
        totals = turn.totals = Totals(totals.values + values, totals.size + size)
    return totals


def digest_of_history(turns: Sequence[CanonicalTurn]) -> bytes:
    """Return the digest of the first turns of a request. Those of each of them are computed once."""
    done = next((at for at in range(len(turns), 0, -1) if turns[at - 1].history), 0)
    history = turns[done - 1].history if done else b""
    for turn in turns[done:]:
        history = turn.history = sha256(history + turn.digest).digest()
    return history


@dataclass(frozen=True)
class CanonicalFields:
    """The fields behind the turns of a request, whose JSON as received equals what they are serialized to.

    Calls share them, so their values must not be changed.
    """

    values: JsonObject
    tail: bytes
    """The end of the request, from the bracket on that closes the list of turns."""
    depth: int
    """How many objects end with the request: two if it is in an envelope of Code Assist."""
    members: int
    totals: Totals

    @property
    def end(self) -> bytes:
        """The end of the request without the fields."""
        return b"]" + b"}" * self.depth

    @property
    def text(self) -> bytes:
        """The JSON of the fields, with commas between them."""
        return self.tail[2 : -self.depth]

    @cached_property
    def digests(self) -> Mapping[int, bytes]:
        """The SHA-256 digests of the JSON of the values that are objects or lists, by the IDs of these."""
        values = (value for value in self.values.values() if type(value) in (dict, list))
        return {id(value): sha256(dumps(value)).digest() for value in values}

    def are_in(self, request: JsonObject) -> bool:
        """Return whether a request has these fields, as the same objects."""
        return all(request.get(name) is value for name, value in self.values.items())


class Known(NamedTuple):
    """What is known of a request from an earlier one: the first turns, and the fields behind all turns."""

    turns: Sequence[CanonicalTurn] = ()
    fields: CanonicalFields | None = None


@dataclass(frozen=True, slots=True)
class RequestTurns:
    """The turns at the beginning of a request, up to the first one whose JSON is not canonical."""

    turns: Sequence[CanonicalTurn] = ()
    text: bytes = b""
    """Their JSON, with commas between them."""
    values: int = 0
    """The number of JSON values in the whole request."""
    known: int = 0
    """How many of the turns passed all checks in an earlier request."""
    fields: CanonicalFields | None = None
    """The fields behind the turns, if all of them and all turns are canonical."""
    fields_known: bool = False
    """Whether these passed all checks in an earlier request."""

    @property
    def known_fields(self) -> JsonObject:
        """The fields that passed all checks in an earlier request."""
        return self.fields.values if self.fields is not None and self.fields_known else {}

    def count_matching(self, contents: Sequence[Any]) -> int:
        """Return how many of the turns a list of contents begins with, as the same objects."""
        return sum(takewhile(bool, map(is_, contents, map(attrgetter("content"), self.turns))))

    def count_known(self, contents: Sequence[Any]) -> int:
        """Return how many of the known turns a list of contents begins with, as the same objects."""
        return min(self.known, self.count_matching(contents)) if self.known else 0

    def matching(self, request: JsonObject) -> "RequestTurns":
        """Return the turns with which a request begins, and the fields behind them, as the same objects."""
        count = self.count_matching(read_list(request, "contents"))
        if count < len(self.turns):
            text = self.text[: self.turns[count - 1].end] if count else b""
            return RequestTurns(self.turns[:count], text, self.values, min(self.known, count))
        if self.fields is None or self.fields.are_in(request):
            return self
        return replace(self, fields=None, fields_known=False)


NO_TURNS = RequestTurns()


def begin_of_turns(data: bytes) -> int:
    """Return the offset at which the turns of a request seem to begin, or -1."""
    found = data.find(_LIST, 0, _FARTHEST)
    return found if found < 0 else found + len(_LIST)


def count_repeated(request: RequestTurns, data: bytes, start: int) -> int:
    """Return how many of the turns of a request stand in a text from an offset on."""
    turns, text = request.turns, request.text
    if data.startswith(text, start):
        return len(turns)
    return bisect_left(turns, True, key=lambda turn: not data.startswith(text[: turn.end], start))


def parse_turns(data: bytes, known: Known, bounds: Bounds) -> tuple[Parsed, RequestTurns]:
    """Parse a request as `parse` does. Known turns and fields are not parsed again. Raises BodyError."""
    start = begin_of_turns(data)
    if start < 0:
        return parse(data, bounds), NO_TURNS
    if known.fields is not None and (found := _parse_between(data, start, known, known.fields, bounds)):
        return found
    turns = known.turns
    parsed = _parse_rest(data, start, Known(turns), bounds) if turns else None
    if parsed is None:
        turns, parsed = (), parse(data, bounds)
    holder = _holder_in(parsed.value)
    all_turns = [*turns, *_canonical_turns(data, start, turns, holder.get("contents", ()))]
    text = data[start : start + all_turns[-1].end] if all_turns else b""
    # Most requests that are not known are the only one of their conversation so far.
    fields = _canonical_fields(data, start + len(text), holder, parsed.value) if turns else None
    return parsed, RequestTurns(all_turns, text, parsed.count, len(turns), fields)


def _parse_rest(data: bytes, start: int, known: Known, bounds: Bounds) -> Parsed | None:
    """Parse a request with known turns from an offset on, without known fields.

    Returns None if it needs a closer look.
    """
    tail, end = (b"", b"") if known.fields is None else (known.fields.tail, known.fields.end)
    behind, stop = start + known.turns[-1].end, len(data) - len(tail)
    if len(data) > bounds.text or start + stop - behind > bounds.small:
        return None
    try:
        value = orjson.loads(b"".join((data[:start], _MARK_JSON, data[behind:stop], end)))
        values, members, _, large_numbers = survey(value)
    except (orjson.JSONDecodeError, BodyError):  # `parse` describes the error in the whole text
        return None
    contents, more = _holder_in(value).get("contents"), totals_of(known.turns).values - 1
    if large_numbers or values + more > bounds.values or not contents or contents[0] != _MARK:
        return None
    contents[:1] = [turn.content for turn in known.turns]
    return Parsed(value, values + more, members + len(known.turns) + more)


def _parse_between(
    data: bytes, start: int, known: Known, fields: CanonicalFields, bounds: Bounds
) -> tuple[Parsed, RequestTurns] | None:
    """Parse a request with known turns and fields. Returns None if what is between them is not canonical.

    If all turns are canonical, their list ends where the fields begin, and these belong to the same object.
    """
    parsed = _parse_rest(data, start, known, bounds)
    if parsed is None:
        return None
    holder = _holder_in(parsed.value)
    turns = [*known.turns, *_canonical_turns(data, start, known.turns, holder["contents"])]
    end, values = start + turns[-1].end, parsed.count + fields.totals.values
    if len(turns) < len(holder["contents"]) or end + len(fields.tail) != len(data) or values > bounds.values:
        return None
    holder.update(fields.values)
    found = RequestTurns(turns, data[start:end], values, len(known.turns), fields, fields_known=True)
    return Parsed(parsed.value, values, parsed.members + fields.members), found


def _canonical_fields(data: bytes, end: int, holder: JsonObject, body: Any) -> CanonicalFields | None:
    """Return the fields behind the turns, which end at an offset, if their JSON in the text is canonical."""
    names, depth = list(holder), 1 if holder is body else 2
    values = {name: holder[name] for name in names[names.index("contents") + 1 :]}
    if not values or data[end:] != b"".join((b"],", dumps(values)[1:-1], b"}" * depth)):
        return None
    count, members, _, _ = survey(values)
    return CanonicalFields(values, data[end:], depth, members, Totals(count - 1, input_size(values)))


def _holder_in(body: Any) -> JsonObject:
    """Return the object with the list of turns: the body, or the request in an envelope; or an empty one."""
    for holder in (body, body.get("request")) if isinstance(body, dict) else ():
        if isinstance(holder, dict) and type(holder.get("contents")) is list:
            return holder
    return {}


def _canonical_turns(
    data: bytes, start: int, known: Sequence[CanonicalTurn], contents: Sequence[Any]
) -> list[CanonicalTurn]:
    """Return the turns behind the known ones that stand in the text as they are serialized."""
    turns: list[CanonicalTurn] = []
    at = start + known[-1].end if known else start - 1  # of the comma or bracket before the next turn
    for content in contents[len(known) :]:
        if type(content) is not dict or (known and data[at] != _COMMA):
            break
        text = dumps(content)
        if not data.startswith(text, at + 1):
            break
        at += 1 + len(text)
        turns.append(CanonicalTurn(content, at - start))
        if data[at] != _COMMA:
            break
    return turns


def dumps_with_turns(body: JsonObject, turns: RequestTurns) -> bytes:
    """Return the JSON of a body, or of Code Assist's envelope, as `dumps` does. It may begin with turns."""
    request = _holder_in(body)
    count = turns.count_matching(request.get("contents", ()))
    if not count:
        return dumps(body)
    rest = {**request, "contents": [_MARK, *request["contents"][count:]]}
    fields = turns.fields
    if (
        fields is not None
        and fields.are_in(request)
        and [*request][-len(fields.values) :] == [*fields.values]
    ):
        rest = {name: value for name, value in rest.items() if name not in fields.values} | {_FIELDS_MARK: 0}
    text = dumps(rest if request is body else {**body, "request": rest})
    before, _, after = text.partition(_MARK_JSON)
    between, mark, end = after.partition(_FIELDS_MARK_JSON)
    behind = (fields.text, end) if fields is not None and mark else ()
    return b"".join((before, turns.text[: turns.turns[count - 1].end], between, *behind))
