"""`hookgate run -- COMMAND...`: runs any agent in its own session at the gateway."""

import argparse
import json
import os
import secrets
import shutil
import signal
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from hookgate.shim.command import gateway as gateways
from hookgate.shim.command.asking import GatewayRefusal, GatewayUnreachable, post_event
from hookgate.shim.command.gateway import GatewayAddress

_FORWARDED = {
    signal.SIGINT,
    signal.SIGTERM,
    signal.SIGHUP,
    signal.SIGQUIT,
    signal.SIGUSR1,
    signal.SIGUSR2,
    signal.SIGWINCH,
    signal.SIGTSTP,
    signal.SIGCONT,
}

_WATCHED = {*_FORWARDED, signal.SIGCHLD}

_FROM_KERNEL = 0x80
"""SI_KERNEL: the sender is a terminal, which signals the whole process group."""


def supervised(command: Sequence[str], environment: Mapping[str, str]) -> int:
    """Run a program until it ends and return its exit code, in the convention of shells.

    Signals are forwarded to the program. They stay blocked afterwards, so that a signal which ends the
    program does not also interrupt the work after it. Raises OSError if the program cannot be started.
    """
    blocked = signal.pthread_sigmask(signal.SIG_BLOCK, _WATCHED)
    pid = os.posix_spawnp(
        command[0],
        list(command),
        environment,
        setsigmask=blocked,
        setsigdef=(signal.SIGPIPE, signal.SIGXFSZ),  # Python ignores them
    )
    while (code := _handle_signal(pid)) is None:
        pass
    return code


def _handle_signal(pid: int) -> int | None:
    """Wait for one signal and handle it. Returns the exit code if the program has ended, or else None."""
    received = signal.sigwaitinfo(_WATCHED)
    if received.si_signo != signal.SIGCHLD:
        if received.si_code != _FROM_KERNEL:
            os.kill(pid, received.si_signo)
        return None
    ended, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED)
    if not ended:
        return None
    if os.WIFSTOPPED(status):
        # A shell considers a job stopped only if this process is stopped too. Its `fg` continues both.
        os.kill(os.getpid(), signal.SIGSTOP)
        return None
    code = os.waitstatus_to_exitcode(status)
    return code if code >= 0 else 128 - code


_TIMEOUTS = {"SessionStart": 55.0, "SessionEnd": 5.0}
"""Timeouts in seconds, by event; short at the end of a session, when its hooks cannot change anything."""

_BASE_URLS = ("GOOGLE_GEMINI_BASE_URL", "GOOGLE_VERTEX_BASE_URL", "CODE_ASSIST_ENDPOINT")
"""Gemini CLI and the JS SDK read one of these, depending on the login; the Python SDK reads the first."""

_NO_REASON = "one of the gateway's SessionStart hooks denied the session"
_HEADERS = "GEMINI_CLI_CUSTOM_HEADERS"
_SESSION_HEADER = "X-Hookgate-Session"
_PROXIES = ("http_proxy", "https_proxy", "all_proxy")


def run_agent(args: argparse.Namespace) -> int:
    """Run the command until it ends and return its exit code, or 2 if the gateway's hooks deny the session.

    Raises ValueError for invalid flags, and OSError if the gateway is unreachable or rejects the event.
    """
    name = args.session or f"run-{secrets.token_hex(8)}"
    session = _Session(gateways.find_gateway(args.gateway), name)
    program, *_ = command = args.command
    if (code := _check_program(program)) != 0:
        return code
    if (refusal := session.begin()) is not None:
        print(f"hookgate run: {refusal}", file=sys.stderr)
        return 2
    try:
        return supervised(command, agent_environment(os.environ, session.gateway, name))
    finally:
        session.end()


def agent_environment(
    environment: Mapping[str, str], gateway: GatewayAddress, session: str
) -> dict[str, str]:
    """Return the environment that directs an agent, whichever client it uses, to its session."""
    base = gateway.session(session).url
    changed = {**environment, **dict.fromkeys(_BASE_URLS, base)}
    # For an agent whose own configuration sets a base URL, such as the gateway's without the session.
    changed[_HEADERS] = ", ".join(filter(None, (environment.get(_HEADERS), f"{_SESSION_HEADER}: {session}")))
    changed |= {gateways.URL: gateway.url, gateways.SESSION: session, gateways.LAUNCHED: session}
    proxied = any(environment.get(name) or environment.get(name.upper()) for name in _PROXIES)
    if proxied and gateway.host in ("127.0.0.1", "localhost", "::1"):
        for name in ("NO_PROXY", "no_proxy"):  # a proxy cannot reach this machine's loopback address
            changed[name] = ",".join(filter(None, (environment.get(name), gateway.host)))
    return changed


class _Session:
    """Reports the start and end of the session to the gateway."""

    def __init__(self, gateway: GatewayAddress, name: str) -> None:
        self.gateway, self._name = gateway, name
        self._session_address, self._key = gateway.session(name), gateways.key_headers(None)

    def begin(self) -> str | None:
        """Fire SessionStart. Returns the reason if hooks deny the session, or else None.

        Raises OSError if the gateway is unreachable or rejects the event.
        """
        try:
            # The agent does not see this event, so the gateway passes the hooks' context to the model.
            output = self._fire("SessionStart", {"source": "startup"}, {"x-hookgate-context": "deliver"})
        except (GatewayUnreachable, GatewayRefusal) as error:
            raise OSError(f"run: {error}; start it with `hookgate serve`, or set --gateway") from None
        if output.get("systemMessage"):
            print(f"hookgate run: {output['systemMessage']}", file=sys.stderr)
        if output.get("continue") is False:
            return str(output.get("stopReason") or _NO_REASON)
        if output.get("decision") in ("deny", "block"):
            return str(output.get("reason") or _NO_REASON)
        return None

    def end(self) -> None:
        """Fire SessionEnd. A failure is only printed, as the program has already ended."""
        try:
            self._fire("SessionEnd", {"reason": "exit"}, {})
        except (GatewayUnreachable, GatewayRefusal) as error:
            print(f"hookgate run: could not report the end of the session: {error}", file=sys.stderr)

    def _fire(self, event: str, fields: dict[str, str], headers: dict[str, str]) -> dict[str, Any]:
        document = {**gateways.event_input(event, self._name, os.getcwd()), **fields}
        answer = post_event(
            self._session_address,
            event,
            json.dumps(document).encode(),
            {**self._key, **headers},
            _TIMEOUTS[event],
        )
        try:
            output = json.loads(answer)
        except ValueError:
            output = None
        if not isinstance(output, dict):
            raise GatewayRefusal(f"the answer of the gateway {self.gateway.url} is not a JSON object")
        return output


def _check_program(program: str) -> int:
    """Print an error and return the shell's exit code if a program cannot be started; or else return 0."""
    if shutil.which(program):
        return 0
    exists = os.path.exists(program)
    problem = "cannot be executed; check its permissions" if exists else "not found; check its name and PATH"
    print(f"hookgate run: {program}: {problem}", file=sys.stderr)
    return 126 if exists else 127
