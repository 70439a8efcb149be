"""One judged call that generates content, from its request to the end of its answer, in processing order."""

from dataclasses import dataclass
from functools import partial

from aiohttp import hdrs, web

from hookgate.hooks import AfterAgent, AfterModel, BeforeModel, BeforeTool
from hookgate.hooks.events.base import SharedValue
from hookgate.proxy.calls.answer import AnswerDelivery, AnswerListener, AnswerPipeline
from hookgate.proxy.calls.context import CallContext, OutgoingCall, RecordingEngine
from hookgate.proxy.calls.outcomes import AskAgain, Ended
from hookgate.proxy.calls.reply import Reply, answering, end_call
from hookgate.proxy.calls.session_events import (
    ToolCallEvents,
    TurnEndEvents,
    check_bypass,
    engine_for_derived,
    run_session_events,
)
from hookgate.proxy.calls.tools import AllowedTools, ToolCallJudge, ToolGate
from hookgate.proxy.calls.verdicts import before_tool_selection, fire_before_model
from hookgate.proxy.observe.content import SessionTranscript
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.routes.dialects.generate_content import (
    check_model,
    check_references,
    decode_request_body,
    with_model,
)
from hookgate.proxy.sessions.memory import prompt_of
from hookgate.proxy.sessions.sessions import OpenSession
from hookgate.proxy.upstream.client import to_upstream
from hookgate.translator import declared_descriptions, show_request
from hookgate.translator.fields import JsonObject, read_list
from hookgate.translator.strictjson import dumps


@dataclass(slots=True)
class IncomingRequest:
    """A request before its hooks run, with its body if it has been read already."""

    body: JsonObject | None
    """The body; None before it is read, and once it is no longer needed."""
    adapter: DialectAdapter
    listener: AnswerListener | None = None
    """Called with the parts of the answer that have passed all hooks."""
    ends_turn: bool = True
    """Whether the answer can end a turn. It cannot if the model continues in the background."""


