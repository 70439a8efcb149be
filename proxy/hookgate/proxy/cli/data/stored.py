"""What is stored about a person, by kind: rows of tables, transcripts, and the content of calls."""

import json
import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self

from sqlalchemy import ColumnElement, Table, delete, func, or_, select, tuple_

from hookgate.hooks.policies.counters import MEASURES
from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.erasing import FoundRecord, erase_content, records_of_key, whole_records
from hookgate.proxy.audit.journal import FOLDER
from hookgate.proxy.audit.ledger import Ledger
from hookgate.proxy.audit.recovery import save_journals
from hookgate.proxy.audit.verifying import count_records
from hookgate.proxy.cli.terminal import progress
from hookgate.proxy.config.values import key_name
from hookgate.proxy.sessions.table import mark_everything
from hookgate.proxy.store.database import (
    ALERTS_FILE,
    APPROVALS_FILE,
    AUDIT_FILE,
    FILE,
    INDEX_FILE,
    KEYS_FILE,
    PANEL_FILE,
    SESSIONS_FILE,
    Database,
    open_alerts,
    open_approvals,
    open_audit,
    open_audit_index,
    open_database,
    open_keys,
    open_panel_sessions,
    open_sessions,
)
from hookgate.proxy.store.models import (
    accepted_keys,
    alert_deliveries,
    alerts,
    approvals,
    audit_names,
    counters,
    interactions,
    issued_key_usage,
    issued_keys,
    panel_sessions,
    session_effects,
    session_names,
    sessions,
)
from hookgate.translator.fields import JsonObject

_BATCH = 200
"""Rows that are removed in one transaction: calls wait for it."""


@dataclass(frozen=True, slots=True)
class DataSubject:
    """Whose data it is: the name of a key, which is the owner of issued keys, and the IDs of these."""

    name: str
    key_ids: tuple[str, ...] = ()

    @property
    def is_key_name(self) -> bool:
        """Whether callers can have the name; people in the panel may have others."""
        try:
            return bool(re.fullmatch(r"[0-9a-f]{24}", self.name) or key_name(self.name))
        except ValueError:
            return False


class Kind(Protocol):
    """One kind of what is stored about a person. Methods raise database errors, StoreError and OSError."""

    @property
    def name(self) -> str:
        """Its name in the output."""

    @property
    def erasable(self) -> bool:
        """Whether it can be erased."""

    def count(self) -> int:
        """Return how much of it there is."""

    def documents(self) -> Iterator[JsonObject]:
        """Yield it as documents for an export."""

    def erase(self, ledger: Ledger | None) -> Iterator[int]:
        """Erase it in portions, and yield how much each of these was, once it is gone.

        `ledger` is the command's chain, if there is an audit.
        """


@dataclass(frozen=True, slots=True)
class PersonalRows:
    """Rows of a table."""

    name: str
    database: Database
    table: Table
    condition: ColumnElement[bool]
    hidden: tuple[str, ...] = ()
    """Columns that an export leaves out."""
    after: Callable[[], None] = lambda: None
    """What to call after rows were erased."""
    erasable: bool = True

    def count(self) -> int:
        query = select(func.count()).select_from(self.table).where(self.condition)
        with self.database.reading.begin() as connection:
            return int(connection.execute(query).scalar_one())

    def documents(self) -> Iterator[JsonObject]:
        shown = [column for column in self.table.columns if column.name not in self.hidden]
        with self.database.reading.begin() as connection:
            rows = connection.execute(select(*shown).where(self.condition)).mappings().all()
        for row in rows:
            yield {name: _readable(value) for name, value in row.items()}

    def erase(self, ledger: Ledger | None) -> Iterator[int]:
        keys = tuple(self.table.primary_key.columns)
        some = select(*keys).where(self.condition).limit(_BATCH)
        statement = delete(self.table).where(tuple_(*keys).in_(some))
        erased, gone = 0, _BATCH
        try:
            while gone == _BATCH:
                with self.database.writing.begin() as connection:
                    if self.database.is_file:  # overwrite them in the file
                        connection.exec_driver_sql("PRAGMA secure_delete = ON")
                    gone = connection.execute(statement).rowcount
                erased += gone
                yield gone
        finally:
            if erased:
                self.after()
                self.database.wipe_log()


