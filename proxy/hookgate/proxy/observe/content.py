"""The content of calls: collected for the audit, and written to transcripts."""

import fcntl
import logging
import os
import time
from contextlib import suppress
from dataclasses import dataclass, field, replace
from pathlib import Path

from hookgate.hooks import Run, SessionContext
from hookgate.hooks.threads import run_in_file_thread
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.config import TranscriptSettings as Settings
from hookgate.proxy.routes.table import Route
from hookgate.proxy.sessions.sessions import OpenSession
from hookgate.translator.fields import JsonObject, read_list
from hookgate.translator.strictjson import dumps

log = logging.getLogger("hookgate.transcripts")

MAX_BYTES = 64 * 1024 * 1024
"""The maximum size of a call's answers in bytes. Nothing of a larger one is kept."""

MAX_EDITS = 200
"""The maximum number of edits that are kept of one call. A hook may edit every event of a stream."""


@dataclass(slots=True)
class KeptBytes:
    """The bytes of one answer, unless it is too large."""

    data: bytearray = field(default_factory=bytearray)
    too_large: bool = False
    max_size: int = MAX_BYTES

    def add(self, chunk: bytes) -> None:
        """Add the next bytes."""
        if len(self.data) + len(chunk) > self.max_size:
            self.data, self.too_large = bytearray(), True
        if not self.too_large:
            self.data += chunk


class CallObserver:
    """An observer of the content of a call. Each method does nothing unless a subclass overrides it."""

    __slots__ = ()

    @property
    def wants_answer(self) -> bool:
        """Whether `on_answer` must be called with the answer."""
        return False

    @property
    def wants_parts(self) -> bool:
        """Whether `on_part` must be called with the parts of the answer."""
        return False

    def on_request(self, body: JsonObject) -> None:
        """Called with the body that the client sent, or with the input of an event."""

    def on_upstream_request(self, model: str, body: JsonObject, request: JsonObject) -> None:
        """Called with the body to send upstream and its inner request."""

    def on_event_output(self, output: JsonObject) -> None:
        """Called with the output of a shim's event."""

    def begin_answer(self) -> None:
        """Called when an answer of the upstream begins: the first one, or one to a repeated request."""

    def on_upstream_bytes(self, chunk: bytes) -> None:
        """Called with the next bytes of the upstream's answer."""

    def on_client_bytes(self, data: bytes) -> None:
        """Called with the next bytes that are sent to the client."""

    def on_answer(self, answer: JsonObject) -> None:
        """Called with the answer after all hooks, with its events joined. Pseudonyms are not restored."""

    async def on_part(self, response: JsonObject) -> None:
        """Called with an event or a whole answer that has passed all hooks, before it is sent."""

    async def save(self) -> None:
        """Write the content so far if it must be written before the call continues."""


@dataclass(slots=True)
class CallContent(CallObserver):
    """The bodies of one call, and what hooks changed in them."""

    route: Route
    request: JsonObject | None = None
    """The request as the client sent it, or a shim's event."""
    upstream_request: JsonObject | None = None
    """The request as it was first sent upstream, or the answer to a shim's event."""
    request_awaited: bool = False
    """Whether the audit stores the request with the end, because hooks were running at the start."""
    answer: KeptBytes = field(default_factory=KeptBytes)
    """The upstream's last answer."""
    earlier: list[KeptBytes] = field(default_factory=list)
    """The answers before the last one, which hooks rejected: for each, the model was asked again."""
    client_answer: KeptBytes = field(default_factory=KeptBytes)
    """The answer as it was sent to the client."""
    edits: list[JsonObject] = field(default_factory=list)
    blocked: list[JsonObject] = field(default_factory=list)
    """The tool calls and answers that hooks blocked, in the order of the record's list."""

    def on_request(self, body: JsonObject) -> None:
        self.request = body

    def on_upstream_request(self, model: str, body: JsonObject, request: JsonObject) -> None:
        self.upstream_request = body

    def on_event_output(self, output: JsonObject) -> None:
        self.upstream_request = output

    def begin_answer(self) -> None:
        if self.answer.data or self.answer.too_large:
            self.earlier.append(self.answer)
        self.answer = KeptBytes(max_size=MAX_BYTES - sum(len(kept.data) for kept in self.earlier))

    def on_upstream_bytes(self, chunk: bytes) -> None:
        self.answer.add(chunk)

    def on_client_bytes(self, data: bytes) -> None:
        self.client_answer.add(data)

    def note_blocked(self, tool: str, arguments: JsonObject | None) -> None:
        """Keep the arguments of a blocked tool call."""
        self.blocked.append({"tool": tool, "arguments": arguments})

    def note_run(self, event: str, run: Run) -> None:
        """Keep the changes of a hook's run, if it made any."""
        if (edit := run.changes) and len(self.edits) < MAX_EDITS:
            hook = run.hook
            self.edits.append({"event": event, "hook": hook.name, "mode": hook.config.mode, "edit": edit})


