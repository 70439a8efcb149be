"""Verification that no record of a database, or of an exported file, is missing or changed."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Any

import orjson
from sqlalchemy import Connection

from hookgate.proxy.audit.chain import NO_HASH, ChainRecord, chain_hash, content_hash, entry_columns
from hookgate.proxy.audit.heads import CheckSignature, Head, parse_heads
from hookgate.proxy.audit.ranges import add_number, numbers_outside
from hookgate.proxy.audit.stored import (
    RecordRow,
    position_bounds,
    registrations,
    unpack_encoded,
    walk_rows,
    whole_view,
)
from hookgate.proxy.store.database import Database
from hookgate.translator.fields import BodyError, JsonObject
from hookgate.translator.strictjson import MAX_RECORD_DEPTH, loads

MAX_PROBLEMS = 100
"""Problems that are listed; further ones are only counted."""


@dataclass(frozen=True, slots=True)
class Gap:
    """The last records of a writer, which are missing. Hashes are 64 hex digits."""

    writer: str
    number: int
    registration: str
    """The hash of its registration, which is missing, too, if `first` is 0."""
    first: int
    last: int
    hash: str
    """The hash of the last one."""
    before: str
    """The hash of the record before them, or of the registration."""

    def explains(self, writer: str, head: Head) -> bool:
        """Return whether a head that was saved before is missing because of this gap."""
        is_within = self.first <= head.seq < self.last or (head.seq, head.hash) == (self.last, self.hash)
        return is_within and (writer, head.registration) == (self.writer, self.registration)

    def __str__(self) -> str:
        """Return what is missing."""
        if not self.first:
            return (
                f"writer {self.writer}: its registration and all its records, up to {self.last}, are missing"
            )
        return f"writer {self.writer}: {_span(self.first, self.last)} missing"


ACCEPTED = "audit.restored"
"""The name of the change by which somebody accepts gaps after a restore."""


@dataclass(slots=True)
class VerificationReport:
    """The result of a verification."""

    records: int = 0
    writers: int = 0
    removed: int = 0
    """The number of chains whose first records retention has removed."""
    running: int = 0
    """Calls that have not ended, of writers that may still be running."""
    chains: list[str] = field(default_factory=list)
    """The first and the last record of each chain, as text."""
    proves_begin: bool = True
    """Whether no records can be missing before the first of each writer."""
    proves_end: bool = True
    """Whether heads say which records are the last, at the time when they were written."""
    problems: list[str] = field(default_factory=list)
    more: int = 0
    """Problems beyond those that are listed."""
    without_content: int = 0
    """Records whose content was removed, as the audit has recorded."""
    accepted: list[str] = field(default_factory=list)
    """What is missing since the audit was restored from a backup, and who accepted that, as text."""
    lost: list["Gap"] = field(default_factory=list)
    """What later records than the last ones are missing. Each of them is also a problem."""

    @property
    def sound(self) -> bool:
        """True if nothing is missing or changed."""
        return not self.problems

    @property
    def is_earlier_state(self) -> bool:
        """True if nothing is wrong except that last records are missing, as after a restore from a backup."""
        return bool(self.lost) and not self.more and len(self.problems) == len(self.lost)

    def gaps(self) -> list["Gap"]:
        """Return what is lost, one gap for each writer, which reaches up to the last known record."""
        longest: dict[str, Gap] = {}
        for gap in self.lost:
            if gap.writer not in longest or longest[gap.writer].last <= gap.last:
                longest[gap.writer] = gap
        return list(longest.values())

    def add_problem(self, problem: str) -> None:
        """Add a problem."""
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(problem)
        else:
            self.more += 1


@dataclass(slots=True)
class _Chain:
    """The records seen of one writer."""

    first: int
    before: str
    """The previous hash in its first record."""
    last: int
    tip: str
    closed: int | None = None


class Checker:
    """Checks the chains of any number of writers. The records of each writer must come in their order."""

    def __init__(
        self,
        *,
        whole: bool,
        expected: Iterable[tuple[str, Head]] = (),
        check_signature: CheckSignature | None = None,
    ) -> None:
        """Create a checker.

        Args:
            whole: Whether all records are passed in, except those that retention removed.
            expected: The writers' heads that were saved elsewhere.
            check_signature: Checks the heads in an export, which must then cover all of its records.
        """
        self.report = VerificationReport()
        self._whole, self._check_signature = whole, check_signature
        self._chains: dict[str, _Chain] = {}
        self._open: dict[str, str] = {}
        # Problems of ends without a start. They count only if retention has not removed anything.
        self._unbegun: list[str] = []
        # The last record that retention removed of a writer, by its number: sequence number and hash.
        self._tips: dict[int, tuple[int, str]] = {}
        # The numbers of the writers of which retention removed all records.
        self._gone: set[int] = set()
        # The last record of a writer that died, by its number, as the writer that ended it has recorded it.
        self._sealed: dict[int, tuple[int, str | None]] = {}
        self._expected = set(expected)
        # The records in `_awaited` that have been found.
        self._confirmed: set[tuple[str, int, str]] = set()
        # The last records according to the expected heads: writer, sequence number and hash.
        self._awaited = {(writer, head.seq, head.hash) for writer, head in self._expected}
        # The gaps that somebody has accepted after a restore.
        self._gaps: list[Gap] = []
        # The records without their content, by writer, and those whose content was removed, by its number.
        self._without_content: dict[str, list[list[int]]] = {}
        self._content_removed: dict[int, list[list[int]]] = {}
        # The heads that are named in the lines of an export.
        self._named: list[dict[str, Head]] = []

    def record(self, document: JsonObject, own_hash: str, content: JsonObject | None) -> None:
        """Check the next record: its hashed document, its stored hash, and its content if it has any."""
        computed = chain_hash(document["previous"], document)
        self.hashed_record(document, own_hash, computed, None if content is None else content_hash(content))

    def hashed_record(
        self, document: JsonObject, own_hash: str, computed: str, content_sha256: str | None
    ) -> None:
        """Check the next record, of which the hashes are computed already.

        Args:
            document: The hashed document. Of the body, only that of an event is used.
            own_hash: The stored hash.
            computed: The hash that the document has.
            content_sha256: The hash that the content has; None if there is none.
        """
        self.report.records += 1
        if computed != own_hash:
            self._problem(document, "it was changed")
        self._follow(document, own_hash)
        expected = document["content_sha256"]
        if content_sha256 != expected:
            if content_sha256 is None:
                add_number(self._without_content.setdefault(document["writer"], []), document["seq"])
            else:
                self._problem(document, "its content was changed")
        self._pair(document)
        if document["type"] == "event" and isinstance(document["body"], dict):
            try:
                self._note_event(document)
            except (KeyError, TypeError, ValueError, AttributeError):
                self._problem(document, "what it says about other records cannot be read")

    def _problem(self, document: JsonObject, problem: str) -> None:
        self.report.add_problem(f"{_place(document)}: {problem}")

    def unreadable(self, writer: str, seq: int, own_hash: str, problem: str) -> None:
        """Note that the next record cannot be read."""
        self.report.records += 1
        self.report.add_problem(f"writer {writer}, record {seq}: {problem}")
        if chain := self._chains.get(writer):
            chain.last, chain.tip = seq, own_hash

    def _follow(self, document: JsonObject, own_hash: str) -> None:
        writer, seq, previous = document["writer"], document["seq"], document["previous"]
        if (place := (writer, seq, own_hash)) in self._awaited:
            self._confirmed.add(place)
        chain = self._chains.get(writer)
        if chain is None:
            self._chains[writer] = _Chain(seq, previous, seq, own_hash)
            return
        if chain.closed is not None:
            self._problem(document, "it comes after the end of its chain")
        if seq <= chain.last:
            self._problem(document, "it is a duplicate or out of order")
        elif seq > chain.last + 1:
            self.report.add_problem(f"writer {writer}: {_span(chain.last + 1, seq - 1)} missing")
        elif previous != chain.tip:
            self._problem(document, "it does not follow the one before it")
        chain.last, chain.tip = seq, own_hash

    def _pair(self, document: JsonObject) -> None:
        call = document["id"]
        if document["type"] == "start":
            if call in self._open:
                self._problem(document, f"the call {call} has already begun")
            self._open[call] = document["writer"]
        elif document["type"] == "end" and self._open.pop(call, None) is None:
            self._unbegun.append(f"{_place(document)}: the call {call} has an end and no start")

    def _note_event(self, document: JsonObject) -> None:
        body = document["body"]
        match body.get("event"):
            case "closed":
                self._chains[document["writer"]].closed = body["count"]
            case "recovered":
                self._sealed[body["writer"]] = body["seq"], body["hash"]
            case "retention":
                self._tips |= {int(number): (tip[0], tip[1]) for number, tip in body["tips"].items()}
                self._gone |= {number for low, high in body["gone"] for number in range(low, high + 1)}
            case "content_removed":
                for number, ranges in body["records"].items():
                    removed = [[int(first), int(last)] for first, last in ranges]
                    self._content_removed.setdefault(int(number), []).extend(removed)
            case "change" if body.get("change") == ACCEPTED:
                self._accept(body["by"], document["at"], [Gap(**gap) for gap in body["gaps"]])

    def _accept(self, by: str, at: str, gaps: list[Gap]) -> None:
        """Note that somebody has accepted gaps after a restore."""
        self._gaps += gaps
        self.report.accepted += [f"{gap} since a restore, which {by} has accepted at {at}" for gap in gaps]

    def heads(self, document: JsonObject) -> None:
        """Note the line of an export that names the first and last record of each writer.

        Raises ValueError if it is not such a line, or if its signature is checked and not valid.
        """
        heads = parse_heads(document)
        if self._check_signature is not None:
            self._check_signature(document)
        self._named.append(heads)

    # ---- the end

    def finish(
        self, registered: list[tuple[JsonObject, str]], ended: Mapping[int, str]
    ) -> VerificationReport:
        """Return the report.

        `registered` are the registrations of all writers in order, each with its stored hash. `ended` says
        how writers ended, by number.
        """
        self.report.proves_end = bool(self._expected or self._named)
        self._check_registrations(registered)
        numbers = {str(document.get("writer")): document.get("number", 0) for document, _ in registered}
        hashes = {str(document.get("writer")): own for document, own in registered}
        for writer in self._chains.keys() - numbers.keys():
            self.report.add_problem(f"writer {writer}: its registration is missing")
        for writer, number in numbers.items():
            self._check_chain(writer, number, hashes[writer], ended.get(number, ""))
        self._check_contents(numbers)
        if self._whole:
            self._check_gaps()
        self._check_expected(numbers, hashes)
        self._check_named()
        self._describe_chains(numbers)
        for call, writer in self._open.items():
            number = numbers.get(writer, 0)
            if number in self._sealed or ended.get(number) or self._is_closed(writer):
                self.report.add_problem(f"the call {call} of writer {writer} has no end")
            else:
                self.report.running += 1
        if self._whole and not (self._tips or self._gone):
            for problem in self._unbegun:
                self.report.add_problem(problem)
        return self.report

    def _check_contents(self, numbers: Mapping[str, int]) -> None:
        """Check that the audit itself has recorded each removal of content."""
        for writer, ranges in self._without_content.items():
            removed = self._content_removed.get(numbers.get(writer, 0), [])
            problems = numbers_outside(ranges, removed)
            for seq in problems:
                self.report.add_problem(f"writer {writer}, record {seq}: its content was removed")
            self.report.without_content += sum(last - first + 1 for first, last in ranges) - len(problems)

    def _check_expected(self, numbers: Mapping[str, int], hashes: Mapping[str, str]) -> None:
        """Compare with the heads that were saved elsewhere, except for what retention removed since.

        What is missing because of a restore that somebody has accepted is not a problem.
        """
        for writer, head in sorted(self._expected, key=lambda pair: (pair[1].number, pair[1].seq)):
            if any(gap.explains(writer, head) for gap in self._gaps):
                continue
            number, registered = numbers.get(writer, head.number), hashes.get(writer)
            if registered != head.registration:
                if registered is None:
                    self._note_lost(writer, head, 0, "")
                self.report.add_problem(
                    f"writer {writer}: its registration, which was there before, is missing"
                )
                continue
            removed = number in self._gone or self._tips.get(number, (0, ""))[0] >= head.seq
            if head.seq and (writer, head.seq, head.hash) not in self._confirmed and not removed:
                last, tip = self._last_of(writer, number, head.registration)
                if last < head.seq:
                    self._note_lost(writer, head, last + 1, tip)
                self.report.add_problem(
                    f"writer {writer}: its records up to {head.seq}, which were there before, "
                    "are missing or changed"
                )

    def _note_lost(self, writer: str, head: Head, first: int, before: str) -> None:
        gap = Gap(writer, head.number, head.registration, first, head.seq, head.hash, before)
        self.report.lost.append(gap)

    def _last_of(self, writer: str, number: int, registration: str) -> tuple[int, str]:
        """Return the number and the hash of a writer's last record, even if retention has removed it."""
        if chain := self._chains.get(writer):
            return chain.last, chain.tip
        return self._tips.get(number, (0, registration))

    def _check_gaps(self) -> None:
        """Check that what was there when a gap was accepted still is, unless retention removed it."""
        for gap in self._gaps:
            there = gap.first - 1, gap.before
            is_gone = gap.first == 0 or gap.number in self._gone
            if not is_gone and self._last_of(gap.writer, gap.number, gap.registration) != there:
                self.report.add_problem(
                    f"writer {gap.writer}: its records up to {gap.first - 1}, which were there after the "
                    "restore, are missing or changed"
                )

    def _check_named(self) -> None:
        for writer, head in ((writer, head) for heads in self._named for writer, head in heads.items()):
            chain = self._chains.get(writer)
            if head.seq == 0:
                continue
            if chain is None:
                self.report.add_problem(f"writer {writer}: all its records are missing")
                continue
            if chain.first > head.first:
                self.report.add_problem(f"writer {writer}: {_span(head.first, chain.first - 1)} missing")
            if chain.last < head.seq:
                self.report.add_problem(f"writer {writer}: {_span(chain.last + 1, head.seq)} missing")
            elif chain.last == head.seq and chain.tip != head.hash:
                self.report.add_problem(f"writer {writer}: its last record is a different one")
        if self._check_signature is not None:
            self._check_all_signed()

    def _check_all_signed(self) -> None:
        """Check that signed heads name all records: any others could have been added."""
        for writer, chain in self._chains.items():
            named = [heads[writer] for heads in self._named if writer in heads and heads[writer].seq]
            if not any(head.first == chain.first and head.seq == chain.last for head in named):
                self.report.add_problem(
                    f"writer {writer}: no signature covers exactly its records {chain.first} to {chain.last}"
                )

    def _describe_chains(self, numbers: Mapping[str, int]) -> None:
        for writer in sorted(self._chains, key=lambda writer: numbers.get(writer, 0)):
            chain = self._chains[writer]
            state = "closed" if chain.closed is not None else "open"
            if numbers.get(writer) in self._sealed:
                state = "ended by another writer"
            self.report.chains.append(f"writer {writer}: records {chain.first} to {chain.last}, {state}")

    def _is_closed(self, writer: str) -> bool:
        chain = self._chains.get(writer)
        return chain is not None and chain.closed is not None

    def _check_registrations(self, registered: list[tuple[JsonObject, str]]) -> None:
        self.report.writers = len(registered)
        before: tuple[int, str] | None = (0, NO_HASH) if self._whole else None
        if not before and [document.get("number") for document, _ in registered[:1]] != [1]:
            self._lacks_begin()
        for document, own in registered:
            number, previous = document.get("number", 0), str(document.get("previous", ""))
            writer = document.get("writer")
            if chain_hash(previous, document) != own:
                self.report.add_problem(f"writer {writer}: the registration does not match its hash")
            if before and (number, previous) != (before[0] + 1, before[1]):
                self.report.add_problem(f"writer {writer}: the writer that registered before it is missing")
            before = number, own

    def _check_chain(self, writer: str, number: int, registration: str, ended: str) -> None:
        chain = self._chains.get(writer)
        removed = self._tips.get(number)
        if chain is None:
            self._check_absent(writer, number, removed, ended)
            return
        if chain.first == 1:
            if chain.before != registration:
                self.report.add_problem(f"writer {writer}, record 1: it does not follow its registration")
        elif removed == (chain.first - 1, chain.before):
            self.report.removed += 1
        elif self._whole:
            self.report.add_problem(f"writer {writer}: {_span(1, chain.first - 1)} missing")
        else:
            self._lacks_begin()
        self._check_tail(writer, chain, self._sealed.get(number), ended)

    def _check_absent(self, writer: str, number: int, removed: tuple[int, str] | None, ended: str) -> None:
        """Check a writer that has no records."""
        if not self._whole:
            self._lacks_begin()
            return
        sealed = self._sealed.get(number)
        if number in self._gone or (removed and (sealed == removed or not ended)):
            self.report.removed += 1
        elif ended == "closed" or (sealed and sealed[0]) or (ended == "recovered" and not sealed):
            self.report.add_problem(f"writer {writer}: all its records are missing")

    def _lacks_begin(self) -> None:
        """Note that earlier records may be missing, unless the last line of an export names the first."""
        self.report.proves_begin = bool(self._named)

    def _check_tail(
        self, writer: str, chain: _Chain, sealed: tuple[int, str | None] | None, ended: str
    ) -> None:
        if sealed and sealed != (chain.last, chain.tip):
            self.report.add_problem(f"writer {writer}: its last records are missing or changed")
        if chain.closed is not None and chain.closed != chain.last:
            self.report.add_problem(
                f"writer {writer}: it wrote {chain.closed} records, but {chain.last} are present"
            )
        recorded = "closed" if chain.closed is not None else "recovered" if sealed else ""
        if ended != recorded and self._whole:
            self.report.add_problem(f"writer {writer}: the record of its end is missing")


