"""A request before its hooks: its session's events, BeforeModel, BeforeToolSelection."""

from collections.abc import Collection, Sequence

from hookgate.hooks import BeforeModel, BeforeToolSelection, Verdict
from hookgate.proxy.call.context import CallContext, RecordedEngine
from hookgate.proxy.call.verdicts import JudgedCall, enforce
from hookgate.proxy.call.wire_events import RequestEvents, with_context
from hookgate.proxy.identity.bypass import bypass_denial, unannounced_tools
from hookgate.proxy.identity.memory import Result, tool_results, turn_of
from hookgate.translator import apply_tool_config, apply_tools, callable_names
from hookgate.translator.fields import JsonObject, read_list


async def before_model(
    engine: RecordedEngine, call: JudgedCall, model: str, body: JsonObject
) -> tuple[str, JsonObject]:
    """Return the model and the request as hooks leave them. Raises SyntheticAnswer and ApiError."""
    event = await _fire_before_model(engine, call, BeforeModel(model, body))
    return event.model, event.body


async def before_wrapped_model(
    engine: RecordedEngine, call: JudgedCall, model: str, body: JsonObject, outer: JsonObject
) -> tuple[str, JsonObject, JsonObject]:
    """Return the same for a request in the envelope `outer`, and the envelope as hooks leave it."""
    beside = call.envelope.beside(outer)
    event = await _fire_before_model(engine, call, BeforeModel(model, body, beside))
    if event.beside is not beside:
        outer = {name: value for name, value in outer.items() if name not in beside} | event.beside
    return event.model, event.body, outer


async def _fire_before_model(engine: RecordedEngine, call: JudgedCall, event: BeforeModel) -> BeforeModel:
    outcome = await engine.fire(event, call.session)
    enforce(outcome.verdict, BeforeModel.name, call)
    return outcome.event


async def before_tool_selection(
    engine: RecordedEngine, call: JudgedCall, model: str, body: JsonObject
) -> tuple[JsonObject, frozenset[str] | None]:
    """Return the request with the tools that hooks selected, and their names if any hook selected some.

    Raises SyntheticAnswer and ApiError.
    """
    outcome = await engine.fire(BeforeToolSelection(model, body), call.session)
    verdict = outcome.verdict
    enforce(verdict, BeforeToolSelection.name, call)
    if verdict.tools is None and verdict.tool_config is None:
        return body, None
    if verdict.tools is not None:
        body = apply_tools(body, verdict.tools)
    if verdict.tool_config is not None:
        body = apply_tool_config(body, verdict.tool_config)
    return body, callable_names(body)


async def before_session_events(
    context: CallContext,
    engine: RecordedEngine,
    call: JudgedCall,
    body: JsonObject,
    reported: Collection[str],
) -> JsonObject:
    """Return the request as the hooks of its session's events leave it, with the context that waits for it.

    `reported` is what a shim reports of the session, so that it need not be derived from the call. Raises
    SyntheticAnswer and ApiError.
    """
    state = context.services.sessions.state_for(call.session)
    take = call.session.call.take
    if not ("turns" in reported or call.tool_turn or call.wants_json):
        state.take_turn((await take(turn_of, read_list(body, "contents")))[0])
    if state.stopped is not None:
        _end(engine, call, Verdict(stop=True, reason=state.stopped))
    if "tools" in reported:
        _check_bypass(context, engine, call, await take(tool_results, read_list(body, "contents")))
    if any(map(engine.listens_to, RequestEvents.EVENTS)):
        body = await RequestEvents(engine, call, state.memory, reported).judged(body)
    waiting = "" if call.wants_json else state.take_context()  # JSON is for an agent's own questions
    return with_context(body, waiting) if waiting else body


def _check_bypass(
    context: CallContext, engine: RecordedEngine, call: JudgedCall, results: Sequence[Result]
) -> None:
    """Notice tools that ran past the shim. Raises SyntheticAnswer or ApiError where that is denied."""
    services = context.services
    denies = services.config.tools.bypass == "deny"
    unannounced = unannounced_tools(results, services.sessions.state_for(call.session), forgives=not denies)
    services.bypasses.note(unannounced, call.session)
    context.record.bypasses += len(unannounced)
    if unannounced and denies:
        _end(engine, call, bypass_denial(unannounced))


def _end(engine: RecordedEngine, call: JudgedCall, verdict: Verdict) -> None:
    engine.record.note_verdict(BeforeModel.name, verdict)
    enforce(verdict, BeforeModel.name, call)
