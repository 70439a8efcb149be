"""One judged call that generates content, from its request to the end of its answer, in processing order."""

from functools import partial

from aiohttp import hdrs, web

from hookgate.hooks import Engine
from hookgate.proxy.calls.answer_delivery import AnswerDelivery
from hookgate.proxy.calls.answer_pipeline import AnswerPipeline, AskAgainRules
from hookgate.proxy.calls.answer_reading import unreadable_answer
from hookgate.proxy.calls.call import Call
from hookgate.proxy.calls.endings import AskAgain, Ended
from hookgate.proxy.calls.judge import Judge
from hookgate.proxy.calls.reply import Reply
from hookgate.proxy.calls.request import JudgedRequest, judge_request
from hookgate.proxy.calls.sent_text import SentText
from hookgate.proxy.calls.session_events import check_bypass
from hookgate.proxy.observe.content import SessionTranscript
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.routes.dialects.generate_content import (
    check_model,
    check_references,
    decode_request_body,
    with_model,
)
from hookgate.proxy.routes.dialects.openai import check_stored_content
from hookgate.proxy.routes.table import Route
from hookgate.proxy.upstream.client import to_upstream
from hookgate.translator import BodyError
from hookgate.translator.fields import JsonObject, read_list, write
from hookgate.translator.known_turns import dumps_with_turns
from hookgate.translator.strictjson import dumps, loads


