"""The arguments of `hookgate policy ...`."""

from pathlib import Path

from hookgate.proxy.cli.flags import CommandParser, add_by_flag, add_command, add_json_flag, add_state_flags

REVISION = "a number, or at least 12 digits of its SHA-256"
"""How a revision is named."""


def add_policy(parser: CommandParser) -> None:
    """Add every command to `hookgate policy`."""
    commands = parser.add_subparsers(required=True, metavar="COMMAND", dest="policy_command")
    push = add_command(
        commands,
        "push",
        "check a settings file, and make it the policy of all gateways",
        "hookgate policy push policy.json --message 'Only Gemini 3'",
    )
    push.add_argument("file", type=Path, metavar="FILE", help="the settings file")
    show = add_command(commands, "show", "print the document of a revision", "hookgate policy show 3")
    show.add_argument("revision", nargs="?", metavar="REVISION", help=f"{REVISION} (default: the newest)")
    diff = add_command(
        commands,
        "diff",
        "compare two revisions, or a file with a revision",
        "hookgate policy diff 3 4",
        "hookgate policy diff policy.json",
    )
    diff.add_argument("first", nargs="?", metavar="REVISION|FILE", help="a file counts as the newer one")
    diff.add_argument("second", nargs="?", metavar="REVISION", help="the other one (default: the newest)")
    history = add_command(
        commands, "history", "list the revisions, the newest first", "hookgate policy history"
    )
    rollback = add_command(
        commands,
        "rollback",
        "push the document of an earlier revision again",
        "hookgate policy rollback 3 --message 'Gemini 3 alone is too strict'",
    )
    rollback.add_argument("revision", metavar="REVISION", help=REVISION)
    add_by_flag(push, rollback)
    for command in (push, rollback):
        command.add_argument("--message", default="", metavar="TEXT", help="why, for the history")
        command.add_argument(
            "--expect", metavar="REVISION", help="refuse it unless this is the newest revision; 0 for none"
        )
        command.add_argument(
            "--scripts-elsewhere",
            action="store_true",
            help="do not check programs, scripts and functions, because only the gateways have them",
        )
    add_json_flag(push, show, history, rollback)
    add_state_flags(push, show, diff, history, rollback)
