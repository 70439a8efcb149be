"""The call loop: which hooks run, on which input, and what they decide together.

Hooks of a group run side by side on the same input, or in turn when the group is sequential; groups run
side by side. The result is always that of the ordered chain: a hook whose input an earlier one in the order
has edited runs again on the edited input, and what it said before does not count. So no hook undoes
another's edit, no guard misses what an earlier hook put in, and nothing depends on which was faster.
"""

import asyncio
import logging
from collections.abc import Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from typing import Any, Generic, Protocol, TypeVar

from hookgate.hooks.clock import Deadline, StallClock
from hookgate.hooks.errors import HookError
from hookgate.hooks.events import AfterModel, Event
from hookgate.hooks.health import Health
from hookgate.hooks.kinds import Runner
from hookgate.hooks.kinds.builtin import BuiltinRunner
from hookgate.hooks.kinds.making import make_runners
from hookgate.hooks.merge import Verdict, merge
from hookgate.hooks.queueing import FairQueue
from hookgate.hooks.running import Refusal, Run, Running, internal_failure
from hookgate.hooks.screening import HookScreen, Refused
from hookgate.hooks.session import Screen, Session
from hookgate.hooks.settings import STREAM_MODES, Configuration, Group, Hook, StreamMode
from hookgate.translator import TranslatorError

log = logging.getLogger("hookgate.hooks")

E = TypeVar("E", bound=Event)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Outcome(Generic[E]):
    """The event after all edits, the verdict, the runs it rests on in plan order, and their revision."""

    event: E
    verdict: Verdict
    runs: tuple[Run, ...] = ()
    revision: str = ""

    @property
    def failed_closed(self) -> bool:
        """Whether a hook failed and the event is denied for that, whatever the others say."""
        return any(run.fails_closed and not run.observed for run in self.runs)


class Engines(Protocol):
    """Where a call gets the engine that it runs under, from its first hook to its last."""

    def lease(self) -> AbstractContextManager["Engine"]:
        """The engine in force."""


class Engine:
    """Runs the hooks of one configuration. Close it to end the processes and connections that hooks keep."""

    def __init__(
        self,
        configuration: Configuration,
        runners: Mapping[Hook, Runner] | None = None,
        *,
        refusal: Refusal = lambda hook: None,
        health: Health | None = None,
    ) -> None:
        """Without `runners` they are made here; raises SettingsError for a hook that can never run.

        `refusal` tells why a hook must not run (trust.py has one); `health` carries the record on.
        """
        self.configuration = configuration
        self.health = health or Health()
        self._runners = make_runners(configuration.hooks()) if runners is None else runners
        self._refusal = refusal
        self._targeted = {event for event in configuration.groups if configuration.targeted(event)}
        self._clock = StallClock()
        queue = FairQueue(configuration.limits.concurrency)
        self._running = Running(self._runners, queue, refusal)

    @property
    def revision(self) -> str:
        """The hash of the settings that this engine runs."""
        return self.configuration.revision

    @property
    def waiting(self) -> int:
        """How many runs of hooks wait for their turn."""
        return self._running.waiting

    def listens_to(self, event: str) -> bool:
        """Whether any hook is configured for the event: nobody else needs it made."""
        return bool(self.configuration.for_event(event))

    async def fire(self, event: E, session: Session) -> Outcome[E]:
        """Run the event's hooks and merge what they say."""
        groups = self._planned(event, session)
        if not groups:
            return Outcome(event, Verdict(), revision=self.revision)
        try:
            return await self._fired(event, groups, session)
        except Exception:  # nobody knows what the hooks wanted
            log.exception("the %s hooks could not be run", event.name)
            verdict = Verdict("deny", reason=f"hookgate failed to run the {event.name} hooks.")
            return Outcome(event, verdict, revision=self.revision)

    async def _fired(self, event: E, groups: Sequence[Group], session: Session) -> Outcome[E]:
        deadline = Deadline(self._clock, self.configuration.limits.deadline)
        try:
            event, runs = await _Chain(self._running, session, deadline).run(event, groups)
        finally:
            deadline.close()
        self.record(event.name, runs, session)
        said = [(run, output) for run in runs if not run.observed and (output := run.said()) is not None]
        narrowing = [at for at, (run, _) in enumerate(said) if run.hook.config.merge == "intersect"]
        verdict = merge(event.name, [output for _, output in said], narrowing)
        return Outcome(event, verdict, tuple(runs), self.revision)

    def stream_modes(self, event: AfterModel, session: Session) -> dict[StreamMode, int]:
        """The modes of the hooks that run for a streamed answer, the finest first, each with its window.

        The window counts characters: the largest that a hook of the mode asks for.
        """
        hooks = [hook for group in self._planned(event, session) for hook in group.hooks]
        return {
            mode: max(windows)
            for mode in STREAM_MODES
            if (windows := [hook.config.window for hook in hooks if hook.config.stream == mode])
        }

    def screens(self, event: AfterModel, session: Session) -> list[HookScreen]:
        """What a streamed answer passes first: the screens of the hooks that hold back by themselves.

        Whoever passes an answer through them gives each back in the end (`record`).
        """
        hooks = (
            hook for group in self._planned(replace(event, stream="held"), session) for hook in group.hooks
        )
        screens = ((hook, self._screen(hook, session)) for hook in hooks)
        return [HookScreen(hook, screen) for hook, screen in screens if screen is not None]

    def record(self, event: str, runs: Sequence[Run], session: Session) -> None:
        """Note how hooks have fared, and tell the log what an operator should know."""
        self.health.record(runs)
        for run in runs:
            _report(event, run, session)

    def refused(self) -> list[tuple[Hook, str]]:
        """The hooks that must not run, and why."""
        told = ((hook, self._refusal(hook)) for hook in self.configuration.hooks())
        return [(hook, reason) for hook, reason in told if reason is not None]

    @contextmanager
    def lease(self) -> Iterator["Engine"]:
        """The engine for the length of one call: itself, whose settings never change (see live.py)."""
        yield self

    async def close(self) -> None:
        """End what hooks keep."""
        await asyncio.gather(*(runner.close() for runner in self._runners.values()))

    def _screen(self, hook: Hook, session: Session) -> Screen | None:
        """The hook's screen. If it must not run, its `on_error` says: none, or one that withholds all."""
        try:
            reason = self._refusal(hook)
        except OSError as error:  # no descriptor to look at its scripts with: nothing may pass unjudged
            return Refused(f"cannot be checked: {error.strerror}")
        if reason is not None:
            return Refused(reason) if hook.on_error == "deny" else None
        runner = self._runners[hook]
        return runner.screen(session) if isinstance(runner, BuiltinRunner) else None

    def _planned(self, event: Event, session: Session) -> tuple[Group, ...]:
        known = event.subject()
        if event.name not in self._targeted and not known.stream:
            return self.configuration.for_event(event.name)
        subject = replace(
            known,
            client=session.client,
            key=session.key,
            team=session.team,
            session_id=session.session_id,
        )
        return self.configuration.plan(event.name, subject)


