"""The receivers of messages: their URLs and secrets, and one attempt to deliver a notice."""

import asyncio
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path

from pydantic import SecretStr
from yarl import URL

from hookgate.hooks.runners.service_client import is_local
from hookgate.proxy.alerts.formats import Notice, json_request, pagerduty_body, slack_body, teams_body
from hookgate.proxy.config import AlertReceiver, AlertSettings, ConfigError
from hookgate.proxy.config.values import read_secret, webhook_url
from hookgate.proxy.posting import PostClient
from hookgate.proxy.webhooks import signing_key

PAGERDUTY = "https://events.pagerduty.com/v2/enqueue"

SEND_SECONDS = 10.0
"""How long one attempt may take."""

_ROUTING_KEY = r"[0-9A-Za-z]{16,64}"
_TRY_AGAIN = frozenset({408, 409, 425, 429})


@dataclass(frozen=True, slots=True)
class SendResult:
    """The result of an attempt. `error` is empty after a success; after a `final` one, no other is made."""

    error: str = ""
    final: bool = False


class Receiver:
    """A receiver. Nothing of its answers is used but the status."""

    def __init__(self, name: str, kind: str, url: str, secret: str) -> None:
        """`secret` signs JSON, or is the key for PagerDuty. Raises ValueError for an invalid one."""
        self.name, self.kind = name, kind
        self._url, self._secret = URL(url), secret
        self._key = signing_key(secret) if kind == "json" else b""
        if kind == "pagerduty" and not re.fullmatch(_ROUTING_KEY, secret):
            raise ValueError("must be an integration key of PagerDuty: 32 letters and digits")
        self._client = PostClient(SEND_SECONDS)

    @property
    def origin(self) -> URL:
        """The scheme, host and port of its URL, which are no secret."""
        return self._url.origin()

    async def send(self, notice: Notice, id_: str) -> SendResult:
        """Send a notice, and return whether it was accepted. Errors quote nothing of the answer."""
        body, headers = self._request(notice, id_)
        try:
            answer = await self._client.post(self._url, body, {"Content-Type": "application/json", **headers})
        except TimeoutError:
            return SendResult(f"has not answered within {SEND_SECONDS:g} seconds")
        except OSError as error:
            return SendResult(str(error))
        if 200 <= answer.status < 300:
            return SendResult()
        return SendResult(f"answered with the status {answer.status}", _is_final(answer.status))

    async def close(self) -> None:
        """Close the connections."""
        await self._client.close()

    def _request(self, notice: Notice, id_: str) -> tuple[bytes, dict[str, str]]:
        match self.kind:
            case "slack":
                return slack_body(notice), {}
            case "teams":
                return teams_body(notice), {}
            case "pagerduty":
                return pagerduty_body(notice, self._secret), {}
            case _:
                return json_request(notice, id_, int(time.time()), self._key)


def _is_final(status: int) -> bool:
    """Return whether the same request would be refused again: redirects, too, because none is followed."""
    return 300 <= status < 500 and status not in _TRY_AGAIN


def read_receivers(settings: AlertSettings) -> dict[str, Receiver]:
    """Return the receivers by name. Raises ConfigError with each problem of a URL or a secret."""
    receivers: dict[str, Receiver] = {}
    problems: list[str] = []
    for number, each in enumerate(settings.receivers):
        place = f"alerts.receivers[{number}]"
        url = _read(each.url, each.url_file, webhook_url, f"{place}.url_file", problems)
        secret = _read(each.secret, each.secret_file, str, f"{place}.secret_file", problems)
        if url is None or secret is None:
            continue
        try:
            _check_scheme(each, url or PAGERDUTY)
            receivers[each.name] = Receiver(each.name, each.type, url or PAGERDUTY, secret)
        except ValueError as error:
            problems.append(f"{place}: {error}")
    if problems:
        raise ConfigError(problems)
    return receivers


def _read(
    value: SecretStr | None, file: Path | None, check: Callable[[str], str], place: str, problems: list[str]
) -> str | None:
    """Return a secret of the settings or of a file. Of a file that cannot be read, note that; return None."""
    if file is None:
        return value.get_secret_value() if value else ""
    try:
        return read_secret(file, check)
    except ValueError as error:
        problems.append(f"{place}: {error}")
        return None


def _check_scheme(receiver: AlertReceiver, url: str) -> None:
    """Raise ValueError for a URL that is a secret, and would be sent without TLS to another machine."""
    if receiver.type != "json" and URL(url).scheme != "https" and not is_local(URL(url)):
        raise ValueError(
            f"url: must be an https:// URL, because a message to {receiver.type} contains a secret"
        )


async def close_receivers(receivers: Iterable[Receiver]) -> None:
    """Close the connections of receivers."""
    await asyncio.gather(*(each.close() for each in receivers))
