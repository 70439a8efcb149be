"""Runs the hooks before the model, and converts verdicts to answers for the client.

Answers have the forms that real clients display and do not retry: an error status for a user's turn, and text
where an error would make the client prompt the model again or retry.
"""

from hookgate.hooks import BeforeModel, BeforeToolSelection, SessionContext, Verdict
from hookgate.hooks.merge import NO_VERDICT
from hookgate.proxy.calls.context import JudgedCall, RecordingEngine
from hookgate.proxy.calls.tools import ToolSelection
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.observe.blocked import selecting_hooks
from hookgate.proxy.observe.record import CallRecord
from hookgate.translator import callable_names, synthetic_response, text_response
from hookgate.translator.fields import JsonObject, joined_text, read_list, read_object
from hookgate.translator.response import is_json_answer, is_whole

DENIED = "A hook denied this call without giving a reason."
STOPPED = "A hook stopped the agent without giving a reason."
NOT_JSON = "A hook returned a synthetic answer that is not JSON, but this call requires JSON."
EDIT_NOT_JSON = "A hook's edit turned the answer into text that is not JSON, but this call requires JSON."

_NO_ANSWER = "A hook returned a synthetic answer, which is not possible for {}."


class ReplacementAnswer(Exception):  # noqa: N818  # ends a call, but not as an error
    """Raised to answer the client with a hook's response instead of the model's."""

    def __init__(self, answer: JsonObject, *, is_complete: bool = False) -> None:
        """`is_complete`: a hook returned the whole body, to which nothing is added."""
        self.answer, self.is_complete = answer, is_complete

    @property
    def text(self) -> str:
        """The text of the response, such as the reason of a stop."""
        candidates = read_list(self.answer, "candidates")
        return joined_text(read_object(candidates[0], "content")) if candidates else ""


def client_response(verdict: Verdict, event: str, call: JudgedCall) -> JsonObject | ApiError | None:
    """Return the response or error that replaces the model's answer, or None if the call continues."""
    if verdict is NO_VERDICT:
        return None
    if verdict.stop:
        reason = verdict.reason or STOPPED
        return policy_denied(reason, event) if call.requires_json else text_response(reason)
    if verdict.synthetic:
        answer = synthetic_response(verdict.llm_response)
        must_be_json = call.requires_json and not is_whole(verdict.llm_response)
        return policy_denied(NOT_JSON, event) if must_be_json and not is_json_answer(answer) else answer
    if verdict.denied:
        reason = verdict.reason or DENIED
        as_text = call.tool_turn and not call.requires_json
        return text_response(reason) if as_text else policy_denied(reason, event)
    return None


def enforce(verdict: Verdict, event: str, call: JudgedCall) -> None:
    """Raise ReplacementAnswer or ApiError if the verdict ends the call."""
    if verdict is NO_VERDICT:
        return
    response = client_response(verdict, event, call)
    if isinstance(response, ApiError):
        try:
            raise response
        finally:
            del response  # otherwise, the exception and this frame keep each other and the whole call
    if response is not None:
        raise ReplacementAnswer(response, is_complete=is_whole(verdict.llm_response))


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
) -> tuple[BeforeModel, JsonObject]:
    """Return the event with the model and the request, and the client's whole body, after BeforeModel.

    Raises ReplacementAnswer or ApiError if a hook ends the call.
    """
    other_fields = call.adapter.other_fields(client_body)
    outcome = await engine.fire(BeforeModel(model, body, other_fields), call.session)
    enforce(outcome.verdict, BeforeModel.name, call)
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
    selected: JsonObject = await session.call_state.run_step(outcome.verdict.apply_selection, body)
    return selected


async def before_tool_selection(
    engine: RecordingEngine, call: JudgedCall, model: str, body: JsonObject
) -> tuple[JsonObject, ToolSelection | None]:
    """Return the request with the selected tools, and the selection if any hook selected some.

    Raises ReplacementAnswer or ApiError if a hook ends the call.
    """
    outcome = await engine.fire(BeforeToolSelection(model, body), call.session)
    verdict = outcome.verdict
    enforce(verdict, BeforeToolSelection.name, call)
    if verdict is NO_VERDICT or not verdict.selects_tools:
        return body, None
    body = await call.session.call_state.run_step(verdict.apply_selection, body)
    return body, ToolSelection(callable_names(body), selecting_hooks(outcome.runs))
