"""A secret in any text field of a judged request or answer, by google-genai's types, reaches nobody.

The SDK makes the requests, so a field that a new version of it sends is covered, or fails this test.
"""

import base64
import json
import operator
from collections.abc import AsyncIterator, Sequence
from typing import Any

import orjson
import pytest
from aiohttp import web
from google import genai
from google.genai import types
from support.bodies.genai import Leaf, Sdk, camel_case, leaves_of
from support.bodies.planting import SECRET, leaves, left, merged, refused_alone, undocumented
from support.gateway.loopback import gateway_before
from support.hooks.builtins import SENSITIVE, redacted
from support.wire import SSE, UNARY, post, prompt

from hookgate.proxy.app import serve_on
from hookgate.proxy.config import Config
from hookgate.translator.fields import BodyError
from hookgate.translator.live import ClientMessage, Segment, ServerMessage

pytestmark = pytest.mark.filterwarnings(
    "ignore"
)  # of methods that are experimental, and of unknown enumerators

REDACT = {"type": "builtin", "builtin": "redact", "options": SENSITIVE}
FORWARDS = Config.model_validate({"routes": {"files": "forward"}})
PLAIN_NAMES = ("role", "task_type", "model", "ttl")
"""Fields that refuse a request unless they are plain names or times, or the name of the path's model."""

REFUSED = ("webhook_config", "routing_config")
"""Fields that are always refused: answers would be sent elsewhere, or come from another model."""
ENCODED = base64.b64encode(SECRET.encode()).decode()


class Recording:
    """An upstream that notes bodies, and answers with one."""

    def __init__(self) -> None:
        self.bodies: list[Any] = []
        self.answer: Any = {}

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        self.bodies.append(orjson.loads(await request.read()))
        if "alt=sse" in request.path_qs:
            data = b"data: " + orjson.dumps(self.answer) + b"\r\n\r\n"
            return web.Response(body=data, content_type="text/event-stream")
        return web.Response(body=orjson.dumps(self.answer), content_type="application/json")


@pytest.fixture
async def gateway() -> AsyncIterator[tuple[str, Recording]]:
    upstream = Recording()
    hooks = {"BeforeModel": [REDACT], "AfterModel": [REDACT]}
    async with (
        serve_on(upstream.handle, "127.0.0.1", 0) as upstream_url,
        gateway_before(upstream_url, hooks, FORWARDS) as url,
    ):
        yield url, upstream


CONTENTS = leaves_of(list[types.Content])
HI = [{"role": "user", "parts": [{"text": "hi"}]}]


def generate(client: genai.Client, given: Any) -> Any:
    return client.models.generate_content(model="m", **({"contents": HI} | given))


def count(client: genai.Client, given: Any) -> Any:
    return client.models.count_tokens(model="m", **({"contents": HI} | given))


def compute(client: genai.Client, given: Any) -> Any:
    return client.models.compute_tokens(model="m", **({"contents": HI} | given))


def embed(client: genai.Client, given: Any) -> Any:
    return client.models.embed_content(model="gemini-embedding-001", **({"contents": HI} | given))


def embed_one(client: genai.Client, given: Any) -> Any:
    return client.models.embed_content(model="gemini-embedding-2-preview", **({"contents": HI} | given))


def batch(client: genai.Client, given: Any) -> Any:
    src = [{"contents": HI} | each for each in given.get("src", [{}])]
    return client.batches.create(model="m", src=src, config=given.get("config"))


def embed_batch(client: genai.Client, given: Any) -> Any:
    inlined = {"contents": HI} | given.get("src", {})
    return client.batches.create_embeddings(
        model="m", src={"inlined_requests": inlined}, config=given.get("config")
    )


def cache(client: genai.Client, given: Any) -> Any:
    return client.caches.create(model="m", config={"contents": HI} | given)


def beside(name: str, found: list[Leaf]) -> list[Leaf]:
    return [(f"{name}{path}", {name: value}) for path, value in found]


