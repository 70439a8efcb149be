"""Where a call's request and answers stand in its bodies: bare, or in Code Assist's envelopes. Pure."""

from typing import Protocol

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes import Route
from hookgate.translator import BodyError, check_request
from hookgate.translator.fields import JsonObject
from hookgate.translator.wrappers import (
    rewrap_request,
    rewrap_response,
    session_of,
    unwrap_request,
    unwrap_response,
    wrap_response,
)


class Envelope(Protocol):
    """Opens the bodies of one API for hooks and closes them again; what nothing changed stays the object."""

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        """The model and the GenerateContentRequest. Raises BodyError."""

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        """The body with another model or request in it."""

    def beside(self, body: JsonObject) -> JsonObject:
        """The fields of a body that stand beside its model and its request."""

    def session(self, body: JsonObject) -> str:
        """The session that the body names, or an empty text."""

    def open_answer(self, body: JsonObject) -> JsonObject:
        """The GenerateContentResponse."""

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        """The body with another response in it."""

    def answer(self, inner: JsonObject) -> JsonObject:
        """The body of an answer that no model gave."""


class Bare:
    """The Gemini API and Vertex: the model is in the path, or a tuned model's own."""

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        return route.model, body

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        return inner

    def beside(self, body: JsonObject) -> JsonObject:
        return {}

    def session(self, body: JsonObject) -> str:
        return ""

    def open_answer(self, body: JsonObject) -> JsonObject:
        return body

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return inner

    def answer(self, inner: JsonObject) -> JsonObject:
        return inner


class CodeAssist:
    """Code Assist: model and session are in the body, request and response inside."""

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        return unwrap_request(body)

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        return rewrap_request(body, model, inner)

    def beside(self, body: JsonObject) -> JsonObject:
        return {name: value for name, value in body.items() if name not in ("model", "request")}

    def session(self, body: JsonObject) -> str:
        return session_of(body)

    def open_answer(self, body: JsonObject) -> JsonObject:
        return unwrap_response(body)

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return rewrap_response(body, inner)

    def answer(self, inner: JsonObject) -> JsonObject:
        return wrap_response(inner)


def envelope_of(route: Route) -> Envelope:
    """The envelope that the route's API uses."""
    return CodeAssist() if route.api == "code_assist" else Bare()


def opened(envelope: Envelope, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
    """The model and the request in a body, both checked. Raises ApiError."""
    try:
        model, inner = envelope.open_request(route, body)
        return model, check_request(inner)
    except BodyError as error:
        raise ApiError(error.status, f"hookgate refuses the request body: {error}", "BODY_REFUSED") from None
