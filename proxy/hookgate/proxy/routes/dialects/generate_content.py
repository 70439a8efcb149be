"""The bodies of generateContent, on which hooks work, and those of Code Assist, which contain them.

The models and files that a body names are checked here, for other dialects too, after the body was decoded.
"""

import re
from collections.abc import Callable, Iterator
from typing import Any

from hookgate.proxy import GEMINI_API
from hookgate.proxy.config import Config
from hookgate.proxy.errors import ApiError, body_refused
from hookgate.proxy.routes.dialects.adapter import DialectAdapter
from hookgate.proxy.routes.table import Route, session_name_in_body
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
from hookgate.translator.fields import JsonObject, read, read_list, write
from hookgate.translator.known_turns import NO_TURNS, RequestTurns
from hookgate.translator.streaming.sources import TextSources


class GenerateContent:
    """The bodies of the Gemini API and Vertex AI, which are not wrapped; the model is in the path.

    The APIs document no session. Antigravity sends one, as a field of the request, which is passed on.
    """

    wraps_answers = False
    is_native = True
    counts_bytes = True

    def decode_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        return route.model, body

    def place(self, path: str) -> str:
        return path

    def encode_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        return inner

    def other_fields(self, body: JsonObject) -> JsonObject:
        return {}

    def session(self, body: JsonObject) -> str:
        return session_name_in_body(read(body, "sessionId"))

    def decode_answer(self, body: JsonObject) -> JsonObject:
        return body

    def text_sources(self, body: JsonObject) -> TextSources:
        return ()  # clients show all texts but thoughts

    def encode_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return inner

    def answer(self, inner: JsonObject) -> JsonObject:
        return inner

    def failure(self, message: str) -> JsonObject:
        return text_response(message)

    def framing_for(self, route: Route) -> Framing | None:
        if not route.streamed:
            return None
        return ServerSentEvents() if route.alt == "sse" else JsonArray()


class CodeAssist(GenerateContent):
    """The bodies of Code Assist, which contain model, session, and request or response."""

    wraps_answers = True

    def decode_request(self, route: Route, body: JsonObject) -> tuple[str, JsonObject]:
        return unwrap_request(body)

    def encode_request(self, body: JsonObject, model: str, inner: JsonObject) -> JsonObject:
        return rewrap_request(body, model, inner)

    def other_fields(self, body: JsonObject) -> JsonObject:
        return {name: value for name, value in body.items() if name not in ("model", "request")}

    def session(self, body: JsonObject) -> str:
        return session_name_in_body(enveloped_session(body))

    def decode_answer(self, body: JsonObject) -> JsonObject:
        return unwrap_response(body)

    def encode_answer(self, body: JsonObject, inner: JsonObject) -> JsonObject:
        return rewrap_response(body, inner)

    def answer(self, inner: JsonObject) -> JsonObject:
        return wrap_response(inner)

    def failure(self, message: str) -> JsonObject:
        return wrap_response(text_response(message))


def decode_request_body(
    adapter: DialectAdapter, route: Route, body: JsonObject, turns: RequestTurns = NO_TURNS
) -> tuple[str, JsonObject]:
    """Return the checked model and request in a body, in which some of `turns` may be known.

    Raises ApiError if they are invalid.
    """
    try:
        model, inner = adapter.decode_request(route, body)
        return model, check_request(
            inner, turns.count_known(read_list(inner, "contents")), turns.known_fields
        )
    except BodyError as error:
        raise body_refused(error) from None


_FULL_NAME = re.compile(
    r"(?:models/|(?P<place>projects/[^/]+/locations/[^/]+)/publishers/google/models/)?"
    rf"(?P<model>{MODEL_NAME})"
)

_NAME_IN_OPENAI = re.compile(rf"(?:models/|google/)?(?P<model>{MODEL_NAME})")
"""The name of a model in OpenAI's dialects: the prefixes are those of the Gemini API and Vertex AI."""

_NAME_AT_VERTEX = re.compile(
    rf"(?:(?:projects/[^/]+/locations/[^/]+/)?publishers/google/models/)?(?P<model>{MODEL_NAME})"
)
"""The name of a model in a Live session at Vertex AI, whose path has neither a project nor a location."""


def named_model(route: Route, obj: JsonObject) -> str:
    """Return the model in the path, or else in the object. Raises ApiError (400) if there is none."""
    model = route.model or _short_name(route, read(obj, "model"))
    if not model:
        raise body_refused(
            "model: must be the name of a model, such as models/gemini-3.8-flash; if the name includes a "
            "project and a location, they must match those of the path"
        )
    return model


