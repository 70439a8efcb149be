"""What the gateway remembers of the sessions that agents work in: little, for a while, each key's apart."""

import time
from collections import Counter, OrderedDict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from typing import Literal, TypeVar

from hookgate.hooks import Session
from hookgate.proxy.accepted import AcceptedKeys
from hookgate.proxy.shares import Shares
from hookgate.proxy.wire.memory import Memory

V = TypeVar("V")

_Place = tuple[str, str]
"""A caller's key, and what is unique below it."""

Telling = Literal["session", "turns", "tools"]

_INSIDE: frozenset[Telling] = frozenset({"session", "turns", "tools"})
_TELLS: Mapping[str, frozenset[Telling]] = {
    "SessionStart": frozenset({"session"}),  # a launcher tells of it, and sees nothing of the rest
    "BeforeAgent": _INSIDE,
    "AfterAgent": _INSIDE,
    "BeforeTool": frozenset({"tools"}),
    "AfterTool": frozenset({"tools"}),
}
"""What else a shim tells of that has told of an event: who knows of turns knows of tools."""

KEPT = 10_000
"""Sessions that are remembered. For a new one, the key with most of them loses the one quiet for longest."""

MAX_TOOLS = 1000
"""Names of tools that are counted in a session; those beyond count as not told of."""

MAX_CONTEXT = 64 * 1024
"""Characters of context that wait for a session's next model call."""


@dataclass(slots=True)
class SessionState:
    """One session. What an agent's shim tells of it goes for its model calls."""

    told: set[Telling] = field(default_factory=set)
    """What a shim tells of: that is not derived from the session's calls as well."""
    stopped: str | None = None
    """Why the session makes no further call, until a new turn or a new session."""
    context: str = ""
    """What hooks want the model to know, for an agent that cannot tell it."""
    memory: Memory = field(default_factory=Memory)
    """The session as its calls show it."""
    turn: str = ""
    """The user's turn that the last call was about."""
    recorded: int = 0
    """Turns of the conversation that its transcript holds."""
    announced: Counter[str] = field(default_factory=Counter)
    """Runs of tools that the shim has told of and whose results the calls have not shown yet, by name."""
    denied: Counter[str] = field(default_factory=Counter)
    """The same for runs that hooks denied."""

    def hear(self, event: str) -> None:
        """Note that a shim has told of an event, and so will of all of its sort."""
        self.told |= _TELLS.get(event, frozenset())

    def believed(self, claimed: str) -> set[Telling]:
        """What a shim tells of: by its events so far, and by what it claims with a call, such as `tools`."""
        return self.told | _INSIDE.intersection(sort.strip() for sort in claimed.split(","))

    def announce(self, tool: str, *, runs: bool) -> None:
        """A shim has told of a tool that is about to run, or that was denied."""
        known = self.announced if runs else self.denied
        if len(known) < MAX_TOOLS or tool in known:
            known[tool] += 1

    def takes(self, tool: str, *, ran: bool) -> bool:
        """Whether a shim has told of it: then it has been told of once less."""
        known = self.announced if ran else self.denied
        if known[tool] < 2:
            return bool(known.pop(tool, 0))
        known[tool] -= 1
        return True

    def take_turn(self, turn: str) -> None:
        """Note the user's turn that a call is about, for a shim that tells of tools and not of turns."""
        if turn != self.turn:
            self.turn = turn
            self.begin_turn()

    def begin_turn(self) -> None:
        """A turn or a session begins: what stopped the last one is over."""
        self.stopped = None

    def add_context(self, text: str) -> None:
        """Keep context for the next call; of too much the latest stays."""
        joined = f"{self.context}\n{text}" if self.context else text
        self.context = joined[-MAX_CONTEXT:]

    def take_context(self) -> str:
        """The context that waits; it waits no longer."""
        taken, self.context = self.context, ""
        return taken


class Sessions:
    """The sessions by the key of their caller and their id: no caller reaches those of another key."""

    def __init__(self, keys: AcceptedKeys | None = None) -> None:
        """`keys` are those that the upstream takes; made-up ones share the room of a single key."""
        self._keys = keys or AcceptedKeys()
        self._states: Shares[_Place, SessionState] = Shares(KEPT)
        self._prompts: Shares[_Place, str] = Shares(KEPT)
        self._links: Shares[_Place, str] = Shares(KEPT)

    def __len__(self) -> int:
        return len(self._states)

    def of(self, session: Session) -> SessionState:
        """The session's state, a fresh one for a session that is not known."""
        place = session.key, session.session_id
        return self._found(self._states, place) or self._kept(self._states, place, SessionState())

    def end(self, session: Session) -> None:
        """Forget a session that has ended."""
        for owner in self._keys.owners(session.key):
            self._states.drop(owner, (session.key, session.session_id))

    def announce(self, session: Session, prompt: str) -> None:
        """A shim tells of a turn in a session whose calls may come without the session's name."""
        self._kept(self._prompts, (session.key, fingerprint(prompt)), session.session_id)

    def linked(self, session: Session, said: Iterable[str]) -> Session:
        """The session that a shim has told of, for a nameless call of one of its turns; else the call's own.

        It is known by the turn's prompt, and from then on by its conversation. `said` are the
        fingerprints of the texts of the call's last turn.
        """
        here = (session.key, session.session_id)
        announced = (self._found(self._prompts, (session.key, text)) for text in said)
        found = next((each for each in announced if each), None) or self._found(self._links, here)
        if found is None:
            return session
        self._kept(self._links, here, found)
        return replace(session, session_id=found)

    def _found(self, known: "Shares[_Place, V]", place: _Place) -> V | None:
        """A value; it moves to its key's own share once the key was accepted."""
        own, *others = self._keys.owners(place[0])
        if (value := known.get(own, place)) is not None:
            return value
        for owner in others:
            if (value := known.drop(owner, place)) is not None:
                return self._kept(known, place, value)
        return None

    def _kept(self, known: "Shares[_Place, V]", place: _Place, value: V) -> V:
        known.keep(self._keys.owners(place[0])[0], place, value)
        return value


def fingerprint(text: str) -> str:
    """A text that need not be kept."""
    return sha256(text.strip().encode(errors="surrogatepass")).hexdigest()


@dataclass(slots=True)
class _Bucket:
    left: float
    at: float = field(default_factory=time.monotonic)


class Rates:
    """How often each caller may do something: so many times a second, and as many at once.

    A caller that is forgotten for others may do a little more at once: nobody gains by that at its expense.
    """

    def __init__(self, per_second: float) -> None:
        self._per_second = per_second
        self._buckets: OrderedDict[str, _Bucket] = OrderedDict()

    def take(self, caller: str) -> bool:
        """Whether the caller may do it now; then it counts."""
        now = time.monotonic()
        bucket = self._buckets.setdefault(caller, _Bucket(self._per_second, now))
        self._buckets.move_to_end(caller)
        if len(self._buckets) > KEPT:
            self._buckets.popitem(last=False)
        bucket.left = min(self._per_second, bucket.left + (now - bucket.at) * self._per_second)
        bucket.at = now
        if bucket.left < 1:
            return False
        bucket.left -= 1
        return True
