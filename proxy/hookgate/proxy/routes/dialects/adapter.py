"""What each adapter implements: reading the bodies of its dialect for hooks, and writing them again."""

from typing import Protocol

from hookgate.proxy.routes.table import Route
from hookgate.translator import Framing
from hookgate.translator.fields import JsonObject
from hookgate.translator.streaming.sources import TextSources


class DialectAdapter(Protocol):
    """Converts the bodies of one dialect to those of generateContent, and back.

    Values that hooks leave unchanged keep their identity.

    One object serves one call.
    """

    wraps_answers: bool
    """Whether `decode_answer` returns anything else than the body itself."""
    is_native: bool
    """Whether answers, perhaps in an envelope, are those of generateContent."""
    counts_bytes: bool
    """Whether the offsets of annotations count bytes of UTF-8 rather than characters."""

    def decode_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        """Return the model and the GenerateContentRequest. Raises BodyError if the body is invalid."""

    def place(self, path: str) -> str:
        """Return the path in the client's body of a part of the request that was decoded, for errors."""

    def encode_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        """Return the body with the given model and request."""

    def other_fields(self, body: JsonObject) -> JsonObject:
        """Return the fields of a body other than its model and its request."""

    def session(self, body: JsonObject) -> str:
        """Return the name of the session in the body, or an empty string."""

    def decode_answer(self, body: JsonObject) -> JsonObject:
        """Return the GenerateContentResponse."""

    def text_sources(self, body: JsonObject) -> TextSources:
        """Return the sources of the texts of an answer or event, in order."""

    def encode_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        """Return the body with the given response."""

    def answer(self, inner: JsonObject) -> JsonObject:
        """Return the body of a synthetic answer."""

    def failure(self, message: str) -> JsonObject:
        """Return the body that tells the client why a stream that has begun ends here."""

    def framing_for(self, route: Route) -> Framing | None:
        """Return the framing of the answer if it is streamed; None for a call with one whole answer.

        To be called before the bodies of the call are read or written, which may depend on it.
        """
