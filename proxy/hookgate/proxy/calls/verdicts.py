"""Runs the hooks before the model, and converts verdicts to answers for the client.

Answers have the forms that real clients display and do not retry: an error status for a user's turn, and text
where an error would make the client prompt the model again or retry.
"""

from hookgate.hooks import BeforeModel, BeforeToolSelection, SessionContext, Verdict
from hookgate.hooks.merge import NO_VERDICT
from hookgate.proxy.calls.context import JudgedCall, RecordingEngine
from hookgate.proxy.calls.outcomes import Ended, Replacement
from hookgate.proxy.calls.tools import ToolSelection
from hookgate.proxy.errors import policy_denied
from hookgate.proxy.observe.record import CallRecord, selecting_hooks
from hookgate.translator import callable_names, synthetic_response, text_response
from hookgate.translator.fields import JsonObject
from hookgate.translator.response import is_json_answer, is_whole

DENIED = "A hook denied this call without giving a reason."
STOPPED = "A hook stopped the agent without giving a reason."
NOT_JSON = "A hook returned a synthetic answer that is not JSON, but this call requires JSON."
EDIT_NOT_JSON = "A hook's edit turned the answer into text that is not JSON, but this call requires JSON."

_NO_ANSWER = "A hook returned a synthetic answer, which is not possible for {}."


def ended_by(verdict: Verdict, event: str, call: JudgedCall) -> Ended | None:
    """Return what the client receives instead of the model's answer, or None if the call continues."""
    if verdict is NO_VERDICT:
        return None
    if verdict.stop:
        reason = verdict.reason or STOPPED
        return policy_denied(reason, event) if call.requires_json else Replacement(text_response(reason))
    if verdict.synthetic:
        answer, is_complete = synthetic_response(verdict.llm_response), is_whole(verdict.llm_response)
        if call.requires_json and not is_complete and not is_json_answer(answer):
            return policy_denied(NOT_JSON, event)
        return Replacement(answer, is_complete)
    if verdict.denied:
        reason = verdict.reason or DENIED
        as_text = call.tool_turn and not call.requires_json
        return Replacement(text_response(reason)) if as_text else policy_denied(reason, event)
    return None


def refuse_ended_call(record: CallRecord, verdict: Verdict, event: str, method: str) -> None:
    """Raise ApiError if the verdict of an event ends a call of a method whose answers have no text."""
    if verdict.stop:
        raise policy_denied(verdict.reason or STOPPED, event)
    if verdict.synthetic:
        reason = _NO_ANSWER.format(method)
        record.outcome, record.reasons[event] = "denied", reason
        raise policy_denied(reason, event)
    if verdict.denied:
        raise policy_denied(verdict.reason or DENIED, event)


def check_edit(before: JsonObject, after: JsonObject, event: str) -> None:
    """Check the answer of a call that requires JSON after hooks have edited it.

    Raises ApiError if the answer was JSON before, but no longer is: the client would ask for it again
    and again.
    """
    if is_json_answer(before) and not is_json_answer(after):
        raise policy_denied(EDIT_NOT_JSON, event)


async def fire_before_model(
    engine: RecordingEngine, call: JudgedCall, model: str, body: JsonObject, client_body: JsonObject
) -> tuple[BeforeModel, JsonObject] | Ended:
    """Return the event with the model and the request, and the client's whole body, after BeforeModel."""
    other_fields = call.adapter.other_fields(client_body)
    outcome = await engine.fire(BeforeModel(model, body, other_fields), call.session)
    if ended := ended_by(outcome.verdict, BeforeModel.name, call):
        return ended
    event = outcome.event
    if event.beside is not other_fields:
        client_body = {
            name: value for name, value in client_body.items() if name not in other_fields
        } | event.beside
    return event, client_body


async def before_model_or_refuse(
    engine: RecordingEngine, session: SessionContext, model: str, body: JsonObject, method: str
) -> tuple[str, JsonObject]:
    """Return the model and the request after BeforeModel hooks, for a `method` that returns no model's text.

    Raises ApiError if a hook ends the call.
    """
    outcome = await engine.fire(BeforeModel(model, body), session)
    refuse_ended_call(engine.record, outcome.verdict, BeforeModel.name, method)
    return outcome.event.model, outcome.event.body


async def before_tool_selection_or_refuse(
    engine: RecordingEngine, session: SessionContext, model: str, body: JsonObject, method: str
) -> JsonObject:
    """Return the request with the selected tools, for a `method` that returns no model's text.

    Raises ApiError if a hook ends the call.
    """
    outcome = await engine.fire(BeforeToolSelection(model, body), session)
    refuse_ended_call(engine.record, outcome.verdict, BeforeToolSelection.name, method)
    selected: JsonObject = await session.call_state.steps.run(outcome.verdict.apply_selection, body)
    return selected


async def before_tool_selection(
    engine: RecordingEngine, call: JudgedCall, model: str, body: JsonObject
) -> tuple[JsonObject, ToolSelection | None] | Ended:
    """Return the request with the selected tools, and the selection if any hook selected some."""
    outcome = await engine.fire(BeforeToolSelection(model, body), call.session)
    verdict = outcome.verdict
    if ended := ended_by(verdict, BeforeToolSelection.name, call):
        return ended
    if verdict is NO_VERDICT or not verdict.selects_tools:
        return body, None
    body = await call.session.call_state.steps.run(verdict.apply_selection, body)
    return body, ToolSelection(callable_names(body), selecting_hooks(outcome.runs))
