"""The state of sessions, kept in memory for a while and separately for each key."""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Generic, Literal, TypeVar

from cachetools import LRUCache

from hookgate.hooks import SessionContext
from hookgate.proxy.identity.memory import ConversationMemory

K = TypeVar("K")
V = TypeVar("V")


class FairMapping(Generic[K, V]):
    """A bounded mapping that is fair between owners: values by owner and key, at most `most` in all.

    When it is full, the owner with the most values loses its least recently used one, so no owner loses a
    value to one that has more. Every operation takes constant time.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._values: dict[str, OrderedDict[K, V]] = {}
        self._by_size: dict[
            int, dict[str, None]
        ] = {}  # owners by their number of values, in order of arrival
        self._largest = 0
        self._count = 0

    def __len__(self) -> int:
        return self._count

    def held_by(self, owner: str) -> int:
        """Return the number of values that an owner has."""
        return len(self._values.get(owner, ()))

    def get(self, owner: str, key: K) -> V | None:
        """Return a value and mark it as used, or return None if there is none."""
        values = self._values.get(owner)
        if values is None or key not in values:
            return None
        values.move_to_end(key)
        return values[key]

    def store(self, owner: str, key: K, value: V) -> None:
        """Store a value, and drop the oldest one if there are too many."""
        values = self._values.setdefault(owner, OrderedDict())
        before = len(values)
        values[key] = value
        values.move_to_end(key)
        self._update_size(owner, before)
        if self._count > self._most:
            self.drop_oldest()

    def drop(self, owner: str, key: K) -> V | None:
        """Remove and return a value, or return None if there is none."""
        values = self._values.get(owner)
        if values is None or key not in values:
            return None
        value = values.pop(key)
        self._update_size(owner, len(values) + 1)
        return value

    def oldest(self, owner: str | None = None) -> tuple[str, K] | None:
        """Return owner and key of the value to drop next, of all or of one owner's, or None."""
        if owner is None and self._count:
            owner = next(iter(self._by_size[self._largest]))
        if owner is None or owner not in self._values:
            return None
        return owner, next(iter(self._values[owner]))

    def drop_oldest(self) -> None:
        """Drop the value that is next in order, if there is one."""
        if (oldest := self.oldest()) is not None:
            self.drop(*oldest)

    def _update_size(self, owner: str, before: int) -> None:
        """Update the index by size after an owner's number of values changed by at most one."""
        size = len(self._values[owner])
        if size == before:
            return
        self._count += size - before
        if before:
            del self._by_size[before][owner]
            if not self._by_size[before]:
                del self._by_size[before]
        if size:
            self._by_size.setdefault(size, {})[owner] = None
        else:
            del self._values[owner]
        if size > self._largest or self._largest not in self._by_size:
            self._largest = size


KEPT_KEYS = 10_000
"""Accepted keys that are remembered; the least recently used one is forgotten first."""

_UNPROVEN = ""
"""The owner that all callers without an accepted key share."""


class AcceptedKeys:
    """Distinguishes keys that work from invented ones.

    The gateway accepts any key and cannot check it. If each had a share of its own, a client could invent
    enough keys to crowd out all others. So a key gets its own share once the model has answered a call with
    it; until then all unproven keys use one share.
    """

    def __init__(self) -> None:
        self._accepted: LRUCache[str, None] = LRUCache(KEPT_KEYS)

    def accept(self, key: str) -> None:
        """Note that the model has answered a call with this key."""
        self._accepted[key] = None

    def owners(self, key: str) -> tuple[str, ...]:
        """Return the owners for a key's values: first the current one, then where older values may be."""
        return (key, _UNPROVEN) if key in self._accepted else (_UNPROVEN, key)


_SessionKey = tuple[str, str]
"""A caller's key, and an id that is unique for that key."""

SHIM_HEADER = "x-hookgate-shim"
"""The header in which a client claims what its shim reports."""

ReportedKind = Literal["session", "turns", "tools"]

_ALL_KINDS: frozenset[ReportedKind] = frozenset({"session", "turns", "tools"})
_KINDS_BY_EVENT: Mapping[str, frozenset[ReportedKind]] = {
    "SessionStart": frozenset({"session"}),  # launchers send it, and no other events
    "BeforeAgent": _ALL_KINDS,
    "AfterAgent": _ALL_KINDS,
    "BeforeTool": frozenset({"tools"}),
    "AfterTool": frozenset({"tools"}),
}
"""The kinds that a shim reports, by an event that it sent: shims that report turns also report tools."""

KEPT_SESSIONS = 10_000
"""Sessions that are remembered. Beyond that, the key with the most loses its least recently used one."""

MAX_TOOLS = 1000
"""Names of tools that are counted in a session; others are treated as not announced."""

MAX_CONTEXT = 64 * 1024
"""Characters of context that are kept for a session's next model call."""


