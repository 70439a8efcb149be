"""Who asks, and what is kept of one call while it runs."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from hookgate.translator.fields import JsonObject


class Screen(Protocol):
    """One streamed answer before someone who says himself what of it has to wait."""

    @property
    def slow(self) -> bool:
        """Whether judging may take so long that it has to be done in a thread."""

    def judge(
        self, events: Sequence[JsonObject], *, last: bool, cut_off: bool = False
    ) -> list[tuple[int, JsonObject]]:
        """What may go on now, as pairs: the number of the event it came from, and what that has become.

        `events` are the next ones, counted from 0 over the whole answer; after the `last` ones nothing waits.
        `cut_off`: the answer ended before its time, so what waits may be a part of something.
        Numbers never fall. An event may go on in several pieces; one that nothing changes is the very object.
        Raises Withheld.
        """

    def redact(self, value: Any) -> Any:
        """A JSON value that is no answer, such as an error, as it may go on. Raises Withheld."""

    def told(self) -> JsonObject:
        """What was done so far, in the words of a hook's output; for the record."""


class Withheld(Exception):  # noqa: N818  # a verdict, not an error
    """Nothing more of a text may go on; the reason tells why, and `kind` what was found, if anything was."""

    def __init__(self, reason: str, kind: str = "") -> None:
        super().__init__(reason)
        self.kind = kind

    def output(self) -> JsonObject:
        """The verdict in the words of a hook's output."""
        found = {"hookSpecificOutput": {"findings": {self.kind: 1}}} if self.kind else {}
        return {"decision": "deny", "reason": str(self), **found}


@dataclass(frozen=True, slots=True)
class CallEnd:
    """How a call to a model ended. Tokens are those that the upstream told of, also when it was cut off."""

    model: str
    input_tokens: int = 0
    """Of the prompt, cached ones among them."""
    output_tokens: int = 0
    """Of the answer, thoughts among them."""
    cost: float | None = None
    """In the currency of the price table; None when that knows no price for the model."""


class Aside(Protocol):
    """Where steps of a call are taken that would keep others waiting."""

    async def __call__(self, step: Callable[..., Any], /, *args: Any) -> Any:
        """The result of a pure function."""


@dataclass(slots=True)
class CallState:
    """What policies keep of one call, from its first event to its end; nobody else's call can see it."""

    kept: dict[Any, Any] = field(default_factory=dict)
    """By a key of the policy's own."""
    exits: dict[Any, Callable[[], Screen]] = field(default_factory=dict)
    """What an answer passes last, behind all hooks: how something is turned back for the client alone."""
    at_end: list[Callable[[CallEnd], None]] = field(default_factory=list)
    """Whom to tell how the call ended. They have to be quick, and must not raise."""
    aside: Aside | None = None
    """Where what is proportional to the bodies is done, when these are large; None when they are small."""

    async def take(self, step: Callable[..., Any], *args: Any) -> Any:
        """The result of a pure step that is proportional to the call's bodies."""
        return step(*args) if self.aside is None else await self.aside(step, *args)


@dataclass(frozen=True, slots=True)
class Session:
    """Who asks: the base fields of every hook's input, and what `when` can tell apart.

    `key` is a name for the caller's API key, never the key itself; `team` is the one it belongs to.
    """

    session_id: str
    transcript_path: str = ""
    client: str = ""
    key: str = ""
    cwd: str = ""
    """Where the agent works, when it says so; else hooks are told the project folder they belong to."""
    team: str = ""
    call: CallState = field(default_factory=CallState, compare=False, repr=False)
    """The call that is being made in the session."""
