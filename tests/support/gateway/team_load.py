"""Clients of a team's gateways: streams, conversations whose results hooks hide, and stopped ones."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any
from uuid import uuid4

import aiohttp
from support.clients.python_sdk import pieces, python_client
from support.conversation import tool_turns, user_turn
from support.wire import KEY, SSE, UNARY, prompt

Json = dict[str, Any]

WORDS = [f"word {number} " for number in range(10)]
STREAM: Json = {"when": {"text": "stream"}, "answer": {"chunks": WORDS, "chunk_delay_ms": 50}}
"""The upstream's rule for the streams: ten events in half a second."""

HIDDEN, STOPPED = "hidden from the model", "enough for today"


def hooks_in(folder: Path) -> Json:
    """Hooks that hide the results of the tool `secret`, and stop a conversation after the tool `last`.

    Each run is noted in a file of the folder with the hook's name.
    """

    def tool(name: str, output: Json) -> Json:
        line = f"cat > /dev/null; echo run >> {folder / name}; echo '{json.dumps(output)}'"
        return {"matcher": name, "hooks": [{"name": name, "type": "command", "command": line}]}

    return {
        "AfterTool": [
            tool("secret", {"decision": "deny", "reason": HIDDEN}),
            tool("last", {"continue": False, "stopReason": STOPPED}),
        ]
    }


@dataclass
class Failure:
    """A call that failed or was cut off."""

    receipt: str | None
    """Its receipt, if the headers of its answer have arrived."""
    why: str
    request: str | None = None
    """The ID of its request; None if an SDK has sent it."""


@dataclass
class Load:
    """Clients that call until they are stopped."""

    url: str
    streams: int = 0
    """The number of streams that were complete."""
    receipts: list[str] = field(default_factory=list)
    """The receipts of complete answers."""
    edits: int = 0
    stops: int = 0
    failures: list[Failure] = field(default_factory=list)
    forgotten: list[str] = field(default_factory=list)
    """Answers without an edit or a stop of their conversation."""
    stopping: bool = False

    async def stream(self, client: aiohttp.ClientSession) -> None:
        """Stream with a client that keeps its connections."""
        while not self.stopping:
            receipt, request = None, uuid4().hex
            headers = {**KEY, "x-request-id": request}
            try:
                async with client.post(self.url + SSE, json=prompt("stream"), headers=headers) as answer:
                    receipt = answer.headers.get("x-hookgate-receipt")
                    body = await answer.read()
                events = [json.loads(line[5:]) for line in body.split(b"\r\n\r\n") if line.strip()]
                texts = [each["candidates"][0]["content"]["parts"][0]["text"] for each in events]
                if texts != WORDS:
                    raise ValueError(f"{answer.status}: {body[:300]!r}")
                self.streams += 1
                self.receipts.append(str(receipt))
            except (aiohttp.ClientError, ValueError, KeyError, TypeError) as error:
                self.failures.append(Failure(receipt, f"stream: {error!r}", request))

    async def sdk(self) -> None:
        """Stream with google-genai."""
        async with python_client(self.url) as client:
            while not self.stopping:
                try:
                    texts = [text for text in await pieces(client, "async stream", "stream") if text]
                    if texts != WORDS:
                        raise ValueError(texts)
                    self.streams += 1
                except Exception as error:  # whatever the SDK raises
                    self.failures.append(Failure(None, f"sdk: {error!r}"))
                    await asyncio.sleep(0.1)  # it may fail without having waited for anything

    async def edited(self, client: aiohttp.ClientSession, session: str) -> None:
        """Send a conversation again and again whose result is hidden: the upstream says what it sees."""
        contents = tool_turns("secret", f"the secret of {session}")
        while not self.stopping:
            said = await self._say(client, session, contents)
            if said is not None and said != f'The tool secret answered: {{"output":"{HIDDEN}"}}':
                self.forgotten.append(f"a result is not hidden: {said}")
            self.edits += said is not None
            await asyncio.sleep(0.05)

    async def stop(self, client: aiohttp.ClientSession, session: str) -> None:
        """Stop a conversation by a hook."""
        await self._say(client, session, [user_turn("hi")])
        event = {
            "cwd": "/",
            "transcript_path": "/t",
            "tool_name": "last",
            "tool_input": {},
            "tool_response": {},
        }
        headers = {**KEY, "x-hookgate-session": session}
        where = self.url + "/hookgate/v1/events/AfterTool"
        async with client.post(where, json=event, headers=headers) as told:
            assert told.status == 200, await told.text()

    async def stopped(self, client: aiohttp.ClientSession, session: str) -> None:
        """Go on with a conversation that a hook has stopped."""
        while not self.stopping:
            said = await self._say(client, session, [user_turn("hi")])
            if said not in (None, STOPPED):
                self.forgotten.append(f"a stop does not hold: {said}")
            self.stops += said is not None
            await asyncio.sleep(0.05)

    async def _say(self, client: aiohttp.ClientSession, session: str, contents: list[Json]) -> str | None:
        """Return what is answered in a session, or None if the call failed, which is noted."""
        receipt, request = None, uuid4().hex
        headers = {**KEY, "x-hookgate-session": session, "x-request-id": request}
        try:
            async with client.post(self.url + UNARY, json={"contents": contents}, headers=headers) as answer:
                receipt = answer.headers.get("x-hookgate-receipt")
                body = await answer.json()
            text = "".join(part["text"] for part in body["candidates"][0]["content"]["parts"])
        except (aiohttp.ClientError, ValueError, KeyError) as error:
            self.failures.append(Failure(receipt, f"{session}: {error!r}", request))
            return None
        self.receipts.append(str(receipt))
        return text


_numbers = count()


@asynccontextmanager
async def load(url: str, streams: int = 40, sdks: int = 10, conversations: int = 3) -> AsyncIterator[Load]:
    """Clients that call while the block runs, and finish their calls at its end.

    Args:
        url: Where they call.
        streams: The number of clients that stream.
        sdks: The number of clients that stream with google-genai.
        conversations: The number of conversations that are edited, and of those that are stopped.
    """
    clients = Load(url)
    connector = aiohttp.TCPConnector(limit=0)
    async with aiohttp.ClientSession(connector=connector) as session, asyncio.TaskGroup() as tasks:
        names = [f"conversation-{next(_numbers)}" for _ in range(conversations)]
        for name in names:
            await clients.stop(session, f"{name}-stopped")
        for _ in range(streams):
            tasks.create_task(clients.stream(session))
        for _ in range(sdks):
            tasks.create_task(clients.sdk())
        for name in names:
            tasks.create_task(clients.edited(session, f"{name}-edited"))
            tasks.create_task(clients.stopped(session, f"{name}-stopped"))
        try:
            yield clients
        finally:
            clients.stopping = True
