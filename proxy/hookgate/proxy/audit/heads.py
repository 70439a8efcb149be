"""The heads of chains: each writer's registration and last record, saved outside of the database.

Hashes alone cannot show that the last records of a chain are present, because no record refers to them yet.
Therefore each gateway saves the heads in its state folder, an export contains them in its last line, and
`hookgate audit heads` prints them to be kept on another machine.
"""

import contextlib
import fcntl
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from sqlalchemy import Connection, func, select

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.chain import canonical_json
from hookgate.proxy.audit.stored import chain_tip, registrations
from hookgate.proxy.store.models import audit_records
from hookgate.translator.fields import JsonObject
from hookgate.translator.strictjson import loads

log = logging.getLogger("hookgate.audit")

HEADS_FILE = "audit-heads.json"
"""The file in the state folder that stores the chain heads."""

_MAX_KEPT = 1000
"""Writers in the file, the newest ones; the chain of registrations shows that older ones are present."""


@dataclass(frozen=True, slots=True)
class Head:
    """The state of a writer's chain at some time. Hashes are 64 hex digits."""

    number: int
    registration: str
    """The hash of its registration."""
    first: int
    """The first record, or 0 if there was none."""
    seq: int
    """The last record, or 0 if there was none."""
    hash: str
    """The hash of the last record, or of the registration if there was none."""


def heads_document(heads: Mapping[str, Head]) -> JsonObject:
    """Return the document for a file of heads."""
    writers = {writer: asdict(head) for writer, head in heads.items()}
    return {"v": 1, "type": "heads", "at": utc_text(), "writers": writers}


def parse_heads(document: JsonObject) -> dict[str, Head]:
    """Return the heads in a document by `heads_document`. Raises ValueError for any other document."""
    try:
        if document["type"] != "heads":
            raise ValueError("it contains no heads")
        heads = {str(writer): Head(**head) for writer, head in document["writers"].items()}
    except (KeyError, TypeError, AttributeError):
        raise ValueError("it contains no heads") from None
    if not all(isinstance(head, Head) and isinstance(head.seq, int) for head in heads.values()):
        raise ValueError("it contains no heads")
    return heads


def read_heads(connection: Connection) -> dict[str, Head]:
    """Return the heads of all writers in the database."""
    heads = {}
    for number, document, own_hash, _ in registrations(connection):
        first = select(func.min(audit_records.c.seq)).where(audit_records.c.writer == number)
        begin = connection.execute(first).scalar() or 0
        seq, tip = chain_tip(connection, number) or (0, own_hash)
        heads[str(document.get("writer"))] = Head(number, own_hash, begin, seq, tip)
    return heads


SignHeads = Callable[[JsonObject], JsonObject]
"""Returns a document of heads with its signature. Raises ValueError."""

CheckSignature = Callable[[JsonObject], None]
"""Raises ValueError unless a document of heads has a valid signature."""


def load_heads(path: Path, check: CheckSignature | None = None) -> dict[str, Head]:
    """Return the heads in the last line of a file, which `check` checks if it is given.

    Raises ValueError if they are invalid, and OSError if the file cannot be read.
    """
    lines = path.read_bytes().splitlines()
    try:
        document = loads(lines[-1]) if lines else None
        if not isinstance(document, dict):
            raise ValueError("it contains no heads")
        heads = parse_heads(document)
        if check is not None:
            check(document)
        return heads
    except ValueError as error:
        raise ValueError(
            f"{path}: cannot be used: {error}; create the file with: hookgate audit heads > FILE"
        ) from None


class HeadsFile:
    """The file of heads in the state folder, which all gateways with that folder share."""

    def __init__(self, state: Path) -> None:
        self._path = state / HEADS_FILE
        self._failing = False
        self._saved: Head | None = None

    def save(self, writer: str, head: Head) -> None:
        """Save the head of a writer. A failure is logged, and the next call tries again."""
        if head == self._saved:
            return
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            with _locked(self._path):
                self._merge(writer, head)
            self._saved, self._failing = head, False
        except (OSError, ValueError) as error:
            if not self._failing:
                log.warning("%s cannot be written: %s", self._path, error)
            self._failing = True

    def _merge(self, writer: str, head: Head) -> None:
        known = load_heads(self._path) if self._path.exists() else {}
        newest = sorted((known | {writer: head}).items(), key=lambda pair: pair[1].number)[-_MAX_KEPT:]
        waiting = self._path.with_suffix(".new")
        file = os.open(waiting, os.O_CREAT | os.O_WRONLY | os.O_TRUNC, 0o600)
        with os.fdopen(file, "wb") as out:
            out.write(canonical_json(heads_document(dict(newest))) + b"\n")
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
