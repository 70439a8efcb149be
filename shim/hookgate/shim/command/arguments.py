"""The flags of `hookgate event`, `hookgate shim` and `hookgate run`."""

import argparse

from hookgate.shim.command.agents import AGENTS

_GATEWAY = "the gateway's base URL (HOOKGATE_URL, http://127.0.0.1:8787)"


def add_event(parser: argparse.ArgumentParser) -> None:
    """`hookgate event` reads its own words, without this parser, since agents wait for it."""
    parser.add_argument("words", nargs=argparse.REMAINDER)


def add_shim(parser: argparse.ArgumentParser) -> None:
    """The commands of `hookgate shim`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="shim_command")
    install = commands.add_parser("install", help="have an agent tell the gateway of its events")
    _add_agent(install)
    install.add_argument("--gateway", metavar="URL", help=f"write this address, too; else {_GATEWAY}")
    uninstall = commands.add_parser("uninstall", help="take out what `install` wrote")
    _add_agent(uninstall)
    commands.add_parser("status", help="which agents tell the gateway of their events")


def add_run(parser: argparse.ArgumentParser) -> None:
    """The flags of `hookgate run`."""
    parser.usage = "hookgate run [-h] [--gateway URL] [--session NAME] -- COMMAND ..."
    parser.add_argument("--gateway", metavar="URL", help=_GATEWAY)
    parser.add_argument("--session", metavar="NAME", help="the session's name; without, a new one")
    parser.add_argument("command", nargs="+", metavar="COMMAND", help="the program and its arguments")


def _add_agent(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("agent", choices=AGENTS, metavar="AGENT", help=" or ".join(AGENTS))
    scope = parser.add_mutually_exclusive_group()
    scope.add_argument("--user", action="store_true", help="in your own settings; the default")
    scope.add_argument("--project", action="store_true", help="in the settings of the project in this folder")
    parser.add_argument("--yes", action="store_true", help="without asking")
    parser.add_argument("--dry-run", action="store_true", help="show the change, and write nothing")
