"""The routes of the gateway (docs/routes.md is generated from them), and the matching of raw request targets.

It does no I/O.
"""

import re
from collections.abc import Collection
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from functools import cached_property, partial, reduce
from typing import Literal
from urllib.parse import parse_qsl, unquote_plus

from hookgate.hooks.agents import AGENT_DIALECTS
from hookgate.hooks.settings import EVENTS
from hookgate.proxy.errors import ApiError, not_a_route, request_refused
from hookgate.proxy.route_groups import RouteGroup, Unhooked
from hookgate.translator import MODEL_NAME

Api = Literal["gemini", "vertex", "code_assist"]
Dialect = Literal["generate_content", "code_assist", "interactions", "chat", "responses"]
RouteKind = Literal["judged", "forwarded", "live", "tunnel", "event", "receipt"]

_ID = r"[A-Za-z0-9][A-Za-z0-9._~-]{0,255}"
INTERACTION_ID = r"[A-Za-z0-9][A-Za-z0-9._~=-]{0,511}"
"""A regular expression for IDs of interactions."""

_VERSIONS = {"gemini": "v1|v1beta|v1alpha", "vertex": "v1|v1beta1", "code_assist": "v1internal"}
# The patterns of a template's placeholders. They match ASCII only, and no segment begins with a dot.
_PLACEHOLDERS = {
    "models": "models|tunedModels",
    "model": MODEL_NAME,
    "id": _ID,
    "interaction": INTERACTION_ID,
    "project": _ID,
    "location": _ID,
    "operations": rf"(?:(?:models|tunedModels|fileSearchStores)/{_ID}/(?:upload/)?)?operations",
    "agents": "agents|triggers|webhooks|environments|voices|credentials|decisions",
    "rest": r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~:=@+-]{0,2047}){0,16}",
}

_NOT_FORWARDED = ("$alt", "$prettyPrint", "prettyPrint")
"""Parameters of all of Google's APIs that choose how an answer is written, not what it says.

They are not sent upstream: with `enum-encoding=int`, an answer has numbers that hooks cannot read.
"""
_EVERYWHERE = frozenset({"alt", "key", *_NOT_FORWARDED})
_LISTS = frozenset({"pageSize", "pageToken", "filter", "updateMask", "force"})
_UPLOADS = frozenset({"upload_id", "upload_protocol", "uploadType"})
_OPENAI_LISTS = frozenset({"after", "before", "limit", "order"})
_INTERACTIONS = frozenset({"stream", "include_input", "last_event_id"})
_SNAKE_LISTS = frozenset({"page_size", "page_token", "filter", "update_mask"})
_VOICES = frozenset({"accent", "contexts", "gender", "language_code", "persona", "pitch", "region_code"})
_FILES = frozenset({"extract", "overwrite", "recursive", "search", "type", "parent"})
_UNHOOKED = _LISTS | _SNAKE_LISTS | _OPENAI_LISTS | _INTERACTIONS | _VOICES | _FILES | _UPLOADS


