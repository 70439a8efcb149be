"""The dialects of the APIs: how to read and write their requests, answers and streams. It does no I/O.

A dialect shows its bodies as those of generateContent, on which hooks and the gateway work. A further one
needs a class here, and a module of the translator that converts its bodies in both directions.
"""

import re
from collections.abc import Collection, Iterator
from typing import Any, Protocol

from hookgate.proxy.config.models import RouteSettings
from hookgate.proxy.errors import ApiError, body_refused, policy_denied
from hookgate.proxy.routing.table import Route, session_name_in_body
from hookgate.translator import (
    MODEL_NAME,
    BodyError,
    Framing,
    JsonArray,
    ServerSentEvents,
    check_request,
    text_response,
)
from hookgate.translator.code_assist import (
    enveloped_session,
    rewrap_request,
    rewrap_response,
    unwrap_request,
    unwrap_response,
    wrap_response,
)
from hookgate.translator.fields import JsonObject, read, read_list, snake, write
from hookgate.translator.interactions import (
    InteractionEvents,
    InteractionRequest,
    check_names,
    close_event,
    close_interaction,
    new_interaction,
    open_event,
    open_interaction,
)

GENERATED = b"usageMetadata"
"""The field of a GenerateContentResponse with the tokens that it used."""


class Envelope(Protocol):
    """Unwraps the bodies of one API for hooks, and wraps them again; unchanged values keep their identity.

    One object serves one call.
    """

    usage_name: bytes
    """The field in which answers report the tokens that they used."""

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        """Return the model and the GenerateContentRequest. Raises BodyError if the body is invalid."""

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        """Return the body with the given model and request."""

    def beside(self, body: JsonObject) -> JsonObject:
        """Return the fields of a body other than its model and its request."""

    def session(self, body: JsonObject) -> str:
        """Return the name of the session in the body, or an empty string."""

    def open_answer(self, body: JsonObject) -> JsonObject:
        """Return the GenerateContentResponse."""

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        """Return the body with the given response."""

    def answer(self, inner: JsonObject) -> JsonObject:
        """Return the body of a synthetic answer."""

    def failure(self, message: str) -> JsonObject:
        """Return the body that tells the client why a stream that has begun ends here."""

    def framing(self, route: Route) -> Framing | None:
        """Return the framing of a streamed answer; None for a call with one whole answer."""


class Bare:
    """The bodies of the Gemini API and Vertex AI, which are not wrapped; the model is in the path.

    The APIs document no session. Antigravity sends one, as a field of the request, which is passed on.
    """

    usage_name = GENERATED

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        return route.model, body

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        return inner

    def beside(self, body: JsonObject) -> JsonObject:
        return {}

    def session(self, body: JsonObject) -> str:
        return session_name_in_body(read(body, "sessionId"))

    def open_answer(self, body: JsonObject) -> JsonObject:
        return body

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return inner

    def answer(self, inner: JsonObject) -> JsonObject:
        return inner

    def failure(self, message: str) -> JsonObject:
        return text_response(message)

    def framing(self, route: Route) -> Framing | None:
        if not route.streamed:
            return None
        return ServerSentEvents() if route.alt == "sse" else JsonArray()


class CodeAssist(Bare):
    """The bodies of Code Assist, which contain model, session, and request or response."""

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        return unwrap_request(body)

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        return rewrap_request(body, model, inner)

    def beside(self, body: JsonObject) -> JsonObject:
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


INTERACTIONS = frozenset({"createInteraction", "streamInteraction", "getInteraction", "cancelInteraction"})
"""The methods whose answers are interactions."""


class Interactions:
    """The bodies of the Interactions API, which name the model or an agent."""

    usage_name = b"usage"

    def __init__(self) -> None:
        self._request: InteractionRequest | None = None
        self._model = ""

    def open_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        self._request = InteractionRequest(body)
        self._model = named_model(route, {"model": self._request.named})
        return self._model, self._request.shown

    def close_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        if self._request is None or self._request.body is not body:
            self._request = InteractionRequest(body)
        self._model = model
        try:
            return self._request.edited(model, inner)
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "BeforeModel") from None

    def beside(self, body: JsonObject) -> JsonObject:
        return {}

    def session(self, body: JsonObject) -> str:
        return ""

    def open_answer(self, body: JsonObject) -> JsonObject:
        return open_event(body) if "event_type" in body or "events" in body else open_interaction(body)

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        is_event = "event_type" in body or "events" in body
        try:
            return close_event(body, inner) if is_event else close_interaction(body, inner)
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "AfterModel") from None

    def answer(self, inner: JsonObject) -> JsonObject:
        try:
            return new_interaction(inner, self._model)
        except BodyError as error:
            raise policy_denied(_NO_PLACE.format(error), "AfterModel") from None

    def failure(self, message: str) -> JsonObject:
        return {"event_type": "error", "error": {"code": "permission_denied", "message": message}}

    def framing(self, route: Route) -> Framing | None:
        return InteractionEvents() if route.streamed else None


_NO_PLACE = "A hook's edit cannot be sent with an interaction: {}"


def envelope_of(route: Route) -> Envelope:
    """Return the envelope of the route's API."""
    if route.verb in INTERACTIONS:
        return Interactions()
    return CodeAssist() if route.api == "code_assist" else Bare()


