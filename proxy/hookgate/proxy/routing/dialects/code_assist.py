"""The bodies of Code Assist, which contain those of generateContent."""

from hookgate.proxy.routing.dialects.generate_content import GenerateContent
from hookgate.proxy.routing.table import Route, session_name_in_body
from hookgate.translator import text_response
from hookgate.translator.code_assist import (
    enveloped_session,
    rewrap_request,
    rewrap_response,
    unwrap_request,
    unwrap_response,
    wrap_response,
)
from hookgate.translator.fields import JsonObject


class CodeAssist(GenerateContent):
    """The bodies of Code Assist, which contain model, session, and request or response."""

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        return unwrap_request(body)

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        return rewrap_request(body, model, inner)

    def other_fields(self, body: JsonObject) -> JsonObject:
        return {name: value for name, value in body.items() if name not in ("model", "request")}

    def session(self, body: JsonObject) -> str:
        return session_name_in_body(enveloped_session(body))

    def open_answer(self, body: JsonObject) -> JsonObject:
        return unwrap_response(body)

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return rewrap_response(body, inner)

    def answer(self, inner: JsonObject) -> JsonObject:
        return wrap_response(inner)

    def failure(self, message: str) -> JsonObject:
        return wrap_response(text_response(message))
