"""Batches, token counts, embeddings, decisions and caches: bodies with requests that are judged one by one.

    inputs = read_inputs("embedContent", body)
    body = inputs.edited([edit(item.request) for item in inputs.requests])

Hooks accept only GenerateContentRequests, so each text in such a body is shown as one; a title is a turn of
the user before its content, and the displayed name of cached contents is a request of its own. Bodies with
unknown fields are refused, since hooks would not see them. Objects are never changed in place, and an
unchanged body is returned itself.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from hookgate.translator.batches import BatchBody
from hookgate.translator.checks import check_keys, check_role, make_canonical
from hookgate.translator.decision_body import DecisionBody
from hookgate.translator.fields import (
    BodyError,
    EditError,
    JsonObject,
    camel,
    is_text,
    joined_text,
    read,
    read_list,
    same_items,
    write,
)

CACHES = frozenset({"createCachedContent", "updateCachedContent"})
"""The API's methods that write cached contents."""

ITEM_METHODS = CACHES | {
    "batchGenerateContent",
    "countTokens",
    "computeTokens",
    "embedContent",
    "batchEmbedContents",
    "asyncBatchEmbedContent",
    "createDecision",
    "createEmbedding",
}
"""The API's methods of these calls."""

_COUNTED = ("contents", "systemInstruction", "tools", "toolConfig", "generationConfig")
_TASK_TYPE = re.compile(r"[A-Za-z_]{1,64}")


class InputLens(Protocol):
    """Shows an object of a body as a request, and applies edits to it."""

    request: JsonObject
    """The GenerateContentRequest that hooks are shown."""

    def edited(self, request: JsonObject) -> JsonObject:
        """Return the object for an edited request. Raises EditError if the object cannot represent it."""


@dataclass(frozen=True, slots=True)
class RequestItem:
    """One request in a body."""

    path: str
    """The path of the object, or an empty string for the body itself."""
    holder: JsonObject
    """The object, which may name a model."""
    request: JsonObject
    """The request that hooks are shown."""
    is_label: bool = False
    """Whether it contains only the names and metadata of the others."""


def _identity(obj: JsonObject) -> JsonObject:
    return obj


class Inputs:
    """The requests in a body."""

    def __init__(
        self,
        lenses: Sequence[tuple[str, JsonObject, InputLens]],
        rebuild: Callable[[list[JsonObject]], JsonObject],
    ) -> None:
        self._lenses, self._rebuild = [lens for _, _, lens in lenses], rebuild
        self.requests = [
            RequestItem(path, holder, lens.request, isinstance(lens, _Labels))
            for path, holder, lens in lenses
        ]
        self.counted = [item.request for item in self.requests if not item.is_label]
        """The requests that the model is asked to process."""

    def edited(
        self, requests: Sequence[JsonObject], finish: Callable[[JsonObject], JsonObject] = _identity
    ) -> JsonObject:
        """Return the body with edited requests, which correspond to the attribute `requests`.

        `finish` is applied to each edited object, for example to set its model. Raises EditError if the body
        cannot represent an edit.
        """
        new = []
        for lens, item, request in zip(self._lenses, self.requests, requests, strict=True):
            try:
                holder = item.holder if request is item.request else lens.edited(request)
                new.append(finish(holder))
            except EditError as error:
                error.path = f"{item.path}.{error.path}" if item.path else error.path
                raise
        return self._rebuild(new)


def read_inputs(verb: str, body: JsonObject) -> Inputs:
    """Read a body of the API's method `verb`, one of ITEM_METHODS. Raises BodyError."""
    body = make_canonical(body)
    match verb:
        case "countTokens":
            return _count(body)
        case "computeTokens" | "createDecision" | "embedContent":
            return Inputs([("", body, _single(verb, body))], _first)
        case "batchEmbedContents":
            return _embeddings(body)
        case "createEmbedding":
            return _openai_embeddings(body)
        case "batchGenerateContent":
            return _batch(body, lambda request, _: _Whole(request))
        case "asyncBatchEmbedContent":
            return _batch(body, _Embedding)
    return _cached(body, creates=verb == "createCachedContent")


