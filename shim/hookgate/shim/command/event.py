"""`hookgate event EVENT`: an agent's command hook. The input on stdin, the gateway's verdict on stdout.

Also `python -m hookgate.shim.command.event`, for who has the shim without the gateway.
"""

import os
import sys

from hookgate.shim.command import gateway as gateways
from hookgate.shim.command.asking import Refused, Unreachable, ask
from hookgate.shim.command.naming import EVENTS as CLAUDES
from hookgate.shim.command.naming import Json, input_of, output_for
from hookgate.shim.command.quickjson import dumps, loads

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
"""What nobody can deny."""

USAGE = """\
usage: hookgate event EVENT [options] < input.json

Tells the gateway of an agent's event and prints what its hooks say.
Exit codes: 0 as printed, 2 denied (the reason is on stderr), 1 anything else.

  --gateway URL                  the gateway (HOOKGATE_URL, http://127.0.0.1:8787)
  --key-env NAME                 the variable that holds the key (GEMINI_API_KEY, GOOGLE_API_KEY)
  --on-unreachable allow|deny    what goes without a verdict (allow)
  --timeout SECONDS              how long to wait for one (55)
  --from claude-code             the input is Claude Code's, and so shall the output be

HOOKGATE_SESSION names the session; otherwise the input's session_id does.
EVENT: """ + ", ".join(EVENTS)

_FLAGS = {
    "--gateway": "",
    "--key-env": "",
    "--on-unreachable": "allow",
    "--timeout": "55",  # agents give a hook 60 s, and then go on as if it had allowed
    "--from": "",
}


def main(words: list[str]) -> int:
    """Tell of one event; 0, 2 for a denial, or 1 with a line on stderr that says what is wrong."""
    if "-h" in words or "--help" in words:
        print(USAGE)
        return 0
    try:
        return _Told(*_parsed(words)).answer(sys.stdin.buffer.read() if sys.stdin else b"")
    except (ValueError, OSError, Refused) as error:
        return _complain(error)
    except KeyboardInterrupt:
        return 130


def _parsed(words: list[str]) -> tuple[str, dict[str, str]]:
    """The event as it was named, and every flag. Raises ValueError."""
    flags, names = dict(_FLAGS), []
    rest = iter(words)
    for word in rest:
        flag, has_value, value = word.partition("=")
        if flag in flags:
            found = value if has_value else next(rest, None)
            if found is None:
                raise ValueError(f"{flag} needs a value; see `hookgate event --help`")
            flags[flag] = found
        elif word.startswith("-"):
            raise ValueError(f"there is no option {word}; see `hookgate event --help`")
        else:
            names.append(word)
    if len(names) != 1:
        raise ValueError("name one event, such as BeforeTool; see `hookgate event --help`")
    return names[0], flags


class _Told:
    """One event on its way."""

    def __init__(self, named: str, flags: dict[str, str]) -> None:
        """Raises ValueError for what is wrong with the flags."""
        if flags["--from"] not in ("", "claude-code"):
            raise ValueError(f"--from {flags['--from']}: only claude-code is known")
        if flags["--on-unreachable"] not in ("allow", "deny"):
            raise ValueError(f"--on-unreachable {flags['--on-unreachable']}: has to be allow or deny")
        self._claude = bool(flags["--from"])
        self._named = named
        self._event = CLAUDES.get(named, named) if self._claude else named
        if self._event not in EVENTS:
            known = (*CLAUDES, *EVENTS) if self._claude else EVENTS
            raise ValueError(f"there is no event {named!r}; there are: {', '.join(known)}")
        self._denies = flags["--on-unreachable"] == "deny" and self._event not in _ADVISORY
        self._seconds = _seconds(flags["--timeout"])
        gateway, session = gateways.named(flags["--gateway"]), os.environ.get(gateways.SESSION)
        self._gateway = gateway.session(session) if session else gateway
        self._headers = gateways.key_headers(flags["--key-env"])

    def answer(self, data: bytes) -> int:
        """Ask, print, and give the exit code. Raises ValueError for an input that is none, and Refused."""
        given = _object(data)
        if self._is_launcher_s(given):
            return self._say(given, {}, None)
        body = self._body(given, data)
        try:
            answer = ask(self._gateway, self._event, body, self._headers, self._seconds)
        except (Unreachable, Refused) as error:
            if self._denies:
                return self._say(given, self._denial(f"Not judged: {error}"), None)
            if isinstance(error, Refused):
                raise
            print(f"hookgate event: {error}; it goes on unjudged", file=sys.stderr)
            answer = b"{}"
        return self._say(given, _object(answer), answer)

    def _is_launcher_s(self, given: Json) -> bool:
        """Whether `hookgate run` tells of it: that its session begins with the program, and ends with it."""
        session = os.environ.get(gateways.SESSION)
        if not session or os.environ.get(gateways.LAUNCHED) != session:
            return False
        if self._event == "SessionStart":
            return given.get("source") == "startup"
        return self._event == "SessionEnd" and given.get("reason") != "clear"

    def _body(self, given: Json, data: bytes) -> bytes:
        """The input as it came, unless something of it has to be said in other words or filled in."""
        if self._claude:
            return dumps(_with_folder(input_of(self._event, given)))
        if "hook_event_name" in given and "cwd" in given:
            return data
        return dumps(_with_folder({"hook_event_name": self._event, **given}))

    def _denial(self, reason: str) -> Json:
        # To deny a final answer is to ask for another one, which nobody could judge either.
        if self._event == "AfterAgent":
            return {"continue": False, "stopReason": reason}
        return {"decision": "deny", "reason": reason}

    def _say(self, given: Json, output: Json, raw: bytes | None) -> int:
        """Print an output, as it came where it may stay so; the exit code."""
        stops = output.get("continue") is False
        denies = stops or output.get("decision") in ("deny", "block")
        reason = output.get("stopReason") if stops else output.get("reason")
        if self._claude:
            raw = dumps(output_for(_claudes(self._event), given, output))
        sys.stdout.buffer.write((raw or dumps(output)) + b"\n")
        sys.stdout.flush()
        # Claude Code reads that it shall stop from JSON alone, and JSON with exit code 0 alone.
        if not denies or (stops and self._claude):
            return 0
        print(reason or f"Denied by a {self._event} hook of the gateway.", file=sys.stderr)
        return 2


def _with_folder(given: Json) -> Json:
    return given if "cwd" in given else {"cwd": os.getcwd(), **given}


def _claudes(event: str) -> str:
    return next((theirs for theirs, ours in CLAUDES.items() if ours == event), event)


def _object(data: bytes) -> Json:
    """The object of a document. Raises ValueError."""
    try:
        value = loads(data)
    except ValueError as error:
        raise ValueError(f"the input is not JSON: {error}; give the event's input on stdin") from None
    if not isinstance(value, dict):
        raise ValueError("the input is no JSON object; give the event's input on stdin")
    return value


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    if not 0 < seconds <= 86400:
        raise ValueError(f"--timeout {text}: has to be a number of seconds")
    return seconds


def _complain(error: Exception) -> int:
    print(f"hookgate event: {error}", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