@dataclass(frozen=True)
class Row:
    """A kind of request. `template` is the path, in which `{verb}` is one of `verbs`."""

    group: RouteGroup | None
    """The group of issued keys that may call it; without a group, none may."""
    api: Api
    kind: RouteKind
    methods: tuple[str, ...]
    template: str
    verbs: tuple[str, ...] = ()
    """The API's methods. For a path without `{verb}`, the only entry is its method."""
    parameters: frozenset[str] = frozenset()
    alts: frozenset[str] = frozenset({"json"})
    unhooked: str = ""
    """The group of a generative route that hooks cannot judge, which is served if the operator lists it."""
    writes_files: bool = False
    """Whether the route writes files, which hooks cannot inspect; served only if the operator allows files.
    """
    dialect: Dialect = "generate_content"
    """How the bodies of a judged route are read and written (see `routes.dialects`)."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """The pattern that the whole path must match."""
        stands_for = {**_PLACEHOLDERS, "v": _VERSIONS[self.api], "verb": "|".join(self.verbs)}
        pieces = re.split(r"\{(\w+)\}", self.template)
        return re.compile(
            "".join(
                f"(?P<{piece}>{stands_for[piece]})" if at % 2 and piece in ("model", "verb")
                else f"(?:{stands_for[piece]})" if at % 2
                else re.escape(piece)
                for at, piece in enumerate(pieces)
            )
        )  # fmt: skip

    @cached_property
    def allowed_parameters(self) -> frozenset[str]:
        """Its own query parameters, and those of all rows."""
        return self.parameters | _EVERYWHERE


_GET, _POST, _DELETE, _ANY = ("GET",), ("POST",), ("DELETE",), ("GET", "POST", "PUT", "PATCH", "DELETE")
_GENERATE = ("generateContent", "streamGenerateContent")
_COUNT_TOKENS = ("countTokens", "computeTokens")
_EMBED = ("embedContent", "batchEmbedContents")
_STREAMS = {
    "createInteraction": "streamInteraction",
    "createChatCompletion": "streamChatCompletion",
    "createResponse": "streamResponse",
}
"""The verb of a streamed answer by that of a whole one, for routes whose body says which is wanted."""
_STREAMED_VERBS = frozenset({"streamGenerateContent", *_STREAMS.values()})
_PLACE = "/{v}/projects/{project}/locations/{location}"
_VERTEX_MODELS = (
    "/{v}/publishers/google/models/{model}:{verb}",
    f"{_PLACE}/publishers/google/models/{{model}}:{{verb}}",
    f"{_PLACE}/endpoints/{{model}}:{{verb}}",
)


def _forwarded(
    group: RouteGroup | None, api: Api, methods: tuple[str, ...], template: str, *verbs: str
) -> Row:
    return Row(group, api, "forwarded", methods, template, verbs, _LISTS)


def _written(methods: tuple[str, ...], template: str) -> Row:
    """Return a row for a request that writes to a file or to a store of files."""
    return Row("files", "gemini", "forwarded", methods, template, (), _LISTS, writes_files=True)


def _uploaded(template: str, *verbs: str) -> Row:
    """Return a row for the start of an upload and for its data, whose URL has the same path.

    Uploads with a verb can be judged.
    """
    return Row("files", "gemini", "forwarded", ("POST", "PUT"), template, verbs, _UPLOADS, writes_files=True)


def _download(template: str) -> Row:
    return Row("files", "gemini", "forwarded", _GET, template, (), alts=frozenset({"json", "media"}))


def _unhooked(group: Unhooked, api: Api, methods: tuple[str, ...], template: str, *verbs: str) -> Row:
    alts = frozenset({"json", "sse", "media"})
    return Row(group, api, "forwarded", methods, template, verbs, _UNHOOKED, alts, group)


def _live(api: Api, template: str, *verbs: str) -> Row:
    return Row("live", api, "tunnel", _GET, template, verbs, frozenset({"access_token"}), unhooked="live")


def _caches(api: Api, place: str) -> tuple[Row, ...]:
    """Return the rows of cached contents below a path."""
    path = f"{place}/cachedContents"
    return (
        Row("caches", api, "judged", _POST, path, ("createCachedContent",)),
        Row("caches", api, "judged", ("PATCH",), f"{path}/{{id}}", ("updateCachedContent",), _LISTS),
        _forwarded("caches", api, _GET, path),
        _forwarded("caches", api, ("GET", "DELETE"), f"{path}/{{id}}"),
    )


def _interactions(api: Api, place: str) -> tuple[Row, ...]:
    """Return the rows of the Interactions API below a path. All answers but that of DELETE have text."""
    path = f"{place}/interactions"
    judged = partial(Row, "interactions", api, "judged", dialect="interactions")
    tokens = f"{path}/{{interaction}}/auth_tokens{{rest}}"
    return (
        # As those of auth_tokens itself, its answers would work without the gateway.
        replace(_unhooked("interactions", api, _ANY, tokens), group=None),
        judged(_POST, path, ("createInteraction",), alts=frozenset({"json", "sse"})),
        judged(_GET, f"{path}/{{interaction}}", ("getInteraction",), _INTERACTIONS),
        judged(_POST, f"{path}/{{interaction}}/cancel", ("cancelInteraction",)),
        _forwarded("interactions", api, _DELETE, f"{path}/{{interaction}}", "deleteInteraction"),
        _unhooked("interactions", api, ("GET", "PUT", "PATCH"), f"{path}/{{interaction}}{{rest}}"),
    )


def _openai(api: Api, place: str) -> tuple[Row, ...]:
    """Return the rows of OpenAI's dialects below a path."""
    judged = partial(Row, "generate", api, "judged", _POST, alts=frozenset({"json", "sse"}))
    return (
        judged(f"{place}/chat/completions", ("createChatCompletion",), dialect="chat"),
        judged(f"{place}/responses", ("createResponse",), dialect="responses"),
        # Their answers report tokens as those of chat completions do.
        Row("embed", api, "judged", _POST, f"{place}/embeddings", ("createEmbedding",), dialect="chat"),
    )


