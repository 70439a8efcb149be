"""An upstream in a process of its own that answers every call, and looks for a forbidden word in each.

`python -m support.upstream.recording WORD` prints its URL. `GET /report` on it gives, as JSON, how many
requests came, and the first of those that held the word anywhere: in target, headers or body.
"""

import asyncio
import contextlib
import json
import os
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from subprocess import PIPE, Popen
from typing import Any

from aiohttp import web

_KEPT = 20
_TEXT = {"candidates": [{"content": {"role": "model", "parts": [{"text": "ok"}]}, "finishReason": "STOP"}]}
_ANSWERS = {
    ":countTokens": {"totalTokens": 1},
    ":embedContent": {"embedding": {"values": [0.5]}},
    ":batchEmbedContents": {"embeddings": [{"values": [0.5]}]},
}
_INTERACTION = {
    "id": "v1_1",
    "status": "completed",
    "model": "gemini-2.5-flash",
    "steps": [{"type": "model_output", "content": [{"type": "text", "text": "ok"}]}],
}
_CHOICE = {"index": 0, "message": {"role": "assistant", "content": "ok"}, "finish_reason": "stop"}
_COMPLETION = {"id": "c1", "object": "chat.completion", "created": 1, "model": "m", "choices": [_CHOICE]}
_OTHER_DIALECTS = {"/interactions": _INTERACTION, "/chat/completions": _COMPLETION}
_PROJECT = "recorded"
_CODE_ASSIST: dict[str, Any] = {
    ":loadCodeAssist": {
        "currentTier": {"id": "standard-tier", "name": _PROJECT},
        "cloudaicompanionProject": _PROJECT,
    },
    ":getCodeAssistGlobalUserSetting": {"cloudaicompanionProject": _PROJECT},
    ":setCodeAssistGlobalUserSetting": {"cloudaicompanionProject": _PROJECT},
    ":recordCodeAssistMetrics": {},
    ":fetchAdminControls": {},
    ":listExperiments": {"flags": [], "experimentIds": []},
    ":retrieveUserQuota": {"buckets": []},
}
"""What Gemini CLI asks of Code Assist beside its calls."""


@dataclass(frozen=True)
class Report:
    """What reached the upstream: the number of requests, and some that held the forbidden word."""

    requests: int
    forbidden: int
    examples: list[str]


@dataclass(frozen=True)
class RecordingUpstream:
    """The running process, by its URL."""

    url: str
    pid: int

    def report(self) -> Report:
        """What has come so far."""
        with urllib.request.urlopen(f"{self.url}/report", timeout=30) as answer:  # noqa: S310  # loopback
            return Report(**json.load(answer))


@contextmanager
def recording_upstream(word: str) -> Iterator[RecordingUpstream]:
    """The upstream for as long as the block runs."""
    path = os.pathsep.join([str(Path(__file__).parents[2]), *sys.path])
    command = [sys.executable, "-m", "support.upstream.recording", word]
    with Popen(command, stdout=PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as process:
        try:
            assert process.stdout is not None
            yield RecordingUpstream(process.stdout.readline().strip(), process.pid)
        finally:
            process.kill()


class _Recorder:
    def __init__(self, word: bytes) -> None:
        self._word = word
        self._requests = self._forbidden = 0
        self._examples: list[str] = []

    async def handle(self, request: web.BaseRequest) -> web.StreamResponse:
        if request.path == "/report":
            report = {"requests": self._requests, "forbidden": self._forbidden, "examples": self._examples}
            return web.json_response(report)
        body = bytearray()
        with contextlib.suppress(ConnectionError):  # what came of a body that broke off counts as well
            async for chunk in request.content.iter_any():
                body += chunk
        headers = [b": ".join(each) for each in request.raw_headers]
        sent = b"\n".join([request.raw_path.encode(), *headers, body])
        self._requests += 1
        if self._word in sent or self._word in _without_escapes(bytes(body)):
            self._forbidden += 1
            if len(self._examples) < _KEPT:
                self._examples.append(sent.decode(errors="replace")[:2000])
        return _answer(request)


def _without_escapes(body: bytes) -> bytes:
    """The body as whoever parses it would read it: without JSON's escapes, in UTF-8."""
    with contextlib.suppress(ValueError, RecursionError):
        return json.dumps(json.loads(body), ensure_ascii=False).encode(errors="replace")
    return b""


def _answer(request: web.BaseRequest) -> web.Response:
    for end, answer in _OTHER_DIALECTS.items():
        if request.path.endswith(end):
            return web.json_response(answer)
    if "streamGenerateContent" not in request.path:
        verb = ":" + request.path.rpartition(":")[2]
        if verb in _CODE_ASSIST:
            return web.json_response(_CODE_ASSIST[verb])
        body: Any = _ANSWERS.get(verb, _TEXT)
        return web.json_response({"response": body} if request.path.startswith("/v1internal") else body)
    event = json.dumps({"response": _TEXT} if request.path.startswith("/v1internal") else _TEXT)
    if request.query_string == "alt=sse":
        return web.Response(text=f"data: {event}\r\n\r\n", content_type="text/event-stream")
    return web.Response(text=f"[{event}]", content_type="application/json")


async def _serve(word: bytes) -> None:
    server = web.Server(_Recorder(word).handle)
    listener = await asyncio.get_running_loop().create_server(server, "127.0.0.1", 0, backlog=1024)
    host, port = listener.sockets[0].getsockname()
    print(f"http://{host}:{port}", flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(_serve(sys.argv[1].encode()))
