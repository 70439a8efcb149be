"""The answers of batches, which the state of a batch contains. They are judged whenever it is sent: when the
batch is created, and when it is read.
"""

from functools import partial

from aiohttp import web

from hookgate.hooks import AfterModel, BeforeTool, Engine
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.calls.answer_reading import checked_answer, read_answer, unreadable_answer
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.endings import Ended, Replacement
from hookgate.proxy.calls.exchange import exchange_whole
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.tools import ToolCallEvents, ToolGate
from hookgate.proxy.errors import ApiError, policy_denied
from hookgate.proxy.server.bodies import TOO_MANY, work_of
from hookgate.translator import BatchState, BodyError, EditError, show_request, text_response
from hookgate.translator.fields import JsonObject, read
from hookgate.translator.strictjson import encode_answer

BATCH_READS = frozenset({"getBatch", "listBatches"})
"""The verbs that read batches."""

_ANSWERS_IN_FILE = "This batch's answers are in a file, where hooks cannot judge them."
_NO_PLACE = "A hook's edit cannot be sent in a batch: {}"


async def read_batch(call: Call, engine: Engine) -> web.StreamResponse:
    """Answer a request for the state of batches. Raises ApiError if it is refused or the upstream fails."""
    judge, open_session = await call.begin(engine, {})
    open_session.raise_if_stopped()
    return await exchange_whole(call, judge, call.route, None, partial(judge_batch, call, judge))


async def judge_batch(call: Call, judge: Judge, data: bytes) -> bytes:
    """Return the state of batches that were created or read, with its answers after their hooks.

    Raises ApiError if it cannot be read or sent.
    """
    if not data or not judge.listens_to(AfterModel.name, BeforeTool.name):
        return data
    steps, work = call.steps, work_of(data)
    body = await steps.run_for(work, read_answer, data, steps.worker)
    try:
        state = await steps.run_for(work, BatchState, body)
    except BodyError as error:
        raise unreadable_answer(str(error)) from None
    if state.in_file:
        raise policy_denied(_ANSWERS_IN_FILE, AfterModel.name)
    if len(state.answers) > (most := call.services.config.limits.items):
        raise unreadable_answer(f"it has more than {most} answers; {TOO_MANY}")
    answers: list[JsonObject] = []
    steps.work = work
    for answer in state.answers:
        await steps.pause()
        with steps.judging(answer):
            response = await steps.run(checked_answer, answer)
            answers.append(await _judge_answer(judge, call.route.model, response))
    event = answer_event(call.route.model, state.rest())
    rest = await judge.fire(event)
    judge.raise_if_ended(rest.verdict, event.name)
    try:
        new = await steps.run_for(work, state.edited, answers, rest.event.body)
    except EditError as error:
        raise policy_denied(_NO_PLACE.format(error), AfterModel.name) from None
    return data if new is body else await steps.run_for(work, encode_answer, new)


async def _judge_answer(judge: Judge, model: str, response: JsonObject) -> JsonObject:
    """Return an answer after its hooks, or the answer or the reason that replaces it."""
    event = answer_event(model, response)
    judge.session.call_state.model = event.model
    outcome = await judge.fire(event)
    judged = judge.ended_by(outcome.verdict, AfterModel.name) or await _judge_calls(judge, outcome.event.body)
    if isinstance(judged, Replacement):
        return judged.answer
    return text_response(judged.message) if isinstance(judged, ApiError) else judged


async def _judge_calls(judge: Judge, response: JsonObject) -> JsonObject | Ended:
    """Return an answer with the function calls that BeforeTool hooks allow; the others become texts.

    If a hook stops the agent, return what ends the answer.
    """
    if not judge.listens_to(BeforeTool.name):
        return response
    gate = ToolGate([ToolCallEvents(judge, {})], judge.session.call_state, may_ask_again=False)
    return await gate.judge_without_retry(response)


def answer_event(model: str, response: JsonObject) -> AfterModel:
    """Return the event of one answer. Only the answer names the model if the batch is read later."""
    version = read(response, "modelVersion")
    model = model or (version if isinstance(version, str) else "")
    return AfterModel(SharedValue(show_request(model, {})), response, model)
