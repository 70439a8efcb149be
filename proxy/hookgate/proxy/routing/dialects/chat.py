"""The bodies of chat completions, OpenAI's dialect, which name the model."""

from hookgate.proxy.routing.dialects.adapter import UsageFormat
from hookgate.proxy.routing.dialects.openai import OpenAIBodies
from hookgate.proxy.routing.table import Route
from hookgate.translator import Framing
from hookgate.translator.chat import (
    ChatRequest,
    CompletionChunks,
    close_completion,
    new_completion,
    open_completion,
    with_usage,
)
from hookgate.translator.fields import JsonObject


class ChatCompletions(OpenAIBodies):
    """The bodies of chat completions."""

    usage_format: UsageFormat = "openai"
    what = "a chat completion"

    def __init__(self) -> None:
        super().__init__()
        self._framing: CompletionChunks | None = None

    def read_request(self, body: JsonObject) -> ChatRequest:
        return ChatRequest(body)

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        new = super().close_request(body, model, inner)
        # Limits count the tokens of streams, too, which report them only if the request asks for them.
        if self._framing is None or (asking := with_usage(new)) is new:
            return new
        self._framing.hide_usage()
        return asking

    def open_answer(self, body: JsonObject) -> JsonObject:
        return open_completion(body)

    def edit_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return close_completion(body, inner)

    def new_answer(self, inner: JsonObject, model: str, created: int) -> JsonObject:
        return new_completion(inner, model, created)

    def framing(self, route: Route) -> Framing | None:
        self._framing = CompletionChunks() if route.streamed else None
        return self._framing
