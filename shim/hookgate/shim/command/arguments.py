"""The command-line arguments of `hookgate event`, `hookgate shim` and `hookgate run`."""

import argparse

from hookgate.shim.command.edits import AGENTS

_GATEWAY = "the gateway's base URL (default: HOOKGATE_URL, or http://127.0.0.1:8787)"


def add_event(parser: argparse.ArgumentParser) -> None:
    """Accept any arguments: `hookgate event` parses its own, because loading argparse takes too long."""
    parser.add_argument("words", nargs=argparse.REMAINDER)


def add_shim(parser: argparse.ArgumentParser) -> None:
    """Add the subcommands of `hookgate shim`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="shim_command")
    install = commands.add_parser(
        "install", help="add hooks to an agent, which report its events to the gateway"
    )
    _add_agent(install)
    install.add_argument(
        "--gateway",
        metavar="URL",
        help="write this gateway's base URL into the hooks (default: HOOKGATE_URL)",
    )
    uninstall = commands.add_parser("uninstall", help="remove what `install` wrote")
    _add_agent(uninstall)
    commands.add_parser("status", help="show which agents report their events to the gateway")


def add_run(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `hookgate run`."""
    parser.usage = "hookgate run [-h] [--gateway URL] [--session NAME] -- COMMAND ..."
    parser.add_argument("--gateway", metavar="URL", help=_GATEWAY)
    parser.add_argument("--session", metavar="NAME", help="the session's ID (default: a new one)")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the program and its arguments")


def _add_agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", choices=AGENTS, metavar="AGENT", help=" or ".join(AGENTS))
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--user", action="store_true", help="use your own settings (default)")
    scope.add_argument(
        "--project", action="store_true", help="use the settings of the project in this folder"
    )
    parser.add_argument("--yes", action="store_true", help="do not ask for confirmation")
    parser.add_argument("--dry-run", action="store_true", help="show the change without writing it")
