"""What the dialects of OpenAI have in common: bodies that name the model, and answers with a time."""

import time
from abc import ABC, abstractmethod
from typing import Protocol

from hookgate.proxy.errors import policy_denied
from hookgate.proxy.routing.dialects.adapter import UsageFormat
from hookgate.proxy.routing.dialects.generate_content import named_model, with_model
from hookgate.proxy.routing.table import Route
from hookgate.translator import BodyError, Framing, text_response
from hookgate.translator.fields import JsonObject


class OpenAIRequest(Protocol):
    """A request of a dialect, as the translator shows and edits it."""

    body: JsonObject
    named: str
    shown: JsonObject

    def edited(self, model: str, request: JsonObject) -> JsonObject:
        """Return the body with the model and the edited request. Raises BodyError."""


class OpenAIBodies(ABC):
    """The bodies of one call in a dialect of OpenAI's."""

    usage_format: UsageFormat

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
    def open_answer(self, body: JsonObject) -> JsonObject:
        """Return the GenerateContentResponse."""

    @abstractmethod
    def edit_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        """Return the body with the given response. Raises BodyError."""

    @abstractmethod
    def new_answer(self, inner: JsonObject, model: str, created: int) -> JsonObject:
        """Return the body of a synthetic answer, made at `created` seconds since 1970. Raises BodyError."""

    @abstractmethod
    def framing(self, route: Route) -> Framing | None:
        """Return the framing of a streamed answer; None for a call with one whole answer."""

    # ---- DialectAdapter

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        self._route, self._request = route, self.read_request(body)
        self._model = self._request.named
        return named_model(route, body), self._request.shown

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
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

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
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
