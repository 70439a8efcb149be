"""What policies note about a session: lists of byte strings to which they only add.

As nothing is changed or removed, it does not matter in which order calls that run at the same time add their
notes, and none is lost. The notes of a session are forgotten with the session.
"""

import time
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

SessionKey = tuple[str, str]
"""A caller's key, and an ID that is unique for that key."""

MAX_NOTE_BYTES = 1024 * 1024
"""Bytes of notes that one session may have. The first note that does not fit is lost, and all later ones."""

NOTE_COST = 64
"""Bytes that a note counts besides its own."""


@dataclass(frozen=True, slots=True)
class Notes:
    """The notes of one name on a session that were added after a position."""

    added: Sequence[bytes]
    position: int
    """The position up to which these notes go, for the next `read`."""
    is_whole: bool
    """Whether `added` are all notes of the name, because the reader's position is not of this session."""
    is_full: bool
    """Whether a note did not fit, so that notes are missing. There may be an empty one in its place."""


class SessionNotes(Protocol):
    """The notes on sessions. Every method raises an exception if notes cannot be read or stored."""

    async def read(self, session: SessionKey, name: str, since: int = 0) -> Notes:
        """Return the notes of a name that were added after a position; by default all of them."""

    async def add(self, session: SessionKey, name: str, note: bytes) -> None:
        """Add a note of a name. If it does not fit, nothing is added to the session's notes any more."""


class NoteList:
    """The notes on one session, in memory."""

    def __init__(self) -> None:
        # Greater than all positions of a former session with the same ID.
        self._first = time.time_ns()
        self._notes: list[tuple[str, bytes]] = []
        self._is_full = False
        self.size = 0
        """The bytes of the notes."""

    def read(self, name: str, since: int) -> Notes:
        """Return notes as `SessionNotes.read` does."""
        position = self._first + len(self._notes)
        is_whole = not self._first <= since <= position
        start = 0 if is_whole else since - self._first
        added = [note for of_name, note in self._notes[start:] if of_name == name]
        return Notes(added, position, is_whole, self._is_full)

    def add(self, name: str, note: bytes) -> int:
        """Add a note, and return the number of bytes that this takes."""
        cost = len(note) + NOTE_COST
        self._is_full |= self.size + cost > MAX_NOTE_BYTES
        if self._is_full:
            return 0
        self._notes.append((name, note))
        self.size += cost
        return cost


_MAX_SESSIONS = 1000


class MemoryNotes:
    """The notes on the last sessions of one process, for engines outside a gateway."""

    def __init__(self) -> None:
        self._sessions: OrderedDict[SessionKey, NoteList] = OrderedDict()

    async def read(self, session: SessionKey, name: str, since: int = 0) -> Notes:
        """Return notes without waiting."""
        return self._notes_on(session).read(name, since)

    async def add(self, session: SessionKey, name: str, note: bytes) -> None:
        """Add a note without waiting."""
        self._notes_on(session).add(name, note)

    def _notes_on(self, session: SessionKey) -> NoteList:
        notes = self._sessions.setdefault(session, NoteList())
        self._sessions.move_to_end(session)
        if len(self._sessions) > _MAX_SESSIONS:
            self._sessions.popitem(last=False)
        return notes
