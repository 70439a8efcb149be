"""The hook engine: selects the hooks of an event, runs them and merges their outputs.

Hooks run concurrently, and again if an earlier hook has edited their input: the result is that of running
them in order. Hooks listed after a policy wait for it, so that they never see what it removed.
"""

import asyncio
import hashlib
import logging
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field, replace
from functools import lru_cache
from itertools import groupby
from typing import Any, Generic, Protocol, TypeVar

from hookgate.hooks.clock import Deadline, StallClock
from hookgate.hooks.errors import HookError, HookUnavailableError, InvalidOutputError
from hookgate.hooks.events import AfterModel, AfterTool, BeforeModel, BeforeTool, Event
from hookgate.hooks.events.tool import result_of
from hookgate.hooks.fair_queue import FairQueue
from hookgate.hooks.merge import NO_VERDICT, Verdict, merge
from hookgate.hooks.output import Output
from hookgate.hooks.runner_factory import make_runners
from hookgate.hooks.runners import Runner
from hookgate.hooks.runners.inprocess import BuiltinRunner
from hookgate.hooks.runs import Health, HookExecutor, Run, TrustCheck, internal_failure
from hookgate.hooks.screening import HookScreen, RefusedScreen
from hookgate.hooks.session import Screen, SessionContext
from hookgate.hooks.settings import (
    STREAM_MODES,
    BuiltinConfig,
    Configuration,
    Group,
    Hook,
    Layer,
    RuntimeConfig,
    StreamMode,
    Subject,
)
from hookgate.translator import TranslatorError, show_request, show_response
from hookgate.translator.fields import JsonObject

log = logging.getLogger("hookgate.hooks")

_MAX_LOGGED_KEYS = 20
"""The maximum number of keys without effect to log for one hook. Their names may come from clients."""

E = TypeVar("E", bound=Event)
R = TypeVar("R")


@dataclass(eq=False, slots=True)  # one is created for each event of a stream, and frozen ones take longer
class Outcome(Generic[E]):
    """The result of firing an event: the edited event, the verdict, and the runs in plan order."""

    event: E
    verdict: Verdict
    runs: tuple[Run, ...] = ()

    @property
    def failed_closed(self) -> bool:
        """Whether the event is denied because a hook failed."""
        return any(run.fails_closed and not run.only_observes for run in self.runs)


@dataclass(frozen=True, slots=True)
class EventPlan:
    """The hooks that run for an event."""

    groups: tuple[Group, ...] = ()
    inline_hook: Hook | None = None
    """The only hook, if it runs in this process and times out before the event's deadline would pass."""
    stream_modes: Mapping[StreamMode, int] = field(default_factory=dict)
    """The stream modes of the hooks, finest first.

    Each maps to its window in characters: the largest that a hook of this mode has configured.
    """

    @property
    def only_screens(self) -> bool:
        """Whether no event is fired for a streamed answer, because all hooks have screens for it."""
        return self.stream_modes.keys() == {"held"}


_NO_HOOKS = EventPlan()

_CACHED_PLANS = 1024
"""The number of plans to cache for hooks with conditions, some of which check what clients choose."""

_MAX_CACHED_NAMES = 512
"""The maximum length of the names that are checked for one cached plan, in characters.

Each name counts one more.
"""

_PROPERTIES: Mapping[str, Callable[[Event, SessionContext], Any]] = {
    "model": lambda event, session: event.subject_property("model") or session.call_state.model,
    "tools": lambda event, _: event.subject_property("tools"),
    "trigger": lambda event, _: event.subject_property("trigger"),
    "client": lambda _, session: session.client,
    "key": lambda _, session: session.key,
    "team": lambda _, session: session.team,
    "session_id": lambda _, session: session.session_id,
    "operation": lambda _, session: session.call_state.operation,
    "requires_json": lambda _, session: session.call_state.requires_json,
}
"""How to read each property that conditions check, from an event or its session."""


class EngineSource(Protocol):
    """Provides each call with one engine for all of its hooks."""

    def lease(self) -> AbstractContextManager["Engine"]:
        """Return a context manager that yields the current engine."""