def _single(verb: str, body: JsonObject) -> InputLens:
    """Return what shows a body that is one request."""
    if verb == "computeTokens":
        return _Conversation(body, "", ("contents",))
    return DecisionBody(body) if verb == "createDecision" else _Embedding(body, "")


def offers_tools(verb: str, request: JsonObject) -> bool:
    """Return whether a request of a method may offer tools to the model, at once or from a cache."""
    return verb == "batchGenerateContent" or (verb in CACHES and bool(read_list(request, "tools")))


def _first(new: list[JsonObject]) -> JsonObject:
    return new[0]


# ---- token counts


def _count(body: JsonObject) -> Inputs:
    wrapped = [key for key in ("request", "generateContentRequest") if read(body, key) is not None]
    if not wrapped:
        return Inputs([("", body, _Conversation(body, "", _COUNTED))], _first)
    key = wrapped[0]
    known = ("generateContentRequest", "model") if key == "generateContentRequest" else ("request",)
    check_keys(body, "", known)
    inner = read(body, key)
    if not isinstance(inner, dict):
        raise BodyError(key, "must be an object")
    whole = key == "generateContentRequest"
    lens = _Whole(inner) if whole else _Conversation(inner, key, ("contents",))

    def rebuild(new: list[JsonObject]) -> JsonObject:
        return body if new[0] is inner else write(body, key, new[0])

    return Inputs([(key, inner, lens)], rebuild)


class _Whole:
    """An object that is a GenerateContentRequest."""

    def __init__(self, obj: JsonObject) -> None:
        self.request = obj

    def edited(self, request: JsonObject) -> JsonObject:
        return request


class _Labels(_Whole):
    """The labels of a batch."""


class _Conversation:
    """An object with contents and other fields of a GenerateContentRequest."""

    def __init__(self, obj: JsonObject, path: str, fields: Sequence[str]) -> None:
        check_keys(obj, path, ("model", *fields))
        self._obj, self._fields = obj, fields
        self.request = {key: value for key, value in obj.items() if key != "model"}

    def edited(self, request: JsonObject) -> JsonObject:
        """Return the object for an edited request. Fields that it does not support are dropped."""
        kept = {key: value for key, value in self._obj.items() if key == "model" or key in request}
        return kept | {key: value for key, value in request.items() if camel(key) in self._fields}


# ---- embeddings


def _embeddings(body: JsonObject) -> Inputs:
    check_keys(body, "", ("requests", "model"))
    requests = read(body, "requests")
    if not isinstance(requests, list):
        raise BodyError("requests", "must be a list")
    lenses = [
        (f"requests[{number}]", item, _Embedding(item, f"requests[{number}]"))
        for number, item in enumerate(requests)
    ]

    def rebuild(new: list[JsonObject]) -> JsonObject:
        unchanged = same_items(new, requests)
        return body if unchanged else write(body, "requests", new)

    return Inputs(lenses, rebuild)


def _batch(body: JsonObject, show: Callable[[JsonObject, str], InputLens]) -> Inputs:
    """Return the requests of a batch, each shown by `show`, and its labels."""
    batch = BatchBody(body)
    lenses: list[tuple[str, JsonObject, InputLens]] = [
        (path, request, show(request, path)) for path, request in batch.requests
    ]
    labels = batch.labels()

    def rebuild(new: list[JsonObject]) -> JsonObject:
        return batch.edited(new[: len(batch.requests)], new[-1] if labels else None)

    return Inputs([*lenses, *([("batch", labels, _Labels(labels))] if labels else ())], rebuild)


_EMBEDDED = ("model", "content", "title", "taskType", "outputDimensionality", "embedContentConfig")
_CONFIG = ("title", "taskType", "outputDimensionality", "autoTruncate", "documentOcr", "audioTrackExtraction")


