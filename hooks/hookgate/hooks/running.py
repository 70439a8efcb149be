"""One run of one hook: its time, its turn, its output cut down to what it changes."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from hookgate.hooks.document import Document
from hookgate.hooks.errors import HookError
from hookgate.hooks.events import Event
from hookgate.hooks.kinds import Runner
from hookgate.hooks.output import Output
from hookgate.hooks.queueing import FairQueue
from hookgate.hooks.session import Session
from hookgate.hooks.settings import Hook
from hookgate.translator import TranslatorError
from hookgate.translator.fields import JsonObject

Refusal = Callable[[Hook], str | None]
"""Why a hook must not run, or None when it may."""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of one hook: the edits its input held, and what came of it. `seconds` includes its wait.

    It `began` at this time of the monotonic clock.
    """

    hook: Hook
    seen: tuple["Run", ...]
    output: Output | None = None
    edit: JsonObject = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0
    began: float = 0.0

    @property
    def observed(self) -> bool:
        """Whether the run is for the record alone: nothing of it is applied."""
        return self.hook.config.mode == "observe"

    @property
    def edits(self) -> bool:
        """Whether later hooks see another input because of this run."""
        return bool(self.edit) and not self.observed

    @property
    def enforced_denial(self) -> bool:
        """Whether it denies something, and not for the record alone."""
        return not self.observed and (self.said() or {}).get("decision") == "deny"

    def said(self) -> Output | None:
        """What the hook would have done: its output; when it failed, what its `on_error` says."""
        if not self.error:
            return self.output
        if self.hook.on_error == "deny" and self.hook.event not in ADVISORY:
            return {"decision": "deny", "reason": failed(self.hook)}
        return None


def failed(hook: Hook) -> str:
    """What clients are told of a failed hook: how it failed may tell of the gateway's machine."""
    return f"The hook {hook.name!r} failed; its log tells why."


ADVISORY = frozenset({"SessionEnd", "PreCompress", "Notification"})
"""Events that hooks hear of and cannot stop."""

_OVER = "the whole time of the event's hooks was over"


class Running:
    """Runs hooks by their runners, within an event's whole time and the bound on hooks at once."""

    def __init__(self, runners: Mapping[Hook, Runner], queue: FairQueue, refusal: Refusal) -> None:
        self._runners, self._queue, self._refusal = runners, queue, refusal

    @property
    def waiting(self) -> int:
        """How many runs wait for their turn."""
        return self._queue.waiting

    async def run(
        self, hook: Hook, event: Event, seen: tuple[Run, ...], session: Session, deadline: float
    ) -> Run:
        """One run; whatever goes wrong with it stands in its `error`. `deadline` is in the loop's time."""
        begin = time.monotonic()
        run = Run(hook, seen, began=begin)
        try:
            output = await self._in_time(hook, event, session, deadline)
            specific = (output or {}).get("hookSpecificOutput") or {}
            run = replace(run, output=output, edit=event.changed(specific, hook.config.view))
        except HookError as error:
            run = replace(run, error=str(error))
        except TranslatorError as error:
            run = replace(run, error=f"hookSpecificOutput.{error}")
        return replace(run, seconds=time.monotonic() - begin)

    async def _in_time(self, hook: Hook, event: Event, session: Session, deadline: float) -> Output | None:
        if (reason := self._refusal(hook)) is not None:
            raise HookError(reason)
        now = asyncio.get_running_loop().time()
        if now >= deadline:
            raise HookError(_OVER)
        if self._queue.open and now + hook.timeout <= deadline:
            return await self._in_turn(hook, event, session)  # its own timeout is the tighter one
        limit = asyncio.timeout_at(deadline)
        try:
            async with limit:
                return await self._in_turn(hook, event, session)
        except TimeoutError:
            raise HookError(_OVER) from None

    async def _in_turn(self, hook: Hook, event: Event, session: Session) -> Output | None:
        async with self._queue.turn(session.session_id):
            document = Document({**base_fields(hook, event.name, session), **event.fields(hook.config.view)})
            return await self._runners[hook].run(event.name, session, document)


def base_fields(hook: Hook, event: str, session: Session) -> JsonObject:
    """The fields that every hook's input begins with."""
    return {
        "session_id": session.session_id,
        "transcript_path": session.transcript_path,
        "cwd": session.cwd or str(hook.root),
        "hook_event_name": event,
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
