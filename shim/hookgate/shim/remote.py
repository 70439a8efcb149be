"""Events told to a gateway."""

import asyncio
import json
import logging
import re
from typing import Any
from urllib.parse import urlsplit

from hookgate.shim.decisions import Decision, Json, read_decision
from hookgate.shim.errors import EventRefused
from hookgate.shim.http import Answer, HttpError, Pool
from hookgate.shim.transport import OnUnreachable

log = logging.getLogger("hookgate.shim")

_SESSION = re.compile(r"/s/([A-Za-z0-9][A-Za-z0-9._~-]{0,127})/?\Z")

TELLS = "x-hookgate-shim"
"""A header of model calls: what a shim tells of (`session`, `turns`, `tools`), even before it first does."""

_RECEIPT = "x-hookgate-receipt"
_CONTEXT = "x-hookgate-context"


class _UnreachableError(Exception):
    """There is no answer of the gateway's; the text says why."""


class Remote:
    """A gateway at a base URL, which may end with `/s/{session}`."""

    def __init__(self, url: str, key: str | None, on_unreachable: OnUnreachable, timeout: float) -> None:
        """`timeout` is in seconds, for a whole event. Raises ValueError for an unusable URL or key."""
        if key is not None and not (key.isascii() and key.isprintable()):
            raise ValueError("a key is printable ASCII")
        self._pool = Pool(url)
        self._path = urlsplit(without_session(url)).path
        self._headers = {"content-type": "application/json", "accept": "application/json", **_signed(key)}
        self._on_unreachable, self._timeout = on_unreachable, timeout
        self._away = False

    async def fire(self, event: str, document: Json, *, deliver: bool) -> Decision:
        """What the gateway's hooks decide; without a gateway, what `on_unreachable` says.

        Raises EventRefused.
        """
        try:
            answer = await self._post(event, document, deliver=deliver)
            output = _output(answer)
        except _UnreachableError as error:
            return self._alone(event, str(error))
        self._note(None)
        return read_decision(event, output, answer.headers.get(_RECEIPT, ""))

    async def close(self) -> None:
        self._pool.close()

    async def _post(self, event: str, document: Json, *, deliver: bool) -> Answer:
        target = f"{self._path}/s/{document['session_id']}/hookgate/v1/events/{event}"
        headers = {**self._headers, _CONTEXT: "deliver"} if deliver else self._headers
        try:
            async with asyncio.timeout(self._timeout):
                answer = await self._pool.post(target, headers, json.dumps(document).encode())
        except TimeoutError:
            raise _UnreachableError(f"no answer within {self._timeout:g} s") from None
        except (HttpError, OSError, asyncio.LimitOverrunError) as error:
            raise _UnreachableError(str(error) or type(error).__name__) from None
        if 400 <= answer.status < 500:
            self._note(None)
            raise EventRefused(answer.status, _message(answer.body))
        if answer.status != 200:
            raise _UnreachableError(f"it answered {answer.status}")
        return answer

    def _alone(self, event: str, why: str) -> Decision:
        self._note(why)
        if self._on_unreachable == "allow":
            return Decision(event)
        reason = f"The gateway cannot be asked: {why}"
        if event == "AfterAgent":  # another try of the agent's would not bring the gateway back
            return read_decision(event, {"continue": False, "stopReason": reason})
        return read_decision(event, {"decision": "deny", "reason": reason})

    def _note(self, why: str | None) -> None:
        """Tell the log of an outage once, and once of its end."""
        if why is not None and not self._away:
            log.warning("the gateway cannot be asked, so hooks %s everything: %s", self._on_unreachable, why)
        elif why is None and self._away:
            log.info("the gateway can be asked again")
        self._away = why is not None


def session_of(url: str) -> str | None:
    """The session that a base URL names at its end."""
    found = _SESSION.search(url)
    return found[1] if found else None


def without_session(url: str) -> str:
    """A gateway's base URL as it is for all sessions."""
    return _SESSION.sub("", url).rstrip("/")


def _signed(key: str | None) -> dict[str, str]:
    if key is None:
        return {}
    return {"authorization": key} if key.startswith("Bearer ") else {"x-goog-api-key": key}


def _output(answer: Answer) -> Json:
    try:
        output = json.loads(answer.body)
    except (ValueError, RecursionError):
        raise _UnreachableError("its answer is no JSON") from None
    if not isinstance(output, dict):
        raise _UnreachableError("its answer is no object")
    return output


def _message(body: bytes) -> str:
    """The message in Google's shape of errors, or the text as it is."""
    try:
        error: Any = json.loads(body)
        return str(error["error"]["message"])
    except (ValueError, RecursionError, KeyError, TypeError):
        return body.decode(errors="replace")[:200]
