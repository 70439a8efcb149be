"""A stand-in for Google Cloud on loopback: a token service, and an API that records what reaches it."""

import asyncio
import json
import time
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

import jwt
from aiohttp import web
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from support.bodies.chat import ended, sse, text_chunk
from support.hooks.http import service

TOKEN = "ya29.canary-token"  # noqa: S105  # no password
"""The beginning of all access tokens."""

_AUDIENCE = "https://oauth2.googleapis.com/token"  # which google-auth signs, wherever it asks

WORKLOAD = "canary-of-a-workload"
"""What a workload proves its identity with."""

PROJECT_ID = "my-project"
TEXT = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}


@dataclass(frozen=True)
class Call:
    """A request that reached the API."""

    path: str
    headers: Mapping[str, str]
    body: bytes

    @property
    def secret(self) -> str:
        """The key or the token that was sent; exactly one."""
        sent = [self.headers.get("x-goog-api-key"), self.headers.get("authorization")]
        (found,) = [each for each in sent if each]
        return found.removeprefix("Bearer ")


@dataclass
class GoogleCloud:
    """The stand-in. `answer` gives the API's answer to a call, or None for the usual one."""

    url: str = ""
    calls: list[Call] = field(default_factory=list)
    answer: Callable[[Call], web.Response | None] = lambda _: None
    lifetime: int = 3600
    """Seconds for which tokens are valid."""
    granted: list[float] = field(default_factory=list)
    """When tokens were granted, in seconds since 1970."""
    asked: int = 0
    refuses: bool = False
    """Whether the token service refuses."""
    open: asyncio.Event = field(default_factory=asyncio.Event)
    """The token service answers once this is set."""
    grants: asyncio.Condition = field(default_factory=asyncio.Condition)

    @property
    def secrets(self) -> list[str]:
        """The keys and tokens of all calls, in order."""
        return [call.secret for call in self.calls]

    async def until_asked(self, times: int) -> None:
        """Wait until the token service was asked so often."""
        async with asyncio.timeout(20), self.grants:
            await self.grants.wait_for(lambda: self.asked >= times)

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/token" or "metadata-flavor" in request.headers:
            return await self._grant(request)
        call = Call(request.path_qs, request.headers, await request.read())
        self.calls.append(call)
        if (special := self.answer(call)) is not None:
            return special
        if "/openai/" in call.path or "/openapi/" in call.path:
            return _openai_answer(call)
        if "stream" in request.path:
            events = "".join(f"data: {json.dumps(TEXT)}\r\n\r\n" for _ in range(3))
            return web.Response(text=events, content_type="text/event-stream")
        return web.json_response({"totalTokens": 1} if "countTokens" in request.path else TEXT)

    async def _grant(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/token":
            form = await request.post()
            if (workload := form.get("subject_token")) is not None:
                assert workload == WORKLOAD
            assertion = form.get("assertion", "")
        if request.path == "/token" and assertion:
            claims = jwt.decode(str(assertion), _key().public_key(), algorithms=["RS256"], audience=_AUDIENCE)
            assert claims["scope"] == "https://www.googleapis.com/auth/cloud-platform"
        elif not request.path.endswith("/token"):  # the metadata server says that it is one, and for whom
            about = {"email": "gateway@example.com", "scopes": ["cloud-platform"], "aliases": ["default"]}
            headers = {"Metadata-Flavor": "Google"}
            if "recursive" in request.query_string:
                return web.json_response(about, headers=headers)
            return web.Response(text=PROJECT_ID, headers=headers)
        await self.open.wait()
        async with self.grants:
            self.asked += 1
            if not self.refuses:
                self.granted.append(time.time())
            self.grants.notify_all()
        if self.refuses:
            refusal = {"error": "invalid_grant", "error_description": "canary-of-the-service"}
            return web.json_response(refusal, status=400)
        token = {"access_token": f"{TOKEN}-{len(self.granted)}", "expires_in": self.lifetime}
        return web.json_response({**token, "token_type": "Bearer"})

    def key_file(self, folder: Path, **changes: Any) -> Path:
        """The JSON file of a service account whose tokens come from here."""
        private = serialization.PrivateFormat.PKCS8
        pem = _key().private_bytes(serialization.Encoding.PEM, private, serialization.NoEncryption())
        path = folder / "service-account.json"
        account = {
            "type": "service_account",
            "project_id": "other-project",
            "private_key_id": "1",
            "private_key": pem.decode(),
            "client_email": "gateway@other-project.iam.gserviceaccount.com",
            "token_uri": f"{self.url}/token",
        }
        path.write_text(json.dumps({**account, **changes}))
        return path


def _openai_answer(call: Call) -> web.Response:
    """The answer of the OpenAI-compatible path: "ok", or an embedding."""
    body = json.loads(call.body)
    if call.path.endswith("/embeddings"):
        embedding = {"object": "embedding", "index": 0, "embedding": [0.5]}
        usage = {"prompt_tokens": 1, "total_tokens": 1}
        return web.json_response(
            {"object": "list", "data": [embedding], "model": body["model"], "usage": usage}
        )
    if body.get("stream"):
        events = sse([text_chunk("ok", role="assistant"), ended()]).decode()
        return web.Response(text=events, content_type="text/event-stream")
    choice = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
    completion = {"id": "c", "object": "chat.completion", "created": 1, "choices": [choice]}
    return web.json_response({**completion, "model": body["model"]})


@cache
def _key() -> rsa.RSAPrivateKey:
    return rsa.generate_private_key(public_exponent=65537, key_size=2048)


def vertex(cloud: GoogleCloud, folder: Path, **more: Any) -> dict[str, Any]:
    """The settings of a service account that serves calls to the Gemini API."""
    account = {"service_account_file": cloud.key_file(folder), "project": PROJECT_ID}
    return {"api": "vertex", "serves": ["gemini", "vertex"], **account, **more}


@asynccontextmanager
async def google_cloud() -> AsyncIterator[GoogleCloud]:
    """The stand-in for as long as the block runs."""
    cloud = GoogleCloud()
    cloud.open.set()
    async with service(cloud.handle) as cloud.url:  # type: ignore[arg-type]  # a plain server's requests
        yield cloud
