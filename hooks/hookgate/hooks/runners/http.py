"""HTTP hooks: send each event as a POST request to a service that the operator allows."""

from collections.abc import Iterable

from yarl import URL

from hookgate.hooks.clock import StallAwareTimeout, StallClock
from hookgate.hooks.errors import HookTimeoutError, SettingsError
from hookgate.hooks.events.base import Document
from hookgate.hooks.output import Output, read_output
from hookgate.hooks.runners.service_client import (
    ServiceClient,
    checked_url,
    expanded_header,
    parse_targets,
    read_json_object,
)
from hookgate.hooks.session import SessionContext
from hookgate.hooks.settings import Hook, HttpConfig
from hookgate.hooks.settings.configs import shown_url


def service(hook: Hook, config: HttpConfig, targets: Iterable[str]) -> tuple[str, URL]:
    """Return the path of the Unix socket, or "", and the URL. Raises SettingsError if it is not allowed."""
    allowed = parse_targets(targets)
    if config.url.startswith("unix:"):
        socket, _, path = config.url.removeprefix("unix:").partition(":")
        return socket, URL(f"http://localhost{path}")
    try:
        return "", checked_url(config.url, allowed)
    except ValueError as error:
        raise _error(hook, str(error)) from None


def header(hook: Hook, name: str, value: str) -> str:
    """Return a header's expanded value. Raises SettingsError, which omits the value, if it is invalid."""
    try:
        return expanded_header(name, value)
    except ValueError as error:
        raise _error(hook, str(error)) from None


def _error(hook: Hook, message: str) -> SettingsError:
    name = shown_url(hook.name) if hook.name == hook.target else hook.name  # a default name is the URL
    return SettingsError(f"{hook.source}: the http hook {name!r}: {message}")


class HttpRunner:
    """Runs an HTTP hook, whose service answers each event with an output or nothing. Connections are kept."""

    def __init__(self, hook: Hook, config: HttpConfig, targets: Iterable[str]) -> None:
        """Check URL and headers. Raises SettingsError, for example if no target allows the host."""
        self._hook = hook
        socket, self._url = service(hook, config, targets)
        headers = {name: header(hook, name, value) for name, value in config.headers.items()}
        self._client = ServiceClient(headers, socket)
        self._clock = StallClock()

    async def run(self, event: str, session: SessionContext, document: Document) -> Output | None:
        try:
            async with StallAwareTimeout(self._clock, self._hook.timeout):
                return _parse_response(event, await self._client.post(self._url, document.json))
        except TimeoutError:
            raise HookTimeoutError(self._hook.timeout) from None

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()


def _parse_response(event: str, body: bytes) -> Output | None:
    """Return the output in a response, or None if the body is empty. Raises HookError if it is invalid."""
    return read_output(read_json_object(body), event) if body.strip() else None