class GenerationCall:
    """Processes one call that generates content: hooks before the model, the upstream, hooks after it.

    All hooks of the call run with one engine.
    """

    def __init__(
        self, context: CallContext, engine: RecordingEngine, incoming: IncomingRequest | None = None
    ) -> None:
        """`incoming` is the request if its body has been read; else it is read first."""
        self._incoming = incoming or IncomingRequest(None, ADAPTERS[context.route.dialect]())
        self._adapter = self._incoming.adapter
        self._context, self._engine, self._record = context, engine, context.record
        self._config = context.services.config

    async def run(self) -> web.StreamResponse:
        """Answer the request; denials and upstream errors are answers, too."""
        context, adapter = self._context, self._adapter
        reply = Reply(context.request, adapter.framing(context.route), adapter, context.observers)
        async with answering(context, reply):
            outgoing = await self._prepare_request()
            ended = outgoing if isinstance(outgoing, Ended) else await self._ask_model(outgoing, reply)
            if ended is not None:
                await end_call(context, reply, ended)
        return await reply.finish()

    # ---- read, BeforeModel, BeforeToolSelection

    async def _prepare_request(self) -> OutgoingCall | Ended:
        """Read the request and run its hooks. Returns what to send upstream, or what ends the call here."""
        context, engine, route = self._context, self._engine, self._context.route
        steps, adapter = context.steps, self._adapter
        client_body = await context.read_body() if self._incoming.body is None else self._incoming.body
        self._incoming.body = None
        for observer in context.observers:
            observer.on_request(client_body)
        model, body = await steps.run(decode_request_body, adapter, route, client_body)
        check_model(route, model, body)
        await context.name_model(model)
        await steps.run(check_references, body, self._config, adapter.place)
        call, open_session = await context.begin_judged_call(body, adapter, adapter.session(client_body))
        await context.expect_use(call.session, body)
        contents = read_list(body, "contents")
        reported = context.reported_kinds(open_session)
        if engine.needs_session_events(open_session, reported):
            check_results = partial(check_bypass, context, engine, call, open_session)
            judged = await run_session_events(engine, call, open_session, body, reported, check_results)
            if isinstance(judged, Ended):
                return judged
            body = judged
        shown_body = body
        after = await fire_before_model(engine, call, model, body, client_body)
        if isinstance(after, Ended):
            return after
        event, client_body = after
        model = event.model
        await context.name_model(model)
        selected = await before_tool_selection(engine, call, model, event.body)
        if isinstance(selected, Ended):
            return selected
        body, allowed = selected
        if body is not shown_body:
            await context.expect_use(call.session, body)
        self._observe_transcript(open_session)
        after_model = engine.plan(AfterModel(SharedValue({}), {}, model), call.session)
        shows_request = bool(after_model.groups) and not (route.streamed and after_model.only_screens)
        shown_request = await steps.run(_shown_request, event, body) if shows_request else {}
        prompt = prompt_of(contents) if engine.listens_to(AfterAgent.name) else ""
        descriptions = declared_descriptions(body) if engine.listens_to(BeforeTool.name) else {}
        payload = await self._payload(client_body, model, with_model(route, model, body))
        if self._record.content is None:  # otherwise the parsed request is needed later
            memory = context.request.memory_lease
            memory.resize(len(payload) + (memory.size if shows_request else 0))
        return OutgoingCall(
            call=call,
            route=route.for_model(model),
            model=model,
            payload=payload,
            after_model_plan=after_model,
            llm_request=SharedValue(shown_request),
            allowed=allowed,
            reported=reported,
            prompt=prompt,
            descriptions=descriptions,
        )

    async def _payload(self, client_body: JsonObject, model: str, body: JsonObject) -> bytes:
        """Return the request as it is sent upstream, and show it to the observers."""
        steps = self._context.steps
        closed = await steps.run(self._adapter.encode_request, client_body, model, body)
        payload = await steps.run(dumps, closed)
        for observer in self._context.observers:
            await steps.run(observer.on_upstream_request, model, closed, body)
            await observer.save()
        return payload

    def _observe_transcript(self, open_session: OpenSession) -> None:
        if (transcripts := self._context.services.transcripts) is not None:
            self._context.observers.append(SessionTranscript(transcripts, open_session))

    # ---- record, forward, AfterModel, answer

    async def _ask_model(self, outgoing: OutgoingCall, reply: Reply) -> Ended | None:
        """Call the model, and call it again if a hook refuses a tool call or the final answer.

        The configuration limits how often. Returns what ends the call, unless an answer was delivered.
        """
        headers = to_upstream(self._context.request.headers, "identity")
        headers |= {hdrs.CONTENT_TYPE: "application/json"}
        delivery = AnswerDelivery(self._context, reply)
        max_retries = self._config.tools.ask_again_at_most
        retries, answer_rejected = 0, False
        while True:
            pipeline = self._pipeline(
                outgoing, answer_rejected=answer_rejected, may_retry=retries < max_retries
            )
            outcome = None  # an answer that the upstream cuts off is delivered as far as it goes
            try:
                async with delivery.ask_upstream(outgoing.route, headers, outgoing.payload) as answer:
                    outcome = await delivery.deliver(answer, pipeline)
            finally:
                pipeline.close()
            if not isinstance(outcome, AskAgain):
                return outcome
            retries += 1
            outgoing = await self._context.steps.run(outgoing.with_turns, outcome.turns)
            answer_rejected = answer_rejected or outcome.answer_rejected
            if reply.framing is not None:
                reply.framing.reset_decoder()

    def _pipeline(self, outgoing: OutgoingCall, *, answer_rejected: bool, may_retry: bool) -> AnswerPipeline:
        """Return the pipeline for one answer of the model.

        `answer_rejected`: a hook has rejected an earlier final answer.
        `may_retry`: the model can be asked again.
        """
        call, engine = outgoing.call, self._engine
        judges: list[ToolCallJudge] = []
        if outgoing.allowed is not None:
            retries = self._config.tools.refused == "ask_again"
            judges.append(AllowedTools(outgoing.allowed, self._record, retries=retries))
        turn_end = None
        if engine.listens_to(BeforeTool.name, AfterAgent.name):
            tool_engine = engine_for_derived(engine, "tools", outgoing.reported)
            if tool_engine.listens_to(BeforeTool.name):
                judges.append(ToolCallEvents(tool_engine, call, outgoing.descriptions))
            turn_engine = engine_for_derived(engine, "turns", outgoing.reported)
            if (
                turn_engine.listens_to(AfterAgent.name)
                and self._incoming.ends_turn
                and not call.requires_json
            ):
                turn_end = TurnEndEvents(turn_engine, call, outgoing.prompt, answer_rejected, may_retry)
        state = call.session.call_state
        gate = ToolGate(judges, state, retries=may_retry) if judges or turn_end else None
        keep_answer = any(observer.wants_answer for observer in self._context.observers)
        return AnswerPipeline(
            engine,
            outgoing,
            self._context.steps,
            gate,
            turn_end,
            keep_answer=keep_answer,
            listener=self._incoming.listener,
        )


def _shown_request(event: BeforeModel, body: JsonObject) -> JsonObject:
    """Return the request as shown to AfterModel hooks: `body`, which may be that of the event."""
    return event.shown_request() if body is event.body else show_request(event.model, body)
