"""`hookgate audit ...`: lists, shows, follows, exports and verifies the records of the audit."""

import argparse
import asyncio
import sys
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from hookgate.proxy.audit.chain import canonical_json
from hookgate.proxy.audit.changes import recording_changes
from hookgate.proxy.audit.erasing import removals_of_content
from hookgate.proxy.audit.heads import (
    Head,
    SignHeads,
    heads_document,
    read_heads,
)
from hookgate.proxy.audit.index.building import CallIndex, open_index
from hookgate.proxy.audit.index.searching import CallSearch
from hookgate.proxy.audit.index.times import moment
from hookgate.proxy.audit.jsonl import registration_line, stored_record_line
from hookgate.proxy.audit.reading import AuditReader, NewCalls
from hookgate.proxy.audit.recovery import save_journals
from hookgate.proxy.audit.stored import (
    StoredRecord,
    after_time,
    around_time,
    registrations,
    walk_records,
    whole_view,
)
from hookgate.proxy.audit.verifying import (
    count_records,
)
from hookgate.proxy.cli.audit_queries import bring_up_to_date, run_query
from hookgate.proxy.cli.audit_verifying import (
    accept_restore,
    expected_heads,
    print_verification,
    signatures_module,
    verified_database,
    verified_file,
)
from hookgate.proxy.cli.tables import print_call, print_calls, print_changes
from hookgate.proxy.cli.terminal import progress
from hookgate.proxy.config import read_config
from hookgate.proxy.config.reading import find_sources
from hookgate.proxy.store import Store, StoreError
from hookgate.proxy.store.database import AUDIT_FILE, FAILURES, Database, open_audit, reason

_TAIL = 10
_CHAINS = 20
"""The maximum number of chains to print one by one."""
_POLL_SECONDS = 0.5


async def run_audit(args: argparse.Namespace) -> int:
    """Run one command and return its exit code. Raises ValueError (such as StoreError) or OSError."""
    if args.audit_command == "verify":
        check = None if args.public_key is None else signatures_module().file_checker(args.public_key)
        expected = expected_heads(args.expect, check)
        if args.file is not None:
            return print_verification(verified_file(args.file, expected, check, quiet=args.quiet))
        if check is not None and args.expect is None:
            raise ValueError("--public-key needs the file that is signed: an export, or heads with --expect")
    config = read_config(vars(args)).config
    state = find_sources(config.hooks).state
    url = Store(config.store, state).url()
    if url is None and not (state / AUDIT_FILE).exists():
        raise StoreError(f"there is no audit in {state}; name the gateway's folder with --state")
    database = open_audit(url, state, writes=False)
    try:
        _save_journals(database, state)
        match args.audit_command:
            case "verify":
                return print_verification(verified_database(database, expected, state, quiet=args.quiet))
            case "accept-restore":
                expected = expected_heads(args.expect)
                report = verified_database(database, expected, state, quiet=args.quiet)
                chain = partial(recording_changes, config.audit, url, state)
                code = accept_restore(report, chain if config.audit.enabled else None, args)
                with open_index(database, url, state) as index:
                    index.clear()  # it may contain calls that are missing now
                return code
            case "list" | "report" | "changes":
                with open_index(database, url, state) as index:
                    is_query = args.audit_command != "changes"
                    return (run_query if is_query else _list_changes)(database, index, args)
            case _:
                return await _run_on_records(database, args)
    except FAILURES as error:
        raise StoreError(f"the audit {database.name} cannot be read: {reason(error)}") from None
    finally:
        database.close()


async def _run_on_records(database: Database, args: argparse.Namespace) -> int:
    """Run a command that needs nothing but the records."""
    match args.audit_command:
        case "show":
            return _show(database, args)
        case "tail":
            return await _tail(database, args)
        case "export":
            until = parse_moment(args.until, "--until")
            since, out = parse_moment(args.since), sys.stdout.buffer
            return export_records(database, since, until, out, _signer(args), quiet=args.quiet)
        case _:
            return _heads(database, _signer(args))


def _save_journals(database: Database, state: Path) -> None:
    """Move the records of gateways that died to the database, or warn that they are missing there."""
    try:
        save_journals(database, state)
    except (StoreError, OSError, *FAILURES) as error:
        print(
            f"warning: the last records of a gateway that died are left out: {reason(error)}", file=sys.stderr
        )