class Engine:
    """Runs the hooks of one configuration. Call `close` to end the processes and connections of hooks."""

    def __init__(
        self,
        configuration: Configuration,
        runners: Mapping[Hook, Runner] | None = None,
        *,
        trust_check: TrustCheck = lambda hook: None,
        health: Health | None = None,
    ) -> None:
        """Create an engine.

        `runners` are created from the configuration if omitted; raises SettingsError for a hook that can
        never run. `trust_check` returns the reason why a hook must not run, or None (see trust.py).
        `health` is an existing record to continue.
        """
        self.configuration = configuration
        self.revision = configuration.revision
        """The hash of this engine's settings."""
        self._hook_texts: dict[str, str] = {}  # of the hooks of an event, for `fingerprint`
        self.health = health or Health()
        if runners is None:
            targets = configuration.http_targets
            runners = make_runners(configuration.hooks(), trust_check=trust_check, http_targets=targets)
        self._runners = runners
        self._trust_check = trust_check
        self._groups = configuration.groups
        self._conditions = {event: configuration.conditions(event) for event in configuration.groups}
        self._clock = StallClock()
        self._logged_keys: dict[Hook, set[str]] = {}
        self._queue = FairQueue(configuration.limits.concurrency)
        programs = FairQueue(configuration.limits.programs)
        self._executor = HookExecutor(self._runners, self._queue, programs, trust_check)
        self._unconditional_plans = {
            event: self._make_plan(event, (), "", None)
            for event, checked in self._conditions.items()
            if not checked
        }
        self._cached_plan = lru_cache(_CACHED_PLANS)(self._make_plan)

    @contextmanager
    def lease(self) -> Iterator["Engine"]:
        """Yield this engine, whose settings never change. See EngineReloader for settings that do."""
        yield self

    @property
    def waiting(self) -> int:
        """The number of hook runs that are queued."""
        return self._executor.waiting

    # ---- which hooks run

    def listens_to(self, *events: str, layer: Layer | None = None) -> bool:
        """Return whether any hook is configured for one of the events, in any layer or in the given one."""
        for event in events:
            groups = self._groups.get(event)
            if groups and (layer is None or _of_layer(groups, layer)):
                return True
        return False

    def enforces(self, event: str, layer: Layer | None = None) -> bool:
        """Return whether any hook for an event does more than observe, in any layer or in the given one."""
        groups = self._groups.get(event, ())
        hooks = [
            hook for group in (groups if layer is None else _of_layer(groups, layer)) for hook in group.hooks
        ]
        return any(hook.config.mode == "enforce" for hook in hooks)

    def conditions(self, event: str) -> frozenset[str]:
        """Return the names of the properties of a Subject that the event's matchers and conditions check."""
        return self._conditions.get(event, frozenset())

    def untrusted_hooks(self) -> list[tuple[Hook, str]]:
        """Return the hooks that must not run, each with the reason."""
        reasons = ((hook, self._trust_check(hook)) for hook in self.configuration.hooks() if hook.needs_trust)
        return [(hook, reason) for hook, reason in reasons if reason is not None]

    def plan(self, event: Event, session: SessionContext, layer: Layer | None = None) -> EventPlan:
        """Return the hooks that run for the event, of all layers or of the given one.

        They do not depend on the content of the event, so all events of a streamed answer have one plan.
        """
        checked = self._conditions.get(event.name)
        if checked is None:
            return _NO_HOOKS
        if not checked and layer is None and event.stream is None:
            return self._unconditional_plans[event.name]
        length = 0
        properties = []
        for name in checked:
            value = _PROPERTIES[name](event, session)
            properties.append(value)
            if type(value) is str:
                length += len(value) + 1
            elif type(value) is tuple:
                length += sum(map(len, value)) + len(value)
        plan_for = self._cached_plan if length <= _MAX_CACHED_NAMES else self._make_plan
        return plan_for(event.name, tuple(properties), event.stream or "", layer)

    def _make_plan(
        self, event: str, properties: tuple[Any, ...], stream: str, layer: Layer | None
    ) -> EventPlan:
        """Return the plan for an event; `properties` are those that its conditions check, in their order."""
        checked = dict(zip(self._conditions[event], properties, strict=True))
        groups = self.configuration.matching_groups(event, Subject(**checked, stream=stream))
        return self._plan_of(groups if layer is None else _of_layer(groups, layer))

    def _plan_of(self, groups: tuple[Group, ...]) -> EventPlan:
        hooks = [hook for group in groups for hook in group.hooks]
        inline = hooks[0] if len(hooks) == 1 else None
        if inline is not None:
            in_process = isinstance(inline.config, RuntimeConfig | BuiltinConfig)
            inline = inline if in_process and inline.timeout < self.configuration.limits.deadline else None
        windows: dict[StreamMode, int] = {}
        for hook in hooks:
            windows[hook.stream] = max(windows.get(hook.stream, 0), hook.config.window)
        return EventPlan(groups, inline, {mode: windows[mode] for mode in STREAM_MODES if mode in windows})

    def fingerprint(self, event: Event, session: SessionContext) -> str:
        """Return a digest of the event's hooks, and of what decides which of them run, but for its tools.

        It is the same in all gateways with these hooks, wherever their settings are.
        """
        if event.name not in self._hook_texts:
            texts = [
                (group.matcher.pattern, hook.layer, hook.name, hook.config.model_dump_json())
                for group in self.configuration.groups.get(event.name, ())
                for hook in group.hooks
            ]
            self._hook_texts[event.name] = repr(texts)
        checked = sorted(self._conditions.get(event.name, frozenset()) - {"tools"})
        values = [_PROPERTIES[name](event, session) for name in checked]
        text = f"{self._hook_texts[event.name]}{values}"
        return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()[:16]

    # ---- running them

    async def fire(
        self, event: E, session: SessionContext, layer: Layer | None = None, plan: EventPlan | None = None
    ) -> Outcome[E]:
        """Run the event's hooks, and merge their outputs.

        `layer` restricts the run to the hooks of one layer, and `plan` to those in a plan for this event.
        """
        try:
            steps = session.call_state.steps
            if plan is None and steps.is_large and "tools" in self.conditions(event.name):
                # There may be many tools.
                plan = await steps.run(self.plan, event, session, layer)
            plan = plan or self.plan(event, session, layer)
            # If the body is large or the queue is full, a hook may have to wait, which requires a deadline.
            if (hook := plan.inline_hook) and not steps.is_large and self._queue.free > 0:
                run = await self._executor.run(hook, event, (), session, None)
                if run.output is None and run.failure is None:
                    self.health.update((run,))
                    return Outcome(event, NO_VERDICT, (run,))
                if run.edit:
                    run, event = await apply_edit(run, event, session)
                self.report_runs(event.name, [run], session)
                return Outcome(event, _verdict(event.name, [run]), (run,))
            if not plan.groups:
                return Outcome(event, NO_VERDICT)
            return await self._run_groups(event, plan.groups, session)
        except Exception:  # the hooks' decision is unknown, so the event is denied
            log.exception("the %s hooks could not be run", event.name)
            verdict = Verdict("deny", reason=f"hookgate failed to run the {event.name} hooks.")
            return Outcome(event, verdict)

    async def _run_groups(self, event: E, groups: Sequence[Group], session: SessionContext) -> Outcome[E]:
        deadline = Deadline(self._clock, self.configuration.limits.deadline)
        try:
            event, runs = await _Chain(self._executor, session, deadline).run(event, groups)
        finally:
            deadline.close()
        self.report_runs(event.name, runs, session)
        return Outcome(event, _verdict(event.name, runs), tuple(runs))

    def screens(self, plan: EventPlan, session: SessionContext) -> list[HookScreen]:
        """Return screens for a streamed answer or an error, one for each policy with the stream mode `held`.

        When the answer is complete, the caller passes the run of each screen to `report_runs`.
        """
        hooks = (hook for group in plan.groups for hook in group.hooks)
        screens = ((hook, self._screen(hook, session)) for hook in hooks if hook.stream == "held")
        return [HookScreen(hook, screen) for hook, screen in screens if screen is not None]

    def _screen(self, hook: Hook, session: SessionContext) -> Screen | None:
        """Return the hook's screen, or None if it has none.

        For a hook that must not run, `on_error` decides between None and a screen that withholds everything.
        """
        try:
            reason = self._trust_check(hook) if hook.needs_trust else None
        except OSError as error:  # no file descriptor to read its scripts: nothing may pass unchecked
            return RefusedScreen(HookUnavailableError("no resources", f"cannot be checked: {error.strerror}"))
        if reason is not None:
            return RefusedScreen(HookError(reason)) if hook.on_error == "deny" else None
        runner = self._runners[hook]
        return runner.screen(session) if isinstance(runner, BuiltinRunner) else None

    def report_runs(self, event: str, runs: Sequence[Run], session: SessionContext) -> None:
        """Update the health of hooks, and log failures, denials and messages."""
        self.health.update(runs)
        for run in runs:
            if not run.silent:
                _log_run(event, run, session)
                self._log_ignored_keys(event, run)

    def _log_ignored_keys(self, event: str, run: Run) -> None:
        """Log the keys of an output that have no effect: each key once, and a limited number per hook."""
        for key in run.ignored:
            logged = self._logged_keys.setdefault(run.hook, set())
            if key.path not in logged and len(logged) < _MAX_LOGGED_KEYS:
                logged.add(key.path)
                log.warning("%s hook %r %s", event, run.hook.name, key)

    def count_use(self, plan: EventPlan, session: SessionContext) -> None:
        """Let the policies of a plan count what the current call uses, once that is known.

        An earlier call judged the request, and ended before.
        """
        for runner in (self._runners[hook] for group in plan.groups for hook in group.hooks):
            if isinstance(runner, BuiltinRunner):
                runner.count_use(session)

    async def close(self) -> None:
        """End the processes and connections of all hooks."""
        await asyncio.gather(*(runner.close() for runner in self._runners.values()))


