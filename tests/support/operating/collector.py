"""A collector for OpenTelemetry on loopback: OTLP over HTTP, in protobuf."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from hookgate.proxy.app import serve_on


@dataclass(frozen=True)
class Span:
    """One span as it arrived; IDs in hex, `parent` empty for the first of a trace. Times in nanoseconds."""

    name: str
    trace: str
    id: str
    parent: str
    kind: int
    begin: int
    end: int
    failed: bool
    attributes: dict[str, Any]


@dataclass
class Collector:
    """What has arrived. As long as `status` is not 200 nothing is taken."""

    url: str = ""
    status: int = 200
    spans: list[Span] = field(default_factory=list)
    services: set[str] = field(default_factory=set)
    received: bytes = b""
    """All bytes that it took."""

    def named(self, start: str) -> list[Span]:
        """The spans whose names begin so."""
        return [span for span in self.spans if span.name.startswith(start)]

    async def take(self, request: web.BaseRequest) -> web.StreamResponse:
        assert (request.method, request.path) == ("POST", "/v1/traces")
        body = await request.read()
        if self.status == 200:
            self.received += body
            self._read(ExportTraceServiceRequest.FromString(body))
        answer = ExportTraceServiceResponse().SerializeToString()
        return web.Response(status=self.status, body=answer, content_type="application/x-protobuf")

    def _read(self, message: Any) -> None:
        for resource in message.resource_spans:
            self.services.add(_attributes(resource.resource.attributes)["service.name"])
            for scope in resource.scope_spans:
                self.spans += [_span(each) for each in scope.spans]


def _span(message: Any) -> Span:
    return Span(
        name=message.name,
        trace=message.trace_id.hex(),
        id=message.span_id.hex(),
        parent=message.parent_span_id.hex(),
        kind=message.kind,
        begin=message.start_time_unix_nano,
        end=message.end_time_unix_nano,
        failed=message.status.code == 2,
        attributes=_attributes(message.attributes),
    )


def _attributes(message: Any) -> dict[str, Any]:
    return {each.key: _value(each.value) for each in message}


def _value(value: Any) -> Any:
    kind = value.WhichOneof("value")
    return (
        [_value(each) for each in value.array_value.values] if kind == "array_value" else getattr(value, kind)
    )


@asynccontextmanager
async def collecting() -> AsyncIterator[Collector]:
    """A collector, for as long as the block runs."""
    collector = Collector()
    async with serve_on(collector.take, "127.0.0.1", 0) as url:
        collector.url = url
        yield collector