def _short_name(route: Route, named: object) -> str:
    """Return the model of a name in a body whose path has none; empty if the name is invalid."""
    if not isinstance(named, str):
        return ""
    if route.is_openai or (route.kind == "live" and route.api == "vertex"):
        found = (_NAME_IN_OPENAI if route.is_openai else _NAME_AT_VERTEX).fullmatch(named)
        return found["model"] if found else ""
    found = _FULL_NAME.fullmatch(named)
    if found is None or (found["place"] and f"/{found['place']}/" not in route.path):
        return ""
    return found["model"]


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
    if not route.model:
        return write(obj, "model", f"{named[: named.rfind('/') + 1]}{model}")
    return write(obj, "model", _resource(route, model) if "/" in named else model)


def _is_named(route: Route, model: str, named: object) -> bool:
    """Return whether a name refers to the model: its short name, its full name, or the end of that."""
    if not isinstance(named, str) or not named:
        return False
    if not route.model:
        return _short_name(route, named) == model
    return f"/{_resource(route, model)}".endswith(f"/{named}")


def _resource(route: Route, model: str) -> str:
    """Return the full name of a model of the path, such as models/gemini-3.8-flash."""
    return route.for_model(model).path.split("/", 2)[2].removesuffix(f":{route.verb}")


_CACHE_NAME = re.compile(r"[A-Za-z0-9._~/-]{1,512}")
_FILE = (
    "hooks cannot inspect files; send the contents as text or inlineData, or set "
    'routes.files = "judge" in hookgate.toml to judge uploads and allow calls to refer to uploaded files, or '
    '"forward" to forward all files unjudged.'
)
_OTHER_FILE = (
    "hooks have not judged this file, because it was not uploaded through hookgate; send the contents as "
    'text or inlineData, upload it, or set routes.files = "forward" in hookgate.toml to forward all files '
    "unjudged."
)
_IN_OPENAI = ("inlineData", "a data URL (data:TYPE;base64,DATA)")
"""The form of contents in generateContent, and in OpenAI's dialects."""
_STORE = (
    "hooks cannot inspect file search stores; omit the tool, or set "
    'routes.files = "forward" in hookgate.toml to forward files unjudged.'
)


def _as_given(path: str) -> str:
    return path


def check_references(
    body: JsonObject, config: Config, place: Callable[[str], str] = _as_given, turns: RequestTurns = NO_TURNS
) -> None:
    """Check a GenerateContentRequest for files and file search stores, and the name of cached contents.

    `place` returns the path in the client's body for one in the request. Of `turns`, some may be known.

    Raises ApiError (403), with the path and the remedy, for those that the configuration does not allow, or
    ApiError (400) if the name is not one.
    """
    cache = read(body, "cachedContent")
    if cache is not None and not (isinstance(cache, str) and _CACHE_NAME.fullmatch(cache)):
        raise body_refused("cachedContent: must be the name of cached contents, such as cachedContents/1")
    if config.routes.files == "forward":
        return
    for number, tool in enumerate(read_list(body, "tools")):
        if isinstance(tool, dict) and read(tool, "fileSearch") is not None:
            raise ApiError(403, f"tools[{number}].fileSearch: {_STORE}", "ROUTE_NOT_ALLOWED")
    for path, file in _files(body, turns):
        if config.routes.files == "refuse" or not _is_uploaded(file, config.upstream.gemini):
            problem, given = _FILE if config.routes.files == "refuse" else _OTHER_FILE, place(path)
            if given != path:
                problem = problem.replace(*_IN_OPENAI)
            raise ApiError(403, f"{given}: {problem}", "ROUTE_NOT_ALLOWED")


_UPLOADED = re.compile(r"(?:(?P<origin>.+)/v1[a-z0-9]*/)?files/[a-z0-9-]{1,64}")


def _is_uploaded(file: Any, origin: str) -> bool:
    """Return whether a `fileData` refers to a file that was uploaded to the Gemini API at `origin`."""
    uri = read(file, "fileUri") if isinstance(file, dict) else None
    found = _UPLOADED.fullmatch(uri) if isinstance(uri, str) else None
    return found is not None and found["origin"] in (None, origin, GEMINI_API)


def _files(body: JsonObject, turns: RequestTurns) -> Iterator[tuple[str, Any]]:
    """Yield all `fileData` with their paths, including those in tool results, except in known turns."""
    instruction = read(body, "systemInstruction")
    if isinstance(instruction, dict):
        yield from _files_in(instruction, "systemInstruction")
    contents = read_list(body, "contents")
    known = turns.count_known(contents)
    for number, content in enumerate(contents[known:], known):
        yield from _files_in(content, f"contents[{number}]")


def _files_in(holder: Any, path: str) -> Iterator[tuple[str, Any]]:
    parts = read_list(holder, "parts") if isinstance(holder, dict) else []
    for number, part in enumerate(parts):
        if not isinstance(part, dict) or (len(part) == 1 and "text" in part):  # as most parts are
            continue
        if (file := read(part, "fileData")) is not None:
            yield f"{path}.parts[{number}].fileData", file
        for key, value in part.items():
            if type(value) is dict and "parts" in value:
                yield from _files_in(value, f"{path}.parts[{number}].{key}")
