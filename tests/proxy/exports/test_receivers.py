"""What each kind of receiver is sent, and how its answers are read, beyond what test_delivery.py shows."""

import asyncio
import socket
import ssl
import threading
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiohttp import web
from botocore.exceptions import ClientError
from support.operating.export_receivers import BUCKET, RealReceiver, S3Storage, free_port, receiver_of
from support.operating.receiver_program import POISON

from hookgate.proxy.app import serve_on
from hookgate.proxy.audit.chain import canonical_json
from hookgate.proxy.config import ExportSettings
from hookgate.proxy.exports.documents import SentDocument
from hookgate.proxy.exports.receivers import (
    Accepted,
    Delivery,
    ExportsError,
    Rejected,
    Unavailable,
    read_access,
)
from hookgate.proxy.exports.threads import open_receiver


def document(seq: int = 1, text: str = "fine", *, incident: bool = False) -> SentDocument:
    encoded = canonical_json({"writer": "w", "seq": seq, "text": text})
    return SentDocument("w", seq, f"{seq:032x}", 1_777_000_000_000, "end", "gate way", incident, encoded)


async def delivered(settings: ExportSettings, *documents: SentDocument) -> Delivery:
    receiver = open_receiver(read_access({"siem": settings})["siem"])
    try:
        return await receiver.deliver(documents)
    finally:
        await receiver.close()


async def running(kind: str, tmp_path: Path) -> tuple[RealReceiver, ExportSettings]:
    receiver = receiver_of(kind, tmp_path)
    await receiver.start()
    return receiver, ExportSettings.model_validate(receiver.export(f"127.0.0.1:{receiver.port}"))


@pytest.mark.parametrize("kind", ["otlp", "splunk", "webhook"])
async def test_a_batch_that_is_refused_is_refused_as_a_whole(kind: str, tmp_path: Path) -> None:
    receiver, settings = await running(kind, tmp_path)
    try:
        answer = await delivered(settings, document(1), document(2, POISON))
        assert isinstance(answer, Rejected)
        assert "400" in answer.reason
        assert receiver.received() == []
    finally:
        await receiver.kill()


async def test_elastic_names_the_document_that_it_refuses(tmp_path: Path) -> None:
    receiver, settings = await running("elastic", tmp_path)
    try:
        answer = await delivered(settings, document(1), document(2, POISON), document(3))
        assert isinstance(answer, Accepted)
        assert [*answer.refused] == [1]
        assert "document_parsing_exception" in answer.refused[1]
        assert await delivered(settings, document(1)) == Accepted()  # it has it already
        assert [each["seq"] for each in receiver.received()] == [1, 3]
    finally:
        await receiver.kill()


@pytest.mark.parametrize("kind", ["splunk", "elastic", "webhook"])
async def test_a_wrong_secret_is_said_without_it(kind: str, tmp_path: Path) -> None:
    receiver, settings = await running(kind, tmp_path)
    try:
        assert settings.secret_file is not None
        settings.secret_file.write_text("elastic:wrong-secret" if kind == "elastic" else "wrong-secret")
        answer = await delivered(settings, document())
        assert isinstance(answer, Unavailable)
        assert "status 40" in answer.reason
        assert "wrong-secret" not in answer.reason
    finally:
        await receiver.kill()


@pytest.mark.parametrize(
    ("refused", "expected"),
    [("1", Accepted(unnamed=1, why="too old")), (2, Accepted({0: "too old", 1: "too old"})), (0, Accepted())],
)
async def test_a_collector_that_refuses_some_records_does_not_say_which(
    refused: object, expected: Accepted
) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        partial = {"rejectedLogRecords": refused, "errorMessage": "too old"}
        return web.json_response({"partialSuccess": partial})

    async with serve_on(answer, "127.0.0.1", 0) as url:
        assert await delivered(ExportSettings(to=f"otlp+{url}"), document(1), document(2)) == expected


