"""The hooks before a call: BeforeModel, then BeforeToolSelection, on one request."""

from hookgate.hooks import BeforeModel, BeforeToolSelection
from hookgate.proxy.call import Call, end_with, told
from hookgate.proxy.records import Firing
from hookgate.translator import apply_tool_config, apply_tools, callable_names
from hookgate.translator.fields import JsonObject


async def before_model(firing: Firing, call: Call, model: str, body: JsonObject) -> tuple[str, JsonObject]:
    """The model and the request as hooks leave them. Raises Answered and ApiError."""
    event = await _judged(firing, call, BeforeModel(model, body))
    return event.model, event.body


async def before_wrapped_model(
    firing: Firing, call: Call, model: str, body: JsonObject, outer: JsonObject
) -> tuple[str, JsonObject, JsonObject]:
    """The same for a request in the envelope `outer`, which comes back with what hooks made of its rest."""
    beside = call.envelope.beside(outer)
    event = await _judged(firing, call, BeforeModel(model, body, beside))
    if event.beside is not beside:
        outer = {name: value for name, value in outer.items() if name not in beside} | event.beside
    return event.model, event.body, outer


async def _judged(firing: Firing, call: Call, event: BeforeModel) -> BeforeModel:
    outcome = await firing.fire(event, call.session)
    end_with(told(outcome.verdict, BeforeModel.name, call))
    return outcome.event


async def before_tool_selection(
    firing: Firing, call: Call, model: str, body: JsonObject
) -> tuple[JsonObject, frozenset[str] | None]:
    """The request with the tools that hooks selected, and their names when any hook did.

    Raises Answered and ApiError.
    """
    outcome = await firing.fire(BeforeToolSelection(model, body), call.session)
    verdict = outcome.verdict
    end_with(told(verdict, BeforeToolSelection.name, call))
    if verdict.tools is None and verdict.tool_config is None:
        return body, None
    if verdict.tools is not None:
        body = apply_tools(body, verdict.tools)
    if verdict.tool_config is not None:
        body = apply_tool_config(body, verdict.tool_config)
    return body, callable_names(body)
