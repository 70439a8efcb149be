"""The arguments of `hookgate receipt`, `hookgate replay` and `hookgate data ...`, about recorded calls."""

import argparse
from pathlib import Path

from hookgate.proxy.cli.flags import (
    CommandParser,
    add_admin_flag,
    add_by_flag,
    add_command,
    add_json_flag,
    add_quiet_flag,
    add_state_flags,
    add_yes_flag,
)


def add_receipt(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate receipt`."""
    parser.add_argument(
        "receipt", metavar="ID", help="the receipt's ID, from the answer's header x-hookgate-receipt"
    )
    add_admin_flag(parser)
    add_state_flags(parser)


def add_replay(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate replay`."""
    parser.add_argument(
        "--policy",
        type=Path,
        nargs="+",
        action="extend",
        metavar="FILE",
        help="settings files with the hooks to try, highest precedence first (default: the gateway's hooks)",
    )
    parser.add_argument(
        "--prices",
        type=Path,
        metavar="FILE",
        help="a price table, for limits on cost (default: the gateway's)",
    )
    add_state_flags(parser)
    add_json_flag(parser)
    add_quiet_flag(parser)
    parser.add_argument(
        "export",
        type=Path,
        nargs="*",
        metavar="AUDIT",
        help="a file that `hookgate audit export` has written",
    )


def add_data(parser: CommandParser) -> None:
    """Add every command to `hookgate data`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="data_command")
    find = add_command(
        commands, "find", "show how much is stored about a person", "hookgate data find --person alice"
    )
    export = add_command(
        commands,
        "export",
        "write what is stored about a person as lines of JSON",
        "hookgate data export --person alice > alice.jsonl",
    )
    erase = add_command(
        commands,
        "erase",
        "erase what is stored about a person, and record that",
        "hookgate data erase --person alice --dry-run",
    )
    for command in (find, export, erase):
        command.add_argument(
            "--person",
            required=True,
            metavar="NAME",
            help="the name of a key, which is the owner of issued keys, or the ID of one of these",
        )
    erase.add_argument("--dry-run", action="store_true", help="only show what would be erased")
    add_yes_flag(erase)
    add_by_flag(erase)
    add_json_flag(find, erase)
    add_quiet_flag(find, export, erase)
    add_state_flags(find, export, erase)