def open_request_body(envelope: Envelope, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
    """Return the checked model and request in a body. Raises ApiError if they are invalid."""
    try:
        model, inner = envelope.open_request(route, body)
        return model, check_request(inner)
    except BodyError as error:
        raise body_refused(error, error.status) from None


_PREFIX = "models/"


def named_model(route: Route, obj: JsonObject) -> str:
    """Return the model in the path, or else in the object. Raises ApiError (400) if there is none."""
    named = read(obj, "model")
    model = route.model or (named.removeprefix(_PREFIX) if isinstance(named, str) else "")
    if not re.fullmatch(MODEL_NAME, model):
        raise body_refused("model: must be the name of a model, such as models/gemini-2.5-flash")
    return model


def check_model(route: Route, model: str, obj: JsonObject, path: str = "") -> None:
    """Check that a model in an object of the body is `model`, which hooks are shown.

    Raises ApiError (400), with the path, if it is a different one.
    """
    named = read(obj, "model")
    if named is not None and not _is_named(route, model, named):
        place = f"{path}.model" if path else "model"
        raise body_refused(f"{place}: must name the model of this call, {model!r}")


def with_model(route: Route, model: str, obj: JsonObject) -> JsonObject:
    """Return the object with this model if it contains one; the same object if unchanged."""
    named = read(obj, "model")
    if not isinstance(named, str) or _is_named(route, model, named):
        return obj
    return write(obj, "model", _resource(route, model) if "/" in named else model)


def _is_named(route: Route, model: str, named: object) -> bool:
    """Return whether a name refers to the model: its short name, its full name, or the end of that."""
    return isinstance(named, str) and bool(named) and f"/{_resource(route, model)}".endswith(f"/{named}")


def _resource(route: Route, model: str) -> str:
    """Return the model's full name, such as models/gemini-2.5-flash."""
    if not route.model:
        return f"{_PREFIX}{model}"
    return route.for_model(model).path.split("/", 2)[2].removesuffix(f":{route.verb}")


_CACHED = (
    "hooks cannot inspect cached content; send the contents themselves, or set "
    'routes.unhooked = ["caches"] in hookgate.toml to forward it unjudged.'
)
_FILE = (
    "hooks cannot inspect files; send the contents as text or inlineData, or set "
    'routes.files = "forward" in hookgate.toml to forward files unjudged.'
)
_STORE = (
    "hooks cannot inspect file search stores; omit the tool, or set "
    'routes.files = "forward" in hookgate.toml to forward files unjudged.'
)


_REFUSED = {
    "agent": "hooks cannot judge an agent that runs at Google with tools of its own; name a model",
    "agentConfig": "hooks cannot judge an agent that runs at Google with tools of its own; name a model",
    "environment": "hooks cannot judge what runs in an environment at Google; omit it",
    "background": "hooks judge an answer while its call is open; omit it",
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
        raise body_refused(error, error.status) from None
    if read(body, "webhookConfig") is not None:
        raise ApiError(403, _WEBHOOK, "ROUTE_NOT_ALLOWED")
    for field, reason in _REFUSED.items():
        if read(body, field) not in (None, False) and "interactions" not in unhooked:
            setting = 'or set routes.unhooked = ["interactions"] in hookgate.toml to allow it'
            raise ApiError(403, f"{snake(field)}: {reason}, {setting}.", "ROUTE_NOT_ALLOWED")


def check_references(body: JsonObject, routes: RouteSettings) -> None:
    """Check a GenerateContentRequest for cached contents, files and file search stores.

    Raises ApiError (403), with the path and the remedy, for those that `routes` does not allow.
    """
    if read(body, "cachedContent") is not None and "caches" not in routes.unhooked:
        raise ApiError(403, f"cachedContent: {_CACHED}", "ROUTE_NOT_ALLOWED")
    if routes.files == "forward":
        return
    for number, tool in enumerate(read_list(body, "tools")):
        if isinstance(tool, dict) and read(tool, "fileSearch") is not None:
            raise ApiError(403, f"tools[{number}].fileSearch: {_STORE}", "ROUTE_NOT_ALLOWED")
    for path in _files(body):
        raise ApiError(403, f"{path}: {_FILE}", "ROUTE_NOT_ALLOWED")


def _files(body: JsonObject) -> Iterator[str]:
    """Yield the paths of all `fileData`, including those in tool results."""
    instruction = read(body, "systemInstruction")
    if isinstance(instruction, dict):
        yield from _files_in(instruction, "systemInstruction")
    for number, content in enumerate(read_list(body, "contents")):
        yield from _files_in(content, f"contents[{number}]")


def _files_in(holder: Any, path: str) -> Iterator[str]:
    parts = read_list(holder, "parts") if isinstance(holder, dict) else []
    for number, part in enumerate(parts):
        if not isinstance(part, dict) or (len(part) == 1 and "text" in part):  # as most parts are
            continue
        if read(part, "fileData") is not None:
            yield f"{path}.parts[{number}].fileData"
        for key, value in part.items():
            if type(value) is dict and "parts" in value:
                yield from _files_in(value, f"{path}.parts[{number}].{key}")
