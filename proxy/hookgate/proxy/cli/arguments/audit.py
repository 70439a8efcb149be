"""The arguments of `hookgate audit ...`."""

import argparse
from pathlib import Path

from hookgate.proxy.audit.index.query import GROUP_FIELDS, WORD_HELP
from hookgate.proxy.audit.index.times import EXAMPLES
from hookgate.proxy.cli.flags import (
    CommandParser,
    add_by_flag,
    add_command,
    add_json_flag,
    add_quiet_flag,
    add_state_flags,
    add_yes_flag,
    whole_number,
)

_WHEN = f"such as {EXAMPLES}"


def add_audit(parser: CommandParser) -> None:
    """Add every command to `hookgate audit`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="audit_command")
    listed = add_command(
        commands,
        "list",
        "find calls and events that have ended, the newest first",
        "hookgate audit list outcome:denied since:yesterday",
        "hookgate audit list --team web --since 7d --sort cost --json",
    )
    _add_query(listed)
    _add_limit(listed)
    listed.add_argument("--all", action="store_true", help="list all calls that are found")
    listed.add_argument(
        "--before", metavar="PLACE", help="list the page that follows the one that ended there"
    )
    report = add_command(
        commands,
        "report",
        "sum up calls, tokens and cost by team, model, hook, day and more",
        "hookgate audit report --group-by team,owner since:30d sort:cost",
        "hookgate audit report --group-by day,model since:30d --csv > usage.csv",
    )
    _add_query(report)
    report.add_argument(
        "--group-by",
        default="team",
        metavar="GROUP",
        help=f"one or several of {', '.join(GROUP_FIELDS)}, separated by commas (default: team)",
    )
    _add_limit(report)
    for command in (listed, report):
        command.add_argument("--csv", action="store_true", help="print CSV, for spreadsheets")
    shown = add_command(
        commands,
        "show",
        "show everything that is recorded about one call",
        "hookgate audit show 8f0c41d2",
    )
    shown.add_argument(
        "id",
        metavar="ID",
        help="the receipt's ID, from the answer's header x-hookgate-receipt, or its first digits",
    )
    tail = add_command(commands, "tail", "show the latest calls", "hookgate audit tail --follow")
    tail.add_argument("-f", "--follow", action="store_true", help="also show new calls, until interrupted")
    changes = add_command(
        commands,
        "changes",
        "list changes to policy and keys, and when new settings took effect, the newest first",
        "hookgate audit changes --since 7d",
    )
    changes.add_argument("--since", metavar="TIME", help=f"only those at this time or later, {_WHEN}")
    _add_limit(changes)
    export = add_command(
        commands,
        "export",
        "write records to stdout as lines of JSON",
        "hookgate audit export --since 2026-05-01 --until 2026-06-01 > audit.jsonl",
    )
    export.add_argument("--since", metavar="TIME", help=f"only those written at this time or later, {_WHEN}")
    export.add_argument("--until", metavar="TIME", help="only those written before this time")
    verify = add_command(
        commands,
        "verify",
        "check that no record is missing or changed",
        "hookgate audit verify --expect heads.json",
        "hookgate audit verify audit.jsonl",
    )
    verify.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="an export, instead of the database"
    )
    verify.add_argument(
        "--expect",
        type=Path,
        metavar="HEADS",
        help="earlier heads, or an earlier export, whose records must still be present",
    )
    verify.add_argument(
        "--public-key",
        type=Path,
        metavar="FILE",
        help="require that FILE's last line, and the heads to expect, are signed with this key's private key",
    )
    restore = add_command(
        commands,
        "accept-restore",
        "accept that the last records are missing, after a restore from a backup",
        "hookgate audit accept-restore --by ops@example.com",
    )
    restore.add_argument("--expect", type=Path, metavar="HEADS", help="earlier heads, or an earlier export")
    add_yes_flag(restore)
    add_by_flag(restore)
    heads = add_command(
        commands,
        "heads",
        "print the last record of each writer, to keep on another machine",
        "hookgate audit heads > heads.json",
    )
    for command in (export, heads):
        signing = command.add_mutually_exclusive_group()
        signing.add_argument(
            "--sign-key", type=Path, metavar="FILE", help="sign the heads with this Ed25519 key, in PEM"
        )
        signing.add_argument(
            "--sign-command",
            metavar="COMMAND",
            help="sign the heads with a program that reads them and prints the signature, 64 bytes or base64",
        )
    add_json_flag(listed, report, shown, tail, changes)
    add_quiet_flag(listed, report, changes, export, verify, restore)
    add_state_flags(listed, report, shown, tail, changes, export, verify, restore, heads)


def _add_query(parser: argparse.ArgumentParser) -> None:
    """Add a query and, for each of its words, a flag."""
    parser.add_argument(
        "query",
        nargs="*",
        metavar="WORD:VALUE",
        help="what to find, such as team:web outcome:denied since:yesterday; each word is also a flag",
    )
    for name, text in WORD_HELP.items():
        parser.add_argument(f"--{name}", metavar="VALUE", help=text.replace("%", "%%"))


def _add_limit(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--limit",
        type=whole_number,
        default=50,
        metavar="NUMBER",
        help="list at most so many (default: 50)",
    )
