"""A secret in any text field of an interaction or a decision, by google-genai's own types, reaches nobody.

A field that a new version of the SDK adds is covered, or fails this test.
"""

import inspect
import json
import types as python_types
import typing
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any

import orjson
import pytest
from aiohttp import web
from google.genai import decisions, interactions
from pydantic import BaseModel
from pydantic.fields import FieldInfo
from support.bodies.genai import Leaf
from support.bodies.interactions import CREATED, completed, started, stopped
from support.bodies.planting import SECRET, merged, refused_alone, undocumented
from support.gateway.dialects import BOTH
from support.gateway.loopback import gateway_before
from support.wire import KEY, post

from hookgate.proxy.app import serve_on
from hookgate.proxy.config import Config

Json = dict[str, Any]
MODEL = "gemini-2.5-flash"
CONFIG = Config.model_validate({"routes": {"files": "forward", "unhooked": ["interactions"]}})
OPAQUE = (".data", ".signature")
"""What the docs call `inlineData.data` and `thoughtSignature`."""


# ---- the fields of a type


def leaves(annotation: Any, within: tuple[type, ...] = ()) -> Iterator[Leaf]:
    """Each text field of a type, as its path and a value with the secret in this field alone.

    Values have what their types require, and the constants that tell types apart.
    """
    annotation = resolved(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin in (typing.Union, python_types.UnionType):
        for kind in arguments:
            yield from leaves(kind, within)
    elif origin is list:
        yield from ((f"[]{path}", [value]) for path, value in leaves(arguments[0], within))
    elif origin is dict:
        yield ".{key}", {SECRET: "x"}
        yield from ((f".x{path}", {"x": value}) for path, value in leaves(arguments[1], within))
    elif annotation is Any:
        yield from (("", SECRET), (".{key}", {SECRET: "x"}))
    elif inspect.isclass(annotation) and issubclass(annotation, str | bytes):
        yield "", SECRET
    elif inspect.isclass(annotation) and issubclass(annotation, BaseModel) and annotation not in within:
        for name, field in annotation.model_fields.items():
            for path, value in leaves(field.annotation, (*within, annotation)):
                yield f".{name}{path}", {**required(annotation), field.alias or name: value}


def resolved(annotation: Any) -> Any:
    """The type without names for it and without what it is annotated with."""
    while hasattr(annotation, "__value__") or typing.get_origin(annotation) is typing.Annotated:
        annotation = getattr(annotation, "__value__", None) or typing.get_args(annotation)[0]
    return annotation


def required(kind: type[BaseModel]) -> Json:
    return {
        field.alias or name: plain(field.annotation) if field.is_required() else field.default
        for name, field in kind.model_fields.items()
        if field.is_required() or is_constant(field)
    }


def is_constant(field: FieldInfo) -> bool:
    return typing.get_origin(resolved(field.annotation)) is typing.Literal


def plain(annotation: Any) -> Any:
    """A value of a type, without the secret."""
    annotation = resolved(annotation)
    origin, arguments = typing.get_origin(annotation), typing.get_args(annotation)
    if origin is typing.Literal:
        return arguments[0]
    if origin in (typing.Union, python_types.UnionType):
        return plain(arguments[0])
    if origin in (list, dict):
        return origin()
    if inspect.isclass(annotation) and issubclass(annotation, BaseModel):
        return required(annotation)
    return {str: "x", int: 0, float: 0.0, bool: False}.get(annotation, {})


def placed(value: Json, **fields: Any) -> Json:
    """The value with these fields, except where it has the secret."""
    return {**value, **{name: each for name, each in fields.items() if value.get(name) != SECRET}}


# ---- behind a gateway that masks secrets


class Upstream:
    """An upstream that notes bodies, and answers with one body or with the events of a stream."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.answer: Json | list[Json] = {}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.bodies.append(orjson.loads(await request.read()))
        if isinstance(self.answer, dict):
            return web.Response(body=orjson.dumps(self.answer), content_type="application/json")
        data = b"".join(b"data: " + orjson.dumps(event) + b"\n\n" for event in self.answer)
        return web.Response(body=data + b"data: [DONE]\n\n", content_type="text/event-stream")


@pytest.fixture
async def gateway() -> AsyncIterator[tuple[str, Upstream]]:
    upstream = Upstream()
    async with (
        serve_on(upstream.handle, "127.0.0.1", 0) as upstream_url,
        gateway_before(upstream_url, BOTH, CONFIG) as url,
    ):
        yield url, upstream


def together(some: Sequence[Leaf]) -> Json | None:
    """The fields in one body, or None if they are alternatives."""
    body: Any = {}
    try:
        for _, value in some:
            body = merged(body, value)
    except ValueError:
        return None
    return typing.cast(Json, body)


def shows(value: Any) -> list[str]:
    """Where a secret is left that must not be."""
    return [path for path in undocumented(value) if not path.endswith(OPAQUE)]


@pytest.mark.parametrize(
    ("kind", "path", "named", "refused"),
    [
        (interactions.CreateModelInteraction, "interactions", ".model", {"tools", "webhook_config"}),
        (interactions.CreateAgentInteraction, "interactions", ".agent", {"tools", "webhook_config"}),
        (decisions.CreateDecisionRequest, "decisions", ".model", {"input", "questions"}),
    ],
)
async def test_a_secret_in_any_text_field_of_a_request_does_not_reach_the_upstream(
    kind: type[BaseModel], path: str, named: str, refused: set[str], gateway: tuple[str, Upstream]
) -> None:
    url, upstream = gateway
    planted = 0

    async def accepted(some: Sequence[Leaf]) -> bool:
        nonlocal planted
        if (body := together(some)) is None:
            return False
        upstream.bodies.clear()
        answer = await post(url, f"/v1beta/{path}", {"input": "hi"} | body, KEY)
        assert answer.status in (200, 400, 403), answer.body
        assert (answer.status == 200) is bool(upstream.bodies)
        for sent in upstream.bodies:
            assert [place for place in shows(sent) if place != named] == []
        planted += len(some) if answer.status == 200 else 0
        return answer.status == 200

    found = []
    for where, value in leaves(kind):
        given = {} if where.startswith(".input") else {"input": "hi"}
        found.append((where, placed(value, **given, **({"model": MODEL} if "model" in value else {}))))
    alone = await refused_alone(found, accepted)
    assert {where.split(".")[1].partition("[")[0] for where, _ in alone} == refused
    assert planted > 10


async def test_a_secret_in_any_text_field_of_an_answer_does_not_reach_the_client(
    gateway: tuple[str, Upstream],
) -> None:
    url, upstream = gateway

    async def accepted(some: Sequence[Leaf]) -> bool:
        if (body := together(some)) is None:
            return False
        upstream.answer = body
        answer = await post(url, "/v1beta/interactions", {"model": MODEL, "input": "hi"}, KEY)
        assert shows(answer.json) == []
        return answer.status == 200

    found = [
        (where, placed(value, id="v1_1", status="completed", model=MODEL))
        for where, value in leaves(interactions.Interaction)
    ]
    assert len(found) > 1000
    refused = await refused_alone(found, accepted)
    assert {step["type"] for _, body in refused for step in body["steps"]} == USERS


USERS = {"user_input", "function_result"}
"""The steps of which an interaction only repeats those of its request."""

CONTEXT: dict[str, tuple[list[Json], list[Json]]] = {
    "interaction.created": ([], []),
    "step.start": ([CREATED], [stopped()]),
    "step.delta": ([CREATED, started({"type": "model_output", "content": []})], [stopped()]),
    "step.stop": ([CREATED, started({"type": "model_output", "content": []})], []),
}
"""What must be in a stream before and after an event of a type."""


async def test_a_secret_in_any_text_field_of_an_event_does_not_reach_the_client(
    gateway: tuple[str, Upstream],
) -> None:
    url, upstream = gateway

    async def accepted(some: Sequence[Leaf]) -> bool:
        if (event := together(some)) is None:
            return False
        before, after = CONTEXT.get(event.get("event_type", ""), ([CREATED], []))
        upstream.answer = [*before, event, *after, completed()]
        body = {"model": MODEL, "input": "hi", "stream": True}
        answer = (await post(url, "/v1beta/interactions", body, KEY)).body.decode()
        lines = [line.removeprefix("data: ") for line in answer.splitlines() if SECRET in line]
        assert [place for line in lines for place in shows(json.loads(line))] == []
        return "interaction.completed" in answer

    found = list(leaves(interactions.InteractionSSEEvent))
    by_type = {event.get("event_type"): list[Leaf]() for _, event in found}
    for leaf in found:
        by_type[leaf[1].get("event_type")].append(leaf)
    refused = [each for group in by_type.values() for each in await refused_alone(group, accepted)]
    assert len(found) > 1400
    assert len([each for _, each in refused if each.get("step", {}).get("type") not in USERS]) < 20
