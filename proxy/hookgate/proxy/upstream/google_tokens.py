"""Access tokens of Google Cloud, which google-auth fetches for a service account or default credentials.

google-auth blocks, so each token is fetched in a thread of its own.
"""

import asyncio
import json
import logging
import re
import threading
from collections import Counter
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any

import google.auth
import requests
from google.auth import exceptions
from google.auth.credentials import with_scopes_if_required
from google.auth.transport.requests import Request
from google.oauth2 import service_account

from hookgate.proxy.config import UpstreamSettings
from hookgate.proxy.errors import NO_TOKEN, ApiError, describe_os_error

log = logging.getLogger("hookgate.credentials")

_SCOPES = ["https://www.googleapis.com/auth/cloud-platform"]
_AHEAD_SECONDS = 225.0
"""How long before its expiry a token is refreshed. Metadata servers return the same token until then."""
_MARGIN_SECONDS = 10.0
"""A token that expires sooner is not sent: a request takes a while to arrive."""
_RETRY_SECONDS, _MAX_RETRY_SECONDS = 1.0, 60.0


class GoogleToken:
    """The access token of one credential: at most one refresh runs at a time."""

    def __init__(self, name: str, service_account_file: Path | None, upstream: UpstreamSettings) -> None:
        """Read a service account's key; without a file, use the default credentials, which are found later.

        Raises ValueError, without a secret, if the file is not a service account's key.
        """
        self.name = name
        self.results: Counter[str] = Counter()
        """The number of refreshes since the start by result: refreshed or failed."""
        self._source: Any = _service_account(service_account_file) if service_account_file else None
        self._upstream = upstream
        self._token, self._expires = "", 0.0
        self._ended = asyncio.Event()  # set at the end of the current or next refresh, and then replaced
        self._wanted = asyncio.Event()  # set by calls that need a token at once

    async def get(self) -> str:
        """Return a token that is valid. Raises ApiError (503) if there is none in time.

        Waits for at most `upstream.connect_timeout`.
        """
        if not self._is_valid():
            self._wanted.set()
            with suppress(TimeoutError):
                async with asyncio.timeout(self._upstream.connect_timeout):
                    await self._ended.wait()
            if not self._is_valid():
                raise ApiError(
                    503,
                    f"The gateway's credential {self.name} has no access token: Google's token service has "
                    "not answered, or refused. Try again later, or ask the operator of this gateway.",
                    NO_TOKEN,
                )
        return self._token

    @asynccontextmanager
    async def kept_fresh(self) -> AsyncIterator[None]:
        """Refresh the token ahead of its expiry while the block runs."""
        task = asyncio.create_task(self._refresh_regularly())
        try:
            yield
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    def _is_valid(self) -> bool:
        return _now() + _MARGIN_SECONDS < self._expires

    async def _refresh_regularly(self) -> None:
        failures = 0
        while True:
            failures = 0 if await self._refresh() else failures + 1
            self._ended.set()
            self._ended = asyncio.Event()
            self._wanted.clear()  # by calls that this refresh was for
            left = self._expires - _now()
            pause = (
                min(2.0**failures, _MAX_RETRY_SECONDS) if failures else max(left - _AHEAD_SECONDS, left / 2)
            )
            await asyncio.sleep(_RETRY_SECONDS)  # however many calls need a token, and however short it lives
            with suppress(TimeoutError):
                async with asyncio.timeout(pause - _RETRY_SECONDS):
                    await self._wanted.wait()

    async def _refresh(self) -> bool:
        """Fetch a token. If that fails, keep the previous one, which may be valid for some time."""
        try:
            token, expires = await _in_thread(self._fetch)
        except Exception as error:  # whatever happens in the library, the next attempt may succeed
            self.results["failed"] += 1
            kept = "; the previous one is used until it expires" if self._is_valid() else ""
            log.error("credential %s: no access token: %s%s", self.name, _described(error), kept)
            return False
        self.results["refreshed"] += 1
        self._token, self._expires = token, expires
        return True

    def _fetch(self) -> tuple[str, float]:
        """Return a new token and when it expires, in seconds since 1970. Runs in a thread."""
        with requests.Session() as session:
            session.trust_env = False
            if self._upstream.proxy:  # metadata servers, on plain HTTP, are reached directly
                session.proxies = {"https": self._upstream.proxy}
            if self._upstream.ca_bundle:
                session.verify = str(self._upstream.ca_bundle)
            request: Any = partial(Request(session), timeout=self._upstream.connect_timeout)
            if self._source is None:
                # With scopes, the library would ask another service for the project, which may be blocked.
                found, _ = google.auth.default(request=request)
                self._source = with_scopes_if_required(found, _SCOPES)  # type: ignore[no-untyped-call]  # has no annotations
            self._source.refresh(request)
        token, expiry = self._source.token, self._source.expiry
        if not isinstance(token, str) or not re.fullmatch(r"[!-~]{8,8192}", token) or expiry is None:
            raise ValueError("not a token")
        return token, expiry.replace(tzinfo=UTC).timestamp()


