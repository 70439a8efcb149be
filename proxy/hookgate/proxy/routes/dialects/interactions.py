"""The bodies of the Interactions API."""

from collections.abc import Collection

from hookgate.proxy.errors import ApiError, body_refused, policy_denied
from hookgate.proxy.routes.dialects.generate_content import named_model
from hookgate.proxy.routes.table import Route
from hookgate.translator import BodyError, Framing, text_response
from hookgate.translator.fields import JsonObject, read, snake
from hookgate.translator.interactions import (
    InteractionEvents,
    InteractionRequest,
    InteractionSources,
    check_names,
    check_steps_of_user,
    decode_event,
    decode_interaction,
    encode_event,
    encode_interaction,
    new_interaction,
)
from hookgate.translator.streaming.sources import TextSources

_NO_PLACE = "A hook's edit cannot be sent with an interaction: {}"


class Interactions:
    """The bodies of the Interactions API, which name the model or an agent."""

    wraps_answers = True
    is_native = False
    counts_bytes = True

    def __init__(self, earlier: JsonObject | None = None) -> None:
        """`earlier` is what hooks are shown of the interaction that the request continues."""
        self._earlier = earlier
        self._request: InteractionRequest | None = None
        self._sent: JsonObject | None = None
        """The request as it is sent; None for an interaction that is read."""
        self._model = ""
        self._sources = InteractionSources()

    def decode_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        self._request = InteractionRequest(body, self._earlier)
        self._model = named_model(route, {"model": self._request.named})
        return self._model, self._request.shown

    def place(self, path: str) -> str:
        return path if self._request is None else self._request.place(path)

    def encode_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        if self._request is None or self._request.body is not body:
            self._request = InteractionRequest(body)
        self._model = model
        try:
            self._sent = self._request.edited(model, inner)
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "BeforeModel") from None
        return self._sent

    def other_fields(self, body: JsonObject) -> JsonObject:
        return {}

    def session(self, body: JsonObject) -> str:
        return ""

    def decode_answer(self, body: JsonObject) -> JsonObject:
        if self._sent is not None:
            check_steps_of_user(body, self._sent)
        return decode_event(body) if "event_type" in body or "events" in body else decode_interaction(body)

    def text_sources(self, body: JsonObject) -> TextSources:
        return self._sources.sources_in(body)

    def encode_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        is_event = "event_type" in body or "events" in body
        try:
            return encode_event(body, inner) if is_event else encode_interaction(body, inner)
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "AfterModel") from None

    def answer(self, inner: JsonObject) -> JsonObject:
        try:
            return new_interaction(inner, self._model)
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "AfterModel") from None

    def failure(self, message: str) -> JsonObject:
        # SDKs pass an event `error` on to programs, most of which ignore it; a text is shown.
        return {**new_interaction(text_response(message), self._model), "status": "incomplete"}

    def framing_for(self, route: Route) -> Framing | None:
        return InteractionEvents() if route.streamed else None


_REFUSED = {
    "agent": "hooks cannot judge an agent that runs at Google with tools of its own; name a model",
    "agentConfig": "hooks cannot judge an agent that runs at Google with tools of its own; name a model",
    "environment": "hooks cannot judge what runs in an environment at Google; omit it",
}
"""Fields of an interaction that hooks cannot judge, with the reason and the remedy."""

_WEBHOOK = "webhook_config: a webhook would deliver answers that no hook has judged; omit it."


def check_interaction(body: JsonObject, unhooked: Collection[str]) -> None:
    """Check a body that creates an interaction for what hooks cannot judge.

    `unhooked` contains the groups of routes that are forwarded unjudged; webhooks are refused in any case.
    Raises ApiError (403), with the field and the remedy, or ApiError (400) for a field spelled otherwise.
    """
    try:
        check_names(body)
    except BodyError as error:
        raise body_refused(error) from None
    if not isinstance(read(body, "previousInteractionId"), str | None):
        raise body_refused("previous_interaction_id: must be a string")
    if read(body, "webhookConfig") is not None:
        raise ApiError(403, _WEBHOOK, "ROUTE_NOT_ALLOWED")
    for field, reason in _REFUSED.items():
        if read(body, field) is not None and "interactions" not in unhooked:
            setting = 'or set routes.unhooked = ["interactions"] in hookgate.toml to allow it'
            raise ApiError(403, f"{snake(field)}: {reason}, {setting}.", "ROUTE_NOT_ALLOWED")