def _place(document: JsonObject) -> str:
    return f"writer {document['writer']}, record {document['seq']}"


def _span(first: int, last: int) -> str:
    return f"record {first} is" if first == last else f"records {first} to {last} are"


def document_of(line: Mapping[str, Any]) -> JsonObject:
    """Return the hashed part of an exported record."""
    return {name: value for name, value in line.items() if name not in ("hash", "content")}


Progress = Callable[[int], None]
"""Called with the number of records, or bytes of a file, that were checked since the last call."""


def verify_database(
    database: Database, progress: Progress, expected: Iterable[tuple[str, Head]] = ()
) -> VerificationReport:
    """Verify all chains in a database, even while gateways write.

    `expected` are the writers' heads that were saved outside of the database. Raises database errors if it
    cannot be read.
    """
    checker, columns = Checker(whole=True, expected=expected), _Columns()
    with whole_view(database) as begin:
        for page in walk_rows(begin):
            for row in page.rows:
                _check_row(checker, columns, row, page.writers.get(row.writer, ""))
            progress(len(page.rows))
        with begin() as connection:
            registered = registrations(connection)
            if damage := _damage(connection, database):
                checker.report.add_problem(damage)
    ended = {each.number: each.ended for each in registered}
    return checker.finish([(each.document, each.hash) for each in registered], ended)


