"""Sessions and turns of asynchronous and synchronous agents."""

import contextlib
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar, overload

from hookgate.shim.conversation import Attempt
from hookgate.shim.decisions import Decision, Json, ShimError, Stopped
from hookgate.shim.driver import Driver
from hookgate.shim.tools import SyncTool, Tool, as_tool_run

P = ParamSpec("P")
R = TypeVar("R")


class CommonSession:
    """One session of an agent: what `Session` and `SyncSession` have in common."""

    def __init__(self, driver: Driver, source: str) -> None:
        self._driver, self._source = driver, source
        self._conversation = driver.conversation

    @property
    def session_id(self) -> str:
        return self._conversation.session_id

    @property
    def context(self) -> str:
        """Context for the model from the session's first turn on, or an empty string."""
        return self._conversation.context

    @property
    def stopped(self) -> str | None:
        """The reason why hooks stopped the agent, until its next turn. None if they did not."""
        stopped = self._conversation.stopped
        return None if stopped is None else stopped.reason

    def lift(self) -> Stopped | None:
        """Lift a stop, for an agent that does not report its turns.

        Returns the exception for the caller to raise, or None if the agent is not stopped.
        """
        decision, self._conversation.stopped = self._conversation.stopped, None
        return None if decision is None else Stopped(decision.reason, decision)

    @overload
    def guard(self, function: Callable[P, R], /) -> Callable[P, R]: ...

    @overload
    def guard(
        self, function: None = None, /, *, name: str | None = None
    ) -> Callable[[Callable[P, R]], Callable[P, R]]: ...

    def guard(self, function: Any = None, /, *, name: str | None = None) -> Any:
        """Report every call of a function as a tool run, under the function's name or `name`.

        Hooks see the arguments by the names of the signature, without `self`, and may rewrite them. The
        caller receives the result as hooks left it. A plain function blocks its thread during the events, a
        coroutine function awaits them. Raises ToolDenied, Stopped and ToolFailed.
        """
        if function is None:
            return lambda decorated: as_tool_run(self._driver, decorated, name)
        return as_tool_run(self._driver, function, name)


class Turn:
    """One turn of a session: a prompt, and the `context` that hooks added to it for the model."""

    def __init__(self, driver: Driver, attempt: Attempt) -> None:
        self._driver, self._attempt = driver, attempt
        self.prompt, self.context = attempt.prompt, attempt.context

    @property
    def is_last(self) -> bool:
        """Whether the model has given as many answers to this prompt as the shim's `attempts`."""
        return self._attempt.number > self._driver.conversation.attempts

    async def answer(self, text: str) -> Decision:
        """Report the final answer and return the decision. Raises Stopped.

        If the decision is `denied`, ask the model for another answer, with its `reason` as the prompt.
        """
        decision = await self._driver.run(self._driver.conversation.judge(self._attempt, text))
        self._attempt.number += 1
        return decision


