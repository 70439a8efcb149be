"""`hookgate run -- COMMAND…`: any agent, in a session of its own at the gateway."""

import argparse
import json
import os
import secrets
import shutil
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from hookgate.shim.command import gateway as gateways
from hookgate.shim.command.asking import Refused, Unreachable, ask
from hookgate.shim.command.gateway import Gateway
from hookgate.shim.command.supervising import supervised

_PATIENCE = {"SessionStart": 55.0, "SessionEnd": 5.0}
"""Seconds; at its end nobody waits for a session's hooks any more."""

_BASE_URLS = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT")
"""By its login Gemini CLI reads one of them, as the JS SDK does; the Python SDK always reads the first."""

_NO_REASON = "a SessionStart hook of the gateway refuses the session"
_HEADERS = "GEMINI_CLI_CUSTOM_HEADERS"
_SESSION_HEADER = "X-Hookgate-Session"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def run(arguments: argparse.Namespace) -> int:
    """Run the command to its end and give its exit code; 2 when the gateway's hooks refuse the session.

    Raises ValueError for what is wrong with the flags, OSError when the gateway does not take part.
    """
    name = arguments.session or f"run-{secrets.token_hex(8)}"
    session = _Session(gateways.named(arguments.gateway), name)
    program, *_ = command = arguments.command
    if (code := _unusable(program)) != 0:
        return code
    if (refusal := session.begin()) is not None:
        print(f"hookgate run: {refusal}", file=sys.stderr)
        return 2
    try:
        return supervised(command, environment(os.environ, session.gateway, name))
    finally:
        session.end()


def environment(given: Mapping[str, str], gateway: Gateway, session: str) -> dict[str, str]:
    """The variables that point an agent, whichever client it uses, at its session."""
    base = gateway.session(session).url
    changed = {**given, **dict.fromkeys(_BASE_URLS, base)}
    # For one that is told another base URL after all, such as the gateway's without the session.
    changed[_HEADERS] = ", ".join(filter(None, (given.get(_HEADERS), f"{_SESSION_HEADER}: {session}")))
    changed |= {gateways.URL: gateway.url, gateways.SESSION: session, gateways.LAUNCHED: session}
    proxied = any(given.get(name) or given.get(name.upper()) for name in _PROXIES)
    if proxied and gateway.host in ("127.0.0.1", "localhost", "::1"):
        for name in ("NO_PROXY", "no_proxy"):  # a proxy would look for the gateway on its own machine
            changed[name] = ",".join(filter(None, (given.get(name), gateway.host)))
    return changed


class _Session:
    """The session's beginning and end, told to the gateway."""

    def __init__(self, gateway: Gateway, name: str) -> None:
        self.gateway, self._name = gateway, name
        self._at, self._key = gateway.session(name), gateways.key_headers(None)

    def begin(self) -> str | None:
        """Why the session must not begin, or None. Raises OSError when the gateway cannot say."""
        try:
            # The agent knows nothing of this event, so the gateway itself hands on the context.
            output = self._tell("SessionStart", {"source": "startup"}, {"x-hookgate-context": "deliver"})
        except (Unreachable, Refused) as error:
            raise OSError(f"run: {error}; start it with `hookgate serve` or name another") from None
        if output.get("systemMessage"):
            print(f"hookgate run: {output['systemMessage']}", file=sys.stderr)
        if output.get("continue") is False:
            return str(output.get("stopReason") or _NO_REASON)
        if output.get("decision") in ("deny", "block"):
            return str(output.get("reason") or _NO_REASON)
        return None

    def end(self) -> None:
        """Tell of the end, for what it is worth: nothing can be changed any more."""
        try:
            self._tell("SessionEnd", {"reason": "exit"}, {})
        except (Unreachable, Refused) as error:
            print(f"hookgate run: the session's end was not told: {error}", file=sys.stderr)

    def _tell(self, event: str, fields: dict[str, str], headers: dict[str, str]) -> dict[str, Any]:
        document = {
            "session_id": self._name,
            "transcript_path": "",
            "cwd": os.getcwd(),
            "hook_event_name": event,
            "timestamp": datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z"),
            **fields,
        }
        answer = ask(
            self._at, event, json.dumps(document).encode(), {**self._key, **headers}, _PATIENCE[event]
        )
        try:
            output = json.loads(answer)
        except ValueError:
            output = None
        if not isinstance(output, dict):
            raise Refused(f"the gateway {self.gateway.url} answered no JSON object")
        return output


def _unusable(program: str) -> int:
    """0, or the shell's exit code for a program that cannot be started, which is told."""
    if shutil.which(program):
        return 0
    there = os.path.exists(program)
    why = "cannot be executed; check its permissions" if there else "was not found; check name and PATH"
    print(f"hookgate run: {program}: {why}", file=sys.stderr)
    return 126 if there else 127
