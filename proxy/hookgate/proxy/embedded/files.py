"""The files of the embedded upstream: kept in memory, uploaded in parts as the API takes them."""

import secrets
from dataclasses import dataclass, field

import orjson
from aiohttp import web

from hookgate.proxy.embedded.requests import ApiError, Json


@dataclass
class _File:
    """One file, whole or on its way."""

    name: str
    version: str
    mime_type: str
    data: bytearray = field(default_factory=bytearray)

    def described(self) -> Json:
        return {
            "name": self.name,
            "mimeType": self.mime_type,
            "sizeBytes": str(len(self.data)),
            "uri": f"embedded:///{self.version}/{self.name}",
            "state": "ACTIVE",
        }


class Files:
    """What was uploaded to one running server."""

    def __init__(self) -> None:
        self._files: dict[str, _File] = {}
        self._uploads: dict[str, _File] = {}

    async def upload(self, request: web.Request) -> web.Response:
        """The start of an upload, or a part of its bytes."""
        command = request.headers.get("X-Goog-Upload-Command", "")
        if command == "start":
            return self._start(request)
        file = self._uploads.get(request.query.get("upload_id", ""))
        if file is None or "upload" not in command:
            raise ApiError(400, "There is no such upload: start one with X-Goog-Upload-Command: start.")
        if request.headers.get("X-Goog-Upload-Offset") != str(len(file.data)):
            raise ApiError(400, f"The upload goes on at {len(file.data)}.")
        file.data += await request.read()
        if "finalize" not in command:
            return _answer({}, "active")
        del self._uploads[request.query["upload_id"]]
        self._files[file.name] = file
        return _answer({"file": file.described()}, "final")

    def _start(self, request: web.Request) -> web.Response:
        number = secrets.token_hex(6)
        mime_type = request.headers.get("X-Goog-Upload-Header-Content-Type", "application/octet-stream")
        self._uploads[number] = _File(f"files/{number}", request.match_info["version"], mime_type)
        query = {"upload_id": number, "upload_protocol": "resumable"}
        answer = _answer({}, "active")
        answer.headers["X-Goog-Upload-URL"] = str(request.url.with_query(query))
        return answer

    def listed(self) -> Json:
        """All files."""
        return {"files": [file.described() for file in self._files.values()]}

    def described(self, name: str) -> Json:
        """One file. ApiError 404 when there is none of that name."""
        return self._named(name).described()

    def content(self, name: str) -> bytes:
        """A file's bytes. ApiError 404 when there is none of that name."""
        return bytes(self._named(name).data)

    def delete(self, name: str) -> Json:
        """Forget a file. ApiError 404 when there is none of that name."""
        del self._files[self._named(name).name]
        return {}

    def _named(self, name: str) -> _File:
        if name not in self._files:
            raise ApiError(404, f"There is no file {name}.")
        return self._files[name]


def _answer(body: Json, status: str) -> web.Response:
    return web.Response(
        body=orjson.dumps(body),
        headers={"Content-Type": "application/json", "X-Goog-Upload-Status": status},
    )
