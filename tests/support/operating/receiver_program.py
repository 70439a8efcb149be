"""A receiver of exported records in its own process, to kill: `receiver_program.py KIND PORT FILE`.

What it accepts is in the file before it answers. It is strict about the protocol of its kind: OTLP is read
with the classes of OpenTelemetry, and Splunk and Elastic answer as their documentation says.
"""

import base64
import hmac
import json
import os
import sys
from pathlib import Path
from typing import Any

from aiohttp import web

SECRET = "a-secret-of-the-receiver"  # noqa: S105  # it opens nothing else
POISON = "poison"
"""A document with this text is refused."""


class Receiver:
    """Accepts records, and writes each as a line to a file."""

    def __init__(self, kind: str, file: Path) -> None:
        self._kind, self._file = kind, file
        lines = file.read_text().splitlines() if file.exists() else []
        self._known = {json.loads(line).get("_id") for line in lines}

    async def take(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        return {"otlp": self.otlp, "splunk": self.splunk, "elastic": self.elastic, "webhook": self.webhook}[
            self._kind
        ](request, body)

    def otlp(self, request: web.Request, body: bytes) -> web.Response:
        from google.protobuf import json_format  # noqa: PLC0415  # only this kind needs it
        from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import (  # noqa: PLC0415  # see above
            ExportLogsServiceRequest,
        )

        assert (request.path, request.content_type) == ("/v1/logs", "application/json")
        message = json_format.Parse(body, ExportLogsServiceRequest())
        [resource] = message.resource_logs
        [scope] = resource.scope_logs
        texts = [record.body.string_value for record in scope.log_records]
        assert all(record.time_unix_nano and record.severity_number for record in scope.log_records)
        if any(POISON in text for text in texts):
            return web.json_response({"code": 3, "message": "bad record"}, status=400)
        self._keep(map(json.loads, texts))
        return web.json_response({})

    def splunk(self, request: web.Request, body: bytes) -> web.Response:
        assert request.path == "/services/collector/event"
        if request.headers["authorization"] != f"Splunk {SECRET}":
            return web.json_response({"text": "Invalid token", "code": 4}, status=403)
        events, text, decoder = [], body.decode(), json.JSONDecoder()
        while text:
            event, end = decoder.raw_decode(text)
            events.append(event)
            text = text[end:]
        assert all(event["sourcetype"] == "hookgate:hookgate" and event["time"] for event in events)
        if any(POISON in json.dumps(event) for event in events):
            return web.json_response({"text": "Invalid data format", "code": 6}, status=400)
        self._keep(event["event"] for event in events)
        return web.json_response({"text": "Success", "code": 0})

    def elastic(self, request: web.Request, body: bytes) -> web.Response:
        assert (request.path, request.content_type) == ("/_bulk", "application/x-ndjson")
        expected = base64.b64encode(f"elastic:{SECRET}".encode()).decode()
        if request.headers["authorization"] != f"Basic {expected}":
            return web.json_response({"error": "unauthorized"}, status=401)
        lines = body.splitlines()
        items, kept = [], []
        for action, source in zip(lines[::2], lines[1::2], strict=True):
            create, document = json.loads(action)["create"], json.loads(source)
            assert create["_index"] == "hookgate"
            assert document.pop("@timestamp")
            if POISON in source.decode():
                error = {"type": "document_parsing_exception", "reason": "failed to parse"}
                items.append({"create": {"status": 400, "error": error}})
            elif create["_id"] in self._known:
                items.append(
                    {"create": {"status": 409, "error": {"type": "version_conflict_engine_exception"}}}
                )
            else:
                self._known.add(create["_id"])
                kept.append({**document, "_id": create["_id"]})
                items.append({"create": {"status": 201}})
        self._keep(kept)
        return web.json_response({"errors": len(kept) < len(items), "items": items})

    def webhook(self, request: web.Request, body: bytes) -> web.Response:
        signed = f"{request.headers['webhook-id']}.{request.headers['webhook-timestamp']}.".encode() + body
        digest = base64.b64encode(hmac.digest(SECRET.encode(), signed, "sha256")).decode()
        if request.headers["webhook-signature"] != f"v1,{digest}":
            return web.Response(status=401, text="the signature is wrong")
        if POISON.encode() in body:
            return web.Response(status=400, text="bad record")
        self._keep(map(json.loads, body.splitlines()))
        return web.Response(status=204)

    def _keep(self, documents: Any) -> None:
        with self._file.open("a") as file:
            file.writelines(json.dumps(each) + "\n" for each in documents)
            file.flush()
            os.fsync(file.fileno())


def main() -> None:
    kind, port, file = sys.argv[1:]
    app = web.Application(client_max_size=64 * 1024 * 1024)
    app.router.add_post("/{path:.*}", Receiver(kind, Path(file)).take)
    web.run_app(app, host="127.0.0.1", port=int(port), print=lambda *_: print("ready", flush=True))


if __name__ == "__main__":
    main()