@pytest.mark.parametrize(
    ("status", "headers", "kind", "pause"),
    [
        (413, {}, Rejected, 0),
        (422, {}, Rejected, 0),
        (429, {"retry-after": "7"}, Unavailable, 7),
        (500, {}, Unavailable, 0),
        (404, {}, Unavailable, 0),
        (302, {"location": "/elsewhere"}, Unavailable, 0),
    ],
)
async def test_a_status_says_whether_the_records_are_at_fault(
    status: int, headers: dict[str, str], kind: type, pause: float
) -> None:
    async def answer(request: web.BaseRequest) -> web.Response:
        return web.Response(status=status, headers=headers)

    async with serve_on(answer, "127.0.0.1", 0) as url:
        found = await delivered(ExportSettings(to=f"otlp+{url}"), document())
    assert isinstance(found, kind)
    assert getattr(found, "pause", 0) == pause


async def test_a_receiver_that_is_not_there_is_unavailable() -> None:
    port = free_port()
    found = await delivered(ExportSettings(to=f"otlp+http://127.0.0.1:{port}"), document())
    assert found == Unavailable(f"it cannot be reached: 127.0.0.1:{port}: Connection refused")
    with pytest.raises(OSError, match="Connection refused"):
        await delivered(ExportSettings(to=f"syslog+tcp://127.0.0.1:{port}"), document())


async def test_an_answer_is_read_to_its_end() -> None:
    async def answer(request: web.BaseRequest) -> web.StreamResponse:
        response = web.StreamResponse()
        await response.prepare(request)
        for part in (b'{"items": [{"create": {"status": 400, ', b'"error": "bad"}}]}'):
            await response.write(part)
            await asyncio.sleep(0.2)
        return response

    async with serve_on(answer, "127.0.0.1", 0) as url:
        found = await delivered(ExportSettings(to=f"elastic+{url}/hookgate"), document())
    assert found == Accepted({0: 'it answered with status 400: "bad"'})


