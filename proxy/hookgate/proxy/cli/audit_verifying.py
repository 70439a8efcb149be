"""`hookgate audit verify` and `accept-restore`: what is proved about records, and what a restore explains."""

import argparse
import contextlib
import gc
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from dataclasses import asdict
from pathlib import Path
from types import ModuleType

from hookgate.proxy.audit.changes import RecordOwnChange, operator_name
from hookgate.proxy.audit.heads import HEADS_FILE, CheckSignature, Head, load_heads
from hookgate.proxy.audit.verifying import (
    ACCEPTED,
    VerificationReport,
    count_records,
    verify_database,
    verify_lines,
)
from hookgate.proxy.cli.terminal import confirm, progress
from hookgate.proxy.errors import describe_os_error, pluralize
from hookgate.proxy.store.database import Database

_CHAINS = 20
"""The maximum number of chains to print one by one."""


def signatures_module() -> ModuleType:
    """Return the module for signatures. Raises ValueError if the package that it needs is missing."""
    try:
        from hookgate.proxy.audit import signatures  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise ValueError(
            f"signatures need a package that is missing ({error}); install hookgate with its extra signing"
        ) from None
    return signatures


def expected_heads(file: Path | None, check: CheckSignature | None = None) -> dict[str, Head]:
    """Return the heads in a file, or none without a file. Raises ValueError."""
    if file is None:
        return {}
    try:
        return load_heads(file, check)
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {describe_os_error(error)}; check the path") from None


def verified_database(
    database: Database, expected: dict[str, Head], state: Path, *, quiet: bool
) -> VerificationReport:
    """Verify a database, also against the heads in the state folder."""
    kept = state / HEADS_FILE
    own = load_heads(kept) if kept.exists() else {}  # before the records, as more may be written
    with progress("verifying", count_records(database), "records", quiet=quiet) as more, _no_collections():
        return verify_database(database, more, [*own.items(), *expected.items()])


@contextlib.contextmanager
def _no_collections() -> Iterator[None]:
    """Suspend the garbage collector, which would traverse the records of a page again and again."""
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def verified_file(
    file: Path, expected: dict[str, Head], check: CheckSignature | None, *, quiet: bool
) -> VerificationReport:
    """Verify a file. Raises ValueError if it cannot be read, or if it contains no records."""
    try:
        with (
            file.open("rb") as lines,
            progress("verifying", file.stat().st_size, "bytes", quiet=quiet) as more,
        ):
            report = verify_lines(lines, more, expected.items(), check)
    except OSError as error:
        raise ValueError(f"{file}: cannot be read: {describe_os_error(error)}; check the path") from None
    if not report.records and not report.writers:
        raise ValueError(f"{file}: contains no records; create an export with: hookgate audit export > FILE")
    return report


def _conclusion(report: VerificationReport) -> str:
    """Return what is proved about records without problems, and what is not."""
    match report.proves_begin, report.proves_end:
        case True, True:
            return f"nothing {'else ' if report.accepted else ''}is missing or changed"
        case True, False:
            span, other, limit = "up to the last one", "later", "end (see: hookgate audit heads)"
        case False, True:
            span, other, limit = "from the first one on", "earlier", "begin (the last line of an export does)"
        case _:
            span, other = "between the first and the last one", "earlier or later"
            limit = "begin and end (see: hookgate audit heads)"
    return (
        f"none is changed, and of each writer, none is missing {span}; whether {other} ones are missing is "
        f"not proved, because nothing says where the records {limit}"
    )


def print_verification(report: VerificationReport) -> int:
    """Print the report. Returns 1 if records are missing or changed, else 0."""
    for problem in report.problems:
        print(problem)
    if report.more:
        print(f"and {report.more} more")
    if report.removed:
        of = pluralize(report.removed, "writer")
        print(f"Of {of}, retention has removed the first records; the others continue the chain.")
    if report.without_content:
        of = pluralize(report.without_content, "record")
        print(f"The content of {of} was removed, which the audit has recorded.")
    for gap in report.accepted:
        print(f"{gap}.")
    if report.running and report.proves_end:
        print(f"{pluralize(report.running, 'call has', 'calls have')} not ended yet.")
    elif report.running:
        print(f"{pluralize(report.running, 'call has', 'calls have')} no end among these records.")
    for chain in report.chains[-_CHAINS:]:
        print(f"{chain}.")
    if len(report.chains) > _CHAINS:
        print(f"{pluralize(len(report.chains) - _CHAINS, 'more writer')} before these.")
    what = _conclusion(report) if report.sound else "records are missing or changed"
    print(f"{pluralize(report.records, 'record')} of {pluralize(report.writers, 'writer')}: {what}.")
    return 0 if report.sound else 1


_NOT_EXPLAINED = "a restore does not explain this, so nothing was accepted"

OpenChain = Callable[[str], AbstractContextManager[RecordOwnChange]]
"""Opens a chain for the changes that somebody, who is named, makes with a command."""


def accept_restore(report: VerificationReport, open_chain: OpenChain | None, args: argparse.Namespace) -> int:
    """Record that somebody accepts what is missing after a restore. Returns the exit code.

    Only last records can be accepted: those that were written after the backup. Raises ValueError without a
    chain, in which it would be recorded.
    """
    if not report.is_earlier_state:
        code = print_verification(report)
        what = (
            "a restore does not explain this, so nothing was accepted"
            if code
            else "there is nothing to accept"
        )
        print(f"hookgate: {what}", file=sys.stderr)
        return code
    if open_chain is None:
        raise ValueError("what is missing must be recorded; set audit.enabled = true")
    gaps = report.gaps()
    for gap in gaps:
        print(f"{gap}.")
    if not confirm("Accept that these records are missing, because the audit was restored?", yes=args.yes):
        print("Nothing was accepted.", file=sys.stderr)
        return 1
    with open_chain(operator_name(args.by)) as record:
        record(ACCEPTED, gaps=[asdict(gap) for gap in gaps])
    print("Accepted. `hookgate audit verify` reports it from now on.")
    return 0
