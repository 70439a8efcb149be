"""The mock upstream over HTTP: exact bytes, routes, delays, and recorded requests."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import aiohttp
import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer
from support.wire import prompt

from hookgate.proxy.mock_upstream import RECORDED, RecordedRequest, Script, make_app

Start = Callable[..., Awaitable[TestClient[Any, Any]]]

KEY = {"x-goog-api-key": "test"}
UNARY = "/v1beta/models/gemini-2.5-flash:generateContent"
STREAM = "/v1beta/models/gemini-2.5-flash:streamGenerateContent"
SSE = STREAM + "?alt=sse"
HI = prompt("hi there")
VERBATIM = [{"n": 1}, {"n": 2}, {"n": 3}]


@pytest.fixture
async def start() -> AsyncIterator[Start]:
    """Starts a server with rules. aiohttp's TestServer cancels the handlers of lost clients, as we do."""
    async with AsyncExitStack() as stack:

        async def _start(*rules: dict[str, Any]) -> TestClient[Any, Any]:
            app = make_app(Script.model_validate({"rules": list(rules)}))
            return await stack.enter_async_context(TestClient(TestServer(app)))

        yield _start


def record(client: TestClient[Any, Any], index: int = -1) -> RecordedRequest:
    return client.server.app[RECORDED][index]


async def posted(client: TestClient[Any, Any], path: str, body: Any = HI) -> bytes:
    async with client.post(path, json=body, headers=KEY) as response:
        assert response.status == 200, await response.text()
        return await response.read()


async def collect(response: aiohttp.ClientResponse, received: bytearray) -> None:
    """Adds what arrives to `received`, which holds it also when the connection breaks."""
    while data := await response.content.readany():
        received += data


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  # a record is plain data, it signals nothing
            await asyncio.sleep(0.001)


# -- framing -------------------------------------------------------------------------------------------------


async def test_sse_events_are_exactly_one_data_line_and_a_blank_line(start: Start) -> None:
    client = await start({"answer": {"responses": VERBATIM}})
    expected = b'data: {"n":1}\r\n\r\ndata: {"n":2}\r\n\r\ndata: {"n":3}\r\n\r\n'
    assert await posted(client, SSE) == expected


async def test_without_alt_sse_a_stream_is_a_json_array(start: Start) -> None:
    client = await start({"answer": {"responses": VERBATIM}})
    assert await posted(client, STREAM) == b'[{"n":1}\r\n,\r\n{"n":2}\r\n,\r\n{"n":3}]'


@pytest.mark.parametrize(
    ("path", "content_type"),
    [
        (SSE, "text/event-stream"),
        (STREAM, "application/json; charset=UTF-8"),
        (UNARY, "application/json; charset=UTF-8"),
    ],
)
async def test_each_framing_has_its_content_type(start: Start, path: str, content_type: str) -> None:
    client = await start()
    async with client.post(path, json=HI, headers=KEY) as response:
        assert response.headers["Content-Type"] == content_type


async def test_both_framings_and_the_unary_answer_say_the_same(start: Start) -> None:
    client = await start()
    events = [orjson.loads(line[6:]) for line in (await posted(client, SSE)).split(b"\r\n\r\n")[:-1]]
    unary = orjson.loads(await posted(client, UNARY))
    said = [event["candidates"][0]["content"]["parts"][0]["text"] for event in events]
    assert orjson.loads(await posted(client, STREAM)) == events
    assert len(events) >= 3
    assert unary["candidates"][0]["content"]["parts"] == [{"text": "".join(said)}]
    assert unary["usageMetadata"] == events[-1]["usageMetadata"]


@pytest.mark.parametrize(("path", "first"), [(SSE, b'data: {"n":1}\r\n\r\n'), (STREAM, b'[{"n":1}')])
async def test_events_leave_one_by_one(start: Start, path: str, first: bytes) -> None:
    client = await start({"answer": {"responses": VERBATIM, "chunk_delay_ms": 60_000}})
    async with asyncio.timeout(5), client.post(path, json=HI, headers=KEY) as response:
        assert await response.content.readany() == first


# -- routes --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ["v1", "v1beta", "v1alpha"])
async def test_every_version_answers(start: Start, version: str) -> None:
    client = await start()
    answer = orjson.loads(await posted(client, f"/{version}/models/any-name:generateContent"))
    assert answer["modelVersion"] == "any-name"


async def test_models_are_listed_in_pages(start: Start) -> None:
    client = await start()
    names: list[str] = []
    token = ""
    for _ in range(2):
        async with client.get(f"/v1beta/models?pageSize=2&pageToken={token}", headers=KEY) as response:
            page = await response.json()
        names += [model["name"] for model in page["models"]]
        token = page.get("nextPageToken", "")
    async with client.get("/v1/models", headers=KEY) as response:
        whole = await response.json()
    assert (token, len(set(names))) == ("", 4)
    assert [model["name"] for model in whole["models"]] == names


async def test_a_page_token_that_was_never_given_is_refused(start: Start) -> None:
    client = await start()
    async with client.get("/v1/models?pageToken=x", headers=KEY) as response:
        assert response.status == 400


async def test_any_model_is_described(start: Start) -> None:
    client = await start()
    async with client.get("/v1/models/some-model", headers=KEY) as response:
        assert (await response.json())["name"] == "models/some-model"


async def test_tokens_are_counted_as_the_answer_counts_them(start: Start) -> None:
    client = await start()
    path = "/v1/models/m:countTokens"
    counted = orjson.loads(await posted(client, path))["totalTokens"]
    wrapped = orjson.loads(await posted(client, path, {"generateContentRequest": HI}))["totalTokens"]
    assert counted == wrapped
    assert counted == orjson.loads(await posted(client, UNARY))["usageMetadata"]["promptTokenCount"]


