"""The gateway's own certificate, read again when its files change."""

import asyncio
import contextlib
import logging
import ssl
from pathlib import Path
from typing import Any

log = logging.getLogger("hookgate.tls")

# Some file systems tell of no change, so the files are looked at now and then all the same.
_WATCHING: Any = {"recursive": False, "rust_timeout": 5_000, "yield_on_timeout": True}
_RETRY_SECONDS = 5.0


class Certificate:
    """A certificate and its key. New connections use `context`; those that are there keep theirs."""

    def __init__(self, certificate: Path, key: Path | None = None) -> None:
        """Raises ValueError for files that no server can use."""
        self._certificate, self._key = certificate, key or certificate
        self._seen = self._contents()
        self.context = self._load()

    def reload(self) -> bool:
        """Read the files again; whether they are in force. The last good ones stay if they cannot be used."""
        self._seen = self._contents()
        try:
            self.context = self._load()
        except ValueError as error:
            log.error("the last good certificate stays in force: %s", error)
            return False
        log.info("certificate loaded from %s", self._certificate)
        return True

    async def watch(self) -> None:
        """Reload whenever a file changes; runs until it is cancelled, whatever goes wrong on the way."""
        while True:
            try:
                await self._watch()
            except Exception as error:  # such as a folder that is replaced by another one
                log.warning("the certificate's files cannot be watched: %r; trying again", error)
                await asyncio.sleep(_RETRY_SECONDS)

    async def _watch(self) -> None:
        from watchfiles import awatch  # noqa: PLC0415  # only a program that watches needs it

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
            named = f"listen.certificate {self._certificate}, listen.key {self._key}"
            raise ValueError(f"{named}: cannot be used: {_why(error)}") from None
        return context

    def _contents(self) -> list[bytes | None]:
        contents: list[bytes | None] = []
        for path in (self._certificate, self._key):
            contents.append(None)
            with contextlib.suppress(OSError):
                contents[-1] = path.read_bytes()
        return contents


def _no_password() -> str:
    """OpenSSL would ask on the terminal."""
    raise OSError("the key is encrypted; give one without a password")


def _why(error: OSError) -> str:
    if isinstance(error, ssl.SSLError):
        reason = (error.reason or "").replace("_", " ").lower()
        return f"{reason or 'no PEM certificate and key'}; they have to be a PEM certificate and its key"
    return error.strerror or str(error)
