"""A session of a synchronous agent: the steps of conversation.py, waited for in the calling thread."""

import contextlib
from collections.abc import Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Any, Self

from hookgate.shim.common import CommonSession
from hookgate.shim.conversation import Attempt
from hookgate.shim.decisions import Decision, Json
from hookgate.shim.driver import Driver
from hookgate.shim.errors import ShimError
from hookgate.shim.tools import SyncTool


class SyncTurn:
    """One prompt. `context` is what the model should know with it."""

    def __init__(self, driver: Driver, attempt: Attempt) -> None:
        self._driver, self._attempt = driver, attempt
        self.prompt, self.context = attempt.prompt, attempt.context

    def answer(self, text: str) -> Decision:
        """What hooks say to the final answer: `denied` asks for another, for its `reason`. Raises Stopped."""
        decision = self._driver.wait(self._driver.conversation.judge(self._attempt, text))
        self._attempt.number += 1
        return decision


class SyncSession(CommonSession):
    """A session, to enter with `with`: its start and end are events."""

    def __enter__(self) -> Self:
        """Raises Denied and Stopped."""
        self._driver.wait(self._conversation.start(self._source))
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        with contextlib.suppress(*([ShimError] if error else [])):  # what went wrong first is told
            self._driver.wait(self._conversation.end("other" if error else "exit"))

    @contextmanager
    def agent(self, prompt: str, history: list[Any] | None = None) -> Iterator[SyncTurn]:
        """One turn, its answer told by `answer`. Raises Denied and Stopped."""
        yield self.begin(prompt, history)

    def begin(self, prompt: str, history: list[Any] | None = None) -> SyncTurn:
        """The same without a block to enter."""
        return SyncTurn(self._driver, self._driver.wait(self._conversation.begin(prompt, history)))

    def turns(self, prompt: str, history: list[Any] | None = None) -> Iterator[Attempt]:
        """One turn, as often as hooks deny its answer: the shim's `attempts` at most.

        Ask the model for `attempt.prompt`, and give its text to `attempt.answer`. Raises Denied (the prompt,
        or the last answer) and Stopped.
        """
        attempt: Attempt | None = self._driver.wait(self._conversation.begin(prompt, history))
        while attempt is not None:
            yield attempt
            attempt = self._driver.wait(self._conversation.following(attempt))

    def tool(self, name: str, args: Json, description: str | None = None) -> SyncTool:
        """A tool's run, to enter with `with`."""
        return SyncTool(self._driver, name, args, description)

    def notify(self, kind: str, message: str, details: Json | None = None) -> Decision:
        """The agent tells its user something. Hooks cannot forbid it."""
        return self._driver.wait(self._conversation.notify(kind, message, details))

    def compress(
        self, trigger: str = "auto", size: int | None = None, max_size: int | None = None
    ) -> Decision:
        """The agent is about to compress its context, of so many tokens. Hooks cannot forbid it."""
        return self._driver.wait(self._conversation.compress(trigger, size, max_size))
