"""`hookgate audit list | show | tail | export | heads | verify`: what is on record, and proof of it."""

import argparse
import asyncio
import sys
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import BinaryIO, get_args

from hookgate.proxy.audit.chain import canonical
from hookgate.proxy.audit.heads import HEADS_FILE, Head, heads_document, load_heads, read_heads
from hookgate.proxy.audit.jsonl import exported, registration_line
from hookgate.proxy.audit.places import around
from hookgate.proxy.audit.proving import count_records, verify_database, verify_lines
from hookgate.proxy.audit.reading import Filter, Reading
from hookgate.proxy.audit.report import Report
from hookgate.proxy.audit.stored import Stored, registrations, walk
from hookgate.proxy.config import read_config
from hookgate.proxy.managing.audit_tables import print_call, print_calls
from hookgate.proxy.managing.progress import progress
from hookgate.proxy.managing.receipts import checked
from hookgate.proxy.records.record import Outcome
from hookgate.proxy.sources import sources_of
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.store.database import AUDIT_FILE, FAILURES, Database, open_audit, reason
from hookgate.proxy.wording import counted, why

_TAIL = 10
_CHAINS = 20
"""Chains that are told one by one."""
_LOOK_SECONDS = 0.5
_UNITS = {"m": "minutes", "h": "hours", "d": "days"}


async def run(given: argparse.Namespace) -> int:  # noqa: PLR0911  # one for each command
    """Run one command. Raises ValueError (StoreError among them) or OSError with what is wrong."""
    if given.audit_command == "verify" and given.file is not None:
        return _told(_verified_file(given.file, _expected(given.expect)))
    config = read_config(vars(given)).config
    state = sources_of(config.hooks).state
    url = Store(config.store, state).url()
    if url is None and not (state / AUDIT_FILE).exists():
        raise StoreError(f"there is no audit in {state}; name the gateway's folder with --state")
    database = open_audit(url, state, writes=False)
    try:
        match given.audit_command:
            case "list":
                return _list(database, given)
            case "show":
                return _show(database, given)
            case "tail":
                return await _tail(database, given)
            case "export":
                return export(database, moment(given.since), moment(given.until), sys.stdout.buffer)
            case "heads":
                return _heads(database)
            case _:
                return _verify(database, _expected(given.expect), state)
    except FAILURES as error:
        raise StoreError(f"the audit {database.name} cannot be read: {reason(error)}") from None
    finally:
        database.close()


def moment(text: str | None) -> int | None:
    """A time, or how long ago, in milliseconds since 1970. Raises ValueError."""
    if text is None:
        return None
    if text[:-1].isdecimal() and text[-1] in _UNITS:
        when = datetime.now(UTC) - timedelta(**{_UNITS[text[-1]]: int(text[:-1])})
    else:
        try:
            when = datetime.fromisoformat(text)
        except ValueError:
            raise ValueError(f"{text!r} is no time; write 2026-05-04T10:00Z, 90m, 12h or 7d") from None
    return int((when if when.tzinfo else when.astimezone()).timestamp() * 1000)


def _list(database: Database, given: argparse.Namespace) -> int:
    outcomes = get_args(Outcome)
    if given.outcome and given.outcome not in outcomes:
        raise ValueError(f"--outcome: no call ends {given.outcome!r}; use one of {', '.join(outcomes)}")
    wanted = Filter(given.session, given.key, given.model, given.outcome, moment(given.since))
    print_calls(Reading(database).calls(wanted, given.limit), as_json=given.json)
    return 0


def _show(database: Database, given: argparse.Namespace) -> int:
    detail = Reading(database).call(checked(given.id))
    if detail is None:
        print(f"hookgate: there is no record of {given.id}", file=sys.stderr)
        return 1
    print_call(detail, as_json=given.json)
    return 0


async def _tail(database: Database, given: argparse.Namespace) -> int:
    reading = Reading(database)
    calls = reading.calls(Filter(), _TAIL)[::-1]
    position = calls[-1].position if calls else 0
    print_calls(calls, as_json=given.json)
    while given.follow:
        await asyncio.sleep(_LOOK_SECONDS)
        if calls := reading.after(position):
            position = calls[-1].position
            print_calls(calls, as_json=given.json, head=False)
    return 0


def export(database: Database, since: int | None, until: int | None, out: BinaryIO) -> int:
    """Write all writers and the records of a time, as lines of JSON; the last says which these are."""
    heads: dict[str, Head] = {}
    with database.engine.begin() as connection:
        first = around(connection, since) if since is not None else 0
        for number, document, own, _ in registrations(connection):
            heads[str(document.get("writer"))] = Head(number, own, 0, 0, own)
            out.write(registration_line(document))
    if first is None:
        out.write(canonical(heads_document(heads)) + b"\n")
        out.flush()
        return 0
    with progress("exporting", count_records(database)) as more:
        for page in walk(database, first):
            for stored in page:
                if (since is None or stored.record.at >= since) and (
                    until is None or stored.record.at < until
                ):
                    out.write(exported(stored))
                    _note(heads, stored)
            more(len(page))
    out.write(canonical(heads_document(heads)) + b"\n")
    out.flush()
    return 0


def _note(heads: dict[str, Head], stored: Stored) -> None:
    """Note that a record was exported. Writers that came meanwhile have no registration in the export."""
    known = heads.get(stored.record.writer)
    if known is not None:
        first, seq = known.first or stored.record.seq, stored.record.seq
        heads[stored.record.writer] = replace(known, first=first, seq=seq, hash=stored.hash)


def _expected(file: Path | None) -> dict[str, Head]:
    """The heads that were printed before. Raises ValueError."""
    if file is None:
        return {}
    try:
        return load_heads(file)
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {why(error)}; check the path") from None


def _heads(database: Database) -> int:
    with database.engine.begin() as connection:
        print(canonical(heads_document(read_heads(connection))).decode())
    return 0


def _verify(database: Database, expected: dict[str, Head], state: Path) -> int:
    kept = state / HEADS_FILE
    own = load_heads(kept) if kept.exists() else {}  # before the records, which go on meanwhile
    with progress("verifying", count_records(database)) as more:
        report = verify_database(database, more, [*own.items(), *expected.items()])
    return _told(report)


def _verified_file(file: Path, expected: dict[str, Head]) -> Report:
    """Raises ValueError for a file that cannot be read, and for one of something else."""
    try:
        with file.open("rb") as lines, progress("verifying", file.stat().st_size) as more:
            report = verify_lines(lines, more, expected.items())
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {why(error)}; check the path") from None
    if not report.records and not report.writers:
        raise ValueError(f"{file}: holds no record; make an export with: hookgate audit export > FILE")
    return report


def _told(report: Report) -> int:
    """Print what was found; 1 when something is wrong."""
    for problem in report.problems:
        print(problem)
    if report.more:
        print(f"and {report.more} more")
    if report.removed:
        of = counted(report.removed, "writer")
        print(f"Of {of}, retention has removed the first records; the rest joins on.")
    if report.running:
        print(f"{counted(report.running, 'call has', 'calls have')} not ended yet.")
    for chain in report.chains[-_CHAINS:]:
        print(f"{chain}.")
    if len(report.chains) > _CHAINS:
        print(f"{counted(len(report.chains) - _CHAINS, 'earlier writer')} more.")
    if report.partial:
        print("Nothing outside of these records says where they have to begin and end; see: audit heads.")
    what = "nothing is missing or changed" if report.sound else "records are missing or changed"
    print(f"{counted(report.records, 'record')} of {counted(report.writers, 'writer')}: {what}.")
    return 0 if report.sound else 1
