"""The one table of what the gateway serves. Data; matching.py reads it. docs/gateway.md shows each row."""

import re
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from hookgate.hooks.settings import EVENTS
from hookgate.translator import MODEL_NAME

Api = Literal["gemini", "vertex", "code_assist"]
Kind = Literal["judged", "forwarded", "tunnel", "event", "receipt"]

_ID = r"[A-Za-z0-9][A-Za-z0-9._~-]{0,255}"
_VERSIONS = {"gemini": "v1|v1beta|v1alpha", "vertex": "v1|v1beta1", "code_assist": "v1internal"}
# What a template's placeholders stand for. Each takes ASCII only, and no segment begins with a dot.
_PLACEHOLDERS = {
    "models": "models|tunedModels",
    "model": MODEL_NAME,
    "id": _ID,
    "project": _ID,
    "location": _ID,
    "operations": rf"(?:(?:models|tunedModels|fileSearchStores)/{_ID}/(?:upload/)?)?operations",
    "agents": "agents|triggers|webhooks|environments|voices|credentials|decisions|auth_tokens",
    "rest": r"(?:/[A-Za-z0-9_~-][A-Za-z0-9._~:=@+-]{0,2047}){0,16}",
}

_EVERYWHERE = frozenset({"alt", "key"})
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
    """Requests of one sort. `template` is the path; `{verb}` in it is one of `verbs`."""

    api: Api
    kind: Kind
    methods: tuple[str, ...]
    template: str
    verbs: tuple[str, ...] = ()
    """The API's methods that these are; of a path without `{verb}` the one that stands for it."""
    parameters: frozenset[str] = frozenset()
    alts: frozenset[str] = frozenset({"json"})
    unhooked: str = ""
    """The group of a generative route that no hook can judge: served when an operator lists it."""
    writes_files: bool = False
    """Whether it puts something into a file, which no hook sees: served when an operator forwards files."""

    @cached_property
    def pattern(self) -> re.Pattern[str]:
        """What the whole path must match."""
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
    def taken(self) -> frozenset[str]:
        """The query parameters that pass."""
        return self.parameters | _EVERYWHERE


_GET, _POST, _DELETE, _ANY = ("GET",), ("POST",), ("DELETE",), ("GET", "POST", "PUT", "PATCH", "DELETE")
_GENERATE = ("generateContent", "streamGenerateContent")
_VERTEX_INPUTS = ("countTokens", "computeTokens", "embedContent", "batchEmbedContents")
_PLACE = "/{v}/projects/{project}/locations/{location}"
_VERTEX_MODELS = (
    "/{v}/publishers/google/models/{model}:{verb}",
    f"{_PLACE}/publishers/google/models/{{model}}:{{verb}}",
    f"{_PLACE}/endpoints/{{model}}:{{verb}}",
)


def _forwarded(api: Api, methods: tuple[str, ...], template: str, *verbs: str) -> Row:
    return Row(api, "forwarded", methods, template, verbs, _LISTS)


def _written(methods: tuple[str, ...], template: str) -> Row:
    """Something is put into a file, or a store of files."""
    return Row("gemini", "forwarded", methods, template, (), _LISTS, writes_files=True)


def _uploaded(template: str) -> Row:
    """The start of an upload, and its bytes: the upload's URL is the same path."""
    return Row("gemini", "forwarded", ("POST", "PUT"), template, (), _UPLOADS, writes_files=True)


def _download(template: str) -> Row:
    return Row("gemini", "forwarded", _GET, template, (), alts=frozenset({"json", "media"}))


def _unhooked(group: str, api: Api, methods: tuple[str, ...], template: str, *verbs: str) -> Row:
    alts = frozenset({"json", "sse", "media"})
    return Row(api, "forwarded", methods, template, verbs, _UNHOOKED, alts, group)


def _live(api: Api, template: str, *verbs: str) -> Row:
    return Row(api, "tunnel", _GET, template, verbs, frozenset({"access_token"}), unhooked="live")


