"""The flags of `hookgate audit`."""

import argparse
from pathlib import Path

from hookgate.proxy.flags import add_state_flags

_WHEN = "such as 2026-05-04, 2026-05-04T10:00Z, 90m, 12h or 7d"


def add_audit(parser: argparse.ArgumentParser) -> None:
    """Its commands."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="audit_command")
    listed = commands.add_parser("list", help="calls and events that have ended, the newest first")
    for name, what in (
        ("session", "of this session"),
        ("key", "with the key of this name"),
        ("model", "of this model"),
        ("outcome", "that ended so: answered, denied, interrupted, …"),
    ):
        listed.add_argument(f"--{name}", default="", help=f"only those {what}")
    listed.add_argument("--since", metavar="TIME", help=f"only those that ended then or later, {_WHEN}")
    listed.add_argument("--limit", type=int, default=50, metavar="N", help="how many; 50 if left out")
    shown = commands.add_parser("show", help="all that is on record of one call")
    shown.add_argument("id", metavar="ID", help="its receipt: the answer's header x-hookgate-receipt")
    tail = commands.add_parser("tail", help="the last calls")
    tail.add_argument("-f", "--follow", action="store_true", help="and those that come, until interrupted")
    export = commands.add_parser("export", help="records as lines of JSON, on stdout")
    export.add_argument("--since", metavar="TIME", help=f"those that were written then or later, {_WHEN}")
    export.add_argument("--until", metavar="TIME", help="those that were written before")
    verify = commands.add_parser("verify", help="prove that no record is missing or changed")
    verify.add_argument(
        "file", nargs="?", type=Path, metavar="FILE", help="an export, instead of the database"
    )
    verify.add_argument(
        "--expect",
        type=Path,
        metavar="HEADS",
        help="what `heads` or an export said before: it has to be there",
    )
    heads = commands.add_parser("heads", help="the last record of each writer, to keep on another machine")
    for command in (listed, shown, tail):
        command.add_argument("--json", action="store_true", help="as JSON, for programs")
    for command in (listed, shown, tail, export, verify, heads):
        add_state_flags(command)
