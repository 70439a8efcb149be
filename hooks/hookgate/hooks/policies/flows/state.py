"""What is known of a session: which labels came when, and what results and the user said, as hashes of facts.

It only grows, and it is the union of the session's notes. Where something may be missing, because a note did
not fit or a result had too many facts, the answer is the safe one: a label came, a value was not given.
"""

import struct
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence, Set
from dataclasses import dataclass, field

from hookgate.hooks.session import SessionContext
from hookgate.hooks.session_notes import SessionNotes

_NAME = "flows"
_TURN = b"turn"
_FACT, _ORDER = 8, 4
"""The bytes of a fact, and of one about orders, of which there are many."""
_MAX_KNOWN = 1_000_000
"""Facts of all sessions that a policy remembers; those of others are read again."""
_LONG_NOTES = 16 * 1024
"""Bytes of notes that are read in less than a millisecond. More are read in a thread: they may be all that a
session has, for a call of any size."""
_READ_AT_ONCE = 16 * 1024
"""Bytes of facts that are read without letting other threads run."""

USER = "user"
TOOL = "trusted"
ASKED = "asked"
"""The kinds of facts that were given: by the user, by trusted tools and by fields of others, and by pages or
files that the user named."""


def ordered_by(label: str) -> str:
    """Return the kind of facts that a text with a label has words near an action."""
    return f"ordered {label}"


def piece_of(label: str) -> str:
    """Return the kind of facts that a result with a label has a piece."""
    return f"piece {label}"


@dataclass(frozen=True, slots=True)
class Mark:
    """What a note says of a label, besides that it came."""

    label: str
    without_pieces: bool = False
    """Whether no pieces of the result were noted."""
    boundless: bool = False
    """Whether the result had too many facts to be noted."""

    def encode(self) -> str:
        return f"{self.label}{'-' * self.without_pieces}{'!' * self.boundless}"

    @classmethod
    def decode(cls, text: str) -> "Mark":
        name = text.rstrip("-!") if text.endswith("!") else text.rstrip("-")
        rest = text[len(name) :]
        return cls(name, "-" in rest, "!" in rest)


@dataclass(slots=True)
class FlowState:
    """The state of a session."""

    position: int = 0
    turn: int = 0
    """The number of turns of the user."""
    seen: dict[str, int] = field(default_factory=dict)
    """The turn in which each label came last."""
    facts: set[int] = field(default_factory=set)
    """What was given, and pieces."""
    orders: set[int] = field(default_factory=set)
    """What labelled texts ask for, and the short numbers that the user has named, with what they number."""
    is_full: bool = False
    """Whether notes are missing."""
    _without_pieces: set[str] = field(default_factory=set)
    _boundless: set[str] = field(default_factory=set)

    def add(self, note: bytes) -> None:
        """Add a note."""
        header, _, body = note.partition(b"\n")
        count, *words = header.split()
        for word in words:
            if word == _TURN:
                self.turn += 1
                continue
            mark = Mark.decode(word.decode())
            self.seen[mark.label] = self.turn
            if mark.without_pieces:
                self._without_pieces.add(mark.label)
            if mark.boundless:
                self._boundless.add(mark.label)
        end = int(count) * _FACT
        _read_into(self.facts, body[:end], "Q")
        _read_into(self.orders, body[end:], "I")

    @property
    def size(self) -> int:
        """The number of facts."""
        return len(self.facts) + len(self.orders)

    def came(self, label: str, *, this_turn: bool = False) -> bool:
        """Return whether a result with the label may have come, in this turn or at all."""
        return self.is_full or (label in self.seen and (not this_turn or self.seen[label] == self.turn))

    def may_carry(self, label: str, pieces: Set[int]) -> bool:
        """Return whether a piece may be of a result with the label."""
        unknown = self.is_full or label in self._boundless or label in self._without_pieces
        return unknown or not self.facts.isdisjoint(pieces)

    def may_order(self, label: str, words: Iterable[Collection[int]]) -> bool:
        """Return whether all words may stand near an action; each is a collection of facts."""
        if self.is_full or label in self._boundless:
            return True
        return all(not self.orders.isdisjoint(each) for each in words)

    def adds(self, marks: Iterable[Mark], facts: Set[int], orders: Set[int]) -> bool:
        """Return whether marks and facts say anything that is not known."""
        return not (facts <= self.facts and orders <= self.orders) or any(
            self.seen.get(mark.label) != self.turn
            or (mark.without_pieces and mark.label not in self._without_pieces)
            or (mark.boundless and mark.label not in self._boundless)
            for mark in marks
        )


def _read_into(facts: set[int], data: bytes, kind: str) -> None:
    """Add the facts in a part of a note, which have the format `kind` of the module struct."""
    for start in range(0, len(data), _READ_AT_ONCE):
        part = data[start : start + _READ_AT_ONCE]
        facts.update(struct.unpack(f">{len(part) // struct.calcsize(kind)}{kind}", part))


def _state_of(notes: Sequence[bytes]) -> FlowState:
    """Return the state of a session with these notes."""
    state = FlowState()
    for note in notes:
        state.add(note)
    return state


def note_of(
    marks: Iterable[Mark], facts: Collection[int], orders: Iterable[int] = (), *, begins_turn: bool = False
) -> bytes:
    """Return a note that says that a turn begins, which labels came, and facts."""
    words = [*([_TURN] if begins_turn else []), *(mark.encode().encode() for mark in marks)]
    header = b" ".join([b"%d" % len(facts), *words])
    body = [fact.to_bytes(_FACT) for fact in sorted(facts)] + [
        each.to_bytes(_ORDER) for each in sorted(orders)
    ]
    return header + b"\n" + b"".join(body)


class FlowStates:
    """The states of sessions, from their notes. The sessions that were used last are remembered."""

    def __init__(self) -> None:
        self._states: OrderedDict[tuple[str, str], FlowState] = OrderedDict()
        self._known = 0

    async def get(self, session: SessionContext, notes: SessionNotes) -> FlowState:
        """Return the state of a session. It may change until the next call, but only grow."""
        key = session.place
        while True:
            known = self._states.get(key)
            since = 0 if known is None else known.position
            new = await notes.read(key, _NAME, since)
            if known is self._states.get(key) and (known is None or known.position == since):
                break  # otherwise another call has read the same notes meanwhile
        if known is not None and not new.is_whole:
            before, state = known.size, known
            for note in new.added:
                state.add(note)
        else:
            is_long = sum(map(len, new.added)) > _LONG_NOTES
            run = session.call_state.steps.run_long if is_long else session.call_state.steps.run
            state = await run(_state_of, new.added)
            replaced = self._states.get(key)  # perhaps by another call that has read the same notes
            before = 0 if replaced is None else replaced.size
        state.position, state.is_full = new.position, new.is_full
        self._states[key] = state
        self._states.move_to_end(key)
        self._known += state.size - before
        while self._known > _MAX_KNOWN and len(self._states) > 1:
            _, forgotten = self._states.popitem(last=False)
            self._known -= forgotten.size
        return state

    @staticmethod
    async def add(session: SessionContext, notes: SessionNotes, note: bytes) -> None:
        """Note something on a session."""
        await notes.add(session.place, _NAME, note)
