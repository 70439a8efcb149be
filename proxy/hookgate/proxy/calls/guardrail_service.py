"""The guardrail service: answers other gateways that call LiteLLM's generic guardrail API.

Requests pass the hooks of BeforeModel and BeforeToolSelection, answers those of AfterModel and BeforeTool.
What a hook decides and this API cannot express is a denial.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from aiohttp import web
from pydantic import ValidationError

from hookgate.hooks import AfterModel, BeforeModel, BeforeTool, Engine, Outcome, Verdict
from hookgate.hooks.errors import first_mistake
from hookgate.hooks.events.base import SharedValue
from hookgate.hooks.session import CallState
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.guardrail_checks import (
    Check,
    CheckBlocked,
    EditBlocked,
    ShownCall,
    edited_answer,
    edited_request,
    shown_answer,
    shown_calls,
    shown_request,
)
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.services import GatewayServices
from hookgate.proxy.errors import POLICY_DENIED, ApiError, body_refused
from hookgate.proxy.routes.table import GUARDRAIL, session_name_in_body
from hookgate.proxy.sessions.sessions import OpenSession
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject, same
from hookgate.translator.strictjson import encode_answer

_NOT_JSON = "The arguments of the tool call {name} are not a JSON object, so hooks cannot judge them."


class GuardrailService:
    """Answers the checks of other gateways."""

    def __init__(self, services: GatewayServices, admit: Callable[[Call], None]) -> None:
        """`admit` raises ApiError for a caller that may not ask now."""
        self._services, self._admit = services, admit

    async def run(self, call: Call, engine: Engine) -> web.Response:
        """Answer one check. Raises ApiError if it is invalid, or if the caller may not ask."""
        self._admit(call)
        body = await call.read_body()
        for observer in call.observers:
            observer.on_request(body)
        check = await call.steps.run(_read, body)
        state = CallState(steps=call.steps, operation=GUARDRAIL, model=check.model or "")
        name = call.named_session or session_name_in_body(check.litellm_trace_id)
        session = call.caller.in_session(name or call.caller.conversation_id(list(check.texts)), state)
        session = replace(session, notes=self._services.sessions)
        call.note_session(session)
        is_request = check.input_type == "request"
        call.record.event = BeforeModel.name if is_request else AfterModel.name
        open_session = await self._services.sessions.open(session)
        judge = Judge(engine, call.record, session, approvals=self._services.approvals)
        answer = await _decide(judge, open_session, check)
        for observer in call.observers:
            observer.on_event_output(answer)
        await self._services.record_event(call.record)
        return web.Response(body=encode_answer(answer), content_type="application/json")


def _read(body: JsonObject) -> Check:
    try:
        return Check.model_validate(body)
    except ValidationError as error:
        problem = f"Invalid check of a guardrail: {first_mistake(error, 'the check')}"
        raise ApiError(400, problem, "EVENT_REFUSED") from None


async def _decide(judge: Judge, open_session: OpenSession, check: Check) -> JsonObject:
    """Return the answer to a check. Raises ApiError if it cannot be judged."""
    try:
        if open_session.state.refusal is not None:
            raise CheckBlocked(open_session.state.refusal)
        return await (_judge_request if check.input_type == "request" else _judge_answer)(judge, check)
    except CheckBlocked as blocked:
        reason = str(blocked)
        if isinstance(blocked, EditBlocked):
            judge.record.not_applied = (blocked.what,)
        judge.record.note_verdict(judge.record.event, Verdict("deny", reason=reason))
    except ApiError as error:
        if error.reason != POLICY_DENIED:
            raise
        reason = error.message
    except BodyError as error:
        raise body_refused(error) from None
    return {"action": "BLOCKED", "blocked_reason": reason}


async def _judge_request(judge: Judge, check: Check) -> JsonObject:
    """Return the answer to a check of a request. Raises CheckBlocked, or ApiError if a hook denies it."""
    steps, model = judge.session.call_state.steps, check.model or ""
    body = await steps.run(shown_request, check)
    outcome = await judge.fire(BeforeModel(model, body))
    judge.raise_if_ended(outcome.verdict, BeforeModel.name)
    if outcome.event.model != model:
        raise EditBlocked("the model")
    new = await judge.select_tools_or_raise(model, outcome.event.body)
    return await steps.run(edited_request, check, body, new)


async def _judge_answer(judge: Judge, check: Check) -> JsonObject:
    """Return the answer to a check of an answer. Raises CheckBlocked, or ApiError if a hook denies it."""
    steps = judge.session.call_state.steps
    calls = await steps.run(shown_calls, check)
    body = await steps.run(shown_answer, check, calls)
    outcome = await judge.fire(AfterModel(SharedValue({}), body, check.model or ""))
    judge.raise_if_ended(outcome.verdict, AfterModel.name)
    answer = await steps.run(edited_answer, check, calls, outcome.event.body)
    if judge.listens_to(BeforeTool.name):
        await _judge_calls(judge, calls)  # the last, as it may use up approvals
    return answer


async def _judge_calls(judge: Judge, calls: Sequence[ShownCall]) -> None:
    """Run BeforeTool for the calls in an answer. Raises CheckBlocked, or ApiError if a hook denies one."""
    left_to_people: list[Outcome[BeforeTool]] = []
    for call in calls:
        await judge.session.call_state.steps.pause()
        if call.arguments is None:
            raise CheckBlocked(_NOT_JSON.format(name=call.name))
        outcome = await judge.fire(BeforeTool(call.name, call.arguments))
        if judge.leaves_to_people(outcome.verdict):
            left_to_people.append(outcome)
        else:
            judge.raise_if_ended(outcome.verdict, BeforeTool.name)
        if not same(outcome.event.tool_input, call.arguments):
            raise EditBlocked("the arguments of a tool")
    if left_to_people:
        for verdict in await judge.ask_people(left_to_people):
            judge.raise_if_ended(verdict, BeforeTool.name)
