"""Recognizes the turns with which an earlier request began, byte for byte.

An agent sends its whole conversation with each call, and only the last turns are new. The others are taken
from a memory instead of being parsed, checked and serialized again. This changes no result: what is known of
a turn is true of its bytes, whoever sends them.
"""

import secrets
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import takewhile
from operator import attrgetter, is_
from typing import Any

import orjson

from hookgate.translator.fields import BodyError, JsonObject
from hookgate.translator.input_size import InputSize, input_size
from hookgate.translator.strictjson import Bounds, Parsed, dumps, parse, survey

_LIST = b'"contents":['
_FARTHEST = 4096
"""The bytes of a request within which its list of turns begins: Code Assist's names come before it."""

_COMMA = ord(",")
_MARK = f"turns_{secrets.token_hex(16)}"
_MARK_JSON = dumps(_MARK)
"""Stands for turns while the rest of their request is parsed or serialized. No client can guess it."""


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


def history_of(turns: Sequence[CanonicalTurn]) -> bytes:
    """Return the digest of the first turns of a request. Those of each of them are computed once."""
    done = next((at for at in range(len(turns), 0, -1) if turns[at - 1].history), 0)
    history = turns[done - 1].history if done else b""
    for turn in turns[done:]:
        history = turn.history = sha256(history + turn.digest).digest()
    return history


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

    def count_matching(self, contents: Sequence[Any]) -> int:
        """Return how many of the turns a list of contents begins with, as the same objects."""
        return sum(takewhile(bool, map(is_, contents, map(attrgetter("content"), self.turns))))

    def count_known(self, contents: Sequence[Any]) -> int:
        """Return how many of the known turns a list of contents begins with, as the same objects."""
        return min(self.known, self.count_matching(contents)) if self.known else 0

    def matching(self, contents: Sequence[Any]) -> "RequestTurns":
        """Return the turns with which a list of contents begins, as the same objects."""
        if (count := self.count_matching(contents)) == len(self.turns):
            return self
        turns = self.turns[:count]
        text = self.text[: turns[-1].end] if turns else b""
        return RequestTurns(turns, text, self.values, min(self.known, count))


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


def parse_turns(data: bytes, known: Sequence[CanonicalTurn], bounds: Bounds) -> tuple[Parsed, RequestTurns]:
    """Parse a request as `parse` does. It begins with the `known` turns, which are not parsed again.

    Raises BodyError.
    """
    start = begin_of_turns(data)
    if start < 0:
        return parse(data, bounds), NO_TURNS
    parsed = _parse_rest(data, start, known, bounds) if known else None
    if parsed is None:
        known, parsed = (), parse(data, bounds)
    turns = [*known, *_canonical_turns(data, start, known, _contents_in(parsed.value))]
    text = data[start : start + turns[-1].end] if turns else b""
    return parsed, RequestTurns(turns, text, parsed.count, len(known))


def _parse_rest(data: bytes, start: int, known: Sequence[CanonicalTurn], bounds: Bounds) -> Parsed | None:
    """Parse a request with known turns from an offset on. Returns None if it needs a closer look."""
    size = known[-1].end
    if len(data) > bounds.text or len(data) - size > bounds.small:
        return None
    try:
        value = orjson.loads(b"".join((data[:start], _MARK_JSON, data[start + size :])))
        values, members, _, large_numbers = survey(value)
    except (orjson.JSONDecodeError, BodyError):  # `parse` describes the error in the whole text
        return None
    contents, more = _contents_in(value), totals_of(known).values - 1
    if large_numbers or values + more > bounds.values or not contents or contents[0] != _MARK:
        return None
    contents[:1] = [turn.content for turn in known]
    return Parsed(value, values + more, members + len(known) + more)


def _contents_in(body: Any) -> list[Any]:
    """Return the list of turns in a body, or in the request of Code Assist's envelope; else an empty one."""
    for holder in (body, body.get("request")) if isinstance(body, dict) else ():
        if isinstance(holder, dict) and type(contents := holder.get("contents")) is list:
            return contents
    return []


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
    count = turns.count_matching(_contents_in(body))
    if not count:
        return dumps(body)
    wrapped = type(body.get("contents")) is not list
    request = body["request"] if wrapped else body
    rest = {**request, "contents": [_MARK, *request["contents"][count:]]}
    before, _, after = dumps({**body, "request": rest} if wrapped else rest).partition(_MARK_JSON)
    return b"".join((before, turns.text[: turns.turns[count - 1].end], after))
