"""The requests that one body contains, as in a batch: each is judged by itself, and all have one model."""

from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from hookgate.hooks import BeforeModel
from hookgate.proxy.call.context import CallContext
from hookgate.proxy.errors import ApiError, body_refused, policy_denied
from hookgate.proxy.routing.dialects.generate_content import check_model, check_references
from hookgate.translator import BodyError, check_request
from hookgate.translator.fields import JsonObject

T = TypeVar("T")


async def check_item(context: CallContext, model: str, holder: JsonObject, request: JsonObject) -> None:
    """Check a request before its hooks run. `holder` is the object in the body that may name its model.

    Raises ApiError if it names another model than `model`, could be read in two ways, or refers to what hooks
    cannot judge.
    """
    check_model(context.route, model, holder)
    try:
        await context.run_step(check_request, request)
    except BodyError as error:
        raise body_refused(error) from None
    await context.run_step(check_references, request, context.services.config)


async def judge_items(
    items: Iterable[tuple[str, T]], judge: Callable[[T], Awaitable[tuple[str, JsonObject]]]
) -> tuple[set[str], list[JsonObject]]:
    """Return the models and the requests that `judge` returns for the items. Each item comes with its path.

    Raises ApiError with the path of the item that is refused.
    """
    models: set[str] = set()
    requests: list[JsonObject] = []
    for path, item in items:
        try:
            model, request = await judge(item)
        except ApiError as error:
            raise error.at(path) from None
        models.add(model)
        requests.append(request)
    return models, requests


def only_model(models: set[str], default: str) -> str:
    """Return the model that hooks chose for all requests, or `default` if there is none. Raises ApiError."""
    if len(models) > 1:
        names = ", ".join(sorted(models))
        raise policy_denied(f"Hooks chose more than one model for this call: {names}.", BeforeModel.name)
    return next(iter(models), default)
