"""The commands of `hookgate hooks` and their flags."""

import argparse
import logging
from pathlib import Path

from hookgate.hooks.settings import EVENTS
from hookgate.proxy.flags import add_hook_flags


def add_commands(parser: argparse.ArgumentParser) -> None:
    """Add every command to `hookgate hooks`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="hooks_command")

    def command(name: str, told: str) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=told, description=told[0].upper() + told[1:] + ".")
        add_hook_flags(added)
        added.set_defaults(log_level=logging.WARNING)
        return added

    listed = command("list", "every hook: event, source, kind, state, how it last ran")
    listed.add_argument("--json", action="store_true", help="as JSON, for programs")
    command("show", "all that is known of one hook").add_argument("name")
    for name, told in (("enable", "switch a hook on again"), ("disable", "switch a hook off")):
        command(name, f"{told}, in your own settings").add_argument("name", nargs="+")
    command("enable-all", "switch hooks on again, in your own settings")
    command("disable-all", "switch all hooks off, in your own settings; a policy file's stay")
    trust = command("trust", "look at a project's new and changed hooks, and let them run")
    trust.add_argument("name", nargs="*", help="only these hooks")
    trust.add_argument("--yes", action="store_true", help="without asking")
    tried = command("test", "run hooks on one event and see what they do; nothing is sent anywhere")
    tried.add_argument("event", choices=EVENTS, metavar="EVENT", help=", ".join(EVENTS))
    tried.add_argument("--name", help="only this hook")
    tried.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="a hook's input, or a REST body for a model event; '-' is stdin; without, a harmless one",
    )
    migrate = command("migrate", "take over the hooks of Claude Code")
    migrate.add_argument("--from-claude", action="store_true", required=True)
    migrate.add_argument("--dry-run", action="store_true", help="show what would be written")
    command("schema", "print the JSON Schema of settings, for editors")
    command("doctor", "run every hook once on a harmless event, and check its settings")
