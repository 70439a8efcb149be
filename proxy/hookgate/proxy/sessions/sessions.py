"""The state of sessions: what it consists of, how a call uses it, and where one process keeps it."""

import asyncio
import time
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import AsyncIterator, Callable, Collection, Iterable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field, replace
from hashlib import sha256
from heapq import heapify, heappop, heappush
from typing import Literal, TypeVar
from uuid import uuid4
from weakref import WeakValueDictionary

from hookgate.hooks import BeforeModel, SessionContext
from hookgate.hooks.session_notes import NoteList, Notes, SessionKey
from hookgate.proxy.config.session_bounds import MAX_KEY_BYTES, MAX_SESSION_BYTES, MAX_SESSIONS
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.fair_mapping import FairMapping
from hookgate.proxy.keys.callers import AcceptedKeys
from hookgate.proxy.sessions.memory import ConversationMemory, take_new_effects

T = TypeVar("T")
V = TypeVar("V")

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

_SUM_AFTER = 1 / 16
"""The bytes of all sessions are summed up whenever this fraction of MAX_KEY_BYTES has been added."""

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
    refused: str | None = None
    """The reason why hooks refused to let the session start, or an admin ended it, until it starts again."""
    pending_context: str = ""
    """Context that hooks added for the model, for agents that cannot pass it on."""
    memory: ConversationMemory = field(default_factory=ConversationMemory)
    """What the gateway derives from the session's calls."""
    turn: str = ""
    """The ID of the user's turn in the last call."""
    transcript_turns: int = 0
    """The number of turns that are in the session's transcript."""
    announced: dict[str, int] = field(default_factory=dict)
    """The runs of tools, by name, that were announced and whose results have not been seen in a call."""
    denied: dict[str, int] = field(default_factory=dict)
    """The announced runs that hooks denied, by tool."""

    @property
    def refusal(self) -> str | None:
        """The reason why the session's calls are refused; None if they are not."""
        return self.stopped if self.refused is None else self.refused

    def note_event(self, event: str) -> None:
        """Note that a shim has sent an event, and so reports all events of its kind."""
        self.reported |= _KINDS_BY_EVENT.get(event, frozenset())

    def reported_kinds(self, claimed: str) -> set[ReportedKind]:
        """Return the kinds of events that a shim reports: those it sent and those it claims in a header."""
        kinds = claimed.split(",") if claimed else ()
        return self.reported | _ALL_KINDS.intersection(kind.strip() for kind in kinds)

    def count_announcement(self, tool: str, *, runs: bool) -> None:
        """Count a run of a tool that a shim has announced: one that runs, or one that was denied."""
        counts, tool = self.announced if runs else self.denied, _short_name(tool)
        if len(counts) < MAX_TOOLS or tool in counts:
            counts[tool] = counts.get(tool, 0) + 1

    def use_announcement(self, tool: str, *, ran: bool) -> bool:
        """Use up one announced run of a tool. Returns False if there is none."""
        counts, tool = self.announced if ran else self.denied, _short_name(tool)
        if counts.get(tool, 0) < 2:
            return bool(counts.pop(tool, 0))
        counts[tool] -= 1
        return True

    def update_turn(self, turn: str) -> None:
        """Begin a new turn if the user's turn of a call is not that of the last call."""
        if turn != self.turn:
            self.turn = turn
            self.begin_turn()

    def begin_turn(self) -> None:
        """Begin a turn: an earlier stop no longer applies."""
        self.stopped = None

    def begin_session(self) -> None:
        """Begin a session: neither an earlier stop nor an earlier refusal applies."""
        self.stopped = self.refused = None

    def note_transcript_turns(self, turns: int) -> None:
        """Note how many turns are in the session's transcript."""
        self.transcript_turns = turns

    def add_context(self, text: str) -> None:
        """Add context for the next call; only the last `MAX_CONTEXT` characters are kept."""
        joined = f"{self.pending_context}\n{text}" if self.pending_context else text
        self.pending_context = joined[-MAX_CONTEXT:]

    def take_context(self) -> str:
        """Remove and return the context that was kept."""
        taken, self.pending_context = self.pending_context, ""
        return taken


