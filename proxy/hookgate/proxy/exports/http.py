"""Receivers that are reached over HTTP: OTLP, Splunk, Elastic, and webhooks."""

import base64
import time
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from http import HTTPStatus
from typing import Any

import orjson
from yarl import URL

from hookgate.proxy import __version__
from hookgate.proxy.exports.documents import SentDocument
from hookgate.proxy.exports.receivers import (
    DELIVERY_SECONDS,
    Accepted,
    Delivery,
    ReceiverAccess,
    Rejected,
    Unavailable,
)
from hookgate.proxy.posting import PostAnswer, PostClient
from hookgate.proxy.webhooks import SECRET_PREFIX, signed_headers, signing_key
from hookgate.translator.fields import JsonObject, read_object

_ABOUT_CONTENT = frozenset(
    {HTTPStatus.BAD_REQUEST, HTTPStatus.REQUEST_ENTITY_TOO_LARGE, HTTPStatus.UNPROCESSABLE_ENTITY}
)
"""The statuses that refuse what was sent. Others are about the receiver, its address or the secret."""

_LONGEST_ANSWER = 4 * 1024 * 1024
"""Bytes of an answer that are read: Elastic answers with a few hundred bytes for each document."""

_JSON, _LINES = "application/json", "application/x-ndjson"


class HttpReceiver(ABC):
    """A receiver to which each batch is one POST request."""

    content_type = _JSON

    def __init__(self, access: ReceiverAccess) -> None:
        self._access = access
        self._destination = access.settings.destination
        self._client = PostClient(DELIVERY_SECONDS, access.tls)

    @abstractmethod
    def encode(self, batch: Sequence[SentDocument]) -> bytes:
        """Return the body of the request."""

    def headers(self, batch: Sequence[SentDocument], body: bytes) -> Mapping[str, str]:
        """Return the headers that authenticate the request."""
        return {}

    def read_success(self, batch: Sequence[SentDocument], answer: JsonObject) -> Delivery:
        """Return what an answer with the status 2xx says."""
        return Accepted()

    @property
    def path(self) -> str:
        """The path of the requests."""
        return self._destination.path

    async def deliver(self, batch: Sequence[SentDocument]) -> Delivery:
        """Send documents. Raises TimeoutError if the receiver does not answer."""
        body = self.encode(batch)
        headers = {"content-type": self.content_type, **self.headers(batch, body)}
        url = URL(self._destination.origin + self.path, encoded=True)
        try:
            answer = await self._client.post(url, body, headers, _LONGEST_ANSWER)
        except TimeoutError:
            raise
        except OSError as error:
            return Unavailable(f"it {error}")
        return self._read(batch, answer)

    async def close(self) -> None:
        """Close its connections."""
        await self._client.close()

    def _read(self, batch: Sequence[SentDocument], answer: PostAnswer) -> Delivery:
        if 200 <= answer.status < 300:
            return self.read_success(batch, _object(answer.start))
        reason = f"it answered with status {answer.status}"
        if told := self._access.mask(answer.start[:2000].decode(errors="replace")):
            reason += f": {told}"
        if 300 <= answer.status < 400:
            return Unavailable(
                f"it answered with status {answer.status}, a redirect; name the URL it redirects to"
            )
        if answer.status in _ABOUT_CONTENT:
            return Rejected(reason)
        return Unavailable(reason, _pause(answer.headers.get("retry-after", "")))


def _object(text: bytes) -> JsonObject:
    try:
        value: Any = orjson.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _pause(text: str) -> float:
    return float(text) if text.isdecimal() and len(text) < 6 else 0.0  # a date is ignored


class OtlpReceiver(HttpReceiver):
    """A collector of OpenTelemetry, which accepts logs over OTLP/HTTP, in JSON."""

    def encode(self, batch: Sequence[SentDocument]) -> bytes:
        """Return the request for one resource: the gateway that has written the records."""
        resource = {"service.name": "hookgate", "service.version": __version__, "host.name": batch[0].host}
        scope = {"scope": {"name": "hookgate.audit"}, "logRecords": [_log_record(each) for each in batch]}
        logs = {"resource": {"attributes": _attributes(resource)}, "scopeLogs": [scope]}
        return orjson.dumps({"resourceLogs": [logs]})

    def headers(self, batch: Sequence[SentDocument], body: bytes) -> Mapping[str, str]:
        """Return the token, if one is configured."""
        return {"authorization": f"Bearer {self._access.secret}"} if self._access.secret else {}

    def read_success(self, batch: Sequence[SentDocument], answer: JsonObject) -> Delivery:
        """Return how many records were refused: the answer does not say which, unless it is all of them."""
        partial = read_object(answer, "partialSuccess")
        try:
            count = int(partial.get("rejectedLogRecords") or 0)
        except (TypeError, ValueError):
            count = 0
        if count < 1:
            return Accepted()
        told = self._access.mask(str(partial.get("errorMessage") or "it gave no reason"))
        if count >= len(batch):
            return Accepted(dict.fromkeys(range(len(batch)), told))
        return Accepted(unnamed=count, why=told)


