"""Receivers of exported records, each in a process that a test can kill, and what has arrived there."""

import asyncio
import json
import os
import shutil
import signal
import socket
import sys
import urllib.request
from abc import abstractmethod
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import trustme
from support.operating import receiver_program
from support.operating.receiver_program import SECRET

RSYSLOG = shutil.which("rsyslogd", path=f"{os.environ.get('PATH', '')}:/usr/sbin")


def free_port() -> int:
    """A port that nobody listens on now: a receiver that was killed must come back where it was."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


class RealReceiver:
    """A receiver. `scheme` and `path` are those of the URL by which an export names it."""

    scheme = ""
    path = ""
    settings: dict[str, Any]
    address = ""
    """Where it must be reached directly, because something in between would seem to be it; else empty."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder, self.port, self.settings = folder, free_port(), {}
        self._process: asyncio.subprocess.Process | None = None

    @abstractmethod
    def command(self) -> list[str]:
        """The program to start."""

    @abstractmethod
    def received(self) -> list[dict[str, Any]]:
        """The records that have arrived, in the order in which they did."""

    async def start(self) -> None:
        """Start it, and wait until it listens."""
        self._process = await asyncio.create_subprocess_exec(
            *self.command(), stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL
        )
        async with asyncio.timeout(60):
            while True:
                assert self._process.returncode is None, f"{self.command()} has ended"
                with suppress(OSError):
                    _, writer = await asyncio.open_connection("127.0.0.1", self.port)
                    writer.close()
                    return
                await asyncio.sleep(0.05)

    async def kill(self) -> None:
        """End it at once."""
        if self._process is not None and self._process.returncode is None:
            self._process.send_signal(signal.SIGKILL)
            await self._process.wait()

    def pause(self) -> None:
        """Let it read nothing any more, although its connections stay open."""
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Let it go on."""
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def export(self, address: str) -> dict[str, Any]:
        """The settings of an export to it, by way of an address."""
        return {"to": f"{self.scheme}://{address}{self.path}", **self.settings}


class HttpReceiver(RealReceiver):
    """A receiver of one of the kinds of `receiver_program.py`."""

    def __init__(self, folder: Path, kind: str) -> None:
        super().__init__(folder)
        self._kind, self._file = kind, folder / "received.jsonl"
        self.scheme = "http" if kind == "webhook" else f"{kind}+http"
        self.path = {"elastic": "/hookgate", "webhook": "/records"}.get(kind, "")
        if kind != "otlp":
            secret = folder / "secret"
            secret.write_text(f"elastic:{SECRET}" if kind == "elastic" else SECRET)
            self.settings["secret_file"] = str(secret)

    def command(self) -> list[str]:
        return [sys.executable, receiver_program.__file__, self._kind, str(self.port), str(self._file)]

    def received(self) -> list[dict[str, Any]]:
        if not self._file.exists():
            return []
        return [json.loads(line) for line in self._file.read_text().splitlines()]


_RSYSLOG = """
global(workDirectory="{folder}" maxMessageSize="64k" debug.whitelist="off"
  defaultNetstreamDriverCAFile="{folder}/ca.pem"
  defaultNetstreamDriverCertFile="{folder}/cert.pem"
  defaultNetstreamDriverKeyFile="{folder}/key.pem")
