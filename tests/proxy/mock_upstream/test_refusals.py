"""The mock upstream refuses what the real API refuses, so that mistakes of a gateway are noticed."""

from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from hookgate.proxy.mock_upstream import make_app

PATH = "/v1beta/models/gemini-2.5-flash:generateContent"
KEY = {"x-goog-api-key": "test"}
HI: dict[str, Any] = {"role": "user", "parts": [{"text": "hi"}]}
CALLS = {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {}}}] * 2}
RESPONSE = {"functionResponse": {"name": "f", "response": {}}}
TOOLS = [{"functionDeclarations": [{"name": "f"}]}]


@pytest.fixture
async def client() -> AsyncIterator[Any]:
    async with TestClient(TestServer(make_app())) as client:
        yield client


def with_parts(*parts: Any) -> dict[str, Any]:
    return {"contents": [{"role": "user", "parts": list(parts)}]}


def with_calling(tools: Any = TOOLS, **calling: Any) -> dict[str, Any]:
    return {"contents": [HI], "tools": tools, "toolConfig": {"functionCallingConfig": calling}}


REFUSED = {
    "no contents": {},
    "empty contents": {"contents": []},
    "contents not a list": {"contents": HI},
    "content not an object": {"contents": ["hi"]},
    "unknown role": {"contents": [HI | {"role": "assistant"}]},
    "no parts": {"contents": [{"role": "user"}]},
    "empty parts": with_parts(),
    "empty part": with_parts({}),
    "thought without data": with_parts({"thought": True}),
    "two data fields": with_parts({"text": "a", "inlineData": {"mimeType": "a/b", "data": ""}}),
    "unknown part field": with_parts({"text": "a", "color": "red"}),
    "text not a string": with_parts({"text": 5}),
    "empty system instruction": {"contents": [HI], "systemInstruction": {"parts": []}},
    "allowed names in mode AUTO": with_calling(mode="AUTO", allowedFunctionNames=["f"]),
    "allowed names in mode NONE": with_calling(mode="NONE", allowedFunctionNames=["f"]),
    "allowed names without a mode": with_calling(allowedFunctionNames=["f"]),
    "undeclared allowed name": with_calling(mode="ANY", allowedFunctionNames=["g"]),
    "allowed names not a list": with_calling(mode="ANY", allowedFunctionNames=5),
    "unknown mode": with_calling(mode="any"),
    "mode ANY without tools": with_calling(tools=[], mode="ANY"),
    "mode ANY with tools that declare nothing": with_calling(tools=[{"googleSearch": {}}], mode="ANY"),
    "response without a call": with_parts(RESPONSE),
    "fewer responses than calls": {"contents": [HI, CALLS, {"role": "user", "parts": [RESPONSE]}]},
    "responses not directly after the calls": {
        "contents": [HI, CALLS, HI, {"role": "user", "parts": [RESPONSE] * 2}]
    },
    "calls that are not the model's": {
        "contents": [CALLS | {"role": "user"}, {"role": "user", "parts": [RESPONSE] * 2}]
    },
    "both spellings at the top": {"contents": [HI], "toolConfig": {}, "tool_config": {}},
    "both spellings in a part": with_parts({"inlineData": {}, "inline_data": {}}),
    "both spellings in a config": {
        "contents": [HI],
        "generationConfig": {"thinkingConfig": {"includeThoughts": True, "include_thoughts": True}},
    },
    "both spellings in a declaration": {
        "contents": [HI],
        "tools": [{"functionDeclarations": [{"parametersJsonSchema": {}, "parameters_json_schema": {}}]}],
    },
}

ACCEPTED = {
    "no role": {"contents": [{"parts": [{"text": "hi"}]}]},
    "an empty text": with_parts({"text": ""}),
    "what may stand beside data": with_parts(
        {"text": "a", "thought": True, "thoughtSignature": "YQ==", "videoMetadata": {}, "partMetadata": {}}
    ),
    "snake case": with_parts({"inline_data": {"mime_type": "a/b", "data": ""}, "thought_signature": "YQ=="}),
    "nulls": {"contents": [HI], "tools": None, "toolConfig": {"functionCallingConfig": None}},
    "as many responses as calls": {"contents": [HI, CALLS, {"role": "function", "parts": [RESPONSE] * 2}]},
    "allowed names in mode VALIDATED": with_calling(mode="VALIDATED", allowedFunctionNames=["f"]),
    "both spellings in the user's own data": {
        "contents": [
            HI,
            {"role": "model", "parts": [{"functionCall": {"name": "f", "args": {"aB": 1, "a_b": 2}}}]},
            {"role": "user", "parts": [RESPONSE]},
        ]
    },
}