def _log_record(document: SentDocument) -> JsonObject:
    number, text = (13, "WARN") if document.is_incident else (9, "INFO")
    attributes = {"event.name": f"hookgate.audit.{document.type}", "hookgate.receipt": document.id}
    return {
        "timeUnixNano": str(document.at * 1_000_000),
        "severityNumber": number,
        "severityText": text,
        "body": {"stringValue": document.encoded.decode()},
        "attributes": _attributes(attributes),
    }


def _attributes(values: Mapping[str, str]) -> list[JsonObject]:
    return [{"key": name, "value": {"stringValue": value}} for name, value in values.items()]


class SplunkReceiver(HttpReceiver):
    """The HTTP Event Collector of Splunk."""

    def encode(self, batch: Sequence[SentDocument]) -> bytes:
        """Return the events one after the other, as the collector expects them."""
        kind = f"hookgate:{self._access.settings.format}"
        return b"".join(
            orjson.dumps(
                {
                    "time": document.at / 1000,
                    "host": document.host,
                    "source": "hookgate",
                    "sourcetype": kind,
                    "event": orjson.Fragment(document.encoded),
                }
            )
            for document in batch
        )

    def headers(self, batch: Sequence[SentDocument], body: bytes) -> Mapping[str, str]:
        """Return the token."""
        return {"authorization": f"Splunk {self._access.secret}"}


class ElasticReceiver(HttpReceiver):
    """An index or data stream of Elasticsearch or OpenSearch, which has each record once."""

    content_type = _LINES

    def __init__(self, access: ReceiverAccess) -> None:
        super().__init__(access)
        self._base, _, self._index = self._destination.path.rpartition("/")

    @property
    def path(self) -> str:
        """The path of the bulk API."""
        return f"{self._base}/_bulk"

    def encode(self, batch: Sequence[SentDocument]) -> bytes:
        """Return two lines for each document. One whose ID is there already is not added again."""
        lines: list[bytes] = []
        for document in batch:
            lines.append(orjson.dumps({"create": {"_index": self._index, "_id": document.name}}))
            stamp = b'{"@timestamp":%d' % document.at
            lines.append(stamp + (b"}" if document.encoded == b"{}" else b"," + document.encoded[1:]))
        return b"\n".join(lines) + b"\n"

    def headers(self, batch: Sequence[SentDocument], body: bytes) -> Mapping[str, str]:
        """Return the API key, or user and password."""
        secret = self._access.secret
        if not secret:
            return {}
        if ":" in secret:
            return {"authorization": f"Basic {base64.b64encode(secret.encode()).decode()}"}
        return {"authorization": f"ApiKey {secret}"}

    def read_success(self, batch: Sequence[SentDocument], answer: JsonObject) -> Delivery:
        """Return which documents were refused, from the status of each."""
        items = answer.get("items")
        if not isinstance(items, list) or len(items) != len(batch):
            return Unavailable("its answer is not that of the bulk API; check the URL")
        refused: dict[int, str] = {}
        for index, item in enumerate(items):
            result = read_object(item, "create") if isinstance(item, dict) else {}
            status = result.get("status")
            if status in (HTTPStatus.OK, HTTPStatus.CREATED, HTTPStatus.CONFLICT):
                continue
            reason = self._access.mask(orjson.dumps(result.get("error")).decode())
            if status not in _ABOUT_CONTENT:
                return Unavailable(f"it answered with status {status} for a document: {reason}")
            refused[index] = f"it answered with status {status}: {reason}"
        return Accepted(refused)


class WebhookReceiver(HttpReceiver):
    """Any service. Requests are signed as the specification Standard Webhooks describes."""

    content_type = _LINES

    def encode(self, batch: Sequence[SentDocument]) -> bytes:
        """Return a line for each document."""
        return b"\n".join(document.encoded for document in batch) + b"\n"

    def headers(self, batch: Sequence[SentDocument], body: bytes) -> Mapping[str, str]:
        """Return the headers with which the receiver verifies the request."""
        identity = f"{batch[0].name}-{batch[-1].seq}"
        secret = self._access.secret
        key = signing_key(secret) if secret.startswith(SECRET_PREFIX) else secret.encode()
        return signed_headers(key, identity, int(time.time()), body)
