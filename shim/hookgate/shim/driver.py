"""Runs one session's steps: fires what they want fired, asks whom they want asked."""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Literal, TypeVar, cast

from hookgate.shim.conversation import Conversation
from hookgate.shim.decisions import Decision, Question
from hookgate.shim.host import Host
from hookgate.shim.steps import Ask, Fire, Step
from hookgate.shim.transport import Transport

T = TypeVar("T")

Asker = Callable[[Question], bool | Awaitable[bool]]
"""Asks the user whether a tool may run."""

Context = Literal["returned", "delivered"]
"""Who tells the model what hooks add at the start of a session or turn: the caller, or the gateway."""

_ADDS_CONTEXT = frozenset({"SessionStart", "BeforeAgent"})


@dataclass(frozen=True, slots=True)
class Driver:
    """One session's way to who decides."""

    transport: Transport
    host: Host
    conversation: Conversation
    cwd: str
    context: Context
    asker: Asker | None

    async def run(self, step: Step[T]) -> T:
        """The step's result, with the calling loop free meanwhile."""
        answer: Any = None
        while True:
            try:
                wanted = step.send(answer)
            except StopIteration as end:
                return cast("T", end.value)
            match wanted:
                case Fire():
                    answer = await asyncio.wrap_future(self.host.submit(self._fire(wanted)))
                case Ask(question):
                    agreed = self.asker and self.asker(question)
                    answer = await agreed if inspect.isawaitable(agreed) else agreed

    def wait(self, step: Step[T]) -> T:
        """The step's result, waited for in the calling thread."""
        answer: Any = None
        while True:
            try:
                wanted = step.send(answer)
            except StopIteration as end:
                return cast("T", end.value)
            match wanted:
                case Fire():
                    answer = self.host.wait(self._fire(wanted))
                case Ask(question):
                    agreed = self.asker and self.asker(question)
                    answer = self.host.wait(_result(agreed)) if inspect.isawaitable(agreed) else agreed

    def _fire(self, fire: Fire) -> Coroutine[Any, Any, Decision]:
        document = {
            "session_id": self.conversation.session_id,
            "transcript_path": "",
            "cwd": self.cwd,
            "hook_event_name": fire.event,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **fire.fields,
        }
        deliver = self.context == "delivered" and fire.event in _ADDS_CONTEXT
        return self.transport.fire(fire.event, document, deliver=deliver)


async def _result(awaitable: Awaitable[T]) -> T:
    return await awaitable
