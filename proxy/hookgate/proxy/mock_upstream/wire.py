"""The answers of the mock upstream on the wire, the records of requests, and the uploaded files."""

import asyncio
import secrets
from collections import deque
from dataclasses import dataclass, field
from typing import Any

import orjson
from aiohttp import web
from aiohttp.typedefs import Handler

from hookgate.proxy.mock_upstream.requests import EmbeddedApiError, Json
from hookgate.proxy.mock_upstream.script import Pace
from hookgate.translator.strictjson import encode_answer

_JSON = "application/json; charset=UTF-8"
_RECORDS = 1000


@dataclass
class RecordedRequest:
    """One request as it arrived, and how its answer ended.

    `finished` is set once the whole answer was sent, `aborted` if the client disconnected before that. If
    neither is set, the answer is in progress, or the script cut it.
    """

    method: str
    path_qs: str
    headers: dict[str, str]  # names in lower case
    body: Any = None  # the parsed JSON, or None
    finished: bool = False
    aborted: bool = False


RECORDED: web.AppKey[deque[RecordedRequest]] = web.AppKey("recorded", deque)
_RECORD = web.RequestKey("record", RecordedRequest)


# -- recording ---------------------------------------------------------------------------------------------


def no_records() -> deque[RecordedRequest]:
    """Return an empty list for an app's records, the oldest first. It keeps the last 1000."""
    return deque(maxlen=_RECORDS)


@web.middleware
async def record(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Record each request, and whether its client disconnected."""
    headers = {name.lower(): value for name, value in request.headers.items()}
    noted = RecordedRequest(request.method, request.path_qs, headers)
    request.app[RECORDED].append(noted)
    request[_RECORD] = noted
    try:
        return await handler(request)
    except (asyncio.CancelledError, ConnectionResetError):
        noted.aborted = True
        raise


@web.middleware
async def refuse(request: web.Request, handler: Handler) -> web.StreamResponse:
    """Read the body, and answer an EmbeddedApiError in Google's format."""
    try:
        request[_RECORD].body = _parsed(await request.read())
        return await handler(request)
    except EmbeddedApiError as error:
        return await send(request, error.body(), error.status)


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except orjson.JSONDecodeError:
        return None


def parse_request_body(request: web.Request) -> Json:
    """Return the body of a request. Raises EmbeddedApiError (400) if it is not a JSON object."""
    body = request[_RECORD].body
    if not isinstance(body, dict):
        raise EmbeddedApiError(400, "Invalid JSON payload received. A JSON object is expected.")
    return body


# -- framing -----------------------------------------------------------------------------------------------


async def send(request: web.Request, body: Json, status: int = 200) -> web.StreamResponse:
    """Send one whole answer."""
    response = web.Response(body=encode_answer(body), status=status, headers={"Content-Type": _JSON})
    return await finish(request, response)


async def stream(request: web.Request, chunks: list[Json], pace: Pace) -> web.StreamResponse:
    """Send events one by one: as server-sent events if the request asks for them, else as a JSON array."""
    sse = request.query.get("alt") == "sse"
    events = [_event(chunk, count, sse) for count, chunk in enumerate(chunks)]
    return await stream_events(
        request, events, pace, "text/event-stream" if sse else _JSON, b"" if sse else b"]"
    )


async def stream_events(
    request: web.Request,
    events: list[bytes],
    pace: Pace,
    content_type: str = "text/event-stream",
    end: bytes = b"",
) -> web.StreamResponse:
    """Send the bytes of events one by one, and then those of the end."""
    response = web.StreamResponse(headers={"Content-Type": content_type})
    await response.prepare(request)
    for count, event in enumerate(events):
        if count == pace.cut_after:
            return abort_stream(request, response)
        await asyncio.sleep(pace.chunk_delay_ms / 1000 if count else 0)
        await response.write(event)
    if pace.cut_after == len(events):
        return abort_stream(request, response)
    if end:
        await response.write(end)
    return await finish(request, response)


def _event(chunk: Json, count: int, sse: bool) -> bytes:
    """Return the bytes of one event. In a JSON array they begin with the bracket or comma before it."""
    line = encode_answer(chunk)
    if sse:
        return b"data: " + line + b"\r\n\r\n"
    return (b"\r\n,\r\n" if count else b"[") + line


def abort_stream(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Close the connection after the bytes written so far, without the end of the answer."""
    if request.transport is not None:
        request.transport.close()
    return response


async def finish(request: web.Request, response: web.StreamResponse) -> web.StreamResponse:
    """Send the end of the answer here, not after the handler, so that the record shows when it was sent."""
    await response.prepare(request)
    await response.write_eof()
    request[_RECORD].finished = True
    return response


@dataclass
class _File:
    """One file, complete or partly uploaded."""

    name: str
    version: str
    origin: str
    """The base URL of the server, as the client reached it."""
    mime_type: str
    data: bytearray = field(default_factory=bytearray)

    def described(self) -> Json:
        return {
            "name": self.name,
            "mimeType": self.mime_type,
            "sizeBytes": str(len(self.data)),
            "uri": f"{self.origin}/{self.version}/{self.name}",
            "state": "ACTIVE",
        }


class Files:
    """The files that were uploaded to one running server."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._uploads: dict[str, _File] = {}

    async def upload(self, request: web.Request) -> web.Response:
        """Start an upload, or add a part of its bytes."""
        command = request.headers.get("X-Goog-Upload-Command", "")
        if command == "start":
            return self._start(request)
        file = self._uploads.get(request.query.get("upload_id", ""))
        if file is None or "upload" not in command:
            raise EmbeddedApiError(
                400, "There is no such upload: start one with X-Goog-Upload-Command: start."
            )
        if request.headers.get("X-Goog-Upload-Offset") != str(len(file.data)):
            raise EmbeddedApiError(400, f"The upload continues at byte {len(file.data)}.")
        file.data += await request.read()
        if "finalize" not in command:
            return _answer({}, "active")
        del self._uploads[request.query["upload_id"]]
        self._files[file.name] = file
        return _answer({"file": file.described()}, "final")

    def _start(self, request: web.Request) -> web.Response:
        number = secrets.token_hex(6)
        mime_type = request.headers.get("X-Goog-Upload-Header-Content-Type", "application/octet-stream")
        self._uploads[number] = _File(
            f"files/{number}", request.match_info["version"], str(request.url.origin()), mime_type
        )
        query = {"upload_id": number, "upload_protocol": "resumable"}
        answer = _answer({}, "active")
        answer.headers["X-Goog-Upload-URL"] = str(request.url.with_query(query))
        return answer

    def listed(self) -> Json:
        """Return all files."""
        return {"files": [file.described() for file in self._files.values()]}

    def described(self, name: str) -> Json:
        """Return one file. Raises EmbeddedApiError (404) if there is none of that name."""
        return self._named(name).described()

    def content(self, name: str) -> bytes:
        """Return a file's bytes. Raises EmbeddedApiError (404) if there is none of that name."""
        return bytes(self._named(name).data)

    def delete(self, name: str) -> Json:
        """Delete a file. Raises EmbeddedApiError (404) if there is none of that name."""
        del self._files[self._named(name).name]
        return {}

    def _named(self, name: str) -> _File:
        if name not in self._files:
            raise EmbeddedApiError(404, f"There is no file {name}.")
        return self._files[name]


def _answer(body: Json, status: str) -> web.Response:
    return web.Response(
        body=encode_answer(body),
        headers={"Content-Type": "application/json", "X-Goog-Upload-Status": status},
    )
