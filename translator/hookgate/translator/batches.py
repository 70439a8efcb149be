"""Requests that create batches, and what the API answers about batches.

A request is `{"batch": {"displayName", "inputConfig": {"requests": {"requests": […]}}}}`:

    batch = BatchBody(body)
    body = batch.edited([edit(request) for _, request in batch.requests], batch.labels())

Bodies with unknown fields are refused, since hooks would not see them. A batch has a name, and each of its
requests has metadata. The strings of both are the labels, which hooks are shown as turns of a user.

The state of a batch contains its answers, once there are some:

    state = BatchState(body)
    body = state.edited([edit(answer) for answer in state.answers], edit(state.rest()))
"""

import re
from collections.abc import Iterator, Sequence
from typing import Any

from hookgate.translator.checks import check_keys
from hookgate.translator.fields import (
    BodyError,
    EditError,
    JsonObject,
    is_text,
    joined_text,
    read,
    read_list,
    same_items,
    write,
)

REQUESTS = "batch.inputConfig.requests.requests"
"""The path of the requests."""

_KNOWN = {
    "": ("batch",),
    "batch": ("displayName", "inputConfig", "model", "priority"),
    "batch.inputConfig": ("requests",),
}


class BatchBody:
    """The body of a request that creates a batch. Raises BodyError, for example for an unknown field."""

    def __init__(self, body: JsonObject) -> None:
        self._body = body
        self.batch = _child(body, "", "batch")
        _check_batch(self.batch)
        self._source = _child(self.batch, "batch", "inputConfig")
        check_keys(self._source, "batch.inputConfig", _KNOWN["batch.inputConfig"])
        self._inlined = _child(self._source, "batch.inputConfig", "requests")
        check_keys(self._inlined, "batch.inputConfig.requests", ("requests",))
        if not isinstance(read(self._inlined, "requests"), list | dict | None):
            raise BodyError(REQUESTS, "the requests must be a list of {request, metadata}")
        self._items = read_list(self._inlined, "requests")
        self.requests = [
            (f"{REQUESTS}[{number}].request", _request_of(item, f"{REQUESTS}[{number}]"))
            for number, item in enumerate(self._items)
        ]
        """The requests with their paths."""

    def labels(self) -> JsonObject:
        """Return the labels as a request, or an empty object if there are none."""
        turns = [{"role": "user", "parts": [{"text": text}]} for text in _labels_in(self._labeled())]
        return {"contents": turns} if turns else {}

    def edited(self, requests: Sequence[JsonObject], labels: JsonObject | None) -> JsonObject:
        """Return the body with new requests and labels, or the body itself if they are unchanged.

        Raises EditError if the number of labels has changed.
        """
        name, metadata = self._labeled() if not labels else self._relabeled(labels)
        batch, items = self.batch, []
        for item, request, data in zip(self._items, requests, metadata, strict=True):
            new = item if read(item, "request") is request else write(item, "request", request)
            items.append(new if data == read(item, "metadata") else write(new, "metadata", data))
        if not same_items(items, self._items):
            inlined = write(self._inlined, "requests", items)
            batch = write(batch, "inputConfig", write(self._source, "requests", inlined))
        if name != read(batch, "displayName"):
            batch = write(batch, "displayName", name)
        return self._body if batch is self.batch else write(self._body, "batch", batch)

    def _labeled(self) -> list[Any]:
        return [read(self.batch, "displayName"), [read(item, "metadata") for item in self._items]]

    def _relabeled(self, labels: JsonObject) -> list[Any]:
        before = self._labeled()
        turns = read_list(labels, "contents")
        if len(turns) != sum(1 for _ in _labels_in(before)):
            raise EditError("batch", "as many turns as its name and metadata have strings", turns)
        if not all(is_text(part) for turn in turns for part in read_list(turn, "parts")):
            raise EditError("batch", "only text as its name and metadata", turns)
        after: list[Any] = _with_labels(before, map(joined_text, turns))
        return after


def _labels_in(value: Any) -> Iterator[str]:
    """Yield all strings of a value in order, with each key on a line before its value, as in `password: `."""
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for key, item in value.items():
            yield f"\n{key}: "
            yield from _labels_in(item)
    elif isinstance(value, list):
        for item in value:
            yield from _labels_in(item)