_GEMINI_MODEL = "/{v}/{models}/{model}:{verb}"

_GEMINI = (
    Row("generate", "gemini", "judged", _POST, _GEMINI_MODEL, _GENERATE),
    Row("generate", "gemini", "judged", _POST, _GEMINI_MODEL, ("countTokens",)),
    Row("embed", "gemini", "judged", _POST, _GEMINI_MODEL, _EMBED),
    Row("batches", "gemini", "judged", _POST, _GEMINI_MODEL, ("batchGenerateContent",)),
    Row("batches", "gemini", "judged", _POST, _GEMINI_MODEL, ("asyncBatchEmbedContent",)),
    # The state of a batch contains the generated answers, even in a list of batches.
    Row("batches", "gemini", "judged", _GET, "/{v}/batches/{id}", ("getBatch",)),
    Row("batches", "gemini", "judged", _GET, "/{v}/batches", ("listBatches",), _LISTS),
    _forwarded("batches", "gemini", _POST, "/{v}/batches/{id}:cancel"),
    _forwarded("batches", "gemini", _DELETE, "/{v}/batches/{id}"),
    _forwarded("models", "gemini", _GET, "/{v}/{models}"),
    _forwarded("models", "gemini", _GET, "/{v}/{models}/{model}"),
    _forwarded("files", "gemini", _GET, "/{v}/files"),
    _written(_POST, "/{v}/files"),
    _forwarded("files", "gemini", ("GET", "DELETE"), "/{v}/files/{id}"),
    _written(_POST, "/{v}/files:register"),
    _download("/{v}/files/{id}:download"),
    _uploaded("/upload/{v}/files", "uploadFile"),
    _forwarded("files", "gemini", _GET, "/{v}/fileSearchStores"),
    _forwarded("files", "gemini", ("GET", "DELETE"), "/{v}/fileSearchStores/{id}"),
    _written(_POST, "/{v}/fileSearchStores"),
    _written(("PATCH",), "/{v}/fileSearchStores/{id}"),
    _written(_POST, "/{v}/fileSearchStores/{id}:importFile"),
    _forwarded("files", "gemini", _GET, "/{v}/fileSearchStores/{id}/documents"),
    _forwarded("files", "gemini", ("GET", "DELETE"), "/{v}/fileSearchStores/{id}/documents/{id}"),
    _download("/{v}/fileSearchStores/{id}/media/{id}"),
    _uploaded("/upload/{v}/fileSearchStores/{id}:uploadToFileSearchStore"),
    _forwarded("predict", "gemini", _GET, "/{v}/{operations}"),
    _forwarded("predict", "gemini", ("GET", "DELETE"), "/{v}/{operations}/{id}"),
    _forwarded("predict", "gemini", _POST, "/{v}/{operations}/{id}:cancel"),
    *_caches("gemini", "/{v}"),
    _unhooked("predict", "gemini", _POST, _GEMINI_MODEL, "predict", "predictLongRunning"),
    *_interactions("gemini", "/{v}"),
    *_openai("gemini", "/{v}/openai"),
    _forwarded("models", "gemini", _GET, "/{v}/openai/models"),
    _forwarded("models", "gemini", _GET, "/{v}/openai/models/{id}"),
    _unhooked("openai", "gemini", _ANY, "/{v}/openai{rest}"),
    Row("generate", "gemini", "judged", _POST, "/{v}/decisions", ("createDecision",)),
    _unhooked("agents", "gemini", _ANY, "/{v}/{agents}{rest}"),
    # Their answers are credentials of the gateway's Google project, which would work without the gateway.
    replace(_unhooked("agents", "gemini", _ANY, "/{v}/auth_tokens{rest}"), group=None),
    _unhooked("agents", "gemini", ("POST", "PUT"), "/upload/{v}/environments{rest}"),
    _live(
        "gemini",
        "/ws/google.ai.generativelanguage.{v}.GenerativeService.{verb}",
        *("BidiGenerateContent", "BidiGenerateContentConstrained", "BidiGenerateMusic"),
    ),
)

