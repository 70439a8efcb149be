"""A real agent works with a secret that its model never sees."""

import json
import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from aiohttp import web
from support.clients.node import GeminiCli
from support.gateway.loopback import gateway_before

from hookgate.proxy.app import serve_on

SECRET = "AKIA" + "Q3EGRYH7XJ4WPL2D"
_TOKEN = re.compile(r"HG_[A-Z0-9_]+_[0-9a-f]{16}")


class CopyingModel:
    """A model that reads a file, and writes the key that it finds in there into another one."""

    def __init__(self, workspace: Path) -> None:
        self._workspace = workspace
        self.heard: list[bytes] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        body = await request.read()
        self.heard.append(body)
        response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
        await response.prepare(request)
        for event in self._answer(json.loads(body)):
            await response.write(b"data: " + json.dumps(event).encode() + b"\r\n\r\n")
        await response.write_eof()
        return response

    def _answer(self, request: Any) -> list[Any]:
        last = json.dumps(request["contents"][-1])
        tokens = _TOKEN.findall(json.dumps(request["contents"]))
        if '"write_file"' in last:
            said, token = "The key is ", tokens[-1]
            pieces = [said + token[:7], token[7:20], token[20:] + ", written."]
            return [*(_event({"text": piece}) for piece in pieces), _event({"text": ""}, finishReason="STOP")]
        if '"read_file"' in last and tokens:
            content = f"key = {tokens[0]}\n"
            args = {"file_path": str(self._workspace / "copy.txt"), "content": content}
            return [_event({"functionCall": {"name": "write_file", "args": args}}, finishReason="STOP")]
        args = {"file_path": str(self._workspace / "key.txt")}
        return [_event({"functionCall": {"name": "read_file", "args": args}}, finishReason="STOP")]


def _event(*parts: Any, **more: Any) -> Any:
    return {"candidates": [{"content": {"role": "model", "parts": list(parts)}, "index": 0, **more}]}


@asynccontextmanager
async def before(model: CopyingModel) -> AsyncIterator[str]:
    policy = {"type": "builtin", "builtin": "redact", "options": {"action": "pseudonymise"}}
    async with (
        serve_on(model.handle, "127.0.0.1", 0) as upstream,
        gateway_before(upstream, {"BeforeModel": [policy], "AfterModel": [policy]}) as url,
    ):
        yield url


async def test_gemini_cli_copies_a_key_that_the_model_never_sees(tmp_path: Path) -> None:
    cli = GeminiCli(tmp_path)
    (cli.workspace / "key.txt").write_text(f"key = {SECRET}\n")
    model = CopyingModel(cli.workspace)
    async with before(model) as url:
        ran = await cli.ask(url, "Copy the key from key.txt to copy.txt.", "--yolo")
    assert ran.exit_code == 0, ran
    assert (cli.workspace / "copy.txt").read_text() == f"key = {SECRET}\n"
    assert f"The key is {SECRET}, written." in ran.stdout
    assert len(model.heard) == 3
    assert not any(SECRET.encode() in body for body in model.heard)
    assert all(_TOKEN.search(body.decode()) for body in model.heard[1:])
