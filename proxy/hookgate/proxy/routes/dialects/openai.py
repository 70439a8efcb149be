"""The bodies of chat completions and of the Responses API, OpenAI's dialects, which name the model."""

import time
from abc import ABC, abstractmethod
from collections.abc import Collection
from typing import Protocol

from hookgate.proxy.errors import ApiError, body_refused, policy_denied
from hookgate.proxy.routes.dialects.generate_content import named_model, with_model
from hookgate.proxy.routes.table import Route
from hookgate.translator import BodyError, Framing, text_response
from hookgate.translator.chat import (
    ChatRequest,
    CompletionChunks,
    completion_sources,
    decode_completion,
    encode_completion,
    new_completion,
    with_usage,
)
from hookgate.translator.fields import JsonObject
from hookgate.translator.responses import (
    ResponseEvents,
    ResponseRequest,
    decode_response,
    decode_response_event,
    encode_response,
    encode_response_event,
    held_content,
    new_response,
    response_sources,
)
from hookgate.translator.streaming.sources import TextSources


class OpenAIRequest(Protocol):
    """A request of a dialect, as the translator shows and edits it."""

    body: JsonObject
    named: str
    shown: JsonObject

    def edited(self, model: str, request: JsonObject) -> JsonObject:
        """Return the body with the model and the edited request. Raises BodyError."""

    def place(self, path: str) -> str:
        """Return the path in the body of a part of the request that hooks are shown."""


class OpenAIBodies(ABC):
    """What the dialects have in common: the bodies name the model, and answers have a time."""

    wraps_answers = True
    is_native = False
    counts_bytes = False
    what = ""
    """What errors call an object of the API, such as "a chat completion"."""

    def __init__(self) -> None:
        self._route: Route
        self._request: OpenAIRequest | None = None
        self._model = ""

    # ---- a dialect's own

    @abstractmethod
    def read_request(self, body: JsonObject) -> OpenAIRequest:
        """Return the request in a body. Raises BodyError."""

    @abstractmethod
    def decode_answer(self, body: JsonObject) -> JsonObject:
        """Return the GenerateContentResponse."""

    @abstractmethod
    def text_sources(self, body: JsonObject) -> TextSources:
        """Return the sources of the texts of an answer or event."""

    @abstractmethod
    def edit_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        """Return the body with the given response. Raises BodyError."""

    @abstractmethod
    def new_answer(self, inner: JsonObject, model: str, created: int) -> JsonObject:
        """Return the body of a synthetic answer, made at `created` seconds since 1970. Raises BodyError."""

    @abstractmethod
    def framing_for(self, route: Route) -> Framing | None:
        """Return the framing of a streamed answer; None for a call with one whole answer."""

    # ---- DialectAdapter

    def decode_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        self._route, self._request = route, self.read_request(body)
        self._model = self._request.named
        return named_model(route, body), self._request.shown

    def place(self, path: str) -> str:
        return path if self._request is None else self._request.place(path)

    def encode_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        if self._request is None or self._request.body is not body:
            self._request = self.read_request(body)
        self._model = with_model(self._route, model, body)["model"]
        try:
            return self._request.edited(self._model, inner)
        except BodyError as error:
            raise policy_denied(self._no_place(error), "BeforeModel") from None

    def other_fields(self, body: JsonObject) -> JsonObject:
        return {}

    def session(self, body: JsonObject) -> str:
        return ""

    def encode_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        try:
            return self.edit_answer(body, inner)
        except BodyError as error:
            raise policy_denied(self._no_place(error), "AfterModel") from None

    def answer(self, inner: JsonObject) -> JsonObject:
        try:
            return self.new_answer(inner, self._model, int(time.time()))
        except BodyError as error:
            raise policy_denied(self._no_place(error), "AfterModel") from None

    def failure(self, message: str) -> JsonObject:
        return self.answer(text_response(message))

    def _no_place(self, error: BodyError) -> str:
        return f"A hook's edit cannot be sent with {self.what}: {error}"


class ChatCompletions(OpenAIBodies):
    """The bodies of chat completions."""

    what = "a chat completion"

    def __init__(self) -> None:
        super().__init__()
        self._framing: CompletionChunks | None = None

    def read_request(self, body: JsonObject) -> ChatRequest:
        return ChatRequest(body)

    def encode_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        new = super().encode_request(body, model, inner)
        if self._framing is None:
            return new
        if type(number := new.get("n")) is int:
            self._framing.expect_choices(number)
        # Limits count the tokens of streams, too, which report them only if the request asks for them.
        if (asking := with_usage(new)) is new:
            return new
        self._framing.hide_usage()
        return asking

    def decode_answer(self, body: JsonObject) -> JsonObject:
        return decode_completion(body)

    def text_sources(self, body: JsonObject) -> TextSources:
        return completion_sources(body)

    def edit_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return encode_completion(body, inner)

    def new_answer(self, inner: JsonObject, model: str, created: int) -> JsonObject:
        return new_completion(inner, model, created)

    def framing_for(self, route: Route) -> Framing | None:
        self._framing = CompletionChunks() if route.streamed else None
        return self._framing


class Responses(OpenAIBodies):
    """The bodies of the Responses API."""

    what = "a response"

    def __init__(self) -> None:
        super().__init__()
        self._streams = False

    def read_request(self, body: JsonObject) -> ResponseRequest:
        return ResponseRequest(body)

    def decode_answer(self, body: JsonObject) -> JsonObject:
        return decode_response_event(body) if self._is_event(body) else decode_response(body)

    def text_sources(self, body: JsonObject) -> TextSources:
        return response_sources(body)

    def edit_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return encode_response_event(body, inner) if self._is_event(body) else encode_response(body, inner)

    def _is_event(self, body: JsonObject) -> bool:
        return self._streams and ("type" in body or "events" in body)

    def new_answer(self, inner: JsonObject, model: str, created: int) -> JsonObject:
        return new_response(inner, model, created)

    def framing_for(self, route: Route) -> Framing | None:
        self._streams = route.streamed
        return ResponseEvents() if route.streamed else None


def check_stored_content(body: JsonObject, unhooked: Collection[str], *, issued: bool) -> None:
    """Check a body that creates a response for references to what the API stores, which hooks cannot judge.

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