class Sessions(ABC):
    """The sessions by their caller's key and id: no caller can reach the sessions of another key.

    Every coroutine raises ApiError (403) if the sessions cannot be read or written.
    """

    def __init__(self, keys: AcceptedKeys | None = None) -> None:
        """Each accepted key of `keys` has a fair share of the sessions; all other keys have one together."""
        self.keys = keys or AcceptedKeys()
        self._start_locks: WeakValueDictionary[SessionKey, asyncio.Lock] = WeakValueDictionary()

    def are_usable(self) -> bool:
        """Return whether the sessions could be read and written lately. Asking for it triggers a check."""
        return True

    @abstractmethod
    async def exist(self) -> bool:
        """Return whether any session is known."""

    @abstractmethod
    async def open(self, session: SessionContext, texts: Collection[str] | None = None) -> "OpenSession":
        """Return the state of a session for one call.

        `texts` is given for a call that does not name its session: the fingerprints of the texts in its last
        turn. Such a call may belong to the session of a shim, which is recognized by the prompt of a turn,
        and later by the conversation.
        """

    @abstractmethod
    async def change(
        self, session: SessionContext, step: Callable[[SessionState], T]
    ) -> tuple[T, SessionState]:
        """Return the result of a step that may change the state, and the state after it.

        No other change of the session is made in between. The step must be quick, and may run in a thread.
        """

    @abstractmethod
    async def end(self, session: SessionContext) -> None:
        """Forget a session that has ended."""

    @abstractmethod
    async def read(self, session: SessionKey, name: str, since: int = 0) -> Notes:
        """Return the notes on a session (see `SessionNotes`)."""

    @abstractmethod
    async def add(self, session: SessionKey, name: str, note: bytes) -> None:
        """Add a note on a session (see `SessionNotes`)."""

    @abstractmethod
    async def link_prompt(self, session: SessionContext, prompt: str) -> None:
        """Note the prompt of a shim's turn, to recognize calls of its session that do not name it."""

    def accept(self, key: str) -> None:
        """Note that the model has answered a call with this key, which gets a share of its own."""
        self.keys.accept(key)

    def start_lock(self, session: SessionContext) -> asyncio.Lock:
        """Return the lock that calls of this process hold while they judge a session's SessionStart."""
        return self._start_locks.setdefault(session_key(session), asyncio.Lock())


def session_key(session: SessionContext) -> SessionKey:
    """Return the key of a session."""
    return session.key, session.session_id


_FIRST_PAUSE, _MAX_PAUSE = 0.02, 1.0
"""Seconds between two attempts to claim what a call in another process has claimed."""


@dataclass(slots=True)
class OpenSession:
    """A session as one call sees it."""

    sessions: Sessions
    session: SessionContext
    state: SessionState
    """The state when the call began, or after its last change. Use `change` to change it."""
    is_known: bool
    """Whether the gateway has a state for the session."""

    async def change(self, step: Callable[[SessionState], T]) -> T:
        """Return the result of a step that may change the state (see `Sessions.change`)."""
        result, self.state = await self.sessions.change(self.session, step)
        self.is_known = True
        return result

    def raise_if_stopped(self) -> None:
        """Raise ApiError (403) if hooks have stopped the session. For calls whose answers carry no text."""
        if self.state.refusal is not None:
            raise policy_denied(self.state.refusal, BeforeModel.name)

    @asynccontextmanager
    async def starting(self) -> AsyncIterator[bool]:
        """Yield True if the caller must judge SessionStart. No other call judges it while the block runs.

        The block must change `memory.started` if the session may start.
        """
        claimant, pause = uuid4().hex, _FIRST_PAUSE
        async with self.sessions.start_lock(self.session):
            while not await self._claim_start(claimant):
                await asyncio.sleep(pause)
                pause = min(pause * 2, _MAX_PAUSE)
            try:
                yield not self.state.memory.started
            finally:
                if not self.state.memory.started:
                    await self.change(lambda state: state.memory.release_start(claimant))

    async def _claim_start(self, claimant: str) -> bool:
        """Claim the right to judge SessionStart. A call that is cancelled meanwhile keeps no claim."""
        claim = asyncio.create_task(
            self.change(lambda state: state.memory.claim_start(claimant, time.time()))
        )
        try:
            return await asyncio.shield(claim)
        except asyncio.CancelledError:
            with suppress(ApiError):
                await claim  # its transaction cannot be stopped
                await self.change(lambda state: state.memory.release_start(claimant))
            raise


@dataclass(slots=True)
class _KeptSession:
    """A session in memory, and the bytes that its effects and notes would take in a database."""

    state: SessionState = field(default_factory=SessionState)
    sizes: Mapping[str, int] = field(default_factory=dict)
    """The sizes of effects, by their identities."""
    effects_size: int = 0
    notes: NoteList = field(default_factory=NoteList)

    @property
    def size(self) -> int:
        return self.effects_size + self.notes.size

    def change(self, step: Callable[[SessionState], T]) -> tuple[T, int]:
        """Return the result of a step, and the bytes of the effects that it has added."""
        memory = self.state.memory
        before = dict(memory.effects)
        result = step(self.state)
        added = {identity: len(each) for identity, each in take_new_effects(before, memory).items()}
        if added:
            self._limit({**self.sizes, **added})
        return result, sum(added.values())

    def _limit(self, sizes: Mapping[str, int]) -> None:
        """Forget the oldest effects beyond MAX_SESSION_BYTES. `sizes` has the sizes of all effects."""
        effects = self.state.memory.effects
        self.effects_size = sum(sizes[identity] for identity in effects)
        while self.effects_size > MAX_SESSION_BYTES:
            self.effects_size -= sizes[effects.popitem(last=False)[0]]
        self.sizes = {identity: sizes[identity] for identity in effects}