def _readable(value: Any) -> Any:
    """Return a column's value for JSON: stored documents as they are, other bytes in hex."""
    if not isinstance(value, bytes):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value.hex()


class TranscriptFiles:
    """The files in the folder of a key's transcripts."""

    name, erasable = "transcripts", True

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def count(self) -> int:
        return len(self._files())

    def documents(self) -> Iterator[JsonObject]:
        for file in self._files():
            yield {"file": file.name, "text": file.read_text(errors="replace")}

    def erase(self, ledger: Ledger | None) -> Iterator[int]:
        for file in self._files():
            file.unlink(missing_ok=True)
            yield 1

    def _files(self) -> list[Path]:
        return sorted(file for file in self._folder.glob("*.jsonl*") if file.is_file())


class Records:
    """The records of calls in the audit. They are chained, so they stay until retention removes them."""

    name, erasable = "records", False

    def __init__(self, database: Database, key: str, *, quiet: bool) -> None:
        """`key` is the name of the key that made the calls. Progress is shown unless `quiet` is true."""
        self._database, self._key, self._quiet = database, key, quiet

    def count(self) -> int:
        return sum(map(len, self._found()))

    def documents(self) -> Iterator[JsonObject]:
        for found in self._found():
            for stored in whole_records(self._database, found):
                record = stored.record
                about = {"id": record.id, "at": utc_text(record.at / 1000), "type": record.type}
                content = {} if stored.content is None else {"content": stored.content}
                yield {**about, "body": record.body, **content}

    def erase(self, ledger: Ledger | None) -> Iterator[int]:
        return iter(())

    def _found(self) -> Iterator[list[FoundRecord]]:
        with progress("searching", count_records(self._database), "records", quiet=self._quiet) as more:
            yield from records_of_key(self._database, self._key, more)


class ErasableContents(Records):
    """The content of calls, which is stored apart from their records."""

    name, erasable = "contents", True

    def count(self) -> int:
        return sum(each.has_content for found in self._found() for each in found)

    def documents(self) -> Iterator[JsonObject]:
        return iter(())  # those of the records contain it

    def erase(self, ledger: Ledger | None) -> Iterator[int]:
        if ledger is None:  # it could not be recorded
            return
        erased = False
        for found in self._found():
            for count in erase_content(ledger, [each.place for each in found if each.has_content]):
                erased = erased or count > 0
                yield count
        if erased:
            self._database.wipe_log()


_Open = Callable[[str | None, Path], Database]

_OPEN: Mapping[str, _Open] = {
    KEYS_FILE: open_keys,
    SESSIONS_FILE: open_sessions,
    FILE: open_database,
    PANEL_FILE: open_panel_sessions,
    AUDIT_FILE: lambda url, state: open_audit(url, state, writes=False),
    INDEX_FILE: open_audit_index,
    ALERTS_FILE: open_alerts,
    APPROVALS_FILE: open_approvals,
}


