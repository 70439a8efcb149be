"""The gateway's own API keys: sent in place of the credentials of callers, and masked in every answer."""

import re
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

from multidict import CIMultiDict
from pydantic import SecretStr

from hookgate.proxy.config import UpstreamSettings
from hookgate.proxy.config.values import api_key
from hookgate.proxy.errors import describe_os_error
from hookgate.proxy.identity.callers import KEY_HEADER
from hookgate.proxy.routing.table import Route

_CREDENTIALS = re.compile(r"authorization|x-goog-(?:api-key|user-project|iam-.*|authenticated-user-.*)", re.I)
"""The headers with which a caller authenticates, or says on whose account it calls."""


class KeyMask:
    """Masks a key in texts and in streams of bytes, without changing their length."""

    def __init__(self, key: str) -> None:
        self._text, self._bytes = key, key.encode()

    def text(self, text: str) -> str:
        """Return the text with the key masked."""
        return text.replace(self._text, "*" * len(self._text))

    def data(self, data: bytes) -> bytes:
        """Return the bytes with the key masked."""
        return data.replace(self._bytes, b"*" * len(self._bytes))

    def headers(self, headers: CIMultiDict[str]) -> CIMultiDict[str]:
        """Return the headers of an answer with the key masked; usually the same object."""
        if not any(self._text in value for value in headers.values()):
            return headers
        return CIMultiDict((name, self.text(value)) for name, value in headers.items())

    async def stream(self, chunks: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Yield the bytes of a stream with the key masked, even if it is divided among chunks.

        An end of a chunk that may be the beginning of the key is held back until the next chunk.
        """
        held = b""
        async for chunk in chunks:
            data = self.data(held + chunk)
            size = len(data) - self._beginning(data)
            held = data[size:]
            if size:
                yield data[:size]
        if held:
            yield held

    def _beginning(self, data: bytes) -> int:
        """Return the length of the longest end of the data with which the key may begin."""
        at = data.find(self._bytes[:1], max(0, len(data) - len(self._bytes) + 1))
        while at >= 0 and not self._bytes.startswith(data[at:]):
            at = data.find(self._bytes[:1], at + 1)
        return len(data) - at if at >= 0 else 0


class UpstreamKeys:
    """The gateway's own keys by API."""

    def __init__(self, settings: UpstreamSettings) -> None:
        """Read the keys. Raises ValueError, without a key, if a file cannot be used."""
        configured: dict[str, tuple[SecretStr | None, Path | None]] = {
            "gemini": (settings.gemini_key, settings.gemini_key_file),
            "vertex": (settings.vertex_key, settings.vertex_key_file),
        }
        self._keys: dict[str, str] = {}
        for api, (key, file) in configured.items():
            if key is not None:
                self._keys[api] = key.get_secret_value()
            elif file is not None:
                self._keys[api] = _key_in(file, f"upstream.{api}_key_file")
        self._masks = {api: KeyMask(key) for api, key in self._keys.items()}

    def __contains__(self, api: str) -> bool:
        return api in self._keys

    def mask(self, api: str) -> KeyMask:
        """Return the mask of an API's key, for answers to requests that were sent with it."""
        return self._masks[api]

    def replaced(self, route: Route, headers: Mapping[str, str]) -> dict[str, str]:
        """Return the headers with the gateway's key in place of the caller's credentials.

        The answer must not be compressed, because the key could not be masked in it.
        """
        kept = {name: value for name, value in headers.items() if not _CREDENTIALS.fullmatch(name)}
        key = self._keys[route.api]
        # The OpenAI-compatible path accepts an API key as OpenAI's clients send it, and in no other place.
        sent = {"Authorization": f"Bearer {key}"} if route.unhooked == "openai" else {KEY_HEADER: key}
        return {**kept, "Accept-Encoding": "identity", **sent}


def _key_in(file: Path, setting: str) -> str:
    try:
        return api_key(file.read_text(encoding="utf-8").rstrip("\r\n"))
    except OSError as error:
        why = f"cannot be read: {describe_os_error(error)}; check the path"
    except UnicodeDecodeError:
        why = "must contain an API key, and nothing else"
    except ValueError as error:
        why = str(error)
    raise ValueError(f"{setting}: {file}: {why}")