def _check_row(checker: Checker, columns: "_Columns", row: RecordRow, writer: str) -> None:
    """Check a stored record. What is hashed are the bytes that are stored, so nothing is encoded again."""
    own_hash = row.hash.hex()
    try:
        encoded = unpack_encoded(row.body)
        body = _value(encoded)
        content = None if row.content is None else sha256(unpack_encoded(row.content)).hexdigest()
    except ValueError as error:
        checker.unreadable(writer, row.seq, own_hash, str(error))
        return
    call, previous = row.id.hex(), row.previous.hex()
    expected = None if row.content_sha256 is None else row.content_sha256.hex()
    record = ChainRecord(writer, row.seq, row.at, row.type, call, previous, body, expected)
    document = record.document()
    computed = chain_hash(previous, {**document, "body": orjson.Fragment(encoded)})
    checker.hashed_record(document, own_hash, computed, content)
    if not columns.matches(row, call, body):
        checker.report.add_problem(f"{_place(document)}: its columns differ from its body")


def _value(encoded: bytes) -> JsonObject:
    """Return the value of a stored body, whose hash tells whether it was changed. Raises ValueError."""
    try:
        value = orjson.loads(encoded)
    except orjson.JSONDecodeError as error:
        raise ValueError(f"it cannot be read: {error}") from None
    if not isinstance(value, dict):
        raise ValueError("its body is not an object")
    return value


