"""The arguments of `hookgate approvals ...`."""

from hookgate.proxy.cli.flags import (
    CommandParser,
    add_by_flag,
    add_command,
    add_json_flag,
    add_state_flags,
    add_yes_flag,
)


def add_approvals(parser: CommandParser) -> None:
    """Add every command to `hookgate approvals`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="approvals_command")
    listed = add_command(
        commands, "list", "list the requests that wait for a decision", "hookgate approvals list"
    )
    listed.add_argument("--all", action="store_true", help="list requests that are over, too")
    show = add_command(
        commands, "show", "show a request with the arguments of the call", "hookgate approvals show 4f1c"
    )
    approve = add_command(
        commands,
        "approve",
        "approve a call, or calls of tools for a time",
        "hookgate approvals approve 4f1c --by ada",
        "hookgate approvals approve 4f1c --tool 'git_*' --for 8h",
    )
    deny = add_command(
        commands,
        "deny",
        "deny a call, or withdraw an approval",
        "hookgate approvals deny 4f1c --reason 'Ask the owner of the host first.'",
    )
    for command in (show, approve, deny):
        command.add_argument("id", metavar="ID", help="the ID of the request, or its first digits")
    approve.add_argument(
        "--scope",
        choices=("once", "session"),
        help="once: the call, one time (default); session: the same call in its session",
    )
    approve.add_argument(
        "--tool", metavar="PATTERN", help="approve all calls of these tools with the same key"
    )
    approve.add_argument(
        "--for", dest="duration", metavar="TIME", help="for how long, with --tool, such as 30m, 8h or 2d"
    )
    for command in (approve, deny):
        command.add_argument(
            "--reason", default="", metavar="TEXT", help="why; a denial tells it to the model"
        )
    add_yes_flag(approve)
    add_by_flag(approve, deny)
    add_json_flag(listed, show, approve, deny)
    add_state_flags(listed, show, approve, deny)