_VERTEX = (
    *(Row("generate", "vertex", "judged", _POST, path, _GENERATE) for path in _VERTEX_MODELS),
    *(Row("generate", "vertex", "judged", _POST, path, _COUNT_TOKENS) for path in _VERTEX_MODELS),
    *(Row("embed", "vertex", "judged", _POST, path, _EMBED) for path in _VERTEX_MODELS),
    _forwarded("models", "vertex", _GET, "/{v}/publishers/google/models"),
    _forwarded("models", "vertex", _GET, "/{v}/publishers/google/models/{model}"),
    _forwarded("models", "vertex", _GET, f"{_PLACE}/publishers/google/models/{{model}}"),
    _forwarded("models", "vertex", _GET, f"{_PLACE}/models"),
    _forwarded("models", "vertex", _GET, f"{_PLACE}/models/{{model}}"),
    _forwarded("predict", "vertex", _GET, f"{_PLACE}/operations/{{id}}"),
    *_caches("vertex", _PLACE),
    *(
        _unhooked("predict", "vertex", _POST, path, "predict", "predictLongRunning", "fetchPredictOperation")
        for path in _VERTEX_MODELS
    ),
    _unhooked("predict", "vertex", _ANY, f"{_PLACE}/batchPredictionJobs{{rest}}"),
    *_interactions("vertex", _PLACE),
    *_openai("vertex", f"{_PLACE}/endpoints/openapi"),
    _unhooked("openai", "vertex", _ANY, f"{_PLACE}/endpoints/openapi{{rest}}"),
    _live("vertex", "/ws/google.cloud.aiplatform.{v}.LlmBidiService/{verb}", "BidiGenerateContent"),
)

_CODE_ASSIST = (
    Row(
        None,
        "code_assist",
        "judged",
        _POST,
        "/{v}:{verb}",
        (*_GENERATE, "countTokens"),
        dialect="code_assist",
    ),
    _forwarded(
        None,
        "code_assist",
        _POST,
        "/{v}:{verb}",
        *("loadCodeAssist", "onboardUser", "setCodeAssistGlobalUserSetting"),
        *("recordCodeAssistMetrics", "fetchAdminControls", "listExperiments", "retrieveUserQuota"),
    ),
    _forwarded(None, "code_assist", _GET, "/{v}:{verb}", "getCodeAssistGlobalUserSetting"),
    _forwarded(None, "code_assist", _GET, "/{v}/operations/{id}"),
)

GUARDRAIL = "checkGuardrail"
"""The method of the guardrail service, which other gateways call."""

GUARDRAIL_PATH = "/hookgate/v1/guardrail"
"""What those gateways are configured with: they add the rest of the path."""

_AGENT_EVENTS = "/hookgate/v1/agents/{verb}"

_OWN = (
    Row(None, "gemini", "event", _POST, "/hookgate/v1/events/{verb}", EVENTS, alts=frozenset()),
    Row(
        None,
        "gemini",
        "event",
        _POST,
        _AGENT_EVENTS,
        tuple(AGENT_DIALECTS),
        frozenset({"event"}),
        frozenset(),
    ),
    Row(None, "gemini", "event", _POST, f"{GUARDRAIL_PATH}/beta/litellm_basic_guardrail_api", (GUARDRAIL,)),
    Row(None, "gemini", "receipt", _GET, "/hookgate/v1/receipts/{id}", alts=frozenset()),
)
"""The gateway's own routes: the event service for shims and agents' hooks, the guardrail service, and
receipts."""

