"""`hookgate event EVENT`: an agent's command hook, with the input on stdin and the output on stdout.

Where only the shim is installed, run it as `python -m hookgate.shim.command.event`.
"""

import os
import sys

from hookgate.shim.command import gateway as gateways
from hookgate.shim.command.asking import (
    GatewayRefusal,
    GatewayUnreachable,
    from_json,
    post_event,
    post_to_gateway,
    to_json,
)

Json = dict[str, object]

EVENTS = (
    "SessionStart",
    "SessionEnd",
    "BeforeAgent",
    "AfterAgent",
    "BeforeModel",
    "AfterModel",
    "BeforeToolSelection",
    "BeforeTool",
    "AfterTool",
    "PreCompress",
    "Notification",
)

AGENTS = ("claude-code", "codex", "cursor", "copilot", "antigravity")
"""The agents whose own hooks may be this command. A test checks that the gateway knows their dialects."""

_ADVISORY = ("SessionEnd", "PreCompress", "Notification")
"""Events that cannot be denied."""

USAGE = (
    """\
usage: hookgate event EVENT [options] < input.json

Reports an agent's event to the gateway and prints the output of its hooks.
Exit codes: 0 no denial, 2 denied or stopped (the reason is on stderr), 1 error.

  --gateway URL                  the gateway (default: HOOKGATE_URL, or http://127.0.0.1:8787)
  --key-env NAME                 the variable that contains the key (default: GEMINI_API_KEY, GOOGLE_API_KEY)
  --on-unreachable allow|deny    the decision if the gateway is unreachable (default: allow)
  --timeout SECONDS              how long to wait for the gateway (default: 55)
  --from AGENT                   the command is a hook of this agent, whose input and output it has

The session is HOOKGATE_SESSION, or else the session_id of the input.
EVENT: """
    + ", ".join(EVENTS)
    + """; with --from, one of the agent's own
AGENT: """
    + ", ".join(AGENTS)
)

_FLAGS = {
    "--gateway": "",
    "--key-env": "",
    "--on-unreachable": "allow",
    "--timeout": "55",  # agents give a hook 60 s, then continue as if it had allowed
    "--from": "",
}


def run_event(words: list[str]) -> int:
    """Run `hookgate event`. Returns the exit code: 0, 2 for a denial, or 1 with an error on stderr."""
    if "-h" in words or "--help" in words:
        print(USAGE)
        return 0
    agent = _agent(words)
    try:
        name, flags = _parse_arguments(words)
        command = _AgentCommand(name, flags) if agent else _EventCommand(name, flags)
        return command.run(sys.stdin.buffer.read() if sys.stdin else b"")
    except (ValueError, OSError, GatewayRefusal, GatewayUnreachable) as error:
        print(f"hookgate event: {error}", file=sys.stderr)
        return 2 if agent else 1  # after 1, most agents continue, although nothing was judged
    except KeyboardInterrupt:
        return 130


def _agent(words: list[str]) -> bool:
    """Return whether the command is a hook of an agent."""
    return any(word == "--from" or word.startswith("--from=") for word in words)


def _parse_arguments(words: list[str]) -> tuple[str, dict[str, str]]:
    """Return the event's name and the value of every flag. Raises ValueError."""
    flags, names = dict(_FLAGS), []
    rest = iter(words)
    for word in rest:
        flag, has_value, value = word.partition("=")
        if flag in flags:
            argument = value if has_value else next(rest, None)
            if argument is None:
                raise ValueError(f"{flag} needs a value; see `hookgate event --help`")
            flags[flag] = argument
        elif word.startswith("-"):
            raise ValueError(f"unknown option {word}; see `hookgate event --help`")
        else:
            names.append(word)
    if len(names) != 1:
        raise ValueError("name one event, such as BeforeTool; see `hookgate event --help`")
    return names[0], flags


class _Command:
    """One run of `hookgate event`: the gateway, the key, and what happens if there is no verdict."""

    def __init__(self, flags: dict[str, str]) -> None:
        """Read the flags. Raises ValueError for an invalid one."""
        if flags["--on-unreachable"] not in ("allow", "deny"):
            raise ValueError(f"--on-unreachable {flags['--on-unreachable']}: must be allow or deny")
        self._denies = flags["--on-unreachable"] == "deny"
        self._seconds = _seconds(flags["--timeout"])
        gateway, session = gateways.find_gateway(flags["--gateway"]), os.environ.get(gateways.SESSION)
        self._gateway = gateway.session(session) if session else gateway
        self._headers = gateways.key_headers(flags["--key-env"])