def _now() -> float:
    return datetime.now(UTC).timestamp()  # the clock of `expiry`, even after the machine has slept


def _service_account(file: Path) -> Any:
    """Return the credentials in a file. Raises ValueError, without a secret."""
    try:
        info = json.loads(file.read_bytes())
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {describe_os_error(error)}; check the path") from None
    except (ValueError, RecursionError):
        raise ValueError(f"{file}: is not JSON; download the service account's key again") from None
    kind = info.get("type") if isinstance(info, dict) else None
    if kind in ("external_account", "authorized_user", "impersonated_service_account"):
        raise ValueError(
            f"{file}: is of the type {kind}, not service_account; name it in the variable "
            "GOOGLE_APPLICATION_CREDENTIALS, and set default to true instead"
        )
    if kind != "service_account":
        raise ValueError(f"{file}: is not the key of a service account; name its JSON file")
    try:
        read: Any = service_account.Credentials.from_service_account_info  # it has no annotations
        return read(info, scopes=_SCOPES)
    except (exceptions.GoogleAuthError, ValueError, TypeError, AttributeError, KeyError):
        raise ValueError(
            f"{file}: is incomplete, or its private key cannot be read; download the key again"
        ) from None


def _described(error: Exception) -> str:
    """Describe a failure without the library's message, which may quote what was sent."""
    if isinstance(error, exceptions.DefaultCredentialsError):
        return "no default credentials were found; set GOOGLE_APPLICATION_CREDENTIALS, or check the file"
    if isinstance(error, exceptions.TransportError | requests.RequestException | OSError):
        return "the token service cannot be reached"
    answer = error.args[1] if len(error.args) > 1 else None
    code = answer.get("error") if isinstance(answer, dict) else None
    if isinstance(code, str) and re.fullmatch(r"[a-z_]{1,40}", code):
        return f"the token service refused: {code}"
    return f"the token service's answer cannot be used ({type(error).__name__})"


async def _in_thread(work: Callable[[], Any]) -> Any:
    """Return the result of blocking work, from a daemon thread: one that hangs must not delay a stop."""
    loop = asyncio.get_running_loop()
    future: asyncio.Future[Any] = loop.create_future()

    def resolve(result: Any, error: Exception | None) -> None:
        if future.done():  # cancelled
            return
        if error is not None:
            future.set_exception(error)
        else:
            future.set_result(result)

    def run() -> None:
        result, failure = None, None
        try:
            result = work()
        except Exception as error:  # passed to the caller
            failure = error
        with suppress(RuntimeError):  # the loop may have been closed
            loop.call_soon_threadsafe(resolve, result, failure)

    threading.Thread(target=run, name="hookgate-token", daemon=True).start()
    return await future
