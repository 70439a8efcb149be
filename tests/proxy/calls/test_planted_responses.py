"""A secret in any text field of a response or of its request, by the types of OpenAI's SDK, reaches nobody.

A field that a new version of the SDK has is covered, or fails these tests.
"""

import collections.abc
import inspect
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import typing_extensions
from openai.types.responses import Response, ResponseStreamEvent, response_create_params
from pydantic import BaseModel
from support.bodies.planting import SECRET, undocumented
from support.bodies.responses import HI, MODEL, state, text_events
from support.hooks.builtins import redacted

from hookgate.translator import BodyError, check_request, check_response
from hookgate.translator.responses import (
    ResponseEvents,
    ResponseRequest,
    decode_response,
    decode_response_event,
    encode_response,
    encode_response_event,
)
from hookgate.translator.strictjson import dumps, loads

Json = dict[str, Any]
_DEPTH = 6
"""How deep types are entered: schemas and filters contain themselves."""


def fields_of(kind: type) -> dict[str, tuple[Any, bool]]:
    """The fields of a class of the SDK by their names in JSON: their types, and whether they are required."""
    if issubclass(kind, BaseModel):
        named = {field.alias or name: field for name, field in kind.model_fields.items()}
        return {name: (field.annotation, field.is_required()) for name, field in named.items()}
    hints = typing_extensions.get_type_hints(kind, include_extras=False)
    required: frozenset[str] = getattr(kind, "__required_keys__", frozenset())
    return {name: (hint, name in required) for name, hint in hints.items()}


def is_object(kind: Any) -> bool:
    return inspect.isclass(kind) and (issubclass(kind, BaseModel) or typing_extensions.is_typeddict(kind))


def bare(annotation: Any) -> Any:
    """A type without what says how it is used."""
    while typing.get_origin(annotation) in (typing.Annotated, typing.Required, typing.NotRequired):
        annotation = typing.get_args(annotation)[0]
    return annotation


def sample(annotation: Any, depth: int = 0) -> Any:
    """The smallest value of a type."""
    annotation = bare(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return arguments[0]
    if origin is not None and type(None) in arguments:
        return None
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
        return []
    if origin is not None and origin is not dict:
        return sample(arguments[0], depth)
    if is_object(annotation):
        found = fields_of(annotation).items()
        return {
            name: sample(kind, depth + 1) for name, (kind, required) in found if required or name == "type"
        }
    return {"str": "a", "int": 0, "float": 0.5, "bool": False}.get(getattr(annotation, "__name__", ""), {})


def planted_in(annotation: Any, depth: int = 0) -> Iterator[Any]:
    """Values of a type, each with the secret in one of its text fields."""
    annotation = bare(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if depth > _DEPTH or origin is typing.Literal:
        return
    if origin in (list, collections.abc.Iterable, collections.abc.Sequence):
        yield from ([value] for value in planted_in(arguments[0], depth))
    elif origin is dict:
        yield from ({"x": value} for value in planted_in(arguments[1], depth))
    elif origin is not None:
        for kind in arguments:
            yield from planted_in(kind, depth)
    elif annotation in (object, Any, str):
        yield SECRET
    elif is_object(annotation):
        base = sample(annotation)
        for name, (kind, _) in fields_of(annotation).items():
            for value in planted_in(kind, depth + 1):
                yield {**base, name: value}


def unexpected(value: Any) -> list[str]:
    """Where the secret is left. Encrypted content is a thought signature, which passes as it is."""
    return [path for path in undocumented(value) if not path.endswith(".encryptedContent")]


def test_a_secret_in_any_text_field_of_a_request_is_redacted_or_refused() -> None:
    sent = refused = 0
    for given in planted_in(response_create_params.ResponseCreateParamsNonStreaming):
        body = {**HI, **given, "model": MODEL}
        try:
            request = ResponseRequest(body)
            check_request(request.shown)
        except BodyError:
            refused += 1
            continue
        shown = redacted("BeforeModel", "llm_request", {"model": MODEL, "raw": request.shown})
        try:
            new = request.edited(MODEL, shown)
        except BodyError:
            refused += 1
            continue
        assert unexpected(new) == [], body
        sent += 1
    assert sent > 35
    assert refused > 100  # tools and items that hooks could not judge


def test_a_secret_in_any_text_field_of_an_answer_is_redacted_or_refused() -> None:
    sent = 0
    for body in planted_in(Response):
        try:
            response = check_response(decode_response(body))
        except BodyError:
            continue
        assert unexpected(encode_response(body, judged(response))) == [], body
        sent += 1
    assert sent > 300


def judged(response: Json) -> Json:
    return redacted("AfterModel", "llm_response", {"raw": response})


KINDS = [bare(kind) for kind in typing.get_args(bare(ResponseStreamEvent))]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.__name__)
def test_a_secret_in_any_text_field_of_an_event_is_redacted_or_refused(kind: Any) -> None:
    begun = text_events(["a"])[0]
    for event in planted_in(kind):
        framing, out = ResponseEvents(), b""
        before = [state("created"), *(begun[:2] if "output_index" in event else [])]
        before = before[:1] if event["type"] == "response.output_item.added" else before
        data = b"".join(b"data: " + dumps(each) + b"\n\n" for each in (*before, event))
        try:
            frames = [*framing.feed(data), *framing.finish()]
            bodies = [loads(frame.data) for frame in frames]
            opened = [check_response(decode_response_event(body)) for body in bodies]
        except BodyError:
            continue
        for frame, body, response in zip(frames, bodies, opened, strict=True):
            closed = encode_response_event(body, judged(response))
            out += framing.encode(frame, frame.data if closed is body else dumps(closed))
        sent = [loads(line[6:]) for line in out.splitlines() if line.startswith(b"data: ")]
        assert [place for each in sent for place in unexpected(each)] == [], event
