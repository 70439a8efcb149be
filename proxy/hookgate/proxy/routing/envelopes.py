"""Where a request stands in its body, the model it names, and the files it refers to. Pure."""

import re
from collections.abc import Iterator
from typing import Any, Protocol

from hookgate.proxy.config.models import RouteSettings
from hookgate.proxy.errors import ApiError
from hookgate.proxy.routing.table import Route
from hookgate.translator import MODEL_NAME, BodyError, check_request
from hookgate.translator.code_assist import (
    enveloped_session,
    rewrap_request,
    rewrap_response,
    unwrap_request,
    unwrap_response,
    wrap_response,
)
from hookgate.translator.fields import JsonObject, read, read_list, write


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
        return enveloped_session(body)

    def open_answer(self, body: JsonObject) -> JsonObject:
        return unwrap_response(body)

    def close_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return rewrap_response(body, inner)

    def answer(self, inner: JsonObject) -> JsonObject:
        return wrap_response(inner)


def envelope_of(route: Route) -> Envelope:
    """The envelope that the route's API uses."""
    return CodeAssist() if route.api == "code_assist" else Bare()


def open_request_body(envelope: Envelope, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
    """The model and the request in a body, both checked. Raises ApiError."""
    try:
        model, inner = envelope.open_request(route, body)
        return model, check_request(inner)
    except BodyError as error:
        raise ApiError(error.status, f"hookgate refuses the request body: {error}", "BODY_REFUSED") from None


_PREFIX = "models/"


def named_model(route: Route, obj: JsonObject) -> str:
    """The path's model, or for Code Assist, whose path has none, the one that the object names.

    Raises ApiError (400) when there is none.
    """
    named = read(obj, "model")
    model = route.model or (named.removeprefix(_PREFIX) if isinstance(named, str) else "")
    if not re.fullmatch(MODEL_NAME, model):
        raise _refused("model: must be the name of a model, such as models/gemini-2.5-flash")
    return model


def check_model(route: Route, model: str, obj: JsonObject, path: str = "") -> None:
    """Compare the model that an object of the body names, if any, with the `model` that hooks are shown.

    Raises ApiError (400), naming the place, when it is another one.
    """
    named = read(obj, "model")
    if named is not None and not _is_named(route, model, named):
        place = f"{path}.model" if path else "model"
        raise _refused(f"{place}: names another model than {model!r}, which this call is for")


def with_model(route: Route, model: str, obj: JsonObject) -> JsonObject:
    """The object naming this model, if it names one; the object itself when it does so already."""
    named = read(obj, "model")
    if not isinstance(named, str) or _is_named(route, model, named):
        return obj
    return write(obj, "model", _resource(route, model) if "/" in named else model)


def _is_named(route: Route, model: str, named: object) -> bool:
    """Whether a name is the model's: bare, in full, or what ends its full name."""
    return isinstance(named, str) and bool(named) and f"/{_resource(route, model)}".endswith(f"/{named}")


def _resource(route: Route, model: str) -> str:
    """The model's name in full, such as models/gemini-2.5-flash."""
    if not route.model:
        return f"{_PREFIX}{model}"
    return route.for_model(model).path.split("/", 2)[2].removesuffix(f":{route.verb}")


def _refused(why: str) -> ApiError:
    return ApiError(400, f"hookgate refuses the request body: {why}", "BODY_REFUSED")


_CACHED = (
    "no hook has seen what is cached; send the contents themselves, or set "
    'routes.unhooked = ["caches"] in hookgate.toml to let it through unjudged.'
)
_FILE = (
    "no hook has seen what is in the file; send its contents as text or inlineData, or set "
    'routes.files = "forward" in hookgate.toml to let files through unjudged.'
)
_STORE = (
    "no hook has seen what is in a file search store; leave the tool out, or set "
    'routes.files = "forward" in hookgate.toml to let files through unjudged.'
)


def check_references(body: JsonObject, routes: RouteSettings) -> None:
    """Look for cached contents, files and file search stores in a GenerateContentRequest.

    Raises ApiError (403), with the place and the remedy, for what `routes` does not let through.
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
    """The places of all `fileData`, those in tools' results among them."""
    instruction = read(body, "systemInstruction")
    if isinstance(instruction, dict):
        yield from _files_in(instruction, "systemInstruction")
    for number, content in enumerate(read_list(body, "contents")):
        yield from _files_in(content, f"contents[{number}]")


def _files_in(holder: Any, path: str) -> Iterator[str]:
    parts = read_list(holder, "parts") if isinstance(holder, dict) else []
    for number, part in enumerate(parts):
        if not isinstance(part, dict):
            continue
        if read(part, "fileData") is not None:
            yield f"{path}.parts[{number}].fileData"
        for key, value in part.items():
            if type(value) is dict and "parts" in value:
                yield from _files_in(value, f"{path}.parts[{number}].{key}")