TABLE = (*_GEMINI, *_VERTEX, *_CODE_ASSIST, *_OWN)


@dataclass(frozen=True, slots=True)
class Route:
    """The route of one request. `path` has no session prefix, and `query` does not include the key."""

    kind: RouteKind
    path: str
    query: str = ""
    session: str = ""
    model: str = ""
    """The model in the path; empty if the path has none, as for Code Assist, where it is in the body."""
    verb: str = ""
    alt: str = ""
    api_key: str = ""
    """The client's key, if it was in the query: it is sent upstream as a header, which is not logged."""
    access_token: str = ""
    """The client's token in the query, which some WebSockets use. It is sent upstream unchanged."""
    api: Api = "gemini"
    small_body: bool = False
    """Whether the body is forwarded without hooks, and therefore limited in size."""
    dialect: Dialect = "generate_content"
    unhooked: str = ""
    """The group of a generative route that the operator serves although hooks cannot judge it."""
    group: RouteGroup | None = None
    """The group of issued keys that may call it; without a group, none may."""
    template: str = field(default="", compare=False)
    """The template of the path."""
    credential_team: str | None = None
    """The team for which the gateway sends a credential of its own, empty for callers without a team. None if
    the caller's credential is sent."""

    @property
    def streamed(self) -> bool:
        return self.verb in _STREAMED_VERBS

    @property
    def agent(self) -> str:
        """The name of the agent that posts an event of its own hooks; empty for other requests."""
        return self.verb if self.template == _AGENT_EVENTS else ""

    @property
    def own_model(self) -> str:
        """The model in the path with its collection, if users choose the names in it; else an empty string.

        Such a name could be like that of a Google model.
        """
        collection = self.path.rpartition("/")[0].rpartition("/")[2]
        is_own = self.model and collection in ("tunedModels", "endpoints")
        return f"{collection}/{self.model}" if is_own else ""

    @property
    def body_chooses_stream(self) -> bool:
        """Whether the body says if the answer is streamed."""
        return self.verb in _STREAMS

    @property
    def is_openai(self) -> bool:
        """Whether its bodies are those of a dialect of OpenAI, which name the model."""
        return self.dialect in ("chat", "responses")

    def as_stream(self) -> "Route":
        """Return the route with the verb of a streamed answer, for which the body asks."""
        return replace(self, verb=_STREAMS[self.verb])

    def for_model(self, model: str) -> "Route":
        """Return the route for another model. Tuned models and endpoints are replaced with a Google model."""
        if not self.model or model == self.model:
            return self
        collection = self.path.removesuffix(f"/{self.model}:{self.verb}")
        collection = collection.removesuffix("/tunedModels").removesuffix("/endpoints")
        if not collection.endswith("/models"):
            collection += "/publishers/google/models" if self.api == "vertex" else "/models"
        return replace(self, model=model, path=f"{collection}/{model}:{self.verb}")


def with_gateway_credential(route: Route, team: str = "") -> Route:
    """Return the route with the caller's credentials removed, so that one of the gateway's own is sent.

    `team` is the caller's team, if it has one.
    """
    query = without_parameter(route.query, "access_token")
    return replace(route, query=query, api_key="", access_token="", credential_team=team)


def with_query(route: Route, row: Row, query: str) -> Route:
    """Return the route with its query. Raises ApiError (400) for a parameter that the row does not allow."""
    if "#" in query:
        raise request_refused("A request target must not contain a fragment; encode '#' as %23.")
    if re.search(r"[^!-~]", query):
        raise request_refused("A query must be printable ASCII; percent-encode other characters.")
    parameters = _parameters(query, row)
    alt = parameters.get("alt", "")
    if alt not in ("", *row.alts, *(("sse",) if route.streamed else ())):
        raise request_refused(f"alt={alt} is not supported here; omit it.")
    if (system_alt := parameters.get("$alt", "json")) not in ("json", "json;enum-encoding=int"):
        raise request_refused(f"$alt={system_alt} is not supported here; omit it.")
    api_key = parameters.get("key", "")
    if re.search(r"[^!-~]", api_key):
        raise request_refused("The key is not a valid API key: it must be printable ASCII.")
    token = parameters.get("access_token", "")
    query = reduce(without_parameter, ("key", *_NOT_FORWARDED), query)
    return replace(route, query=query, alt=alt, api_key=api_key, access_token=token)


