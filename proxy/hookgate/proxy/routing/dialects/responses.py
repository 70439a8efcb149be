"""The bodies of the Responses API, OpenAI's dialect, which name the model."""

from collections.abc import Collection

from hookgate.proxy.errors import ApiError, body_refused
from hookgate.proxy.routing.dialects.adapter import UsageFormat
from hookgate.proxy.routing.dialects.openai import OpenAIBodies
from hookgate.proxy.routing.table import Route
from hookgate.translator import BodyError, Framing
from hookgate.translator.fields import JsonObject
from hookgate.translator.responses import (
    ResponseEvents,
    ResponseRequest,
    close_response,
    close_response_event,
    held_content,
    new_response,
    open_response,
    open_response_event,
)


class Responses(OpenAIBodies):
    """The bodies of the Responses API."""

    usage_format: UsageFormat = "response"
    what = "a response"

    def __init__(self) -> None:
        super().__init__()
        self._streams = False

    def read_request(self, body: JsonObject) -> ResponseRequest:
        return ResponseRequest(body)

    def open_answer(self, body: JsonObject) -> JsonObject:
        return open_response_event(body) if self._is_event(body) else open_response(body)

    def edit_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return close_response_event(body, inner) if self._is_event(body) else close_response(body, inner)

    def _is_event(self, body: JsonObject) -> bool:
        return self._streams and ("type" in body or "events" in body)

    def new_answer(self, inner: JsonObject, model: str, created: int) -> JsonObject:
        return new_response(inner, model, created)

    def framing(self, route: Route) -> Framing | None:
        self._streams = route.streamed
        return ResponseEvents() if route.streamed else None


def check_held_content(body: JsonObject, unhooked: Collection[str], *, issued: bool) -> None:
    """Check a body that creates a response for references to what the API holds, which hooks cannot judge.

    `unhooked` has the groups of routes that are forwarded unjudged. With `issued`, the gateway issued the
    caller's key, which must not read what other keys have stored in the gateway's Google project.
    Raises ApiError (403), with the field and the remedy, or ApiError (400) for a field spelled otherwise.
    """
    try:
        held = held_content(body)
    except BodyError as error:
        raise body_refused(error, error.status) from None
    if held is not None and (issued or "openai" not in unhooked):
        field, reason = held
        setting = "" if issued else ', or set routes.unhooked = ["openai"] in hookgate.toml to allow it'
        raise ApiError(403, f"{field}: {reason}{setting}.", "ROUTE_NOT_ALLOWED")