class _Chain:
    """The runs of one event."""

    def __init__(self, running: Running, session: Session, deadline: Deadline) -> None:
        self._running, self._session, self._deadline = running, session, deadline

    async def run(self, event: E, groups: Sequence[Group]) -> tuple[E, list[Run]]:
        first = await _together([self._run_group(group, event) for group in groups])
        return await self._in_order(event, [run for runs in first for run in runs])

    async def _run_group(self, group: Group, event: E) -> list[Run]:
        if not group.sequential:
            return await _together([self._run(hook, event, ()) for hook in group.hooks])
        runs: list[Run] = []
        edits: tuple[Run, ...] = ()
        for hook in group.hooks:
            run, event = await self._applied(await self._run(hook, event, edits), event)
            event = _with_sequel(run, event)
            runs.append(run)
            edits = (*edits, run) if run.edits else edits
        return runs

    async def _in_order(self, event: E, first_runs: Sequence[Run]) -> tuple[E, list[Run]]:
        """The ordered chain, made of first runs where they still hold and of new runs where not."""
        runs: list[Run] = []
        edits: tuple[Run, ...] = ()
        for first in first_runs:
            up_to_date = set(first.seen) == set(edits)
            run = first if up_to_date else await self._run(first.hook, event, edits)
            run, event = await self._applied(run, event)
            runs.append(run)
            edits = (*edits, run) if run.edits else edits
        return event, runs

    async def _run(self, hook: Hook, event: Event, seen: tuple[Run, ...]) -> Run:
        return await self._running.run(hook, event, seen, self._session, self._deadline)

    async def _applied(self, run: Run, event: E) -> tuple[Run, E]:
        """The event after the run's edit; an edit that does not fit makes it a failed run."""
        if not run.edit:
            return run, event
        try:
            edited: E = await self._session.call.take(event.edited, run.edit, run.hook.config.view)
        except TranslatorError as error:
            failure = HookError(f"hookSpecificOutput.{error}")
            return replace(run, output=None, edit={}, failure=failure), event
        except Exception as error:
            return replace(run, output=None, edit={}, failure=internal_failure(error)), event
        return run, event if run.observed else edited


async def _together(calls: Sequence[Coroutine[Any, Any, R]]) -> list[R]:
    """All results, in order. One call alone needs no task: that is most events of most streams."""
    return [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)


def _with_sequel(run: Run, event: E) -> E:
    specific = (run.output or {}).get("hookSpecificOutput")
    return event.sequel(specific) if specific and not run.observed else event


def _report(event: str, run: Run, session: Session) -> None:
    """Tell the log what an operator should know; never what was said in the call."""
    would = "would have " if run.observed else ""
    if run.error:
        then = "; the call is denied" if run.fails_closed and not run.observed else ""
        log.warning("%s hook %r failed: %s%s", event, run.hook.name, run.error, then)
    output = run.output or {}
    if output.get("decision") == "deny" or output.get("continue") is False:
        log.info("%s hook %r %sdenied a call of session %s", event, run.hook.name, would, session.session_id)
    elif run.observed and run.edit:
        log.info("%s hook %r would have edited %s", event, run.hook.name, ", ".join(sorted(run.edit)))
    message = output.get("systemMessage")
    if message and not output.get("suppressOutput"):
        log.info("%s hook %r says: %s", event, run.hook.name, message)
