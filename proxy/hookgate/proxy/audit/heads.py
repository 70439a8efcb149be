"""Where chains begin and end: a writer's first and last record, kept outside of the database to compare with.

Hashes alone cannot show that the last records of a chain are there, since nothing names them yet. Who has
noted them elsewhere can: each gateway does in its state folder, an export in its last line, and
`hookgate audit heads` prints them for another machine.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import Connection, func, select

from hookgate.proxy.audit.chain import canonical, iso
from hookgate.proxy.audit.entries import now
from hookgate.proxy.audit.rows import tip_of
from hookgate.proxy.audit.stored import registrations
from hookgate.proxy.store.models import AuditRecord
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

HEADS_FILE = "audit-heads.json"
"""The name of the file in a gateway's state folder."""

_MAX_KEPT = 1000
"""Writers that the file names, the newest; the chain of registrations shows that older ones are there."""

log = logging.getLogger("hookgate.audit")


@dataclass(frozen=True, slots=True)
class Head:
    """A writer's chain as far as it was written at some time. Hashes are 64 hex digits."""

    number: int
    registration: str
    """The hash of its registration."""
    first: int
    """The first record that was there; 0 if there was none."""
    seq: int
    """The last one."""
    hash: str
    """That one's hash; the registration's if there was none."""


def heads_document(heads: Mapping[str, Head]) -> JsonObject:
    """Heads by writer, as they are written to files."""
    writers = {writer: asdict(head) for writer, head in heads.items()}
    return {"v": 1, "type": "heads", "at": iso(now()), "writers": writers}


def parse_heads(document: JsonObject) -> dict[str, Head]:
    """Heads as `heads_document` wrote them. Raises ValueError for anything else."""
    try:
        if document["type"] != "heads":
            raise ValueError("it holds no heads")
        found = {str(writer): Head(**head) for writer, head in document["writers"].items()}
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it holds no heads") from None
    if not all(isinstance(each, Head) and isinstance(each.seq, int) for each in found.values()):
        raise ValueError("it holds no heads")
    return found


def read_heads(connection: Connection) -> dict[str, Head]:
    """The heads of all writers in the database."""
    query = select(AuditRecord.writer, func.min(AuditRecord.seq).label("first")).group_by(AuditRecord.writer)
    firsts = {row.writer: row.first for row in connection.execute(query)}
    heads = {}
    for number, document, own, _ in registrations(connection):
        seq, tip = tip_of(connection, number) or (0, own)
        heads[str(document.get("writer"))] = Head(number, own, firsts.get(number, 0), seq, tip)
    return heads


def load_heads(path: Path) -> dict[str, Head]:
    """The heads in a file, whose last line counts. Raises ValueError with the remedy, and OSError."""
    lines = path.read_bytes().splitlines()
    try:
        document = loads(lines[-1]) if lines else None
        if not isinstance(document, dict):
            raise ValueError("it holds no heads")
        return parse_heads(document)
    except ValueError as error:
        raise ValueError(
            f"{path}: cannot be used: {error}; make such a file with: hookgate audit heads > FILE"
        ) from None


class HeadsFile:
    """The file in the state folder, which all gateways of that folder share. It is only ever added to."""

    def __init__(self, state: Path) -> None:
        self._path = state / HEADS_FILE
        self._failing = False
        self._kept: Head | None = None

    def keep(self, writer: str, head: Head) -> None:
        """Note how far a writer has come. What cannot be written is logged, and tried again the next time."""
        if head == self._kept:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(self._path):
                self._merge(writer, head)
            self._kept, self._failing = head, False
        except (OSError, ValueError) as error:
            if not self._failing:
                log.warning("%s cannot be written: %s", self._path, error)
            self._failing = True

    def _merge(self, writer: str, head: Head) -> None:
        known = load_heads(self._path) if self._path.exists() else {}
        newest = sorted((known | {writer: head}).items(), key=lambda each: each[1].number)[-_MAX_KEPT:]
        waiting = self._path.with_suffix(".new")
        file = os.open(waiting, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(canonical(heads_document(dict(newest))) + b"\n")
            out.flush()
            os.fsync(out.fileno())
        waiting.replace(self._path)


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    file = os.open(path.with_suffix(".lock"), os.O_CREAT | os.O_RDWR, 0o600)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)