_GEMINI = (
    Row("gemini", "judged", _POST, "/{v}/{models}/{model}:{verb}", (*_GENERATE, "batchGenerateContent")),
    # A batch's state holds the generated answers, each batch of a list as well.
    Row("gemini", "judged", _GET, "/{v}/batches/{id}", ("getBatch",)),
    Row("gemini", "judged", _GET, "/{v}/batches", ("listBatches",), _LISTS),
    _forwarded("gemini", _POST, "/{v}/batches/{id}:cancel"),
    _forwarded("gemini", _DELETE, "/{v}/batches/{id}"),
    Row(
        "gemini",
        "judged",
        _POST,
        "/{v}/{models}/{model}:{verb}",
        ("countTokens", "embedContent", "batchEmbedContents", "asyncBatchEmbedContent"),
    ),
    _forwarded("gemini", _GET, "/{v}/{models}"),
    _forwarded("gemini", _GET, "/{v}/{models}/{model}"),
    _forwarded("gemini", _GET, "/{v}/files"),
    _written(_POST, "/{v}/files"),
    _forwarded("gemini", ("GET", "DELETE"), "/{v}/files/{id}"),
    _written(_POST, "/{v}/files:register"),
    _download("/{v}/files/{id}:download"),
    _uploaded("/upload/{v}/files"),
    _forwarded("gemini", _GET, "/{v}/fileSearchStores"),
    _forwarded("gemini", ("GET", "DELETE"), "/{v}/fileSearchStores/{id}"),
    _written(_POST, "/{v}/fileSearchStores"),
    _written(("PATCH",), "/{v}/fileSearchStores/{id}"),
    _written(_POST, "/{v}/fileSearchStores/{id}:importFile"),
    _forwarded("gemini", _GET, "/{v}/fileSearchStores/{id}/documents"),
    _forwarded("gemini", ("GET", "DELETE"), "/{v}/fileSearchStores/{id}/documents/{id}"),
    _download("/{v}/fileSearchStores/{id}/media/{id}"),
    _uploaded("/upload/{v}/fileSearchStores/{id}:uploadToFileSearchStore"),
    _forwarded("gemini", _GET, "/{v}/{operations}"),
    _forwarded("gemini", ("GET", "DELETE"), "/{v}/{operations}/{id}"),
    _forwarded("gemini", _POST, "/{v}/{operations}/{id}:cancel"),
    _forwarded("gemini", _GET, "/{v}/cachedContents"),
    _forwarded("gemini", ("GET", "DELETE"), "/{v}/cachedContents/{id}"),
    _unhooked("caches", "gemini", _POST, "/{v}/cachedContents"),
    _unhooked("caches", "gemini", ("PATCH",), "/{v}/cachedContents/{id}"),
    _unhooked("predict", "gemini", _POST, "/{v}/{models}/{model}:{verb}", "predict", "predictLongRunning"),
    _unhooked("interactions", "gemini", _ANY, "/{v}/interactions{rest}"),
    _unhooked("openai", "gemini", _ANY, "/{v}/openai{rest}"),
    _unhooked("agents", "gemini", _ANY, "/{v}/{agents}{rest}"),
    _unhooked("agents", "gemini", ("POST", "PUT"), "/upload/{v}/environments{rest}"),
    _live(
        "gemini",
        "/ws/google.ai.generativelanguage.{v}.GenerativeService.{verb}",
        *("BidiGenerateContent", "BidiGenerateContentConstrained", "BidiGenerateMusic"),
    ),
)

_VERTEX = (
    *(Row("vertex", "judged", _POST, path, _GENERATE) for path in _VERTEX_MODELS),
    *(Row("vertex", "judged", _POST, path, _VERTEX_INPUTS) for path in _VERTEX_MODELS),
    _forwarded("vertex", _GET, "/{v}/publishers/google/models"),
    _forwarded("vertex", _GET, "/{v}/publishers/google/models/{model}"),
    _forwarded("vertex", _GET, f"{_PLACE}/publishers/google/models/{{model}}"),
    _forwarded("vertex", _GET, f"{_PLACE}/models"),
    _forwarded("vertex", _GET, f"{_PLACE}/models/{{model}}"),
    _forwarded("vertex", _GET, f"{_PLACE}/operations/{{id}}"),
    _forwarded("vertex", _GET, f"{_PLACE}/cachedContents"),
    _forwarded("vertex", ("GET", "DELETE"), f"{_PLACE}/cachedContents/{{id}}"),
    _unhooked("caches", "vertex", _POST, f"{_PLACE}/cachedContents"),
    _unhooked("caches", "vertex", ("PATCH",), f"{_PLACE}/cachedContents/{{id}}"),
    *(
        _unhooked("predict", "vertex", _POST, path, "predict", "predictLongRunning", "fetchPredictOperation")
        for path in _VERTEX_MODELS
    ),
    _unhooked("predict", "vertex", _ANY, f"{_PLACE}/batchPredictionJobs{{rest}}"),
    _unhooked("interactions", "vertex", _ANY, f"{_PLACE}/interactions{{rest}}"),
    _unhooked("openai", "vertex", _ANY, f"{_PLACE}/endpoints/openapi{{rest}}"),
    _live("vertex", "/ws/google.cloud.aiplatform.{v}.LlmBidiService/{verb}", "BidiGenerateContent"),
)

_CODE_ASSIST = (
    Row("code_assist", "judged", _POST, "/{v}:{verb}", (*_GENERATE, "countTokens")),
    _forwarded(
        "code_assist",
        _POST,
        "/{v}:{verb}",
        *("loadCodeAssist", "onboardUser", "setCodeAssistGlobalUserSetting"),
        *("recordCodeAssistMetrics", "fetchAdminControls", "listExperiments", "retrieveUserQuota"),
    ),
    _forwarded("code_assist", _GET, "/{v}:{verb}", "getCodeAssistGlobalUserSetting"),
    _forwarded("code_assist", _GET, "/{v}/operations/{id}"),
)

_OWN = (
    Row("gemini", "event", _POST, "/hookgate/v1/events/{verb}", EVENTS, alts=frozenset()),
    Row("gemini", "receipt", _GET, "/hookgate/v1/receipts/{id}", alts=frozenset()),
)
"""The gateway's own: what shims tell of agents, and what became of a call."""

TABLE = (*_GEMINI, *_VERTEX, *_CODE_ASSIST, *_OWN)
