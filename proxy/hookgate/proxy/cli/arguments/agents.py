"""The arguments of `hookgate agents ...`, `hookgate shim ...` and `hookgate run`."""

import argparse
import math
from pathlib import Path

from hookgate.proxy.cli.flags import (
    CommandParser,
    add_admin_flag,
    add_command,
    add_json_flag,
    add_state_flags,
    add_yes_flag,
)
from hookgate.shim.command.edits import AGENTS

_GATEWAY = "the gateway's base URL, as agents reach it (default: HOOKGATE_URL, or as configured)"


def add_agents(parser: CommandParser) -> None:
    """Add every command to `hookgate agents`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="agents_command")
    listing = add_command(commands, "list", "list the agents that are known", "hookgate agents list")
    add_json_flag(listing)
    show = add_command(
        commands,
        "show",
        "print the settings with which an agent uses the gateway",
        "hookgate agents show gemini-cli --gateway https://gate.example",
    )
    show.add_argument(
        "--write",
        type=Path,
        metavar="FILE",
        help="write the settings for device management to a new file, with the key from stdin",
    )
    check = add_command(
        commands,
        "check",
        "wait for a call of an agent, and print its outcome",
        "hookgate agents check gemini-cli --timeout 120",
    )
    check.add_argument(
        "--timeout", type=_seconds, default=60.0, metavar="SECONDS", help="how long to wait (default: 60)"
    )
    for command in (show, check):
        command.add_argument("name", metavar="NAME", help="an agent, as `hookgate agents list` names it")
        command.add_argument("--gateway", metavar="URL", help=_GATEWAY)
    add_admin_flag(check)
    add_state_flags(show, check)


def _seconds(text: str) -> float:
    seconds = float(text)
    if not 0 < seconds < math.inf:
        raise argparse.ArgumentTypeError("must be a positive number of seconds")
    return seconds


def add_shim(parser: CommandParser) -> None:
    """Add every command to `hookgate shim`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="shim_command")
    install = add_command(
        commands,
        "install",
        "add hooks to an agent, which report its events to the gateway",
        "hookgate shim install gemini-cli",
        "hookgate shim install claude-code --project --gateway https://gate.example",
    )
    uninstall = add_command(
        commands, "uninstall", "remove what `install` wrote", "hookgate shim uninstall gemini-cli"
    )
    for command in (install, uninstall):
        command.add_argument("agent", choices=tuple(AGENTS), metavar="AGENT", help=", ".join(AGENTS))
        scope = command.add_mutually_exclusive_group()
        scope.add_argument("--user", action="store_true", help="use your own settings (default)")
        scope.add_argument(
            "--project", action="store_true", help="use the settings of the project in this folder"
        )
        command.add_argument("--dry-run", action="store_true", help="show the change without writing it")
    add_yes_flag(install, uninstall)
    install.add_argument(
        "--gateway",
        metavar="URL",
        help="write this gateway's base URL into the hooks (default: HOOKGATE_URL)",
    )
    install.add_argument(
        "--on-unreachable",
        choices=("allow", "deny"),
        default="allow",
        help="what the hooks decide if the gateway is unreachable (default: allow)",
    )
    add_command(
        commands,
        "status",
        "show which agents report their events to the gateway",
        "hookgate shim status",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate run`."""
    parser.usage = "hookgate run [-h] [--gateway URL] [--session NAME] -- COMMAND ..."
    parser.add_argument(
        "--gateway",
        metavar="URL",
        help="the gateway's base URL (default: HOOKGATE_URL, or http://127.0.0.1:8787)",
    )
    parser.add_argument("--session", metavar="NAME", help="the session's ID (default: a new one)")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the program and its arguments")


def add_event(parser: argparse.ArgumentParser) -> None:
    """Take all words: `hookgate event` parses its own arguments, because loading argparse takes too long."""
    parser.add_argument("words", nargs=argparse.REMAINDER)
