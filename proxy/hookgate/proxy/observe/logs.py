"""Logging to stderr: lines of text or JSON, each with the ID of its request."""

import json
import logging
import os
import re
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, fields
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, TextIO

import orjson

from hookgate.hooks.timestamps import utc_text

if TYPE_CHECKING:  # commands that neither read a configuration nor serve need neither
    from hookgate.proxy.config import LogSettings
    from hookgate.proxy.routes.table import Route

_UNUSUAL = re.compile(r"[^\n\t\x20-\x7e]+")


def escape_controls(text: str, *, keep_lines: bool = True) -> str:
    """Escape characters that are not printable as in JSON: ESC becomes `\\u001b`.

    These are control characters (C0, C1, bidirectional), line separators, spaces other than U+0020, invisible
    characters and lone surrogates. Newlines and tabs are kept if `keep_lines` is true. JSON text keeps its
    meaning.
    """
    if text.isprintable():
        return text
    if not keep_lines:
        return "".join(map(_escaped, text))
    return _UNUSUAL.sub(lambda match: "".join(map(_escaped, match[0])), text)


def _escaped(character: str) -> str:
    if character.isprintable():
        return character
    units = character.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


class EscapingStream:
    """A wrapper of a text stream that escapes control characters in what is written to it."""

    def __init__(self, stream: TextIO) -> None:
        self.unescaped = stream

    def write(self, text: str) -> int:
        return self.unescaped.write(escape_controls(text))

    def __getattr__(self, name: str) -> object:
        return getattr(self.unescaped, name)


log_gateway = logging.getLogger("hookgate.gateway")

_LONGEST_PATH = 200
"""Characters of a refused path that are logged."""
_WORD = re.compile(r"[A-Za-z]{1,24}|v[0-9][a-z0-9]{0,10}")

MAX_WAITING = 10_000
"""Lines that are queued for a slow reader of stderr. Further ones are dropped, and their number is logged."""

_GATHER_SECONDS = 0.01
"""Seconds for which lines are gathered. Waking the thread for each line would cost more than writing it."""

_LINES_AT_ONCE = 100

_CLOSE_TIMEOUT = 2.0  # seconds to write the remaining lines when the gateway ends


@dataclass(slots=True)
class CallLine:
    """The fields of a call's line in the log. They contain neither a key nor content."""

    request_id: str
    method: str
    receipt: str = ""
    """The ID of the call's receipt."""
    route: str = "-"
    """The path upstream. A request without a route has none, because its path may contain anything."""
    kind: str = "none"
    session: str = "-"
    status: int = 0
    """0 for a call that ended before its answer was complete."""
    cause: str = ""
    """The cause of a refusal or failure, as one word."""
    duration_ms: float = 0.0
    bytes: int = 0
    outcome: str = ""
    key: str = ""
    """The name of the caller's key, which is that of its owner if the gateway has issued it."""
    issued_key: str = ""
    team: str = ""
    client: str = ""
    model: str = ""
    """The model that was asked."""
    answered_by: str = ""
    """The model that answered, if it is another one."""
    decided_by: Sequence[str] = ()
    """The hooks that decided the outcome."""
    found: Mapping[str, int] = field(default_factory=dict)
    """What hooks have found, by kind."""


_CALL_FIELDS = tuple(each.name for each in fields(CallLine))

_current: ContextVar[CallLine | None] = ContextVar("call", default=None)


def begin_call(call: CallLine) -> None:
    """Make `call` the current call of this task and of the tasks that it starts."""
    _current.set(call)


def note_route(route: "Route") -> None:
    """Set the route of the current call."""
    call = _current.get()
    if call is not None:
        call.route, call.kind, call.session = route.path, route.kind, route.session or call.session


def note_refused_path(target: str) -> None:
    """Set the path of a request target that has no route, as far as it may be shown."""
    call = _current.get()
    if call is not None:
        call.route = masked_path(target)


def masked_path(target: str) -> str:
    """Return the path of a request target that was refused, for display.

    The query is left out, and only plain words of the path are shown: either may contain a key.
    """
    path = target.partition("?")[0][:_LONGEST_PATH]
    return re.sub(r"[^/:]+", lambda part: part[0] if _WORD.fullmatch(part[0]) else "…", path)


def note_session(session: str) -> None:
    """Set the session of the current call."""
    call = _current.get()
    if call is not None:
        call.session = session


