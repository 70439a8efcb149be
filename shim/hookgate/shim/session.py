"""A session of an asynchronous agent: the steps of conversation.py, awaited."""

import contextlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import TracebackType
from typing import Any, Self

from hookgate.shim.common import CommonSession
from hookgate.shim.conversation import Attempt
from hookgate.shim.decisions import Decision, Json
from hookgate.shim.driver import Driver
from hookgate.shim.errors import ShimError
from hookgate.shim.tools import Tool


class Turn:
    """One prompt. `context` is what the model should know with it."""

    def __init__(self, driver: Driver, attempt: Attempt) -> None:
        self._driver, self._attempt = driver, attempt
        self.prompt, self.context = attempt.prompt, attempt.context

    async def answer(self, text: str) -> Decision:
        """What hooks say to the final answer: `denied` asks for another, for its `reason`. Raises Stopped."""
        decision = await self._driver.run(self._driver.conversation.judge(self._attempt, text))
        self._attempt.number += 1
        return decision


class Session(CommonSession):
    """A session, to enter with `async with`: its start and end are events."""

    async def __aenter__(self) -> Self:
        """Raises Denied and Stopped."""
        await self._driver.run(self._conversation.start(self._source))
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        with contextlib.suppress(*([ShimError] if error else [])):  # what went wrong first is told
            await self._driver.run(self._conversation.end("other" if error else "exit"))

    @asynccontextmanager
    async def agent(self, prompt: str, history: list[Any] | None = None) -> AsyncIterator[Turn]:
        """One turn, its answer told by `answer`. Raises Denied and Stopped."""
        yield await self.begin(prompt, history)

    async def begin(self, prompt: str, history: list[Any] | None = None) -> Turn:
        """The same without a block to enter."""
        return Turn(self._driver, await self._driver.run(self._conversation.begin(prompt, history)))

    async def turns(self, prompt: str, history: list[Any] | None = None) -> AsyncIterator[Attempt]:
        """One turn, as often as hooks deny its answer: the shim's `attempts` at most.

        Ask the model for `attempt.prompt`, and give its text to `attempt.answer`. Raises Denied (the prompt,
        or the last answer) and Stopped.
        """
        attempt: Attempt | None = await self._driver.run(self._conversation.begin(prompt, history))
        while attempt is not None:
            yield attempt
            attempt = await self._driver.run(self._conversation.following(attempt))

    def tool(self, name: str, args: Json, description: str | None = None) -> Tool:
        """A tool's run, to enter with `async with`."""
        return Tool(self._driver, name, args, description)

    async def notify(self, kind: str, message: str, details: Json | None = None) -> Decision:
        """The agent tells its user something. Hooks cannot forbid it."""
        return await self._driver.run(self._conversation.notify(kind, message, details))

    async def compress(
        self, trigger: str = "auto", size: int | None = None, max_size: int | None = None
    ) -> Decision:
        """The agent is about to compress its context, of so many tokens. Hooks cannot forbid it."""
        return await self._driver.run(self._conversation.compress(trigger, size, max_size))