@dataclass(slots=True)
class SessionState:
    """The state of one session, shared by the events of its shim and by its model calls."""

    reported: set[ReportedKind] = field(default_factory=set)
    """The kinds of events that a shim reports. The gateway does not derive them from the session's calls."""
    stopped: str | None = None
    """The reason why hooks stopped the session, until a new turn or session begins."""
    context: str = ""
    """Context that hooks added for the model, for agents that cannot pass it on."""
    memory: ConversationMemory = field(default_factory=ConversationMemory)
    """What the gateway derives from the session's calls."""
    turn: str = ""
    """The id of the user's turn in the last call."""
    recorded: int = 0
    """The number of turns that are in the session's transcript."""
    announced: Counter[str] = field(default_factory=Counter)
    """The runs of tools, by name, that were announced and whose results have not been seen in a call."""
    denied: Counter[str] = field(default_factory=Counter)
    """The same for runs that hooks denied."""

    def note_event(self, event: str) -> None:
        """Note that a shim has sent an event, and so reports all events of its kind."""
        self.reported |= _KINDS_BY_EVENT.get(event, frozenset())

    def reported_kinds(self, claimed: str) -> set[ReportedKind]:
        """Return the kinds of events that a shim reports: those it sent and those it claims in a header."""
        return self.reported | _ALL_KINDS.intersection(kind.strip() for kind in claimed.split(","))

    def count_announcement(self, tool: str, *, runs: bool) -> None:
        """Count a run of a tool that a shim has announced: one that runs, or one that was denied."""
        counts = self.announced if runs else self.denied
        if len(counts) < MAX_TOOLS or tool in counts:
            counts[tool] += 1

    def use_announcement(self, tool: str, *, ran: bool) -> bool:
        """Use up one announced run of a tool. Returns False if there is none."""
        counts = self.announced if ran else self.denied
        if counts[tool] < 2:
            return bool(counts.pop(tool, 0))
        counts[tool] -= 1
        return True

    def observe_turn(self, turn: str) -> None:
        """Begin a new turn if the user's turn of a call is not that of the last call."""
        if turn != self.turn:
            self.turn = turn
            self.begin_turn()

    def begin_turn(self) -> None:
        """Begin a turn or a session: an earlier stop no longer applies."""
        self.stopped = None

    def add_context(self, text: str) -> None:
        """Keep context for the next call; only the last `MAX_CONTEXT` characters are kept."""
        joined = f"{self.context}\n{text}" if self.context else text
        self.context = joined[-MAX_CONTEXT:]

    def take_context(self) -> str:
        """Remove and return the context that was kept."""
        taken, self.context = self.context, ""
        return taken


class Sessions:
    """The sessions by their caller's key and id: no caller can reach the sessions of another key."""

    def __init__(self, keys: AcceptedKeys | None = None) -> None:
        """Keep sessions in fair shares: one for each accepted key of `keys`, and one for all other keys."""
        self._keys = keys or AcceptedKeys()
        self._states: FairMapping[_SessionKey, SessionState] = FairMapping(KEPT_SESSIONS)
        self._prompts: FairMapping[_SessionKey, str] = FairMapping(KEPT_SESSIONS)
        self._links: FairMapping[_SessionKey, str] = FairMapping(KEPT_SESSIONS)

    def __len__(self) -> int:
        return len(self._states)

    def state_for(self, session: SessionContext) -> SessionState:
        """Return the session's state; a new one if the session is not known."""
        place = session.key, session.session_id
        return self._get(self._states, place) or self._keep(self._states, place, SessionState())

    def end(self, session: SessionContext) -> None:
        """Forget a session that has ended."""
        for owner in self._keys.owners(session.key):
            self._states.drop(owner, (session.key, session.session_id))

    def link_prompt(self, session: SessionContext, prompt: str) -> None:
        """Note the prompt of a shim's turn, to recognize calls of its session that do not name it."""
        self._keep(self._prompts, (session.key, text_fingerprint(prompt)), session.session_id)

    def resolve_session(self, session: SessionContext, said: Iterable[str]) -> SessionContext:
        """Return the shim session that an unnamed call belongs to, or `session` if there is none.

        The first match is by the turn's prompt; later ones are by conversation. `said` are the fingerprints
        of the texts in the call's last turn.
        """
        place = (session.key, session.session_id)
        announced = (self._get(self._prompts, (session.key, text)) for text in said)
        session_id = next((match for match in announced if match), None) or self._get(self._links, place)
        if session_id is None:
            return session
        self._keep(self._links, place, session_id)
        return replace(session, session_id=session_id)

    def _get(self, known: "FairMapping[_SessionKey, V]", place: _SessionKey) -> V | None:
        """Return a value, and move it to its key's own share if the key has been accepted since."""
        own, *others = self._keys.owners(place[0])
        if (value := known.get(own, place)) is not None:
            return value
        for owner in others:
            if (value := known.drop(owner, place)) is not None:
                return self._keep(known, place, value)
        return None

    def _keep(self, known: "FairMapping[_SessionKey, V]", place: _SessionKey, value: V) -> V:
        known.store(self._keys.owners(place[0])[0], place, value)
        return value


def text_fingerprint(text: str) -> str:
    """Return a hash of a text, so that the text itself need not be kept."""
    return sha256(text.strip().encode(errors="surrogatepass")).hexdigest()


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float = field(default_factory=time.monotonic)


class Rates:
    """A token bucket for each caller: `per_second` uses a second, and as many in one burst.

    When there are too many callers, the least recently used bucket is dropped; its caller gets a full one.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._buckets: LRUCache[str, _Bucket] = LRUCache(KEPT_SESSIONS)

    def try_acquire(self, caller: str) -> bool:
        """Take a token. Returns False if the caller has none left."""
        now = time.monotonic()
        bucket = self._buckets.setdefault(caller, _Bucket(self._per_second, now))
        bucket.left = min(self._per_second, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True