EMBEDS = [*beside("contents", CONTENTS), *beside("config", leaves_of(types.EmbedContentConfig))]
METHODS: dict[str, tuple[Any, list[Leaf]]] = {
    "generate_content": (
        generate,
        [*beside("contents", CONTENTS), *beside("config", leaves_of(types.GenerateContentConfig))],
    ),
    "count_tokens": (
        count,
        [*beside("contents", CONTENTS), *beside("config", leaves_of(types.CountTokensConfig))],
    ),
    "compute_tokens": (compute, beside("contents", CONTENTS)),
    "embed_content": (embed, EMBEDS),
    "embed_content of one": (embed_one, EMBEDS),
    "batches.create": (
        batch,
        [
            *beside("src", leaves_of(list[types.InlinedRequest])),
            *beside("config", leaves_of(types.CreateBatchJobConfig)),
        ],
    ),
    "caches.create": (cache, leaves_of(types.CreateCachedContentConfig)),
    "batches.create_embeddings": (
        embed_batch,
        [
            *beside("src", leaves_of(types.EmbedContentBatch)),
            *beside("config", leaves_of(types.CreateEmbeddingsBatchJobConfig)),
        ],
    ),
}
VERTEX = [
    "generate_content",
    "count_tokens",
    "compute_tokens",
    "embed_content",
    "embed_content of one",
    "caches.create",
]
CELLS = [
    pytest.param(method, vertex, id=f"{'vertex' if vertex else 'gemini'}-{method}")
    for method in METHODS
    for vertex in (False, True)
    if (method in VERTEX if vertex else method != "compute_tokens")
]


@pytest.mark.parametrize(("method", "vertex"), CELLS)
async def test_a_secret_in_any_text_field_of_a_request_does_not_reach_the_upstream(
    method: str, vertex: bool, gateway: tuple[str, Recording]
) -> None:
    url, upstream = gateway
    sdk, (call, found) = Sdk(vertex=vertex), METHODS[method]
    refused: set[str] = set()
    planted = 0

    async def accepted(some: Sequence[Leaf]) -> bool:
        nonlocal planted
        try:
            given: Any = {}
            for _, value in some:
                given = merged(given, value)
            path, body = sdk.request(lambda client: call(client, given))
        except Exception:  # the SDK does not send these fields, or not together
            return False
        upstream.bodies.clear()
        answer = await post(url, path, body)
        assert answer.status in (200, 400, 403), answer.body
        assert answer.status == 200 or not upstream.bodies
        if answer.status != 200:
            refused.update(path for path, _ in some if len(some) == 1)
            return False
        [sent] = upstream.bodies
        assert undocumented(sent) == []
        assert ENCODED not in json.dumps(sent)
        planted += len([*left(body)]) + json.dumps(body).count(ENCODED)
        return True

    await refused_alone(found, accepted)
    others = [path for path in refused if not any(field in path for field in REFUSED)]
    assert [path for path in others if not path.endswith(PLAIN_NAMES)] == []
    assert planted >= 60


@pytest.mark.parametrize("target", [UNARY, SSE], ids=["whole", "stream"])
async def test_a_secret_in_any_text_field_of_an_answer_does_not_reach_the_client(
    target: str, gateway: tuple[str, Recording]
) -> None:
    url, upstream = gateway
    refused: set[str] = set()
    planted = 0

    async def accepted(some: Sequence[Leaf]) -> bool:
        nonlocal planted
        body: Any = {}
        try:
            for _, value in some:
                body = merged(body, value)
        except ValueError:
            return False
        upstream.answer = camel_case(body)
        answer = await post(url, target, prompt("hi"))
        if answer.status != 200:
            assert SECRET not in answer.body.decode()
            refused.update(path for path, _ in some if len(some) == 1)
            return False
        for got in answer.events if target == SSE else [answer.json]:
            assert undocumented(got) == []
        planted += len([*left(body)])
        return True

    await refused_alone(leaves_of(types.GenerateContentResponse), accepted)
    piece = ".candidates[].content.parts[].function_call.partial_args[]"  # needs a path, and a value
    results = {path for path in refused if ".function_response." in path}  # which only a client may send
    assert len(results) > 5
    assert refused - results == {
        ".candidates[].content.role",
        f"{piece}.json_path",
        f"{piece}.string_value",
    }
    assert planted > 150


def test_a_secret_in_any_text_field_of_a_live_message_is_redacted_refused_or_removed() -> None:
    checked = {"client": 0, "server": 0}
    for path, value in leaves(types.LiveClientMessage):
        try:
            client = ClientMessage(camel_case(value))
        except BodyError:
            continue
        shown = client.request or {}
        sent = client.edited(redacted("BeforeModel", "llm_request", {"model": "m", "raw": shown}))
        assert path == ".setup.model" or undocumented(sent) == [], path
        checked["client"] += 1
    for path, value in leaves(types.LiveServerMessage):
        try:
            server = ServerMessage(camel_case(value))
        except BodyError:
            continue
        segment = Segment([server])
        responses = [{"candidates": [each]} for each in segment.candidates]
        judged = [
            redacted("AfterModel", "llm_response", {"raw": each})["candidates"][0] for each in responses
        ]
        if segment.heard or any(map(operator.is_not, judged, segment.candidates)):
            sent = [*segment.edited("", judged, segment.calls(judged))]
        else:
            sent = [server.message]
        assert [place for message in sent for place in undocumented(message)] == [], path
        checked["server"] += 1
    assert checked["client"] > 300
    assert checked["server"] > 150
