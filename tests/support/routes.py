"""What the tests of the route table share."""

from collections.abc import Collection

import pytest

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routing.table import match

CALL = "/v1beta/models/gemini-2.5-flash:generateContent"
PLACE = "/v1beta1/projects/p/locations/l"


def refused(target: str, method: str = "POST", unhooked: Collection[str] = ()) -> ApiError:
    """The refusal of a request."""
    with pytest.raises(ApiError) as refusal:
        match(method, target, unhooked)
    return refusal.value
