"""One judged call, from the client's request to the end of its answer, in the order its bytes travel."""

from dataclasses import dataclass

import aiohttp
from aiohttp import hdrs, web

from hookgate.hooks import AfterModel, BeforeModel, BeforeToolSelection, Engine
from hookgate.hooks.document import Encoded
from hookgate.proxy.bodies import read_answer, read_frames, read_request
from hookgate.proxy.call import Call, call_of, told
from hookgate.proxy.errors import ApiError
from hookgate.proxy.headers import to_client, to_upstream
from hookgate.proxy.reply import Patience, Reply
from hookgate.proxy.routes import Route
from hookgate.proxy.upstream import Upstream, UpstreamError
from hookgate.translator import (
    Framing,
    JsonArray,
    ServerSentEvents,
    apply_tool_config,
    apply_tools,
    show_request,
)
from hookgate.translator.fields import JsonObject, read
from hookgate.translator.strictjson import dumps


class Answered(Exception):  # noqa: N818  # it ends a call, but not as an error
    """The hooks answer in the model's place; the upstream is not, or no longer, needed."""

    def __init__(self, answer: JsonObject) -> None:
        self.answer = answer


@dataclass(frozen=True, slots=True)
class Outgoing:
    """A call as it goes upstream. The parsed body is gone: what waits for the upstream is small."""

    call: Call
    route: Route
    model: str
    payload: bytes
    llm_request: Encoded | None
    """What AfterModel hooks are shown of the request; None when there are no such hooks."""


class Exchange:
    """Carries one judged call: hooks before, the upstream, hooks after, all under one engine."""

    def __init__(self, engine: Engine, upstream: Upstream, patience: Patience) -> None:
        self._engine = engine
        self._upstream = upstream
        self._patience = patience

    async def run(self, request: web.BaseRequest, route: Route) -> web.StreamResponse:
        """Answer the request, whatever happens on the way."""
        reply = Reply(request, _framing(route))
        async with reply.kept_alive(self._patience):
            try:
                outgoing = await self._before(request, route)
                await self._forward(request, outgoing, reply)
            except Answered as answered:
                await reply.answer(answered.answer)
            except ApiError as error:
                await reply.refuse(error)
        return await reply.finish()

    # ---- read, BeforeModel, BeforeToolSelection

    async def _before(self, request: web.BaseRequest, route: Route) -> Outgoing:
        body = await read_request(request)
        call = call_of(route, request.headers, body)
        model, body = await self._before_model(call, route.model, body)
        body = await self._before_tool_selection(call, model, body)
        inspected = self._engine.listens_to(AfterModel.name)
        shown = Encoded(show_request(model, body)) if inspected else None
        return Outgoing(call, route.for_model(model), model, dumps(body), shown)

    async def _before_model(self, call: Call, model: str, body: JsonObject) -> tuple[str, JsonObject]:
        outcome = await self._engine.fire(BeforeModel(model, body), call.session)
        _end_with(told(outcome.verdict, BeforeModel.name, call))
        return outcome.event.model, outcome.event.body

    async def _before_tool_selection(self, call: Call, model: str, body: JsonObject) -> JsonObject:
        outcome = await self._engine.fire(BeforeToolSelection(model, body), call.session)
        verdict = outcome.verdict
        _end_with(told(verdict, BeforeToolSelection.name, call))
        if verdict.tools is not None:
            body = apply_tools(body, verdict.tools)
        return body if verdict.tool_config is None else apply_tool_config(body, verdict.tool_config)

    # ---- forward

    async def _forward(self, request: web.BaseRequest, outgoing: Outgoing, reply: Reply) -> None:
        headers = {**to_upstream(request.headers, "identity"), hdrs.CONTENT_TYPE: "application/json"}
        sending = self._upstream.open(
            hdrs.METH_POST, outgoing.route, headers, outgoing.payload, decompress=True
        )
        try:
            async with sending as answer:
                await self._after(answer, outgoing, reply)
        except UpstreamError as error:
            if not reply.started:
                raise error.as_api_error() from None
            reply.cut()

    # ---- AfterModel, answer

    async def _after(self, answer: aiohttp.ClientResponse, outgoing: Outgoing, reply: Reply) -> None:
        headers = to_client(answer.headers)
        if answer.status != 200:
            await self._pass_error(answer, reply)
        elif reply.framing is None:
            data = await answer.read()
            await reply.send(200, headers, await self._after_model(data, outgoing))
        else:
            reply.use_headers(headers)
            if outgoing.llm_request is None:
                await self._copy(answer, reply)
            else:
                await self._stream(answer, outgoing, reply, reply.framing)

    async def _stream(
        self, answer: aiohttp.ClientResponse, outgoing: Outgoing, reply: Reply, framing: Framing
    ) -> None:
        async for frame in read_frames(answer, framing):
            await reply.write(framing.encode(frame, await self._after_model(frame.data, outgoing)))

    async def _copy(self, answer: aiohttp.ClientResponse, reply: Reply) -> None:
        reply.copy_on()
        async for chunk in answer.content.iter_any():
            await reply.write(chunk)

    async def _after_model(self, data: bytes, outgoing: Outgoing) -> bytes:
        """A whole answer or one event after the hooks: the very same bytes when they changed nothing."""
        if outgoing.llm_request is None or not data:
            return data
        body = read_answer(data)
        if "error" in body and read(body, "candidates") is None:
            return data
        outcome = await self._engine.fire(
            AfterModel(outgoing.llm_request, body, outgoing.model), outgoing.call.session
        )
        _end_with(told(outcome.verdict, AfterModel.name, outgoing.call))
        return data if outcome.event.body is body else dumps(outcome.event.body)

    async def _pass_error(self, answer: aiohttp.ClientResponse, reply: Reply) -> None:
        """The upstream's error as it came; as text where the stream had to start already."""
        body = await answer.read()
        if reply.started:
            raise ApiError(
                502, f"The upstream answered {answer.status}: {body.decode(errors='replace')[:500]}"
            )
        await reply.send(answer.status, to_client(answer.headers), body)


def _framing(route: Route) -> Framing | None:
    if not route.streamed:
        return None
    return ServerSentEvents() if route.alt == "sse" else JsonArray()


def _end_with(what: JsonObject | ApiError | None) -> None:
    """End the call here with what the client is told, if there is anything."""
    if isinstance(what, ApiError):
        raise what
    if what is not None:
        raise Answered(what)
