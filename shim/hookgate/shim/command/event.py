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
    post_to_gateway,
    to_json,
)
from hookgate.shim.command.naming import EVENTS as CLAUDE_CODE_EVENTS
from hookgate.shim.command.naming import Json, input_of, output_for

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

_ADVISORY = ("SessionEnd", "PreCompress", "Notification")
"""Events that cannot be denied."""

USAGE = """\
usage: hookgate event EVENT [options] < input.json

Reports an agent's event to the gateway and prints the output of its hooks.
Exit codes: 0 no denial, 2 denied or stopped (the reason is on stderr), 1 error.

  --gateway URL                  the gateway (default: HOOKGATE_URL, or http://127.0.0.1:8787)
  --key-env NAME                 the variable that contains the key (default: GEMINI_API_KEY, GOOGLE_API_KEY)
  --on-unreachable allow|deny    the decision if the gateway is unreachable (default: allow)
  --timeout SECONDS              how long to wait for the gateway (default: 55)
  --from claude-code             read Claude Code's input format and write its output format

The session is HOOKGATE_SESSION, or else the session_id of the input.
EVENT: """ + ", ".join(EVENTS)

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
    try:
        return _EventCommand(*_parse_arguments(words)).run(sys.stdin.buffer.read() if sys.stdin else b"")
    except (ValueError, OSError, GatewayRefusal) as error:
        print(f"hookgate event: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        return 130


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


class _EventCommand:
    """One run of `hookgate event`."""

    def __init__(self, name: str, flags: dict[str, str]) -> None:
        """Read the flags. Raises ValueError for an unknown event or an invalid flag."""
        if flags["--from"] not in ("", "claude-code"):
            raise ValueError(f"--from {flags['--from']}: must be claude-code")
        if flags["--on-unreachable"] not in ("allow", "deny"):
            raise ValueError(f"--on-unreachable {flags['--on-unreachable']}: must be allow or deny")
        self._from_claude_code = bool(flags["--from"])
        self._name = name
        self._event = CLAUDE_CODE_EVENTS.get(name, name) if self._from_claude_code else name
        if self._event not in EVENTS:
            known = (*CLAUDE_CODE_EVENTS, *EVENTS) if self._from_claude_code else EVENTS
            raise ValueError(f"unknown event {name!r}; known events are: {', '.join(known)}")
        self._denies = flags["--on-unreachable"] == "deny" and self._event not in _ADVISORY
        self._seconds = _seconds(flags["--timeout"])
        gateway, session = gateways.find_gateway(flags["--gateway"]), os.environ.get(gateways.SESSION)
        self._gateway = gateway.session(session) if session else gateway
        self._headers = gateways.key_headers(flags["--key-env"])

    def run(self, data: bytes) -> int:
        """Post the event, print the output, and return the exit code.

        Raises ValueError if the input is invalid, and GatewayRefusal.
        """
        document = _parse_object(data)
        if self._is_reported_by_run(document):
            return self._print_output(document, {}, None)
        body = self._body(document, data)
        try:
            response = post_to_gateway(self._gateway, self._event, body, self._headers, self._seconds)
        except (GatewayUnreachable, GatewayRefusal) as error:
            if self._denies:
                return self._print_output(document, self._denial(f"The event was not judged: {error}"), None)
            if isinstance(error, GatewayRefusal):
                raise
            print(f"hookgate event: {error}; the event is allowed without being judged", file=sys.stderr)
            response = b"{}"
        return self._print_output(document, _parse_object(response), response)

    def _is_reported_by_run(self, document: Json) -> bool:
        """Return whether `hookgate run` reports this event itself: the start and the end of its session."""
        session = os.environ.get(gateways.SESSION)
        if not session or os.environ.get(gateways.LAUNCHED) != session:
            return False
        if self._event == "SessionStart":
            return document.get("source") == "startup"
        return self._event == "SessionEnd" and document.get("reason") != "clear"

    def _body(self, document: Json, data: bytes) -> bytes:
        """Return the input unchanged, unless it must be translated or completed."""
        if self._from_claude_code:
            return to_json(_with_cwd(input_of(self._event, document)))
        if "hook_event_name" in document and "cwd" in document:
            return data
        return to_json(_with_cwd({"hook_event_name": self._event, **document}))

    def _claude_code_name(self) -> str:
        if self._name in CLAUDE_CODE_EVENTS:
            return self._name
        own = (name for name, contract_name in CLAUDE_CODE_EVENTS.items() if contract_name == self._event)
        return next(own, self._event)

    def _denial(self, reason: str) -> Json:
        # Denying a final answer makes the agent retry, and the next answer could not be judged either.
        if self._event == "AfterAgent":
            return {"continue": False, "stopReason": reason}
        return {"decision": "deny", "reason": reason}

    def _print_output(self, document: Json, output: Json, raw: bytes | None) -> int:
        """Print the output and return the exit code. `raw` is the output as the gateway sent it, or None."""
        stops = output.get("continue") is False
        denies = stops or output.get("decision") in ("deny", "block")
        reason = output.get("stopReason") if stops else output.get("reason")
        if self._from_claude_code:
            raw = to_json(output_for(self._claude_code_name(), document, output))
        sys.stdout.buffer.write((raw or to_json(output)) + b"\n")
        sys.stdout.flush()
        # Claude Code stops, or hides a result, only if the JSON says so. It reads JSON if the exit code is 0.
        if not denies or (self._from_claude_code and (stops or self._claude_code_name() == "PostToolUse")):
            return 0
        print(reason or f"Denied by one of the gateway's {self._event} hooks.", file=sys.stderr)
        return 2


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
