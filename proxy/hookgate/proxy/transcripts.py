"""One file per session: what was asked, answered and told of it, a line of JSON each, after all hooks.

Its path is what hooks are given as `transcript_path`, unless the agent names a file of its own.
"""

import asyncio
import logging
import os
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from hookgate.hooks import Session
from hookgate.proxy.config import Transcripts as Settings
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import dumps

log = logging.getLogger("hookgate.transcripts")


class Transcripts:
    """The transcripts of all sessions; none is kept unless the settings say so."""

    def __init__(self, settings: Settings, state: Path) -> None:
        self._folder = (settings.folder or state / "transcripts") if settings.enabled else None
        self._max_bytes = settings.max_bytes
        self._failing = False

    @property
    def kept(self) -> bool:
        return self._folder is not None

    def located(self, session: Session) -> Session:
        """The session with the path of its transcript, unless its agent named one or none is kept."""
        if self._folder is None or session.transcript_path:
            return session
        return replace(session, transcript_path=str(self._path(self._folder, session)))

    def _path(self, folder: Path, session: Session) -> Path:
        return folder / (session.key or "no-key") / f"{session.session_id}.jsonl"

    async def append(self, session: Session, **record: object) -> None:
        """Add a line. A disk that is full is told once; no call fails by it."""
        if self._folder is not None:
            path = self._path(self._folder, session)
            now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
            line = {"timestamp": now, "session_id": session.session_id, **record}
            await asyncio.to_thread(self._append, path, line)

    def _append(self, path: Path, record: dict[str, object]) -> None:
        line = dumps(record) + b"\n"
        try:
            path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            if path.exists() and path.stat().st_size + len(line) > self._max_bytes:
                path.replace(path.with_name(f"{path.name}.1"))
            with open(path, "ab", opener=_private) as file:
                file.write(line)
            self._failing = False
        except OSError as error:
            if not self._failing:
                log.error("transcripts cannot be written: %s; make room, or switch them off", error)
            self._failing = True


def _private(path: str, flags: int) -> int:
    return os.open(path, flags, 0o600)


def new_contents(contents: list[JsonObject], recorded: int) -> list[JsonObject]:
    """The turns that came since so many were recorded; all of them when the conversation began anew."""
    return contents[recorded:] if recorded < len(contents) else contents