class _EventCommand(_Command):
    """Reports an event of the contract."""

    def __init__(self, name: str, flags: dict[str, str]) -> None:
        """Read the flags. Raises ValueError for an unknown event or an invalid flag."""
        super().__init__(flags)
        if name not in EVENTS:
            raise ValueError(f"unknown event {name!r}; known events are: {', '.join(EVENTS)}")
        self._event = name

    def run(self, data: bytes) -> int:
        """Post the event, print the output, and return the exit code.

        Raises ValueError if the input is invalid, and GatewayRefusal.
        """
        document = _parse_object(data)
        if _is_reported_by_run(self._event, document):
            return self._print_output({}, None)
        if not ("hook_event_name" in document and "cwd" in document):
            data = to_json(_with_cwd({"hook_event_name": self._event, **document}))
        try:
            response = post_event(self._gateway, self._event, data, self._headers, self._seconds)
        except (GatewayUnreachable, GatewayRefusal) as error:
            if self._denies and self._event not in _ADVISORY:
                return self._print_output(_denial(self._event, _not_judged(error)), None)
            if isinstance(error, GatewayRefusal):
                raise
            print(f"hookgate event: {error}; the event is allowed without being judged", file=sys.stderr)
            response = b"{}"
        return self._print_output(_parse_object(response), response)

    def _print_output(self, output: Json, raw: bytes | None) -> int:
        """Print the output and return the exit code. `raw` is the output as the gateway sent it, or None."""
        sys.stdout.buffer.write((raw or to_json(output)) + b"\n")
        sys.stdout.flush()
        stops = output.get("continue") is False
        if not stops and output.get("decision") not in ("deny", "block"):
            return 0
        reason = output.get("stopReason") if stops else output.get("reason")
        print(reason or f"Denied by one of the gateway's {self._event} hooks.", file=sys.stderr)
        return 2


class _AgentCommand(_Command):
    """Reports an event of an agent, whose hook the command is, and prints the agent's answer.

    The gateway reads the input and writes the answer. The exit code is 0 whatever was decided, because the
    answer says it: some agents do not read it after another code.
    """

    def __init__(self, name: str, flags: dict[str, str]) -> None:
        """Read the flags. Raises ValueError for an unknown agent or an invalid flag."""
        super().__init__(flags)
        if flags["--from"] not in AGENTS:
            raise ValueError(f"--from {flags['--from']}: must be one of {', '.join(AGENTS)}")
        if not (name.isascii() and name.isalpha()):
            raise ValueError(f"{name!r} is not the name of an event")
        self._agent, self._event = flags["--from"], name

    def run(self, data: bytes) -> int:
        """Post the event, print the answer, and return the exit code. Raises GatewayRefusal."""
        if _is_reported_by_run(self._event, _object_or_empty(data)):
            return self._print(b"{}")
        path = f"/hookgate/v1/agents/{self._agent}?event={self._event}"
        headers = {**self._headers, "user-agent": self._agent}
        try:
            response = post_to_gateway(self._gateway, path, data, headers, self._seconds)
        except GatewayRefusal as error:  # what was sent, or the key, may be the agent's: it must not matter
            return self._print(self._answer(data, error, denies=True))
        except GatewayUnreachable as error:
            return self._print(self._answer(data, error, denies=self._denies))
        if not_applied := response.headers.get("x-hookgate-not-applied"):
            print(f"hookgate event: {self._agent} cannot apply {not_applied}", file=sys.stderr)
        return self._print(response.body)

    def _answer(self, data: bytes, error: Exception, *, denies: bool) -> bytes:
        """Return the answer for an event that was not judged. Raises the error if the event is unknown."""
        from hookgate.hooks.agents import AGENT_DIALECTS  # noqa: PLC0415  # slow to import, and rarely needed

        dialect, document = AGENT_DIALECTS[self._agent], _object_or_empty(data)
        if self._event not in dialect.rows:
            raise error
        denial = dialect.denial(self._event, document, _not_judged(error)) if denies else None
        if denial is not None:
            return to_json(denial)
        print(f"hookgate event: {error}; the event is allowed without being judged", file=sys.stderr)
        return to_json(dialect.answer(self._event, document, {}).document)

    def _print(self, answer: bytes) -> int:
        sys.stdout.buffer.write(answer + b"\n")
        sys.stdout.flush()
        return 0


def _is_reported_by_run(event: str, document: Json) -> bool:
    """Return whether `hookgate run` reports this event itself: the start and the end of its session."""
    session = os.environ.get(gateways.SESSION)
    if not session or os.environ.get(gateways.LAUNCHED) != session:
        return False
    if event == "SessionStart":
        return document.get("source") == "startup"
    return event == "SessionEnd" and document.get("reason") != "clear"


def _denial(event: str, reason: str) -> Json:
    # Denying a final answer makes the agent retry, and the next answer could not be judged either.
    if event == "AfterAgent":
        return {"continue": False, "stopReason": reason}
    return {"decision": "deny", "reason": reason}


def _not_judged(error: Exception) -> str:
    return f"The event was not judged: {error}"


def _object_or_empty(data: bytes) -> Json:
    """Return the object in a JSON document, or an empty one: the gateway says what is wrong with another."""
    try:
        return _parse_object(data)
    except ValueError:
        return {}


def _with_cwd(document: Json) -> Json:
    return document if "cwd" in document else {"cwd": os.getcwd(), **document}


def _parse_object(data: bytes) -> Json:
    """Return the object in a JSON document. Raises ValueError."""
    try:
        value = from_json(data)
    except ValueError as error:
        raise ValueError(f"the input is not JSON: {error}; give the event's input on stdin") from None
    if not isinstance(value, dict):
        raise ValueError("the input is not a JSON object; give the event's input on stdin")
    return value


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86400:
        raise ValueError(f"--timeout {text}: must be a number of seconds, at most 86400")
    return seconds


if __name__ == "__main__":
    sys.exit(run_event(sys.argv[1:]))
