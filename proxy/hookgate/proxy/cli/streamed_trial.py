"""Judges a whole answer as a stream of small events, as `hookgate hooks test AfterModel` does."""

from collections.abc import Iterator
from dataclasses import dataclass

from hookgate.hooks import AfterModel, Engine, SessionContext
from hookgate.proxy.calls.answer import AnswerPipeline
from hookgate.proxy.calls.answer_stages import Cut
from hookgate.proxy.calls.context import JudgedCall, OutgoingCall, RecordingEngine
from hookgate.proxy.config.models import LimitSettings
from hookgate.proxy.observe.record import CallRecord
from hookgate.proxy.routes.dialects.generate_content import GenerateContent
from hookgate.proxy.routes.table import match
from hookgate.proxy.server.bodies import BodyWorker
from hookgate.translator import ServerSentEvents
from hookgate.translator.fields import JsonObject, read_list, read_object, without, write
from hookgate.translator.strictjson import dumps

_MIN_CHARACTERS = 3
"""The minimum number of characters in one event."""

_MAX_EVENTS = 32
"""The maximum number of events for one text: a program runs for each."""

_ROUTE = "/v1beta/models/model:streamGenerateContent?alt=sse"


@dataclass(frozen=True, slots=True)
class StreamedTrial:
    """The result of judging a streamed answer.

    Attributes:
        events: The number of events.
        answer: The joined answer after all hooks, as far as it was sent.
        ended: Whether a hook ended the stream.
    """

    events: int
    answer: JsonObject
    ended: bool


async def judge_as_stream(engine: Engine, event: AfterModel, session: SessionContext) -> StreamedTrial:
    """Split the answer of the event into small events, and judge them one after another."""
    call = JudgedCall(match("POST", _ROUTE), session, True, GenerateContent(), False)
    outgoing = OutgoingCall(
        call=call,
        route=call.route,
        model=event.model,
        payload=b"",
        after_model_plan=engine.plan(event, session),
        llm_request=event.llm_request,
        allowed=None,
        reported=(),
        prompt="",
        descriptions={},
    )
    recording, worker = RecordingEngine(engine, CallRecord()), BodyWorker(LimitSettings())
    pipeline = AnswerPipeline(recording, outgoing, worker, None, None, keep_answer=True)
    pipeline.begin_stream(ServerSentEvents())
    events, ended = list(_small_events(event.body)), False
    for number, small in enumerate(events, 1):
        passed = await pipeline.feed(b"data: " + dumps(small) + b"\r\n\r\n", last=number == len(events))
        if ended := isinstance(passed, Cut):
            break
    answer = pipeline.answer or {}
    pipeline.close()
    return StreamedTrial(len(events), answer, ended)


def _small_events(body: JsonObject) -> Iterator[JsonObject]:
    """Yield the parts of an answer as events, each with a piece of one text, and the other fields last."""
    candidates = read_list(body, "candidates")
    for candidate in candidates:
        content = read_object(candidate, "content")
        for part in read_list(content, "parts"):
            for piece in _pieces(part):
                alone = write(content, "parts", [piece])
                yield {"candidates": [{"index": candidate.get("index", 0), "content": alone}]}
    rest = [without(candidate, "content") for candidate in candidates]
    yield {**body, "candidates": rest} if candidates else body


def _pieces(part: JsonObject) -> Iterator[JsonObject]:
    text = part.get("text")
    if not isinstance(text, str) or not text:
        yield part
        return
    size = max(_MIN_CHARACTERS, -(-len(text) // _MAX_EVENTS))
    for start in range(0, len(text), size):
        yield {**part, "text": text[start : start + size]}