def _parameters(query: str, row: Row) -> dict[str, str]:
    given = parse_qsl(query, keep_blank_values=True)
    parameters = dict(given)
    unknown = sorted(parameters.keys() - row.allowed_parameters)
    if unknown:
        raise request_refused(f"The query parameter {unknown[0]!r} is not supported here; omit it.")
    if len(parameters) != len(given):
        raise request_refused("A query parameter is repeated; send it once.")
    return parameters


def without_parameter(query: str, parameter: str) -> str:
    """Return the query without a parameter, and otherwise unchanged."""
    return "&".join(piece for piece in query.split("&") if unquote_plus(piece.partition("=")[0]) != parameter)


_NO_FILES = (
    "hookgate refuses files, because hooks cannot inspect them. Send their contents in the request "
    'itself, or set routes.files = "forward" in hookgate.toml to forward them unjudged, or "judge" to judge '
    "uploads of text."
)
_LIVE_INTERACTIONS = "/interactions/live"
"""The end of a path that is also that of an interaction with the ID `live`."""
_NO_LIVE_INTERACTIONS = (
    "hookgate cannot judge Live sessions of interactions, and does not forward them. Use those of "
    'BidiGenerateContent: routes.live = "judge" in hookgate.toml lets hooks judge them.'
)
_SESSION_NAME = r"[A-Za-z0-9][A-Za-z0-9._~-]{0,127}"
_SESSION = re.compile(rf"/s/(?P<session>{_SESSION_NAME})(?=/)")
_VERSION = r"v1(?:alpha|beta1?|internal)?"
_BEGINS_WITH_VERSION = re.compile(rf"(?:/upload)?/{_VERSION}(?=[/:]|$)")
_PREFIXED = re.compile(rf"/.+?(?:/s/{_SESSION_NAME})?(?P<path>(?:/upload)?/{_VERSION}[/:].*)")
_TWO_VERSIONS = re.compile(rf"/({_VERSION})/({_VERSION})(?=[/:])")
_NOT_CANONICAL = re.compile(r"%|//|\\|;|/\.{1,2}(?=[/:]|$)")
_OPENAI_METHOD = re.compile(r"/(?:chat/completions|completions|embeddings|responses)$")
_OPENAI_VERSION = re.compile(rf"/openai/{_VERSION}(?=/|$)")
_OPENAI_BASE = (
    "hookgate does not serve this path. It looks like one of OpenAI's, whose base URL must end with "
    "/v1beta/openai/ here."
)
_METHODS = {method for row in TABLE if row.template.endswith(":{verb}") for method in row.verbs}
"""The API's methods that a path names after a colon."""
_NO_VERSION = {
    re.compile(r"(?:/v1)?(/(?:chat/completions|responses|embeddings))"): "/v1beta/openai",
    re.compile(rf"(/(?:models|tunedModels)/{MODEL_NAME}:[A-Za-z]{{1,64}}|/interactions(?:/.*)?)"): "/v1beta",
}
"""What is put before paths of clients that append no version, or OpenAI's, to their base URL.

`https://gateway/` is the base URL of each client then. A path that both APIs have, such as `/models`, is not
here: the answer that its client expects is unknown.
"""
_ADMIN_PATHS = ("/healthz", "/readyz", "/metrics")


def without_prefix(target: str, prefix: str) -> str:
    """Return a request target without the prefix that the gateway's own URL has, whether or not it is there.

    An ingress may have removed it. It is removed once, and nothing in a request can choose another one.
    """
    return target[len(prefix) :] if prefix and target.startswith(f"{prefix}/") else target


