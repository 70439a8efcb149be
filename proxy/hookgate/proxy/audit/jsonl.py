"""Records as lines of JSON, for log shippers: to stdout or a file, beside the database.

The database is what counts: a reader who is too slow loses lines, which the log tells, and holds up no call.
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

from hookgate.proxy.audit.chain import Record, canonical, chained
from hookgate.proxy.audit.entries import Entry
from hookgate.proxy.audit.stored import Stored
from hookgate.translator.fields import JsonObject

MAX_WAITING = 10_000
"""Lines that wait for a slow reader; further ones are left out."""

log = logging.getLogger("hookgate.audit")


def line_of(record: Record, content: JsonObject | None) -> bytes:
    """A record as it is exported: what is hashed, its hash, and its content if there is any."""
    document = {**record.document(), "hash": record.hash()}
    if content is not None:
        document["content"] = content
    return canonical(document) + b"\n"


def exported(stored: Stored) -> bytes:
    """A stored record as a line, with the hash that was stored: a damaged one has to be found in it too."""
    document = {**stored.record.document(), "hash": stored.hash}
    if stored.content is not None:
        document["content"] = stored.content
    return canonical(document) + b"\n"


def registration_line(document: JsonObject) -> bytes:
    """A writer's registration as it is exported."""
    return canonical({**document, "hash": chained(str(document["previous"]), document)}) + b"\n"


class Lines:
    """Writes lines in a thread of its own."""

    def __init__(self, target: str) -> None:
        """`target` is a path, or `-` for stdout. Raises OSError when it cannot be opened."""
        self._path = None if target == "-" else Path(target)
        self._file = self._opened()
        self._queue: deque[bytes] = deque()
        self._news = threading.Condition()
        self._closing = False
        self._failing = False
        self.dropped = 0
        """Lines that were left out."""
        self._thread = threading.Thread(target=self._work, name="hookgate-audit-jsonl", daemon=True)
        self._thread.start()

    def begin(self, registration: JsonObject) -> None:
        """Write a writer's registration, which its first record follows."""
        self._put([registration_line(registration)])

    def add(self, records: Sequence[Record], entries: Sequence[Entry]) -> None:
        """Write records, when it is their turn. `entries` are what they were made of."""
        told = zip(records, entries, strict=True)
        self._put([line_of(record, entry.content) for record, entry in told])

    def close(self, within: float) -> None:
        """Write what is left, for so many seconds at most."""
        with self._news:
            self._closing = True
            self._news.notify()
        self._thread.join(within)

    def _put(self, lines: Sequence[bytes]) -> None:
        with self._news:
            room = MAX_WAITING - len(self._queue)
            self._queue.extend(lines[:room] if room > 0 else ())
            left_out = len(lines) - max(0, min(room, len(lines)))
            if left_out and not self.dropped:
                log.error("audit.jsonl: its reader is too slow; lines are left out, the database has all")
            self.dropped += left_out
            self._news.notify()

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
        with self._news:
            self._news.wait_for(lambda: self._queue or self._closing)
            return [self._queue.popleft() for _ in range(min(len(self._queue), 500))]

    def _opened(self) -> BinaryIO:
        if self._path is None:
            return sys.stdout.buffer
        return open(self._path, "ab", opener=lambda path, flags: os.open(path, flags, 0o600))

    def _reopen_if_moved(self) -> None:
        """A file that was rotated away is begun anew."""
        if self._path is None:
            return
        with contextlib.suppress(FileNotFoundError):
            if os.stat(self._path).st_ino == os.fstat(self._file.fileno()).st_ino:
                return
        self._file.close()
        self._file = self._opened()