module(load="imtcp" {tls})
template(name="line" type="string" string="%pri% %app-name% %procid% %msgid% %msg%\\n")
ruleset(name="records" queue.type="Direct") {{
  action(type="omfile" file="{folder}/received.log" template="line" flushOnTXEnd="on")
}}
input(type="imtcp" port="{port}" address="127.0.0.1" ruleset="records" SupportOctetCountedFraming="on")
"""


class Rsyslog(RealReceiver):
    """rsyslog, with TLS that GnuTLS or OpenSSL does, or with plain TCP."""

    def __init__(self, folder: Path, driver: str = "") -> None:
        if RSYSLOG is None:
            pytest.skip("no rsyslog here; on Debian: apt-get install rsyslog rsyslog-gnutls rsyslog-openssl")
        super().__init__(folder)
        self.scheme = "syslog+tls" if driver else "syslog+tcp"
        authority = trustme.CA()
        certificate = authority.issue_cert("127.0.0.1")
        authority.cert_pem.write_to_path(folder / "ca.pem")
        certificate.private_key_pem.write_to_path(folder / "key.pem")
        for part in certificate.cert_chain_pems:
            part.write_to_path(folder / "cert.pem", append=True)
        tls = (
            f'StreamDriver.Name="{driver}" StreamDriver.Mode="1" StreamDriver.AuthMode="anon"'
            if driver
            else ""
        )
        (folder / "rsyslog.conf").write_text(_RSYSLOG.format(folder=folder, port=self.port, tls=tls))
        if driver != "ossl":  # that with GnuTLS does not answer the end of a connection either
            self.address = f"127.0.0.1:{self.port}"
        if driver:
            self.settings["ca_bundle"] = str(folder / "ca.pem")

    def command(self) -> list[str]:
        assert RSYSLOG is not None
        (self.folder / "rsyslog.pid").unlink(missing_ok=True)
        return [RSYSLOG, "-n", "-f", f"{self.folder}/rsyslog.conf", "-i", f"{self.folder}/rsyslog.pid"]

    def received(self) -> list[dict[str, Any]]:
        file = self.folder / "received.log"
        if not file.exists():
            return []
        lines = [line.split(" ", 4) for line in file.read_text().splitlines()]
        return [json.loads(line[4]) for line in lines]


BUCKET, ACCESS = "audit", "AKIAEXAMPLE:a-secret-of-the-bucket"


class S3Storage(RealReceiver):
    """moto's server of S3, in this process, so that it has its objects again after it was stopped."""

    scheme, path = "s3+http", f"/{BUCKET}/hookgate"

    def __init__(self, folder: Path) -> None:
        super().__init__(folder)
        (folder / "secret").write_text(ACCESS)
        self.settings |= {"secret_file": str(folder / "secret"), "interval": 0.2}
        self._server: Any = None
        self._is_new = True

    async def start(self) -> None:
        from moto.server import ThreadedMotoServer  # noqa: PLC0415  # it takes long to import

        self._server = ThreadedMotoServer("127.0.0.1", self.port, verbose=False)
        await asyncio.to_thread(self._server.start)
        if self._is_new:
            self._is_new = False
            await asyncio.to_thread(self._forget_other_tests)
            await asyncio.to_thread(
                self.client().create_bucket, Bucket=BUCKET, ObjectLockEnabledForBucket=True
            )

    def _forget_other_tests(self) -> None:
        """All servers of this process have the same objects."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/moto-api/reset", data=b""):
            pass

    async def kill(self) -> None:
        if self._server is not None:
            await asyncio.to_thread(self._server.stop)
            self._server = None

    def client(self) -> Any:
        """A client of its own, as an auditor has one."""
        from botocore.session import Session  # noqa: PLC0415  # it takes long to import

        session = Session()
        session.set_credentials(*ACCESS.split(":"))
        return session.create_client(
            "s3", region_name="us-east-1", endpoint_url=f"http://127.0.0.1:{self.port}"
        )

    def objects(self) -> list[str]:
        """The names of the objects, in the order in which they were stored."""
        found = self.client().list_objects_v2(Bucket=BUCKET).get("Contents", [])
        return [each["Key"] for each in sorted(found, key=lambda each: (each["LastModified"], each["Key"]))]

    def received(self) -> list[dict[str, Any]]:
        client = self.client()
        bodies = (client.get_object(Bucket=BUCKET, Key=key)["Body"].read() for key in sorted(self.objects()))
        return [json.loads(line) for body in bodies for line in body.splitlines()]

    def command(self) -> list[str]:
        raise NotImplementedError


KINDS = ("otlp", "splunk", "elastic", "webhook", "syslog", "syslog-gtls", "syslog-ossl", "s3")


def receiver_of(kind: str, folder: Path) -> RealReceiver:
    """A receiver of a kind, which is not running."""
    if kind == "s3":
        return S3Storage(folder)
    if kind.startswith("syslog"):
        return Rsyslog(folder, kind.removeprefix("syslog").removeprefix("-"))
    return HttpReceiver(folder, kind)


def toml_of(folder: Path, **exports: dict[str, Any]) -> Path:
    """A configuration with exports."""
    lines = []
    for name, settings in exports.items():
        lines += [f"[exports.{name}]", *(f"{key} = {json.dumps(value)}" for key, value in settings.items())]
    file = folder / "hookgate.toml"
    file.write_text("\n".join(lines) + "\n")
    return file
