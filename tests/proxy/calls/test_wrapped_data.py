"""Inline data with line breaks, or without padding, goes upstream as canonical base64 in every dialect."""

import base64
import json
from typing import Any

import pytest
from support.bodies.chat import MODEL
from support.bodies.planting import SECRET
from support.gateway.dialects import REDACT
from support.gateway.loopback import gateway_before, running_gateway
from support.wire import UNARY, ok, peer, post

TEXT = f"The first line of a file.\nkey {SECRET}\n".encode() * 3
WRAPPED = base64.encodebytes(TEXT).decode().rstrip("=\n")
IMAGE = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR\x00\x00" * 8
BEARER = {"Authorization": "Bearer test-key"}
CHAT, RESPONSES = "/v1beta/openai/chat/completions", "/v1beta/openai/responses"
COUNT = UNARY.replace("generateContent", "countTokens")
BATCH = UNARY.replace("generateContent", "batchGenerateContent")


def of_user(data: str, kind: str) -> Any:
    part = {"inlineData": {"mimeType": kind, "data": data}}
    return {"contents": [{"role": "user", "parts": [{"text": "hi"}, part]}]}


def of_chat(data: str, kind: str) -> Any:
    content = {"type": "file", "file": {"file_data": f"data:{kind};base64,{data}", "filename": "a"}}
    if kind.startswith("image/"):
        content = {"type": "image_url", "image_url": {"url": f"data:{kind};base64,{data}", "detail": "low"}}
    return {
        "model": MODEL,
        "messages": [{"role": "user", "content": [{"type": "text", "text": "hi"}, content]}],
    }


def of_responses(data: str, kind: str) -> Any:
    content = {"type": "input_file", "file_data": f"data:{kind};base64,{data}", "filename": "a"}
    if kind.startswith("image/"):
        content = {"type": "input_image", "image_url": f"data:{kind};base64,{data}", "detail": "low"}
    return {"model": MODEL, "input": [{"role": "user", "content": [content]}]}


def of_interaction(data: str, kind: str) -> Any:
    content = {"type": kind.partition("/")[0].replace("text", "document"), "data": data, "mime_type": kind}
    return {"model": MODEL, "input": [{"type": "text", "text": "hi"}, content]}


def of_batch(data: str, kind: str) -> Any:
    return {
        "batch": {
            "displayName": "b",
            "inputConfig": {"requests": {"requests": [{"request": of_user(data, kind)}]}},
        }
    }


DIALECTS = pytest.mark.parametrize(
    ("target", "body"),
    [
        pytest.param(UNARY, of_user, id="generateContent"),
        pytest.param(COUNT, of_user, id="countTokens"),
        pytest.param(BATCH, of_batch, id="batch"),
        pytest.param(CHAT, of_chat, id="chat"),
        pytest.param(RESPONSES, of_responses, id="responses"),
        pytest.param("/v1beta/interactions", of_interaction, id="interactions"),
    ],
)


async def forward_body(target: str, body: Any, *hooks: Any) -> tuple[int, Any]:
    """The status of the answer, and the body that reached the upstream."""
    async with peer(ok(b"{}")) as upstream, gateway_before(upstream.url, {"BeforeModel": list(hooks)}) as url:
        answer = await post(url, target, body, BEARER if target in (CHAT, RESPONSES) else None)
    assert upstream.heard, answer.body
    return answer.status, json.loads(upstream.heard[0].split(b"\r\n\r\n", 1)[1])


@DIALECTS
async def test_a_wrapped_image_goes_upstream_canonical(target: str, body: Any) -> None:
    wrapped = base64.encodebytes(IMAGE).decode().replace("\n", " \r\n\t")
    _, arrived = await forward_body(target, body(wrapped, "image/png"), REDACT)
    assert arrived == body(base64.b64encode(IMAGE).decode(), "image/png")


@DIALECTS
async def test_a_secret_in_a_wrapped_text_file_is_masked(target: str, body: Any) -> None:
    _, arrived = await forward_body(target, body(WRAPPED, "text/plain"), REDACT)
    [data] = [value for value in strings(arrived) if len(value) > 60]
    text = base64.b64decode(data.rpartition(",")[2], validate=True)
    assert text.startswith(b"The first line")
    assert SECRET.encode() not in text


def strings(value: Any) -> list[str]:
    if isinstance(value, str):
        return [value]
    items = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [text for item in items for text in strings(item)]


@DIALECTS
async def test_data_behind_the_padding_is_refused_in_wrapped_data_too(target: str, body: Any) -> None:
    async with running_gateway({"BeforeModel": [REDACT]}) as gateway:
        answer = await post(gateway.url, target, body("QQ==\n" + WRAPPED, "text/plain"), BEARER)
    assert (answer.status, [*gateway.recorded]) == (400, [])
    assert "base64" in answer.body.decode()
