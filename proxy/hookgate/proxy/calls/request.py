"""Judges one request that generates content: the events of its session, BeforeModel, BeforeToolSelection."""

from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field

from hookgate.hooks import AfterAgent, AfterModel, BeforeModel, BeforeTool, BeforeToolSelection
from hookgate.hooks.engine import EventPlan
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.merge import NO_VERDICT
from hookgate.hooks.policies.estimates import candidate_count
from hookgate.hooks.policies.speakers import prefilled_text
from hookgate.proxy.calls.endings import Ended
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.session_events import run_session_events
from hookgate.proxy.calls.tools import ToolSelection
from hookgate.proxy.observe.hook_tally import selecting_hooks
from hookgate.proxy.sessions.memory import Result, prompt_of
from hookgate.proxy.sessions.sessions import OpenSession, ReportedKind
from hookgate.translator import (
    KNOWN_KINDS,
    callable_names,
    declared_descriptions,
    declared_names,
    hosted_kinds,
    show_request,
)
from hookgate.translator.fields import JsonObject, read, read_list, read_object


@dataclass(frozen=True, slots=True)
class JudgedRequest:
    """What the hooks of an answer need to know of its request."""

    model: str
    plan: EventPlan
    """The AfterModel hooks that run for the answer."""
    llm_request: SharedValue
    """The request as shown to AfterModel hooks; empty if none of them is shown it."""
    candidates: int = 1
    """How many candidates the request asks for."""
    selection: ToolSelection | None = None
    """The tools that the answer may call; None if no hook selected any."""
    reported: Collection[ReportedKind] = ()
    """The kinds of events that a shim reports. Derived ones of these kinds run hooks of policy files only."""
    prompt: str = ""
    """The text of the user's turn to answer; empty if no hook needs it."""
    descriptions: Mapping[str, str] = field(default_factory=dict)
    """The descriptions of the request's tools, by name; empty if no hook needs them."""
    names_to_call: frozenset[str] = frozenset()
    """The names of all functions that the answer may call; empty if it may call any."""


async def judge_request(  # noqa: PLR0913, PLR0917  # the request and its session
    judge: Judge,
    open_session: OpenSession,
    reported: Collection[ReportedKind],
    model: str,
    body: JsonObject,
    other_fields: JsonObject,
    check_results: Callable[[Sequence[Result]], Awaitable[Ended | None]],
    *,
    streamed: bool,
) -> tuple[JudgedRequest, JsonObject, JsonObject] | Ended:
    """Run the hooks of a request. Returns what ends the call, if they do.

    Otherwise, returns what is known of the request, its body, and its other fields, after all edits.

    Args:
        judge: Runs the hooks.
        open_session: The session of the call.
        reported: The kinds of events that a shim reports.
        model: The model that the request names.
        body: The request, as one of generateContent.
        other_fields: The fields of the client's body besides its model and its request.
        check_results: Called with the tool results that a shim should have reported; it may end the call.
        streamed: Whether the answer is streamed.
    """
    steps, contents = judge.session.call_state.steps, read_list(body, "contents")
    if judge.needs_session_events(open_session, reported):
        judged = await run_session_events(judge, open_session, body, reported, check_results)
        if isinstance(judged, Ended):
            return judged
        body = judged
    before = await judge.fire(BeforeModel(model, body, other_fields))
    if ended := judge.ended_by(before.verdict, BeforeModel.name):
        return ended
    event = before.event
    selected = await select_tools(judge, event.model, event.body)
    if isinstance(selected, Ended):
        return selected
    body, selection = selected
    judge.session.call_state.prefilled = prefilled_text(read_list(body, "contents"))
    plan = judge.plan(AfterModel(SharedValue({}), {}, event.model))
    shows_request = bool(plan.groups) and not (streamed and plan.only_screens)
    request = JudgedRequest(
        model=event.model,
        plan=plan,
        llm_request=SharedValue(await steps.run(_shown_request, event, body) if shows_request else {}),
        candidates=candidate_count(read_object(body, "generationConfig")),
        selection=selection,
        reported=reported,
        prompt=prompt_of(contents) if judge.listens_to(AfterAgent.name) else "",
        descriptions=declared_descriptions(body) if judge.listens_to(BeforeTool.name) else {},
        names_to_call=names_to_call(body) if judge.listens_to(BeforeTool.name) else frozenset(),
    )
    return request, body, event.beside


async def select_tools(
    judge: Judge, model: str, body: JsonObject
) -> tuple[JsonObject, ToolSelection | None] | Ended:
    """Return the request with the selected tools, and the selection if any hook selected some."""
    outcome = await judge.fire(BeforeToolSelection(model, body))
    verdict = outcome.verdict
    if ended := judge.ended_by(verdict, BeforeToolSelection.name):
        return ended
    if verdict is NO_VERDICT or not verdict.selects_tools:
        return body, None
    body = await judge.session.call_state.steps.run(verdict.apply_selection, body)
    return body, ToolSelection(callable_names(body), selecting_hooks(outcome.runs))


_RUN_BY_API = KNOWN_KINDS - {"computerUse"}
"""The kinds of hosted tools whose calls the client never runs."""


def names_to_call(request: JsonObject) -> frozenset[str]:
    """Return the names of all functions that an answer may call; none if it may call any.

    It may if the request declares none, or has cached contents, which may declare others, or offers tools
    whose calls the client runs.
    """
    if read(request, "cachedContent") is not None or not _RUN_BY_API.issuperset(hosted_kinds(request)):
        return frozenset()
    return frozenset(declared_names(request))


def _shown_request(event: BeforeModel, body: JsonObject) -> JsonObject:
    """Return the request as shown to AfterModel hooks: `body`, which may be that of the event."""
    return event.shown_request() if body is event.body else show_request(event.model, body)