def count_records(database: Database, first: int = 0, end: int | None = None) -> int:
    """Return the approximate number of records from a position on and before `end`."""
    with database.engine.begin() as connection:
        bounds = position_bounds(connection)
    if bounds is None:
        return 0
    last = bounds[1] if end is None else min(bounds[1], end - 1)
    return last - max(first, bounds[0]) + 1


def verify_lines(
    lines: Iterable[bytes],
    progress: Progress,
    expected: Iterable[tuple[str, Head]] = (),
    check_signature: CheckSignature | None = None,
) -> VerificationReport:
    """Verify the chains in an exported file, which may contain only parts of them.

    With `check_signature`, its last line must be signed.
    """
    checker = Checker(whole=False, expected=expected, check_signature=check_signature)
    registered: dict[str, tuple[JsonObject, str]] = {}
    for number, line in enumerate(lines, 1):
        try:
            document = loads(line, depth=MAX_RECORD_DEPTH)
            _feed(checker, registered, document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            is_cut = isinstance(error, BodyError) and not line.endswith(b"\n")
            why = "the file ends within it" if is_cut else _describe_error(error)
            checker.report.add_problem(f"line {number}: it is not a record: {why}")
        progress(len(line))
    by_number = sorted(registered.values(), key=lambda pair: int(pair[0].get("number", 0)))
    return checker.finish(by_number, {})


def _describe_error(error: Exception) -> str:
    match error:
        case KeyError():
            return f"it has no {error}"
        case ValueError():
            return str(error)
        case _:
            return "one of its fields has the wrong type"


def _feed(checker: Checker, registered: dict[str, tuple[JsonObject, str]], line: JsonObject) -> None:
    if line["type"] == "heads":
        checker.heads(line)
    elif line["type"] == "writer":
        registered[line["writer"]] = document_of(line), line["hash"]
    else:
        checker.record(document_of(line), line["hash"], line.get("content"))


def _damage(connection: Connection, database: Database) -> str:
    """Return the damage that SQLite finds in its file, such as an incomplete index, or an empty string."""
    if not database.is_file:
        return ""
    result = connection.exec_driver_sql("PRAGMA integrity_check(1)").scalar()
    return "" if result == "ok" else f"the file is damaged: {result}"


class _Columns:
    """Checks the columns of records, which are not hashed and must agree with the records' bodies."""

    def __init__(self) -> None:
        self._open: dict[str, JsonObject] = {}

    def matches(self, row: RecordRow, call: str, body: JsonObject) -> bool:
        """Return True if the columns agree; for an end without its start only the outcome is compared."""
        if row.type == "start":
            self._open[call] = body
            return row.outcome is None
        outcome = body.get("outcome")
        if not outcome:
            return row.outcome is None
        start = body if row.type == "event" else self._open.pop(call, None)
        if start is None:
            return bool(row.outcome == outcome)
        return row.columns == entry_columns({**start, **body}, str(outcome))