def _verdict(event: str, runs: Sequence[Run]) -> Verdict:
    """Return the combined verdict of an event's hooks, without those that only observe."""
    enforced: list[tuple[Run, Output]] = []
    for run in runs:
        if (output := run.applied_output()) is not None:
            enforced.append((run, output))  # noqa: PERF401  # a loop makes no function call
    if not enforced:
        return NO_VERDICT
    narrowing = [index for index, (run, _) in enumerate(enforced) if run.hook.config.merge == "intersect"]
    return merge(event, [output for _, output in enforced], narrowing)


def _of_layer(groups: tuple[Group, ...], layer: Layer) -> tuple[Group, ...]:
    """Return the groups with their hooks of a layer only."""
    restricted = [
        replace(group, hooks=tuple(hook for hook in group.hooks if hook.layer == layer)) for group in groups
    ]
    return tuple(group for group in restricted if group.hooks)


class _Chain:
    """Runs the hooks of one event, in plan order where one depends on another's edits."""

    def __init__(self, executor: HookExecutor, session: SessionContext, deadline: Deadline) -> None:
        self._executor, self._session, self._deadline = executor, session, deadline

    async def run(self, event: E, groups: Sequence[Group]) -> tuple[E, list[Run]]:
        """Return the event after all edits, and the runs in plan order."""
        runs: list[Run] = []
        for batch in _split_after_policies(groups):
            event, new_runs = await self._run_batch(batch, event, _edits_of(runs))
            runs += new_runs
            if any(_ends_chain(run) for run in new_runs):
                break
        return event, runs

    async def _run_batch(
        self, groups: Sequence[Group], event: E, edits: tuple[Run, ...]
    ) -> tuple[E, list[Run]]:
        """Run groups on an event that contains `edits`.

        They run concurrently, except that the sequential groups of a layer wait for those of higher layers.
        """
        parallel = [group for group in groups if not group.sequential]
        in_turn = [group for group in groups if group.sequential]
        layers = [list(of_layer) for _, of_layer in groupby(in_turn, lambda group: group.hooks[0].layer)]
        first_runs = await _gather(
            [
                *([self._run_layers(layers, event, edits)] if layers else []),
                *(self._run_group(group, event, edits) for group in parallel),
            ]
        )
        by_hook = {run.hook: run for runs in first_runs for run in runs}
        in_order = [by_hook[hook] for group in groups for hook in group.hooks if hook in by_hook]
        return await self._apply_in_order(event, in_order, edits)

    async def _run_layers(
        self, layers: Sequence[Sequence[Group]], event: E, edits: tuple[Run, ...]
    ) -> list[Run]:
        """Run the groups of each layer on the event as the groups of the layers before it have left it."""
        runs: list[Run] = []
        current, seen = event, edits
        for groups in layers:
            if runs:
                current, runs = await self._apply_in_order(event, runs, edits)
                seen = (*edits, *_edits_of(runs))
            for new in await _gather([self._run_group(group, current, seen) for group in groups]):
                runs += new
        return runs

    async def _run_group(self, group: Group, event: E, edits: tuple[Run, ...]) -> list[Run]:
        if not group.sequential:
            return await _gather([self._run(hook, event, edits) for hook in group.hooks])
        runs: list[Run] = []
        for hook in group.hooks:
            run, event = await apply_edit(await self._run(hook, event, edits), event, self._session)
            event = _for_next_hook(run, event)
            runs.append(run)
            if _ends_chain(run):
                break
            edits = (*edits, run) if run.changes_input else edits
        return runs

    async def _apply_in_order(
        self, event: E, first_runs: Sequence[Run], edits: tuple[Run, ...]
    ) -> tuple[E, list[Run]]:
        """Apply the runs' edits in order. A hook runs again if its first run did not see the latest edits."""
        runs: list[Run] = []
        for first in first_runs:
            up_to_date = set(first.seen) == set(edits)
            run = first if up_to_date else await self._run(first.hook, event, edits)
            run, event = await apply_edit(run, event, self._session)
            runs.append(run)
            edits = (*edits, run) if run.changes_input else edits
        return event, runs

    async def _run(self, hook: Hook, event: Event, seen: tuple[Run, ...]) -> Run:
        return await self._executor.run(hook, event, seen, self._session, self._deadline)


