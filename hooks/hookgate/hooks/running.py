"""One run of one hook: its time, its turn, its output cut down to what it changes."""

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime

from hookgate.hooks.clock import Deadline, TimeLimit
from hookgate.hooks.document import Document
from hookgate.hooks.errors import ExitCodeError, HookError, HookUnavailableError
from hookgate.hooks.events import Event
from hookgate.hooks.exhaustion import is_exhaustion
from hookgate.hooks.kinds import Runner
from hookgate.hooks.output import Output
from hookgate.hooks.queueing import FairQueue
from hookgate.hooks.session import Session
from hookgate.hooks.settings import ADVISORY, BuiltinConfig, Hook, RuntimeConfig
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
    failure: HookError | None = None
    seconds: float = 0.0
    began: float = 0.0

    @property
    def error(self) -> str:
        """What went wrong; empty when nothing did."""
        return "" if self.failure is None else str(self.failure) or type(self.failure).__name__

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
        """What the hook would have done: its output, or a denial if it failed and its failure denies."""
        if self.failure is None:
            return self.output
        return {"decision": "deny", "reason": self.client_reason()} if self.fails_closed else None

    @property
    def fails_closed(self) -> bool:
        """Whether the run failed, and for that the call is denied."""
        if self.failure is None or self.hook.event in ADVISORY:
            return False
        match self.failure:
            case HookUnavailableError():
                return True
            case ExitCodeError():
                return self.hook.on_exit_code == "deny"
            case _:
                return self.hook.on_error == "deny"

    def client_reason(self) -> str:
        """Return what clients are told of a failed run.

        How a hook failed may tell of the gateway's machine: it is for the log alone.
        """
        if isinstance(self.failure, HookUnavailableError):
            return f"The hook {self.hook.name!r} could not judge this call ({self.failure.cause})."
        return failed(self.hook)


def failed(hook: Hook) -> str:
    """What clients are told of a failed hook: how it failed may tell of the gateway's machine."""
    return f"The hook {hook.name!r} failed; its log tells why."


_OVER = "the whole time of the event's hooks was over"
_OVERLOAD = f"{_OVER} before its turn came: too many other hooks were running"

log = logging.getLogger("hookgate.hooks")


class Running:
    """Runs hooks by their runners, within an event's whole time and the bound on hooks at once."""

    def __init__(self, runners: Mapping[Hook, Runner], queue: FairQueue, refusal: Refusal) -> None:
        self._runners, self._queue, self._refusal = runners, queue, refusal

    @property
    def waiting(self) -> int:
        """How many runs wait for their turn."""
        return self._queue.waiting

    async def run(
        self, hook: Hook, event: Event, seen: tuple[Run, ...], session: Session, deadline: Deadline
    ) -> Run:
        """One run; whatever goes wrong with it stands in its `failure`."""
        begin = time.monotonic()
        run = Run(hook, seen, began=begin)
        try:
            output = await self._in_time(hook, event, session, deadline)
            specific = (output or {}).get("hookSpecificOutput") or {}
            edit = await session.call.take(event.changed, specific, hook.config.view)
            run = replace(run, output=output, edit=edit)
        except HookError as error:
            run = replace(run, failure=error)
        except TranslatorError as error:
            run = replace(run, failure=HookError(f"hookSpecificOutput.{error}"))
        except Exception as error:  # whatever it is, it must not lose the other hooks' verdicts
            run = replace(run, failure=internal_failure(error))
        return replace(run, seconds=time.monotonic() - begin)

    async def _in_time(self, hook: Hook, event: Event, session: Session, deadline: Deadline) -> Output | None:
        if (reason := self._refusal(hook)) is not None:
            raise HookError(reason)
        remaining = deadline.remaining()
        if remaining <= 0:
            raise HookUnavailableError("deadline", _OVER)
        if self._queue.open and hook.timeout <= remaining:  # its own timeout is the tighter one
            async with self._queue.turn(session.session_id, session.key):
                return await self._answer(hook, event, session)
        began = False
        limit = TimeLimit(deadline)
        try:
            async with limit, self._queue.turn(session.session_id, session.key):
                began = True
                return await self._answer(hook, event, session)
        except TimeoutError:
            if not limit.expired():
                raise
            if began:
                raise HookUnavailableError("deadline", _OVER) from None
            raise HookUnavailableError("overload", _OVERLOAD) from None

    async def _answer(self, hook: Hook, event: Event, session: Session) -> Output | None:
        document = await session.call.take(_document, hook, event, session)
        return await self._runners[hook].run(event.name, session, document)


def internal_failure(error: Exception) -> HookUnavailableError:
    """Return the failure of a run that ended with an exception which no hook is answerable for."""
    if is_exhaustion(error):
        return HookUnavailableError("no resources", f"could not run: {error!r}")
    log.error("a hook could not run because hookgate failed", exc_info=error)
    return HookUnavailableError("internal error", f"could not run because hookgate failed: {error!r}")


def _document(hook: Hook, event: Event, session: Session) -> Document:
    """What a hook is shown; of a large body in the form that it takes, so that nothing is left to do."""
    document = Document({**base_fields(hook, event.name, session), **event.fields(hook.config.view)})
    if session.call.aside is not None:
        document.make(value=isinstance(hook.config, BuiltinConfig | RuntimeConfig))
    return document


def base_fields(hook: Hook, event: str, session: Session) -> JsonObject:
    """The fields that every hook's input begins with."""
    return {
        "session_id": session.session_id,
        "transcript_path": session.transcript_path,
        "cwd": session.cwd or str(hook.root),
        "hook_event_name": event,
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }
