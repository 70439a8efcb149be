"""Runs single hooks, queues their runs, and keeps the status of each hook."""

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

from hookgate.hooks.clock import Deadline, TimeLimit
from hookgate.hooks.errors import (
    ExitCodeError,
    HookError,
    HookUnavailableError,
    InvalidOutputError,
    UnreadDecisionError,
    is_exhaustion,
)
from hookgate.hooks.events import BeforeToolSelection, Event
from hookgate.hooks.events.base import Document
from hookgate.hooks.fair_queue import FairQueue
from hookgate.hooks.output import IgnoredKey, Output, describe_unread, ignored_keys, loses_decision
from hookgate.hooks.runners import Runner
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings import ADVISORY, BuiltinConfig, CommandConfig, Hook, RuntimeConfig
from hookgate.hooks.threads import run_in_file_thread
from hookgate.hooks.timestamps import utc_text
from hookgate.translator import TranslatorError
from hookgate.translator.fields import JsonObject

log = logging.getLogger("hookgate.hooks")

TrustCheck = Callable[[Hook], str | None]
"""Returns the reason why a hook that needs trust must not run, or None if it may."""


@dataclass(eq=False, slots=True)  # one is created for each event of a stream, and frozen ones take longer
class Run:
    """One run of one hook.

    `seen` are the runs whose edits its input contained. `began` is the monotonic time of its start, and
    `seconds` its duration, including the time in the queue.
    """

    hook: Hook
    seen: tuple["Run", ...]
    output: Output | None = None
    edit: JsonObject = field(default_factory=dict)
    failure: HookError | None = None
    seconds: float = 0.0
    began: float = 0.0
    warning: str = ""
    """What its author probably did not intend, although the output is valid; otherwise empty."""
    ignored: tuple[IgnoredKey, ...] = ()
    """The keys of its output that have no effect, but are similar to keys that have one."""

    @property
    def error(self) -> str:
        """The error message, or an empty string if the run succeeded."""
        return "" if self.failure is None else str(self.failure) or type(self.failure).__name__

    @property
    def silent(self) -> bool:
        """Whether the hook returned nothing and did not fail, so that there is nothing to apply or log."""
        return self.output is None and self.failure is None and not self.warning

    @property
    def only_observes(self) -> bool:
        """Whether the hook only observes: its output is recorded, but not applied."""
        return self.hook.config.mode == "observe"

    @property
    def changes_input(self) -> bool:
        """Whether this run changes the input of later hooks."""
        return bool(self.edit) and not self.only_observes

    @property
    def changes(self) -> JsonObject:
        """The fields that the run changes, with their values: its `edit`, or its tool selection.

        Selections of several hooks are united, so they are not edits that later hooks see.
        """
        if self.hook.event != BeforeToolSelection.name:
            return self.edit
        specific = (self.output or {}).get("hookSpecificOutput") or {}
        return {key: value for key in ("toolConfig", "tools") if (value := specific.get(key)) is not None}

    @property
    def warnings(self) -> list[str]:
        """All warnings about the output, each of which continues the name of the hook."""
        return [*map(str, self.ignored), *([self.warning] if self.warning else [])]

    @property
    def enforced_denial(self) -> bool:
        """Whether the run denies the event and the denial is applied."""
        return (self.applied_output() or {}).get("decision") == "deny"

    def applied_output(self) -> Output | None:
        """Return `output_or_denial()`, or None if the hook only observes."""
        return None if self.silent or self.only_observes else self.output_or_denial()

    def output_or_denial(self) -> Output | None:
        """Return the hook's output, or the denial that replaces it if the hook failed closed."""
        if self.failure is None:
            return self.output
        return {"decision": "deny", "reason": self.client_reason()} if self.fails_closed else None

    @property
    def fails_closed(self) -> bool:
        """Whether the run failed and the call is denied because of it."""
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
        """Return the reason for clients. It omits the error, which may reveal details of the gateway."""
        if isinstance(self.failure, HookUnavailableError):
            return f"The hook {self.hook.name!r} could not judge this call ({self.failure.cause})."
        return failure_message(self.hook)


def failure_message(hook: Hook) -> str:
    """Return the message for clients about a failed hook. It omits the error, which only the log has."""
    return f"The hook {hook.name!r} failed; see the gateway's log."


_DEADLINE_PASSED = "the deadline for the event's hooks has passed"
_OVERLOADED = f"{_DEADLINE_PASSED} while it was queued: too many other hooks were running"