_SWEEP_SECONDS = 600.0
_DAY_SECONDS = 24 * 3600


class Transcripts:
    """The transcripts of all sessions."""

    def __init__(self, folder: Path, max_bytes: int, days: float | None = None) -> None:
        """Transcripts are files in `folder`. A file of more than `max_bytes` is continued in a new one.

        Files to which nothing was written for some `days` are removed.
        """
        self._folder, self._max_bytes, self._days = folder, max_bytes, days
        self._failing = False
        self._sweep_at = 0.0

    def located(self, session: SessionContext) -> SessionContext:
        """Return the session with the path of its transcript, unless it has one already."""
        return (
            session if session.transcript_path else replace(session, transcript_path=str(self._path(session)))
        )

    def _path(self, session: SessionContext) -> Path:
        return self._folder / (session.key or "no-key") / f"{session.session_id}.jsonl"

    async def append(self, session: SessionContext, **record: object) -> None:
        """Append a line. Failures are logged once, and never make a call fail."""
        line = {"timestamp": utc_text(), "session_id": session.session_id, **record}
        await run_in_file_thread(self._append, self._path(session), line)

    def _append(self, path: Path, record: dict[str, object]) -> None:
        line = dumps(record) + b"\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if self._is_full(path, len(line)):
                self._rotate(path, len(line))
            with open(path, "ab", opener=_private) as file:
                file.write(line)
            self._sweep()
            self._failing = False
        except OSError as error:
            if not self._failing:
                log.error("transcripts cannot be written: %s; free disk space, or disable transcripts", error)
            self._failing = True

    def _sweep(self) -> None:
        """Remove files that are too old, every few minutes."""
        if self._days is None or time.monotonic() < self._sweep_at:
            return
        self._sweep_at = time.monotonic() + _SWEEP_SECONDS
        oldest = time.time() - self._days * _DAY_SECONDS
        for file in self._folder.glob("*/*.jsonl*"):
            with suppress(FileNotFoundError):  # another process was faster
                if file.stat().st_mtime < oldest:
                    file.unlink()

    def _is_full(self, path: Path, room: int) -> bool:
        return path.exists() and path.stat().st_size + room > self._max_bytes

    def _rotate(self, path: Path, room: int) -> None:
        """Rename a full file, unless another process has just done so."""
        folder = os.open(path.parent, os.O_RDONLY)
        try:
            fcntl.flock(folder, fcntl.LOCK_EX)
            if self._is_full(path, room):
                path.replace(path.with_name(f"{path.name}.1"))
        finally:
            os.close(folder)


def open_transcripts(settings: Settings, state: Path) -> Transcripts | None:
    """Return the transcripts that the settings enable, by default in the state folder, or None."""
    if not settings.enabled:
        return None
    return Transcripts(settings.folder or state / "transcripts", settings.max_bytes, settings.days)


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


class SessionTranscript(CallObserver):
    """Writes one call of a session into the transcript of the session."""

    __slots__ = ("_lines", "_open_session", "_transcripts", "_turns_written")

    def __init__(self, transcripts: Transcripts, open_session: OpenSession) -> None:
        self._transcripts, self._open_session = transcripts, open_session
        self._lines: list[dict[str, object]] = []
        self._turns_written = open_session.state.transcript_turns

    @property
    def wants_answer(self) -> bool:
        return True

    def on_upstream_request(self, model: str, body: JsonObject, request: JsonObject) -> None:
        contents = read_list(request, "contents")
        written, self._turns_written = self._turns_written, len(contents)
        new = contents[written:] if written < len(contents) else contents  # a new conversation
        self._lines.append({"type": "request", "model": model, "contents": new})

    def on_answer(self, answer: JsonObject) -> None:
        self._lines.append({"type": "answer", "answer": answer})

    async def save(self) -> None:
        if self._turns_written != self._open_session.state.transcript_turns:
            await self._open_session.change(lambda state: state.note_transcript_turns(self._turns_written))
        lines, self._lines = self._lines, []
        for line in lines:
            await self._transcripts.append(self._open_session.session, **line)