def match(
    method: str,
    target: str,
    unhooked: Collection[str] = (),
    files: Literal["refuse", "judge", "forward"] = "refuse",
    live: Literal["refuse", "judge"] = "refuse",
) -> Route:
    """Return the route of a raw request target (path and query).

    `unhooked` contains the groups of generative routes that are forwarded although hooks cannot judge them.
    `files` controls routes that write files, and `live` Live sessions. Raises ApiError if there is no route.
    """
    path, _, query = target.partition("?")
    prefix = _SESSION.match(path)
    session = prefix["session"] if prefix else ""
    path = path[prefix.end() :] if prefix else path
    if path.startswith("//ws/"):  # @google/genai adds a slash to a base URL without a path
        path = path[1:]
    path = _with_version(path)
    if path.endswith(_LIVE_INTERACTIONS):
        raise not_a_route(_NO_LIVE_INTERACTIONS)
    row, found = _row(method, path)
    parts = found.groupdict()
    verb = parts.get("verb") or (row.verbs[0] if row.verbs else "")
    kind, unhooked_group = row.kind, row.unhooked
    if live == "judge" and verb == "BidiGenerateContent":
        kind, unhooked_group = "live", ""
    if files == "judge" and row.writes_files and verb:
        kind = "judged"
    if unhooked_group and unhooked_group not in unhooked:
        raise _cannot_judge(unhooked_group, verb, path)
    if row.writes_files and files != "forward" and kind != "judged":
        raise not_a_route(_NO_FILES)
    route = Route(
        kind,
        path,
        session=session,
        model=parts.get("model") or "",
        verb=verb,
        api=row.api,
        dialect=row.dialect,
        small_body=row.kind == "forwarded" and not (row.unhooked or row.writes_files),
        unhooked=unhooked_group,
        group=row.group,
        template=row.template,
    )
    return with_query(route, row, query) if query else route


_MAX_RECENT = 500
_LONGEST_RECENT = 300  # characters


class Routes:
    """The routes of a gateway with these settings, which `match` explains.

    Routes of recent targets are remembered, as long as they contain no credential.
    """

    def __init__(
        self,
        unhooked: Collection[str] = (),
        files: Literal["refuse", "judge", "forward"] = "refuse",
        live: Literal["refuse", "judge"] = "refuse",
    ) -> None:
        self._settings = unhooked, files, live
        self._recent: dict[tuple[str, str], Route] = {}

    def match(self, method: str, target: str) -> Route:
        """Return the route of a raw request target. Raises ApiError if there is none."""
        if (recent := self._recent.get((method, target))) is not None:
            return recent
        route = match(method, target, *self._settings)
        if len(target) <= _LONGEST_RECENT and not (route.api_key or route.access_token):
            if len(self._recent) >= _MAX_RECENT:
                self._recent.clear()
            self._recent[method, target] = route
        return route


def _with_version(path: str) -> str:
    """Return the path that a client means whose base URL is the gateway's, without a version."""
    for pattern, beginning in _NO_VERSION.items():
        if found := pattern.fullmatch(path):
            return f"{beginning}{found[1]}"
    return path


def session_name(text: str) -> str:
    """Check and return the name of a session. Raises ApiError if it is invalid.

    Hooks use it in file names, so `.` and `..` are not allowed.
    """
    if not re.fullmatch(_SESSION_NAME, text):
        raise request_refused(
            "A session name must be a letter or digit, then up to 127 of A-Z a-z 0-9 . _ ~ -"
        )
    return text


def session_name_in_body(value: object) -> str:
    """Return the name of the session that an agent's body contains, or "" if it cannot be a name.

    Agents choose such IDs for themselves, so one that cannot be a name is not an error. Antigravity sends
    integers, including negative ones: names begin with a letter or digit, so these get a prefix.
    """
    if not isinstance(value, str):
        return ""
    name = f"session{value}" if value.startswith("-") else value
    return name if re.fullmatch(_SESSION_NAME, name) else ""


def _row(method: str, path: str) -> tuple[Row, re.Match[str]]:
    takes: list[str] = []
    for row in TABLE:
        if found := row.pattern.fullmatch(path):
            if method in row.methods:
                return row, found
            takes.extend(row.methods)
    if takes:
        raise not_a_route(f"This path supports {', '.join(dict.fromkeys(takes))}, not {method}.")
    raise not_a_route(_explain(path))