@pytest.mark.parametrize("body", REFUSED.values(), ids=REFUSED.keys())
async def test_nonsense_is_an_invalid_argument(client: TestClient[Any, Any], body: Any) -> None:
    async with client.post(PATH, json=body, headers=KEY) as response:
        answer = await response.json()
    assert response.status == 400
    assert answer["error"].keys() == {"code", "message", "status"}
    assert (answer["error"]["code"], answer["error"]["status"]) == (400, "INVALID_ARGUMENT")


@pytest.mark.parametrize("body", ACCEPTED.values(), ids=ACCEPTED.keys())
async def test_requests_that_the_api_accepts_are_accepted(client: TestClient[Any, Any], body: Any) -> None:
    async with client.post(PATH, json=body, headers=KEY) as response:
        assert response.status == 200, await response.text()


async def test_a_refusal_names_the_place(client: TestClient[Any, Any]) -> None:
    body = {"contents": [HI, {"role": "model", "parts": [{"text": "a"}, {}]}]}
    async with client.post(PATH, json=body, headers=KEY) as response:
        assert "contents[1].parts[1]" in (await response.json())["error"]["message"]


async def test_a_stream_is_refused_before_it_begins(client: TestClient[Any, Any]) -> None:
    path = "/v1beta/models/m:streamGenerateContent?alt=sse"
    async with client.post(path, json={}, headers=KEY) as response:
        assert response.status == 400
        assert (await response.json())["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize("body", [b"", b"{", b"\xff", b"[]", b"null", b'"text"'])
async def test_a_body_that_is_not_a_json_object_is_refused(client: TestClient[Any, Any], body: bytes) -> None:
    async with client.post(PATH, data=body, headers=KEY) as response:
        assert response.status == 400
        assert (await response.json())["error"]["status"] == "INVALID_ARGUMENT"


@pytest.mark.parametrize(
    ("method", "path"),
    [("POST", PATH), ("POST", "/v1/models/m:countTokens"), ("GET", "/v1/models"), ("GET", "/v1/models/m")],
)
async def test_a_call_without_a_key_is_denied(client: TestClient[Any, Any], method: str, path: str) -> None:
    async with client.request(method, path, json={"contents": [HI]}) as response:
        assert response.status == 403
        assert (await response.json())["error"]["status"] == "PERMISSION_DENIED"


@pytest.mark.parametrize(
    ("query", "headers"), [("", KEY), ("?key=test", {}), ("", {"Authorization": "Bearer test"})]
)
async def test_every_way_to_send_a_key_will_do(
    client: TestClient[Any, Any], query: str, headers: dict[str, str]
) -> None:
    async with client.post(PATH + query, json={"contents": [HI]}, headers=headers) as response:
        assert response.status == 200


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("POST", "/"),
        ("POST", "/v2/models/m:generateContent"),
        ("POST", "/v1beta/models/m:predict"),
        ("POST", "/v1beta/models/m:generateContent/more"),
        ("GET", "/v1beta/models/m:generateContent"),
        ("POST", "/v1beta/tunedModels/m:generateContent"),
        ("DELETE", "/v1beta/models"),
    ],
)
async def test_other_paths_are_not_found(client: TestClient[Any, Any], method: str, path: str) -> None:
    async with client.request(method, path, headers=KEY) as response:
        error = (await response.json())["error"]
    assert response.status == 404
    assert (error["code"], error["status"]) == (404, "NOT_FOUND")


@pytest.mark.parametrize(
    ("status", "name"),
    [(400, "INVALID_ARGUMENT"), (429, "RESOURCE_EXHAUSTED"), (500, "INTERNAL"), (503, "UNAVAILABLE")],
)
async def test_a_model_name_orders_an_error(client: TestClient[Any, Any], status: int, name: str) -> None:
    path = f"/v1/models/error-{status}:streamGenerateContent?alt=sse"
    async with client.post(path, json={"contents": [HI]}, headers=KEY) as response:
        error = (await response.json())["error"]
    assert (response.status, error["code"], error["status"]) == (status, status, name)
    retry = [detail["@type"].rpartition(".")[2] for detail in error.get("details", [])]
    assert retry == (["RetryInfo"] if status == 429 else [])
