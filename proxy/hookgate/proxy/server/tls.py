"""The gateway's TLS certificate, which is reloaded when its files change."""

import asyncio
import contextlib
import errno
import logging
import os
import ssl
from pathlib import Path
from typing import Any

log = logging.getLogger("hookgate.tls")

# Some file systems do not report changes, so the files are also compared at intervals.
_WATCHING: Any = {"recursive": False, "rust_timeout": 5_000, "yield_on_timeout": True}
_RETRY_SECONDS = 5.0


class Certificate:
    """A certificate and its key. New connections use `context`; a reload does not affect existing ones."""

    def __init__(self, certificate: Path, key: Path | None = None) -> None:
        """Load the files. Raises ValueError if they cannot be used."""
        self._certificate, self._key = certificate, key or certificate
        self._seen = self._contents()
        self.context = self._load()

    def expires(self) -> float:
        """Return the time at which the certificate expires, in seconds since 1970.

        This performs a handshake in memory, because `ssl` describes only certificates that it has verified.
        Raises ValueError if the certificate is invalid.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = False
        context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
        context.load_verify_locations(self._certificate)
        to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
        client = context.wrap_bio(to_client, to_server)
        server = self.context.wrap_bio(to_server, to_client, server_side=True)
        try:
            for side in (client, server, client):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
        except ssl.SSLCertVerificationError as error:
            raise ValueError(f"{self._certificate}: {error.verify_message}; renew it") from None
        return ssl.cert_time_to_seconds(str((client.getpeercert() or {})["notAfter"]))

    def reload(self) -> bool:
        """Load the files again. Returns False, and keeps the current certificate, if they cannot be used."""
        self._seen = self._contents()
        try:
            self.context = self._load()
        except ValueError as error:
            log.error("the certificate cannot be loaded, so the last good one stays in use: %s", error)
            return False
        log.info("certificate loaded from %s", self._certificate)
        return True

    async def watch(self) -> None:
        """Reload whenever a file changes. Runs until cancelled; failures are logged and retried."""
        while True:
            try:
                await self._watch()
            except Exception as error:  # such as a folder that is replaced
                log.warning("the certificate's files cannot be watched: %r; trying again", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _watch(self) -> None:
        from watchfiles import awatch  # noqa: PLC0415  # imported only by programs that watch

        if await asyncio.to_thread(self._contents) != self._seen:
            self.reload()
        folders = {self._certificate.parent, self._key.parent}
        async for _ in awatch(*folders, **_WATCHING):
            if await asyncio.to_thread(self._contents) != self._seen:
                self.reload()

    def _load(self) -> ssl.SSLContext:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.set_alpn_protocols(["http/1.1"])
        try:
            context.load_cert_chain(self._certificate, self._key, password=_no_password)
        except OSError as error:  # an SSLError is one
            raise ValueError(self._problem(error)) from None
        return context

    def _problem(self, error: OSError) -> str:
        """Describe why the files cannot be loaded."""
        files = {"listen.certificate": self._certificate, "listen.key": self._key}
        for setting, path in files.items():
            if not path.exists():
                return f"{setting}: {path}: cannot be read: {os.strerror(errno.ENOENT)}; check the path"
        named = ", ".join(f"{setting} {path}" for setting, path in files.items())
        return f"{named}: cannot be used: {_describe_error(error)}"

    def _contents(self) -> list[bytes | None]:
        contents: list[bytes | None] = []
        for path in (self._certificate, self._key):
            contents.append(None)
            with contextlib.suppress(OSError):
                contents[-1] = path.read_bytes()
        return contents


def _no_password() -> str:
    """Raise OSError: otherwise OpenSSL would ask for the password on the terminal."""
    raise OSError("the key is encrypted; use one without a password")


def _describe_error(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "").replace("_", " ").lower()
        return f"{reason or 'no certificate or key found'}; they must be a PEM certificate and its key"
    return error.strerror or str(error)
