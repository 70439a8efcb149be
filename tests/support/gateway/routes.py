"""Helpers for the tests of the route table."""

from collections.abc import Collection

import pytest

from hookgate.proxy.config.models import Unhooked
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.table import match
from hookgate.translator import ITEM_METHODS

CALL = "/v1beta/models/gemini-2.5-flash:generateContent"
PLACE = "/v1beta1/projects/p/locations/l"


def refused(target: str, method: str = "POST", unhooked: Collection[str] = ()) -> ApiError:
    """The refusal of a request."""
    with pytest.raises(ApiError) as refusal:
        match(method, target, unhooked)
    return refusal.value


def treatment(method: str, target: str) -> str:
    """What the gateway does with a request, in the words of the docs."""
    groups: tuple[Unhooked, ...] = ("interactions", "openai", "live", "predict", "agents")
    try:
        route = match(method, target)
    except ApiError:
        pass
    else:
        inputs = ", input only" if route.verb in ITEM_METHODS - {"batchGenerateContent"} else ""
        return f"{route.kind}{inputs}"
    try:
        match(method, target, files="forward")
        return "files"
    except ApiError:
        pass
    try:
        return f"`{match(method, target, groups).unhooked}`"
    except ApiError:
        return "refused"