class HookExecutor:
    """Runs hooks, within the event's deadline and the limits on concurrent hooks."""

    def __init__(
        self,
        runners: Mapping[Hook, Runner],
        queue: FairQueue,
        programs: FairQueue,
        trust_check: TrustCheck,
    ) -> None:
        """All hooks wait in `queue`, and those that start a program for each event in `programs` before."""
        self._runners, self._trust_check = runners, trust_check
        self._queue, self._programs = queue, programs

    @property
    def waiting(self) -> int:
        """The number of queued runs."""
        return self._queue.waiting + self._programs.waiting

    async def run(
        self,
        hook: Hook,
        event: Event,
        seen: tuple[Run, ...],
        session: SessionContext,
        deadline: Deadline | None,
    ) -> Run:
        """Run the hook once. Exceptions become the run's `failure`.

        A run without a deadline does not queue: a slot must be free, and the event's body must be small.
        """
        began = time.monotonic()
        failure: HookError | None = None
        edit: JsonObject = {}
        warning = ""
        ignored: tuple[IgnoredKey, ...] = ()
        output: Output | None = None
        try:
            if hook.needs_trust:  # its scripts may be large
                reason = await run_in_file_thread(self._trust_check, hook)
                if reason is not None:
                    raise HookError(reason)
            if deadline is None:
                self._queue.free -= 1
                try:
                    document = make_document(hook, event, session)
                    output = await self._runners[hook].run(event.name, session, document)
                finally:
                    self._queue.release()
            else:
                output = await self._run_with_deadline(deadline, hook, event, session)
            if output:
                warning, ignored = _warnings(hook, output, event.name)
                if specific := output.get("hookSpecificOutput"):
                    steps = session.call_state.steps
                    run_step = steps.run_long if event.takes_long_to_edit(specific) else steps.run
                    edit, warning = await run_step(_edit_and_warning, event, specific, hook.config.view)
        except UnreadDecisionError as error:
            failure, warning = (error, "") if hook.on_error == "deny" else (None, str(error))
        except HookError as error:
            failure = error
        except TranslatorError as error:
            failure = InvalidOutputError(f"hookSpecificOutput.{error}")
        except Exception as error:  # an unexpected error must not lose the other hooks' verdicts
            failure = internal_failure(error)
        seconds = time.monotonic() - began
        if failure is not None:
            failure.__traceback__ = None  # it refers to this frame, which would keep the call
            return Run(hook, seen, failure=failure, seconds=seconds, began=began)
        return Run(hook, seen, output, edit, None, seconds, began, warning, ignored)

    async def _run_with_deadline(
        self, deadline: Deadline, hook: Hook, event: Event, session: SessionContext
    ) -> Output | None:
        """Run the hook. Raises HookUnavailableError if the deadline passes before it has returned."""
        if deadline.remaining() <= 0:
            raise HookUnavailableError("deadline", _DEADLINE_PASSED)
        started = False

        def check_start() -> None:
            nonlocal started
            if deadline.remaining() <= 0:  # the slot became free too late
                raise HookUnavailableError("overload", _OVERLOADED)
            started = True

        limit = TimeLimit(deadline)
        try:
            async with limit:
                if not _starts_program(hook):
                    return await self._run_in_slot(hook, event, session, check_start)
                await self._programs.acquire(session.session_id, session.key)
                try:
                    return await self._run_in_slot(hook, event, session, check_start)
                finally:
                    self._programs.release()
        except TimeoutError:
            if not limit.expired():
                raise
            if started:
                raise HookUnavailableError("deadline", _DEADLINE_PASSED) from None
            raise HookUnavailableError("overload", _OVERLOADED) from None

    async def _run_in_slot(
        self,
        hook: Hook,
        event: Event,
        session: SessionContext,
        check_start: Callable[[], None],
    ) -> Output | None:
        """Run the hook in a slot of the queue. `check_start` is called when the slot is available."""
        queue, steps = self._queue, session.call_state.steps
        await queue.acquire(session.session_id, session.key)
        try:
            check_start()
            if steps.is_large:
                document = await steps.run(_prepare_document, hook, event, session)
            else:
                document = make_document(hook, event, session)
            return await self._runners[hook].run(event.name, session, document)
        finally:
            queue.release()


def _starts_program(hook: Hook) -> bool:
    """Return whether each run of the hook starts a program."""
    return isinstance(hook.config, CommandConfig) and not hook.config.persistent


def _edit_and_warning(event: Event, specific: JsonObject, view: str) -> tuple[JsonObject, str]:
    """Return the edit in a hookSpecificOutput, and a warning about it or an empty string."""
    edit = event.extract_edit(specific, view)
    return edit, event.edit_warning(specific, edit, view)


def _warnings(hook: Hook, output: Output, event: str) -> tuple[str, tuple[IgnoredKey, ...]]:
    """Return a warning about an output, or an empty string, and its keys without effect.

    Raises HookError instead if a decision or an edit is not read, and the hook fails closed.
    """
    warning, ignored = describe_unread(output), ignored_keys(output, event)
    if hook.on_error == "deny":
        if loses_decision(output):
            raise InvalidOutputError(warning)
        for key in ignored:
            if key.decides:
                raise InvalidOutputError(str(key))
    return warning, ignored