class PersonalData:
    """Everything that is stored about people, in the databases and the folder of a gateway."""

    def __init__(self, url: str | None, state: Path, transcripts: Path, *, quiet: bool) -> None:
        """Databases are at the URL, or else files in the state folder. Missing files are not created."""
        self._url, self._state, self._transcripts, self._quiet = url, state, transcripts, quiet
        self._databases: dict[str, Database] = {}
        self._stack = ExitStack()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def person(self, name: str) -> DataSubject:
        """Return the person with a name, which may also be the ID of one of their issued keys."""
        database = self._database(KEYS_FILE)
        if database is None:
            return DataSubject(name)
        owner, key_id = issued_keys.c.owner, issued_keys.c.id
        with database.reading.begin() as connection:
            query = select(owner, key_id).where(or_(owner == name, key_id == name))
            found = connection.execute(query).all()
            if found and all(row.owner != name for row in found):
                name = found[0].owner
            ids = connection.execute(select(key_id).where(owner == name).order_by(key_id)).scalars()
            return DataSubject(name, tuple(ids))

    def kinds(self, person: DataSubject) -> list[Kind]:
        """Return the kinds of data about a person, in the order in which they are to be erased."""
        kinds: list[Kind] = [*self._rows(person)]
        if person.is_key_name:
            kinds.append(TranscriptFiles(self._transcripts / person.name))
        if (audit := self._database(AUDIT_FILE)) is not None:
            kinds += [kind(audit, person.name, quiet=self._quiet) for kind in (ErasableContents, Records)]
        return kinds

    def save_journals(self) -> None:
        """Move records that gateways left in their journals to the database, where they can be found."""
        if (audit := self._database(AUDIT_FILE)) is not None:
            save_journals(audit, self._state)

    def journals(self) -> int:
        """Return how many journals have records, which are found once they are in the database."""
        return sum(file.stat().st_size > 0 for file in (self._state / FOLDER).glob("*.journal"))

    def _rows(self, person: DataSubject) -> Iterator[PersonalRows]:
        name, ids = person.name, person.key_ids
        if (keys := self._database(KEYS_FILE)) is not None:
            yield PersonalRows("key_usage", keys, issued_key_usage, issued_key_usage.c.key.in_(ids))
            secret = ("hash", "previous_hash", "pepper")
            yield PersonalRows("keys", keys, issued_keys, issued_keys.c.owner == name, secret)
        if (stored := self._database(SESSIONS_FILE)) is not None:
            for kind, table in (
                ("session_effects", session_effects),
                ("session_names", session_names),
                ("sessions", sessions),
                ("accepted_keys", accepted_keys),
            ):
                yield PersonalRows(kind, stored, table, table.c.key == name, after=self._mark_sessions)
        if (shared := self._database(FILE)) is not None:
            yield PersonalRows("interactions", shared, interactions, interactions.c.key == name)
            yield PersonalRows("counts", shared, counters, _counted_for(person, is_file=shared.is_file))
        if (panel := self._database(PANEL_FILE)) is not None:
            signed_in = (panel_sessions.c.name == name) | (panel_sessions.c.subject == name)
            yield PersonalRows("panel_sessions", panel, panel_sessions, signed_in, ("digest", "proof"))
        if (told := self._database(ALERTS_FILE)) is not None:
            contains = _contains(is_file=told.is_file)
            of_person = contains(alerts.c.subject, json.dumps(name)) > 0
            yield PersonalRows("alerts", told, alerts, of_person)
            groups = (f"{json.dumps(field)}: {json.dumps(name)}" for field in ("key", "owner"))
            messages = or_(*(contains(alert_deliveries.c.document, group) > 0 for group in groups))
            yield PersonalRows("alert_messages", told, alert_deliveries, messages)
        if (asked := self._database(APPROVALS_FILE)) is not None:
            yield PersonalRows("approvals", asked, approvals, approvals.c.key == name, ("digest",))
        if (index := self._database(INDEX_FILE)) is not None:
            names = audit_names.c.field.in_(("key", "owner")) & (audit_names.c.name == name)
            yield PersonalRows("index_names", index, audit_names, names, erasable=False)

    def _mark_sessions(self) -> None:
        """Have running gateways read sessions again."""
        if self._url is None:
            mark_everything(self._state)

    def _database(self, file: str) -> Database | None:
        """Return a database, or None if its file does not exist."""
        if file not in self._databases:
            if self._url is None and not (self._state / file).exists():
                return None
            database = self._databases[file] = _OPEN[file](self._url, self._state)
            self._stack.callback(database.close)
        return self._databases[file]


def _contains(*, is_file: bool) -> Callable[..., ColumnElement[int]]:
    """Return the function for the position of a text in a column; LIKE ignores case in SQLite."""
    return func.instr if is_file else func.strpos


def _counted_for(person: DataSubject, *, is_file: bool) -> ColumnElement[bool]:
    """Return the condition for counters of limits by key or session, whose keys are lists in JSON."""
    position = _contains(is_file=is_file)
    lists = [
        json.dumps([measure, per, key], separators=(",", ":"))[:-1] + ","
        for measure in MEASURES
        for per in ("key", "session")
        for key in (person.name, *(f"issued:{key_id}" for key_id in person.key_ids))
    ]
    return or_(*(position(counters.c.key, text) > 0 for text in lists))