async def apply_edit(run: Run, event: E, session: SessionContext) -> tuple[Run, E]:
    """Return the run, and the event with the run's edit applied.

    If the edit cannot be applied, the returned run has failed.
    """
    if not run.edit:
        return run, event
    try:
        steps = session.call_state.steps
        run_step = steps.run_long if event.takes_long_to_edit(run.edit) else steps.run
        edited: E = await run_step(event.edited, run.edit, run.hook.config.view)
    except TranslatorError as error:
        failure = InvalidOutputError(f"hookSpecificOutput.{error}")
        return replace(run, output=None, edit={}, failure=failure), event
    except Exception as error:
        return replace(run, output=None, edit={}, failure=internal_failure(error)), event
    return run, event if run.only_observes else edited


def _is_enforced_policy(hook: Hook) -> bool:
    """Return whether later hooks wait for this one: a built-in policy that is enforced."""
    return isinstance(hook.config, BuiltinConfig) and hook.config.mode == "enforce"


def _ends_chain(run: Run) -> bool:
    """Return whether a policy denied the event: later hooks would see what it withholds."""
    return _is_enforced_policy(run.hook) and run.enforced_denial


def _edits_of(runs: Sequence[Run]) -> tuple[Run, ...]:
    return tuple(run for run in runs if run.changes_input)


