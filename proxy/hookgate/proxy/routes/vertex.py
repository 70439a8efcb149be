"""Routes at Vertex AI with one of the gateway's credentials: the project and the location in their paths.

It does no I/O.
"""

import re
from dataclasses import replace

from hookgate.proxy.errors import ApiError
from hookgate.proxy.routes.table import Route
from hookgate.translator.strictjson import dumps, loads

_GENERATIVE = re.compile(r"generateContent|streamGenerateContent|countTokens")
_HAVE_EMBED_CONTENT = re.compile(r".*(?:gemini|maas).*")
"""Models with `embedContent` at Vertex AI. Others only have `predict`, whose bodies are different."""

_PLACE = re.compile(r"/v1[a-z0-9]*/projects/([^/]+)/locations/([^/]+)/")
_OF_GOOGLE = re.compile(
    r"/(v1[a-z0-9]*)/(?:projects/[^/]+/locations/[^/]+/)?publishers/google/models/[^/:]+:[a-zA-Z]+"
)
_OPENAI = re.compile(r"/v1[a-z0-9]*/openai/(chat/completions|embeddings)")
_OPENAI_ON_VERTEX = re.compile(r"/(v1[a-z0-9]*)/projects/[^/]+/locations/[^/]+/(endpoints/openapi/.+)")
_STATELESS = re.compile(
    r"/v1[a-z0-9]*/(?:(?:projects/[^/]+/locations/[^/]+/)?publishers/google/)?models"
    r"(?:/[^/:]+(?::(?:generateContent|streamGenerateContent|countTokens|computeTokens|embedContent"
    r"|batchEmbedContents))?)?"
)


def is_stateless(route: Route) -> bool:
    """Return whether a route works in any Google project: it uses nothing that is stored in one.

    Its body may still refer to something that is stored.
    """
    return route.is_openai or _STATELESS.fullmatch(route.path) is not None


def vertex_origin(origin: str, default: str, location: str) -> str:
    """Return the base URL of Vertex AI in a location. An `origin` other than `default` serves all of them."""
    if origin != default or location in ("", "global"):
        return origin
    if location in ("eu", "us"):  # which consist of several regions
        return f"https://aiplatform.{location}.rep.googleapis.com"
    return f"https://{location}-aiplatform.googleapis.com"


def on_vertex(route: Route, project: str, location: str) -> Route:
    """Return the route of a call at Vertex AI, in a project and a location if the credential has them.

    Paths of the Gemini API become those of Vertex AI. Raises ApiError if Vertex AI has no such path, or if
    the path refers to another project or location, which the caller must not choose.
    """
    place = f"projects/{project}/locations/{location}/" if project else ""
    if route.api == "gemini":
        path = _openai_path(route, place) if route.is_openai else _publisher_path(route)
        return replace(route, api="vertex", path=f"/v1/{place}{path}")
    if not project:
        return route
    if route.is_openai and (found := _OPENAI_ON_VERTEX.fullmatch(route.path)):
        return replace(route, path=f"/{found[1]}/{place}{found[2]}")
    if found := _OF_GOOGLE.fullmatch(route.path):
        return replace(route, path=f"/{found[1]}/{place}publishers/google/models/{route.model}:{route.verb}")
    if route.kind in ("tunnel", "live"):
        raise _not_available("WebSockets at Vertex AI name a project in their messages")
    named = _PLACE.match(route.path)
    if named is not None and (named[1], named[2]) != (project, location):
        raise ApiError(
            403,
            "With an issued key, a path may name only the gateway's own project and location: "
            f"projects/{project}/locations/{location}.",
            "PROJECT_NOT_ALLOWED",
        )
    return route


def openai_body_on_vertex(data: bytes) -> bytes:
    """Return a body of the Gemini API's OpenAI-compatible path with the model as Vertex AI names it."""
    body = loads(data)
    name = body["model"].removeprefix("models/").removeprefix("google/")
    return dumps({**body, "model": f"google/{name}"})


def _openai_path(route: Route, place: str) -> str:
    """Return the end of the OpenAI-compatible path for one of the Gemini API. Raises ApiError."""
    found = _OPENAI.fullmatch(route.path)
    if found is None:
        raise _not_available("its OpenAI-compatible path has chat completions and embeddings only")
    if not place:
        raise _not_available(
            "its OpenAI-compatible path names a project; the operator can set project for the credential"
        )
    return f"endpoints/openapi/{found[1]}"


def _publisher_path(route: Route) -> str:
    """Return the end of the path of a model at Vertex AI, for a path of the Gemini API. Raises ApiError."""
    if "/tunedModels/" in route.path:
        raise _not_available("tuned models of the Gemini API do not exist at Vertex AI")
    if route.verb == "batchEmbedContents":
        raise _not_available("Vertex AI has no batchEmbedContents; send each text with embedContent")
    if route.verb == "embedContent" and not _HAVE_EMBED_CONTENT.fullmatch(route.model):
        raise _not_available(f"{route.model} has no embedContent, only predict; use a Gemini embedding model")
    if not (_GENERATIVE.fullmatch(route.verb) or route.verb == "embedContent"):
        raise _not_available(
            "of the paths of the Gemini API it has generateContent, streamGenerateContent, countTokens, "
            "embedContent, and chat completions and embeddings of the OpenAI-compatible path"
        )
    return f"publishers/google/models/{route.model}:{route.verb}"


def _not_available(why: str) -> ApiError:
    return ApiError(
        404,
        f"This gateway sends such calls to Vertex AI, where this is not available: {why}.",
        "NOT_ON_VERTEX",
    )
