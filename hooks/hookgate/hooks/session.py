"""The context of a hook's run: the session, the caller, and the state of the current call."""

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Protocol, TypeVar

from hookgate.hooks.session_notes import SessionKey, SessionNotes
from hookgate.translator.fields import JsonObject, is_larger
from hookgate.translator.known_turns import NO_TURNS, RequestTurns


class Screen(Protocol):
    """A filter for one answer, streamed or not, that decides which parts of it to hold back."""

    @property
    def slow(self) -> bool:
        """Whether judging anything may take so long that it must run in a thread."""

    def takes_long(self, values: Sequence[Any]) -> bool:
        """Return whether judging these events or other values may take so long that it must have a thread.

        That costs at most some milliseconds, and changes nothing. Only large values need to be asked about.
        """

    def add(self, events: Sequence[JsonObject]) -> None:
        """Add the next events of the answer, which `feed` releases. Raises Withheld like `feed`."""

    def feed(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        """Return the events to send now, as pairs of an event's number and its new content.

        `events` are the next events of the answer; they are numbered from 0 over the whole answer. If `last`
        is true, nothing is held back. `cut_off` means that the answer ended prematurely, so that the text
        held back may be incomplete. Events are returned in order. An event may be sent in several parts, and
        one of which nothing is left is not sent; an unchanged event is the same object. Raises Withheld if
        the rest must not be sent.
        """

    def redact(self, value: Any) -> Any:
        """Return a redacted copy of another JSON value, such as an error. Raises Withheld to withhold it."""

    def findings_output(self) -> JsonObject:
        """Return the effects so far as a hook output, for the record."""


class Withheld(Exception):  # noqa: N818  # a decision, not an error
    """The rest of a text must not be sent. `kind` names the kind of finding, or is empty."""

    def __init__(self, reason: str, kind: str = "") -> None:
        super().__init__(reason)
        self.kind = kind

    def output(self) -> JsonObject:
        """Return the denial as a hook output."""
        findings = {"hookSpecificOutput": {"findings": {self.kind: 1}}} if self.kind else {}
        return {"decision": "deny", "reason": str(self), **findings}


UNREADABLE_MODEL = "(unreadable)"
"""Stands for the model that has answered if it is named otherwise than models are."""


@dataclass(frozen=True, slots=True)
class ExpectedUse:
    """The tokens that a call is expected to use at most, estimated from its request."""

    input_tokens: int = 0
    output_tokens: int = 0
    priority: bool = False
    """Whether it asks for the service tier `priority`, which costs more."""


@dataclass(frozen=True, slots=True)
class LimitUse:
    """How much of a limit was used when a call was checked, including what is held for other calls."""

    measure: str
    """What is limited: `requests`, `tokens` or `cost`."""
    used: float
    most: float
    window: str
    """The calendar window: `minute`, `day` or `month`."""
    per: str
    """Whose usage is added up, such as `team`."""

    @property
    def share(self) -> float:
        """The share of the limit that is used."""
        return self.used / self.most


@dataclass(frozen=True, slots=True)
class CallEnd:
    """The end of a model call, or of a part of a Live session: what it has used.

    Token counts are those that the upstream reported, even if it was cut off. What it did not report is
    estimated.
    """

    model: str
    """The model that was asked."""
    input_tokens: int = 0
    """The number of prompt tokens, including cached ones."""
    output_tokens: int = 0
    """The number of answer tokens, including thoughts."""
    cost: float | None = None
    """The cost in the currency of the price table, or None if it has no price for the model."""
    answered_by: str = ""
    """The model that has answered, if it is another one than was asked."""
    continues: bool = False
    """Whether the call goes on, as a Live session does after each turn, or a model in the background."""


R = TypeVar("R")


_LONG_TEXTS = 4096
"""Characters that are read within a few milliseconds."""


class Steps:
    """Runs the steps of one call: functions that change at most what belongs to the call, one at a time.

    The gateway's (`CallSteps`) run them where they delay other calls the least.
    """

    is_large: bool = False
    """Whether the part of the body that is judged now is large, so that its steps take a thread."""

    def note_size(self, size: int) -> None:
        """Note that a part of at least so many bytes is judged now."""

    async def run(self, step: Callable[..., R], /, *args: Any) -> R:
        """Return the result of a step whose cost is proportional to the part that is judged now."""
        return step(*args)

    async def run_long(self, step: Callable[..., R], /, *args: Any) -> R:
        """Return the result of a step that may take long whatever the size is, as for crafted texts."""
        return await asyncio.to_thread(step, *args)

    async def run_on_texts(self, value: Any, step: Callable[..., R], /, *args: Any) -> R:
        """Return the result of a step that takes up to three microseconds for each character in a value."""
        run = self.run_long if is_larger(value, _LONG_TEXTS) else self.run
        return await run(step, *args)

    async def pause(self) -> None:
        """Let other calls run if this one has run for long. To be awaited between the items of a body."""

    @contextmanager
    def judging(self, part: JsonObject) -> Iterator[None]:
        """Within the block, judge a part of the body, whose steps need no thread if it is small.

        Many small parts of a large body would otherwise take a thread each.
        """
        yield


_STEPS = Steps()


@dataclass(slots=True)
class CallState:
    """The state of one call, from its first event to its end. Policies may store values in it."""

    values: dict[Any, Any] = field(default_factory=dict)
    """Values of policies, by a key of the policy's choice."""
    client_filters: dict[Any, Callable[[], Screen]] = field(default_factory=dict)
    """Filters for the answer to the client, applied after all hooks, such as one that restores pseudonyms."""
    at_use: list[Callable[[CallEnd], None]] = field(default_factory=list)
    """Called with what the call has used since they were last called: at its end, or after each turn of a
    Live session. They must not block or raise."""
    before_turn: dict[Any, Callable[[], Awaitable[str | None]]] = field(default_factory=dict)
    """Checks by policies, for further turns of a Live session in which nothing is judged. Each returns the
    reason why the session has to end, or None."""
    operation: str = ""
    """The API's method, such as `generateContent`; empty if it is unknown, as in events of a shim."""
    apis: frozenset[str] = frozenset()
    """The APIs that the call may be sent to, such as `vertex`; empty if it is sent nowhere."""
    model: str = ""
    """The model that the call is for, which hooks may have changed; empty in events of a shim."""
    own_model: str = ""
    """The model that the path asks for with its collection, such as `tunedModels/name`, if users choose the
    names in it; else empty."""
    requests: int = 1
    """How many requests the body contains. Hooks judge each of them, and policies count all at once."""
    requires_json: bool = False
    """Whether the request that is judged now requires an answer in JSON. A body may have several requests."""
    prefilled: str = ""
    """The text with which the request begins the model's answer, or that the client has received of earlier
    answers, and which the answer continues."""
    earlier_thoughts: str = ""
    """The thoughts that the client has received of earlier answers, which those of the answer continue."""
    user_text: str | None = None
    """What the user certainly wrote of the turn that is judged now, or None if that is not known better than
    from the prompt. The rest may be what a tool returned, or an agent's own question."""
    tool_names: Sequence[str] = ()
    """The names of the functions that the request declares, while its tool results are judged; else empty."""
    cut_off: bool = False
    """Whether the answer has ended prematurely, so that its texts may end in the middle of a secret."""
    answered_by: str = ""
    """The model that has answered, as the answer names it, or UNREADABLE_MODEL.

    Empty if it is unknown, or there is no answer.
    """
    rerouted: Mapping[str, str] = field(default_factory=dict)
    """The models that answered the latest calls to other models, by the names of these."""
    limits: dict[Any, LimitUse] = field(default_factory=dict)
    """How much is used of the limits that apply to the call, by the count that each of them limits."""
    expected: ExpectedUse = ExpectedUse()
    """What the call is expected to use; nothing if it uses no tokens, or if that is unknown."""
    turns: RequestTurns = NO_TURNS
    """The turns with which the request began when it was read, as far as their JSON was canonical."""
    steps: Steps = _STEPS
    """Runs the steps of hooks."""

    @property
    def runs_model(self) -> bool:
        """Whether the call runs a model, or may do so. An upload of a file does not."""
        return self.operation != "uploadFile"

    def restore_pseudonyms(self, response: JsonObject) -> JsonObject:
        """Return the response with pseudonyms restored for the client."""
        for make in self.client_filters.values():
            [(_, response)] = make().feed([response], last=True)
        return response


@dataclass(frozen=True, slots=True)
class SessionContext:
    """The session and caller of an event, for the fields that all hook inputs share and for `when`.

    `key` is the name of the caller's API key, never the key itself; `team` is the team of that key.
    """

    session_id: str
    transcript_path: str = ""
    client: str = ""
    key: str = ""
    cwd: str = ""
    """The agent's working directory if known; otherwise hooks get the project folder they belong to."""
    team: str = ""
    call_state: CallState = field(default_factory=CallState, compare=False, repr=False)
    """The state of the current call."""
    notes: SessionNotes | None = field(default=None, compare=False, repr=False)
    """The notes of policies on the session, or None if nothing is remembered between its events."""

    @property
    def place(self) -> SessionKey:
        """What identifies the session: the caller's key, and the ID."""
        return self.key, self.session_id