def _split_after_policies(groups: Sequence[Group]) -> Iterator[list[Group]]:
    """Split the groups after each policy. The hooks of each batch may start together.

    A sequential group with a policy is a batch of its own, because its hooks wait for each other anyway.
    """
    batch: list[Group] = []
    for group in groups:
        has_policy = any(map(_is_enforced_policy, group.hooks))
        if group.sequential and has_policy and batch:
            yield batch
            batch = []
        for part in [group] if group.sequential or not has_policy else _split_group(group):
            batch.append(part)
            if any(map(_is_enforced_policy, part.hooks)):
                yield batch
                batch = []
    if batch:
        yield batch


def _split_group(group: Group) -> Iterator[Group]:
    """Split a parallel group after each policy."""
    start = 0
    for index, hook in enumerate(group.hooks, 1):
        if _is_enforced_policy(hook) or index == len(group.hooks):
            yield replace(group, hooks=group.hooks[start:index])
            start = index


async def _gather(calls: Sequence[Coroutine[Any, Any, R]]) -> list[R]:
    """Return all results, in order. A single call, the common case, is awaited without a task."""
    return [await calls[0]] if len(calls) == 1 else await asyncio.gather(*calls)


def _for_next_hook(run: Run, event: E) -> E:
    specific = (run.output or {}).get("hookSpecificOutput")
    return event.for_next_hook(specific) if specific and not run.only_observes else event


