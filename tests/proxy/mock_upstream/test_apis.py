"""The mock upstream as Vertex AI and Code Assist: the same answers, at their paths."""

from collections.abc import AsyncIterator
from typing import Any

import orjson
import pytest
from aiohttp.test_utils import TestClient, TestServer
from support.wire import prompt

from hookgate.proxy.mock_upstream import Script, make_app

KEY = {"x-goog-api-key": "test"}
GEMINI = "/v1beta/models/some-model"
PLACE = "/v1beta1/projects/some-project/locations/europe-west4"
VERTEX = [
    "/v1beta1/publishers/google/models/some-model",
    "/v1/publishers/google/models/some-model",
    f"{PLACE}/publishers/google/models/some-model",
    f"{PLACE}/endpoints/some-model",
]
HI = prompt("hi there, once more")
WRAPPED = {"model": "some-model", "project": "p", "user_prompt_id": "1", "request": {**HI, "session_id": "s"}}
ONCE = {"when": {"model": "some-*", "text": "once"}, "times": 1, "answer": {"text": "scripted"}}


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    async with TestClient(TestServer(make_app())) as client:
        yield client


async def posted(client: Any, path: str, body: Any = HI, status: int = 200) -> bytes:
    async with client.post(path, json=body, headers=KEY) as response:
        assert response.status == status, await response.text()
        return await response.read()


def events(data: bytes) -> list[Any]:
    return [orjson.loads(event.removeprefix(b"data: ")) for event in data.split(b"\r\n\r\n")[:-1]]


# ---- Vertex


@pytest.mark.parametrize("path", VERTEX)
@pytest.mark.parametrize(
    "method", ["generateContent", "streamGenerateContent", "streamGenerateContent?alt=sse", "countTokens"]
)
async def test_vertex_answers_as_the_gemini_api_does(client: Any, path: str, method: str) -> None:
    assert await posted(client, f"{path}:{method}") == await posted(client, f"{GEMINI}:{method}")


async def test_vertex_refuses_as_the_gemini_api_does(client: Any) -> None:
    await posted(client, f"{VERTEX[0]}:generateContent", {"contents": []}, status=400)
    await posted(client, f"{PLACE}/endpoints/error-503:generateContent", status=503)
    async with client.post(f"{VERTEX[0]}:generateContent", json=HI) as response:
        assert response.status == 403


# ---- Code Assist


async def test_code_assist_wraps_the_answer_of_the_gemini_api(client: Any) -> None:
    bare = orjson.loads(await posted(client, f"{GEMINI}:generateContent"))
    answer = orjson.loads(await posted(client, "/v1internal:generateContent", WRAPPED))
    assert answer.keys() == {"response", "traceId"}
    # Its request names a session besides, and so has another ID.
    assert {**answer["response"], "responseId": bare["responseId"]} == bare


async def test_code_assist_wraps_every_event(client: Any) -> None:
    path = "streamGenerateContent?alt=sse"
    bare = events(await posted(client, f"{GEMINI}:{path}"))
    wrapped = events(await posted(client, f"/v1internal:{path}", WRAPPED))
    assert [event["response"]["candidates"] for event in wrapped] == [event["candidates"] for event in bare]
    assert len({event["traceId"] for event in wrapped}) == 1


async def test_one_script_plays_for_all_three() -> None:
    async with TestClient(TestServer(make_app(Script.model_validate({"rules": [ONCE]})))) as client:
        answers = [
            await posted(client, "/v1internal:generateContent", WRAPPED),
            await posted(client, f"{VERTEX[0]}:generateContent"),
            await posted(client, f"{GEMINI}:generateContent"),
        ]
    assert [b"scripted" in answer for answer in answers] == [True, False, False]


async def test_code_assist_counts_tokens_without_an_envelope_around_the_answer(client: Any) -> None:
    body = {"request": {**HI, "model": "models/some-model"}}
    assert await posted(client, "/v1internal:countTokens", body) == await posted(
        client, f"{GEMINI}:countTokens"
    )


@pytest.mark.parametrize(
    ("body", "status"),
    [
        ([], 400),
        (HI, 400),
        ({"request": HI}, 400),
        ({"model": "some-model", "request": []}, 400),
        ({"model": "some-model", "request": {"contents": []}}, 400),
        ({"model": "error-429", "request": HI}, 429),
    ],
)
async def test_code_assist_refuses_what_is_not_a_wrapped_request(client: Any, body: Any, status: int) -> None:
    error = orjson.loads(await posted(client, "/v1internal:generateContent", body, status))["error"]
    assert error["code"] == status


async def test_code_assist_tells_a_client_its_project(client: Any) -> None:
    loaded = orjson.loads(await posted(client, "/v1internal:loadCodeAssist", {"metadata": {}}))
    onboarded = orjson.loads(await posted(client, "/v1internal:onboardUser", {"tierId": "free-tier"}))
    async with client.get(f"/v1internal/{onboarded['name']}", headers=KEY) as response:
        assert await response.json() == onboarded
    assert loaded["cloudaicompanionProject"] == onboarded["response"]["cloudaicompanionProject"]["id"]
    assert loaded["currentTier"]["id"]


@pytest.mark.parametrize("target", [":getSomethingElse", "/operations/another", ":loadCodeAssist"])
async def test_code_assist_has_nothing_else_to_get(client: Any, target: str) -> None:
    async with client.get(f"/v1internal{target}", headers=KEY) as response:
        assert response.status == 404