def _with_labels(value: Any, labels: Iterator[str]) -> Any:
    """Return a value with the strings of `_labels_in` after an edit."""
    if isinstance(value, str):
        return next(labels)
    if isinstance(value, dict):
        return {
            next(labels).removeprefix("\n").removesuffix(": "): _with_labels(item, labels)
            for item in value.values()
        }
    if isinstance(value, list):
        return [_with_labels(item, labels) for item in value]
    return value


def _child(obj: JsonObject, path: str, name: str) -> JsonObject:
    """Return the object in a required field. Raises BodyError, including for unknown fields beside it."""
    check_keys(obj, path, _KNOWN[path])
    value = read(obj, name)
    if not isinstance(value, dict):
        place = f"{path}.{name}" if path else name
        raise BodyError(place, "a batch must have an object here")
    return value


def _check_batch(batch: JsonObject) -> None:
    priority, name = read(batch, "priority"), read(batch, "displayName")
    if priority is not None and not re.fullmatch(r"-?[0-9]{1,19}", str(priority)):
        raise BodyError("batch.priority", "must be an integer")
    if name is not None and not isinstance(name, str):
        raise BodyError("batch.displayName", "must be a string")


def _request_of(item: Any, path: str) -> JsonObject:
    if not isinstance(item, dict):
        raise BodyError(path, "it must be an object {request, metadata}")
    check_keys(item, path, ("request", "metadata"))
    request = item.get("request")
    if not isinstance(request, dict):
        raise BodyError(f"{path}.request", "it must be an object")
    return request


class BatchState:
    """The state of a batch, or of a list of batches, with their answers.

    Raises BodyError if an answer contains another one.
    """

    def __init__(self, body: JsonObject) -> None:
        self._body = body
        self.in_file = False
        """Whether there are answers in a file, where hooks cannot inspect them."""
        self.answers: list[JsonObject] = []
        """The answers, each a GenerateContentResponse."""
        self._rest = self._without_answers(body)

    def _without_answers(self, value: Any) -> Any:
        """Return a value with an empty object in place of each answer, which is noted."""
        if isinstance(value, list):
            return [self._without_answers(item) for item in value]
        if not isinstance(value, dict):
            return value
        if _is_answer(value):
            self.in_file = self.in_file or read(value, "responsesFile") is not None
            found = len(self.answers)
            for name, item in value.items():
                if name != "candidates":
                    self._without_answers(item)
            if len(self.answers) > found:
                raise BodyError(
                    "candidates", "an answer contains another one, which hooks would not see as one"
                )
            self.answers.append(value)
            return {}
        self.in_file = self.in_file or read(value, "responsesFile") is not None
        return {key: self._without_answers(item) for key, item in value.items()}

    def rest(self) -> JsonObject:
        """Return what is beside the answers as a response without text. Each answer is an empty object."""
        return {"candidates": [], "batch": self._rest}

    def edited(self, answers: Sequence[JsonObject], rest: JsonObject) -> JsonObject:
        """Return the body with new answers and a new rest, or the body itself if they are unchanged.

        Raises EditError if the rest has another structure.
        """
        new = rest.get("batch")
        if same_items(answers, self.answers) and new == self._rest:
            return self._body
        edited: JsonObject = _with_answers(self._body, new, iter(answers))
        return edited


def _is_answer(value: JsonObject) -> bool:
    return "candidates" in value


def _with_answers(original: Any, rest: Any, answers: Iterator[JsonObject]) -> Any:
    """Return the edited rest of a value with the answers in their places. Raises EditError."""
    if isinstance(original, dict | list):
        is_answer = isinstance(original, dict) and _is_answer(original)
        size = 0 if is_answer else len(original)
        if not isinstance(rest, type(original)) or len(rest) != size:
            raise EditError("batch", "the structure that it had", rest)
        if is_answer:
            return next(answers)
    if isinstance(original, dict):
        pairs = zip(original.values(), rest.items(), strict=True)
        return {name: _with_answers(item, new, answers) for item, (name, new) in pairs}
    if isinstance(original, list):
        return [_with_answers(item, new, answers) for item, new in zip(original, rest, strict=True)]
    return rest