class _Embedding:
    """A content with a title, and settings that are not text."""

    def __init__(self, obj: Any, path: str) -> None:
        check_keys(obj, path, (*_EMBEDDED, "autoTruncate"))
        self._obj: JsonObject = obj
        config = read(obj, "embedContentConfig")
        if config is not None:
            check_keys(config, _below(path, "embedContentConfig"), _CONFIG)
        self._config: JsonObject = config or {}
        _check_settings(obj, path)
        _check_settings(self._config, _below(path, "embedContentConfig"))
        content = read(obj, "content")
        if not isinstance(content, dict):
            raise BodyError(_below(path, "content"), "a content must be an object {role, parts}")
        check_role(content, _below(path, "content"))
        self._content = content
        titles = [read(holder, "title") for holder in (obj, self._config)]
        self._titles = [title for title in titles if title is not None]
        turns = [{"role": "user", "parts": [{"text": title}]} for title in self._titles]
        # The role is ignored: all text is shown as the user's, since hooks may check less of a model's text.
        self._shown = content if content.get("role", "user") == "user" else {**content, "role": "user"}
        self.request: JsonObject = {"contents": [*turns, self._shown]}

    def edited(self, request: JsonObject) -> JsonObject:
        contents = read(request, "contents")
        turns = len(self._titles) + 1
        if not isinstance(contents, list) or len(contents) != turns:
            raise EditError(
                "contents", f"as many turns as were shown, {turns}: an embedding has one", contents
            )
        titles = [_text_of(turn) for turn in contents[:-1]]
        obj, config = self._obj, self._config
        if read(obj, "title") is not None:
            obj = write(obj, "title", titles.pop(0))
        if titles:
            obj = write(obj, "embedContentConfig", write(config, "title", titles.pop(0)))
        if contents[-1] is self._shown:
            return obj
        content = contents[-1]
        if "role" in self._content:
            content = {key: self._content["role"] if key == "role" else content[key] for key in content}
        return write(obj, "content", content)


def _text_of(turn: JsonObject) -> str:
    parts = read(turn, "parts")
    if not isinstance(parts, list) or not all(is_text(part) for part in parts):
        raise EditError("contents", "only text as the title", turn)
    return joined_text(turn)


# ---- cached contents


_CACHED = ("contents", "systemInstruction", "tools", "toolConfig")
_CACHE_SETTINGS = ("name", "ttl", "expireTime", "encryptionSpec")
_RESOURCE = re.compile(r"[A-Za-z0-9._~/-]{1,512}")
_TIME = re.compile(r"[0-9][0-9A-Za-z.:+-]{0,63}")


def _cached(body: JsonObject, *, creates: bool) -> Inputs:
    """Return the contents of a cache, unless an update has none, and its displayed name if there is one."""
    check_keys(body, "", ("model", *_CACHED, *_CACHE_SETTINGS, "displayName"))
    _check_cache_settings(body)
    name = read(body, "displayName")
    lenses: list[tuple[str, JsonObject, InputLens]] = []
    if creates or any(read(body, field) is not None for field in _CACHED):
        lenses.append(("", body, _CachedContents(body)))
    if name is not None:
        lenses.append(("displayName", body, _DisplayName(body, name)))

    def rebuild(new: list[JsonObject]) -> JsonObject:
        if not new:
            return body
        first, last = new[0], new[-1]
        edited = read(last, "displayName")
        return first if edited == name else write(first, "displayName", edited)

    return Inputs(lenses, rebuild)


class _CachedContents:
    """The contents, the system instruction, the tools and the settings of a cache."""

    def __init__(self, body: JsonObject) -> None:
        self._body = body
        self.request = {
            key: value for key, value in body.items() if camel(key) not in ("model", "displayName")
        }

    def edited(self, request: JsonObject) -> JsonObject:
        """Return the body for an edited request. Settings of a generation are dropped."""
        kept = {key: value for key, value in self._body.items() if key in request or key not in self.request}
        known = (*_CACHED, *_CACHE_SETTINGS)
        return kept | {key: value for key, value in request.items() if camel(key) in known}


class _DisplayName:
    """The displayed name of a cache, as a turn of the user."""

    def __init__(self, body: JsonObject, name: Any) -> None:
        if not isinstance(name, str):
            raise BodyError("displayName", "must be a string")
        self._body = body
        self.request: JsonObject = {"contents": [{"role": "user", "parts": [{"text": name}]}]}

    def edited(self, request: JsonObject) -> JsonObject:
        contents = read(request, "contents")
        if not isinstance(contents, list) or len(contents) != 1:
            raise EditError("contents", "one turn, which is the name", contents)
        return write(self._body, "displayName", _text_of(contents[0]))