class LocalSessions(Sessions):
    """The sessions of one process, in memory. Its coroutines never wait.

    At most MAX_SESSIONS are kept; beyond that, the key with the most loses its least recently used one. The
    same happens to the key with the most bytes of effects and notes if all take more than MAX_KEY_BYTES.
    """

    def __init__(self, keys: AcceptedKeys | None = None) -> None:
        super().__init__(keys)
        self._states: FairMapping[SessionKey, _KeptSession] = FairMapping(MAX_SESSIONS)
        self._added = 0  # bytes of effects and notes since their sum was last computed
        # The IDs of shims' sessions, by the key and the fingerprint of the prompt of a turn.
        self._prompts: FairMapping[SessionKey, str] = FairMapping(MAX_SESSIONS)
        # The IDs of shims' sessions to which unnamed calls belong, by the key and the ID of the conversation.
        self._links: FairMapping[SessionKey, str] = FairMapping(MAX_SESSIONS)

    async def exist(self) -> bool:
        return len(self._states) > 0

    async def open(self, session: SessionContext, texts: Collection[str] | None = None) -> OpenSession:
        resolved = self._resolve(session, texts) if texts is not None else session
        kept = self._get(self._states, session_key(resolved))
        return OpenSession(self, resolved, kept.state if kept else SessionState(), kept is not None)

    async def change(
        self, session: SessionContext, step: Callable[[SessionState], T]
    ) -> tuple[T, SessionState]:
        kept = self._get_or_create(session_key(session))
        result, added = kept.change(step)
        self._note_added(added)
        return result, kept.state

    async def read(self, session: SessionKey, name: str, since: int = 0) -> Notes:
        kept = self._get(self._states, session)
        return (kept.notes if kept else NoteList()).read(name, since)

    async def add(self, session: SessionKey, name: str, note: bytes) -> None:
        self._note_added(self._get_or_create(session).notes.add(name, note))

    async def end(self, session: SessionContext) -> None:
        for share in self.keys.shares(session.key):
            self._states.drop(share, session_key(session))

    async def link_prompt(self, session: SessionContext, prompt: str) -> None:
        self._keep(self._prompts, (session.key, text_fingerprint(prompt)), session.session_id)

    def _get_or_create(self, key: SessionKey) -> _KeptSession:
        return self._get(self._states, key) or self._keep(self._states, key, _KeptSession())

    def _note_added(self, size: int) -> None:
        """Note that sessions take so many bytes more, and make room if that may be too many."""
        self._added += size
        if self._added > MAX_KEY_BYTES * _SUM_AFTER:
            self._added = 0
            self._make_room()

    def _make_room(self) -> None:
        """Forget sessions of the keys with the most bytes until all fit in MAX_KEY_BYTES."""
        sizes: Counter[str] = Counter()
        for share, kept in self._states.items():
            sizes[share] += kept.size
        excess = sizes.total() - MAX_KEY_BYTES
        largest = [(-size, share) for share, size in sizes.items()]
        heapify(largest)
        while excess > 0:
            size, share = heappop(largest)
            oldest = self._states.oldest(share)
            dropped = oldest and self._states.drop(*oldest)
            if dropped is not None:
                excess -= dropped.size
                heappush(largest, (size + dropped.size, share))

    def _resolve(self, session: SessionContext, texts: Iterable[str]) -> SessionContext:
        """Return the shim session that an unnamed call belongs to, or `session` if there is none."""
        key = session_key(session)
        announced = (self._get(self._prompts, (session.key, text)) for text in texts)
        session_id = next((match for match in announced if match), None) or self._get(self._links, key)
        if session_id is None:
            return session
        self._keep(self._links, key, session_id)
        return replace(session, session_id=session_id)

    def _get(self, mapping: "FairMapping[SessionKey, V]", key: SessionKey) -> V | None:
        """Return a value, and move it to its key's own share if the key has been accepted since."""
        if not len(mapping):  # as in a gateway without shims and events of sessions
            return None
        own, *others = self.keys.shares(key[0])
        if (value := mapping.get(own, key)) is not None:
            return value
        for share in others:
            if (value := mapping.drop(share, key)) is not None:
                return self._keep(mapping, key, value)
        return None

    def _keep(self, mapping: "FairMapping[SessionKey, V]", key: SessionKey, value: V) -> V:
        mapping.store(self.keys.shares(key[0])[0], key, value)
        return value


_LONGEST_TOOL = 64
"""The maximum length of a tool's name that is kept; of a longer one, its hash is."""


def _short_name(tool: str) -> str:
    return tool if len(tool) <= _LONGEST_TOOL else text_fingerprint(tool)


def text_fingerprint(text: str) -> str:
    """Return a hash of a text, so that the text itself need not be kept."""
    return sha256(text.strip().encode(errors="surrogatepass")).hexdigest()