def _log_run(event: str, run: Run, session: SessionContext) -> None:
    """Log a failure, warning, denial or message of a run, but no content of the call."""
    would = "would have " if run.only_observes else ""
    if run.error:
        denied = run.fails_closed and not run.only_observes
        then = "; the call is denied" if denied else "; the failure is ignored"
        log.warning("%s hook %r failed: %s%s", event, run.hook.name, run.error, then)
    if run.warning:
        log.warning("%s hook %r %s", event, run.hook.name, run.warning)
    output = run.output or {}
    if output.get("decision") == "deny" or output.get("continue") is False:
        log.info("%s hook %r %sdenied a call of session %s", event, run.hook.name, would, session.session_id)
    elif run.only_observes and run.changes:
        log.info("%s hook %r would have edited %s", event, run.hook.name, ", ".join(sorted(run.changes)))
    message = output.get("systemMessage")
    if message and not output.get("suppressOutput"):
        log.info("%s hook %r says: %s", event, run.hook.name, message)


def combined_output(event: Event, outcome: Outcome[Event]) -> Output:
    """Return one hook output that combines all hooks' outputs; it is empty if there were none.

    `event` is the event as it was fired. Edited parts are included in full, as they are after all edits.
    """
    verdict = outcome.verdict
    combined: Output = {}
    if verdict.stop:
        combined |= {"continue": False, "stopReason": verdict.reason}
    elif verdict.decision != "allow" or verdict.allowed or verdict.reason:
        combined |= {"decision": verdict.decision, "reason": verdict.reason or None}
    combined |= {"systemMessage": "\n".join(verdict.system_messages) or None}
    combined |= {"suppressOutput": verdict.suppress_output or None}
    specific = {
        **_edits(event, outcome.event),
        "additionalContext": verdict.context,
        "llm_response": verdict.llm_response or _edits(event, outcome.event).get("llm_response"),
        "toolConfig": verdict.tool_config,
        "tools": verdict.tools,
        "tailToolCallRequest": verdict.tail_tool_call,
        "clearContext": verdict.clear_context or None,
        "redacted": verdict.redacted or None,
    }
    specific = {key: value for key, value in specific.items() if value is not None}
    if specific:
        combined["hookSpecificOutput"] = {"hookEventName": event.name, **specific}
    return {key: value for key, value in combined.items() if value is not None}


def _edits(before: Event, after: Event) -> JsonObject:
    """Return the edited part of the event as fields of a hookSpecificOutput."""
    if after is before:
        return {}
    match after:
        case BeforeTool():
            return {"tool_input": after.tool_input}
        case AfterTool():
            return {"tool_result": result_of(after.tool_response)}
        case BeforeModel():
            return {"llm_request": show_request(after.model, after.body)}
        case AfterModel():
            return {"llm_response": show_response(after.body)}
    return {}
