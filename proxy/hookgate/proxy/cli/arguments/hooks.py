"""The arguments of `hookgate hooks ...`."""

from collections.abc import Sequence
from pathlib import Path

from hookgate.hooks.settings.event_names import EVENTS
from hookgate.proxy.cli.flags import (
    CommandParser,
    add_command,
    add_hook_flags,
    add_json_flag,
    add_yes_flag,
)


def add_hooks(parser: CommandParser) -> None:
    """Add every command to `hookgate hooks`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="hooks_command")

    def command(name: str, summary: str, *examples: str, aliases: Sequence[str] = ()) -> CommandParser:
        added = add_command(commands, name, summary, *examples, aliases=aliases)
        add_hook_flags(added)
        return added

    listed = command(
        "list",
        "list every hook: event, source, kind, state, last run",
        "hookgate hooks list --policy policy.json",
        aliases=("panel",),  # as Gemini CLI calls it
    )
    shown = command("show", "show everything known about one hook", "hookgate hooks show no-keys")
    shown.add_argument("name", metavar="NAME", help="the name of the hook")
    add_json_flag(listed, shown)
    for name, summary in (("enable", "switch a hook on again"), ("disable", "switch a hook off")):
        switch = command(name, f"{summary}, in your own settings", f"hookgate hooks {name} no-keys")
        switch.add_argument("name", nargs="+", metavar="NAME", help="the names of hooks")
    command("enable-all", "switch hooks on again, in your own settings", "hookgate hooks enable-all")
    command(
        "disable-all",
        "switch all hooks off, in your own settings, except those of policy files",
        "hookgate hooks disable-all",
    )
    trust = command(
        "trust",
        "show a project's new and changed hooks, ask, and trust them",
        "hookgate hooks trust --project .",
    )
    trust.add_argument("name", nargs="*", metavar="NAME", help="only these hooks")
    add_yes_flag(trust)
    test = command(
        "test",
        "run hooks on one event and show what they do; nothing goes upstream",
        "hookgate hooks test BeforeModel --input request.json",
        "hookgate hooks test BeforeTool --name no-rm",
    )
    test.add_argument("event", choices=EVENTS, metavar="EVENT", help=", ".join(EVENTS))
    test.add_argument("--name", metavar="NAME", help="only this hook")
    test.add_argument(
        "--input",
        type=Path,
        metavar="FILE",
        help="a hook's input, or a REST body for a model event; '-' is stdin (default: a sample event)",
    )
    migrate = command(
        "migrate", "import the hooks of Claude Code", "hookgate hooks migrate --from-claude --dry-run"
    )
    migrate.add_argument(
        "--from-claude", action="store_true", required=True, help="from settings of Claude Code"
    )
    migrate.add_argument("--dry-run", action="store_true", help="show the changes without writing them")
    add_command(
        commands,
        "schema",
        "print the JSON Schema of settings, for editors",
        "hookgate hooks schema > settings.schema.json",
    )
    command(
        "doctor",
        "run every hook once on a sample event, and check its settings",
        "hookgate hooks doctor --policy policy.json",
    )