def _cannot_judge(group: str, verb: str, path: str) -> ApiError:
    """Return the error for a route of a group that hooks cannot judge."""
    forwards = f'set routes.unhooked = ["{group}"] in hookgate.toml to forward it unjudged'
    if verb == "BidiGenerateContentConstrained" or "/auth_tokens" in path:
        return not_a_route(
            "hookgate cannot judge Live sessions with ephemeral tokens: a token can contain a setup that no "
            f"hook has seen. Use a key, which hookgate can issue for a short time, or {forwards}"
        )
    if verb == "BidiGenerateContent":
        return not_a_route(
            'hookgate refuses Live sessions. Set routes.live = "judge" in hookgate.toml to let hooks judge '
            f"them, or {forwards}"
        )
    if group == "openai" and _OPENAI_VERSION.search(path):
        return not_a_route(_OPENAI_BASE)
    return not_a_route(f"hookgate cannot judge what the {group} routes generate: {forwards}")


def _explain(path: str) -> str:
    if path.startswith("/s/"):
        return "Invalid session name: it must be a letter or digit, then letters, digits, . _ ~ or -."
    if path in _ADMIN_PATHS:
        return f"This is the listener for agents; {path} is on the admin listener (admin.address)."
    if _NOT_CANONICAL.search(path):
        return (
            "hookgate serves canonical paths only: no encoded characters, dot segments, doubled slashes or "
            "path parameters. Send the path as the API documents it."
        )
    return _explain_beginning(path) or _explain_end(path)


def _explain_beginning(path: str) -> str:
    """Return what is wrong with a path up to the API's version, or "" if nothing is."""
    if doubled := _TWO_VERSIONS.match(path):
        return (
            f"The path begins with two API versions, {doubled[1]} and {doubled[2]}: the client adds one to "
            f"its base URL. The base URL must not end with /{doubled[1]}; remove it there."
        )
    prefixed = _PREFIXED.fullmatch(path)
    if prefixed and any(row.pattern.fullmatch(prefixed["path"]) for row in TABLE):
        return (
            "The path begins with a prefix that is no part of the API. If it leads to the gateway through an "
            "ingress, set listen.url in hookgate.toml to the URL with the prefix, or let the ingress remove "
            "it; otherwise, remove it from the end of the client's base URL."
        )
    if _lacks_version(path):
        return (
            "The path must begin with an API version, such as /v1beta/models/…; check the end of the "
            "client's base URL."
        )
    return ""


def _explain_end(path: str) -> str:
    if verb := re.search(r":([A-Za-z]{1,64})$", path):
        return _explain_method(path, verb[1])
    if _OPENAI_METHOD.search(path):
        return _OPENAI_BASE
    return (
        "hookgate does not serve this path: hooks could not judge its answers. It serves the Gemini API, "
        "Vertex AI and Code Assist, each also under /s/{session}."
    )


def _lacks_version(path: str) -> bool:
    """Return whether a path does not begin with an API version, and otherwise is one of the API's."""
    if _BEGINS_WITH_VERSION.match(path) or _OPENAI_METHOD.search(path):
        return False
    with_version = (f"/{version}{path}" for version in ("v1beta", "v1"))  # of the Gemini API, of Vertex AI
    if any(row.pattern.fullmatch(each) for each in with_version for row in TABLE):
        return True
    return path.rpartition(":")[2] in _METHODS


def _explain_method(path: str, verb: str) -> str:
    if meant := _similar_method(path, verb):
        return f"hookgate does not serve the method {verb!r} here; did you mean {meant}?"
    return f"hookgate does not serve the method {verb!r} here: hooks could not judge its answers."


def _similar_method(path: str, verb: str) -> str | None:
    """Return the method that was probably meant at the end of a path, or None."""
    if verb in _METHODS:
        return None
    place = path.removesuffix(verb)
    similar = get_close_matches(verb, sorted(_METHODS), n=3, cutoff=0.85)
    return next((near for near in similar if any(row.pattern.fullmatch(place + near) for row in TABLE)), None)