def parse_moment(text: str | None, flag: str = "--since") -> int | None:
    """Convert a time such as `12h` or `yesterday 22:00` to milliseconds since 1970. Raises ValueError."""
    if text is None:
        return None
    try:
        return moment(text, None, datetime.now(UTC))
    except ValueError as error:
        raise ValueError(f"{flag}: {error}") from None


def _list_changes(database: Database, index: CallIndex, args: argparse.Namespace) -> int:
    since = parse_moment(args.since)
    bring_up_to_date(index, quiet=args.quiet)
    positions = CallSearch(index).changes(since, args.limit)
    changes = AuditReader(database).changes_at(positions)
    print_changes(changes, as_json=args.json)
    if not changes:
        print("hookgate: no changes are recorded for this time", file=sys.stderr)
    return 0


def _show(database: Database, args: argparse.Namespace) -> int:
    reader = AuditReader(database)
    receipt = reader.whole_id(args.id)
    detail = None if receipt is None else reader.call(receipt)
    if detail is None:
        print(f"hookgate: there is no record of the call {args.id}", file=sys.stderr)
        return 1
    print_call(detail, as_json=args.json)
    return 0


async def _tail(database: Database, args: argparse.Namespace) -> int:
    new = NewCalls(database)
    calls = AuditReader(database).calls(_TAIL)[::-1]
    print_calls(calls, as_json=args.json)
    shown = {call.position for call in calls}
    while args.follow:
        await asyncio.sleep(_POLL_SECONDS)
        if calls := [call for call in new.read() if call.position not in shown]:
            print_calls(calls, as_json=args.json, head=False)
    return 0


def _signer(args: argparse.Namespace) -> SignHeads | None:
    if args.sign_key is None and args.sign_command is None:
        return None
    signatures = signatures_module()
    sign: SignHeads = (
        signatures.program_signer(args.sign_command)
        if args.sign_key is None
        else signatures.file_signer(args.sign_key)
    )
    return sign


def export_records(  # noqa: PLR0913  # the flags of the command
    database: Database,
    since: int | None,
    until: int | None,
    out: BinaryIO,
    sign: SignHeads | None = None,
    *,
    quiet: bool = True,
) -> int:
    """Write all writers, and the records from `since` until `until`, as lines of JSON.

    Times are in milliseconds since 1970. The last line contains the heads of the exported chains, with a
    signature if `sign` is given.
    """
    heads: dict[str, Head] = {}
    with whole_view(database) as begin:
        with begin() as connection:
            first = around_time(connection, since) if since is not None else 0
            end = after_time(connection, until) if until is not None else None
            for each in registrations(connection):
                heads[str(each.document.get("writer"))] = Head(each.number, each.hash, 0, 0, each.hash)
                out.write(registration_line(each.document))
        lacks_content = False
        if first is not None:
            with progress("exporting", count_records(database, first, end), "records", quiet=quiet) as more:
                for page in walk_records(begin, first, end):
                    for stored in page:
                        if (since is None or stored.record.at >= since) and (
                            until is None or stored.record.at < until
                        ):
                            _write(heads, stored, out)
                            lacks_content |= (
                                stored.content is None and stored.record.content_sha256 is not None
                            )
                    more(len(page))
        if lacks_content and until is not None:  # they show that it was removed, and nobody has tampered
            with begin() as connection:
                for stored in removals_of_content(connection, until):
                    _write(heads, stored, out)
    out.write(_heads_line(heads, sign) + b"\n")
    out.flush()
    return 0


def _heads_line(heads: Mapping[str, Head], sign: SignHeads | None) -> bytes:
    document = heads_document(heads)
    return canonical_json(document if sign is None else sign(document))


def _write(heads: dict[str, Head], stored: StoredRecord, out: BinaryIO) -> None:
    """Write a record, and note that. Records of writers that have registered since are not in the export."""
    known = heads.get(stored.record.writer)
    if known is not None:
        out.write(stored_record_line(stored))
        first, seq = known.first or stored.record.seq, stored.record.seq
        heads[stored.record.writer] = replace(known, first=first, seq=seq, hash=stored.hash)


def _heads(database: Database, sign: SignHeads | None) -> int:
    with database.engine.begin() as connection:
        heads = read_heads(connection)
    print(_heads_line(heads, sign).decode())
    return 0
