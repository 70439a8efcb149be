"""The journal of a writer: a file of records that are on disk, but not yet in the database.

A transaction of a database file writes pages of each index, which costs as much as the records of ten calls.
Calls wait until their start is on disk, but not for the database: a writer appends records to its journal,
with one write and one flush, and soon moves many of them to the database in one transaction.
"""

import errno
import logging
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

import orjson

from hookgate.proxy.audit.chain import ChainRecord, Columns, NewRecord, canonical_json, chain_hash
from hookgate.proxy.errors import StoreError, describe_os_error
from hookgate.translator import BodyError
from hookgate.translator.strictjson import MAX_RECORD_DEPTH, loads

log = logging.getLogger("hookgate.audit")

FOLDER = "audit-writers"
"""The folder in the state folder with the locks and journals of writers."""


class Journal:
    """The journal of a running writer. Raises StoreError if the file cannot be written."""

    def __init__(self, state: Path, writer: str) -> None:
        """Create the journal of the writer with this name."""
        self._path = journal_path(state, writer)
        self._size = 0
        self._is_torn = False  # whether there may be bytes after `_size`
        with self._described_errors():
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            self._file = os.open(self._path, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_APPEND, 0o600)
            folder = os.open(self._path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)  # otherwise the file itself could be lost with its records
            finally:
                os.close(folder)

    def append(self, records: Sequence[NewRecord]) -> None:
        """Write records to disk: all of them, or none."""
        data = b"".join(map(_line, records))
        with self._described_errors():
            if self._is_torn:
                self._mend()
            try:
                rest = memoryview(data)
                while rest:
                    rest = rest[os.write(self._file, rest) :]
                os.fdatasync(self._file)
            except OSError:
                self._is_torn = True
                self._mend()  # if this fails, too, it is done before the next records are written
                raise
        self._size += len(data)

    def _mend(self) -> None:
        """Remove what was not written completely."""
        os.ftruncate(self._file, self._size)
        self._is_torn = False

    def check(self) -> None:
        """Check that the file exists, or its records would be lost. Raises StoreError."""
        with self._described_errors():
            if not os.path.samestat(self._path.stat(), os.fstat(self._file)):
                raise FileNotFoundError(errno.ENOENT, os.strerror(errno.ENOENT))

    def clear(self) -> None:
        """Remove all records, which are in the database now."""
        with self._described_errors():
            os.ftruncate(self._file, 0)
        self._size = 0

    def close(self) -> None:
        """Close the journal, and remove its file unless it contains records."""
        if not self._size:
            self._path.unlink(missing_ok=True)
        os.close(self._file)

    @contextmanager
    def _described_errors(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise StoreError(f"{self._path}: cannot be written: {describe_os_error(error)}") from None


def journal_path(state: Path, writer: str) -> Path:
    """Return the path of a writer's journal."""
    return state / FOLDER / f"{writer}.journal"


class LeftJournal(NamedTuple):
    """The journal of a writer that has died."""

    path: Path
    records: list[NewRecord]
    """The records that are not in the database, and follow those that are."""
    unread: int
    """The number of other complete lines: the file was damaged, or the database replaced."""

    def remove(self) -> None:
        """Remove the file, whose records are in the database now; keep and report one with other lines."""
        if not self.unread:
            self.path.unlink(missing_ok=True)
            return
        kept = self.path.with_suffix(".unread")
        self.path.rename(kept)
        log.error(
            "%s records of a gateway that ended unexpectedly are damaged, or do not follow those in the "
            "database; they are kept in %s",
            self.unread,
            kept,
        )


def read_journal(path: Path, seq: int, tip: str) -> LeftJournal:
    """Return what a journal has after the record with the number `seq` and the hash `tip`.

    The journal of a writer that died may begin with records that are in the database already, and end with a
    line that was not written completely. Without a file there are no records. Raises StoreError.
    """
    try:
        *lines, last = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return LeftJournal(path, [], 0)
    except OSError as error:
        raise StoreError(f"{path}: cannot be read: {describe_os_error(error)}") from None
    records: list[NewRecord] = []
    saved, unread = seq, 0
    for line in (*lines, last):
        new = _record(line)
        if new is not None and new.record.seq == seq + 1 and new.record.previous == tip:
            records.append(new)
            seq, tip = new.record.seq, new.hash
        elif line is not last and (new is None or new.record.seq > saved):
            unread += 1
    return LeftJournal(path, records, unread)


def _line(new: NewRecord) -> bytes:
    columns = None if new.columns is None else tuple(new.columns)
    content = None if new.content is None else orjson.Fragment(new.content)
    return canonical_json([new.hash, new.record.at, columns, new.document, content]) + b"\n"


def _record(line: bytes) -> NewRecord | None:
    """Return the record of a line, or None if the line is not as `_line` returns it."""
    try:
        own_hash, at, columns, document, content = loads(line, depth=MAX_RECORD_DEPTH)
        if chain_hash(document["previous"], document) != own_hash:
            return None
        names = ("writer", "seq", "type", "id", "previous", "body", "content_sha256")
        record = ChainRecord(at=at, **{name: document[name] for name in names})
    except (BodyError, ValueError, TypeError, KeyError):
        return None
    body = canonical_json(record.body)
    return NewRecord(
        record,
        {**document, "body": orjson.Fragment(body)},
        own_hash,
        None if columns is None else Columns(*columns),
        body,
        None if content is None else canonical_json(content),
    )
