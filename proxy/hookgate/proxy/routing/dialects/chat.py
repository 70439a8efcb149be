"""The bodies of chat completions, OpenAI's dialect, which name the model."""

import time

from hookgate.proxy.errors import policy_denied
from hookgate.proxy.routing.dialects.envelope import UsageFormat
from hookgate.proxy.routing.dialects.generate_content import named_model
from hookgate.proxy.routing.table import Route
from hookgate.translator import BodyError, Framing, text_response
from hookgate.translator.chat import (
    ChatRequest,
    CompletionChunks,
    close_completion,
    new_completion,
    open_completion,
    with_usage,
)
from hookgate.translator.fields import JsonObject

_NO_PLACE = "A hook's edit cannot be sent with a chat completion: {}"
_COLLECTIONS = ("models/", "google/")
"""What may precede the name of a model: the first at the Gemini API, the second at Vertex AI."""


class ChatCompletions:
    """The bodies of chat completions."""

    usage_format: UsageFormat = "openai"

    def __init__(self) -> None:
        self._request: ChatRequest | None = None
        self._model = ""
        self._framing: CompletionChunks | None = None

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        self._request = ChatRequest(body)
        self._model = self._request.named
        _, name = _split(self._model)
        return named_model(route, {"model": name}), self._request.shown

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        if self._request is None or self._request.body is not body:
            self._request = ChatRequest(body)
        collection, name = _split(self._request.named)
        self._model = self._request.named if name == model else f"{collection}{model}"
        try:
            new = self._request.edited(self._model, inner)
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "BeforeModel") from None
        # Limits count the tokens of streams, too, which report them only if the request asks for them.
        if self._framing is None or (asking := with_usage(new)) is new:
            return new
        self._framing.hide_usage()
        return asking

    def other_fields(self, body: JsonObject) -> JsonObject:
        return {}

    def session(self, body: JsonObject) -> str:
        return ""

    def open_answer(self, body: JsonObject) -> JsonObject:
        return open_completion(body)

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        try:
            return close_completion(body, inner)
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "AfterModel") from None

    def answer(self, inner: JsonObject) -> JsonObject:
        try:
            return new_completion(inner, self._model, int(time.time()))
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "AfterModel") from None

    def failure(self, message: str) -> JsonObject:
        return self.answer(text_response(message))

    def framing(self, route: Route) -> Framing | None:
        self._framing = CompletionChunks() if route.streamed else None
        return self._framing


def _split(named: str) -> tuple[str, str]:
    """Return the collection before the name of a model, which may be empty, and the name."""
    for collection in _COLLECTIONS:
        if named.startswith(collection):
            return collection, named.removeprefix(collection)
    return "", named
