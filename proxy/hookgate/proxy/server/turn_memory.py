"""Remembers the turns of earlier requests, so that only the new ones of conversations are parsed and checked.

Each caller has turns of its own: the time of a call must not tell what others have sent.
"""

import sys
from collections.abc import Iterator
from itertools import count, islice

from hookgate.proxy.fair_mapping import FairMapping
from hookgate.proxy.server.memory import VALUE_BYTES
from hookgate.translator.known_turns import Known, RequestTurns, begin_of_turns, count_repeated

MAX_BYTES = 32 * 1024 * 1024
"""The memory for all turns."""

_TURN_BYTES = 512
"""The estimated memory of what is known of a turn, such as its totals and digests, in bytes."""

_MOST_OF_CALLER = 500
"""The number of conversations of one caller. Each of them is compared with each request of the caller, in the
event loop: a client could keep tens of thousands of short ones in the memory.
"""

_LARGEST_SHARE = 8
"""The part of the memory, as a divisor, that one conversation may take."""

_MOST_COMPARED = 8
"""The number of conversations with the same first turn that are compared with a request."""


class TurnMemory:
    """The turns of the latest request of each conversation, by caller, within a number of bytes.

    When it is full, the caller with the most conversations loses the one that was not used for the longest. A
    caller with too many loses one of its own.
    """

    def __init__(self, max_bytes: int = MAX_BYTES) -> None:
        self._max_bytes = max_bytes
        self._conversations: FairMapping[int, RequestTurns] = FairMapping(sys.maxsize)
        self._numbers = count()
        self.bytes = 0
        """The estimated memory of all turns. Those that several conversations share count several times."""

    def find(self, caller: str, data: bytes) -> Known:
        """Return the turns with which the text of a request begins, and its last fields, as far as known."""
        start, most, longest = begin_of_turns(data), 0, -1
        for number, turns in self._beginning_like(caller, data, start) if start >= 0 else ():
            if (repeated := count_repeated(turns, data, start)) > most:
                most, longest = repeated, number
        found = self._conversations.get(caller, longest)  # marks it as used
        if found is None:
            return Known()
        ends_alike = found.fields is not None and data.endswith(found.fields.tail)
        return Known(found.turns[:most], found.fields if ends_alike else None)

    def remember(self, caller: str, turns: RequestTurns) -> None:
        """Remember the turns of a request that has passed all checks."""
        has_new_fields = turns.fields is not None and not turns.fields_known
        if len(turns.turns) == turns.known and not has_new_fields:
            return
        if _memory_of(turns) > self._max_bytes // _LARGEST_SHARE:
            return
        if (continued := self._continued_by(caller, turns)) is not None:
            self._drop(caller, continued)
        self._conversations.store(caller, next(self._numbers), turns)
        self.bytes += _memory_of(turns)
        is_full = self._conversations.size_of(caller) > _MOST_OF_CALLER
        if is_full and (oldest := self._conversations.oldest(caller)) is not None:
            self._drop(*oldest)
        while self.bytes > self._max_bytes and (oldest := self._conversations.oldest()) is not None:
            self._drop(*oldest)

    def _beginning_like(self, caller: str, data: bytes, start: int) -> Iterator[tuple[int, RequestTurns]]:
        """Yield the caller's latest conversations whose first turn stands at an offset of the text."""
        alike = (
            (number, turns)
            for number, turns in self._conversations.latest(caller)
            if data.startswith(turns.text[: turns.turns[0].end], start)
        )
        return islice(alike, _MOST_COMPARED)

    def _continued_by(self, caller: str, request: RequestTurns) -> int | None:
        """Return the conversation of which all turns are known turns of the request, if there is one."""
        for number, earlier in self._conversations.latest(caller):
            last = len(earlier.turns) - 1
            if last < request.known and earlier.turns[last] is request.turns[last]:
                return number
        return None

    def _drop(self, caller: str, number: int) -> None:
        if (dropped := self._conversations.drop(caller, number)) is not None:
            self.bytes -= _memory_of(dropped)


def _memory_of(turns: RequestTurns) -> int:
    """Return an estimate of the bytes of the turns and fields: their text, the same in values, and these."""
    text = len(turns.text) + (len(turns.fields.tail) if turns.fields is not None else 0)
    return 2 * text + VALUE_BYTES * turns.values + _TURN_BYTES * len(turns.turns)