def _check_cache_settings(body: JsonObject) -> None:
    """Check that the settings are names and times, so that they cannot contain hidden text."""
    for field, pattern, example in (
        ("name", _RESOURCE, "the name of cached contents, such as cachedContents/1"),
        ("ttl", _TIME, "a duration, such as 3600s"),
        ("expireTime", _TIME, "a time, such as 2027-01-31T12:00:00Z"),
    ):
        value = read(body, field)
        if value is not None and not (isinstance(value, str) and pattern.fullmatch(value)):
            raise BodyError(field, f"must be {example}")
    encryption = read(body, "encryptionSpec")
    if encryption is not None:
        key = read(check_keys(encryption, "encryptionSpec", ("kmsKeyName",)), "kmsKeyName")
        if key is not None and not (isinstance(key, str) and _RESOURCE.fullmatch(key)):
            raise BodyError("encryptionSpec.kmsKeyName", "must be the name of a key")


def _check_settings(obj: JsonObject, path: str) -> None:
    """Check that the settings have the expected types, so that they cannot contain hidden text."""
    for key, value in obj.items():
        name = camel(key)
        if value is None:
            continue
        if name == "taskType" and not (isinstance(value, str) and _TASK_TYPE.fullmatch(value)):
            raise BodyError(_below(path, key), "must be the name of a task, such as RETRIEVAL_QUERY")
        if name == "title" and not isinstance(value, str):
            raise BodyError(_below(path, key), "must be a string")
        if name == "outputDimensionality" and not isinstance(value, int):
            raise BodyError(_below(path, key), "must be an integer")
        if name in ("autoTruncate", "documentOcr", "audioTrackExtraction") and not isinstance(value, bool):
            raise BodyError(_below(path, key), "must be true or false")


# ---- embeddings in OpenAI's dialect


def _openai_embeddings(body: JsonObject) -> Inputs:
    """Read a body whose `input` is a text or a list of texts. Its `user` is judged as a text, too."""
    check_keys(body, "", ("model", "input", "dimensions", "encodingFormat", "user"))
    if not isinstance(body.get("dimensions"), int | None):
        raise BodyError("dimensions", "must be an integer")
    if read(body, "encodingFormat") not in (None, "float", "base64"):
        raise BodyError("encoding_format", "must be float or base64")
    user = body.get("user")
    if not isinstance(user, str | None):
        raise BodyError("user", "must be a string, since hooks cannot inspect other types")
    given = body.get("input")
    texts = given if isinstance(given, list) else [given]
    if not all(isinstance(text, str) for text in texts):
        raise BodyError("input", "must be a string or an array of strings, since hooks cannot inspect tokens")
    named = {key: value for key, value in body.items() if key == "model"}
    paths = [f"input[{number}]" for number in range(len(texts))] if isinstance(given, list) else [""]
    judged = [*zip(paths, texts, strict=True), *([] if user is None else [("user", user)])]
    holders = [(path, {**named, "input": text}) for path, text in judged]
    lenses: list[tuple[str, JsonObject, InputLens]] = [
        (path, holder, _Text(holder)) for path, holder in holders
    ]

    def rebuild(new: list[JsonObject]) -> JsonObject:
        edited = [holder["input"] for holder in new]
        if edited == [text for _, text in judged]:
            return body
        users = {} if user is None else {"user": edited.pop()}
        return {**body, "input": edited if isinstance(given, list) else edited[0], **users}

    return Inputs(lenses, rebuild)


class _Text:
    """An object whose `input` is one text."""

    def __init__(self, obj: JsonObject) -> None:
        self._obj = obj
        self.request: JsonObject = {"contents": [{"role": "user", "parts": [{"text": obj["input"]}]}]}

    def edited(self, request: JsonObject) -> JsonObject:
        contents = read(request, "contents")
        if not isinstance(contents, list) or len(contents) != 1:
            raise EditError("contents", "one turn, as was shown", contents)
        return {**self._obj, "input": _text_of(contents[0])}


def _below(path: str, key: str) -> str:
    return f"{path}.{key}" if path else key
