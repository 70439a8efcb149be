"""OpenAI's dialects: the body says whether to stream the answer, so it is read first."""

from aiohttp import web

from hookgate.proxy.calls.context import CallContext, RecordingEngine
from hookgate.proxy.calls.generation import GenerationCall, IncomingRequest
from hookgate.proxy.routes.dialects import ADAPTERS
from hookgate.proxy.routes.dialects.openai import check_held_content


async def answer_openai(context: CallContext, engine: RecordingEngine) -> web.StreamResponse:
    """Answer the request. Raises ApiError if it is refused or the upstream fails."""
    body = await context.read_body()
    if context.route.dialect == "responses":
        issued = context.caller.issued is not None
        check_held_content(body, context.services.config.routes.unhooked, issued=issued)
    if body.get("stream") is True:  # any other value than true and false is refused later
        context.begin_streaming()
    incoming = IncomingRequest(body, ADAPTERS[context.route.dialect]())
    return await GenerationCall(context, engine, incoming).run()
