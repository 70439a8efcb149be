"""What goes to stderr: lines of text or JSON, each with the id of the request it is about."""

import json
import logging
import re
import sys
from collections.abc import Sequence
from contextvars import ContextVar
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import orjson

from hookgate.proxy.config import Logs
from hookgate.proxy.printable import escape_controls
from hookgate.proxy.routes import Route

log_gateway = logging.getLogger("hookgate.gateway")

_SANE_ID = re.compile(r"[A-Za-z0-9._-]{1,128}")


@dataclass(slots=True)
class Call:
    """What is told of one call when it has ended: never a key, never what was said."""

    request_id: str
    method: str
    receipt: str = ""
    """The id of the call's receipt."""
    route: str = "-"
    """The path upstream; none for a request that has no route, since its path may hold anything."""
    kind: str = "none"
    session: str = "-"
    status: int = 0
    """0 for a call that ended before its answer was complete."""
    cause: str = ""
    """What went wrong, in one word, for a call that was refused or has failed."""
    duration_ms: float = 0.0
    bytes: int = 0


_current: ContextVar[Call | None] = ContextVar("call", default=None)


def begin(call: Call) -> None:
    """From now on this task, and those that it starts, work for `call`."""
    _current.set(call)


def note_route(route: Route) -> None:
    """Name the route of the call that is under way."""
    call = _current.get()
    if call is not None:
        call.route, call.kind, call.session = route.path, route.kind, route.session or call.session


def note_session(session: str) -> None:
    """Name the session of the call that is under way."""
    call = _current.get()
    if call is not None:
        call.session = session


def note_cause(cause: str) -> None:
    """Tell what went wrong with the call that is under way."""
    call = _current.get()
    if call is not None:
        call.cause = cause


def tell(call: Call) -> None:
    """The one line of a call that has ended."""
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


def request_id(given: Sequence[str]) -> str:
    """The client's id for its request, if it is one and sane, else a new one."""
    return given[0] if len(given) == 1 and _SANE_ID.fullmatch(given[0]) else uuid4().hex


def configure(logs: Logs) -> None:
    """Write hookgate's lines from `logs.level` up, and other libraries' warnings, as `logs.format` says."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines() if logs.format == "json" else TextLines())
    root = logging.getLogger()
    root.handlers = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger("hookgate").setLevel(logs.level.upper())


class JsonLines(logging.Formatter):
    """One JSON object per line."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "timestamp": _when(record),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            "request_id": _request_id(),
        }
        told = getattr(record, "call", None)
        if told is not None:
            line |= asdict(told)
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        try:
            text = orjson.dumps(line, default=str, option=orjson.OPT_NON_STR_KEYS).decode()
        except TypeError:  # half of a surrogate pair, which UTF-8 cannot tell
            text = json.dumps(line, default=str)
        return escape_controls(text)


class TextLines(logging.Formatter):
    """One line for a person, and a traceback's lines after it."""

    def format(self, record: logging.LogRecord) -> str:
        message = escape_controls(
            record.getMessage().replace("\r", "\\r").replace("\n", "\\n"), keep_lines=False
        )
        about = f" [{_request_id()}]" if _request_id() else ""
        line = f"{_when(record)} {record.levelname} {record.name}{about}: {message}"
        if not record.exc_info:
            return line
        # Indented, so that a line within an exception's message cannot pass for a line of the log.
        traceback = escape_controls(self.formatException(record.exc_info)).replace("\n", "\n  ")
        return f"{line}\n  {traceback}"


def _when(record: logging.LogRecord) -> str:
    at = datetime.fromtimestamp(record.created, UTC)
    return at.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _request_id() -> str:
    call = _current.get()
    return call.request_id if call else ""
