"""Live sessions, their upstreams, and TLS before a gateway, without which google-genai opens no WebSocket."""

import asyncio
import base64
import json
import ssl
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Any
from urllib.parse import urlsplit

import aiohttp
import trustme
from aiohttp import WSMsgType, web
from support.gateway.loopback import gateway_before
from support.hooks.policies import CARD
from support.wire import KEY, ask

from hookgate.proxy.approvals.asking import Approvals
from hookgate.proxy.config import Config
from hookgate.translator.fields import camel

Json = dict[str, Any]
LIVE = "/ws/google.ai.generativelanguage.v1beta.GenerativeService.BidiGenerateContent"
JUDGES = Config.model_validate({"routes": {"live": "judge"}})
REDACT = {"type": "builtin", "builtin": "redact", "options": {"words": {"CARD": [CARD]}}}
MODEL = "models/gemini-live"
SETUP = {"setup": {"model": MODEL, "generationConfig": {"responseModalities": ["TEXT"]}}}
SPEECH = base64.b64encode(b"speech").decode()
END: Json = {"serverContent": {"turnComplete": True}}


@asynccontextmanager
async def live(
    session: Callable[[web.WebSocketResponse], Any], seen: list[web.BaseRequest] | None = None
) -> AsyncIterator[str]:
    """An upstream whose WebSockets run `session`; gives its base url."""

    async def handler(request: web.BaseRequest) -> web.StreamResponse:
        if seen is not None:
            seen.append(request)
        socket = web.WebSocketResponse(protocols=["live.v2"], autoping=False, max_msg_size=0)
        socket.set_cookie("session", "of-another")
        await socket.prepare(request)
        await session(socket)
        return socket

    runner = web.ServerRunner(web.Server(handler, handler_cancellation=True), shutdown_timeout=1)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    try:
        yield "http://{}:{}".format(*runner.addresses[0][:2])
    finally:
        await runner.cleanup()


class ScriptedModel:
    """A server of Live sessions. A script has the messages with which it answers each kind of message."""

    def __init__(self, script: dict[str, list[Any]]) -> None:
        self._script = {"setup": [{"setupComplete": {}}], **script}
        self.received: list[Any] = []

    async def __call__(self, socket: web.WebSocketResponse) -> None:
        async for message in socket:
            if message.type not in (WSMsgType.TEXT, WSMsgType.BINARY):
                continue
            self.received.append(json.loads(message.data))
            for kind in self.received[-1]:
                for answer in self._script.get(camel(kind), []):
                    data = answer if isinstance(answer, bytes) else json.dumps(answer).encode()
                    await socket.send_bytes(data)


@asynccontextmanager
async def with_tls(url: str) -> AsyncIterator[tuple[str, ssl.SSLContext]]:
    """The https URL of a server at `url`, and a context that trusts its certificate."""
    authority, here, trusts = (
        trustme.CA(),
        ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER),
        ssl.create_default_context(),
    )
    authority.issue_cert("localhost").configure_cert(here)
    authority.configure_trust(trusts)
    place = urlsplit(url)

    async def pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
        except OSError:
            pass
        finally:
            writer.close()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        there, to_there = await asyncio.open_connection(place.hostname, place.port)
        await asyncio.gather(pipe(reader, to_there), pipe(there, writer))

    server = await asyncio.start_server(relay, "127.0.0.1", 0, ssl=here)
    async with server:
        yield f"https://localhost:{server.sockets[0].getsockname()[1]}", trusts


def client_text(text: str) -> Json:
    return {"clientContent": {"turns": [{"role": "user", "parts": [{"text": text}]}], "turnComplete": True}}


def written(*texts: str) -> list[Json]:
    turns = [{"role": "model", "parts": [{"text": text}]} for text in texts]
    return [{"serverContent": {"modelTurn": turn}} for turn in turns]


def spoken(text: str) -> list[Json]:
    audio = {"inlineData": {"mimeType": "audio/pcm;rate=24000", "data": SPEECH}}
    return [
        {"serverContent": {"modelTurn": {"role": "model", "parts": [audio]}}},
        *({"serverContent": {"outputTranscription": {"text": each}}} for each in text.split("|")),
        {"serverContent": {"generationComplete": True}},
        END,
    ]


class Session:
    """A client's side of a session."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse[bool], url: str, receipt: str) -> None:
        self.socket, self._url, self._receipt = socket, url, receipt

    async def tell(self, *messages: Any) -> None:
        for message in messages:
            await self.socket.send_str(message if isinstance(message, str) else json.dumps(message))

    async def hear(self) -> list[Json]:
        """The messages up to the end of a turn, or of the session."""
        messages: list[Json] = []
        while not messages or "turnComplete" not in messages[-1].get("serverContent", {}):
            message = await self.socket.receive()
            if message.type is not WSMsgType.BINARY:
                break
            messages.append(json.loads(message.data))
        return messages

    async def receipt(self) -> Json:
        """The receipt of the session, once it has ended."""
        while True:
            answer = await ask(self._url, "GET", f"/hookgate/v1/receipts/{self._receipt}")
            if answer.status == 200:
                receipt: Json = answer.json
                return receipt
            await asyncio.sleep(0.01)


@asynccontextmanager
async def session(
    model: Callable[[web.WebSocketResponse], Any],
    hooks: Json,
    config: Config = JUDGES,
    setup: Any = SETUP,
    path: str = LIVE,
    *,
    autoping: bool = True,
    approvals: Approvals | None = None,
    **headers: str,
) -> AsyncIterator[Session]:
    """A session that has been set up; nothing may take longer than ten seconds."""
    async with (
        asyncio.timeout(10),
        live(model) as upstream,
        gateway_before(upstream, hooks, config, approvals=approvals) as url,
        aiohttp.ClientSession(headers={**KEY, **headers}) as http,
        http.ws_connect(url + path, max_msg_size=0, autoping=autoping) as socket,
    ):
        client = Session(socket, url, socket._response.headers["x-hookgate-receipt"])
        if setup is not None:
            await client.tell(setup)
            assert json.loads((await socket.receive()).data) == {"setupComplete": {}}
        yield client
