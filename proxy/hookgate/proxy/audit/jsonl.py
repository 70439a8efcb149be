"""Records as lines of JSON for log shippers, to stdout or a file, in addition to the database.

A reader that is too slow loses lines, which is logged, but never delays calls. The database has all records.
"""

import contextlib
import logging
import os
import sys
import threading
from collections import deque
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO

import orjson

from hookgate.proxy.audit.chain import NewRecord, canonical_json, chain_hash
from hookgate.proxy.audit.stored import StoredRecord
from hookgate.translator.fields import JsonObject

log = logging.getLogger("hookgate.audit")

MAX_WAITING = 10_000
"""Lines that are queued for a slow reader; further ones are dropped."""


def document_line(document: JsonObject, own_hash: str, content: object = None) -> bytes:
    """Return the hashed document of a record as an exported line, without the end of the line.

    It has the hash and, if there is any, the content. Parts that are encoded already are orjson's `Fragment`.
    """
    line = {**document, "hash": own_hash}
    return canonical_json(line if content is None else {**line, "content": content})


def record_line(new: NewRecord) -> bytes:
    """Return a record as a line."""
    content = None if new.content is None else orjson.Fragment(new.content)
    return document_line(new.document, new.hash, content) + b"\n"


def stored_record_line(stored: StoredRecord) -> bytes:
    """Return a stored record as a line, with the stored hash, so that damage can be found in the line too."""
    return document_line(stored.record.document(), stored.hash, stored.content) + b"\n"


def registration_line(document: JsonObject) -> bytes:
    """Return a writer's registration as a line."""
    return document_line(document, chain_hash(str(document["previous"]), document)) + b"\n"


class Lines:
    """Writes lines in its own thread."""

    def __init__(self, target: str) -> None:
        """Open `target`, a path or `-` for stdout. Raises OSError if it cannot be opened."""
        self._path = None if target == "-" else Path(target)
        self._file = self._open()
        self._queue: deque[bytes] = deque()
        self._condition = threading.Condition()
        self._closing = False
        self._failing = False
        self.dropped = 0
        """The number of lines that were dropped."""
        self._thread = threading.Thread(target=self._work, name="hookgate-audit-jsonl", daemon=True)
        self._thread.start()

    def begin(self, registration: JsonObject) -> None:
        """Write a writer's registration, before its first record."""
        self._put([registration_line(registration)])

    def add(self, records: Sequence[NewRecord]) -> None:
        """Queue records for writing."""
        self._put([record_line(record) for record in records])

    def close(self, within: float) -> None:
        """Write the remaining lines, for up to `within` seconds."""
        with self._condition:
            self._closing = True
            self._condition.notify()
        self._thread.join(within)

    def _put(self, lines: Sequence[bytes]) -> None:
        with self._condition:
            room = MAX_WAITING - len(self._queue)
            self._queue.extend(lines[:room] if room > 0 else ())
            dropped = len(lines) - max(0, min(room, len(lines)))
            if dropped and not self.dropped:
                log.error(
                    "audit.jsonl: the reader is too slow: lines are dropped, but the database has all records"
                )
            self.dropped += dropped
            self._condition.notify()

    def _work(self) -> None:
        while lines := self._next():
            try:
                self._reopen_if_moved()
                self._file.write(b"".join(lines))
                self._file.flush()
                self._failing = False
            except (OSError, ValueError) as error:
                if not self._failing:
                    log.error("audit.jsonl cannot be written: %s; the database has all records", error)
                self._failing = True
                self.dropped += len(lines)
        if self._path is not None:
            with contextlib.suppress(OSError):
                self._file.close()

    def _next(self) -> list[bytes]:
        with self._condition:
            self._condition.wait_for(lambda: self._queue or self._closing)
            return [self._queue.popleft() for _ in range(min(len(self._queue), 500))]

    def _open(self) -> BinaryIO:
        if self._path is None:
            return sys.stdout.buffer
        return open(self._path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600))

    def _reopen_if_moved(self) -> None:
        """Open a new file if the current one was rotated."""
        if self._path is None:
            return
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self._path).st_ino == os.fstat(self._file.fileno()).st_ino:
                return
        rotated, self._file = self._file, self._open()
        with contextlib.suppress(OSError):  # what it could not take was counted
            rotated.close()