class GenerationCall:
    """Processes one call that generates content: hooks before the model, the upstream, hooks after it."""

    def __init__(  # what interactions determine in advance
        self,
        call: Call,
        engine: Engine,
        body: JsonObject | None = None,
        adapter: DialectAdapter | None = None,
        *,
        ends_turn: bool = True,
    ) -> None:
        """Create the call.

        Args:
            call: The client's call.
            engine: Runs its hooks.
            body: The body, if it has been read.
            adapter: Reads and writes bodies; by default that of the route's dialect.
            ends_turn: Whether the answer can end a turn. It cannot if the model continues in the background.
        """
        self._call, self._engine, self._body = call, engine, body
        self._adapter = adapter or ADAPTERS[call.route.dialect]()
        self._ends_turn = ends_turn
        self._judge: Judge
        self._request: JudgedRequest
        self._payload = b""
        """The request to send upstream. Its parsed body is discarded to save memory."""

    async def run(self) -> web.StreamResponse:
        """Answer the request; denials and upstream errors are answers, too."""
        call, adapter = self._call, self._adapter
        if call.route.body_chooses_stream:
            await self._read_choice_of_stream()
        reply = Reply(call, adapter.framing_for(call.route), adapter)
        async with reply.answering():
            if ended := await self._judge_request() or await self._ask_model(reply):
                await reply.end(ended)
        return await reply.finish()

    async def _read_choice_of_stream(self) -> None:
        """Read the body, which says whether the answer is streamed. Raises ApiError."""
        call = self._call
        if self._body is None:
            self._body = await call.read_body()
        if call.route.dialect == "responses":
            unhooked, issued = call.services.config.routes.unhooked, call.caller.issued is not None
            await call.steps.run(partial(check_stored_content, self._body, unhooked, issued=issued))
        if self._body.get("stream") is True:  # any other value than true and false is refused later
            call.begin_streaming()

    # ---- the request

    async def _judge_request(self) -> Ended | None:
        """Read the request, run its hooks, and encode it. Returns what ends the call here, if anything."""
        call, route, adapter, steps = self._call, self._call.route, self._adapter, self._call.steps
        client_body, self._body = self._body, None
        if client_body is None:
            client_body = await call.read_body(has_turns=True)
        for observer in call.observers:
            observer.on_request(client_body)
        model, body = await steps.run(self._decode, client_body)
        call.remember_turns(body)
        await call.name_model(model)
        session_in_body = adapter.session(client_body)
        judge, open_session = await call.begin(self._engine, body, session_in_body, generates=True)
        reported = call.reported_kinds(open_session)
        other_fields = adapter.other_fields(client_body)
        check_results = partial(check_bypass, call, judge, open_session)
        judged = await judge_request(
            judge, open_session, reported, model, body, other_fields, check_results, streamed=route.streamed
        )
        if isinstance(judged, Ended):
            return judged
        request, new_body, new_fields = judged
        await call.name_model(request.model)
        if new_body is not body:
            await call.expect_use(judge.session, new_body)
        if new_fields is not other_fields:
            client_body = {k: v for k, v in client_body.items() if k not in other_fields} | new_fields
        if (transcripts := call.services.transcripts) is not None:
            call.observers.append(SessionTranscript(transcripts, open_session))
        self._judge, self._request = judge, request
        self._payload = await steps.run(self._encode, client_body, with_model(route, request.model, new_body))
        for observer in call.observers:
            await observer.save()
        if call.record.content is None:  # otherwise the parsed request is needed later
            memory = call.request.memory_lease
            memory.resize(len(self._payload) + (memory.size if request.llm_request.value else 0))
        return None

    def _decode(self, client_body: JsonObject) -> tuple[str, JsonObject]:
        """Return the checked model and request in the client's body. Raises ApiError if they are invalid."""
        call, route, adapter = self._call, self._call.route, self._adapter
        model, body = decode_request_body(adapter, route, client_body, call.turns)
        check_model(route, model, body)
        check_references(body, call.services.config, adapter.place, call.turns)
        return model, body

    def _encode(self, client_body: JsonObject, body: JsonObject) -> bytes:
        """Return the request as it is sent upstream, and show it to the observers."""
        model = self._request.model
        encoded = self._adapter.encode_request(client_body, model, body)
        for observer in self._call.observers:
            observer.on_upstream_request(model, encoded, body)
        return dumps_with_turns(encoded, self._call.turns)

    # ---- the answers

    async def _ask_model(self, reply: Reply) -> Ended | None:
        """Call the model, and ask it again if a hook blocks a tool call or rejects the final answer.

        `ToolGate.judge_response` and `TurnEndEvents.turn_ended` decide that, and the configuration how often.
        Returns what ends the call, unless an answer was delivered.
        """
        call, tools = self._call, self._call.services.config.tools
        route = call.route.for_model(self._request.model)
        headers = to_upstream(call.request.headers, "identity") | {hdrs.CONTENT_TYPE: "application/json"}
        delivery = AnswerDelivery(call, reply)
        times_asked_again, answer_rejected = 0, False
        state, sent = self._judge.session.call_state, SentText()
        prefilled = state.prefilled
        while True:
            state.prefilled = prefilled + sent.read(thought=False)
            state.earlier_thoughts = sent.read(thought=True)
            pipeline = AnswerPipeline(
                self._judge,
                self._request,
                self._adapter,
                call.steps,
                ends_turn=self._ends_turn,
                ask_again_rules=AskAgainRules(
                    may_ask_again=times_asked_again < tools.ask_again_at_most,
                    unselected_asks_again=tools.refused == "ask_again",
                    answer_rejected=answer_rejected,
                ),
                keep_answer=any(observer.wants_answer for observer in call.observers),
                observers=call.observers,
                sent=sent,
            )
            instead = None  # `ask_upstream` ends quietly if the upstream cuts off what is being sent
            try:
                async with delivery.ask_upstream(route, headers, self._payload) as answer:
                    instead = await delivery.deliver(answer, pipeline)
            finally:
                pipeline.close()
            if not isinstance(instead, AskAgain):
                return instead
            times_asked_again += 1
            answer_rejected = answer_rejected or instead.answer_rejected
            # Closing the pipeline has made `steps.work` the request's again; the turns contain the answer.
            work = max(call.steps.work, pipeline.read_bytes)
            self._payload = await call.steps.run_for(work, self._with_turns, route, instead.turns)
            if reply.framing is not None:
                reply.framing.reset_decoder()

    def _with_turns(self, route: Route, turns: list[JsonObject]) -> bytes:
        """Return the request that was sent with `turns` appended to its conversation.

        Raises ApiError (502) if the model's turn cannot be part of a request.
        """
        sent = loads(self._payload)
        try:
            model, body = self._adapter.decode_request(route, sent)
            body = write(body, "contents", [*read_list(body, "contents"), *turns])
            return dumps(self._adapter.encode_request(sent, model, body))
        except BodyError as error:
            raise unreadable_answer(str(error)) from None
