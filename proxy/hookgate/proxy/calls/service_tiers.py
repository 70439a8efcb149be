"""The service tier of a call, which decides what its tokens cost."""

from typing import Any

from multidict import MultiMapping

from hookgate.translator.fields import JsonObject, read, read_object

ANSWERED_TIER = "x-gemini-service-tier"
"""The header of an answer that names the tier in which it was given."""

_FIELD = "serviceTier"
_HEADERS = ("x-vertex-ai-llm-shared-request-type", "x-vertex-ai-llm-request-type")
"""The headers that choose a tier of Vertex AI."""

_NOT_MORE = frozenset(
    {
        *("", "0", "auto", "default", "flex", "standard", "unspecified"),
        *("batch", "dedicated", "shared"),
    }
)
"""The names of tiers that cost no more than the list prices, and of Vertex AI's other types of requests."""


def asks_for_priority(body: JsonObject, headers: MultiMapping[str]) -> bool:
    """Return whether a request asks for the tier `priority`. `body` is its body in any dialect."""
    holders = body, read_object(body, "request")
    named = [tier for name in _HEADERS for tier in headers.getall(name, ())]  # the last one may be sent
    asked = [*(read(holder, _FIELD) for holder in holders), *named]
    return any(tier is not None and is_priority(tier) for tier in asked)


def is_priority(tier: Any) -> bool:
    """Return whether a service tier is `priority`, or one whose price is not known."""
    return str(tier).lower().removeprefix("service_tier_") not in _NOT_MORE
