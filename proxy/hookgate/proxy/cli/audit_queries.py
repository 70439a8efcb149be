"""`hookgate audit list` and `report`: find calls by a query, and sum them up."""

import argparse
import json
import sys

from hookgate.hooks.timestamps import utc_text
from hookgate.proxy.audit.index.building import CallIndex
from hookgate.proxy.audit.index.query import WORD_HELP, Query, parse_query
from hookgate.proxy.audit.index.reporting import Reports, report_fields
from hookgate.proxy.audit.index.searching import CallSearch, FoundPlace, parse_place
from hookgate.proxy.audit.listing import NO_CALL, call_fields, found_pages, write_csv
from hookgate.proxy.audit.reading import AuditReader
from hookgate.proxy.cli.tables import print_calls, print_report
from hookgate.proxy.cli.terminal import progress
from hookgate.proxy.store.database import Database


def run_query(records: Database, index: CallIndex, args: argparse.Namespace) -> int:
    """Run `list` or `report`, and return the exit code. Raises ValueError for a query, or database errors."""
    flags = {name: value for name in WORD_HELP if (value := getattr(args, name)) is not None}
    try:
        query = parse_query(args.query, flags)
    except ValueError as error:
        is_flag = str(error).partition(":")[0] in flags
        raise ValueError(f"--{error}" if is_flag else str(error)) from None
    if args.json and args.csv:
        raise ValueError("--csv: cannot be given together with --json; use either")
    bring_up_to_date(index, quiet=args.quiet)
    if args.audit_command == "report":
        return _report(index, query, args)
    return _list(records, index, query, args)


def bring_up_to_date(index: CallIndex, *, quiet: bool) -> None:
    """Index what is not indexed yet, and show the progress."""
    left = index.backlog()
    with progress("indexing", left, "records", quiet=quiet) as more:
        while not index.update(_SHOWN_SECONDS):
            done = index.backlog()
            more(left - done)
            left = done


_SHOWN_SECONDS = 0.5


def _list(records: Database, index: CallIndex, query: Query, args: argparse.Namespace) -> int:
    place = _place(args.before)
    reader, search = AuditReader(records), CallSearch(index)
    limit = None if args.all else args.limit
    pages = found_pages(reader, search, query, place, limit)
    if args.csv:
        rows = (call_fields(call).values() for calls, _ in pages for call in calls)
        write_csv([*call_fields(NO_CALL)], rows, sys.stdout)
        return 0
    head = True
    for calls, end in pages:
        print_calls(calls, as_json=args.json, head=head)
        head, place = False, end
    if head:
        print_calls([], as_json=args.json)
        print(f"hookgate: {_nothing_found(index, query)}", file=sys.stderr)
    if limit is not None and not head and search.places(query, 1, place):
        print(f"hookgate: there are more; list those that follow with --before {place}", file=sys.stderr)
    return 0


def _nothing_found(index: CallIndex, query: Query) -> str:
    """Return a line about a query that finds nothing: what was searched, and what is there."""
    known = CallSearch(index).known_times()
    if known is None:
        return "no calls are recorded yet; a call is found once it has ended"
    words = ", ".join([*query.names, *query.amounts])
    since, until = (
        None if at is None else utc_text(at / 1000, "seconds") for at in (query.since, query.until)
    )
    time = f"from {since or 'the beginning'} until {until or 'now'}"
    first, last = (utc_text(at / 1000, "seconds") for at in known)
    found = f"no calls found {time}{f', with {words}' if words else ''}"
    return f"{found}; the calls that are recorded ended from {first} to {last}"


def _report(index: CallIndex, query: Query, args: argparse.Namespace) -> int:
    try:
        report = Reports(index).report(query, args.group_by.split(","), args.limit)
    except ValueError as error:
        raise ValueError(str(error).replace("by:", "--group-by:", 1)) from None
    if args.json:
        print(json.dumps(report_fields(report), ensure_ascii=False))
    elif args.csv:
        write_csv([*report.by, *report.columns], report.rows, sys.stdout)
    else:
        print_report(report)
    return 0


def _place(text: str | None) -> FoundPlace | None:
    if text is None:
        return None
    try:
        return parse_place(text)
    except ValueError:
        raise ValueError(
            f"--before: {text!r} is not a place; use the one that the page before has printed"
        ) from None
