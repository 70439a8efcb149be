"""What the asynchronous and the synchronous session have in common: all that needs no waiting."""

from collections.abc import Callable
from typing import Any, ParamSpec, TypeVar, overload

from hookgate.shim.driver import Driver
from hookgate.shim.errors import Stopped
from hookgate.shim.guarding import guarded

P = ParamSpec("P")
R = TypeVar("R")


class CommonSession:
    """One session of an agent's."""

    def __init__(self, driver: Driver, source: str) -> None:
        self._driver, self._source = driver, source
        self._conversation = driver.conversation

    @property
    def session_id(self) -> str:
        return self._conversation.session_id

    @property
    def context(self) -> str:
        """What the model should know from the session's first turn on; empty when nothing."""
        return self._conversation.context

    @property
    def stopped(self) -> str | None:
        """Why hooks stopped the agent, until its next turn; None when they did not."""
        stopped = self._conversation.stopped
        return None if stopped is None else stopped.reason

    def lift(self) -> Stopped | None:
        """Lift a stop, for an agent whose turns hooks are not told of; gives it, to be raised."""
        decision, self._conversation.stopped = self._conversation.stopped, None
        return None if decision is None else Stopped(decision.reason, decision)

    @overload
    def guard(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def guard(
        self, function: None = None, /, *, name: str | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def guard(self, function: Any = None, /, *, name: str | None = None) -> Any:
        """Make every call of a function a tool's run, under its own name or this one.

        Hooks see the arguments by the names of the signature, without `self`, and may rewrite them; the
        caller gets what they left of the result. A plain function waits for the events in its own thread,
        a coroutine function awaits them. Raises ToolDenied, Stopped and ToolFailed.
        """
        if function is None:
            return lambda found: guarded(self._driver, found, name)
        return guarded(self._driver, function, name)