def internal_failure(error: Exception) -> HookUnavailableError:
    """Return the failure for an exception that was not the hook's fault."""
    if is_exhaustion(error):
        return HookUnavailableError("no resources", f"could not run: {error!r}")
    log.error("internal error while running a hook", exc_info=error)
    return HookUnavailableError("internal error", f"could not run because hookgate failed: {error!r}")


def make_document(hook: Hook, event: Event, session: SessionContext) -> Document:
    """Return the hook's input for the event."""
    fields: JsonObject = {
        "session_id": session.session_id,
        "transcript_path": session.transcript_path,
        "cwd": session.cwd or str(hook.root),
        "hook_event_name": event.name,
        "timestamp": utc_text(),
    }
    if operation := session.call_state.operation:
        fields["operation"] = operation
    fields |= event.fields(hook.config.view)
    return Document(fields, hook)


def _prepare_document(hook: Hook, event: Event, session: SessionContext) -> Document:
    """Return the hook's input for an event with a large body, prepared for its runner.

    Call this in a worker thread.
    """
    document = make_document(hook, event, session)
    if not isinstance(hook.config, BuiltinConfig):  # policies get a view
        document.prepare(value=isinstance(hook.config, RuntimeConfig))
    return document


NO_OUTPUT = "no output"
"""The summary of a run without any output."""

HookKey = tuple[str, str, str]
"""The key of a hook's status: its event, name and target."""


@dataclass
class HookStatus:
    """One hook's status.

    `seconds`, `error`, `summary` and `warning` are those of the last run: its duration, its error message if
    it failed, a summary of its output, and the warnings about it.
    """

    runs: int = 0
    failures: int = 0
    denials: int = 0
    seconds: float = 0.0
    error: str = ""
    summary: str = ""
    warning: str = ""

    @property
    def degraded(self) -> bool:
        """Whether the last run failed."""
        return bool(self.error)


@dataclass
class Health:
    """The status of each hook. It survives reloads of the settings."""

    hooks: dict[HookKey, HookStatus] = field(default_factory=dict)
    off: dict[HookKey, HookStatus] = field(default_factory=dict)
    """The status of hooks that are switched off. Their failures do not make a gateway degraded."""

    def update(self, runs: Iterable[Run]) -> None:
        """Add runs to the status of their hooks."""
        for run in runs:
            key = run.hook.key  # the hook may have been switched off since the call began
            status = self.hooks.get(key) or self.off.get(key)
            if status is None:
                status = self.hooks[key] = HookStatus()
            status.runs += 1
            status.seconds = run.seconds
            # `run.silent`, written out to save a function call
            if run.output is None and run.failure is None and not run.warning:
                status.error, status.summary, status.warning = "", NO_OUTPUT, ""
                continue
            output = run.output or {}
            status.failures += run.failure is not None
            status.denials += output.get("decision") == "deny" or output.get("continue") is False
            status.error, status.summary = run.error, _summarize(run)
            status.warning = "; ".join(run.warnings)

    def status_for(self, hook: Hook) -> HookStatus:
        """Return the hook's status, or an empty one if the hook never ran."""
        return self.all().get(hook.key, HookStatus())

    def all(self) -> dict[HookKey, HookStatus]:
        """Return the status of all hooks, including those that are switched off."""
        return self.off | self.hooks

    def retain(self, hooks: Iterable[Hook], off: Iterable[Hook] = ()) -> None:
        """Discard the status of all hooks other than `hooks`, which are on, and `off`."""
        statuses = self.all()
        on_keys = {hook.key for hook in hooks}
        off_keys = {hook.key for hook in off} - on_keys
        self.hooks = {key: status for key, status in statuses.items() if key in on_keys}
        self.off = {key: status for key, status in statuses.items() if key in off_keys}

    @property
    def degraded(self) -> list[str]:
        """The names of the hooks whose last run failed."""
        return [name for (_, name, _), status in self.hooks.items() if status.degraded]


def _summarize(run: Run) -> str:
    """Summarize a run's output, without any content of the call."""
    output = run.output or {}
    specific = output.get("hookSpecificOutput") or {}
    effects = [str(output["decision"])] if output.get("decision") else []
    effects += ["stop"] if output.get("continue") is False else []
    effects += [f"edits {', '.join(sorted(run.changes))}"] if run.changes else []
    effects += ["answers for the model"] if specific.get("llm_response") and not run.edit else []
    effects += ["adds context"] if specific.get("additionalContext") else []
    effects += ["sends a message"] if output.get("systemMessage") else []
    return "; ".join(effects) or NO_OUTPUT
