"""The call loop: which hooks run, on which input, and what they decide together.

Hooks of a group run side by side on the same input, or in turn when the group is sequential; groups run
side by side. The result is always that of the ordered chain: a hook whose input an earlier one in the order
has edited runs again on the edited input, and what it said before does not count. So no hook undoes
another's edit, no guard misses what an earlier hook put in, and nothing depends on which was faster.
"""

import asyncio
import logging
import time
from collections.abc import Coroutine, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any, Generic, TypeVar

from hookgate.hooks.document import Document
from hookgate.hooks.errors import HookError
from hookgate.hooks.events import Event
from hookgate.hooks.kinds.making import make_runners
from hookgate.hooks.merge import Verdict, merge
from hookgate.hooks.output import Output
from hookgate.hooks.settings import Configuration, Group, Hook
from hookgate.translator import TranslatorError
from hookgate.translator.fields import JsonObject

log = logging.getLogger("hookgate.hooks")

E = TypeVar("E", bound=Event)
R = TypeVar("R")


@dataclass(frozen=True, slots=True)
class Session:
    """Who asks: the base fields of every hook's input that are not the event's own."""

    session_id: str
    transcript_path: str = ""


@dataclass(frozen=True, slots=True, eq=False)
class Run:
    """One run of one hook: the edits its input held, and what came of it."""

    hook: Hook
    seen: tuple["Run", ...]
    output: Output | None = None
    edit: JsonObject = field(default_factory=dict)
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Outcome(Generic[E]):
    """The event after all edits, the verdict, and the runs it rests on, in plan order."""

    event: E
    verdict: Verdict
    runs: tuple[Run, ...] = ()


class Engine:
    """Runs the hooks of one configuration."""

    def __init__(self, configuration: Configuration) -> None:
        """Load the configuration's runtime hooks. Raises SettingsError."""
        self._configuration = configuration
        self._runners = make_runners(configuration.hooks())

    def listens_to(self, event: str) -> bool:
        """Whether any hook is configured for the event: nobody else needs it made."""
        return bool(self._configuration.for_event(event))

    async def fire(self, event: E, session: Session) -> Outcome[E]:
        """Run the event's hooks and merge what they say."""
        groups = self._configuration.for_event(event.name)
        if not groups:
            return Outcome(event, Verdict())
        first_runs = await _together([self._run_group(group, event, session) for group in groups])
        event, runs = await self._in_order(event, session, [run for runs in first_runs for run in runs])
        verdict = merge(event.name, [output for run in runs if (output := _said(run)) is not None])
        for run in runs:
            _report(event.name, run, session)
        return Outcome(event, verdict, tuple(runs))

    async def _run_group(self, group: Group, event: E, session: Session) -> list[Run]:
        if not group.sequential:
            return await _together([self._run(hook, event, (), session) for hook in group.hooks])
        runs: list[Run] = []
        edits: tuple[Run, ...] = ()
        for hook in group.hooks:
            run, event = _applied(await self._run(hook, event, edits, session), event)
            runs.append(run)
            edits = (*edits, run) if run.edit else edits
        return runs

    async def _in_order(self, event: E, session: Session, first_runs: Sequence[Run]) -> tuple[E, list[Run]]:
        """The ordered chain, made of first runs where they still hold and of new runs where not."""
        runs: list[Run] = []
        edits: tuple[Run, ...] = ()
        for first in first_runs:
            up_to_date = set(first.seen) == set(edits)
            run = first if up_to_date else await self._run(first.hook, event, edits, session)
            run, event = _applied(run, event)
            runs.append(run)
            edits = (*edits, run) if run.edit else edits
        return event, runs

    async def _run(self, hook: Hook, event: E, seen: tuple[Run, ...], session: Session) -> Run:
        begin = time.monotonic()
        run = Run(hook, seen)
        try:
            output = await self._call(hook, event, session)
            specific = (output or {}).get("hookSpecificOutput") or {}
            run = replace(run, output=output, edit=event.changed(specific, hook.config.view))
        except HookError as error:
            run = replace(run, error=str(error))
        except TranslatorError as error:
            run = replace(run, error=f"hookSpecificOutput.{error}")
        return replace(run, seconds=time.monotonic() - begin)

    async def _call(self, hook: Hook, event: Event, session: Session) -> Output | None:
        document = Document({**_base(hook, event.name, session), **event.fields(hook.config.view)})
        return await self._runners[hook].run(event.name, session.session_id, document)


async def _together(calls: Sequence[Coroutine[Any, Any, R]]) -> list[R]:
    """All results, in order. One call alone needs no task: that is most events of most streams."""
    return [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)


def _base(hook: Hook, event: str, session: Session) -> JsonObject:
    return {
        "session_id": session.session_id,
        "transcript_path": session.transcript_path,
        "cwd": str(hook.root),
        "hook_event_name": event,
        "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
    }


def _applied(run: Run, event: E) -> tuple[Run, E]:
    """The event after the run's edit; an edit that does not fit makes it a failed run."""
    try:
        return run, event.edited(run.edit, run.hook.config.view) if run.edit else event
    except TranslatorError as error:
        return replace(run, output=None, edit={}, error=f"hookSpecificOutput.{error}"), event


def _said(run: Run) -> Output | None:
    """A run's output; for a failed hook what its on_error says."""
    if not run.error:
        return run.output
    if run.hook.on_error == "deny":
        return {"decision": "deny", "reason": f"The hook {run.hook.name!r} failed: {run.error}"}
    return None


def _report(event: str, run: Run, session: Session) -> None:
    """Tell the log what an operator should know; never what was said in the call."""
    if run.error:
        log.warning("%s hook %r failed: %s", event, run.hook.name, run.error)
    output = run.output or {}
    if output.get("decision") == "deny" or output.get("continue") is False:
        log.info("%s hook %r denied a call of session %s", event, run.hook.name, session.session_id)
    message = output.get("systemMessage")
    if message and not output.get("suppressOutput"):
        log.info("%s hook %r says: %s", event, run.hook.name, message)