def note_cause(cause: str) -> None:
    """Set the cause of the current call's failure."""
    call = _current.get()
    if call is not None:
        call.cause = cause


def log_call(call: CallLine, seconds: float, answer_bytes: int) -> None:
    """Log a call that has ended, as one line."""
    call.duration_ms, call.bytes = round(seconds * 1000, 1), answer_bytes
    log_gateway.info(
        "%s %s session %s: %s%s in %.1f ms, %d bytes, receipt %s",
        call.method,
        call.route,
        call.session,
        call.status,
        f" {call.cause}" if call.cause else "",
        call.duration_ms,
        call.bytes,
        call.receipt,
        extra={"call": call},
    )


def configure(logs: "LogSettings") -> None:
    """Configure the root logger: hookgate's lines from `logs.level` up, warnings of other libraries."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if logs.format == "json" else TextLines())
    # No line shows where it was logged, so the library need not find that out for each of them.
    logging._srcfile = None  # as its documentation says
    logging.logThreads = logging.logProcesses = logging.logMultiprocessing = False
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("hookgate").setLevel(logs.level.upper())


@contextmanager
def written_in_background() -> Iterator[None]:
    """Write the lines of the configured log in a thread while the block runs.

    stderr may be a pipe. If its reader is slow, the pipe fills up and writing to it blocks.
    """
    root = logging.getLogger()
    direct = root.handlers
    [formatter] = {handler.formatter for handler in direct}
    background = BackgroundHandler(sys.stderr.fileno())
    background.setFormatter(formatter)
    root.handlers = [background]
    try:
        yield
    finally:
        root.handlers = direct
        background.close()


class BackgroundHandler(logging.Handler):
    """A handler that formats records in the calling thread and writes them in its own thread."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._lost = 0
        self._thread = threading.Thread(target=self._write_lines, name="hookgate-log", daemon=True)
        self._thread.start()

    @property
    def waiting(self) -> int:
        """The number of lines that have not been written yet."""
        return self._lines.qsize()

    def emit(self, record: logging.LogRecord) -> None:
        if self.waiting >= MAX_WAITING:
            self._lost += 1
            return
        if self._lost:
            lost, self._lost = self._lost, 0
            self._lines.put(self.format(_lost_lines(lost)))
        self._lines.put(self.format(record))

    def close(self) -> None:
        """Write the remaining lines, for up to `_CLOSE_TIMEOUT` seconds."""
        self._lines.put(None)
        self._thread.join(_CLOSE_TIMEOUT)
        super().close()

    def _write_lines(self) -> None:
        ended = False
        while not ended:
            lines = [self._lines.get()]
            time.sleep(_GATHER_SECONDS)
            while len(lines) < _LINES_AT_ONCE and not self._lines.empty():
                lines.append(self._lines.get())
            ended = None in lines
            text = "".join(f"{line}\n" for line in lines if line is not None)
            data = memoryview(text.encode(errors="backslashreplace"))
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError:  # stderr is closed, so there is nowhere to report it
                continue


def _lost_lines(count: int) -> logging.LogRecord:
    text = "%d lines of the log were dropped: stderr is read too slowly"
    return log_gateway.makeRecord(log_gateway.name, logging.ERROR, __file__, 0, text, (count,), None)


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": utc_text(record.created),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": _request_id(),
        }
        call = getattr(record, "call", None)
        if call is not None:
            line |= {name: getattr(call, name) for name in _CALL_FIELDS}
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        try:
            text = orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:  # a lone surrogate, which UTF-8 cannot encode
            text = json.dumps(line, default=str)
        return escape_controls(text)


class TextLines(logging.Formatter):
    """A readable line of text, followed by the indented lines of a traceback."""

    def format(self, record: logging.LogRecord) -> str:
        message = escape_controls(
            record.getMessage().replace("\r", "\\r").replace("\n", "\\n"), keep_lines=False
        )
        request_part = f" [{_request_id()}]" if _request_id() else ""
        line = f"{utc_text(record.created)} {record.levelname} {record.name}{request_part}: {message}"
        if not record.exc_info:
            return line
        # Indented, so that a line of an exception's message cannot be mistaken for a line of the log.
        traceback = escape_controls(self.formatException(record.exc_info)).replace("\n", "\n  ")
        return f"{line}\n  {traceback}"


def _request_id() -> str:
    call = _current.get()
    return call.request_id if call else ""