async def test_embeddings_have_the_dimensions_that_were_asked_for(start: Start) -> None:
    client = await start()
    content = {"content": {"parts": [{"text": "a"}]}}
    one = orjson.loads(await posted(client, "/v1/models/m:embedContent", content))
    assert len(one["embedding"]["values"]) == 768
    requests = [
        content | {"outputDimensionality": 3},
        content | {"embedContentConfig": {"outputDimensionality": 4}},
    ]
    many = orjson.loads(await posted(client, "/v1/models/m:batchEmbedContents", {"requests": requests}))
    assert [len(each["values"]) for each in many["embeddings"]] == [3, 4]


@pytest.mark.parametrize(
    ("method", "body"),
    [
        ("embedContent", {}),
        ("embedContent", {"content": {"parts": [{"text": "a"}]}, "outputDimensionality": 0}),
        ("batchEmbedContents", {"requests": []}),
        ("countTokens", {}),
    ],
)
async def test_other_methods_refuse_nonsense_too(start: Start, method: str, body: Any) -> None:
    client = await start()
    async with client.post(f"/v1/models/m:{method}", json=body, headers=KEY) as response:
        assert response.status == 400


# -- scripts -------------------------------------------------------------------------------------------------


async def test_a_rule_sees_the_request(start: Start) -> None:
    when = {"text": "there", "model": "gemini-*", "stream": False}
    client = await start({"when": when, "times": 1, "answer": {"text": "scripted"}})
    assert b"scripted" not in await posted(client, SSE)
    assert b"scripted" in await posted(client, UNARY)
    assert b"scripted" not in await posted(client, UNARY)


async def test_a_rule_sees_tool_responses(start: Start) -> None:
    client = await start({"when": {"tool_response": "f"}, "answer": {"text": "scripted"}})
    turn = [
        {"role": "model", "parts": [{"function_call": {"name": "f"}}]},
        {"role": "user", "parts": [{"function_response": {"name": "f", "response": {}}}]},
    ]
    assert b"scripted" in await posted(client, UNARY, {"contents": HI["contents"] + turn})
    assert b"scripted" not in await posted(client, UNARY)


async def test_a_scripted_error_has_googles_shape(start: Start) -> None:
    client = await start({"answer": {"error": {"status": 503, "message": "come back later"}}})
    async with client.post(SSE, json=HI, headers=KEY) as response:
        assert response.status == 503
        error = {"code": 503, "message": "come back later", "status": "UNAVAILABLE"}
        assert await response.json() == {"error": error}


@pytest.mark.parametrize("events", [0, 1, 3])
@pytest.mark.parametrize(("path", "frame"), [(SSE, b"data: "), (STREAM, b'{"n"')])
async def test_a_stream_is_cut_after_so_many_events(
    start: Start, path: str, frame: bytes, events: int
) -> None:
    client = await start({"answer": {"responses": VERBATIM, "cut_after": events}})
    received = bytearray()
    async with client.post(path, json=HI, headers=KEY) as response:
        with pytest.raises(aiohttp.ClientPayloadError):
            await collect(response, received)
    assert received.count(frame) == events
    assert not received.endswith(b"]")
    assert (record(client).finished, record(client).aborted) == (False, False)


async def test_a_unary_answer_is_cut_before_it_begins(start: Start) -> None:
    client = await start({"answer": {"text": "never seen", "cut_after": 0}})
    with pytest.raises(aiohttp.ServerDisconnectedError):
        await posted(client, UNARY)
    assert not record(client).finished


# -- recording -----------------------------------------------------------------------------------------------


async def test_a_request_is_recorded_as_it_arrived(start: Start) -> None:
    client = await start()
    body = {"contents": [{"parts": [{"text": "hi"}]}], "generation_config": {"top_k": 1}}
    async with client.post(SSE, json=body, headers=KEY | {"X-Custom": "Value"}) as response:
        await response.read()
    seen = record(client)
    assert (seen.method, seen.path_qs, seen.body) == ("POST", SSE, body)
    assert (seen.headers["x-custom"], seen.headers["x-goog-api-key"]) == ("Value", "test")
    assert (seen.finished, seen.aborted) == (True, False)


async def test_refused_requests_are_recorded_too(start: Start) -> None:
    client = await start()
    async with client.post("/nowhere", data=b"not json"):
        pass
    assert (record(client).path_qs, record(client).body, record(client).finished) == ("/nowhere", None, True)


async def test_the_records_are_bounded(start: Start) -> None:
    client = await start()
    assert client.server.app[RECORDED].maxlen == 1000


@pytest.mark.parametrize("pace", [{"delay_ms": 60_000}, {"chunk_delay_ms": 60_000}])
async def test_a_client_that_leaves_ends_its_call_as_aborted(start: Start, pace: dict[str, int]) -> None:
    client = await start({"answer": {"responses": VERBATIM} | pace})
    _, writer = await asyncio.open_connection(client.host, client.port)
    body = orjson.dumps(HI)
    head = f"POST {SSE} HTTP/1.1\r\nHost: test\r\nx-goog-api-key: test\r\nContent-Length: {len(body)}\r\n\r\n"
    writer.write(head.encode() + body)
    await until(lambda: bool(client.server.app[RECORDED]) and record(client).body == HI)
    assert (record(client).finished, record(client).aborted) == (False, False)
    writer.close()
    await until(lambda: record(client).aborted)
    assert not record(client).finished


async def test_two_servers_share_nothing(start: Start) -> None:
    rule = {"times": 1, "answer": {"text": "once"}}
    one, two = await start(rule), await start(rule)
    assert b"once" in await posted(one, UNARY)
    assert b"once" in await posted(two, UNARY)
    assert len(one.server.app[RECORDED]) == 1