async def test_settings_of_aws_are_named_if_they_cannot_be_used(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("AWS_PROFILE", "nobody")
    access = read_access({"siem": ExportSettings(to="s3://bucket")})["siem"]
    with pytest.raises(ValueError, match=r"s3://bucket: .*nobody.*check the variables"):
        open_receiver(access)


async def test_syslog_has_the_severity_of_what_happened_and_a_host_that_is_one_word(tmp_path: Path) -> None:
    receiver, settings = await running("syslog", tmp_path)
    try:
        assert await delivered(settings, document(1), document(2, incident=True)) == Accepted()
        lines = (tmp_path / "received.log").read_text().splitlines()
        assert [line.split(" {")[0] for line in lines] == ["110 hookgate w end", "108 hookgate w end"]
    finally:
        await receiver.kill()


async def test_a_receiver_with_an_unknown_certificate_is_not_trusted(tmp_path: Path) -> None:
    receiver, settings = await running("syslog-ossl", tmp_path)
    try:
        untrusting = settings.model_copy(update={"ca_bundle": None})
        with pytest.raises(OSError, match="certificate verify failed"):
            await delivered(untrusting, document())
        assert receiver.received() == []
    finally:
        await receiver.kill()


async def test_a_connection_that_ends_without_an_answer_confirms_nothing_unless_none_ever_does(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    answers = True
    authority = trustme.CA()
    authority.cert_pem.write_to_path(tmp_path / "ca.pem")
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    authority.issue_cert("127.0.0.1").configure_cert(context)
    listener = context.wrap_socket(socket.create_server(("127.0.0.1", 0)), server_side=True)

    def read_all() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            with connection:
                while connection.recv(4096):
                    pass
                if answers:
                    connection.unwrap()

    thread = threading.Thread(target=read_all)
    thread.start()
    try:
        to = f"syslog+tls://127.0.0.1:{listener.getsockname()[1]}"
        settings = ExportSettings(to=to, ca_bundle=tmp_path / "ca.pem")

        access = read_access({"siem": settings})["siem"]
        strict, lenient = open_receiver(access), open_receiver(access)
        batch = [document()]
        assert await strict.deliver(batch) == Accepted()
        answers = False
        with pytest.raises(OSError, match="EOF"):
            await strict.deliver(batch)
        assert caplog.messages == []
        assert await lenient.deliver(batch) == Accepted()
        assert "127.0.0.1 does not answer the end of a connection" in caplog.text
        answers = True
        assert await lenient.deliver(batch) == Accepted()
        answers = False
        with pytest.raises(OSError, match="EOF"):
            await lenient.deliver(batch)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


async def test_objects_are_locked(tmp_path: Path) -> None:
    storage = S3Storage(tmp_path)
    await storage.start()
    try:
        settings = {**storage.export(f"127.0.0.1:{storage.port}"), "lock_days": 30, "lock_mode": "compliance"}
        export = ExportSettings.model_validate(settings)
        assert await delivered(export, document(7), document(8)) == Accepted()
        [key] = storage.objects()
        assert key == "hookgate/2026/04/24/w-000000000007.jsonl"
        client = storage.client()
        head = client.head_object(Bucket=BUCKET, Key=key)
        assert head["ObjectLockMode"] == "COMPLIANCE"
        assert 29 < (head["ObjectLockRetainUntilDate"] - head["LastModified"]).days + 1 <= 31
        with pytest.raises(ClientError, match="AccessDenied"):
            client.delete_object(Bucket=BUCKET, Key=key, VersionId=head["VersionId"])
        assert [each["seq"] for each in storage.received()] == [7, 8]
    finally:
        await storage.kill()


async def test_a_bucket_that_is_missing_is_named(tmp_path: Path) -> None:
    storage = S3Storage(tmp_path)
    await storage.start()
    try:
        settings = storage.export(f"127.0.0.1:{storage.port}")
        wrong = ExportSettings.model_validate({**settings, "to": settings["to"].replace(BUCKET, "nowhere")})
        answer = await delivered(wrong, document())
        assert isinstance(answer, Unavailable)
        assert "NoSuchBucket" in answer.reason
        assert "a-secret" not in answer.reason
    finally:
        await storage.kill()


@pytest.mark.parametrize(
    ("settings", "problem"),
    [
        ({"to": "ftp://x"}, "must begin with one of otlp+https://"),
        ({"to": "https://user:pw@x/y", "secret_file": "s"}, "a secret belongs in secret_file"),
        ({"to": "elastic+https://x:9200"}, "must end with the index"),
        ({"to": "s3+https://x"}, "must end with the bucket"),
        ({"to": "syslog+tls://x/y"}, "syslog has none"),
        ({"to": "https://x/y"}, "needs secret_file or secret_variable"),
        ({"to": "http://x/y", "secret_file": "s"}, "must use TLS"),
        ({"to": "splunk+https://x", "secret_file": "s", "secret_variable": "V"}, "are both set"),
        ({"to": "syslog+tls://x", "secret_file": "s"}, "syslog has no secret"),
        ({"to": "syslog+tcp://x", "ca_bundle": "c"}, "need a URL with TLS"),
        ({"to": "otlp+https://x", "lock_days": 1}, "only for S3"),
        ({"to": "otlp+https://x", "format": "ocsf", "content": True}, 'needs format = "hookgate"'),
    ],
)
def test_settings_that_make_no_sense_are_refused(settings: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=problem.replace("+", r"\+")):
        ExportSettings.model_validate(settings)


def test_a_secret_that_cannot_be_one_is_refused_without_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "two").write_text("two words")
    monkeypatch.setenv("PAIR", "no-pair")
    exports = {
        "a": ExportSettings(to="splunk+https://x", secret_file=tmp_path / "missing"),
        "b": ExportSettings(to="splunk+https://x", secret_file=tmp_path / "two"),
        "c": ExportSettings.model_validate({"to": "s3://bucket", "secret_variable": "PAIR"}),
        "d": ExportSettings(to="otlp+https://x", ca_bundle=tmp_path / "none.pem"),
        "e": ExportSettings.model_validate({"to": "splunk+https://x", "secret_variable": "NOT_SET"}),
    }
    with pytest.raises(ExportsError) as refused:
        read_access(exports)
    assert [setting for setting, _ in refused.value.problems] == [f"exports.{name}" for name in exports]
    text = str(refused.value)
    assert "exports.a.secret_file" in text
    assert "ACCESS_KEY:SECRET_KEY" in text
    assert "two words" not in text
    assert "no-pair" not in text
