"""A small service that implements the event protocol of the gateway, and the commands that call it."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from aiohttp import web
from support.programs.program import Ended, environment, start

_OURS = ("GEMINI_", "GOOGLE_", "CLAUDE_", "XDG_")


@dataclass
class Service:
    """What it was reported, and what it answers: to an event by name, else that nobody said anything."""

    url: str = ""
    answers: dict[str, Any] = field(default_factory=dict)
    status: int = 200
    reported: list[tuple[str, Mapping[str, str], Any]] = field(default_factory=list)
    raw: list[bytes] = field(default_factory=list)

    @property
    def paths(self) -> list[str]:
        return [path for path, _, _ in self.reported]

    async def handle(self, request: web.BaseRequest) -> web.Response:
        data = await request.read()
        self.raw.append(data)
        self.reported.append((request.path, request.headers, json.loads(data)))
        if self.status != 200:
            error = {"code": self.status, "message": "Not\nthis one.", "status": "SOME"}
            return web.json_response({"error": error}, status=self.status)
        answer = self.answers.get(request.path.rpartition("/")[2], {})
        return web.json_response(answer, headers={"x-hookgate-receipt": "r"})


@asynccontextmanager
async def event_service(ssl: Any = None) -> AsyncIterator[Service]:
    """The service on a free port of 127.0.0.1."""
    service = Service()
    runner = web.ServerRunner(web.Server(service.handle, access_log=None))
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0, ssl_context=ssl).start()
    service.url = f"http{'s' if ssl else ''}://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield service
    finally:
        await runner.cleanup()


def variables(changes: Mapping[str, str]) -> dict[str, str]:
    """An environment without what the machine says of agents, and with the changes."""
    kept = {name: value for name, value in environment().items() if not name.startswith(_OURS)}
    return {**kept, **changes}


async def hookgate(
    *words: str, given: Any = b"", env: Mapping[str, str] | None = None, folder: Path | None = None
) -> Ended:
    """A command run to its end; what is given, bytes or JSON, stands on its stdin."""
    process = await start(*words, env=variables(env or {}), folder=folder)
    try:
        async with asyncio.timeout(30):
            data = given if isinstance(given, bytes) else json.dumps(given).encode()
            out, err = await process.communicate(data)
    finally:
        if process.returncode is None:
            process.kill()
            await process.communicate()
    return Ended(process.returncode or 0, out.decode(), err.decode())


NOWHERE = "http://127.0.0.1:9"
"""Nothing listens there."""