class Session(CommonSession):
    """A session, to enter with `async with`: its start and end are events."""

    async def __aenter__(self) -> Self:
        """Begin the session. Raises Denied and Stopped."""
        await self._driver.run(self._conversation.start(self._source))
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        with contextlib.suppress(*([ShimError] if error else [])):  # the first error is the one to raise
            await self._driver.run(self._conversation.end("other" if error else "exit"))

    @asynccontextmanager
    async def turn(self, prompt: str, history: list[Any] | None = None) -> AsyncIterator[Turn]:
        """Begin a turn, whose answer is reported with `Turn.answer`. Raises Denied and Stopped."""
        yield await self.begin(prompt, history)

    async def begin(self, prompt: str, history: list[Any] | None = None) -> Turn:
        """Begin a turn without a `with` block. Raises Denied and Stopped."""
        return Turn(self._driver, await self._driver.run(self._conversation.begin(prompt, history)))

    async def attempts(self, prompt: str, history: list[Any] | None = None) -> AsyncIterator[Attempt]:
        """Iterate over the attempts of one turn: a new one each time hooks deny the answer.

        For each attempt, send `attempt.prompt` to the model and pass its text to `attempt.answer`. There are
        at most as many attempts as the shim's `attempts`. Raises Denied (for the prompt, or for the last
        answer) and Stopped.
        """
        attempt: Attempt | None = await self._driver.run(self._conversation.begin(prompt, history))
        while attempt is not None:
            yield attempt
            attempt = await self._driver.run(self._conversation.following(attempt))

    def tool(self, name: str, args: Json, description: str | None = None) -> Tool:
        """Return a tool's run to enter with `async with`."""
        return Tool(self._driver, name, args, description)

    async def notify(self, kind: str, message: str, details: Json | None = None) -> Decision:
        """Report a notification that the agent shows its user. Hooks cannot deny it."""
        return await self._driver.run(self._conversation.notify(kind, message, details))

    async def compress(
        self, trigger: str = "auto", size: int | None = None, max_size: int | None = None
    ) -> Decision:
        """Report that the agent is about to compress its context. Hooks cannot deny it.

        Sizes are in tokens.
        """
        return await self._driver.run(self._conversation.compress(trigger, size, max_size))


class SyncTurn:
    """One turn of a session: a prompt, and the `context` that hooks added to it for the model."""

    def __init__(self, driver: Driver, attempt: Attempt) -> None:
        self._driver, self._attempt = driver, attempt
        self.prompt, self.context = attempt.prompt, attempt.context

    def answer(self, text: str) -> Decision:
        """Report the final answer and return the decision. Raises Stopped.

        If the decision is `denied`, ask the model for another answer, with its `reason` as the prompt.
        """
        decision = self._driver.wait(self._driver.conversation.judge(self._attempt, text))
        self._attempt.number += 1
        return decision


class SyncSession(CommonSession):
    """A session, to enter with `with`: its start and end are events."""

    def __enter__(self) -> Self:
        """Begin the session. Raises Denied and Stopped."""
        self._driver.wait(self._conversation.start(self._source))
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        with contextlib.suppress(*([ShimError] if error else [])):  # the first error is the one to raise
            self._driver.wait(self._conversation.end("other" if error else "exit"))

    @contextmanager
    def turn(self, prompt: str, history: list[Any] | None = None) -> Iterator[SyncTurn]:
        """Begin a turn, whose answer is reported with `Turn.answer`. Raises Denied and Stopped."""
        yield self.begin(prompt, history)

    def begin(self, prompt: str, history: list[Any] | None = None) -> SyncTurn:
        """Begin a turn without a `with` block. Raises Denied and Stopped."""
        return SyncTurn(self._driver, self._driver.wait(self._conversation.begin(prompt, history)))

    def attempts(self, prompt: str, history: list[Any] | None = None) -> Iterator[Attempt]:
        """Iterate over the attempts of one turn: a new one each time hooks deny the answer.

        For each attempt, send `attempt.prompt` to the model and pass its text to `attempt.answer`. There are
        at most as many attempts as the shim's `attempts`. Raises Denied (for the prompt, or for the last
        answer) and Stopped.
        """
        attempt: Attempt | None = self._driver.wait(self._conversation.begin(prompt, history))
        while attempt is not None:
            yield attempt
            attempt = self._driver.wait(self._conversation.following(attempt))

    def tool(self, name: str, args: Json, description: str | None = None) -> SyncTool:
        """Return a context manager for one run of a tool."""
        return SyncTool(self._driver, name, args, description)

    def notify(self, kind: str, message: str, details: Json | None = None) -> Decision:
        """Report a notification that the agent shows its user. Hooks cannot deny it."""
        return self._driver.wait(self._conversation.notify(kind, message, details))

    def compress(
        self, trigger: str = "auto", size: int | None = None, max_size: int | None = None
    ) -> Decision:
        """Report that the agent is about to compress its context. Hooks cannot deny it.

        Sizes are in tokens.
        """
        return self._driver.wait(self._conversation.compress(trigger, size, max_size))
